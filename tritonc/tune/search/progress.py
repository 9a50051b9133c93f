"""How a search goes, told on a terminal in one line that changes, elsewhere in plain lines."""

import os
import time
from collections.abc import Mapping
from typing import TextIO

from tritonc.tune.search.journal import Record
from tritonc.tune.search.schedule import Search

_BAR = 20  # characters
_REFRESH_SECONDS = 0.1  # of the line on a terminal
_LONG = 10.0  # seconds that are worth an estimate
_LINE_SECONDS = 10.0  # between plain lines, unless something better was found


class ProgressLine:
    """A `schedule.Progress` that writes to a stream."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.terminal = stream.isatty()
        self.failed = 0
        self._shown = 0.0
        self._measured = 0
        self._width = 0

    def finished(self, search: Search, record: Record) -> None:
        self.failed += record.milliseconds is None
        self._measured += 1
        if not self.terminal and search.best(record.size) is record:
            self.write(f"{search.done}/{search.total}: {text(record.candidate)} takes "
                       f"{record.milliseconds:.4g} ms{_of(search, record.size)}")
        self.tick(search)

    def begins(self, search: Search, seconds: float) -> None:
        left = search.total - search.done
        if left and min(seconds, search.budget) >= _LONG:
            self.write(f"at most {_clock(seconds)} for {left} measurements, less for kernels that "
                       "come out equal; --budget=SECONDS ends it earlier, Ctrl-C at once")

    def tick(self, search: Search) -> None:
        now = time.monotonic()
        if now - self._shown < (_REFRESH_SECONDS if self.terminal else _LINE_SECONDS):
            return
        self._shown = now
        filled = _BAR * search.done // max(search.total, 1)
        bar = f"[{'=' * filled}{' ' * (_BAR - filled)}] " if self.terminal else ""
        parts = [f"{search.done}/{search.total}"]
        best = search.best(search.sizes[0])
        if best is not None:
            parts.append(f"best {best.milliseconds:.4g} ms ({text(best.candidate)})")
        if self.failed:
            parts.append(f"{self.failed} cannot run")
        if search.slowed:
            parts.append(f"slowed {search.slowed} times")
        parts.append(f"{_left(search, self._measured, now)} left")
        line = bar + ", ".join(parts)
        if self.terminal:
            line = line[: self._columns() - 1]  # one that wraps could not be written over
            self.stream.write("\r" + line.ljust(self._width))
            self.stream.flush()
            self._width = len(line)
        else:
            self.write(line)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or 80
        except OSError:
            return 80

    def write(self, line: str) -> None:
        """A line of its own."""
        if self.terminal and self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self._width = 0
        self.stream.write(line + "\n")
        self.stream.flush()


def text(binding: Mapping[str, int]) -> str:
    """A candidate, or a size, on one line.

    >>> text({"TM": 64, "num_warps": 8})
    'TM=64,num_warps=8'
    """
    return ",".join(f"{name}={value}" for name, value in binding.items()) or "no choice"


def _of(search: Search, size: Mapping[str, int]) -> str:
    return f" at {text(size)}" if len(search.sizes) > 1 else ""


def _left(search: Search, measured: int, now: float) -> str:
    """The time left, by what was measured in this run so far."""
    spent = now - search.started
    if not measured:
        return "?"
    seconds = min(spent / measured * (search.total - search.done), max(search.budget - spent, 0.0))
    return _clock(seconds)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
