"""Products of 8-bit floats, which tensor cores add up with fewer bits than a float has."""

from __future__ import annotations

from collections.abc import Callable

from tritonc.backend.layout.lower_conversions import part_type
from tritonc.backend.target import matrix
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.build import make_op
from tritonc.ir.core import Op, Value
from tritonc.ir.layout import SharedLayout, log2
from tritonc.ir.shared_layout import tensor_core
from tritonc.ir.types import Buffer, Tile, shape

MOST_PROMOTED = 64  # registers of a thread that hold a result, beside which another one fits
PROMOTED = 128  # elements of k that 8-bit floats add in the tensor cores' own format


COLUMNS = 32  # of which a result leaves out as many as are padding: parts of a swizzle's line


def started(op: Op, row: matrix.MatrixInstruction, left: Value, right: Value, c: Value,
            inner: tuple[int, int] | None = None) -> list[Op]:
    """The start of a product of a dot's operands, and the wait for it."""
    start = make_op("wgmma", [left, right, c], span=op.span, table=ALL_OPS, instruction=row.name)
    if inner is not None:
        start.attributes["inner"] = inner
    columns = op.attributes.get("columns", 0)
    if 0 < columns <= shape(start.result.type)[-1] - COLUMNS and row.operand.bits == 16:
        start.attributes["columns"] = -(-columns // COLUMNS) * COLUMNS
    return [start, make_op("wgmma_wait", [start.result], span=op.span, table=ALL_OPS, pending=0)]


def promoted(op: Op, row: matrix.MatrixInstruction, left: Value, right: Value, before: Value
             ) -> list[Op]:
    """Products of at most PROMOTED elements each from zero, added as floats.

    The tensor cores keep some 14 bits of a sum of products of 8-bit floats.  With -ffast-math
    that is enough, and the accumulators stay theirs.  A large result is added to by halves, since a
    thread cannot hold two of it.  One of few elements from zero is nobody's sum yet.
    """
    total, depth = before, shape(right.type)[0]
    if depth <= PROMOTED and is_zero(before):
        return started(op, row, left, right, before)
    halves = halves_of(op.result, right)
    bits = () if halves is None else (shape(op.result.type)[1] // 2,)
    t = op.result.type if halves is None else part_type(op.result.type, bits)
    zero = make_op("constant", [], t, span=op.span, value=0.0)
    ops = [zero]
    parts: list[Value] = []
    for number, side in enumerate([right] if halves is None else [half.result for half in halves]):
        if halves is not None:
            ops += [halves[number], make_op("tile_part", [before], t, table=ALL_OPS,
                                            span=op.span, bits=bits, index=number)]
            total = ops[-1].result
        for start in range(0, depth, PROMOTED):
            part = (start, min(start + PROMOTED, depth))
            ops += started(op, row, left, side, zero.result, part if depth > PROMOTED else None)
            ops.append(make_op("fadd", [total, ops[-1].result], span=op.span))
            total = ops[-1].result
        parts.append(total)
    if halves is not None:
        ops.append(make_op("join_parts", parts, op.result.type, table=ALL_OPS, span=op.span,
                           bits=bits))
    return ops


def is_zero(value: Value) -> bool:
    """Whether it is a tile of zeros."""
    return value.op is not None and value.op.name == "constant" and (
        value.op.attributes["value"] == 0)


def halves_of(result: Value, right: Value) -> list[Op] | None:
    """Views of the columns of B that each half of a large result takes; None for others."""
    t, b = result.type, right.type
    assert isinstance(t, Tile) and isinstance(b, Buffer) and b.layout is not None
    assert t.layout is not None
    if len(b.shape) != 2:
        return None
    depth, columns = b.shape
    if t.layout.registers <= MOST_PROMOTED or columns // 2 not in t.layout.register:
        return None
    size, half = b.element.bytes, (depth, columns // 2)
    layout = next((found for found in map(_panels(half, size), (0, 1)) if found is not None and all(
        found.offset_of(k * half[1] + n) == b.layout.offset_of(k * columns + n)
        for k, n in [(1 << i, 0) for i in range(log2(depth))]
        + [(0, 1 << i) for i in range(log2(half[1]))])), None)
    if layout is None:
        return None
    return [make_op("buffer_part", [right], Buffer(b.element, half, 1, layout), table=ALL_OPS,
                    offset=b.layout.offset_of(n) * size) for n in (0, half[1])]


def _panels(extents: tuple[int, int], size: int) -> Callable[[int], SharedLayout | None]:
    """The layout with a given axis contiguous, as wgmma reads it."""
    def of(inner: int) -> SharedLayout | None:
        width = extents[inner] * size
        swizzle = next((s for s in (128, 64, 32) if width >= s), 0)
        return tensor_core(extents, (inner, 1 - inner), size, swizzle) if width >= 16 else None

    return of
