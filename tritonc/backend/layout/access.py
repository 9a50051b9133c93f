"""How the registers of a thread group into accesses of memory, and what banks they touch.

One instruction moves 4, 8 or 16 bytes of a thread between registers and neighbouring addresses.
The offset of a thread's element in shared memory is a linear function of register, lane and warp
(the inverse of the shared layout after the register layout), so the offset of an access is the XOR
of a part that depends on the thread and a constant that depends on the registers:

    >>> from tritonc.ir.layouts.layout import Layout
    >>> from tritonc.ir.layouts.shared_layout import row_major
    >>> tile = Layout((4, 32), register=(1, 2), lane=(4, 8, 16, 32, 64), warp=())
    >>> shared_accesses(tile, row_major((4, 32)), 32).accesses       # one access of 16 bytes
    (SharedAccess(registers=(0, 1, 2, 3), flip=0, add=0),)
"""

from collections.abc import Sequence
from functools import cache

from tritonc.ir.layouts import f2
from tritonc.ir.layouts.layout import LANE_BITS, Layout, SharedLayout, axis_bases, log2
from tritonc.ir.layouts.shared_layout import BANK_BYTES, BANKS
from tritonc.records import NamedTuple

VECTOR_BITS = 128


@cache
def vector_chunks(layout: Layout, width: int, axis: int = -1,
                  once: bool = False) -> tuple[tuple[int, ...], ...]:
    """Registers grouped by `width` neighbours along `axis`, each group in ascending order.

    `width` is at most what `layout_ops.vector_width` allows.  Every register is in one group; with
    `once`, as for a store, registers that only hold copies are left out.

    >>> vector_chunks(Layout((4, 32), (32, 1), (2, 4, 8, 16, 64), ()), 2)
    ((0, 2), (1, 3))
    """
    bits = []
    for basis in axis_bases(layout.shape, axis)[: log2(width)] if layout.shape else ():
        if basis not in layout.register:
            raise ValueError(f"no thread holds {width} neighbours along axis {axis} of {layout}")
        bits.append(1 << layout.register.index(basis))
    skip = sum(bits) | (layout.replicated_registers if once else 0)
    members = [f2.apply(bits, i) for i in range(width)]
    return tuple(
        tuple(first | member for member in members)
        for first in range(layout.registers)
        if not first & skip)


class SharedAccess(NamedTuple):
    """One access: `registers` in address order, at element offset (thread part ^ flip) + add.

    `add` has only bits that no thread part has, so it fits the immediate field of an instruction.
    """

    registers: tuple[int, ...]
    flip: int
    add: int


class SharedAccesses(NamedTuple):
    """All accesses of a thread to a tile in shared memory.

    `vector`: elements per access.  `thread[i]`: what bit i of the thread's number in its block
    adds, by XOR, to the element offset."""

    vector: int
    thread: tuple[int, ...]
    accesses: tuple[SharedAccess, ...]


@cache
def shared_accesses(layout: Layout, shared: SharedLayout, element_bits: int,
                    once: bool = False) -> SharedAccesses:
    """The widest accesses that move a tile of `layout` to or from `shared`.

    `element_bits` as stored: a multiple of 8.  With `once`, as for a store, registers that only
    hold copies are left out (replicated lanes and warps are for the caller to switch off).

    Where the buffer permutes the elements of a word by its place, so do the access's `registers`:

    >>> from tritonc.ir.layouts.layout import Layout, SharedLayout
    >>> rows = Layout((2, 2), register=(1, 2), lane=(0,) * 5, warp=())
    >>> swapped = SharedLayout((2, 2), offset=(1, 3), alignment=16)      # (1, 0) after (1, 1)
    >>> shared_accesses(rows, swapped, 64).accesses[1].registers
    (3, 2)
    """
    if layout.shape != shared.shape:
        raise ValueError(f"a tile of {layout.shape} does not fit a buffer of {shared.shape}")
    register = f2.compose(shared.index, layout.register)
    thread = f2.compose(shared.index, layout.thread)
    width, limit = 1, min(VECTOR_BITS, 8 * shared.alignment)
    while width * element_bits < limit and width in register:
        # All threads must find the vector's elements in one order, which registers may choose.
        if any(offset & width for offset in thread):
            break
        width *= 2
    bits = [1 << register.index(1 << i) for i in range(log2(width))]
    members = [f2.apply(bits, i) for i in range(width)]
    skip = sum(bits) | (layout.replicated_registers if once else 0)
    return SharedAccesses(width, thread, grouped(layout, register, thread, members, skip, width))


def grouped(layout: Layout, register: tuple[int, ...], thread: tuple[int, ...],
            members: Sequence[int], skip: int, width: int = 1) -> tuple[SharedAccess, ...]:
    """The accesses that move the registers `first | members[i]` each, for all others than `skip`.

    `register`, `thread`: what their bits add to offsets; of those the lowest, below `width`, say in
    which order the members lie."""
    touched = 0
    for offset in thread:
        touched |= offset
    accesses = []
    for first in range(layout.registers):
        if not first & skip:
            offset = f2.apply(register, first)
            inside = offset & (width - 1)
            offset ^= inside
            registers = tuple(first | members[i ^ inside] for i in range(len(members)))
            accesses.append(SharedAccess(registers, offset & touched, offset & ~touched))
    return tuple(accesses)


def phase_lanes(access_bits: int) -> int:
    """How many low bits of the lane number vary within one pass over the banks.

    Accesses of 4 bytes or fewer go out for 32 lanes at once, of 8 for 16 lanes, of 16 for 8."""
    return LANE_BITS - max(0, log2(access_bits // 32)) if access_bits >= 32 else LANE_BITS


def bank_conflicts(layout: Layout, shared: SharedLayout, element_bits: int) -> int:
    """How often one pass of an access must repeat: the most words it wants of one bank; 1 is best.

    Lanes that want the same word share it.  All passes of all accesses are alike: they differ by an
    XOR with a constant, which permutes words and banks.  So are the words of wider accesses: it is
    enough to count the first of each."""
    moves = shared_accesses(layout, shared, element_bits)
    words = {
        f2.apply(moves.thread, lane) * element_bits // (8 * BANK_BYTES)
        for lane in range(1 << phase_lanes(moves.vector * element_bits))}
    wanted = [0] * BANKS
    for word in words:
        wanted[word % BANKS] += 1
    return max(wanted)
