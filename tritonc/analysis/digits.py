"""Indices that are digits of a row's number, and sums of digits that are the number again.

The rows of an implicit product are numbered through: of a pixel x of images of P x Q results,

    q = x % Q,  p = x / Q % P,  b = x / (P * Q)

Each is a sum of quotients of x, with x % n = x - n * (x / n) and x / a / b = x / (a * b).  What a
tap of a convolution reads is another such sum, ((b * H + p + r) * W + q + s) * C; where results are
as many as pixels, P == H and Q == W, all quotients but x itself cancel, and the rows lie one behind
the other: (x + r * W + s) * C."""

from collections.abc import Iterable, Iterator

from tritonc.analysis.linear import Linear, equal, number, symbol
from tritonc.analysis.values import (
    QUOTIENTS,
    REMAINDERS,
    SPREADS,
    defined_by,
    int_of,
    origin,
    remembered,
    slice_of,
)
from tritonc.ir.core import Op, Value
from tritonc.ir.types import is_int, same_axes, shape
from tritonc.records import NamedTuple

ONE = number(1)
Equal = dict[Value, Value]


class Sum(NamedTuple):
    """offset + factors times x / divisors."""

    parts: tuple[tuple[Linear, Linear], ...] = ()  # (divisor, factor)
    offset: Linear = Linear()

    def plus(self, other: "Sum", by: Linear = ONE) -> "Sum":
        parts = list(self.parts)
        for divisor, factor in other.parts:
            at = next((i for i, (d, _) in enumerate(parts) if equal(d, divisor)), len(parts))
            before = parts[at][1] if at < len(parts) else Linear()
            parts[at:at + 1] = [(divisor, before + factor * by)]
        return Sum(tuple(p for p in parts if p[1].terms), self.offset + other.offset * by)

    def over(self, n: Linear) -> "Sum | None":
        """The quotient by n, of a quotient of x or a digit."""
        if self.offset.terms or len(n.terms) != 1:
            return None
        first = next((d for d, f in self.parts if equal(f, ONE)), None)
        rest = [(d, f) for d, f in self.parts if d is not first]
        if first is None or len(rest) > 1:
            return None
        found = Sum(((first * n, ONE),))
        for divisor, factor in rest:
            left = factor.divided(n)
            if left is None or not equal(divisor + first * factor, Linear()):
                return None
            found = found.plus(Sum(((divisor, left),)))
        return found

    @property
    def divides(self) -> bool:
        """Whether a quotient is in it that is not x."""
        return any(not equal(divisor, ONE) for divisor, _ in self.parts)

    def equalities(self) -> Equal | None:
        """Which scalars would have to be equal so that no other quotient than x is left: those
        that are computed, with what each would be."""
        found: Equal = {}
        for divisor, factor in sorted(self.parts, key=lambda part: len(part[0].terms[0][0])):
            factor = factor.substituted({v: symbol(w) for v, w in found.items()})
            if equal(divisor, ONE) or not factor.terms:
                continue
            if len(factor.terms) != 2 or factor.terms[0][1] != -factor.terms[1][1]:
                return None
            left, right = (list(values) for values, _ in factor.terms)
            for value in list(left):
                if value in right:
                    left.remove(value)
                    right.remove(value)
            if len(left) != 1 or len(right) != 1:
                return None
            pair = sorted((left[0], right[0]), key=lambda v: v.op is None)
            if pair[0].op is None or pair[0].type != pair[1].type:
                return None
            found[pair[0]] = pair[1]
        return found


class Digits:
    """The sums that a kernel's tiles of one axis are, of quotients of one tile of numbers x."""

    def __init__(self, base: Value, ops: Iterable[Op]) -> None:
        """`ops` has what divides x."""
        self.base = base
        self.extents = {v for op in ops if op.name in (*QUOTIENTS, *REMAINDERS)
                        and (by := defined_by(op.operands[1], "splat")) is not None
                        for v in _divisors(by.operands[0])}
        self.start, self.range = _counted(base) or (base, base)

    @remembered()
    def of(self, value: Value) -> Sum | None:
        """The sum, of a scalar or a tile of one axis; None if it is none."""
        op, dims = value.op, shape(value.type)
        if not is_int(value.type) or sum(n > 1 for n in dims) > 1:
            return None
        if not dims:
            return Sum((), self.scalar(value))
        if value is self.base:
            return Sum(((ONE, ONE),))
        if op is None:
            return None
        if (constant := int_of(value)) is not None:
            return Sum((), number(constant))
        if value is self.range:
            return Sum(((ONE, ONE),), self.scalar(self.start).scaled(-1))
        if op.name in (*SPREADS, "sext", "assume_multiple"):
            return None if op.name == "reshape" and same_axes(
                shape(op.operands[0].type), dims) is None else self.of(op.operands[0])
        if op.name not in ("add", "sub", "mul", *QUOTIENTS, *REMAINDERS):
            return None
        a, b = (self.of(v) for v in op.operands)
        if a is None or b is None:
            return None
        if op.name in ("add", "sub"):
            return a.plus(b, number(1 if op.name == "add" else -1))
        if op.name == "mul" and not b.parts:
            return Sum().plus(a, b.offset)
        if op.name == "mul" and not a.parts:
            return Sum().plus(b, a.offset)
        if b.parts or op.name == "mul":
            return None
        quotient = a.over(b.offset)
        return quotient if quotient is None or op.name in QUOTIENTS else a.plus(
            quotient, b.offset.scaled(-1))

    @remembered(Linear())
    def scalar(self, value: Value) -> Linear:
        """A polynomial; extents, which are sums as a rule, are symbols in it."""
        op, constant = value.op, int_of(value)
        if constant is not None:
            return number(constant)
        if value in self.extents or op is None or op.name not in ("add", "sub", "mul"):
            return symbol(value)
        a, b = map(self.scalar, op.operands)
        return a * b if op.name == "mul" else a + b.scaled(1 if op.name == "add" else -1)


def _divisors(value: Value) -> Iterator[Value]:
    """The factors of a scalar that rows' numbers are divided by."""
    op = value.op
    if op is not None and op.name == "mul":
        yield from _divisors(op.operands[0])
        yield from _divisors(op.operands[1])
    elif op is None or op.name != "constant":
        yield value


def bases(ops: Iterable[Op]) -> Iterator[Value]:
    """The tiles of numbers that are divided by scalars."""
    found = dict.fromkeys(origin(op.operands[0], ("reshape", "broadcast")) for op in ops
                          if op.name in (*QUOTIENTS, *REMAINDERS) and len(shape(op.result.type)) > 0
                          and defined_by(op.operands[1], "splat") is not None)
    return (value for value in found if _counted(value) is not None)


def undivided(a: Value, b: Value) -> Value | None:
    """The tile of numbers that a + b is again, as x / d * d + x % d, if it is one."""
    ops = slice_of([a, b], ends=("load", "phi"))
    for base in bases(ops):
        digits = Digits(base, ops)
        both = digits.of(a), digits.of(b)
        if both[0] is not None and both[1] is not None \
                and both[0].plus(both[1]) == Sum(((ONE, ONE),)):
            return base
    return None


def _counted(value: Value) -> tuple[Value, Value] | None:
    """What is added to the range that a tile of numbers is, and the range; the tile itself before
    `expand_range`."""
    op = value.op
    if op is not None and op.name == "get_global_range":
        return value, value
    if op is None or op.name != "add" or len(shape(value.type)) != 1:
        return None
    for start, counted in (op.operands, op.operands[::-1]):
        first = defined_by(start, "splat")
        if defined_by(counted, "range") is not None and first is not None:
            return first.operands[0], counted
    return None
