"""Products of 8-bit floats, which tensor cores add up with fewer bits than a float has."""

from collections.abc import Mapping
from typing import Any

from tritonc.analysis.values import is_zero
from tritonc.backend.layout.lower_conversions import part_type
from tritonc.backend.target import matrix
from tritonc.backend.target.register_limits import MOST_PROMOTED
from tritonc.ir.build import make_op
from tritonc.ir.core import Op, Value
from tritonc.ir.types import Tile, shape

PROMOTED = 128  # elements of k that 8-bit floats add in the tensor cores' own format


COLUMNS = 16  # of which a result leaves out as many as are padding


def started(op: Op, row: matrix.MatrixInstruction, left: Value, right: Value, c: Value,
            part: Mapping[str, Any] | None = None) -> list[Op]:
    """The start of a product of a dot's operands, or of that part of them, and the wait for it."""
    start = make_op("wgmma", [left, right, c], span=op.span, instruction=row.name,
                    **matrix.sign(op), **(part or {}))
    asked = op.attributes.get("asked", 0)
    if "columns" not in start.attributes and row.operand.bits == 16 \
            and 0 < asked <= shape(start.result.type)[-1] - COLUMNS:
        start.attributes["asked"] = -(-asked // COLUMNS) * COLUMNS
    return [start, make_op("wgmma_wait", [start.result], span=op.span, pending=0)]


def promoted(op: Op, row: matrix.MatrixInstruction, left: Value, right: Value, before: Value
             ) -> list[Op]:
    """Products of at most PROMOTED elements each from zero, added as floats.

    The tensor cores keep some 14 bits of a sum of products of 8-bit floats.  With -ffast-math
    that is enough, and the accumulators stay theirs.  A large result is added to by halves, since a
    thread cannot hold two of it.  One of few elements from zero is nobody's sum yet."""
    total, depth = before, shape(right.type)[0]
    if depth <= PROMOTED and is_zero(before):
        return started(op, row, left, right, before)
    halves = halves_of(op.result)
    bits = (halves[0][1],) if halves else ()
    t = part_type(op.result.type, bits) if halves else op.result.type
    zero = make_op("constant", [], t, span=op.span, value=0.0)
    ops = [zero]
    parts: list[Value] = []
    for number, half in enumerate(halves or [None]):
        part = {} if half is None else {"columns": half}
        if half is not None:
            ops.append(make_op("tile_part", [before], t, span=op.span, bits=bits, index=number))
            total = ops[-1].result
        for start in range(0, depth, PROMOTED):
            if depth > PROMOTED:
                part["inner"] = start, min(start + PROMOTED, depth)
            ops += started(op, row, left, right, zero.result, part)
            ops.append(make_op("fadd", [total, ops[-1].result], span=op.span))
            total = ops[-1].result
        parts.append(total)
    if halves:
        ops.append(make_op("join_parts", parts, op.result.type, span=op.span, bits=bits))
    return ops


def halves_of(result: Value) -> list[tuple[int, int]]:
    """The columns of each half of a large result of two axes; nothing for others."""
    t = result.type
    assert isinstance(t, Tile) and t.layout is not None
    half = t.shape[-1] // 2
    if len(t.shape) != 2 or t.layout.registers <= MOST_PROMOTED or half not in t.layout.register:
        return []
    return [(0, half), (half, 2 * half)]
