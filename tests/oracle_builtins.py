"""Builtin functions of the oracle, one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from math import erf
from typing import Any

import numpy as np
from oracle_values import Array, Value, both, common, convert, fused, is_float, promoted, value
from oracle_values import result as rounded_result


def floating(a: Value) -> Value:
    """The argument of a function of floats."""
    if a.type == "literal":
        return convert(a, "float64")
    return a if is_float(a.type) and a.type == promoted(a.type) else convert(a, "float32")


def of_floats(compute: Callable[[Array], Any]) -> Callable[..., Value]:
    def call(_: Any, a: Value) -> Value:
        a = floating(a)
        wide = a.data.astype(np.float32) if a.type == "float16" else a.data
        return rounded_result(a.type, np.asarray(compute(wide)).astype(a.data.dtype))
    return call


def half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole)


def fmin(a: Array, b: Array) -> Array:
    """The lesser; -0 is less than 0, which NumPy leaves open."""
    found = np.fmin(a, b)
    if found.dtype.kind != "f":
        return found
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), a, b), found)


def fmax(a: Array, b: Array) -> Array:
    return -fmin(-a, -b) if a.dtype.kind == "f" else np.fmax(a, b)


EXTREMES = {"max": fmax, "min": fmin}


def accumulated(compute: Callable[[Array, Array], Array], data: Array, axis: int) -> Array:
    """What has been computed of the elements up to each, in their order."""
    return np.stack([*accumulate(np.moveaxis(data, axis, 0), compute)], axis)


def extreme(compute: Callable[[Array, Array], Array]) -> Callable[..., Value]:
    def call(_: Any, a: Value, b: Value) -> Value:
        a, b, t = both(a, b)
        return value(t, compute(a.data, b.data))
    return call


def least(_: Any, a: Value, b: Value) -> Value:
    return extreme(fmin)(_, a, b)


def clamp(_: Any, x: Value, low: Value, high: Value) -> Value:
    t = common(common(x.type, low.type), high.type)
    x, low, high = (convert(v, t) for v in (x, low, high))
    return value(t, fmin(fmax(x.data, low.data), high.data))


def magnitude(_: Any, a: Value) -> Value:
    a = convert(a, promoted(a.type))
    return a if a.type.startswith("u") else value(a.type, np.abs(a.data))


def bits_of(a: Value) -> tuple[Value, Array, int]:
    """An integer, its bits without a sign, and how many they are."""
    a = convert(a, promoted(a.type))
    width = 8 * a.data.dtype.itemsize
    return a, a.data.astype(f"uint{width}"), width


def per_element(compute: Callable[[int, int], int]) -> Callable[..., Value]:
    """A function of the bits and their number, in the type of the argument."""
    def call(_: Any, a: Value) -> Value:
        a, bits, width = bits_of(a)
        found = np.array([compute(int(x), width) for x in bits.reshape(-1)], bits.dtype)
        return value(a.type, found.reshape(bits.shape).astype(a.data.dtype))
    return call


def counted(compute: Callable[[int, int], int]) -> Callable[..., Value]:
    return lambda _, a: convert(per_element(compute)(_, a), "int32")


def rotated(up: bool) -> Callable[..., Value]:
    def call(_: Any, a: Value, n: Value) -> Value:
        a, bits, width = bits_of(a)
        count = (n.data.astype(np.int64) % width).astype(bits.dtype)
        back = ((width - count.astype(np.int64)) % width).astype(bits.dtype)
        left, right = (count, back) if up else (back, count)
        return value(a.type, ((bits << left) | (bits >> right)).astype(a.data.dtype))
    return call


def high_half(unsigned: bool) -> Callable[..., Value]:
    def call(_: Any, a: Value, b: Value) -> Value:
        a, b, t = both(a, b)
        width = 8 * a.data.dtype.itemsize
        x, y = np.broadcast_arrays(a.data, b.data)
        if unsigned:
            x, y = x.astype(f"uint{width}"), y.astype(f"uint{width}")
            t = f"uint{width}"
        found = [(int(p) * int(q)) >> width for p, q in zip(x.reshape(-1), y.reshape(-1))]
        return value(t, np.array(found, object).reshape(x.shape).astype(x.dtype))
    return call


def funnel(_: Any, low: Value, high: Value, n: Value) -> Value:
    x = (convert(high, "uint32").data.astype(np.uint64) << np.uint64(32)) | convert(
        low, "uint32").data.astype(np.uint64)
    count = (n.data.astype(np.int64) & 31).astype(np.uint64)
    return value("uint32", ((x << count) >> np.uint64(32)).astype(np.uint32))


def philox(_: Any, seed: Value, offset: Value) -> Value:
    """Philox 4x32-10 (Salmon et al. 2011); the counter is the offset, of 64 bits."""
    low = np.uint64(0xFFFFFFFF)
    key = int(seed.data)
    wide = convert(offset, "int64" if offset.data.dtype.itemsize == 8 else "int32").data
    if offset.type in ("uint32", "uint64"):
        wide = offset.data
    full = wide.astype(np.uint64) if wide.dtype.itemsize == 8 else wide.astype(np.uint32).astype(
        np.uint64)
    k0, k1 = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32 & 0xFFFFFFFF)
    c0, c1 = full & low, full >> np.uint64(32)
    c2 = c3 = np.zeros_like(c0)
    for _round in range(10):
        p, q = np.uint64(0xCD9E8D57) * c2, np.uint64(0xD2511F53) * c0
        c0, c1, c2, c3 = ((p >> np.uint64(32)) ^ c1 ^ k0, p & low, (q >> np.uint64(32)) ^ c3 ^ k1,
                          q & low)
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return value("uint32", c0.astype(np.uint32))


def number(a: Value) -> int:
    return int(a.data)


def scanned(_: Any, a: Value, axis: Value, operation: str = "sum", order: str = "") -> Value:
    if order:  # reverse
        turned = replace(a, data=np.flip(a.data, number(axis)))
        found = scanned(_, turned, axis, operation)
        return replace(found, data=np.flip(found.data, number(axis)))
    if operation in EXTREMES:
        return replace(a, data=accumulated(EXTREMES[operation], a.data, number(axis)))
    compute = {"sum": np.add, "prod": np.multiply}[operation]
    a = convert(a, promoted(a.type))
    return value(a.type, compute.accumulate(a.data, axis=number(axis), dtype=a.data.dtype))


def total(oracle: Any, a: Value, axis: Value | None = None) -> Value:
    a = convert(a, promoted(a.type))
    if axis is None:
        return oracle.reduced(replace(a, data=a.data.reshape(-1)), 0, "+")  # type: ignore[no-any-return]
    return oracle.reduced(a, number(axis), "+")  # type: ignore[no-any-return]


def truth(compute: Callable[..., Any]) -> Callable[..., Value]:
    def call(_: Any, a: Value, axis: Value | None = None) -> Value:
        data = convert(a, "bool").data
        return value("bool", compute(data, axis=None if axis is None else number(axis)))
    return call


def place(compute: Callable[..., Any]) -> Callable[..., Value]:
    return lambda _, a, axis: value("int32", compute(a.data, axis=number(axis)))


def ordered(_: Any, a: Value, axis: Value, descending: Value | None = None) -> Value:
    found = np.sort(a.data, axis=number(axis))
    return replace(a, data=np.flip(found, number(axis)) if descending is not None
                   and bool(descending.data) else found)


def trans(_: Any, a: Value, *axes: Value) -> Value:
    return replace(a, data=np.transpose(a.data, [number(v) for v in axes] or None))


def gathered(_: Any, a: Value, index: Value, axis: Value) -> Value:
    at = np.clip(index.data.astype(np.int64), 0, a.shape[number(axis)] - 1)
    return replace(a, data=np.take_along_axis(a.data, at, number(axis)))


def halves(_: Any, a: Value) -> Value:
    return replace(a, data=np.zeros(()), members={
        name: replace(a, data=a.data[..., i]) for i, name in enumerate(("first", "second"))})


def beside(_: Any, a: Value, b: Value) -> Value:
    a, b, t = both(a, b) if a.type != b.type else (a, b, a.type)
    return value(t, np.stack([a.data, b.data], -1))


def joined(_: Any, a: Value, b: Value, axis: Value) -> Value:
    a, b, t = both(a, b) if a.type != b.type else (a, b, a.type)
    return value(t, np.concatenate([a.data, b.data], number(axis)))


def folded(a: Value, axis: int, scan: bool, combine: Callable[[Value, Value], Value]) -> Value:
    """Elements along an axis combined by a function, from the first to the last."""
    def taken(v: Value, i: int) -> Value:
        if v.members is not None:
            return replace(v, data=np.zeros(()), members={
                name: taken(member, i) for name, member in v.members.items()})
        return replace(v, data=np.take(v.data, i, axis))

    def stacked(parts: list[Value]) -> Value:
        first = parts[0]
        if first.members is not None:
            return replace(first, members={
                name: stacked([p.members[name] for p in parts if p.members is not None])
                for name in first.members})
        return replace(first, data=np.stack([p.data for p in parts], axis))

    inner = next(iter(a.members.values())) if a.members else a
    found = [taken(a, 0)]
    for i in range(1, inner.shape[axis]):
        found.append(combine(found[-1], taken(a, i)))
    return stacked(found) if scan else found[-1]


BUILTINS: dict[str, Callable[..., Value]] = {
    "min": extreme(fmin), "max": extreme(fmax), "abs": magnitude, "clamp": clamp,
    "select": lambda oracle, c, a, b: oracle.choice(convert(c, "bool").data, a, b),
    "fma": lambda _, a, b, c: fused(a, b, c),
    "sqrt": of_floats(np.sqrt), "floor": of_floats(np.floor), "ceil": of_floats(np.ceil),
    "trunc": of_floats(np.trunc), "round": of_floats(half_away), "exp": of_floats(np.exp),
    "exp2": of_floats(np.exp2), "sin": of_floats(np.sin), "cos": of_floats(np.cos),
    "tanh": of_floats(np.tanh), "erf": of_floats(np.vectorize(erf, otypes=[np.float64])),
    "popc": counted(lambda x, width: x.bit_count()),
    "clz": counted(lambda x, width: width - x.bit_length()),
    "ctz": counted(lambda x, width: (x & -x).bit_length() - 1 if x else width),
    "brev": per_element(lambda x, width: int(f"{x:0{width}b}"[::-1], 2)),
    "rotl": rotated(True), "rotr": rotated(False), "mulhi": high_half(False),
    "umulhi": high_half(True), "funnelshift_l": funnel, "randint": philox, "scan": scanned,
    "cumsum": lambda _, a, axis: scanned(_, a, axis, "sum"),
    "cumprod": lambda _, a, axis: scanned(_, a, axis, "prod"),
    "flip": lambda _, a, axis: replace(a, data=np.flip(a.data, number(axis))), "sort": ordered,
    "gather": gathered, "cat": joined, "join": beside, "split": halves, "trans": trans,
    "permute": trans,
    "reshape": lambda _, a, *n: replace(a, data=a.data.reshape([number(v) for v in n])),
    "broadcast": lambda _, a, *n: replace(a, data=np.broadcast_to(a.data, [number(v) for v in n])),
    "dot": lambda oracle, a, b, c=None: oracle.product(a, b, c), "sum": total,
    "any": truth(np.any), "all": truth(np.all), "argmax": place(np.argmax),
    "argmin": place(np.argmin),
}
