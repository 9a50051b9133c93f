"""Floats that are no less than the least normal number: sums of squares and a number above 0.

    dx * dx + dy * dy + soft        where soft is known to be above 0 (`assume_positive`)

A root of such a number needs no care for subnormal ones.  `wanted_offsets` says of which scalars it
would have to be known.
"""

from __future__ import annotations

from math import prod

from tritonc.analysis.values import constant_of, defined_by
from tritonc.ir.core import Kernel, Value
from tritonc.ir.types import F32, element, shape

LEAST_NORMAL = 2.0**-126
_SAME = ("splat", "broadcast", "reshape", "trans", "convert_layout")
_BOTH = ("fadd", "fmin", "fdiv")  # 0 or more, if both operands are
_DEPTH = 12


def is_normal(value: Value) -> bool:
    """Whether no element is below the least normal f32; a NaN may be one."""
    offset = _offset(value)
    if offset is None:
        return False
    number = constant_of(offset)
    return defined_by(offset, "assume_positive") is not None if number is None \
        else number >= LEAST_NORMAL


def wanted_offsets(kernel: Kernel) -> list[Value]:
    """The scalars that would have to be above 0 so that the roots of large tiles are normal."""
    largest = max((prod(shape(r.type)) for op in kernel.ops() for r in op.results), default=1)
    found = [_offset(op.operands[0]) for op in kernel.ops()
             if op.name == "rsqrt" and element(op.result.type) == F32
             and 2 * prod(shape(op.result.type)) > largest > 1]
    return list(dict.fromkeys(v for v in found if v is not None and constant_of(v) is None
                              and defined_by(v, "assume_positive") is None))


def _offset(value: Value) -> Value | None:
    """The scalar s of x + s, where x is 0 or more."""
    op = value.op
    while op is not None and op.name in _SAME:
        op = op.operands[0].op
    if op is None or op.name != "fadd":
        return None
    for x, s in (op.operands, op.operands[::-1]):
        while s.op is not None and s.op.name in _SAME:
            s = s.op.operands[0]
        if (not shape(s.type) or constant_of(s) is not None) and _not_negative(x, _DEPTH):
            return s
    return None


def _not_negative(x: Value, depth: int) -> bool:
    """Whether no element is below 0; a NaN may be one."""
    op = x.op
    if op is None or not depth:
        return False
    if op.name in _SAME:
        return _not_negative(op.operands[0], depth)
    if op.name == "fmul":
        a, b = op.operands
        return a is b or (_not_negative(a, depth - 1) and _not_negative(b, depth - 1))
    if op.name == "fma":
        a, b, c = op.operands
        return _not_negative(c, depth - 1) and (a is b or (
            _not_negative(a, depth - 1) and _not_negative(b, depth - 1)))
    if op.name in _BOTH:
        return all(_not_negative(v, depth - 1) for v in op.operands)
    number = constant_of(x)
    return op.name in ("fabs", "exp", "exp2", "sqrt") or (number is not None and number >= 0)
