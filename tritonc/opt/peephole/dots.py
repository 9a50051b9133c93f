"""Rules of matrix products."""

from tritonc.analysis.values import constant_of, defined_by, is_uniform, slice_of
from tritonc.ir.core import Op, Value
from tritonc.ir.types import F32, Tile, is_float, scalar
from tritonc.opt.peephole.rewrite import Rewriter, Rule


def add_of_dot(op: Op, r: Rewriter) -> Value | None:
    """dot(a, b, 0) + c = c + dot(a, b, 0) = dot(a, b, c).

    The language leaves the order of a dot's sum to the compiler, so this holds for floats too; it
    lets `acc += a @ b` accumulate in place."""
    a, b = op.operands
    return _onto(b, a, r) or _onto(a, b, r)


def sub_of_dot(op: Op, r: Rewriter) -> Value | None:
    """c - dot(a, b, 0) = dot(-a, b, c), as `minus` says: of floats, whose negation is exact."""
    return _onto(op.operands[1], op.operands[0], r, negated=True)


def _onto(products: Value, start: Value, r: Rewriter, negated: bool = False) -> Value | None:
    """A sum of products from 0, which begins at `start` instead.

    Only if the products have no other use, which would compute them twice, and stand in the same
    block: one that was moved out of a loop stays there."""
    dots: list[Op] = []
    while not dots or constant_of(products) != 0:
        dot = defined_by(products, "dot")
        if dot is None or dot not in r.here or not r.used_once(products):
            return None
        if negated and not is_float(dot.operands[0].type):
            return None
        dots.append(dot)
        products = dot.operands[2]
    for dot in reversed(dots):
        start = _product(r, dot, [*dot.operands[:2], start], negated)
    return start


def dot_of_negated(op: Op, r: Rewriter) -> Value | None:
    """dot(-a, b, c): no thread changes an operand for its sign."""
    for i in range(2):
        if (negation := defined_by(op.operands[i], "fneg")) is not None:
            operands = [*op.operands]
            operands[i] = negation.operands[0]
            return _product(r, op, operands, negated=True)
    return None


def join_factors(op: Op, r: Rewriter) -> Value | None:
    """dot(a, b) * f * g = dot(a, b) * (f * g) in a sum, for floats where elements of f or g are the
    same: their product has few, and is scaled by the instruction that adds it.  Where all differ,
    f * g would have as many as the product: there the other way round."""
    if not op.attributes.get("contract") or scalar(op.result.type) != F32:
        return None
    for scaled, g in (op.operands, op.operands[::-1]):
        inner = defined_by(scaled, "fmul")
        if inner is None or not r.used_once(scaled):
            continue
        for dot, f in (inner.operands, inner.operands[::-1]):
            if defined_by(dot, "dot") and _spread(f, g) and (_alike(f) or _alike(g)):
                return r.again(op, dot, r.value("fmul", f, g)).result
        if defined_by(g, "dot") and _spread(*inner.operands) and not any(
                map(_alike, inner.operands)):
            f, other = inner.operands
            return r.again(op, r.value("fmul", g, f), other).result
    return None


def _spread(*values: Value) -> bool:
    """Whether these are numbers, rows and columns that are spread over tiles."""
    return all(is_uniform(v) or defined_by(v, "broadcast") for v in values)


def _alike(value: Value) -> bool:
    """Whether neighbours are the same: one number, also masked, or those found by a quotient."""
    return is_uniform(value) or any(
        isinstance(op.result.type, Tile) and (op.name in ("sdiv", "udiv", "ashr", "lshr")
                                              or (op.name == "load" and is_uniform(op.operands[0])))
        for op in slice_of([value], ends=("phi",), masks=False) if len(op.results) == 1)


def _product(r: Rewriter, dot: Op, operands: list[Value], negated: bool) -> Value:
    attributes = dict(dot.attributes)
    if negated and not attributes.pop("minus", False):
        attributes["minus"] = True
    return r.value("dot", *operands, **attributes)


RULES: dict[str, list[Rule]] = {"fadd": [add_of_dot], "add": [add_of_dot], "fsub": [sub_of_dot],
                               "fmul": [join_factors], "dot": [dot_of_negated]}
