"""What is pending at a point of the program: accesses of memory since the last barrier."""

from math import gcd

from tritonc.analysis.aliases import apart
from tritonc.ir.cfg import Loop
from tritonc.ir.core import Kernel, Op, Value
from tritonc.records import NamedTuple


class Pending(NamedTuple):
    """An access since the last barrier.

    Shared memory: bytes [start, end), in the loop of `stage_loop` at distance `ahead` of `stages`.
    Global memory: `root` is the parameter or table that the pointer comes from (None if unknown),
    `pointer` the addresses, if each is one thread's; `release`: tells other programs that all
    before it is done; `moves`: the addresses, if they are others in each iteration of `stage_loop`,
    of which this one was `before`; `every`: all addresses are a number modulo another one, in
    elements; `scalar`: stored by the first thread.

    `proxy`: of a thread's write, how far it is on its way to the asynchronous proxy (wgmma, tensor
    copies and stores): the threads that wrote must fence it, and then all threads must meet.  What
    a barrier has passed with no fence before it is settled among threads only (MET).

    `handed`: how far a read in such a buffer is known to have ended, to the thread that makes its
    copies:  RELEASED by all warps, then ACQUIRED by that thread.  `copies`: an access of that
    thread's.

    `piece`: others of the tile are other elements.

    `atomic`: how memory is changed, if nobody reads what it was: such need no barrier between them.

    `grouped`: of a buffer in which each warpgroup has a part of its own."""

    write: bool
    start: int = 0
    end: int = 0
    ahead: int | None = None
    stages: int = 1
    stage_loop: Loop | None = None
    continues: bool = False  # in the loops around that one
    flight: str = ""  # "copy", "wgmma" or "store" while it is not known to have ended
    age: int = 0  # groups of its kind closed since, this one's included
    alone: bool = False  # by the first thread, in its own order
    is_global: bool = False
    root: Value | None = None
    pointer: Value | None = None
    release: bool = False
    moves: Value | None = None
    before: bool = False
    every: tuple[int, int] = (0, 1)
    scalar: bool = False
    proxy: str = ""  # "", FENCED, MET, or both
    handed: int = 0
    copies: bool = False
    private: Op | None = None  # a buffer whose elements are one thread's each
    grouped: bool = False
    atomic: object = None
    piece: tuple[Value, int] | None = None  # of a tile that is stored in pieces

    @property
    def own_write(self) -> bool:
        """Whether a thread writes shared memory itself."""
        return self.write and not (self.is_global or self.flight or self.copies)

    @property
    def by_proxy(self) -> bool:
        """Whether the asynchronous proxy makes the access, just now."""
        return self.copies or self.flight in ("wgmma", "store")


RELEASED, ACQUIRED = 1, 2
FENCED, MET = "fenced", "met"
State = frozenset[Pending]


def conflict(kernel: Kernel, old: Pending, new: Pending) -> bool:
    """Whether threads must meet between two accesses."""
    if not (old.write or new.write) or old.is_global != new.is_global:
        return False
    if old.is_global:
        if old.scalar and new.scalar:
            return False
        if new.release:
            return True
        if old.pointer is not None and old.pointer is new.pointer:
            return False
        if old.atomic is not None and old.atomic == new.atomic:
            return False
        if old.before and old.moves is new.moves:
            return False
        (one, n), (other, m) = old.every, new.every
        if old.root is new.root and (one - other) % gcd(n, m):
            return False
        return not apart(kernel, old.root, new.root)
    if old.end <= new.start or new.end <= old.start or (old.alone and new.alone and not old.flight):
        return False
    if (old.handed == ACQUIRED and new.copies) or (MET in old.proxy and not new.by_proxy):
        return False
    if old.atomic is not None and old.atomic == new.atomic and (
            (old.start, old.end) == (new.start, new.end)):
        return False
    if old.private is not None and old.private is new.private:
        return False
    if old.piece is not None and new.piece is not None and old.piece[0] is new.piece[0] and (
            old.piece[1] != new.piece[1]):
        return False
    if old.stage_loop is new.stage_loop and old.ahead is not None and new.ahead is not None and (
            (old.start, old.end) == (new.start, new.end)):
        return old.ahead % old.stages == new.ahead % new.stages
    return True
