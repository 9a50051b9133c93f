"""Triton-IR's arithmetic on NumPy arrays, element by element (see `interp.arrays`).

The functions are those that an operation's `meaning` names as `m.something`; `ir.numbers` has the
same on Python numbers."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritonc.ir.core import Op
from tritonc.ir.numeric import formats, numbers
from tritonc.ir.numeric.exact import add_to_odd, fma64
from tritonc.ir.types import F64, I1, Type, element, scalar, shape

# What NumPy has under another name, or the same
divide, minimum, maximum, where = np.divide, np.minimum, np.maximum, np.where


# Making and shaping

def full(t: Type, value: Any) -> Any:
    """A number, or a held scalar, in every element; NumPy's scalar where `t` is one."""
    if not isinstance(value, np.generic | np.ndarray):
        value = formats.register_dtype(element(t)).type(numbers.fit(t, value))
    return np.full(shape(t), value) if shape(t) else value


def range(start: int, stop: int) -> Any:
    return np.arange(start, stop, dtype=np.int32)


def broadcast(t: Type, a: Any) -> Any:
    return np.broadcast_to(a, shape(t))


def reshape(t: Type, a: Any) -> Any:
    return a.reshape(shape(t))


def transpose(a: Any, permutation: Sequence[int]) -> Any:
    return a.transpose(permutation)


# Integers

def truncated_quotient(a: Any, b: Any) -> Any:
    """C's quotient; 0 where b is 0, which the caller has reported where it matters."""
    quotient = a // b
    inexact = (a - quotient * b) != 0
    return quotient + (inexact & ((a < 0) != (b < 0)) & (b != 0)).astype(a.dtype)


def unsigned(op: Op, a: Any) -> Any:
    """The same bits without a sign."""
    if element(op.operands[0].type) == I1:
        return (a & a.dtype.type(1)).astype(np.uint8)
    return a.view(formats.UNSIGNED[a.dtype.itemsize])


def halves(a: Any) -> Any:
    """The halves of words, without sign."""
    return np.ascontiguousarray(a).view(np.uint16)


def by_bits(op: Op, compute: Callable[..., int], *values: Any) -> Any:
    """`compute` of the elements as Python's numbers without sign, and of their width."""
    bits = element(op.operands[0].type).bits
    kind = np.uint64 if bits == 64 else np.int64
    each = np.frompyfunc(lambda *v: compute(*(n & ((1 << bits) - 1) for n in v), bits)
                         & ((1 << bits) - 1), len(values), 1)
    found = np.asarray(each(*(v.astype(object) if v.shape else int(v) for v in values)))
    return found.astype(kind).astype(values[0].dtype)


def past_width(op: Op, count: Any) -> Any:
    """Where a shift's count is not less than the width."""
    return (count < 0) | (count >= element(op.operands[0].type).bits)


def count(op: Op, a: Any, b: Any) -> Any:
    """How far to shift; 0 where it is past the width: such elements are undefined."""
    return np.where(past_width(op, b), b.dtype.type(0), b).astype(a.dtype)


# Floats

def fmin(a: Any, b: Any) -> Any:
    """The lesser; the number beside a NaN; -0 is less than 0."""
    return _zero_sign(np.fmin(a, b), a, b, np.logical_or)


def fmax(a: Any, b: Any) -> Any:
    return _zero_sign(np.fmax(a, b), a, b, np.logical_and)


def _zero_sign(found: Any, a: Any, b: Any, negative: Callable[[Any, Any], Any]) -> Any:
    zeros = (a == 0) & (b == 0)
    if not zeros.any():
        return found
    sign = np.where(negative(np.signbit(a), np.signbit(b)), -1, 1).astype(found.dtype)
    return np.where(zeros, np.copysign(found, sign), found)


def fma(op: Op, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once to the result's format.

    A product of two numbers of up to 24 bits is exact in float64; its sum with c is rounded to odd
    and then by the caller.  For float64 itself see `ir.numeric.exact`."""
    if element(op.result.type) == F64:
        return fma64(a, b, c)
    product = a.astype(np.float64) * b.astype(np.float64)
    total = product + c.astype(np.float64)
    return np.where(np.isfinite(total) & (total != 0), add_to_odd(product, c), total)


def _in_float64(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda a: compute(a.astype(np.float64))


exp = _in_float64(np.exp)
exp2 = _in_float64(np.exp2)
log = _in_float64(np.log)
log2 = _in_float64(np.log2)
rsqrt = _in_float64(lambda a: 1 / np.sqrt(a))
sin = _in_float64(np.sin)
cos = _in_float64(np.cos)
tanh = _in_float64(np.tanh)
erf = _in_float64(np.vectorize(math.erf, otypes=[np.float64]))
sqrt, floor, ceil, trunc, rint, fabs = np.sqrt, np.floor, np.ceil, np.trunc, np.rint, np.abs


def round(a: Any) -> Any:
    """Halves away from zero, without adding a half to what has no bit for it."""
    whole = np.trunc(a)
    return np.copysign(whole + np.copysign((np.abs(a - whole) >= 0.5).astype(a.dtype), a), a)


# Conversions

def to_int(op: Op, a: Any, signed: bool) -> Any:
    """Towards zero, saturating; 0 for a NaN."""
    e = element(op.result.type)
    low, high = numbers.ends(e.bits, signed)
    whole = np.trunc(a.astype(np.float64))
    inside = (whole > low) & (whole < high)  # float64's idea of the ends may be one too far out
    kind = np.int64 if signed else np.uint64
    found = np.where(inside, whole, 0).astype(kind)
    found = np.where(whole >= high, kind(high), np.where(whole <= low, kind(low), found))
    return found.astype(formats.UNSIGNED[e.bytes]).view(
        formats.register_dtype(e) if e != I1 else np.int8)


def to_float(op: Op, a: Any) -> Any:
    return a if a.dtype.kind == "f" else formats.float_of_int(scalar(op.result.type), a)


def bitcast(op: Op, a: Any) -> Any:
    source, target = element(op.operands[0].type), element(op.result.type)
    raw = np.asarray(formats.to_memory(source, a)).view(formats.memory_dtype(target))
    found = formats.from_memory(target, raw)
    return found if shape(op.result.type) else found[()]


# Pointers

def add_pointer(op: Op, p: Any, offset: Any) -> Any:
    return p + np.multiply(offset, numbers.pointee_bytes(op), dtype=np.int64)


def pointer_difference(op: Op, p: Any, q: Any) -> Any:
    return truncated_quotient(p - q, np.int64(numbers.pointee_bytes(op)))
