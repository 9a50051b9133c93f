"""The commands of `tritonc debug`, in the words of gdb and lldb."""

import cmd
from contextlib import suppress
from typing import IO

from tritonc.debugger import stopping
from tritonc.debugger.show import NotShown, show, shown, type_of
from tritonc.interp.frame import Frame
from tritonc.ir.core import Stop
from tritonc.source import SourceFile

_SHORT = {"b": "break", "c": "continue", "r": "continue", "s": "step", "n": "next", "p": "print",
          "l": "list", "bt": "where", "q": "quit", "h": "help", "i": "instance", "w": "watch",
          "fin": "finish", "d": "delete", "info": "locals"}
_AROUND = 5  # lines before and after
_MANY = 72  # characters of a value in `locals`


class Prompt(cmd.Cmd):
    """Reads commands while the program is stopped; a command that lets it go on returns True."""

    prompt = "(tritonc) "
    doc_header = "Commands (help COMMAND says more):"

    def __init__(self, source: SourceFile, commands: IO[str], output: IO[str], echo: bool) -> None:
        super().__init__(stdin=commands, stdout=output)
        self.use_rawinput = False
        self.echo = echo  # commands come from a file, and are written too
        self.source = source
        self.session = stopping.Session(self.stopped)
        self.level = 0  # how many callers up
        self.begun: Frame | None = None  # the instance of the last message
        self.over = False  # the program has ended with an error; there is only looking

    # --- between the program and the commands

    def stopped(self, reason: str) -> None:
        """Say where the program is, and read commands until one lets it go on.  Raises Quit."""
        self.level = 0
        frame, stop = self._here()
        if reason:
            self._say(reason)
        if frame is not self.begun:
            self.begun = frame
            self._say(f"instance {stopping.place(frame.instance.index)} of kernel "
                      f"'{frame.launch.kernel.name}'")
        self._line(stopping.line_of(stop), stop)
        self.cmdloop()

    def failed(self) -> None:
        """The program has ended with an error, after the last stop: what held there can be seen."""
        self.over = True
        if self.session.reached is not None:
            self.session.frame, self.session.stop = self.session.reached
            with suppress(stopping.Quit):
                self.cmdloop()

    def _here(self) -> tuple[Frame, Stop]:
        frame, stop = self.session.frame, self.session.stop
        assert frame is not None and stop is not None
        for _ in range(self.level):
            assert stop.caller is not None
            stop = stop.caller
        return frame, stop

    def _say(self, text: str) -> None:
        print(text, file=self.stdout)

    def _line(self, line: int, stop: Stop | None = None) -> None:
        source = self.source if stop is None else stop.span.file
        mark = "->" if stop is not None else "  "
        self._say(f"{mark}{line:5}  {source.line_text(line)}".rstrip())

    def precmd(self, line: str) -> str:
        """Long names for short ones."""
        line = line.strip()
        if self.echo and line != "EOF":
            self._say(line)  # the prompt stands there
        if line.startswith("#"):
            return "#"
        word, _, rest = line.partition(" ")
        word, slash, form = word.partition("/")
        return f"{_SHORT.get(word, word)} {slash}{form} {rest}".strip() if word else line

    def onecmd(self, line: str) -> bool:
        """Run one command; what is wrong with it is a sentence."""
        if line == "#":
            return False
        try:
            return bool(super().onecmd(line))
        except NotShown as error:
            self._say(str(error))
            return False

    def default(self, line: str) -> bool | None:  # type: ignore[override]
        self._say(f"there is no command '{line.split()[0]}'; help lists them")
        return None

    def do_EOF(self, _: str) -> bool:
        if self.echo:
            self._say("")
        raise stopping.Quit

    # --- going on

    def _go(self, mode: str) -> bool:
        if self.over:
            self._say("the program has ended")
            return False
        self.session.mode = mode
        return True

    def do_continue(self, _: str) -> bool:
        """continue (c): run to the next breakpoint, or to the end."""
        return self._go(stopping.ON)

    def do_step(self, _: str) -> bool:
        """step (s): run to the next statement, into functions; an empty line does it again."""
        return self._go(stopping.INTO)

    def do_next(self, _: str) -> bool:
        """next (n): run to the next statement of this function."""
        return self._go(stopping.OVER)

    def do_finish(self, _: str) -> bool:
        """finish: run until this function returns."""
        return self._go(stopping.OUT)

    def do_quit(self, _: str) -> bool:
        """quit (q): end the program and the debugger."""
        raise stopping.Quit

    def do_instance(self, text: str) -> bool:
        """instance: which one this is.  instance 1, 0 (i): run until that one begins."""
        if not text:
            self._say(stopping.place(self._here()[0].instance.index))
            return False
        index = self._index(text)
        if index is None:
            return False
        self.session.add(stopping.Breakpoint(instance=index, once=True))
        return self._go(stopping.ON)

    # --- where to stop

    def do_break(self, text: str) -> None:
        """break 12 (b), break NAME: stop at that line, or where that function begins.
        break 12 at 1, 0: only in that instance."""
        where, _, at = text.partition(" at ")
        point = stopping.Breakpoint()
        if at and (index := self._index(at)) is None:
            return
        point.instance = index if at else None
        lines = sorted({stopping.line_of(stop) for stop in self._stops()})
        if where.strip().isdigit():
            wanted = int(where)
            point.line = next((line for line in lines if line >= wanted), 0)
            if not point.line:
                self._say(f"there is no statement at line {wanted} or after it")
                return
        elif where.strip() in {stop.function for stop in self._stops()}:
            point.function = where.strip()
        else:
            self._say(f"'{where.strip()}' is neither a line nor a function of this kernel")
            return
        self._say(f"breakpoint {self.session.add(point)}: {point}")

    def do_watch(self, text: str) -> None:
        """watch acc[0, 0] (w): stop when that changes in an instance."""
        frame, stop = self._here()
        function = stop.function

        def look(frame: Frame, stop: Stop) -> str | None:
            if stop.function != function:
                return None
            try:
                return show(text, frame, stop)
            except NotShown:
                return None

        watch = stopping.Watch(text, look)
        watch.last[frame] = show(text, frame, stop)
        self._say(f"watch {self.session.add(watch)}: {text}")

    def do_delete(self, text: str) -> None:
        """delete 2 (d): forget breakpoint or watch 2; without a number all."""
        session = self.session
        if not text:
            session.breakpoints.clear()
            session.watches.clear()
        elif not text.isdigit() or (session.breakpoints.pop(int(text), None) is None
                                    and session.watches.pop(int(text), None) is None):
            self._say(f"there is no breakpoint or watch {text}")

    def do_breakpoints(self, _: str) -> None:
        """breakpoints: list breakpoints and watches."""
        for number, point in self.session.breakpoints.items():
            self._say(f"{number}: {point}")
        for number, watch in self.session.watches.items():
            self._say(f"{number}: watch {watch.text}")

    # --- looking

    def do_print(self, text: str) -> None:
        """print acc (p), print acc[0:4, 0], print *p, print *p[0:8]: a variable, a part of it,
        what a pointer points to, memory behind a scalar pointer.  ? is an undefined element."""
        frame, stop = self._here()
        self._say(show(text, frame, stop))

    def do_type(self, text: str) -> None:
        """type acc: the type of a variable."""
        self._say(type_of(text, self._here()[1]))

    def do_locals(self, _: str) -> None:
        """locals: all variables that can be named here."""
        frame, stop = self._here()
        for name, seen in stop.variables.items():
            value = show(name, frame, stop)
            short = " ".join(value.split())
            self._say(f"{seen.type} {name} = "
                      f"{short if len(short) <= _MANY else short[:_MANY] + ' ...'}")

    def do_predicate(self, _: str) -> None:
        """predicate: the tile predicate in force, the elements that the statement computes."""
        frame, stop = self._here()
        self._say("there is none" if stop.predicate is None else shown(stop.predicate, frame))

    def do_where(self, _: str) -> None:
        """where (bt): the statement, and the calls that lead to it."""
        frame, stop = self.session.frame, self.session.stop
        assert frame is not None
        level = 0
        while stop is not None:
            mark = "->" if level == self.level else "  "
            self._say(f"{mark} {stop.function}, line {stopping.line_of(stop)}")
            stop, level = stop.caller, level + 1

    def do_up(self, _: str) -> None:
        """up: look at the caller's variables."""
        if self._here()[1].caller is None:
            self._say("this is the kernel")
        else:
            self._look(self.level + 1)

    def do_down(self, _: str) -> None:
        """down: back to the function that was called."""
        if not self.level:
            self._say("this is where the program is")
        else:
            self._look(self.level - 1)

    def do_list(self, text: str) -> None:
        """list (l), list 20: the source around the statement, or around a line."""
        stop = self._here()[1]
        source = stop.span.file
        if text and not text.isdigit():
            self._say(f"'{text}' is not a line")
            return
        middle = int(text) if text else stopping.line_of(stop)
        for line in range(max(1, middle - _AROUND),
                          min(len(source.line_starts), middle + _AROUND) + 1):
            self._line(line, stop if line == stopping.line_of(stop) else None)

    # --- helpers

    def _look(self, level: int) -> None:
        self.level = level
        stop = self._here()[1]
        self._line(stopping.line_of(stop), stop)

    def _stops(self) -> list[Stop]:
        return self._here()[0].launch.kernel.stops

    def _index(self, text: str) -> tuple[int, ...] | None:
        words = text.strip(" ()").replace(",", " ").split()
        grid = self._here()[0].launch.grid
        if all(map(str.isdigit, words)) and 0 < len(words) <= len(grid):
            index = tuple(map(int, words)) + (0,) * (len(grid) - len(words))
            if all(i < extent for i, extent in zip(index, grid, strict=True)):
                return index
        self._say(f"'{text}' is not an instance of the grid {stopping.place(grid)}")
        return None
