"""Who wrote and who read each byte of a memory since the last barrier.

Threads of a block run in no order between barriers.  Then a program is right in every order if, of
two accesses to one byte with no barrier between, both are reads or both are one thread's.  It is
enough to keep for each byte one writer and one reader: the number of a thread, NOBODY, or MANY,
since a second writer was already an error and of several readers one is not the next writer.

    >>> memory = Hazards(64)
    >>> memory.write(np.array([0, 1]), 4, np.array([0, 1], np.int16))         # two f32 elements
    >>> memory.read(np.array([1, 0]), 4, np.array([1, 1], np.int16))          # thread 1 reads both
    array([False,  True])
    >>> memory.clear()                                                        # a barrier
    >>> memory.read(np.array([1, 0]), 4, np.array([1, 1], np.int16))
    >>> memory.write(np.array([1]), 4, np.array([0], np.int16))
    array([ True])
"""

from __future__ import annotations

from functools import cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from tritonc.ir.layouts.layout import Layout, SharedLayout
from tritonc.ir.layouts.layout_ops import slice_axes

# Beside the numbers of threads; RELEASED: all who read it have said that they are done.
NOBODY, MANY, RELEASED = -1, -2, -3
ATOMIC = -4  # by whom atomic operations are: they do not conflict with each other
GROUPS = -16  # less g: a thread of warpgroup g, whose threads have met since
GROUP_BITS = 7  # of a thread's number, below that of its warpgroup
_ROUND = 16  # bytes; no element is larger

Threads = npt.NDArray[np.int16]  # one per element
Indices = npt.NDArray[np.int64]


class Hazards:
    """The accesses since the last barrier to a memory of `size` bytes."""

    def __init__(self, size: int) -> None:
        size += -size % _ROUND
        self.writer = np.full(size, NOBODY, np.int16)
        self.reader = np.full(size, NOBODY, np.int16)
        self.clean = True

    def clear(self) -> None:
        """All threads have met."""
        if not self.clean:
            self.writer.fill(NOBODY)
            self.reader.fill(NOBODY)
            self.clean = True

    def meet(self) -> None:
        """The threads of each warpgroup have met."""
        for table in (self.writer, self.reader):
            threads = table >= 0
            table[threads] = _group(table[threads])

    def read(self, index: Indices, width: int, threads: Threads) -> Any:
        """Elements `index` of `width` bytes are read.  Gives the mask of those that another thread
        wrote, None if there are none."""
        wrong = self._others(self.writer, index, width, threads)
        _record(self.reader, index, width, threads)
        self.clean = False
        return wrong

    def write(self, index: Indices, width: int, threads: Threads) -> Any:
        """The same for writing: the mask of elements that another thread wrote or read."""
        wrong = self.would_conflict(index, width, threads)
        _record(self.writer, index, width, threads)
        self.clean = False
        return wrong

    def would_conflict(self, index: Indices, width: int, threads: Threads) -> Any:
        """What `write` gives, with nothing written."""
        one = self._others(self.writer, index, width, threads)
        two = self._others(self.reader, index, width, threads)
        return one if two is None else two if one is None else one | two

    def _others(self, table: Threads, index: Indices, width: int, threads: Threads) -> Any:
        if self.clean:
            return None
        found = rows(table, index, width)
        used = found != NOBODY
        if not used.any():
            return None
        mine = threads[:, np.newaxis]
        wrong = used & (((found != mine) & (found != _group(mine))) | (mine == MANY))
        return wrong.any(axis=1) if wrong.any() else None


def _group(threads: Threads) -> Threads:
    """How a thread is kept once its warpgroup has met; of what is no thread nothing that is."""
    return np.where(threads >= 0, GROUPS - (threads >> GROUP_BITS), NOBODY).astype(np.int16)


def _record(table: Threads, index: Indices, width: int, threads: Threads) -> None:
    found = rows(table, index, width)
    mine = threads[:, np.newaxis]
    own = (found == NOBODY) | (found == mine)
    if not own.all():
        own |= found == _group(mine)
    made = np.where(own, mine, np.int16(MANY))
    set_rows(table, index, made)
    shared = rows(table, index, width) != made  # an element named twice
    if shared.any():
        set_rows(table, index[shared.any(axis=1)], np.full((1, width), MANY, np.int16))


# Tables with an entry for each byte, of which an element has a row

_WHOLE = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}  # bytes: what holds and moves as many


def rows(table: npt.NDArray[Any], index: Indices, width: int) -> npt.NDArray[Any]:
    """Rows `index` of a table in rows of `width` entries; a row that is one number moves faster."""
    whole = _WHOLE.get(table.itemsize * width)
    if whole is None:
        return table.reshape(-1, width)[index]
    return table.view(whole)[index].view(table.dtype).reshape(-1, width)


def set_rows(table: npt.NDArray[Any], index: Indices, entries: npt.NDArray[Any]) -> None:
    """Set rows `index` to rows of the table's type, or all to the only one."""
    whole = _WHOLE.get(entries.itemsize * entries.shape[1])
    if whole is None:
        table.reshape(-1, entries.shape[1])[index] = entries
    else:
        table.view(whole)[index] = np.ascontiguousarray(entries).view(whole)[:, 0]


# Threads of layouts

def _combine(bases: tuple[tuple[int, int], ...], size: int) -> Indices:
    """For each number below `size`: the XOR of the second of each pair whose first is in it."""
    number = np.arange(size, dtype=np.int64)
    return reduce(np.bitwise_xor, (np.where(number & bit, np.int64(value), 0)
                                   for bit, value in bases), np.zeros(size, np.int64))


@cache
def owners(layout: Layout) -> Threads:
    """The thread that stores each element, by row-major index: the first that holds it."""
    places = tuple((basis, 1 << bit) for bit, basis in enumerate(layout.thread) if basis)
    return _combine(places, layout.size).astype(np.int16)


@cache
def holders(layout: Layout) -> Threads:
    """The threads that hold each element: a number where it is one, else MANY."""
    return owners(layout) if all(layout.thread) else np.full(layout.size, MANY, np.int16)


@cache
def dot_readers(result: Layout, operand: int) -> Threads:
    """The threads that read each row of operand 0 of a dot, or column of operand 1, flat.

    `result`: the layout of the dot's result, which says who computes what.
    """
    return holders(slice_axes(result, (len(result.shape) - 1 - operand,)))


@cache
def offsets(layout: SharedLayout) -> Indices:
    """The offset of each element of a buffer, in its shape."""
    bits = tuple((1 << i, value) for i, value in enumerate(layout.index))
    return _combine(bits, layout.size).reshape(layout.shape)
