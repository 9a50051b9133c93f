"""Rounding against brute force over whole formats, and arrays against Python numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritonc.interp import arrays, elementwise
from tritonc.ir.build import make_op
from tritonc.ir.core import Op, Value
from tritonc.ir.numeric import numbers
from tritonc.ir.numeric.formats import (
    float_of_int,
    from_memory,
    memory_dtype,
    register_dtype,
    round_to,
    round_to_tf32,
    to_memory,
)
from tritonc.ir.ops import FCMP, ICMP, OPS
from tritonc.ir.rules import TypeMismatch
from tritonc.ir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    SCALARS,
    TF32,
    Pointer,
    Scalar,
    Tile,
    Type,
    element,
)

FLOATS = [t for t in SCALARS.values() if t.is_float]
INTS = [t for t in SCALARS.values() if t.is_int]
SMALL = [F16, BF16, F8E4M3, F8E5M2]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """As in the interpreter: overflow is no event."""
    with np.errstate(all="ignore"):
        yield


@cache
def every(e: Scalar) -> np.ndarray[Any, Any]:
    """All numbers of a small format."""
    raw = np.arange(1 << e.bits).astype(f"u{e.bytes}").view(memory_dtype(e))
    return np.asarray(from_memory(e, raw))


@cache
def finite(e: Scalar) -> np.ndarray[Any, Any]:
    """The finite numbers of a small format, in order."""
    return np.unique(every(e)[np.isfinite(every(e))].astype(np.float64))


def nearest(e: Scalar, x: float) -> float:
    """Rounding by definition: the nearest of all finite numbers, the even one of two."""
    table = finite(e)
    i = int(np.searchsorted(table, x))
    low, high = float(table[max(i - 1, 0)]), float(table[min(i, len(table) - 1)])
    below, above = Fraction(x) - Fraction(low), Fraction(high) - Fraction(x)
    if below != above:
        return low if below < above else high
    even = [y for y in (low, high) if int(to_memory(e, np.array([y], register_dtype(e))).view(
        f"u{e.bytes}")[0]) % 2 == 0]
    return even[0]


@pytest.mark.parametrize("e", SMALL, ids=str)
def test_memory_round_trip(e: Scalar) -> None:
    numbers_of = every(e)
    raw = np.arange(1 << e.bits).astype(f"u{e.bytes}").view(memory_dtype(e))
    back = np.asarray(to_memory(e, numbers_of))
    number = ~np.isnan(numbers_of)
    assert (back.view(raw.dtype)[number] == raw[number]).all()
    assert np.isnan(from_memory(e, back)[~number]).all()


def test_patterns_of_eight_bits() -> None:
    assert from_memory(F8E4M3, np.array([0x01, 0x08, 0x38, 0x7E, 0xFE], np.uint8)).tolist() == [
        2.0**-9, 2.0**-6, 1.0, 448.0, -448.0]
    assert from_memory(F8E5M2, np.array([0x01, 0x04, 0x3C, 0x7B, 0xFC], np.uint8)).tolist() == [
        2.0**-16, 2.0**-14, 1.0, 57344.0, -math.inf]
    assert np.isnan(from_memory(F8E4M3, np.array([0x7F, 0xFF], np.uint8))).all()
    assert np.isnan(from_memory(F8E5M2, np.array([0x7D, 0x7E, 0x7F], np.uint8))).all()


@pytest.mark.parametrize("e", SMALL, ids=str)
def test_rounding_near_every_number(e: Scalar) -> None:
    """Each number, each middle between two, and float64's and float32's neighbours of those."""
    table = finite(e)
    lower, upper = table[:-1], table[1:]
    middles = (lower + upper) / 2
    odd = to_memory(e, lower.astype(register_dtype(e))).view(f"u{e.bytes}") & 1
    even = np.where(odd == 1, upper, lower)
    assert (round_to(e, table) == table).all()
    for dtype in (np.float64, np.float32):
        x = middles.astype(dtype)
        assert (x == middles).all()
        assert (round_to(e, x) == even).all()
        assert (round_to(e, np.nextafter(x, dtype(-np.inf))) == lower).all()
        assert (round_to(e, np.nextafter(x, dtype(np.inf))) == upper).all()
    for i in range(0, len(middles), max(len(middles) // 500, 1)):
        x = float(middles[i])
        for y in (x, math.nextafter(x, math.inf), math.nextafter(x, -math.inf)):
            assert numbers.round_to(e, y) == float(round_to(e, np.array([y]))[0]) == nearest(e, y)


@pytest.mark.parametrize("e", FLOATS, ids=str)
def test_rounding_ends(e: Scalar) -> None:
    largest = numbers.largest(F32 if e == TF32 else e)
    saturates = e in (F8E4M3, F8E5M2)
    end = largest if saturates else math.inf
    for x, want in ((largest, largest), (math.inf, end), (-math.inf, -end)):
        assert round_to(e, np.array([x]))[0] == want
        assert numbers.round_to(e, x) == want
    if e != F64:
        step = 2.0 ** (math.frexp(largest)[1] - 1 - (F32 if e == TF32 else e).mantissa)
        for x, want in ((largest + step / 2, end), (largest + step / 4, largest)):
            assert round_to(e, np.array([x]))[0] == want
            assert numbers.round_to(e, x) == want
    assert math.isnan(numbers.round_to(e, math.nan)) and np.isnan(round_to(e, np.array([np.nan])))
    assert math.copysign(1, numbers.round_to(e, -0.0)) == -1
    assert np.signbit(round_to(e, np.array([-0.0])))[0]
    assert np.signbit(round_to(e, np.array([-1e-300 if e != F64 else -5e-324])))[0]


def test_bf16_from_float32_by_the_bits() -> None:
    """All upper halves with the lower halves that decide."""
    high = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        x = (high | np.uint32(low)).view(np.float32)
        got, want = round_to(BF16, x), round_to(BF16, x.astype(np.float64))
        assert np.array_equal(got, want, equal_nan=True)


def test_tf32_rounds_ties_away() -> None:
    x = np.array([1 + 2**-11, 1 + 3 * 2**-11, -(1 + 2**-11), 1 + 2**-12, np.inf, 3.4028235e38],
                 np.float32)
    assert round_to_tf32(x).tolist() == [1 + 2**-10, 1 + 2**-9, -(1 + 2**-10), 1, np.inf, np.inf]
    assert np.isnan(round_to_tf32(np.array([np.nan], np.float32)))[0]


@given(st.integers(-(1 << 63), (1 << 64) - 1), st.sampled_from(FLOATS))
@settings(max_examples=100, deadline=None)
def test_integers_to_floats_round_once(x: int, e: Scalar) -> None:
    got = float_of_int(e, np.array([x], np.uint64 if x >= 1 << 63 else np.int64))
    want = numbers.round_to(e, x)
    assert float(got[0]) == want
    if e == F64:
        assert want == float(x)


def test_int64_to_bf16_does_not_round_twice() -> None:
    x = (1 << 62) + (1 << 54) + 1  # just above a tie that float64 would make exact
    assert float(float_of_int(BF16, np.array([x], np.int64))[0]) == (1 << 62) + (1 << 55)


def fraction_fma(e: Scalar, a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return numbers.round_dyadic(e, exact.numerator, exact.denominator.bit_length() - 1)


def scalar_op(name: str, types: list[Type], result: Type | None = None, **attributes: Any) -> Op:
    return make_op(name, [Value(t) for t in types], result, **attributes)


def doubles(e: Scalar) -> st.SearchStrategy[float]:
    return st.floats(width=32 if e != F64 else 64, allow_nan=False).map(
        lambda x: numbers.round_to(e, x)) | st.sampled_from(
        [numbers.round_to(e, x) for x in (0.0, -0.0, 1.0, 1 + 2**-7, 2.0**-120, 3.0, 1e30)])


@given(st.data(), st.sampled_from(FLOATS))
@settings(max_examples=200, deadline=None)
def test_fma_rounds_once(data: st.DataObject, e: Scalar) -> None:
    a, b, c = (data.draw(doubles(e)) for _ in range(3))
    c = data.draw(st.sampled_from([c, numbers.round_to(e, -a * b)]))
    op = scalar_op("fma", [e, e, e])
    got = arrays.evaluate(OPS["fma"], op, [np.array([x], register_dtype(e)) for x in (a, b, c)])[0]
    want = numbers.evaluate(OPS["fma"], op, (a, b, c))[0]
    assert same(float(got[0]), float(want))
    if all(map(math.isfinite, (a, b, c))):
        assert float(want) == fraction_fma(e, a, b, c)


def test_fma_where_rounding_twice_fails() -> None:
    a, b, c = 1 + 2**-12, 1 + 2**-12, 2.0**-60
    op = scalar_op("fma", [F32, F32, F32])
    # a * b = 1 + 2^-11 + 2^-24: a tie of float32, that c alone decides
    got = arrays.evaluate(OPS["fma"], op, [np.array([x], np.float32) for x in (a, b, c)])[0]
    assert float(got[0]) == 1 + 2**-11 + 2**-23


def test_double_fma_at_the_ends_of_the_range() -> None:
    cases = [(1e200, 1e200, -math.inf), (1e308, 10.0, -1e308), (5e-324, 0.5, 5e-324),
             (-0.0, 1.0, -0.0), (2.0**-600, 2.0**-474, 2.0**-1074), (1e200, 1e-200, -1.0)]
    op = scalar_op("fma", [F64, F64, F64])
    got = arrays.evaluate(OPS["fma"], op, [np.array(x) for x in zip(*cases, strict=True)])[0]
    for value, case in zip(got, cases, strict=True):
        assert same(float(value), numbers.exact_fma(F64, *case))


def same(a: float, b: float) -> bool:
    """Equal, zeros by their sign, NaNs all alike."""
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(
        1, b))


# Every scalar operation on arrays and on numbers

def operand_types(name: str) -> list[tuple[list[Type], Type | None, dict[str, Any]]]:
    """Signatures that an elementwise operation takes."""
    row = OPS[name]
    found: list[tuple[list[Type], Type | None, dict[str, Any]]] = []
    if name == "select":
        return [([I1, t, t], None, {}) for t in SCALARS.values()]
    predicates = ICMP if name == "icmp" else FCMP
    for t in [*SCALARS.values(), Pointer(F32)]:
        for to in [None, *SCALARS.values(), Pointer(F32)]:
            for predicate in predicates if name in ("icmp", "fcmp") else (None,):
                attributes = {} if predicate is None else {"predicate": predicate}
                types: list[Type] = [t] * len(row.operands)
                if name == "addptr":
                    types = [Pointer(F32), t]
                try:
                    results = row.rule(types, attributes, to)
                except TypeMismatch:
                    continue
                if to is None or results[0] == to:
                    found.append((types, to, attributes))
    return found


SCALAR_OPS = [name for name, row in OPS.items()
              if row.elementwise and row.meaning is not None and row.operands]


def operand(t: Type) -> st.SearchStrategy[int | float]:
    e = element(t)
    if e == I1:
        return st.booleans()
    if e.is_int or isinstance(e, Pointer):
        low, high = -(1 << (e.bits - 1)), (1 << (e.bits - 1)) - 1
        return st.integers(low, high) | st.sampled_from([0, 1, -1, 2, 7, low, high])
    assert isinstance(e, Scalar)
    return doubles(e) | st.just(math.nan) | st.floats(-8, 8).map(lambda x: numbers.round_to(e, x))


@pytest.mark.parametrize("name", SCALAR_OPS)
def test_arrays_agree_with_numbers(name: str, thorough: bool) -> None:
    signatures = operand_types(name)
    assert signatures

    @given(st.data())
    @settings(max_examples=40 if thorough else 20, deadline=None, derandomize=True)
    def agree(data: st.DataObject) -> None:
        types, to, attributes = data.draw(st.sampled_from(signatures))
        op = scalar_op(name, types, to, **attributes)
        values = [data.draw(operand(t)) for t in types]
        try:
            want = numbers.evaluate(OPS[name], op, values)
        except numbers.NotFoldable:
            return
        scalars = [register_dtype(element(t)).type(v) for t, v in zip(types, values, strict=True)]
        tiles = [np.full((1, 2), s) for s in scalars]
        results = (arrays.evaluate(OPS[name], op, scalars), arrays.evaluate(OPS[name], op, tiles))
        for of_scalars, of_tiles, number, value in zip(*results, want, op.results, strict=True):
            assert of_scalars.dtype == of_tiles.dtype == register_dtype(element(value.type))
            assert of_tiles.shape == (1, 2) and of_scalars.shape == ()
            for got in (of_scalars, of_tiles[0, 1]):
                assert same(float(got), float(number)), (types, to, values, got, number)

    agree()


def test_numbers_decline() -> None:
    for name, types, values in (
            ("sdiv", [I32, I32], (1, 0)), ("urem", [I32, I32], (1, 0)),
            ("shl", [I32, I32], (1, 32)), ("ashr", [I8, I8], (1, -1)), ("exp", [F64], (1.0,)),
            ("reduce", [Tile(F32, (2,))], (1.0,))):
        attributes = {"kind": "fadd", "axes": (0,)} if name == "reduce" else {}
        op = scalar_op(name, list(types), **attributes)
        with pytest.raises(numbers.NotFoldable):
            numbers.evaluate(OPS[name], op, values)


def test_integer_meanings() -> None:
    def value(name: str, types: list[Type], *inputs: int, to: Type | None = None) -> Any:
        return numbers.evaluate(OPS[name], scalar_op(name, types, to), inputs)[0]

    assert value("sdiv", [I32, I32], -7, 2) == -3 and value("srem", [I32, I32], -7, 2) == -1
    assert value("sdiv", [I32, I32], -(1 << 31), -1) == -(1 << 31)
    assert value("udiv", [I8, I8], -1, 2) == 127 and value("urem", [I8, I8], -1, 16) == 15
    assert value("lshr", [I16, I16], -1, 4) == 0xFFF and value("ashr", [I16, I16], -16, 4) == -1
    assert value("umax", [I32, I32], -1, 1) == -1 and value("smax", [I32, I32], -1, 1) == 1
    assert value("add", [I1, I1], True, True) is False
    assert value("zext", [I1], True, to=I32) == 1 and value("sext", [I1], True, to=I32) == -1
    assert value("sitofp", [I1], True, to=F32) == -1 and value("uitofp", [I1], True, to=F32) == 1
    assert value("truncate", [I32], 0x1FF, to=I8) == -1
    assert value("ptrdiff", [Pointer(F32), Pointer(F32)], 4096, 4100) == -1
    assert value("addptr", [Pointer(F64), I32], 4096, -1) == 4088


def test_float_meanings() -> None:
    def value(name: str, e: Scalar, *inputs: float, to: Type | None = None) -> Any:
        return numbers.evaluate(OPS[name], scalar_op(name, [e] * len(inputs), to), inputs)[0]

    assert value("fmin", F32, math.nan, 1.0) == 1 and value("fmax", F32, 1.0, math.nan) == 1
    assert math.copysign(1, value("fmin", F32, 0.0, -0.0)) == -1
    assert [value("round", F32, x) for x in (0.5, -0.5, 1.5, 2.5, 0.49999997)] == [1, -1, 2, 3, 0]
    assert value("round", F64, 0.49999999999999994) == 0
    assert value("fptosi", F32, 3e9, to=I32) == (1 << 31) - 1
    assert value("fptoui", F32, -1.0, to=I32) == 0 and value("fptoui", F32, 3e9, to=I32) == (
        3000000000 - (1 << 32))
    assert value("fptosi", F64, 2.0**63, to=I64) == (1 << 63) - 1
    assert value("fptosi", F32, math.nan, to=I32) == 0
    assert value("fdiv", F32, 1.0, -0.0) == -math.inf and math.isnan(value("fdiv", F32, 0.0, 0.0))
    assert value("fadd", F16, 65504.0, 16.0) == math.inf
    assert value("log", F32, 0.0) == -math.inf and math.isnan(value("log", F32, -1.0))
    assert value("exp", F32, 100.0) == math.inf and value("rsqrt", F32, 4.0) == 0.5
    assert value("fpcast", F32, 1e9, to=F8E4M3) == 448


# Across elements

def across(name: str, t: Tile, a: np.ndarray[Any, Any], **attributes: Any) -> Any:
    op = scalar_op(name, [t], **attributes)
    return arrays.evaluate(OPS[name], op, [a])[0]


def test_reductions() -> None:
    a = np.array([[1, -2, 127], [100, 27, 1]], np.int8)
    t = Tile(I8, (2, 3))
    assert across("reduce", t, a, kind="add", axes=(1,)).tolist() == [126, -128]
    assert across("reduce", t, a, kind="umax", axes=(0, 1)) == -2
    assert across("reduce", t, a, kind="smin", axes=(0,)).tolist() == [1, -2, 1]
    assert across("reduce", t, a, kind="xor", axes=(1,)).dtype == np.int8
    b = np.array([True, True, True])
    assert across("reduce", Tile(I1, (3,)), b, kind="and", axes=(0,)).dtype == np.bool_
    assert across("reduce", Tile(I1, (3,)), b, kind="add", axes=(0,))  # 3 modulo 2
    f = np.array([1, 2**-12, -1, 2**-12], np.float16)
    assert across("reduce", Tile(F16, (4,)), f, kind="fadd", axes=(0,)) == 2**-11
    n = np.array([np.nan, 2, np.nan, 5], np.float32)
    assert across("reduce", Tile(F32, (4,)), n, kind="fmin", axes=(0,)) == 2
    assert across("reduce", Tile(F32, (4,)), n, kind="fmin", axes=(0,)).dtype == np.float32
    z = np.array([[0.0, -0.0], [0.0, 0.0], [-0.0, -0.0], [-1, 0.0]], np.float32)
    low = across("reduce", Tile(F32, (4, 2)), z, kind="fmin", axes=(1,))
    high = across("reduce", Tile(F32, (4, 2)), z, kind="fmax", axes=(1,))
    assert np.signbit(low).tolist() == [True, False, True, True]
    assert np.signbit(high).tolist() == [False, False, True, False]


def test_the_sign_of_zero_in_minima() -> None:
    a, b = np.array([[0.0, -0.0, 0.0, -0.0], [-0.0, 0.0, 0.0, -0.0]], np.float32)
    assert np.signbit(elementwise.fmin(a, b)).tolist() == [True, True, False, True]
    assert np.signbit(elementwise.fmax(a, b)).tolist() == [False, False, False, True]


def test_scans() -> None:
    a = np.array([[100, 100, 1], [1, 2, 3]], np.int8)
    assert across("scan", Tile(I8, (2, 3)), a, kind="add", axis=1).tolist() == [
        [100, -56, -55], [1, 3, 6]]
    assert across("scan", Tile(I8, (2, 3)), a, kind="smax", axis=0)[1].tolist() == [100, 100, 3]
    f = np.array([1, 2**-9, 2**-9], np.float32)
    assert across("scan", Tile(BF16, (3,)), f, kind="fadd", axis=0).tolist() == [1, 1, 1]


@pytest.mark.parametrize("e", [F16, BF16, TF32, F32, F64, F8E4M3, I8, I16, I32, I64], ids=str)
def test_dot_against_fractions(e: Scalar) -> None:
    rng = np.random.default_rng(1)
    if e.is_float:
        a, b = (round_to(e, rng.standard_normal(s)) for s in ((2, 3, 5), (2, 5, 4)))
    else:
        a, b = (rng.integers(-128, 127, s).astype(register_dtype(e))
                for s in ((2, 3, 5), (2, 5, 4)))
    to = F64 if e == F64 else F32 if e.is_float else I32 if e == I8 else e
    c = rng.integers(-9, 9, (2, 3, 4)).astype(register_dtype(to))
    op = scalar_op("dot", [Tile(e, (2, 3, 5)), Tile(e, (2, 5, 4)), Tile(to, (2, 3, 4))])
    got = arrays.evaluate(OPS["dot"], op, [a, b, c])[0]
    assert got.dtype == register_dtype(to)
    if e == TF32:
        a, b = round_to_tf32(a), round_to_tf32(b)
    for i, m, n in np.ndindex(got.shape):
        exact = sum((Fraction(x.item()) * Fraction(y.item()) for x, y in
                     zip(a[i, m], b[i, :, n], strict=True)), Fraction(c[i, m, n].item()))
        want = numbers.fit(to, float(exact) if e.is_float else int(exact))
        assert math.isclose(got[i, m, n], want, rel_tol=2e-7 if to == F32 else 0,
                            abs_tol=1e-15 if e == F64 else 0)


def test_bitcasts() -> None:
    def cast(a: Any, source: Scalar, target: Scalar) -> Any:
        op = scalar_op("bitcast", [source], target)
        return arrays.evaluate(OPS["bitcast"], op, [a])[0]

    assert cast(np.float32(1), F32, I32) == 0x3F800000
    assert cast(np.float32(-2), BF16, I16).item() == 0xC000 - (1 << 16)
    assert cast(np.array([0x3C00], np.int16), I16, F16).tolist() == [1.0]
    assert cast(np.array([0x38, 0x7F], np.int8), I8, F8E4M3)[0] == 1.0
    assert cast(np.int16(0x3F80), I16, BF16) == 1.0


def test_shapes() -> None:
    row = np.arange(3, dtype=np.int32)
    namespace: Any = arrays.MEANINGS
    assert namespace.broadcast(Tile(I32, (2, 3)), row[None]).tolist() == [[0, 1, 2]] * 2
    assert namespace.transpose(row[None], (1, 0)).shape == (3, 1)
    assert namespace.full(Tile(BF16, (2,)), 1 + 2**-9).tolist() == [1.0, 1.0]
    assert namespace.full(I32, 0xFFFFFFFF) == -1
