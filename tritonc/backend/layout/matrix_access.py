"""ldmatrix and stmatrix: eight rows of 16 bytes between shared memory and a warp's registers.

A *row* is 16 neighbouring bytes of shared memory, a *matrix* is eight rows at any places, and one
instruction moves up to four matrices.  Lane 8 j + i tells the address of row i of matrix j.  Then
register j, which is 32 bits, of lane l is

    plain       bytes 4 (l % 4) ... of row l / 4
    transposed  column l / 4 of rows 2 (l % 4) and 2 (l % 4) + 1, of 16-bit elements or of two bytes

As linear maps: compose the layout of the tile with the inverse of that of the buffer, and each bit
of the place (register, lane, warp) moves the address.  The bits inside a row must be those that the
instruction moves, and no other bit may reach inside a row.  Whatever the other bits do, the lanes
can be given the addresses: lane bits 0 to 2 number the rows of a matrix, 3 and 4 the matrices.

    >>> from tritonc.ir.layouts.fragment import mma_a
    >>> from tritonc.ir.layouts.shared_layout import tensor_core
    >>> a = mma_a((16, 64), (1, 1), 16, 16)
    >>> moves = matrix_accesses(a, tensor_core((16, 64), (1, 0), 2, 128), 2)
    >>> moves.transposed, moves.count, [access.registers for access in moves.accesses][:1]
    (False, 4, [(0, 1, 2, 3, 4, 5, 6, 7)])

Source: PTX ISA, "ldmatrix" and "stmatrix".
"""

from functools import cache

from tritonc.backend.layout.access import SharedAccess, SharedAccesses, grouped
from tritonc.ir.layouts import f2
from tritonc.ir.layouts.layout import Layout, SharedLayout, log2
from tritonc.ir.layouts.shared_layout import BANK_BYTES, BANKS
from tritonc.records import dataclass

ROW_BYTES = 16
WORD_BYTES = 4
_ROW_BITS = 3  # of a matrix: eight rows
_MATRIX_BITS = 2  # of an instruction: four matrices


@dataclass(frozen=True)
class MatrixAccesses:
    """All instructions that move a tile: `count` matrices each, `transposed` or not.

    `moves`: as of plain accesses, but `thread` says which row's address a lane gives, and an
    access's `registers` are those of its matrices, in order, each of WORD_BYTES.
    `conflicts`: how often a matrix must pass over the banks."""

    transposed: bool
    count: int
    moves: SharedAccesses
    conflicts: int

    @property
    def accesses(self) -> tuple[SharedAccess, ...]:
        return self.moves.accesses

    @property
    def passes(self) -> int:
        """Over the banks, of a warp."""
        return len(self.accesses) * self.count * self.conflicts


@cache
def matrix_accesses(layout: Layout, shared: SharedLayout, element_bytes: int
                    ) -> MatrixAccesses | None:
    """How ldmatrix or stmatrix moves the tile; None if it does not."""
    if layout.shape != shared.shape or element_bytes > WORD_BYTES or shared.alignment < ROW_BYTES:
        return None
    found = _moves(layout, shared, element_bytes, False)
    if found is None and element_bytes <= 2:
        found = _moves(layout, shared, element_bytes, True)
    return found


def _moves(layout: Layout, shared: SharedLayout, size: int, transposed: bool
           ) -> MatrixAccesses | None:
    register = f2.compose(shared.index, layout.register)
    lane = f2.compose(shared.index, layout.lane)
    warp = f2.compose(shared.index, layout.warp)
    word = log2(WORD_BYTES // size)  # register bits within 32 bits
    row = ROW_BYTES // size
    if word > len(register):
        return None
    steps = tuple(1 << i for i in range(log2(row)))
    bits = list(range(word))  # the register's bits, by their place in the word
    if transposed:
        pair = word - 1  # bits of what a column has of a row: two bytes
        if not set(steps[:pair]) <= set(register):
            return None
        bits = [register.index(step) for step in steps[:pair]]
        bits.append(min(set(range(len(register))) - {*bits}, default=0))
        inside = (*(register[bit] for bit in bits[:pair]), *lane[2:])
        rows = (register[bits[pair]], *lane[:2])
    else:
        inside, rows = (*register[:word], *lane[:2]), lane[2:]
    if inside != steps:
        return None
    outer = [image for bit, image in enumerate(register) if bit not in bits]
    if any(image & (row - 1) for image in (*rows, *outer, *warp)):
        return None
    if any(layout.register[bit] == 0 for bit in bits):
        return None
    picked = [i for i, basis in enumerate(layout.register) if i not in bits and basis]
    picked = picked[:_MATRIX_BITS]
    addresses = (*rows, *(register[i] for i in picked))
    addresses += (0,) * (_ROW_BITS + _MATRIX_BITS - len(addresses))
    thread = (*addresses, *warp)
    places = [1 << i for i in (*bits, *picked)]
    members = [f2.apply(places, i) for i in range(1 << len(places))]
    accesses = grouped(layout, register, thread, members, sum(places) | layout.replicated_registers)
    bank = BANKS * BANK_BYTES // size - 1  # offsets that differ here lie in other banks
    distinct = [image for image in rows if image]  # a bit that moves nothing reads the same row
    conflicts = 1 << (len(distinct) - f2.rank(tuple(image & bank for image in distinct)))
    return MatrixAccesses(transposed, 1 << len(picked), SharedAccesses(1, thread, accesses),
                          conflicts)
