"""Numbers of the oracle: types, conversions and arithmetic of Triton-C on NumPy arrays.

Written from docs/language.md alone.  It shares nothing with the compiler or the interpreter, so
that a mistake of theirs is not repeated here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# Narrow floats are kept as float32 arrays of numbers that the format has.
DTYPES: dict[str, Any] = {
    "bool": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
    "float16": np.float16, "bfloat16": np.float32, "tf32": np.float32, "float32": np.float32,
    "float64": np.float64, "float8_e4m3": np.float32, "float8_e5m2": np.float32,
    "literal": np.float64, "pointer": np.int64,
}  # fmt: skip
# Of formats that NumPy lacks: bits of the significand, least exponent, greatest number.
FORMATS = {"bfloat16": (8, -126, float(np.float32(3.3895314e38))),
           "float8_e4m3": (4, -6, 448.0), "float8_e5m2": (3, -14, 57344.0)}
RANKS = {"literal": 0, "float16": 1, "bfloat16": 1, "float32": 2, "float64": 3}
Members = dict[str, "Value"]


@dataclass(frozen=True)
class Value:
    """A scalar or a tile of a type; a pointer is an offset into the buffer `base`; a struct has
    `members` and no data."""

    type: str
    data: Array
    base: str = ""
    members: Members | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape


def is_float(t: str) -> bool:
    return t.startswith(("float", "bfloat", "tf32", "literal"))


def value(t: str, data: Any, base: str = "") -> Value:
    return Value(t, np.asarray(data, DTYPES[t]), base)


def rounded(t: str, numbers: Array) -> Array:
    """The nearest numbers of a format, ties to even; 8-bit floats saturate."""
    digits, least, greatest = FORMATS[t]
    x = numbers.astype(np.float64)
    finite = np.isfinite(x)
    safe = np.where(finite, x, 0)
    exponent = np.maximum(np.frexp(safe)[1] - 1, least)
    step = np.ldexp(1.0, exponent - digits + 1)
    y = np.copysign(np.rint(safe / step) * step, x)
    if t == "bfloat16":
        y = np.where(np.abs(y) > greatest, np.copysign(np.inf, x), y)
    else:
        y = np.clip(y, -greatest, greatest)
        x = np.where(np.isinf(x), np.copysign(greatest, x), x)
    return np.where(finite, y, x).astype(np.float32)


def convert(v: Value, t: str) -> Value:
    """A value as another type: what assignment and casts do."""
    if v.type == t or v.members is not None:
        return v
    if t == "pointer":
        return replace(v, type="pointer")
    x, dtype = v.data, DTYPES[t]
    if t == "bool":
        return value(t, x != 0)
    if is_float(v.type):
        return _from_float(x, t)
    if not is_float(t):
        return value(t, x.astype(dtype))
    if t in FORMATS or t == "float16":
        if x.dtype.itemsize == 8:  # its upper 53 bits, the last of which tells of the rest
            below = x.dtype.type(0x7FF)
            big = (x >= 1 << 53) | (x < -(1 << 53) if x.dtype.kind == "i" else np.False_)
            sticky = ((x & below) != 0).astype(x.dtype) << x.dtype.type(11)
            x = np.where(big, (x & ~below) | sticky, x)
        x = x.astype(np.float64)
        return value(t, rounded(t, x) if t in FORMATS else x.astype(dtype))
    return value(t, x.astype(dtype))


def _from_float(x: Array, t: str) -> Value:
    if t in FORMATS:
        return value(t, rounded(t, x))
    if is_float(t):
        return value(t, x.astype(DTYPES[t]))
    limits = np.iinfo(DTYPES[t])
    whole = np.trunc(np.where(np.isnan(x), 0, x).astype(np.float64))
    low, high = whole <= float(limits.min), whole >= float(limits.max)
    inside = np.where(low | high, 0, whole)
    exact = inside.astype(DTYPES[t])
    return value(t, np.where(low, limits.min, np.where(high, limits.max, exact)).astype(DTYPES[t]))


def promoted(t: str) -> str:
    """What an operand alone becomes in arithmetic."""
    if t in ("bool", "int8", "int16", "uint8", "uint16"):
        return "int32"
    return "float32" if t in ("tf32", "float8_e4m3", "float8_e5m2") else t


def common(a: str, b: str) -> str:
    """The type of an operation on two operands."""
    a, b = promoted(a), promoted(b)
    if a == b:
        return a
    if is_float(a) and is_float(b):
        if {a, b} == {"float16", "bfloat16"}:
            return "float32"
        return a if RANKS[a] > RANKS[b] else b
    if is_float(a) or is_float(b):
        t = a if is_float(a) else b
        return "float32" if t == "literal" else t
    wide_a, wide_b = np.dtype(DTYPES[a]).itemsize, np.dtype(DTYPES[b]).itemsize
    if wide_a != wide_b:
        return a if wide_a > wide_b else b
    return a if a.startswith("u") else b


def both(a: Value, b: Value) -> tuple[Value, Value, str]:
    t = common(a.type, b.type)
    return convert(a, t), convert(b, t), t


def result(t: str, data: Any) -> Value:
    """What was computed in the dtype of `t`, or in float where that is narrower."""
    return value(t, rounded(t, np.asarray(data)) if t in FORMATS else data)


def binary(operator: str, a: Value, b: Value) -> Value:
    if operator in ("+", "-") and "pointer" in (a.type, b.type):
        if b.type == "pointer":
            a, b = b, a
        move = b.data.astype(np.int64)
        return Value("pointer", a.data + (move if operator == "+" else -move), a.base)
    if operator in ("<<", ">>"):
        t = promoted(a.type)
        x = convert(a, t).data
        count = b.data.astype(x.dtype)
        return value(t, np.left_shift(x, count) if operator == "<<" else np.right_shift(x, count))
    if operator in ("&", "|", "^") and a.type == b.type == "bool":
        t = a.type
    else:
        a, b, t = both(a, b)
    x, y = a.data, b.data
    if operator in ("<", "<=", ">", ">=", "==", "!="):
        compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
                   "==": np.equal, "!=": np.not_equal}[operator]
        return value("bool", compare(x, y))
    if operator in ("/", "%"):
        if is_float(t):
            return result(t, x / y)
        quotient = _divided(x, y)
        return value(t, quotient if operator == "/" else x - quotient * y)
    compute = {"+": np.add, "-": np.subtract, "*": np.multiply, "&": np.bitwise_and,
               "|": np.bitwise_or, "^": np.bitwise_xor}[operator]
    return result(t, compute(x, y))


def _divided(x: Array, y: Array) -> Array:
    """The quotient cut off; of a division by 0, which nobody may look at, 0."""
    none, minus = y == 0, (y == -1) if y.dtype.kind == "i" else np.False_
    by = np.where(none | minus, 1, y).astype(y.dtype)
    floor = x // by
    up = (x - floor * by != 0) & ((x < 0) != (by < 0))
    return np.where(none, 0, np.where(minus, np.negative(x), floor + up)).astype(x.dtype)


def fused(a: Value, b: Value, c: Value) -> Value:
    """a * b + c, rounded once: by way of exact fractions."""
    t = common(common(a.type, b.type), c.type)
    if t == "literal" or not is_float(t):
        t = "float64" if t == "literal" else "float32"
    arrays = np.broadcast_arrays(*(convert(v, t).data for v in (a, b, c)))
    wide = np.float32 if t in ("bfloat16", "float16") else DTYPES[t]
    found = np.empty(arrays[0].shape, np.float64)
    for at in np.ndindex(found.shape):
        x, y, z = (float(array[at]) for array in arrays)
        if not np.isfinite([x, y, z]).all():
            with np.errstate(all="ignore"):
                found[at] = np.float64(x) * y + z
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        found[at] = nearest(exact, wide) if exact else x * y + z
    return result(t, found.astype(wide)) if t != "float16" else value(t, found)


def nearest(exact: Fraction, dtype: Any) -> float:
    """The number of a format nearest to a fraction that is not 0, ties to even."""
    info = np.finfo(dtype)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, int(info.minexp)) - int(info.nmant))
    near = round(exact / step) * step  # round() of a Fraction takes ties to even
    return float(near) if abs(near) <= Fraction(float(info.max)) else float(
        np.copysign(np.inf, float(np.sign(exact.numerator))))
