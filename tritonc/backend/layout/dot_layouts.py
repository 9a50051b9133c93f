"""Which layouts suit products: their results, and operands that threads hold."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from tritonc.backend.target import matrix
from tritonc.ir.core import Op
from tritonc.ir.layouts.layout import (
    LANE_BITS,
    WARP_SIZE,
    Layout,
    axis_bases,
    blocked,
    coordinates,
    log2,
)
from tritonc.ir.layouts.layout_ops import renumbered
from tritonc.ir.types import shape
from tritonc.records import NamedTuple


class Nesting(NamedTuple):
    """How a product on CUDA cores is tiled (paper, section 5.2.1): a thread computes nano-tiles,
    the threads of a warp a micro-tile, and micro-tiles repeat over the tile."""

    micro: tuple[int, int]
    nano: tuple[int, int]

    @property
    def lanes(self) -> tuple[int, int]:
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
    Warps take batches first, whose operands no two share."""
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
        if wide > max(tall, 1):
            across_columns *= 2
        else:
            across_rows *= 2
    ones = [1] * len(batch)
    found = blocked(shape, (*ones, *nano), (*ones, lane_rows * left, lane_columns),
                    (*across, across_rows, across_columns), tuple(reversed(range(len(shape)))))
    turn = log2(lane_columns)  # the first lane bit that steps along rows
    if not 0 < turn < LANE_BITS:
        return found
    lane = found.lane
    return replace(found, lane=(lane[0], lane[turn], *lane[1:turn], *lane[turn + 1:]))


def fma_operand(result: Layout, depth: int, left: bool) -> Layout:
    """What a thread reads of an operand of a dot with that result, over all of its inner axis.

    The rows (or columns) of its accumulators, wherever they are, and registers for the inner axis,
    those of lower numbers for the rows."""
    *batch, rows, columns = result.shape
    tile = rows * columns
    extents = (*batch, rows, depth) if left else (*batch, depth, columns)

    def basis(b: int) -> int:  # (batch, m, n) -> (batch, m, k) or (batch, k, n)
        if left:
            return b // columns * depth if b >= columns else 0
        return b // tile * depth * columns if b >= tile else b if b < columns else 0

    step = 1 if left else columns
    held = (*filter(None, map(basis, result.register)), *(step << i for i in range(log2(depth))))
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


def dot_layout(op: Op, warps: int, nesting: Nesting = DEFAULT) -> Layout:
    """The layout of a dot's result, as its `instruction` wants it, or else as `nesting` says."""
    extents = shape(op.result.type)
    name = op.attributes.get("instruction")
    if name is None:
        return fma_layout(extents, warps, nesting)
    found = matrix.accumulator_layout(matrix.BY_NAME[name], extents, warps,
                                      bool(op.attributes.get("inside")))
    rows, columns = _neighbours(op)
    return gathered(gathered(found, -2, rows), -1, columns)


def operands_in_registers(op: Op, warps: int) -> tuple[Layout | None, Layout | None]:
    """The layouts of a dot's operands that are computed in registers; None for others."""
    numbers = op.attributes.get("registers", ())
    if not numbers:
        return None, None
    left, right = operand_layouts(op, shape(op.operands[0].type)[-1], warps)
    return left if 0 in numbers else None, right if 1 in numbers else None


def operand_layouts(op: Op, depth: int, warps: int) -> tuple[Layout, Layout | None]:
    """The layouts in registers of the operands, or of `depth` along K of them, of a dot that a
    matrix instruction computes."""
    row, (rows, columns) = matrix.BY_NAME[op.attributes["instruction"]], _neighbours(op)
    left, right = matrix.operand_layouts(
        row, shape(op.result.type), depth, warps, contiguous=bool(op.attributes.get("contiguous")),
        held=bool(op.attributes.get("inside")))
    return gathered(left, -2, rows), right and gathered(right, -1, columns)


def _neighbours(op: Op) -> tuple[int, int]:
    found: tuple[int, int] = op.attributes.get("neighbours", (0, 0))
    return found


def gathered(layout: Layout, axis: int, bits: int) -> Layout:
    """The layout whose rows (columns) r, r + 8, ... are neighbours of the tile, 1 << `bits` of
    them: a thread has those, and lanes that stood side by side are so many apart.

    A product does not mind in which order its rows stand, if its result has the same.

    >>> print(gathered(Layout((16, 8), (1, 64), (2, 4, 8, 16, 32), ()), -2, 1))
    #layout<shape=[16,8], register=[1,8], lane=[2,4,16,32,64], warp=[]>
    """
    steps = axis_bases(layout.shape, axis)[:3 + bits]
    return renumbered(layout, dict(zip(steps, (*steps[bits:], *steps[:bits]), strict=True)))
