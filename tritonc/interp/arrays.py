"""Triton-IR's arithmetic on NumPy arrays: what the interpreter computes.

The functions are those that an operation's `meaning` names as `m.something`; `ir.numbers` has the
same on Python numbers.  Their arrays are in the working form of `ir.formats`; `evaluate` brings
operands into it and results back to the held form, wrapped or rounded once.

Sums (`dot`, `reduce`, `scan`) accumulate in float64 and round once: the program does not state an
order, and this is the value that every order approximates.  Functions of the library are computed
in float64 too, then rounded.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from tritonc.ir import combiner, numbers, rules
from tritonc.ir.combiner import Combiner
from tritonc.ir.core import Op, Value
from tritonc.ir.exact import add_to_odd, fma64
from tritonc.ir.formats import (
    UNSIGNED,
    fit,
    float_of_int,
    from_memory,
    held_dtype,
    memory_dtype,
    round_to_tf32,
    to_memory,
    working,
    works_in_another_form,
)
from tritonc.ir.ops import OPS, OpInfo
from tritonc.ir.types import (
    F64,
    I1,
    TF32,
    Element,
    Pointer,
    Type,
    element,
    scalar,
    shape,
)

# Operations that move their operands as they are.
_MOVES = (rules.choose, rules.predicates, rules.bit_cast)
# On bools these are what they are on their working form.
_BITWISE: dict[str, np.ufunc] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def evaluate(row: OpInfo, op: Op, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The results of an operation that has a meaning, from held arrays to held arrays."""
    found = value_of(row, op)(*operands)
    return found if isinstance(found, tuple) else (found,)


def value_of(row: OpInfo, op: Op) -> Callable[..., Any]:
    """The result of an operation, a tuple of several, as a function of its operands: all that is
    known beforehand is decided beforehand."""
    meaning = row.meaning
    assert meaning is not None, f"{row.name} has no meaning of its own"
    bound = partial(meaning, sys.modules[__name__], op)
    if not row.elementwise or row.rule in _MOVES:
        return bound
    kinds = {element(value.type) for value in (*op.operands, *op.results)}
    if kinds == {I1} and op.name in _BITWISE:
        return _BITWISE[op.name]
    others = [element(o.type) if works_in_another_form(element(o.type)) else None
              for o in op.operands]
    if len(op.results) > 1:
        raise NotImplementedError(f"{row.name} has several results to fit")
    kind = op.result.type
    rounds = element(kind).is_float and works_in_another_form(element(kind))
    dtype = held_dtype(element(kind))

    def fitted(*operands: Any) -> Any:
        if any(others):
            operands = tuple(a if e is None else working(e, a)
                             for e, a in zip(others, operands, strict=True))
        found = bound(*operands)
        return found if found.dtype == dtype and not rounds else fit(kind, found)

    return fitted


# What NumPy has under another name, or the same
subtract, divide, minimum, maximum = np.subtract, np.divide, np.minimum, np.maximum
logical_not, where = np.logical_not, np.where


# Making and shaping

def full(t: Type, value: Any) -> Any:
    """A number, or a held scalar, in every element; NumPy's scalar where `t` is one."""
    if not isinstance(value, np.generic | np.ndarray):
        value = held_dtype(element(t)).type(numbers.fit(t, value))
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


def truncated_remainder(a: Any, b: Any) -> Any:
    return a - b * truncated_quotient(a, b)


def unsigned(op: Op, a: Any) -> Any:
    """The same bits without a sign."""
    if element(op.operands[0].type) == I1:
        return (a & a.dtype.type(1)).astype(np.uint8)
    return a.view(UNSIGNED[a.dtype.itemsize])


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


def shift_left(op: Op, a: Any, b: Any) -> Any:
    return np.left_shift(a, _count(op, a, b))


def shift_right(op: Op, a: Any, b: Any) -> Any:
    return np.right_shift(a, _count(op, a, b))


def _count(op: Op, a: Any, b: Any) -> Any:
    """The count, 0 where it is past the width: such elements are undefined."""
    return np.where(past_width(op, b), b.dtype.type(0), b).astype(a.dtype)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}


def compare_int(op: Op, a: Any, b: Any) -> Any:
    predicate = op.attributes["predicate"]
    if predicate[0] == "u":
        a, b = unsigned(op, a), unsigned(op, b)
    return _COMPARE[predicate[-2:]](a, b)


def compare_float(op: Op, a: Any, b: Any) -> Any:
    predicate = op.attributes["predicate"]
    if predicate == "une":
        return np.not_equal(a, b)
    if predicate in ("ord", "uno"):
        unordered = np.isnan(a) | np.isnan(b)
        return unordered if predicate == "uno" else ~unordered
    found = _COMPARE[predicate[1:]](a, b)
    return found & (a == a) & (b == b) if predicate == "one" else found


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
    sign = np.where(negative(np.signbit(a), np.signbit(b)), found.dtype.type(-1), 1)
    return np.where(zeros, np.copysign(found, sign), found)


def fma(op: Op, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once to the result's format.

    A product of two numbers of up to 24 bits is exact in float64; its sum with c is rounded to odd
    and then by the caller.  For float64 itself see `ir.exact`.
    """
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

def sign_extend(op: Op, a: Any) -> Any:
    """Its own number; the caller wraps it."""
    return a


truncate = sign_extend


def to_int(op: Op, a: Any, signed: bool) -> Any:
    """Towards zero, saturating; 0 for a NaN."""
    e = element(op.result.type)
    low, high = numbers.ends(e.bits, signed)
    whole = np.trunc(a.astype(np.float64))
    inside = (whole > low) & (whole < high)  # float64's idea of the ends may be one too far out
    kind = np.int64 if signed else np.uint64
    found = np.where(inside, whole, 0).astype(kind)
    found = np.where(whole >= high, kind(high), np.where(whole <= low, kind(low), found))
    return found.astype(UNSIGNED[e.bytes]).view(held_dtype(e) if e != I1 else np.int8)


def to_float(op: Op, a: Any) -> Any:
    return a if a.dtype.kind == "f" else float_of_int(scalar(op.result.type), a)


def bitcast(op: Op, a: Any) -> Any:
    source, target = element(op.operands[0].type), element(op.result.type)
    raw = np.asarray(to_memory(source, a)).view(memory_dtype(target))
    found = from_memory(target, raw)
    return found if shape(op.result.type) else found[()]


# Pointers

def _pointee_bytes(op: Op) -> Any:
    return _bytes_of(element(op.operands[0].type))


@cache
def _bytes_of(pointer: Element) -> Any:
    assert isinstance(pointer, Pointer)
    return np.int64(pointer.element.bytes)


def add_pointer(op: Op, p: Any, offset: Any) -> Any:
    return p + np.multiply(offset, _pointee_bytes(op), dtype=np.int64)


def pointer_difference(op: Op, p: Any, q: Any) -> Any:
    return truncated_quotient(p - q, _pointee_bytes(op))


# Across elements

_UFUNC: dict[str, np.ufunc] = {
    "add": np.add, "mul": np.multiply, "fadd": np.add, "fmul": np.multiply,
    "smin": np.minimum, "smax": np.maximum, "umin": np.minimum, "umax": np.maximum,
    "fmin": np.fmin, "fmax": np.fmax,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}


def combine(e: Element, kind: str, a: Any, b: Any) -> Any:
    """Held arrays combined element by element, as a reduction of that kind does."""
    if kind in ("fmin", "fmax"):
        return (fmin if kind == "fmin" else fmax)(a, b)
    forms = [working(e, x) for x in (a, b)]
    if kind[0] == "u":
        forms = [x.view(UNSIGNED[x.dtype.itemsize]) for x in forms]
    return fit(e, _UFUNC[kind](*forms))


def _prepared(op: Op, a: Any) -> Any:
    """The operand of a reduction in the type that it accumulates in."""
    e = element(op.operands[0].type)
    if e.is_float:
        return a.astype(np.float64)
    return unsigned(op, a) if op.attributes["kind"][0] == "u" else working(e, a)


def reduce(op: Op, a: Any) -> Any:
    kind, axes = op.attributes["kind"], tuple(op.attributes["axes"])
    a = _prepared(op, a)
    # Where NumPy begins with 0, a sum of zeros below zero is not below.
    start: dict[str, Any] = {"initial": -0.0} if kind == "fadd" else {}
    found = _UFUNC[kind].reduce(a, axis=axes, **_accumulator(kind, a), **start)
    if kind in ("fmin", "fmax") and np.any(found == 0):
        some = np.any if kind == "fmin" else np.all
        negative = some(np.signbit(a) | (a != 0) if kind == "fmax" else np.signbit(a) & (a == 0),
                        axis=axes)
        found = np.where(found == 0, np.where(negative, -0.0, 0.0), found)
    return fit(op.result.type, found)


def _accumulator(kind: str, a: Any) -> dict[str, Any]:
    return {"dtype": a.dtype} if kind in ("add", "mul") else {}  # NumPy would widen


def scan(op: Op, a: Any) -> Any:
    kind, axis = op.attributes["kind"], op.attributes["axis"]
    a = _prepared(op, a)
    if op.attributes.get("reverse"):
        a = np.flip(a, axis)
    found = _UFUNC[kind].accumulate(a, axis=axis, **_accumulator(kind, a))
    if op.attributes.get("reverse"):
        found = np.flip(found, axis)
    return fit(op.result.type, found)


Arrays = list[Any]


def combine_with(function: Combiner, a: Arrays, b: Arrays) -> Arrays:
    """Held arrays combined element by element by a function, a before b."""
    values: dict[Value, Any] = dict(zip(function.parameters, [*a, *b], strict=True))
    for op in function.ops:
        found = evaluate(OPS[op.name], op, [values[v] for v in op.operands])
        values.update(zip(op.results, found, strict=True))
    extents = np.shape(a[0])
    return [np.broadcast_to(values[r], extents) for r in function.results]


def reduce_with(op: Op, *values: Any) -> tuple[Any, ...]:
    function = combiner.read(op.attributes["function"])
    return tuple(reduce_along(op, list(values), lambda a, b: combine_with(function, a, b)))


def scan_with(op: Op, *values: Any) -> tuple[Any, ...]:
    function = combiner.read(op.attributes["function"])
    return tuple(scan_along(op, list(values), lambda a, b: combine_with(function, a, b)))


def reduce_along(op: Op, columns: Arrays, join: Callable[[Arrays, Arrays], Arrays]) -> Arrays:
    """Neighbours combine first, then neighbours of the results; a last one alone waits."""
    left = [np.moveaxis(v, op.attributes["axis"], 0) for v in columns]
    while len(left[0]) > 1:
        even = len(left[0]) // 2 * 2
        pairs = join([v[0:even:2] for v in left], [v[1:even:2] for v in left])
        left = [np.concatenate((p, v[even:])) for p, v in zip(pairs, left, strict=True)]
    return [v[0] for v in left]


def scan_along(op: Op, columns: Arrays, join: Callable[[Arrays, Arrays], Arrays]) -> Arrays:
    """By doubling: each element with the one so many before it, 1, 2, 4 and so on."""
    axis, back = op.attributes["axis"], -1 if op.attributes.get("reverse") else 1
    found = [np.moveaxis(v, axis, 0)[::back].copy() for v in columns]
    step = 1
    while step < len(found[0]):
        later = join([v[:-step] for v in found], [v[step:] for v in found])
        found = [np.concatenate((v[:step], p)) for v, p in zip(found, later, strict=True)]
        step *= 2
    return [np.moveaxis(v[::back], 0, axis) for v in found]


def take(op: Op, a: Any, index: Any) -> Any:
    """An index that is outside, of which the caller has said where it matters, is the nearest."""
    axis = op.attributes["axis"]
    return np.take_along_axis(a, np.clip(index, 0, a.shape[axis] - 1).astype(np.int64), axis)


def histogram(op: Op, a: Any) -> Any:
    """How often each number below the extent is among the elements."""
    extent = op.attributes["extent"]
    inside = a[(a >= 0) & (a < extent)].reshape(-1)
    (count,) = shape(op.result.type)  # more than the extent, if it is padded
    return np.bincount(inside, minlength=count).astype(np.int32)


def dot(op: Op, a: Any, b: Any, c: Any) -> Any:
    e, to = scalar(op.operands[0].type), scalar(op.result.type)
    if e.is_float:
        if e == TF32:
            a, b = round_to_tf32(a), round_to_tf32(b)
        total = np.matmul(a.astype(np.float64), b.astype(np.float64))
        total += c
        return fit(op.result.type, total)
    if e.bits <= 16 and a.shape[-1] < 1 << 20:  # exact in float64, and faster
        found = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    else:
        found = np.matmul(a.astype(np.int64), b.astype(np.int64))
    return fit(op.result.type, found.astype(held_dtype(to)) + c)
