"""Where a debugged kernel stops: breakpoints, steps, and values that change."""

from collections.abc import Callable, Mapping
from dataclasses import field

from tritonc.interp.frame import Frame, Step
from tritonc.ir.core import Block, Kernel, Op, Stop
from tritonc.records import dataclass

INTO, OVER, OUT, ON = "step", "next", "finish", "continue"


class Quit(Exception):
    """The user ends the program that is debugged."""


@dataclass
class Breakpoint:
    """A place to stop at: a line of the source, or the first statement of a function.

    `instance`: only there.  `once`: it is gone after the first stop."""

    line: int = 0
    function: str = ""
    instance: tuple[int, ...] | None = None
    once: bool = False

    def __str__(self) -> str:
        where = f"line {self.line}" if self.line else (
            f"function {self.function}" if self.function else "the start")
        return where if self.instance is None else f"{where} of instance {place(self.instance)}"


@dataclass
class Watch:
    """A value to stop at when it changes: `look` gives it as text, None where it cannot be seen."""

    text: str
    look: Callable[[Frame, Stop], str | None]
    last: dict[Frame, str] = field(default_factory=dict)


class Session:
    """Decides where to stop.  At a stop, `ask` gets the reason, reads commands and returns."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        self.ask = ask
        self.breakpoints: dict[int, Breakpoint] = {}
        self.watches: dict[int, Watch] = {}
        self.made = 0  # breakpoints and watches so far
        self.mode = INTO
        self.frame: Frame | None = None  # where it stopped last
        self.stop: Stop | None = None
        self.reached: tuple[Frame, Stop] | None = None  # the last statement, stopped at or not
        self.ended: set[Frame] = set()
        self.firsts: dict[Stop, str] = {}  # the first statement of each function

    def add(self, what: Breakpoint | Watch) -> int:
        """The number of a new breakpoint or watch."""
        self.made += 1
        if isinstance(what, Breakpoint):
            self.breakpoints[self.made] = what
        else:
            self.watches[self.made] = what
        return self.made

    def steps(self, kernel: Kernel) -> Mapping[Block | Op, list[Step]]:
        """What the interpreter does beside the operations of a kernel."""
        found: dict[Block | Op, list[Step]] = {}
        calls: set[tuple[Stop | None, str]] = set()
        for stop in kernel.stops:
            if (stop.caller, stop.function) not in calls:
                calls.add((stop.caller, stop.function))
                self.firsts[stop] = stop.function
            found.setdefault(stop.after or stop.block, []).append(self._reaching(stop))
        for block in kernel.blocks:
            if not block.successors:
                last = block.ops[-2] if len(block.ops) > 1 else block
                found.setdefault(last, []).append(self.ended.add)
        return found

    def _reaching(self, stop: Stop) -> Step:
        def step(frame: Frame) -> None:
            self.reached = frame, stop
            reason = self._reason(frame, stop)
            if reason is not None:
                self.frame, self.stop = frame, stop
                self.ask(reason)

        return step

    def _reason(self, frame: Frame, stop: Stop) -> str | None:
        """Why to stop here, "" after a step; None to go on."""
        reasons = [reason for number, watch in self.watches.items()
                   if (reason := _changed(number, watch, frame, stop))]
        for number, point in list(self.breakpoints.items()):
            if self._at(point, frame, stop):
                reasons.append("" if point.once else f"breakpoint {number}")
                if point.once:
                    del self.breakpoints[number]
        return ", ".join(filter(None, reasons)) if reasons or self._stepped(frame, stop) else None

    def _at(self, point: Breakpoint, frame: Frame, stop: Stop) -> bool:
        if point.instance is not None and point.instance != frame.instance.index:
            return False
        if point.line:
            return line_of(stop) == point.line
        if point.function:
            return self.firsts.get(stop) == point.function
        return stop.caller is None and stop in self.firsts

    def _stepped(self, frame: Frame, stop: Stop) -> bool:
        if self.mode == ON:
            return False
        if self.frame is None or self.stop is None:
            return True
        if frame is not self.frame:
            return self.frame in self.ended
        if self.mode == INTO:
            return True
        return stop.depth <= self.stop.depth - (self.mode == OUT)


def _changed(number: int, watch: Watch, frame: Frame, stop: Stop) -> str:
    now = watch.look(frame, stop)
    if now is None:
        return ""
    before, watch.last[frame] = watch.last.get(frame), now
    if before is None or before == now:
        return ""
    return f"watch {number}: {watch.text} was {before}, is {now}"


def line_of(stop: Stop) -> int:
    return stop.span.file.line_column(stop.span.start)[0]


def place(index: tuple[int, ...]) -> str:
    """An instance as messages name it."""
    return f"({', '.join(map(str, index))})"
