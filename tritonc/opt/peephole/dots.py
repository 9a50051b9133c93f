"""Rules of matrix products."""

from __future__ import annotations

from tritonc.analysis.values import constant_of, defined_by
from tritonc.ir.core import Op, Value
from tritonc.opt.peephole.rewrite import Rewriter, Rule


def add_of_dot(op: Op, r: Rewriter) -> Value | None:
    """dot(a, b, 0) + c = c + dot(a, b, 0) = dot(a, b, c).

    The language leaves the order of a dot's sum to the compiler, so this holds for floats too; it
    lets `acc += a @ b` accumulate in place.  Only if the product has no other use, which would
    compute it twice, and stands in the same block: one that was moved out of a loop stays there.
    """
    for x, c in ((op.operands[1], op.operands[0]), (op.operands[0], op.operands[1])):
        dot = defined_by(x, "dot")
        if dot is None or dot not in r.here or not r.used_once(x):
            continue
        if constant_of(dot.operands[2]) == 0:
            return r.value("dot", dot.operands[0], dot.operands[1], c, **dot.attributes)
    return None


RULES: dict[str, list[Rule]] = {"fadd": [add_of_dot], "add": [add_of_dot]}
