"""bound_conversions: integers with known small bounds convert to 16-bit floats directly.

Before:  %n = and %w, %fifteen : i32<64, 8>       After:  %x = sitofp %n {bounds = (0, 15)} : bf16
         %x = sitofp %n : bf16<64, 8>

Before:  %s = fpcast %h : f32<64, 8>              After:  %x = sitofp %n {bounds = (0, 15)} : bf16
         %x = sitofp %n : f32<64, 8>                      %t = fmul %x, %h : bf16<64, 8>
         %t = fpcast (fmul %x, %s) : bf16<64, 8>

What an f32 holds exactly is rounded once on its way through one.  Integers of seven bits and their
sign need no conversion at all: they are fractions of a 16-bit float whose exponent is known (see
`emit/packed`).  Weights of four bits are such.

The product of a 16-bit float and an integer of as many digits has at most 22 bits, and none below
the float's last: f32 has it exactly, so it is rounded once, as the short one is.
"""

from __future__ import annotations

from tritonc.analysis.facts import Facts
from tritonc.analysis.values import defined_by, removable
from tritonc.backend.target.target import Target
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import BF16, F16, F32, Scalar, Tile, scalar, with_element

EXACT = 1 << 24  # all integers up to here are numbers of f32
_DIGITS = {BF16: 1 << 8, F16: 1 << 11}  # all integers up to here are numbers of a format
_SHAPES = ("splat", "broadcast", "reshape", "trans")


def bound_conversions(kernel: Kernel, context: Context) -> bool:
    """Set `bounds` on conversions of tiles where that helps."""
    facts, changed = Facts(kernel), False
    target: Target = context.target
    if "bf16_arithmetic" in target.features:
        changed = _short_products(kernel, facts)
    for op in kernel.ops():
        if op.name not in ("sitofp", "uitofp") or not isinstance(op.result.type, Tile) \
                or scalar(op.result.type) not in (F16, BF16):
            continue
        least, most = facts.interval(op.operands[0])
        if least >= -EXACT and most <= EXACT and (least >= 0 or op.name == "sitofp") \
                and scalar(op.operands[0].type).bits >= 16:
            op.attributes["bounds"] = (least, most)
            changed = True
    return changed


def _short_products(kernel: Kernel, facts: Facts) -> bool:
    replaced: dict[Value, Value] = {}
    for block in kernel.blocks:
        ops: list[Op] = []
        for op in block.ops:
            made = _short(op, facts) if op.name == "fpcast" else []
            if made:
                replaced[op.result] = made[-1].result
                made[-1].result.name = op.result.name
            ops += made or [op]
        block.ops = ops
    kernel.replace(replaced)
    _drop(kernel, [v for old in replaced if old.op is not None for v in old.op.operands])
    return bool(replaced)


def _drop(kernel: Kernel, values: list[Value]) -> None:
    """Remove what only made these values: layouts are chosen by readers."""
    readers, homes = uses(kernel), {op: block for block in kernel.blocks for op in block.ops}
    while values:
        op = values.pop().op
        if op in homes and removable(op) and not any(readers.get(r) for r in op.results):
            homes.pop(op).ops.remove(op)
            for value in dict.fromkeys(op.inputs()):
                readers[value] = [reader for reader in readers[value] if reader is not op]
                values.append(value)


def _short(cast: Op, facts: Facts) -> list[Op]:
    """Operations of 16 bits that make the same number; none if there are no such."""
    to, product = scalar(cast.result.type), defined_by(cast.operands[0], "fmul")
    if to not in _DIGITS or product is None or not isinstance(cast.result.type, Tile) \
            or scalar(product.result.type) != F32:
        return []
    for number, factor in (product.operands, product.operands[::-1]):
        moves, whole = _moved(number, ("sitofp", "uitofp"))
        others, wide = _moved(factor, ("fpcast",))
        if whole is None or wide is None or scalar(wide.operands[0].type) != to:
            continue
        least, most = facts.interval(whole.operands[0])
        if max(-least, most) > _DIGITS[to] or (least < 0 and whole.name == "uitofp"):
            continue
        made = [make_op(whole.name, [whole.operands[0]], with_element(whole.result.type, to),
                        span=whole.span)]
        made += _again(moves, made[-1].result, to)
        left = made[-1].result
        made += _again(others, wide.operands[0], to)
        right = made[-1].result if others else wide.operands[0]
        return [*made, make_op("fmul", [left, right], span=cast.span, **product.attributes)]
    return []


def _moved(value: Value, names: tuple[str, ...]) -> tuple[list[Op], Op | None]:
    """The operation of one of these names whose result, moved only, the value is; the moves."""
    moves: list[Op] = []
    while value.op is not None and value.op.name in _SHAPES:
        moves.append(value.op)
        value = value.op.operands[0]
    return moves[::-1], value.op if value.op is not None and value.op.name in names else None


def _again(moves: list[Op], value: Value, to: Scalar) -> list[Op]:
    """The same moves of another value."""
    made: list[Op] = []
    for move in moves:
        made.append(make_op(move.name, [value], with_element(move.result.type, to),
                            span=move.span, **move.attributes))
        value = made[-1].result
    return made
