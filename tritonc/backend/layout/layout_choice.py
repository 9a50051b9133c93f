"""Which layouts suit memory accesses and dots: the policy that `assign_layouts` applies.

All choices are functions from shapes and axis information to a `Layout`; none looks at the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from tritonc.analysis.axis_info import AxisInfo, vector_length
from tritonc.backend.target import matrix
from tritonc.ir.core import Op
from tritonc.ir.layout import (
    LANE_BITS,
    WARP_SIZE,
    Layout,
    axis_bases,
    blocked,
    coordinates,
    from_steps,
    log2,
)
from tritonc.ir.shared_layout import BANK_BYTES, BANKS
from tritonc.ir.types import shape

PIECE_BYTES = 64  # that lanes side by side move, where others are elsewhere
SECTOR_BYTES = 32  # what global memory moves at the least
LEAST_COPY = 4  # bytes of cp.async
ACCESS_BYTES = 16  # what one instruction moves at the most


def fastest_axis(info: AxisInfo | None, rank: int) -> int:
    """The axis along which addresses are most contiguous; the last one in doubt."""
    if info is None:
        return rank - 1
    return max(range(rank), key=lambda d: (info.contiguity[d], d))


def axis_order(info: AxisInfo | None, rank: int) -> tuple[int, ...]:
    """The axes by falling contiguity, the later one first in doubt."""
    if info is None:
        return tuple(reversed(range(rank)))
    return tuple(sorted(range(rank), key=lambda d: (-info.contiguity[d], -d)))


def spread(shape: tuple[int, ...], order: tuple[int, ...], vector: int, warps: int) -> Layout:
    """A blocked layout: `vector` neighbours per thread along the fastest axis, then lanes and warps
    filled in `order`; threads beyond the tile hold copies.

    >>> print(spread((64, 16), (1, 0), 4, 4))
    #layout<shape=[64,16], register=[1,2,512], lane=[4,8,16,32,64], warp=[128,256]>
    """
    rank = len(shape)
    size = [1] * rank
    size[order[0]] = min(vector, shape[order[0]])
    lanes, left = [1] * rank, WARP_SIZE
    for axis in order:
        lanes[axis] = min(left, max(1, shape[axis] // size[axis]))
        left //= lanes[axis]
    lanes[order[-1]] *= left
    across, left = [1] * rank, warps
    for axis in reversed(order):  # warps apart along the slowest axis: each reads whole rows
        across[axis] = min(left, max(1, shape[axis] // (size[axis] * lanes[axis])))
        left //= across[axis]
    across[order[-1]] *= left
    return blocked(shape, size, lanes, across, order)


def columns_fill_lanes(shape: tuple[int, ...], axis: int) -> bool:
    """Whether the axes behind one have an element for each lane, so that it needs none.

    >>> columns_fill_lanes((16, 32), 0), columns_fill_lanes((32, 16), 0)
    (True, False)
    """
    return prod(shape[axis + 1:]) >= WARP_SIZE


def in_each_warp(shape: tuple[int, ...], warps: int) -> Layout:
    """The elements spread over the lanes of each warp, which hand them around by shuffles.

    >>> print(in_each_warp((64,), 4))
    #layout<shape=[64], register=[32], lane=[1,2,4,8,16], warp=[0,0]>
    """
    one = spread(shape, tuple(reversed(range(len(shape)))), 1, 1)
    return Layout(one.shape, one.register, one.lane, (0,) * log2(warps))


def coalesced(shape: tuple[int, ...], pointer: AxisInfo | None, guard: AxisInfo | None,
              element_bytes: int, warps: int, first: int | None = None,
              copied: bool = False) -> Layout:
    """The layout of a load or store: wide accesses on the contiguous axis, lanes side by side.

    `first`: the axis for lanes, where another order is not known to be better; `copied`: copies
    make it, of which none moves less than a word, so that few threads have all of a small tile.
    """
    order = axis_order(pointer, len(shape))
    if first is not None:
        order = (first, *(axis for axis in order if axis != first))
    vector = 1
    if pointer is not None:
        vector = vector_length(pointer, guard, order[0], element_bytes, ACCESS_BYTES)
    per_thread = max(1, prod(shape) // (warps * WARP_SIZE))
    if copied and per_thread * element_bytes < LEAST_COPY:
        per_thread = vector
    return spread(shape, order, min(vector, per_thread), warps)


def folded(layout: Layout, axis: int, element_bytes: int) -> Layout:
    """The layout of rows that are reduced: instead of other rows a thread holds more of its own,
    as long as lanes side by side move whole pieces of memory.

    >>> print(folded(spread((16, 64), (1, 0), 4, 2), 1, 4))
    #layout<shape=[16,64], register=[1,2,16,32], lane=[4,8,256,512,64], warp=[128]>
    """
    own = axis_bases(layout.shape, axis)
    held = prod(2 for basis in layout.register if basis in own) * element_bytes
    lanes = [basis for basis in layout.lane if basis in own]
    lanes = lanes[log2(max(1, PIECE_BYTES // held)):] if held <= PIECE_BYTES else lanes
    others = [basis for basis in layout.register if basis not in own]
    swap = dict(zip(lanes, others))
    swap |= {other: basis for basis, other in swap.items()}
    return Layout(layout.shape, tuple(swap.get(b, b) for b in layout.register),
                  tuple(swap.get(b, b) for b in layout.lane), layout.warp)


def turned(shape: tuple[int, ...], pointer: AxisInfo | None, guard: AxisInfo | None,
           element_bytes: int, warps: int, across: int) -> Layout | None:
    """The layout of a load whose tile goes to shared memory with another axis contiguous.

    Threads load words along the axis that is contiguous in global memory, first lanes side by side,
    and store single elements.  Further lanes stand along `across`, which will be contiguous in
    shared memory: side by side, and ACCESS_BYTES apart, so that each has a bank to itself.  Lanes
    along the other axis get the banks that are left (see `staging_layout`): other
    places inside words, and other words.  Where elements are registers, a place inside a word
    keeps its parity: the register file has a bank for odd and one for even numbers, and a product
    reads it without conflicts only if each of its operands is always of one parity.  None if
    nothing is turned, or if a warp would use sectors of global memory in parts.

    >>> print(turned((128, 16), AxisInfo((1, 16), (4, 16), (1, 1)), None, 4, 4, 0))
    #layout<shape=[128,16], register=[1,2,512,1024], lane=[4,8,16,64,128], warp=[32,256]>
    """
    along = fastest_axis(pointer, len(shape))
    if pointer is None or along == across:
        return None
    vector = vector_length(pointer, guard, along, element_bytes, ACCESS_BYTES)
    vector = min(vector, max(1, prod(shape) // (warps * WARP_SIZE)))

    def steps(axis: int, first: int, last: int) -> list[tuple[int, int]]:
        return [(axis, 1 << bit) for bit in range(log2(first), log2(max(first, last)))]

    word = min(ACCESS_BYTES // element_bytes, shape[across])
    words = steps(across, word, min(shape[across], BANKS * BANK_BYTES // element_bytes))
    inside = steps(across, 1, word)
    first = 1 if element_bytes == BANK_BYTES else 0  # of these, lanes before the words
    lanes = steps(along, vector, shape[along])[: LANE_BITS - len(words)]
    lanes = (lanes + inside[:first] + words + inside[first:])[:LANE_BITS]
    lanes_along = 1 << sum(axis == along for axis, _ in lanes)
    if vector < 2 or lanes_along * vector * element_bytes < min(
            SECTOR_BYTES, shape[along] * element_bytes):
        return None
    held = steps(along, 1, vector)
    left = [step for axis in (across, along, *range(len(shape)))
            for step in steps(axis, 1, shape[axis])]
    left = [step for step in dict.fromkeys(left) if step not in lanes and step not in held]
    lanes += [(across, 0)] * (LANE_BITS - len(lanes))
    count = log2(warps)  # warps are apart inside a word, lest threads store several at once
    across_warps = left[:count] + [(across, 0)] * (count - len(left[:count]))
    return from_steps(shape, held + left[count:], lanes, across_warps)


def sector_share(layout: Layout, axis: int, element_bytes: int, vector: int) -> float:
    """The part of each 32-byte sector that one instruction of a warp uses, at most 1.

    `vector` neighbours along the contiguous `axis` are moved at once; lanes that hold the next ones
    complete the sector.
    """
    steps = axis_bases(layout.shape, axis)
    covered = vector
    for basis in steps[log2(vector):]:
        if basis not in layout.lane:
            break
        covered *= 2
    return min(1.0, covered * element_bytes / SECTOR_BYTES)


class Nesting(NamedTuple):
    """How a product on CUDA cores is tiled (paper, section 5.2.1): a thread computes nano-tiles,
    the threads of a warp a micro-tile, and micro-tiles repeat over the tile."""

    micro: tuple[int, int]
    nano: tuple[int, int]

    @property
    def lanes(self) -> tuple[int, int]:
        """The threads of a warp along rows and columns."""
        return self.micro[0] // self.nano[0], self.micro[1] // self.nano[1]


DEFAULT = Nesting((16, 32), (4, 4))
MICRO, NANO = (8, 16, 32), (1, 2, 4)  # what section 5.3 of the paper searches


def nestings() -> list[Nesting]:
    """The valid ones: a micro-tile has a nano-tile for each thread of a warp.

    >>> len(nestings()), DEFAULT in nestings()
    (16, True)
    """
    found = [Nesting((m, n), (a, b)) for m in MICRO for n in MICRO for a in NANO for b in NANO]
    return [nesting for nesting in found if prod(nesting.lanes) == WARP_SIZE]


def nesting_of(meta: Mapping[str, int]) -> Nesting | None:
    """What meta-parameters say; None if a micro-tile does not have 32 nano-tiles.

    >>> nesting_of({"nano_rows": 2}), nesting_of({"micro_rows": 8, "micro_columns": 8})
    (Nesting(micro=(8, 32), nano=(2, 4)), None)
    """
    nano = meta.get("nano_rows", DEFAULT.nano[0]), meta.get("nano_columns", DEFAULT.nano[1])
    rows, columns = meta.get("micro_rows"), meta.get("micro_columns")
    lane_rows = DEFAULT.lanes[0] if columns is None else WARP_SIZE * nano[1] // columns
    rows = lane_rows * nano[0] if rows is None else rows
    columns = WARP_SIZE * nano[0] // rows * nano[1] if columns is None else columns
    found = Nesting((rows, columns), nano)
    return found if prod(found.lanes) == WARP_SIZE else None


def fma_layout(shape: tuple[int, ...], warps: int, nesting: Nesting = DEFAULT) -> Layout:
    """The layout of a dot's result on CUDA cores (paper, section 5.2: nano- and micro-tiles).

    By default a thread owns nano-tiles of 4 x 4 that repeat over the tile; a warp is 4 x 8 threads,
    so that each operand row or column is read as 16-byte words by neighbours.  Lane 1 stands a
    column away from lane 0, lane 2 a row: shared memory serves a half-warp's 16-byte words at once
    only where neighbours, or lanes two apart, want the same one, and so it is for both operands.
    Warps take batches first, whose operands no two share.
    """
    *batch, rows, columns = shape
    nano = (min(nesting.nano[0], rows), min(nesting.nano[1], columns))
    lane_columns = min(nesting.lanes[1], max(1, columns // nano[1]))
    lane_rows = min(WARP_SIZE // lane_columns, max(1, rows // nano[0]))
    lane_columns = min(WARP_SIZE // lane_rows, max(1, columns // nano[1]))
    left = WARP_SIZE // (lane_rows * lane_columns)
    across, count = [], log2(warps)
    for extent in batch:
        taken = min(count, log2(extent))
        across.append(1 << taken)
        count -= taken
    across_rows, across_columns = 1, 1
    for _ in range(count):
        tall = rows // (nano[0] * lane_rows * across_rows)
        wide = columns // (nano[1] * lane_columns * across_columns)
        if tall >= wide and tall > 1:
            across_rows *= 2
        elif wide > 1:
            across_columns *= 2
        else:
            across_rows *= 2
    ones = [1] * len(batch)
    rank = len(shape)
    found = blocked(shape, (*ones, *nano), (*ones, lane_rows * left, lane_columns),
                    (*across, across_rows, across_columns), tuple(reversed(range(rank))))
    turn = log2(lane_columns)  # the first lane bit that steps along rows
    if not 0 < turn < LANE_BITS:
        return found
    lane = found.lane
    return Layout(shape, found.register, (lane[0], lane[turn], *lane[1:turn], *lane[turn + 1:]),
                  found.warp)


def fma_operand(result: Layout, depth: int, left: bool) -> Layout:
    """What a thread reads of an operand of a dot with that result, over all of its inner axis.

    The rows (or columns) of its accumulators, wherever they are, and registers for the inner axis,
    those of lower numbers for the rows.
    """
    *batch, rows, columns = result.shape
    tile = rows * columns
    extents = (*batch, rows, depth) if left else (*batch, depth, columns)

    def basis(b: int) -> int:  # (batch, m, n) -> (batch, m, k) or (batch, k, n)
        if left:
            return b // columns * depth if b >= columns else 0
        return b // tile * depth * columns if b >= tile else b if b < columns else 0

    step = 1 if left else columns
    held = (*filter(None, map(basis, result.register)),
            *(step << i for i in range(log2(depth))))
    return Layout(extents, held, tuple(map(basis, result.lane)), tuple(map(basis, result.warp)))


def thickened(slice: Layout, axis: int, depth: int) -> Layout:
    """The layout of which `slice`, with one element along `axis`, is any of `depth` slices: the
    registers of higher numbers are for that axis.

    >>> thickened(fma_operand(fma_layout((64, 64), 4), 1, True), 1, 8) == fma_operand(
    ...     fma_layout((64, 64), 4), 8, True)
    True
    """
    extents = tuple(depth if d == axis else n for d, n in enumerate(slice.shape))

    def basis(b: int) -> int:
        place = coordinates(slice.shape, b)
        return sum(c * prod(extents[d + 1:]) for d, c in enumerate(place))

    return Layout(extents, (*map(basis, slice.register), *axis_bases(extents, axis)),
                  tuple(map(basis, slice.lane)), tuple(map(basis, slice.warp)))


def lanes_apart(layout: Layout) -> Layout:
    """What the lanes that hold copies in `layout` share out: each has a part of the registers.

    One shuffle for each register that a thread wants makes `layout` of it.

    >>> print(lanes_apart(Layout((64,), (1, 8, 16, 32), (2, 4, 0, 0, 0), (0,))))
    #layout<shape=[64], register=[1], lane=[2,4,8,16,32], warp=[0]>
    """
    register, lane = list(layout.register), list(layout.lane)
    for bit, basis in enumerate(lane):
        if not basis and len(register) > 1:
            lane[bit] = register.pop()
    held = len(register)  # the lowest free lane gets the lowest register
    moved = iter(layout.register[held:])
    lane = [basis or next(moved, 0) for basis in layout.lane]
    return Layout(layout.shape, tuple(register), tuple(lane), layout.warp)


def gathered(layout: Layout, axes: tuple[int, ...]) -> Layout | None:
    """The layout in which to add what the warps of `layout` hold of the reduced `axes`.

    Where each warp has all other elements of a slice, a thread that took all slices of its own
    would need their registers many times over.  Here it takes those of a part of the elements.
    None where registers or lanes hold elements of `axes` too.
    """
    reduced = {basis for axis in axes for basis in axis_bases(layout.shape, axis)}
    if not reduced or not reduced <= set(layout.warp):
        return None
    kept = tuple(1 if axis in axes else n for axis, n in enumerate(layout.shape))
    threads = WARP_SIZE << len(layout.warp)
    part = spread(kept, tuple(reversed(range(len(kept)))),
                  min(4, max(1, prod(kept) // threads)), 1 << len(layout.warp))
    steps = [coordinates(kept, basis) for basis in (*part.register, *part.lane, *part.warp)]
    bases = [sum(c * prod(layout.shape[d + 1:]) for d, c in enumerate(step)) for step in steps]
    registers = len(part.register)
    return Layout(layout.shape, (*bases[:registers], *sorted(reduced)),
                  tuple(bases[registers:registers + LANE_BITS]),
                  tuple(bases[registers + LANE_BITS:]))


def warps_last(layout: Layout, axis: int) -> Layout:
    """The layout with the same lanes and low registers, in which warps hold the highest bits of
    the axis: each warp has neighbours, which it combines in their order before others' come in.

    >>> line = Layout((512,), register=(1, 128, 256), lane=(2, 4, 8, 16, 32), warp=(64,))
    >>> print(warps_last(line, 0))
    #layout<shape=[512], register=[1,64,128], lane=[2,4,8,16,32], warp=[256]>
    """
    bits = set(axis_bases(layout.shape, axis))
    lowest = min((basis for basis in layout.warp if basis in bits), default=0)
    moved = [basis for basis in (*layout.register, *layout.warp) if basis in bits
             and basis >= lowest > 0]
    order = iter(sorted(moved))
    new = {basis: next(order) for bases in (layout.register, layout.warp)
           for basis in sorted(b for b in bases if b in moved)}
    return Layout(layout.shape, tuple(new.get(b, b) for b in layout.register), layout.lane,
                  tuple(new.get(b, b) for b in layout.warp))


def dot_layout(op: Op, warps: int, nesting: Nesting = DEFAULT) -> Layout:
    """The layout of a dot's result, as its `instruction` wants it, or else as `nesting` says."""
    extents = shape(op.result.type)
    name = op.attributes.get("instruction")
    if name is None:
        return fma_layout(extents, warps, nesting)
    found = matrix.accumulator_layout(matrix.BY_NAME[name], extents, warps)
    return paired_rows(found) if op.attributes.get("pairs") else found


def operands_in_registers(op: Op, warps: int) -> tuple[Layout | None, Layout | None]:
    """The layouts of a dot's operands that are computed in registers; None for others."""
    numbers = op.attributes.get("registers", ())
    if not numbers:
        return None, None
    row = matrix.BY_NAME[op.attributes["instruction"]]
    left, right = matrix.operand_layouts(
        row, shape(op.result.type), shape(op.operands[0].type)[-1], warps,
        contiguous=bool(op.attributes.get("contiguous")))
    if op.attributes.get("pairs"):
        left = paired_rows(left)
    return left if 0 in numbers else None, right if 1 in numbers else None


def paired_rows(layout: Layout) -> Layout:
    """The layout whose rows r and r + 8 of each sixteen are 2 r and 2 r + 1 of the tile: a thread
    that holds both has neighbours.

    A product does not mind in which order its rows stand, if its result has the same.

    >>> print(paired_rows(Layout((16, 8), (1, 64), (2, 4, 8, 16, 32), ())))
    #layout<shape=[16,8], register=[1,8], lane=[2,4,16,32,64], warp=[]>
    """
    columns = layout.shape[-1]

    def basis(b: int) -> int:
        row, column = divmod(b, columns)
        return (row & ~15 | (row << 1 | row >> 3 & 1) & 15) * columns + column

    return Layout(layout.shape, tuple(map(basis, layout.register)), tuple(map(basis, layout.lane)),
                  tuple(map(basis, layout.warp)))
