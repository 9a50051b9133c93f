"""What is said of polynomials that stand for values: terms, what they need, and what follows."""

from collections.abc import Iterable

from tritonc.analysis.linear import Linear, number
from tritonc.ir.core import Op, Value
from tritonc.ir.types import element
from tritonc.records import dataclass

Index = tuple[Linear, ...]
ONE = number(1)


@dataclass(frozen=True)
class Need:
    """low <= poly <= high, where the polynomials `under` are not negative."""

    poly: Linear
    low: int
    high: int
    value: Value | None = None
    under: tuple[Linear, ...] = ()


@dataclass(frozen=True)
class Term:
    """See the top; `base`: the pointer parameter or table that an address counts from."""

    poly: Linear
    needs: tuple[Need, ...] = ()
    base: Value | None = None


@dataclass(frozen=True)
class Claim:
    """poly >= 0, if the needs are met."""

    poly: Linear
    needs: tuple[Need, ...] = ()


Branch = tuple[Claim, ...]  # claims that hold together
Rule = tuple[Branch, ...]  # of which one holds


def fits(poly: Linear, bits: int, value: Value | None = None) -> Need:
    """As a signed number."""
    return Need(poly, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, value)


def sure(*polys: Linear) -> Rule:
    """That none of these is negative, in any case."""
    return (tuple(map(Claim, polys)),)


def needs_of(*terms: Term) -> tuple[Need, ...]:
    """What must be proved before all of these count."""
    return tuple(dict.fromkeys(need for term in terms for need in term.needs))


def least(poly: Linear, low: int, op: Op) -> Need:
    """A bound of what an operation reads first."""
    return Need(poly, low, (1 << (element(op.result.type).bits - 1)) - 1, op.operands[0])


def symbols_of(polys: Iterable[Linear]) -> list[Value]:
    return list(dict.fromkeys(v for poly in polys for v in poly.values()))
