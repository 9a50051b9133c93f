"""Arithmetic and conversions of the LLVM IR that `simt` runs: arrays of an element per thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from simt_functions import numpy_type, raw, unraw

from tritonc.ir.numeric.formats import round_to
from tritonc.ir.types import BF16

np.seterr(all="ignore")
Lanes = Any  # an array with an element per thread, or a list of those


def merge(mask: Any, new: Lanes, old: Lanes) -> Lanes:
    """`new` where the mask holds, else `old`."""
    if new is None or old is None or np.count_nonzero(mask) == mask.size:
        return new
    if isinstance(new, list):
        return [merge(mask, n, o) for n, o in zip(new, old, strict=True)]
    return np.where(mask, new, old)


def size_of(t: str) -> int:
    if t.startswith("ptr"):
        return 8
    return {"i1": 1, "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4}.get(t, 8)


def element_types(t: str) -> list[str]:
    if t[0] != "<":
        return [t]
    count, _, e = t[1:-1].partition(" x ")
    return [e] * int(count)


def signed(a: Any) -> Any:
    if a.dtype == object:
        return np.array([x - (1 << 128) if x >> 127 else x for x in a], object)
    if a.dtype == bool:
        return -(a.astype(np.int8))
    return a.view(f"i{a.dtype.itemsize}") if a.dtype.kind == "u" else a


COMPARE: dict[str, Any] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}


def _wrap(t: str, a: Any) -> Any:
    return a % (1 << 128) if t == "i128" else a


def _float(op: Any) -> Any:
    def compute(t: str, a: Any, b: Any) -> Any:
        if t == "bfloat":
            return round_to(BF16, op(a.astype(np.float64), b.astype(np.float64)))
        return op(a, b)

    return compute


def _shift(op: Any) -> Any:
    def compute(t: str, a: Any, b: Any) -> Any:
        if t == "i128":
            both = [op(int(x), int(y)) for x, y in zip(a, b, strict=True)]
            return np.array(both, object) % (1 << 128)
        inside = b < a.dtype.itemsize * 8
        return np.where(inside, op(a, np.where(inside, b, b.dtype.type(0))), a.dtype.type(0))

    return compute


def _arithmetic_shift(t: str, a: Any, b: Any) -> Any:
    count = np.minimum(b, b.dtype.type(a.dtype.itemsize * 8 - 1))
    return (signed(a) >> signed(count)).view(a.dtype)


def _divide(t: str, a: Any, b: Any) -> Any:
    x, y = signed(a).astype(object), signed(b).astype(object)
    found = [abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) if q else 0
             for p, q in zip(x, y, strict=True)]
    return np.array([q % (1 << 64) for q in found], np.uint64).astype(a.dtype)  # the least wraps


def _remainder(t: str, a: Any, b: Any) -> Any:
    safe = np.where(b == 0, b.dtype.type(1), b)
    return a - _divide(t, a, safe) * safe


BINARY: dict[str, Any] = {
    "add": lambda t, a, b: a ^ b if t == "i1" else _wrap(t, a + b),
    "sub": lambda t, a, b: a ^ b if t == "i1" else _wrap(t, a - b),
    "mul": lambda t, a, b: a & b if t == "i1" else _wrap(t, a * b),
    "and": lambda t, a, b: a & b, "or": lambda t, a, b: a | b, "xor": lambda t, a, b: a ^ b,
    "shl": _shift(lambda a, b: a << b), "lshr": _shift(lambda a, b: a >> b),
    "ashr": _arithmetic_shift, "sdiv": _divide, "srem": _remainder,
    "udiv": lambda t, a, b: a // np.where(b == 0, b.dtype.type(1), b),
    "urem": lambda t, a, b: a % np.where(b == 0, b.dtype.type(1), b),
    "fadd": _float(lambda a, b: a + b), "fsub": _float(lambda a, b: a - b),
    "fmul": _float(lambda a, b: a * b), "fdiv": _float(lambda a, b: a / b),
    "fneg": lambda t, a, b: -a,
}


def cast(op: str, t: str, to: str, a: Any) -> Any:
    if op in ("sext", "sitofp"):
        a = signed(a)
    if op == "bitcast":
        return _bitcast(t, to, a)
    if to == "i128":
        return np.array([int(x) for x in a], object) % (1 << 128)
    if t == "i128":
        a = np.array([int(x) & (1 << 64) - 1 for x in a], np.uint64)
    if op == "trunc" and to == "i1":
        return (a & a.dtype.type(1)) != 0
    if to == "bfloat":
        return round_to(BF16, a)
    if to == "half" and op in ("sitofp", "uitofp"):
        a = a.astype(np.float64)
    return a.astype(numpy_type(to))


def _bitcast(t: str, to: str, a: Any) -> Any:
    """Between a scalar and a vector, or two scalars, by their bytes."""
    types = element_types(t)
    parts = [raw(e, one) for e, one in zip(types, a if t[0] == "<" else [a], strict=True)]
    size = size_of(types[0])
    data = np.stack([p.astype(f"u{size}") for p in parts], 1)
    goal = element_types(to)
    view = np.ascontiguousarray(data).view(f"u{size_of(goal[0])}")
    found = [unraw(e, np.ascontiguousarray(view[:, i])) for i, e in enumerate(goal)]
    return found if to[0] == "<" else found[0]
