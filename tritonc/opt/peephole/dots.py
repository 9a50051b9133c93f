"""Rules of matrix products."""

from __future__ import annotations

from tritonc.analysis.values import constant_of, defined_by, slice_of
from tritonc.ir.core import Op, Value
from tritonc.opt.peephole.rewrite import Rewriter, Rule


def add_of_dot(op: Op, r: Rewriter) -> Value | None:
    """dot(a, b, 0) + c = c + dot(a, b, 0) = dot(a, b, c).

    The language leaves the order of a dot's sum to the compiler, so this holds for floats too; it
    lets `acc += a @ b` accumulate in place.  Only if the product has no other use, which would
    compute it twice, and stands in the same block: one that was moved out of a loop stays there.
    Of two products the one that waits for a third is the last.
    """
    left, right = op.operands
    first, last = defined_by(left, "dot"), defined_by(right, "dot")
    if first is not None and last is not None and _waits(first, r) and not _waits(last, r):
        left, right = right, left
    for x, c in ((right, left), (left, right)):
        dot = defined_by(x, "dot")
        if dot is None or dot not in r.here or not r.used_once(x):
            continue
        if constant_of(dot.operands[2]) == 0:
            return r.value("dot", dot.operands[0], dot.operands[1], c, **dot.attributes)
    return None


def _waits(dot: Op, r: Rewriter) -> bool:
    """Whether an operand is computed of another product in this block."""
    return any(op.name == "dot" for op in slice_of(dot.operands[:2], r.here, ("phi",)))


RULES: dict[str, list[Rule]] = {"fadd": [add_of_dot], "add": [add_of_dot]}
