"""Polynomials over scalar values: the symbolic sizes, strides and offsets of affine accesses.

A `Linear` is a sum of products of scalar SSA values with integer coefficients: `64 * pid * lda +
k`. They are compared by their terms, so that `pid * 64 * lda` and `lda * (64 * pid)` are one thing.
Integers are taken as unbounded: an access whose address arithmetic wraps is out of bounds anyway.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from tritonc.ir.build import Builder
from tritonc.ir.core import Value
from tritonc.ir.types import Scalar, scalar
from tritonc.records import dataclass

T = TypeVar("T")
Monomial = tuple[Value, ...]
LIMIT = 16  # terms; a longer sum is not worth following


@dataclass(frozen=True)
class Linear:
    """`terms`: products of values with their coefficients, none of them 0."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @property
    def constant(self) -> int | None:
        """The number, if it is one."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def constant_term(self) -> int:
        """The number that is added to the products of values."""
        return sum(n for values, n in self.terms if not values)

    @property
    def symbolic(self) -> tuple[tuple[Monomial, int], ...]:
        return tuple(term for term in self.terms if term[0])

    @property
    def key(self) -> Hashable:
        """Equal for sums of the same terms, in whatever order."""
        return frozenset((frozenset(Counter(monomial).items()), n) for monomial, n in self.terms)

    def __add__(self, other: "Linear") -> "Linear":
        if not self.terms or not other.terms:
            return self if self.terms else other
        return _sum([*self.terms, *other.terms])

    def __sub__(self, other: "Linear") -> "Linear":
        return self + other.scaled(-1)

    def __mul__(self, other: "Linear") -> "Linear":
        terms = [(a + b, m * n) for a, m in self.terms for b, n in other.terms]
        return _sum(terms) if self.terms[1:] and other.terms[1:] else Linear((*terms,))

    def scaled(self, factor: int) -> "Linear":
        return self if factor == 1 else number(factor) * self

    def renamed(self, mapping: Mapping[Value, Value]) -> "Linear":
        return Linear(tuple((tuple(mapping.get(v, v) for v in values), n)
                            for values, n in self.terms))

    def substituted(self, mapping: "Mapping[Value, Linear]") -> "Linear":
        """The same with polynomials in place of values."""
        if not any(v in mapping for monomial, _ in self.terms for v in monomial):
            return self
        total = Linear()
        for monomial, n in self.terms:
            product = number(n)
            for v in monomial:
                product = product * mapping.get(v, symbol(v))
            total = total + product
        return total

    def values(self) -> list[Value]:
        return list(dict.fromkeys(v for monomial, _ in self.terms for v in monomial))

    def split(self, symbol: Value) -> "tuple[Linear, Linear] | None":
        """(rest, factor) with self = rest + factor * symbol; None if a higher power occurs."""
        rest, factor = [], []
        for monomial, n in self.terms:
            count = monomial.count(symbol)
            if count > 1:
                return None
            if count:
                factor.append((tuple(v for v in monomial if v is not symbol), n))
            else:
                rest.append((monomial, n))
        return _sum(rest), _sum(factor)

    def parted(self, apart: Callable[[Value], bool]) -> "tuple[Linear, Linear]":
        """The terms of other values alone, and those in which one is that `apart` holds of."""
        found = [term for term in self.terms if any(map(apart, term[0]))]
        return Linear(tuple(t for t in self.terms if t not in found)), Linear(tuple(found))

    def divided(self, by: "Linear") -> "Linear | None":
        """self / by, if `by` is one term that divides each term of self."""
        if len(by.terms) != 1:
            return None
        (divisor, n), found = by.terms[0], []
        for monomial, m in self.terms:
            left = without(monomial, divisor)
            if left is None or m % n:
                return None
            found.append((left, m // n))
        return _sum(found)


def without(values: tuple[T, ...], others: Iterable[T]) -> tuple[T, ...] | None:
    """The values but for the others, of which each is among them, as often; else None."""
    left = [*values]
    for v in others:
        if v not in left:
            return None
        left.remove(v)
    return tuple(left)


def number(value: int) -> Linear:
    return Linear((((), value),)) if value else Linear()


def symbol(value: Value) -> Linear:
    """A value of which nothing more is known."""
    return Linear((((value,), 1),))


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Linear:
    """Like terms together, in the order of their first occurrence, their factors as first written.

    No order depends on the identity of values, so that the same program gives the same text."""
    total: dict[Hashable, tuple[Monomial, int]] = {}
    for monomial, n in terms:
        key = monomial if len(monomial) < 2 else frozenset(Counter(monomial).items())
        first, sum_ = total.get(key, (monomial, 0))
        total[key] = (first, sum_ + n)
    return Linear(tuple((m, n) for m, n in total.values() if n))


def equal(a: Linear, b: Linear) -> bool:
    return not (a - b).terms


def emit(builder: Builder, value: Linear, t: Scalar,
         rename: Callable[[Value], Value] = lambda v: v) -> Value:
    """Operations that compute the polynomial in `t` (i32 or i64), its values sign-extended."""
    def factors(monomial: Monomial, n: int) -> Iterator[Value]:
        for factor in monomial:
            yield _widened(builder, rename(factor), t)
        if n != 1 or not monomial:
            yield builder.constant(n, t)

    products = (builder.joined("mul", factors(*term)) for term in value.terms)
    return builder.joined("add", products) if value.terms else builder.constant(0, t)


def _widened(builder: Builder, value: Value, t: Scalar) -> Value:
    e = scalar(value.type)
    if e.bits < t.bits:
        return builder.value("sext", value, type=t)
    return builder.value("truncate", value, type=t) if e.bits > t.bits else value


