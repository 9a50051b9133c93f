"""Rules of matrix products."""

from __future__ import annotations

from tritonc.analysis.values import constant_of, defined_by
from tritonc.ir.core import Op, Value
from tritonc.ir.types import BF16, F16, F32, F64, element
from tritonc.opt.peephole.rewrite import Rewriter, Rule


def add_of_dot(op: Op, r: Rewriter) -> Value | None:
    """dot(a, b, 0) + c = c + dot(a, b, 0) = dot(a, b, c).

    The language leaves the order of a dot's sum to the compiler, so this holds for floats too; it
    lets `acc += a @ b` accumulate in place.
    """
    a, b = op.operands
    return _onto(b, a, r) or _onto(a, b, r)


def sub_of_dot(op: Op, r: Rewriter) -> Value | None:
    """c - dot(a, b, 0) = dot(-a, b, c): of floats, whose negation is exact."""
    return _onto(op.operands[1], op.operands[0], r, negated=True)


def _onto(products: Value, start: Value, r: Rewriter, negated: bool = False) -> Value | None:
    """A sum of products from 0, which begins at `start` instead.

    Only if the products have no other use, which would compute them twice, and stand in the same
    block: one that was moved out of a loop stays there.
    """
    dots: list[Op] = []
    while not dots or constant_of(products) != 0:
        dot = defined_by(products, "dot")
        if dot is None or dot not in r.here or not r.used_once(products):
            return None
        if negated and element(dot.operands[0].type) not in (F16, BF16, F32, F64):
            return None
        dots.append(dot)
        products = dot.operands[2]
    for dot in reversed(dots):
        a, b, _ = dot.operands
        start = r.value("dot", r.value("fneg", a) if negated else a, b, start, **dot.attributes)
    return start


RULES: dict[str, list[Rule]] = {"fadd": [add_of_dot], "add": [add_of_dot], "fsub": [sub_of_dot]}
