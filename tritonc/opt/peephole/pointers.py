"""Rules of pointer arithmetic.

An offset is extended from its own width to 64 bits, with its sign, and then scaled: two offsets add
up exactly in 64 bits, but not in 32, where the sum may wrap."""

from tritonc.analysis.values import defined_by, int_of, is_uniform
from tritonc.ir.core import Op, Value
from tritonc.ir.types import I64, Tile, element, with_element
from tritonc.opt.peephole.rewrite import Rewriter, Rule


def offset_of_zero(op: Op, r: Rewriter) -> Value | None:
    """p + 0 = p."""
    return op.operands[0] if int_of(op.operands[1]) == 0 else None


def extended_offset(op: Op, r: Rewriter) -> Value | None:
    """p + sext x = p + x, as an offset is extended so anyway; p + zext x too, if x >= 0."""
    p, offset = op.operands
    inner = offset.op
    if inner is None or inner.name not in ("sext", "zext"):
        return None
    x = inner.operands[0]
    if element(x.type).bits == 1 or (inner.name == "zext" and not r.facts.not_negative(x)):
        return None
    return r.value("addptr", p, x)


def _long(value: Value, r: Rewriter) -> Value:
    """A scalar offset in 64 bits."""
    return value if value.type == I64 else r.value("sext", value, type=I64)


def uniform_offsets(op: Op, r: Rewriter) -> Value | None:
    """(p + a) + b = p + (a + b) in 64 bits, for uniform a and b; of scalars, constants only."""
    p, b = op.operands
    inner = defined_by(p, "addptr")
    if inner is None or not (is_uniform(b) and is_uniform(inner.operands[1])):
        return None
    p, a = inner.operands
    if is_uniform(p) or 1 in (element(a.type).bits, element(b.type).bits):
        return None
    total = r.value("add", _long(r.element_of(a), r), _long(r.element_of(b), r))
    if isinstance(a.type, Tile):
        total = r.value("splat", total, type=with_element(a.type, I64))
    return r.value("addptr", p, total)


RULES: dict[str, list[Rule]] = {"addptr": [offset_of_zero, extended_offset, uniform_offsets]}
