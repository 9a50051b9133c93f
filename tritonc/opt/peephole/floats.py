"""Rules of floating point.  Each is exact for all IEEE values, signed zeros, infinities and NaNs
included; which bits a NaN has is left open, as in the language.

What is not here is not exact: x + 0.0 is 0.0 for x = -0.0, x * 0.0 is a NaN for an infinity,
x - x is a NaN for an infinity."""

from math import copysign, frexp, inf, isfinite, isinf

from tritonc.analysis.values import constant_of, defined_by
from tritonc.ir.core import Op, Value
from tritonc.ir.types import scalar
from tritonc.opt.peephole.rewrite import Rewriter, Rule

_COSTLY = frozenset("fdiv sqrt rsqrt exp exp2 log log2 tanh erf sin cos".split())
_MOST_ARMS = 4


def _float_of(value: Value) -> float | None:
    """The number in all elements of a float constant."""
    number = constant_of(value)
    return float(number) if number is not None else None


def _is(value: Value, wanted: float) -> bool:
    """That constant, the sign of zero included."""
    number = _float_of(value)
    return (number is not None and number == wanted
            and copysign(1.0, number) == copysign(1.0, wanted))


def plus_minus_zero(op: Op, r: Rewriter) -> Value | None:
    """x + (-0.0) = x."""
    return op.operands[0] if _is(op.operands[1], -0.0) else None


def times_one(op: Op, r: Rewriter) -> Value | None:
    """x * 1 = x / 1 = x."""
    return op.operands[0] if _is(op.operands[1], 1.0) else None


def divide_by_power_of_two(op: Op, r: Rewriter) -> Value | None:
    """x / c = x * (1 / c) for a power of two c whose reciprocal is a normal number.

    Both round the same real number once."""
    a, b = op.operands
    number = _float_of(b)
    if number is None or number == 0.0 or abs(frexp(number)[0]) != 0.5:
        return None
    bias = (1 << (scalar(b.type).exponent - 1)) - 1
    exponent = frexp(number)[1] - 1  # number = +-2**exponent
    if not 1 - bias <= -exponent <= bias:
        return None
    return r.value("fmul", a, r.constant(1.0 / number, b.type))


def sum_of_two_exponentials(op: Op, r: Rewriter) -> Value | None:
    """s exp(x - m) + t exp(y - m), with m = max(x, y): one difference is 0, its exponential 1.

    With a = x - m, b = y - m and e = exp(a + b), that is s 1 + t e where a is 0, else s e + t 1.
    a + b is the other difference, exactly; where one of them is a NaN, as for infinities, so is e,
    and both sums are NaNs.  The same for exp2, and with both differences multiplied by a number.
    Either factor may be missing, or both."""
    for first, made, s in _exponentials(op.operands[0], r):
        for second, other, t in _exponentials(op.operands[1], r):
            if first.name != second.name or first is second:
                continue
            a, b = first.operands[0], second.operands[0]
            x, y = _distance(a), _distance(b)
            if x is None or y is None or x[1:] != y[1:]:
                continue
            top = defined_by(x[1], "fmax")
            if top is None or {*top.operands} != {x[0], y[0]} or x[0] is y[0]:
                continue
            e = r.value(first.name, r.value("fadd", a, b))
            one = r.constant(1.0, e.type)
            if made is other is None:
                return r.again(op, e, one).result
            nearer = r.value("fcmp", a, r.constant(0.0, a.type), predicate="oeq")
            left = r.value("select", nearer, one, e)
            right = r.value("select", nearer, e, one)
            return r.again(op, left if made is None or s is None else r.again(made, s, left).result,
                           right if other is None or t is None else r.again(other, t, right).result
                           ).result
    return None


def exponential_of_the_first(op: Op, r: Rewriter) -> Value | None:
    """exp(a + b) = b, with a = -inf - m, b = x - m and m = max(x, -inf): the two exponentials of
    `sum_of_two_exponentials` in the first step of a row.

    a is -inf or a NaN, b is 0 or a NaN; where a is a NaN, m is -inf, and so is b.  exp2 is the
    same, and so are both differences multiplied by a number above 0."""
    total = defined_by(op.operands[0], "fadd")
    for a, b in (total.operands, total.operands[::-1]) if total is not None else ():
        first, second = _distance(a), _distance(b)
        if first is None or second is None or first[1:] != second[1:] or first[2] < 0:
            continue
        top = defined_by(first[1], "fmax")
        if _float_of(first[0]) == -inf and top is not None and (
                {*top.operands} == {first[0], second[0]}):
            return b
    return None


def compared_distance(op: Op, r: Rewriter) -> Value | None:
    """(-inf - y) c == d is false, for a finite number d: the difference is infinite or a NaN."""
    distance, number = _distance(op.operands[0]), _float_of(op.operands[1])
    if op.attributes["predicate"] != "oeq" or distance is None or number is None or not (
            isfinite(number)):
        return None
    start = _float_of(distance[0])
    return r.constant(False, op.result.type) if start is not None and isinf(start) else None


def choice_of_functions(op: Op, r: Rewriter) -> Value | None:
    """select c, f(x), f(y) = f(select c, x, y), of a quotient or what takes as long; the same of
    merges, and of x / y + z, where x / y is x / y + -0.0."""
    first = op.name == "select"
    arms = op.operands[1:] if first else op.operands[1::2]
    known = [_function(arm, r) for arm in arms]
    made = [one for one, _ in known if one is not None]
    if not 1 < len(made) == len(arms) <= _MOST_ARMS or any(
            (one.name, one.attributes) != (made[0].name, made[0].attributes) for one in made):
        return None

    def chosen(values: list[Value]) -> Value:
        if all(value is values[0] for value in values):
            return values[0]
        return r.value("select", op.operands[0], *values) if first else r.value(
            "psi", *(v for pair in zip(op.operands[::2], values, strict=True) for v in pair))

    result = r.again(made[0], *(chosen([one.operands[at] for one in made])
                                for at in range(len(made[0].operands)))).result
    numbers = [number for _, number in known]
    if any(number is not None for number in numbers):
        zero = r.constant(-0.0, result.type)
        result = r.value("fadd", result, chosen([n or zero for n in numbers]))
    return result


def _function(value: Value, r: Rewriter) -> tuple[Op | None, Value | None]:
    """The costly operation that makes a value which nothing else reads, and what is added."""
    total = defined_by(value, "fadd") if r.used_once(value) else None
    pairs = [(value, None)] if total is None else [total.operands, total.operands[::-1]]
    return next(((x.op, other) for x, other in pairs if x.op is not None
                 and x.op.name in _COSTLY and r.used_once(x)), (None, None))


def _exponentials(value: Value, r: Rewriter) -> list[tuple[Op, Op | None, Value | None]]:
    """The exponential that a value is; or the exponentials of which it may be a product, with that
    and the other factor."""
    op = value.op
    if op is None or not r.used_once(value):
        return []
    if op.name in ("exp", "exp2"):
        return [(op, None, None)]
    if op.name != "fmul":
        return []
    return [(inner, op, s) for s, factor in (op.operands, op.operands[::-1])
            if (inner := factor.op) is not None and inner.name in ("exp", "exp2")
            and r.used_once(factor)]


def _distance(value: Value) -> tuple[Value, Value, float] | None:
    """x, m and c of (x - m) c, with a finite number c, 1 if there is none."""
    factor, scaled = 1.0, defined_by(value, "fmul")
    if scaled is not None:
        number = _float_of(scaled.operands[1])
        if number is None or not isfinite(number) or number == 0.0:
            return None
        value, factor = scaled.operands[0], number
    difference = defined_by(value, "fsub")
    return None if difference is None else (difference.operands[0], difference.operands[1], factor)


RULES: dict[str, list[Rule]] = {
    "fadd": [plus_minus_zero, sum_of_two_exponentials],
    "fmul": [times_one],
    "fdiv": [times_one, divide_by_power_of_two],
    "exp": [exponential_of_the_first],
    "exp2": [exponential_of_the_first],
    "fcmp": [compared_distance],
    "select": [choice_of_functions],
    "psi": [choice_of_functions]}
