"""The layouts of tiles in shared memory: row-major, swizzled, and those of the tensor cores.

Shared memory has 32 banks of 4 bytes: addresses that are equal modulo 128 bytes are in the same
bank, and a warp that touches different words of one bank waits for each.  In a row-major tile with
rows of 128 bytes, a column lies in one bank.  A swizzle exchanges the 16-byte chunks of each row by
XOR with the row's number, so that a column crosses all the banks and rows stay contiguous.  As a
linear map: the offset of each bit of the row has some bits of the chunk beside its own.

    >>> row_major((8, 4)).index                       # columns 1, 2; rows 4, 8, 16
    (1, 2, 4, 8, 16)
    >>> tensor_core((8, 32), (1, 0), 4, 128).index
    (1, 2, 4, 8, 16, 36, 72, 144)

`order` lists the axes from the one whose neighbours are contiguous in memory.
"""

from collections.abc import Sequence
from math import prod

from tritonc.ir.layouts import f2
from tritonc.ir.layouts.layout import SharedLayout, axis_bases, check_shape, log2
from tritonc.ir.layouts.layout_ops import axis_table

BANKS = 32
BANK_BYTES = 4
ROW_ALIGNMENT = 128  # bytes, of where a box of a TMA load begins


def _dense(shape: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    """Offset bit i -> index, with no swizzle."""
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"order {tuple(order)} does not permute the axes of {shape}")
    return tuple(basis for axis in order for basis in axis_bases(shape, axis))


def row_major(shape: tuple[int, ...], order: Sequence[int] | None = None) -> SharedLayout:
    """Dense, without a swizzle; by default the last axis is the contiguous one."""
    check_shape(shape)
    return SharedLayout(shape, _dense(shape, order or range(len(shape))[::-1]))


def tensor_row(extent: int) -> SharedLayout:
    """A dense tile of one axis, where TMA can write it: at a multiple of 128 bytes."""
    return SharedLayout((extent,), row_major((extent,)).offset, ROW_ALIGNMENT)


def _swizzle(shape: tuple[int, ...], order: Sequence[int], target: int, source: int,
             bits: int) -> tuple[int, ...]:
    """Offset bit i -> index when offset bits `target`.. are XORed with the `bits` bits `source`..

    Element x lies at s(d(x)), where d is dense and s the swizzle.  As `target` bits are not source
    bits, s is its own inverse, and the element at offset o is d^-1(s(o))."""
    dense = _dense(shape, order)
    if bits and target + bits > source:
        raise ValueError(f"a swizzle of {bits} bits from bit {source} onto {target} overlaps")
    swizzle = [
        1 << i if not source <= i < source + bits else 1 << i | 1 << (i - source + target)
        for i in range(len(dense))]
    return f2.compose(dense, swizzle)


def transpose(layout: SharedLayout, permutation: Sequence[int]) -> SharedLayout:
    """The layout of the tile whose axis i was axis `permutation[i]`.  No data moves.

    >>> transpose(row_major((4, 8)), (1, 0)) == row_major((8, 4), (0, 1))
    True
    """
    shape = tuple(layout.shape[axis] for axis in permutation)
    table = axis_table(layout.shape, shape, permutation)
    offset = tuple(sum(new for old, new in table.items() if basis & old) for basis in layout.offset)
    return SharedLayout(shape, offset, layout.alignment)


def tensor_core(shape: tuple[int, ...], order: Sequence[int], element_bytes: int,
                swizzle_bytes: int) -> SharedLayout:
    """The layouts that wgmma reads and TMA writes: panels of `swizzle_bytes`, swizzled within.

    The tile is cut along `order[0]` into panels of S = 128, 64 or 32 bytes (for 0, no swizzle: 16);
    a panel holds its part of every row of `order[1]`, S bytes each, one after the other; then bits
    4.. of the byte address are XORed with the bits from 7 on: 3, 2, 1 or 0 of them.  A is K-major
    when its contiguous axis is k, and so is B; the other case is MN-major.  Further axes of `order`
    (such as the stages of a pipeline) come outermost.

    Raises ValueError if a row is shorter than a panel.

    Source: PTX ISA, "Shared Memory Matrix Layout" and "Swizzling Modes" (TMA loads)."""
    if swizzle_bytes not in (0, 32, 64, 128):
        raise ValueError(f"no swizzle of {swizzle_bytes} bytes exists")
    check_shape((*shape, element_bytes))
    panel = max(16, swizzle_bytes)
    inner = shape[order[0]]
    if inner * element_bytes < panel:
        raise ValueError(f"a row of {inner} x {element_bytes} bytes is not a panel of {panel}")
    columns = panel // element_bytes
    # Seen as a tile of (panels, rows, columns of a panel), the dense order is the plain one.
    split = [*shape]
    split[order[0] : order[0] + 1] = [inner // columns, columns]
    moved = [axis + (axis > order[0]) for axis in order]
    by_panel = [order[0] + 1, moved[1], order[0], *moved[2:]]
    element_log = log2(element_bytes)
    bits = min(log2(panel // 16), max(0, log2(prod(shape) * element_bytes) - 7))
    offset = _swizzle(tuple(split), by_panel, 4 - element_log, 7 - element_log, bits)
    return SharedLayout(shape, offset, 8 * panel)
