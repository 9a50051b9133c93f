"""Triton-IR's arithmetic on Python numbers: what constant folding computes.

The functions are those of `interp.elementwise`, under the same names, so that an operation's
`meaning` reads either.  A number stands for a scalar or for every element of a tile.  Integers are
Python integers of the type's signed range (an i1 is a bool), floats are Python floats that the
type's format can hold.  What cannot be known or is better left to the machine raises `NotFoldable`.

Results agree with `interp.arrays` bit for bit.  Sums and products of f32 and narrower formats in
Python's double precision, rounded to the format once more, are what one rounding gives: 53 bits are
at least two more than twice the format's (Figueroa, "When is double rounding innocuous?", 1995).
For bf16 and for `fma` exact integers decide."""

import math
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tritonc.ir import rules, types
from tritonc.ir.core import Op
from tritonc.ir.ops import COMPARISONS, OpInfo

Number = int | float


class NotFoldable(Exception):
    """The result is not known, or the machine shall compute it."""


# Operations whose float64 results differ between libraries in the last bit.
_LIBRARY = frozenset({"exp", "exp2", "log", "log2", "rsqrt", "sin", "cos", "tanh", "erf"})


def evaluate(row: OpInfo, op: Op, operands: Sequence[Number]) -> tuple[Number, ...]:
    """The results of an operation on numbers; each may stand for all elements of a tile.

    Raises NotFoldable where the operation has no meaning on numbers alone."""
    if row.meaning is None or op.guard is not None:
        raise NotFoldable(row.name)
    if row.name in _LIBRARY and types.element(op.result.type) == types.F64:
        raise NotFoldable(row.name)
    read = list(operands)
    if row.rule not in (rules.choose, rules.predicates):
        read = [-int(v) if types.element(o.type) == types.I1 else v
                for o, v in zip(op.operands, operands, strict=True)]
    try:
        found = row.meaning(sys.modules[__name__], op, *read)
    except (OverflowError, ZeroDivisionError) as error:
        raise NotFoldable(row.name) from error
    results = found if isinstance(found, tuple) else (found,)
    return tuple(fit(r.type, v) for r, v in zip(op.results, results, strict=True))


# Formats

def fit(t: types.Type, value: Number) -> Number:
    """`value` as the element type of `t` holds it: integers wrap, floats round to nearest even."""
    e = types.element(t)
    if isinstance(e, types.Pointer):
        return _wrap(int(value), 64)
    if e == types.I1:
        return bool(int(value) & 1)
    if e.is_int:
        return _wrap(int(value), e.bits)
    return round_to(e, value)


def _wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def ends(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


@cache
def largest(e: types.Scalar) -> float:
    if e == types.F8E4M3:
        return 448.0  # the pattern of all ones is NaN and there is no infinity
    return math.ldexp(2 - 2.0**-e.mantissa, (1 << (e.exponent - 1)) - 1)


def round_to(e: types.Scalar, value: Number) -> float:
    """The nearest number of float type `e`, ties to even; `value` is exact, also a large integer.

    8-bit floats saturate, as the hardware's conversion does; the others go to infinity."""
    if isinstance(value, float):
        if e == types.F64 or math.isnan(value):
            return value
        if math.isinf(value):
            return math.copysign(largest(e), value) if e in (types.F8E4M3, types.F8E5M2) else value
        if e in (types.F32, types.TF32, types.F16):
            form = "<e" if e == types.F16 else "<f"
            try:
                return float(struct.unpack(form, struct.pack(form, value))[0])
            except OverflowError:
                return math.copysign(math.inf, value)
        if value == 0:
            return value
    numerator, denominator = value.as_integer_ratio()
    return round_dyadic(e, numerator, denominator.bit_length() - 1)


def round_dyadic(e: types.Scalar, numerator: int, scale: int) -> float:
    """The nearest number of `e` to numerator / 2^scale."""
    magnitude = abs(numerator)
    if magnitude == 0:
        return 0.0
    stored = types.F32 if e == types.TF32 else e  # a tf32 keeps its other bits until a dot reads it
    least = 2 - (1 << (stored.exponent - 1))
    exponent = max(magnitude.bit_length() - 1 - scale, least) - stored.mantissa
    shift = scale + exponent
    if shift <= 0:
        count = magnitude << -shift
    else:
        count, rest, half = magnitude >> shift, magnitude & ((1 << shift) - 1), 1 << (shift - 1)
        count += rest > half or (rest == half and count & 1)
    limit = largest(stored)
    if count.bit_length() + exponent > 1024:
        found = math.inf
    else:
        found = math.ldexp(count, exponent)
    if found > limit:
        found = limit if e in (types.F8E4M3, types.F8E5M2) else math.inf
    return found if numerator > 0 else -found


# The namespace that meanings read

def full(t: types.Type, value: Number) -> Number:
    return fit(t, value)


def same(t: types.Type, value: Number) -> Number:
    """A tile whose elements are all `value`, in another shape."""
    return value


def transpose(value: Number, permutation: Sequence[int]) -> Number:
    return value


def truncated_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def unsigned(op: Op, a: int) -> int:
    return a & ((1 << types.element(op.operands[0].type).bits) - 1)


def by_bits(op: Op, compute: Callable[..., int], *values: int) -> int:
    bits = types.element(op.operands[0].type).bits
    return compute(*(v & ((1 << bits) - 1) for v in values), bits)


def count(op: Op, a: int, b: int) -> int:
    """How far to shift."""
    if not 0 <= b < types.element(op.operands[0].type).bits:
        raise NotFoldable("shift past the width")
    return b


def divide(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def _extreme(choose: Callable[..., float]) -> Callable[[float, float], float]:
    """The number beside a NaN; -0 comes before 0."""
    def call(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return b if math.isnan(a) else a
        return choose(a, b, key=lambda x: (x, math.copysign(1, x)))

    return call


def fma(op: Op, a: float, b: float, c: float) -> float:
    return exact_fma(types.scalar(op.result.type), a, b, c)


def exact_fma(e: types.Scalar, a: float, b: float, c: float) -> float:
    """a * b + c, rounded once to format `e`."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    if a == 0 or b == 0:
        return round_to(e, a * b + c)
    (na, da), (nb, db), (nc, dc) = (x.as_integer_ratio() for x in (a, b, c))
    numerator = na * nb * dc + nc * da * db
    return round_dyadic(e, numerator, (da * db * dc).bit_length() - 1)


def _function(compute: Callable[[float], float], at_zero: float = math.nan,
              at_infinity: float = math.inf) -> Callable[[float], float]:
    """`compute` with IEEE's answers where Python raises: overflow and poles."""
    def call(a: float) -> float:
        if math.isnan(a):
            return a
        try:
            return compute(a)
        except OverflowError:
            return at_infinity
        except (ValueError, ZeroDivisionError):
            return at_zero if a == 0 else math.nan

    return call


def _integral(compute: Callable[[float], int]) -> Callable[[float], float]:
    def call(a: float) -> float:
        return math.copysign(float(compute(a)), a) if math.isfinite(a) else a

    return call


def _half_away(a: float) -> int:
    whole = math.trunc(a)
    return whole + int(math.copysign(abs(a - whole) >= 0.5, a))


def _rsqrt(a: float) -> float:
    return math.copysign(math.inf, a) if a == 0 else 1 / math.sqrt(a)


def holds(predicate: str, a: int, b: int, bits: int) -> bool:
    """Whether two integers of that width compare so."""
    if predicate[0] == "u":
        a, b = a & ((1 << bits) - 1), b & ((1 << bits) - 1)
    return bool(COMPARISONS[predicate[-2:]](a, b))


def where(c: Number, a: Number, b: Number) -> Number:
    return a if c else b


def to_int(op: Op, a: float, signed: bool) -> int:
    low, high = ends(types.element(op.result.type).bits, signed)
    if math.isnan(a):
        return 0
    if math.isinf(a):
        return high if a > 0 else low
    return min(max(math.trunc(a), low), high)


def to_float(op: Op, a: Number) -> Number:
    return a


def bitcast(op: Op, a: Number) -> Number:
    """The bits read as another type, where `struct` knows both formats."""
    source, target = types.element(op.operands[0].type), types.element(op.result.type)
    if source == target or (source.is_int and target.is_int):
        return a
    letters = {2: ("h", "e"), 4: ("i", "f"), 8: ("q", "d")}
    known = (types.F16, types.F32, types.TF32, types.F64)
    if any(e.is_float and e not in known for e in (source, target)) or math.isnan(a):
        raise NotFoldable("bitcast")
    letter = letters[source.bytes]
    raw = struct.pack("<" + letter[source.is_float], a)
    found: Number = struct.unpack("<" + letter[target.is_float], raw)[0]
    if math.isnan(found):
        raise NotFoldable("the bits of a NaN")
    return found


def pointee_bytes(op: Op) -> int:
    pointer: types.Element = types.element(op.operands[0].type)
    assert isinstance(pointer, types.Pointer)
    return pointer.element.bytes


def add_pointer(op: Op, p: int, offset: int) -> int:
    return p + offset * pointee_bytes(op)


def pointer_difference(op: Op, p: int, q: int) -> int:
    return truncated_quotient(_wrap(p - q, 64), pointee_bytes(op))


def _declined(*_: Any) -> Number:
    raise NotFoldable


minimum, maximum, fabs, fmin, fmax = min, max, abs, _extreme(min), _extreme(max)
broadcast = reshape = same
range = reduce = scan = take = dot = _declined
reduce_with = scan_with = histogram = _declined
exp = _function(math.exp)
exp2 = _function(lambda a: math.pow(2.0, a))
log = _function(math.log, at_zero=-math.inf)
log2 = _function(math.log2, at_zero=-math.inf)
sqrt = _function(math.sqrt)
rsqrt = _function(_rsqrt)
sin = _function(math.sin)
cos = _function(math.cos)
tanh = _function(math.tanh)
erf = _function(math.erf)
floor = _integral(math.floor)
ceil = _integral(math.ceil)
trunc = _integral(math.trunc)
rint = _integral(round)  # Python's: ties to even
round = _integral(_half_away)
