"""Polynomials of the library of functions: fits (Chebyshev, in 60 digits), written as macros.

    python tests/fit_polynomials.py         prints the file that stands in
                                            tritonc/library/polynomials.h; says how good each is

Each fit has a degree for float and one for double; the greatest error of the approximation alone
is less than a tenth of a unit in the last place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 60
Function = Callable[[Any], Any]


def _odd(f: Function, leading: Any = 1) -> Function:
    """(f(x) / x - leading) / x^2 as a function of x^2."""
    def found(t: Any) -> Any:
        if abs(t) < mp.mpf(10) ** -12:
            t = mp.mpf(10) ** -12
        x = mp.sqrt(t)
        return (f(x) / x - leading) / t

    return found


def _exp(x: Any) -> Any:
    if abs(x) < mp.mpf(10) ** -10:
        return mp.mpf(1) / 2 + x / 6 + x * x / 24
    return (mp.expm1(x) - x) / (x * x)


def _cos(t: Any) -> Any:
    if abs(t) < mp.mpf(10) ** -8:
        return mp.mpf(1) / 24 - t / 720
    x = mp.sqrt(t)
    return (mp.cos(x) - 1 + t / 2) / (t * t)


def _log(t: Any) -> Any:
    """What follows 2 s + 2/3 s^3 in 2 atanh(s), over s^5, in s^2."""
    if abs(t) < mp.mpf(10) ** -8:
        return mp.mpf(2) / 5 + 2 * t / 7
    s = mp.sqrt(t)
    return (2 * mp.atanh(s) - 2 * s - 2 * s * t / 3) / (s * t * t)


def _log1p(x: Any) -> Any:
    """What follows x in log(1 + x), over x^2."""
    if abs(x) < mp.mpf(10) ** -10:
        return -mp.mpf(1) / 2 + x / 3 - x * x / 4
    return (mp.log1p(x) - x) / (x * x)


def _erfc(t: Any) -> Any:
    """(1 + 2 x) exp(x^2) erfc(x) at x = 4 (1 + t) / (1 - t)."""
    if t == 1:
        return 2 / mp.sqrt(mp.pi)
    x = 4 * (1 + t) / (1 - t)
    if x > 60:
        total, term = mp.mpf(0), mp.mpf(1)
        for k in range(1, 30):
            total += term
            term *= -(2 * k - 1) / (2 * x * x)
        return (1 + 2 * x) * total / (x * mp.sqrt(mp.pi))
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def _lgamma(x: Any) -> Any:
    """lgamma(x) / ((x - 1) (x - 2))."""
    if min(abs(x - 1), abs(x - 2)) < mp.mpf(10) ** -15:
        x += mp.mpf(10) ** -14
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def _erfinv(w: Any) -> Any:
    """erfinv(x) / x with w = -log(1 - x^2)."""
    if w < mp.mpf(10) ** -12:
        w = mp.mpf(10) ** -12
    x = mp.sqrt(-mp.expm1(-w))
    if w < 5:
        return mp.erfinv(x) / x
    # by Newton's method on erfc
    complement = mp.exp(-w) / (1 + x)
    y = mp.sqrt(w)
    for _ in range(80):
        y += (mp.erfc(y) - complement) / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
    return y / x


def _stirling(t: Any) -> Any:
    """lgamma(x) - (x - 1/2) (log x - 1) over 1 / x, less its constant, in 1 / x^2."""
    bernoulli = [mp.bernoulli(2 * k) / (2 * k * (2 * k - 1)) for k in range(1, 16)]
    return sum(b * t**k for k, b in enumerate(bernoulli))


# name: function, interval, degree for float, for double; None where the type needs no such fit
FITS: dict[str, tuple[Function, tuple[Any, Any], int, int | None]] = {
    "EXP": (_exp, (-mp.log(2) / 2 * 1.01, mp.log(2) / 2 * 1.01), 5, 10),
    "LOG": (_log, (0, mp.mpf("0.0296")), 2, 7),
    "LOG1P": (_log1p, (-0.25, 0.5), 8, None),
    "SIN": (_odd(mp.sin), (0, (mp.pi / 4) ** 2 * 1.01), 3, 7),
    "COS": (_cos, (0, (mp.pi / 4) ** 2 * 1.01), 3, 7),
    "ASIN": (_odd(mp.asin), (0, mp.mpf("0.2501")), 5, 16),
    "ATAN": (_odd(mp.atan), (0, 1), 10, 22),
    "ERF": (_odd(mp.erf, 2 / mp.sqrt(mp.pi)), (0, 1), 6, 13),
    "ERFC": (_erfc, (-1, 1), 13, 30),
    "ERFINV_LOW": (lambda w: _erfinv(w + mp.mpf("2.5")), (mp.mpf("-2.5"), mp.mpf("2.5")), 9, 10),
    "ERFINV_HIGH": (lambda v: _erfinv((v + 4) ** 2), (mp.sqrt(5) - 4, mp.mpf("2.15")), 9, 12),
    "LGAMMA_LOW": (lambda d: _lgamma(d + mp.mpf("0.875")), (-0.375, 0.375), 11, 25),
    "LGAMMA_HIGH": (lambda d: _lgamma(d + mp.mpf("2.125")), (-0.875, 0.875), 11, 25),
    "STIRLING": (_stirling, (0, mp.mpf(1) / 64), 3, 8),
}

# Constants in two parts: the first has so many bits fewer than its type.
CONSTANTS: dict[str, tuple[Any, int]] = {
    "LN_2": (mp.log(2), 13), "LN_10": (mp.log(10), 0), "LOG10_E": (1 / mp.log(10), 0),
    "TWO_THIRDS": (mp.mpf(2) / 3, 0), "HALF_PI": (mp.pi / 2, 0), "LOG2_E": (1 / mp.log(2), 0),
    "STIRLING_0": (mp.log(2 * mp.pi) / 2 - mp.mpf(1) / 2, 0),
}


def parts(value: Any, bits: int) -> tuple[Any, Any]:
    exponent = mp.frexp(value)[1]
    high = mp.nint(mp.ldexp(value, bits - exponent))
    high = mp.ldexp(high, exponent - bits)
    return high, value - high


def constants(double: bool) -> str:
    lines = []
    for name, (value, fewer) in CONSTANTS.items():
        high, low = parts(value, (53 if double else 24) - fewer)
        lines += [f"#define {name} {mp.nstr(high, 20)}", f"#define {name}_LOW {mp.nstr(low, 20)}"]
    return "\n".join(lines)


def fit(name: str, double: bool) -> tuple[list[Any], Any]:
    function, interval, single_degree, double_degree = FITS[name]
    degree = double_degree if double else single_degree
    assert degree is not None
    coefficients, error = mp.chebyfit(function, interval, degree + 1, error=True)
    middle = abs(function((interval[0] + interval[1]) / 2))
    return coefficients, error / middle


def macro(name: str, double: bool) -> str:
    """A polynomial by Horner's rule, of `x`."""
    coefficients, error = fit(name, double)
    print(f"{name} {'double' if double else 'float'}: 2^{float(mp.log(error, 2)):.1f}",
          file=sys.stderr)
    digits = 20 if double else 11
    numbers = [mp.nstr(c, digits) for c in coefficients]
    text = numbers[0]
    for number in numbers[1:]:
        text = f"fma({text}, x, {number})"
    words, lines, line = text.split(" "), [], f"#define {name}(x)"
    for word in words:
        if len(line) + len(word) > 95:
            lines.append(line + " \\")
            line = "   "
        line += " " + word
    return "\n".join([*lines, line])


def main() -> None:
    print("// Made by tests/fit_polynomials.py, which says what each polynomial is.")
    for double in (True, False):
        print("#if DOUBLE" if double else "#else")
        print(constants(double))
        for name, (_, _, _, degree) in FITS.items():
            if degree is not None or not double:
                print(macro(name, double))
    print("#endif")


if __name__ == "__main__":
    main()
