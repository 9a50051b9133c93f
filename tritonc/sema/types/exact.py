"""Exact values of floating constants that have no format yet.

`1.1` has no suffix, so that its format is that of the operand which it meets; rounding it to double
first and to half later could give another half than rounding once.  So its value is kept as a
fraction until a format is known.  Infinities, NaN and -0, which no fraction holds, stay Python's.
"""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from tritonc.ir.numeric.numbers import divide, round_dyadic, round_to
from tritonc.ir.types import F64, Scalar

if TYPE_CHECKING:
    from fractions import Fraction

_DIGITS = 1000  # more decide nothing: the middle between two doubles has at most 768
_FAR = 400  # decimal exponents beyond it are infinite or zero in every format

ExactNumber: TypeAlias = "Fraction | float"  # a float only where it is infinite, NaN or -0


def is_fraction(constant: object) -> TypeGuard[Fraction]:
    """Whether a constant is one of these fractions, not a number or a text of Python's."""
    return not isinstance(constant, int | float | str | None)


def _fraction(value: int | float) -> Fraction:
    from fractions import Fraction  # few kernels have such constants

    return Fraction(value)


def parse(text: str) -> ExactNumber:
    """The value of a C floating constant without its suffix, or of "inf" or "nan".

    >>> parse("1.5"), parse("25e-1"), parse("0x1.8p1"), parse("1e999999999"), parse("inf")
    (Fraction(3, 2), Fraction(5, 2), Fraction(3, 1), inf, inf)
    """
    if text in ("inf", "nan"):
        return float(text)
    lower = text.lower()
    hexadecimal = lower.startswith("0x")
    body, _, exponent_text = lower.removeprefix("0x").partition("p" if hexadecimal else "e")
    whole, _, fraction = body.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return _fraction(0)
    scale = -len(fraction)
    sign = -1 if exponent_text.startswith("-") else 1
    exponent_digits = exponent_text.lstrip("+-").lstrip("0")
    exponent = sign * int(exponent_digits[:9] or 0)
    if hexadecimal:
        if abs(exponent + 4 * (len(digits) + scale)) > 4 * _FAR:
            return math.inf if exponent > 0 else _fraction(0)
        return int(digits, 16) * _fraction(2) ** (exponent + 4 * scale)
    if abs(exponent + len(digits) + scale) > _FAR:
        return math.inf if exponent + len(digits) + scale > 0 else _fraction(0)
    if len(digits) > _DIGITS:
        scale += len(digits) - _DIGITS - 1
        digits = digits[:_DIGITS] + ("1" if digits[_DIGITS:].strip("0") else "0")
    return int(digits) * _fraction(10) ** (exponent + scale)


def of_float(value: float) -> ExactNumber:
    """The exact value of a Python float."""
    if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
        return value
    return _fraction(value)


def round_exact(value: ExactNumber, e: Scalar) -> float:
    """The nearest number of format `e`, ties to even.

    >>> from tritonc.ir.types import F16, F32
    >>> round_exact(parse("0.1"), F16), round_exact(parse("16777217.0"), F32)
    (0.0999755859375, 16777216.0)
    """
    if isinstance(value, float):
        return round_to(e, value)
    numerator, denominator = abs(value.numerator), value.denominator
    # At least 70 bits of the quotient, and one more that tells whether anything is left.
    shift = max(0, 70 + denominator.bit_length() - numerator.bit_length())
    quotient, rest = divmod(numerator << shift, denominator)
    quotient = 2 * quotient + (rest != 0)
    return round_dyadic(e, quotient if value.numerator >= 0 else -quotient, shift + 1)


def is_exact(value: ExactNumber, e: Scalar) -> bool:
    """Whether the format has this very number.

    >>> from tritonc.ir.types import F8E4M3
    >>> is_exact(parse("1.5"), F8E4M3), is_exact(parse("1.1"), F8E4M3), is_exact(parse("inf"), F8E4M3)
    (True, False, False)
    """  # noqa: E501
    rounded = round_exact(value, e)
    return value == rounded or (value != value and rounded != rounded)


def truncate(value: ExactNumber) -> int | None:
    """The integer part; None for infinities and NaN."""
    if isinstance(value, float):
        return 0 if value == 0 else None
    return int(value)


def is_integer(value: ExactNumber) -> bool:
    return value == 0 if isinstance(value, float) else value.denominator == 1


def negate(a: ExactNumber) -> ExactNumber:
    if isinstance(a, float):
        return _fraction(0) if a == 0 else -a
    return -a if a else -0.0


def compute(operator: str, a: ExactNumber, b: ExactNumber) -> ExactNumber:
    """a + b, a - b, a * b or a / b; exact, or in double where an operand is no fraction."""
    if isinstance(a, float) or isinstance(b, float):
        x, y = round_exact(a, F64), round_exact(b, F64)
        return of_float(divide(x, y) if operator == "/" else float(_OPERATORS[operator](x, y)))
    if operator == "/" and not b:
        return math.copysign(math.inf, a) if a else math.nan
    found: Fraction = _OPERATORS[operator](a, b)
    if found.denominator.bit_length() + found.numerator.bit_length() > 1 << 14:
        return of_float(round_exact(found, F64))  # long products of constants stay small
    return found


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operators.add, "-": operators.sub, "*": operators.mul, "/": operators.truediv}
