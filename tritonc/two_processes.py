"""Passes on the entries of a module, some of them in a fork of this process.

Python runs in one thread at a time, so that a second processor needs a second process.  Each takes
the next entry when it has done one.  The fork sends what it made at its end; however that comes,
entries that it did not send are left to this process.  What comes out does not depend on who did
what."""

import os
import pickle
import signal
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress

from tritonc.backend.ahead import Ahead
from tritonc.ir.copies import flat, unflat
from tritonc.ir.core import Kernel

_MOST = 256  # entries: a number of one byte, and what the fork sends has to fit in memory twice


def possible() -> bool:
    """Whether there is a second processor, and no thread whose locks a fork would find held."""
    known = getattr(os, "sched_getaffinity", None)
    count = len(known(0)) if known is not None else os.cpu_count() or 1
    return hasattr(os, "fork") and count > 1 and threading.active_count() == 1


def share(kernels: Sequence[Kernel], names: Container[str], run: Callable[[Kernel], None],
          ahead: Ahead, seconds: dict[str, float], whole: Callable[[Kernel], bool]) -> None:
    """`run` the kernels, entries of these names here or in a fork, whose `seconds` are added.
    `whole` says of an entry whether it and its PTX are all that came of it."""
    entries = [kernel for kernel in kernels if kernel.name in names]
    if not 0 < len(entries) <= _MOST or not possible():
        for kernel in kernels:
            run(kernel)
        return
    turns, turn = os.pipe()
    results, result = os.pipe()
    first = os.getpid()
    os.write(turn, bytes(range(len(entries))))
    os.close(turn)

    def mine() -> Iterator[int]:
        for (number,) in iter(lambda: os.read(turns, 1), b""):
            if first not in (os.getpid(), os.getppid()):
                return  # a signal has ended the first process: nobody waits
            run(entries[number])
            yield number

    child = -1
    with suppress(OSError):  # too many processes, or no memory for another one
        child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.close(results)  # or the last `write` waits for this process itself to read
            made = [(number, flat(entry), ahead.known(entry)) for number in [*mine()]
                    if whole(entry := entries[number])]
            with open(result, "wb") as sink:
                pickle.dump((made, seconds), sink)
        os._exit(0)
    os.close(result)
    try:
        for kernel in kernels:
            if kernel.name not in names:
                run(kernel)
        left = {*range(len(entries))}.difference(mine())
        with open(results, "rb") as source, suppress(EOFError, pickle.UnpicklingError):
            made, more = pickle.load(source)
            for number, data, ptx in made:
                vars(entries[number]).update(vars(unflat(data)))
                if ptx is not None:
                    ahead.tell(entries[number], ptx)
                left.remove(number)
            seconds.update({label: seconds.get(label, 0) + time for label, time in more.items()})
        for number in sorted(left):
            run(entries[number])
    finally:
        os.close(turns)
        if child > 0:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):  # where SIGCHLD is ignored, there is nothing to ask
                os.waitpid(child, 0)
