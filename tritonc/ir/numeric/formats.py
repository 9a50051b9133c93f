"""How NumPy arrays hold elements of each type, and exact rounding between float formats.

An element type has three forms here:

  held     what a value of the interpreter is: NumPy's own type where there is one; bf16, tf32 and
           the 8-bit floats as float32, which holds each of their numbers exactly; i1 as bool; an
           address as int64
  working  what arithmetic reads: bf16 and 8-bit floats as float64, so that one rounding at the
           end is the only one; i1 as int8 of 0 and -1, which is its signed value
  memory   the bits that lie in memory

Rounding twice can differ from rounding once: 1 + 2^-8 + 2^-30 lies above the middle between two
bf16 numbers, but as float32 it is that middle, which then falls to the even side:

    >>> x = np.array([1 + 2.0**-8 + 2.0**-30])
    >>> round_to(types.BF16, x)[0] == 1 + 2.0**-7
    np.True_
    >>> round_to(types.BF16, x.astype(np.float32))[0] == 1
    np.True_

So `round_to` goes from float64 to the format in one step, and a sum that float64 itself cannot hold
is first rounded to odd (see `ir.numeric.exact`)."""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tritonc.ir import types
from tritonc.ir.numeric.exact import add_to_odd
from tritonc.ir.numeric.numbers import largest

Array = npt.NDArray[Any]
EIGHT_BIT = (types.F8E4M3, types.F8E5M2)

_HELD: dict[str, type[Any]] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "bf16": np.float32, "tf32": np.float32, "f8e4m3": np.float32, "f8e5m2": np.float32}
_RAW: dict[str, type[Any]] = {
    "i1": np.uint8, "bf16": np.uint16, "f8e4m3": np.uint8, "f8e5m2": np.uint8}
UNSIGNED: dict[int, type[Any]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@cache
def register_dtype(e: types.Element) -> np.dtype[Any]:
    """NumPy's type of the held form."""
    return np.dtype(_HELD[e.name] if isinstance(e, types.Scalar) else np.int64)


@cache
def memory_dtype(e: types.Element) -> np.dtype[Any]:
    """NumPy's type of an element as it lies in memory: a host's array has this one."""
    raw = _RAW.get(e.name) if isinstance(e, types.Scalar) else None
    return np.dtype(raw) if raw else register_dtype(e)


@cache
def works_in_another_form(e: types.Element) -> bool:
    """Whether the working form is not the held one, nor that in memory."""
    return e in (types.I1, types.BF16, *EIGHT_BIT)


def working(e: types.Element, a: Any) -> Any:
    """The working form of a held array."""
    if not works_in_another_form(e):
        return a
    return np.negative(a, dtype=np.int8) if e == types.I1 else a.astype(np.float64)


def fit(t: types.Type, a: Any) -> Any:
    """The held form of `a`: integers wrap, floats round to nearest even."""
    e = types.element(t)
    dtype = register_dtype(e)
    if e.is_float:
        assert isinstance(e, types.Scalar)
        return a if a.dtype == dtype and not works_in_another_form(e) else round_to(e, a)
    if a.dtype == dtype:
        return a
    return (a & a.dtype.type(1)).astype(dtype) if e == types.I1 else a.astype(dtype)


# Rounding

def round_to(e: types.Scalar, a: Any) -> Any:
    """The held form of the nearest numbers of float type `e`, ties to even, subnormals kept.

    Beyond the largest number comes infinity; for 8-bit floats the largest number itself, as the
    hardware's conversion with saturation has it, for infinity too.  `a`: any NumPy float array."""
    if e not in EIGHT_BIT and e != types.BF16:
        return a.astype(register_dtype(e), copy=False)
    if a.dtype == np.float16:
        a = a.astype(np.float32)
    if e == types.BF16 and a.dtype == np.float32:
        return _bf16_of_f32(a)
    least = 2 - (1 << (e.exponent - 1))  # exponent of the smallest normal number
    a = a.astype(np.float64, copy=False)
    _, exponent = np.frexp(a)
    quantum = np.maximum(exponent - 1, least) - e.mantissa
    rounded = np.ldexp(np.rint(np.ldexp(a, -quantum)), quantum)
    limit = largest(e)
    if e in EIGHT_BIT:
        return np.clip(rounded, -limit, limit).astype(np.float32)  # a NaN stays one
    beyond = np.abs(rounded) > limit
    return np.where(beyond, np.copysign(np.inf, a), rounded).astype(np.float32)


def _bf16_of_f32(a: Any) -> Any:
    """By the bits: the sixteen that go add a carry to the others, ties to even."""
    bits = np.asarray(a).view(np.uint32)
    rounded = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
    kept = np.where(np.isnan(a), bits | np.uint32(0x400000), rounded) & np.uint32(0xFFFF0000)
    return kept.view(np.float32)


def round_to_tf32(a: Any) -> Any:
    """float32 to ten mantissa bits, ties away from zero: how a dot reads tf32 operands."""
    bits = np.asarray(a).view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(a), rounded, bits).view(np.float32)


def float_of_int(e: types.Scalar, a: Any) -> Any:
    """The nearest number of float type `e` of each integer, signed or not, rounded once."""
    if e in (types.F32, types.TF32, types.F64):
        return a.astype(register_dtype(e))
    if e == types.F16:
        return a.astype(np.float32).astype(np.float16)  # exact in float32, or beyond float16
    if a.dtype.itemsize < 8:
        return round_to(e, a.astype(np.float64))
    high = (a >> a.dtype.type(32)).astype(np.float64) * 2.0**32
    low = (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64)
    return round_to(e, add_to_odd(high, low))


# Bits

@cache
def _numbers_of_f8(e: types.Scalar) -> Array:
    """The number of each of the 256 patterns."""
    pattern = np.arange(256)
    field = (pattern & 0x7F) >> e.mantissa
    fraction = (pattern & ((1 << e.mantissa) - 1)) / 2.0**e.mantissa
    bias = (1 << (e.exponent - 1)) - 1
    normal = np.ldexp(1 + fraction, field - bias)
    number = np.where(field == 0, np.ldexp(fraction, 1 - bias), normal)
    if e == types.F8E4M3:
        number[(pattern & 0x7F) == 0x7F] = np.nan
    else:
        top = field == (1 << e.exponent) - 1
        number[top] = np.where(fraction[top] == 0, np.inf, np.nan)
    return np.where(pattern & 0x80, -number, number).astype(np.float32)


def to_memory(e: types.Element, a: Any) -> Any:
    """The memory form of a held array."""
    if not works_in_another_form(e):
        return a
    if e == types.BF16:
        return (np.asarray(a).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if e in EIGHT_BIT and isinstance(e, types.Scalar):
        positive = _numbers_of_f8(e)[:128]
        pattern = np.searchsorted(positive[~np.isnan(positive)], np.abs(a)).astype(np.uint8)
        pattern = np.where(np.isnan(a), np.uint8(0x7F), pattern)
        return pattern | (np.signbit(a).astype(np.uint8) << np.uint8(7))
    return a.astype(np.uint8)


def from_memory(e: types.Element, raw: Any) -> Any:
    """The held form of what lies in memory."""
    if not works_in_another_form(e):
        return raw
    if e == types.BF16:
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if e in EIGHT_BIT and isinstance(e, types.Scalar):
        return _numbers_of_f8(e)[raw]
    return raw != 0
