"""The lattice of axis information: what is known of a tile along each axis (see `axis_info`)."""

from functools import cache
from math import gcd

from tritonc.ir.types import Type, shape
from tritonc.records import NamedTuple

TOP = 1 << 30  # divides everything we ask about


def low_bit(value: int) -> int:
    """The greatest power of two that divides `value`; TOP for 0."""
    return min(value & -value, TOP) if value else TOP


class AxisInfo(NamedTuple):
    """One entry per axis; a scalar has one axis of extent 1.  `value` is a known constant."""

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    value: int | None = None

    def start_divisibility(self, axis: int, run: int) -> int:
        """What divides the value at the start of runs of `run` elements along `axis`."""
        d = self.divisibility[axis]
        return d if self.contiguity[axis] <= run else gcd(d, run)

    @property
    def every(self) -> int:
        """What divides every element."""
        return min(self.start_divisibility(axis, 1) for axis in range(len(self.contiguity)))


@cache
def extents_of(t: Type) -> tuple[int, ...]:
    return tuple(low_bit(n) for n in shape(t)) or (1,)


def unknown(t: Type, divisibility: int = 1) -> AxisInfo:
    ones = (1,) * len(extents_of(t))
    return AxisInfo(ones, (divisibility,) * len(ones), ones)


def uniform(t: Type, divisibility: int, value: int | None = None) -> AxisInfo:
    """The same value in every element."""
    extents = extents_of(t)
    return AxisInfo((1,) * len(extents), (divisibility,) * len(extents), extents, value)


def meet(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """What holds of both."""
    contiguity = tuple(map(gcd, a.contiguity, b.contiguity))
    divisibility = tuple(
        gcd(a.start_divisibility(d, c), b.start_divisibility(d, c))
        for d, c in enumerate(contiguity))
    return AxisInfo(contiguity, divisibility, tuple(map(gcd, a.constancy, b.constancy)),
                    a.value if a.value == b.value else None)


def start_of(a: AxisInfo, axis: int, run: int, scale: int) -> int:
    """start_divisibility of a pointer, whose runs step by `scale` bytes."""
    d = a.divisibility[axis]
    return d if a.contiguity[axis] <= run else gcd(d, run * scale)
