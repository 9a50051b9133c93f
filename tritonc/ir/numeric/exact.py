"""Sums and products of float64 that are rounded once, although NumPy has no fused operation.

The error of a rounded sum or product of float64 is itself a float64, and a few operations compute
it (`two_sum`, `two_product`): the pair of both is exact.  To round such a pair to a narrower
format, or to add another number to it, one rounding too many must not show.  *Rounding to odd* sees
to that (`add_to_odd`): where a sum is inexact, of its two neighbours the one with an odd last bit
is taken.  That bit then stands for "not exactly here", no tie can arise from it, and a second
rounding to a format of at least two bits less gives what one rounding of the exact sum gives (Boldo
and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
odd", 2008).

Below, a sum just above the middle between two numbers of float32:

    >>> total = add_to_odd(np.float64(1 + 2.0**-24), np.float64(2.0**-60))
    >>> float(np.float32(total)), float(np.float32(1 + 2.0**-24 + 2.0**-60))
    (1.0000001192092896, 1.0)
"""

from typing import Any

import numpy as np

from tritonc.ir.numeric import numbers
from tritonc.ir.types import F64


def add_to_odd(a: Any, b: Any) -> Any:
    """a + b in float64, rounded to odd where it is not exact."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    total, error = two_sum(a, b)
    bits = total.view(np.int64)
    inexact = np.isfinite(error) & (error != 0) & (bits & 1 == 0)
    return np.where(inexact, np.nextafter(total, np.copysign(np.inf, error)), total)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded sum and its error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fma64(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once: the algorithm that Boldo and Melquiond prove.

    Elements near the ends of the range, where products or their errors may overflow or vanish, are
    computed in exact integers."""
    a, b, c = np.broadcast_arrays(a, b, c)
    high, low = two_product(a, b)
    middle, rest = two_sum(c, low)
    top, middle = two_sum(high, middle)
    found = top + add_to_odd(middle, rest)
    found = np.where((a == 0) | (b == 0), a * b + c, found)
    middling = np.ones(found.shape, np.bool_)
    for x in (a, b, c):
        size = np.abs(x)
        middling &= (x == 0) | ((size > 2.0**-400) & (size < 2.0**400))
    found = np.array(found)
    for index in zip(*np.nonzero(~np.atleast_1d(middling)), strict=True):
        place = index if found.shape else ()
        found[place] = numbers.exact_fma(F64, float(a[place]), float(b[place]), float(c[place]))
    return found if found.shape else found[()]


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded product and its error, exactly (Dekker)."""
    def split(x: Any) -> tuple[Any, Any]:
        scaled = x * 134217729.0  # 2^27 + 1
        high = scaled - (scaled - x)
        return high, x - high

    (a1, a2), (b1, b2) = split(a), split(b)
    product = a * b
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)
