"""Passes on the kernels of a module, some of them in a fork of this process.

Python runs in one thread at a time, so that a second processor needs a second process.  Each takes
the next kernel when it has done one.  The fork sends what it made at its end; however that comes,
kernels that it did not send are left to this process.  What comes out does not depend on who did
what."""

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, TypeVar

from tritonc.backend.ahead import Ahead
from tritonc.ir.copies import flat, unflat
from tritonc.ir.core import Kernel
from tritonc.source import SourceFile

T = TypeVar("T")
_MOST = 256  # kernels: a number of one byte, and what the fork sends has to fit in memory twice


def possible() -> bool:
    """Whether there is a second processor, and no thread whose locks a fork would find held."""
    known = getattr(os, "sched_getaffinity", None)
    count = len(known(0)) if known is not None else os.cpu_count() or 1
    return hasattr(os, "fork") and count > 1 and threading.active_count() == 1


def share(kernels: Sequence[Kernel], shared: Sequence[Kernel], run: Callable[[Kernel], None],
          ahead: Ahead, seconds: dict[str, float], told: Callable[[Kernel], T | None],
          take: Callable[[Kernel, T], None]) -> None:
    """`run` the kernels, those that are `shared` here or in a fork, whose `seconds` are added.
    `told` gives what came of a kernel in the fork beside it and its PTX, for `take` to have here;
    None if it is to be done here again."""
    if len(kernels) < 2 or not 0 < len(shared) <= _MOST or not possible():
        for kernel in kernels:
            run(kernel)
        return
    files = _files(kernels)
    turns, turn = os.pipe()
    results, result = os.pipe()
    first = os.getpid()
    os.write(turn, bytes(range(len(shared))))
    os.close(turn)

    def mine() -> Iterator[int]:
        for (number,) in iter(lambda: os.read(turns, 1), b""):
            if first not in (os.getpid(), os.getppid()):
                return  # a signal has ended the first process: nobody waits
            run(shared[number])
            yield number

    child = -1
    with suppress(OSError):  # too many processes, or no memory for another one
        child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.close(results)  # or the last `write` waits for this process itself to read
            made = [(number, flat(kernel), ahead.known(kernel), more) for number in [*mine()]
                    if (more := told(kernel := shared[number])) is not None]
            with open(result, "wb") as sink:
                _send((made, seconds), sink, files)
        os._exit(0)
    os.close(result)
    try:
        for kernel in kernels:
            if kernel not in shared:
                run(kernel)
        left = {*range(len(shared))}.difference(mine())
        with open(results, "rb") as source, suppress(EOFError, pickle.UnpicklingError):
            made, times = _Received(source, files).load()
            for number, data, ptx, more in made:
                kernel = shared[number]
                vars(kernel).update(vars(unflat(data)))
                if ptx is not None:
                    ahead.tell(kernel, ptx)
                take(kernel, more)
                left.remove(number)
            seconds.update({label: seconds.get(label, 0) + time for label, time in times.items()})
        for number in sorted(left):
            run(shared[number])
    finally:
        os.close(turns)
        if child > 0:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):  # where SIGCHLD is ignored, there is nothing to ask
                os.waitpid(child, 0)


def _files(kernels: Sequence[Kernel]) -> list[SourceFile]:
    """The files that the kernels come from."""
    spans = {op.span for kernel in kernels for op in kernel.ops() if op.span is not None}
    return [*{span.file for span in spans}]


def _send(made: object, sink: IO[bytes], files: Sequence[SourceFile]) -> None:
    """Pickle `made`; the files, which both processes have, by their numbers.  A table asks of files
    alone; pickle's `persistent_id` would be asked of every object."""
    numbers = {file: number for number, file in enumerate(files)}
    pickler = pickle.Pickler(sink)
    pickler.dispatch_table = {SourceFile: lambda file: (
        _numbered, (numbers[file],)) if file in numbers else file.__reduce_ex__(2)}
    pickler.dump(made)


def _numbered(number: int) -> SourceFile:
    """Stands for `_Received.files`."""
    raise NotImplementedError


class _Received(pickle.Unpickler):
    def __init__(self, source: IO[bytes], files: Sequence[SourceFile]) -> None:
        super().__init__(source)
        self.files = files

    def find_class(self, module: str, name: str) -> Any:
        return self.files.__getitem__ if name == _numbered.__name__ else super().find_class(
            module, name)
