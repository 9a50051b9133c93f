"""Rules of pointer arithmetic.

An offset is extended from its own width to 64 bits, with its sign, and then scaled: two offsets add
up exactly in 64 bits, but not in 32, where the sum may wrap.
"""

from __future__ import annotations

from tritonc.analysis.values import int_of
from tritonc.ir.core import Op, Value
from tritonc.ir.types import element
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


RULES: dict[str, list[Rule]] = {"addptr": [offset_of_zero, extended_offset]}
