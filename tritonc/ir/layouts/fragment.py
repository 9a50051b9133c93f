"""The operands of matrix instructions as layouts, and how they repeat over a tile.

A matrix instruction multiplies a small A (m x k) and B (k x n) into D (m x n); all lanes of a warp
(for wgmma, of four warps) hold a *fragment* of each.  Those fragments are layouts of the small
matrices.  All the shapes share one pattern, here the result of the m16n8 instructions: lane / 4 is
the row, lane % 4 a pair of columns, and the second register pair is eight rows below.

    >>> print(accumulator_fragment(16, 8))
    #layout<shape=[16,8], register=[1,64], lane=[2,4,8,16,32], warp=[]>

`tile` repeats a fragment over a larger tile: first in registers over the part that a warp keeps
together, then over the warps, then in registers again.  The register bits of the fragment stay the
lowest ones, so that consecutive registers are the operand of one instruction (`instances`).

    >>> print(mma_accumulator((32, 32), warps=(2, 1)))          # two warps, 16 rows each
    #layout<shape=[32,32], register=[1,256,8,16], lane=[2,4,32,64,128], warp=[512]>

The operands of one dot must agree on which warp computes what: A spreads over the warps along m and
is replicated over those along n; B the other way round.

    >>> print(mma_b((16, 32), warps=(2, 1), element_bits=16, depth=16))
    #layout<shape=[16,32], register=[32,256,8,16], lane=[64,128,1,2,4], warp=[0]>

Source: PTX ISA, "Matrix Fragments" of mma and "Register Fragments" of wgmma.mma_async.
"""

from collections.abc import Sequence
from math import prod

from tritonc.ir.layouts.layout import Layout, axis_bases, check_shape, from_steps, log2
from tritonc.ir.layouts.layout_ops import renumbered


def _steps(axis: int, start: int, end: int) -> list[tuple[int, int]]:
    """Steps start, 2 start, ... below `end` along `axis`."""
    return [(axis, start << i) for i in range(log2(end // start))] if start < end else []


def _packed(element_bits: int) -> int:
    """How many elements of an operand share one 32-bit register."""
    return max(1, 32 // element_bits)


def a_fragment(rows: int, depth: int, element_bits: int) -> Layout:
    """A, `rows` x `depth` with k fastest.  `rows`: 8 or 16 (mma.sync), 64 (wgmma, four warps).

    Registers count elements: those that share a 32-bit register first."""
    packed = _packed(element_bits)
    _check_rows(rows)
    if depth < 4 * packed:
        raise ValueError(f"no fragment of {element_bits}-bit elements is {depth} deep")
    return from_steps(
        (rows, depth),
        register=_steps(1, 1, packed) + _steps(0, 8, min(rows, 16)) + _steps(1, 4 * packed, depth),
        lane=_steps(1, packed, 4 * packed) + _steps(0, 1, 8),
        warp=_steps(0, 16, rows))


def b_fragment(depth: int, element_bits: int) -> Layout:
    """B, `depth` x 8, of mma.sync; registers as in `a_fragment`.  (wgmma reads B from memory.)"""
    packed = _packed(element_bits)
    if depth < 4 * packed:
        raise ValueError(f"no fragment of {element_bits}-bit elements is {depth} deep")
    return from_steps((depth, 8), register=_steps(0, 1, packed) + _steps(0, 4 * packed, depth),
                      lane=_steps(0, packed, 4 * packed) + _steps(1, 1, 8), warp=[])


def accumulator_fragment(rows: int, columns: int) -> Layout:
    """C and D, `rows` x `columns`: 8 or 16 rows by 8 (mma.sync), 64 by 8 .. 256 (wgmma).

    The same for accumulators of every width; two of 16 bits share a 32-bit register."""
    _check_rows(rows)
    if columns < 8:
        raise ValueError(f"no matrix instruction has {columns} columns")
    return from_steps(
        (rows, columns),
        register=_steps(1, 1, 2) + _steps(0, 8, min(rows, 16)) + _steps(1, 8, columns),
        lane=_steps(1, 2, 8) + _steps(0, 1, 8),
        warp=_steps(0, 16, rows))


def _check_rows(rows: int) -> None:
    if rows not in (8, 16, 64):
        raise ValueError(f"no matrix instruction has {rows} rows")


def tile(fragment: Layout, shape: tuple[int, ...], warps: Sequence[tuple[int | None, int]],
         warp_tile: Sequence[int] | None = None) -> Layout:
    """Repeat `fragment` over `shape`.

    `warps`: the arrangement of the copies of the fragment's warps, as (axis, count) from the lowest
    warp bit; axis None holds `count` copies of the same elements.  `warp_tile`: the extents that
    one warp (for wgmma, four) covers without a gap, the fragment's by default.  What is left
    repeats in registers, the last axis first.  Along an axis where the tile is smaller than the
    fragment, elements are replicated: right for rows and columns of a product, never for the inner
    dimension, which would be summed twice."""
    check_shape(shape)
    covered = [min(extents) for extents in zip(fragment.shape, shape)]
    inside: dict[int, int] = {}
    for axis, extent in enumerate(covered):
        small, large = axis_bases(fragment.shape, axis), axis_bases(shape, axis)
        inside.update(zip(small[: log2(extent)], large))
    register, lane, warp = (
        [inside.get(basis, 0) for basis in bases]
        for bases in (fragment.register, fragment.lane, fragment.warp))

    def grow(axis: int) -> int:
        """The next basis along `axis`; 0 when the axis is covered."""
        if covered[axis] >= shape[axis]:
            return 0
        basis = axis_bases(shape, axis)[log2(covered[axis])]
        covered[axis] *= 2
        return basis

    def repeat(extents: Sequence[int]) -> None:
        for axis in reversed(range(len(shape))):
            while covered[axis] < min(extents[axis], shape[axis]):
                register.append(grow(axis))

    repeat(warp_tile or fragment.shape)
    for warp_axis, count in warps:
        warp += [0 if warp_axis is None else grow(warp_axis) for _ in range(log2(count))]
    repeat(shape)
    return Layout(shape, tuple(register), tuple(lane), tuple(warp))


def mma_accumulator(shape: tuple[int, int], warps: tuple[int, int], rows: int = 16,
                    columns: int = 8, warp_tile: tuple[int, int] | None = None) -> Layout:
    """C or D of mma.sync with `warps` along m and n, m in the lower warp bits."""
    arranged = ((0, warps[0]), (1, warps[1]))
    return tile(accumulator_fragment(rows, columns), shape, arranged, warp_tile)


def mma_a(shape: tuple[int, int], warps: tuple[int, int], element_bits: int, depth: int,
          rows: int = 16, warp_rows: int = 0) -> Layout:
    """A (m x k) of mma.sync for the accumulator of the same `warps` and `warp_tile[0]`.

    `depth`: the k of one instruction, in elements."""
    fragment = a_fragment(rows, depth, element_bits)
    return tile(fragment, shape, ((0, warps[0]), (None, warps[1])), (warp_rows or rows, depth))


def mma_b(shape: tuple[int, int], warps: tuple[int, int], element_bits: int, depth: int,
          warp_columns: int = 0) -> Layout:
    """B (k x n) of mma.sync for the accumulator of the same `warps` and `warp_tile[1]`."""
    fragment = b_fragment(depth, element_bits)
    return tile(fragment, shape, ((None, warps[0]), (1, warps[1])), (depth, warp_columns or 8))


def contiguous_k(layout: Layout, axis: int, element_bits: int) -> Layout:
    """The layout in which the k of a lane, over all instructions, are neighbours.

    A product does not mind in which order it adds, if both operands have the same: so the lanes
    that stood side by side along k take runs of a quarter of it each.

    >>> print(contiguous_k(mma_b((32, 8), (1, 1), 16, 16), 0, 16))
    #layout<shape=[32,8], register=[8,16,32], lane=[64,128,1,2,4], warp=[]>
    """
    steps = axis_bases(layout.shape, axis)
    first = log2(_packed(element_bits))
    order = [*range(first), len(steps) - 2, len(steps) - 1, *range(first, len(steps) - 2)]
    return renumbered(layout, {steps[old]: steps[new] for old, new in enumerate(order)})


def batched(layout: Layout, batch: tuple[int, ...], held: bool = False) -> Layout:
    """The same in each of a batch of tiles, which come first, one after the other in warps, or
    `held` in registers.

    >>> print(batched(mma_b((16, 8), (1, 1), 16, 16), (4,)))
    #layout<shape=[4,16,8], register=[8,64], lane=[16,32,1,2,4], warp=[128,256]>
    """
    over = tuple(layout.size << bit for bit in range(log2(prod(batch))))
    return Layout((*batch, *layout.shape), (*layout.register, *(over if held else ())), layout.lane,
                  (*layout.warp, *(() if held else over)))


def wgmma_accumulator(shape: tuple[int, int], warpgroups: tuple[int, int], columns: int) -> Layout:
    """D of wgmma m64n`columns` with groups of four warps along m and n, m in the lower bits."""
    arranged = ((0, warpgroups[0]), (1, warpgroups[1]))
    return tile(accumulator_fragment(64, columns), shape, arranged)


def wgmma_a(shape: tuple[int, int], warpgroups: tuple[int, int], element_bits: int) -> Layout:
    """A of wgmma held in registers; an instruction is 32 bytes deep."""
    fragment = a_fragment(64, 256 // element_bits, element_bits)
    return tile(fragment, shape, ((0, warpgroups[0]), (None, warpgroups[1])))


def instances(layout: Layout,
              fragment: Layout) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """The operands of the instructions that a warp issues over a layout made by `tile`.

    Each is (origin, registers): the first element's coordinates, relative to the warp's own, and
    the registers in the order of the fragment.  Operands of one dot match by origin.

    >>> instances(mma_a((16, 32), (1, 1), 16, 16), a_fragment(16, 16, 16))[1]
    ((0, 16), (8, 9, 10, 11, 12, 13, 14, 15))
    """
    count = fragment.registers
    return tuple(
        (layout.coordinates(layout.at(register=first)), tuple(range(first, first + count)))
        for first in range(0, layout.registers, count))
