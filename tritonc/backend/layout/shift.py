"""Elements some places further on along an axis that a warp has: registers and lanes.

A thread that has eight neighbours of a line has seven of those to their left, too; the eighth is
the last one of the lane before.  So one shuffle is enough for eight elements, and one selection at
the end of the line.

    >>> line = Layout((64,), (1,), (2, 4, 8, 16, 32), ())
    >>> [[(piece.register, piece.lanes, hex(piece.where)) for piece in pieces]
    ...  for pieces in plan_shift(line, 0, -1, 0)]
    [[(1, 31, '0xfffffffe'), (0, 0, '0x1')], [(0, 0, '0xffffffff')]]
"""

from functools import lru_cache
from math import prod

from tritonc.ir.layouts.layout import WARP_SIZE, Layout
from tritonc.records import NamedTuple

# Shuffles and selections for each element.  Shared memory takes two accesses, and barriers between
# warps.  H200: rows of 256 by eight neighbours in a thread 463 us, through shared memory 1277;
# distances of words, a shuffle and a selection for each element, 1353, through shared memory 1191.
MOST = 1


class Piece(NamedTuple):
    """A register of the lane so many `lanes` further on, modulo a warp, for the lanes that are 1 in
    `where`."""

    register: int
    lanes: int
    where: int


@lru_cache(256)
def plan_shift(layout: Layout, axis: int, by: int, wrap: int
               ) -> tuple[tuple[Piece, ...], ...] | None:
    """For each register the pieces of which it is made; None where the axis crosses warps, or lanes
    would have to exchange too much."""
    extent, stride = layout.shape[axis], prod(layout.shape[axis + 1 :])
    inside = (extent - 1) * stride
    if any(basis & inside for basis in layout.warp):
        return None
    registers, lanes = ({basis // stride: 1 << i for i, basis in enumerate(bases) if basis & inside}
                        for bases in (layout.register, layout.lane))
    found = []
    for register in range(layout.registers):
        pieces: dict[tuple[int, int], int] = {}
        for lane in range(WARP_SIZE):
            at = (layout.at(register, lane) & inside) // stride
            to = (at + by) % extent if wrap else min(max(at + by, 0), extent - 1)
            changed = at ^ to
            there = register ^ sum(bit for basis, bit in registers.items() if changed & basis)
            other = lane ^ sum(bit for basis, bit in lanes.items() if changed & basis)
            key = there, (other - lane) % WARP_SIZE
            pieces[key] = pieces.get(key, 0) | 1 << lane
        found.append(tuple(sorted((Piece(*key, where) for key, where in pieces.items()),
                                  key=lambda piece: -piece.where.bit_count())))
    shuffles = {piece[:2] for pieces in found for piece in pieces if piece.lanes}
    selections = sum(len(pieces) - 1 for pieces in found)
    most = max(MOST * layout.registers, 2)
    return tuple(found) if len(shuffles) + selections <= most else None
