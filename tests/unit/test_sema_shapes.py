"""Shapes, subscripts, reductions and products against NumPy, through the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sema_programs import computed, execute, same

N = np.arange(8, dtype=np.int32) - 3
F = np.linspace(-2, 2, 8, dtype=np.float32)
INT8, FLOAT8 = ("int x[8]", N), ("float x[8]", F)


# --- shapes ---


def test_broadcasting() -> None:
    x = np.arange(3, dtype=np.int32)
    y = np.arange(5, dtype=np.int32) * 10
    operands = (("int x[3]", x), ("int y[5]", y))
    same(computed("x[:, newaxis] + y", "int", *operands, shape="3, 5"), x[:, None] + y)
    same(computed("x[newaxis, :] + y[:, newaxis]", "int", *operands, shape="5, 3"),
         x + y[:, None])
    same(computed("1 - x", "int", operands[0], shape="3"), 1 - x)


def test_any_extents() -> None:
    x = np.arange(48 * 3, dtype=np.float32).reshape(48, 3)
    same(computed("x[:, +]", "float", ("float x[48, 3]", x), shape="48"), x.sum(1))
    same(computed("x[+, +]", "float", ("float x[48, 3]", x)), x.sum())


def test_ranges() -> None:
    same(computed("3 ... 11", "int", shape="8"), np.arange(3, 11))
    same(computed("5 * 2 + 0 ... 4", "int", shape="4"), 10 + np.arange(4))
    same(computed("-2 ... 2", "int", shape="4"), np.arange(-2, 2))


def test_casts_of_shape() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    tile = ("float x[2, 3]", x)
    same(computed("((float[6])x)[+]", "float", tile), 15)
    same(computed("(int[3, 2])x", "int", tile, shape="3, 2"), x.reshape(3, 2))
    same(computed("(int[2, 2, 3])x", "int", tile, shape="2, 2, 3"), np.stack([x, x]))
    same(computed("(half[4])2", "half", shape="4"), np.full(4, 2))
    same(computed("-(double[2, 3])x", "double", tile, shape="2, 3"), -x)
    same(computed("(float)one", "float", ("int one[1]", np.int32([7])), shape="1"), [7])


def test_one_element_tile_becomes_a_scalar() -> None:
    source = """kernel void k(int* p) { int t[1, 1] = *(p + (0 ... 1)[newaxis, :]);
                int s = t; if (s > 3) *p = s * 2; while (t < 0) ; }"""
    same(execute(source, np.int32([5]))[0], [10])


def test_bitcast_and_pointers_as_integers() -> None:
    same(computed("bitcast<int>(x)", "int", FLOAT8, shape="8"), F.view(np.int32))
    same(computed("bitcast<float>(x)", "float", ("uint32 x[8]", F.view(np.uint32)), shape="8"), F)
    same(computed("*(float*)(long)p0", "float", ("float x[8]", F)), F[0])
    same(computed("(long)(p0 + 3) - (long)p0", "long", ("double x", np.zeros(8))), 24)
    same(computed("(p0 + x) - p0", "long", INT8, shape="8"), N)
    same(computed("p0 + x < p0", "bool", INT8, shape="8"), N < 0)
    same(computed("p0 != 0", "bool", INT8), True)


def test_pointer_offsets() -> None:
    """Offsets are computed in their own type; a large unsigned one goes far ahead, not back."""
    far = ("uint32 x", np.array(2**32 - 1, np.uint32))
    same(computed("(long)(p0 + x) - (long)p0", "long", far), 4 * (2**32 - 1))
    same(computed("(long)(p0 - x) - (long)p0", "long", ("int x", np.array(-2**31, np.int32))),
         4 * 2**31)
    same(computed("(long)(p0 + x) - (long)p0", "long", ("char x", np.array(-1, np.int8))), -1)
    same(computed("(long)(p0 + x) - (long)p0", "long", ("uint8 x", np.array(255, np.uint8))), 255)
    same(computed("(long)(5 + p0) - (long)p0", "long", ("int x", np.array(1, np.int32))), 20)
    same(computed("(long)(p0 - 5) - (long)p0", "long", ("int x", np.array(1, np.int32))), -20)


# --- subscripts and reductions ---


X3 = np.arange(24, dtype=np.int32).reshape(2, 3, 4) % 7
CUBE = ("int x[2, 3, 4]", X3)


@pytest.mark.parametrize(("expression", "want", "shape"), [
    ("x[:, +, :]", X3.sum(1), "2, 4"),
    ("x[max, :, min]", X3.max(0).min(1), "3"),
    ("x[+, :, +]", X3.sum((0, 2)), "3"),
    ("x[*, :, :]", X3.prod(0), "3, 4"),
    ("x[+, newaxis, :, newaxis, max]", X3.sum(0)[None, :, None].max(-1), "1, 3, 1"),
    ("x[^, :, :]", X3[0] ^ X3[1], "3, 4"),
    ("x[|, :, &]", np.bitwise_and.reduce(X3[0] | X3[1], axis=1), "3"),
    ("x[^2, ^0, ^1]", X3.transpose(2, 0, 1), "4, 2, 3"),
    ("x[+, +, +]", X3.sum(), ""),
    ("^x", X3.transpose(1, 2, 0), "3, 4, 2"),
    ("trans(x)", X3.T, "4, 3, 2"),
    ("trans(x, 1, 0, 2)", X3.transpose(1, 0, 2), "3, 2, 4"),
    ("permute(x, 2, 1, 0)", X3.T, "4, 3, 2"),
    ("sum(x, -1)", X3.sum(-1), "2, 3"),
    ("__sum(x)", X3.sum(), ""),
    ("prod(x, 0)", X3.prod(0), "3, 4"),
    ("max(x)", X3.max(), ""),
    ("min(x)", X3.min(), ""),
    ("argmax(x, 2)", X3.argmax(2), "2, 3"),
    ("argmin(x)", X3.argmin(), ""),
    ("cumsum(x, 1)", X3.cumsum(1), "2, 3, 4"),
    ("cumprod(x, 2)", X3.cumprod(2), "2, 3, 4"),
    ("cumsum(x)", X3.cumsum(), "24"),
    ("scan(x, 1, max)", np.maximum.accumulate(X3, 1), "2, 3, 4"),
    ("scan(x, 0)", X3.cumsum(0), "2, 3, 4"),
    ("any(x > 5, 1)", (X3 > 5).any(1), "2, 4"),
    ("all(x)", X3.all(), ""),
    ("reshape(x, 6, 4)", X3.reshape(6, 4), "6, 4"),
    ("broadcast(x[:, :, +], 5, 2, 3)", np.broadcast_to(X3.sum(2), (5, 2, 3)), "5, 2, 3"),
])
def test_reductions_and_shapes(expression: str, want: Any, shape: str) -> None:
    same(computed(expression, "int", CUBE, shape=shape), want)


def test_reductions_convert_as_operators_do() -> None:
    c = np.array([100, 100, 100], np.int8)
    same(computed("x[+]", "int", ("char x[3]", c)), 300)
    same(computed("x[max]", "int", ("uint8 x[2]", np.array([200, 100], np.uint8))), 200)
    b = np.array([True, True, False])
    same(computed("x[+]", "int", ("bool x[3]", b)), 2)
    same(computed("max(x)", "bool", ("bool x[3]", b)), True)
    same(computed("x[min]", "bool", ("bool x[3]", b)), False)
    u = np.array([2**31, 5], np.uint32)
    same(computed("x[max]", "uint32", ("uint32 x[2]", u)), 2**31)
    same(computed("argmax(x)", "int", ("uint32 x[2]", u)), 0)
    f = np.array([np.nan, 3, 3], np.float32)
    same(computed("x[max]", "float", ("float x[3]", f)), 3)
    same(computed("argmax(x)", "int", ("float x[3]", f)), 1)


def test_products() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-8, 8, (4, 6)).astype(np.float32)
    b = rng.integers(-8, 8, (6, 5)).astype(np.float32)
    c = rng.integers(-8, 8, (4, 5)).astype(np.float32)
    A, B, C = ("float a[4, 6]", a), ("float b[6, 5]", b), ("float c[4, 5]", c)
    same(computed("a @ b", "float", A, B, shape="4, 5"), a @ b)
    same(computed("dot(a, b, c)", "float", A, B, C, shape="4, 5"), a @ b + c)
    same(computed("dot(a, b, 1)", "float", A, B, shape="4, 5"), a @ b + 1)
    same(computed("c + a @ b * 2", "float", A, B, C, shape="4, 5"), c + a @ b * 2)
    half = (("half a[4, 6]", a.astype(np.float16)), ("half b[6, 5]", b.astype(np.float16)))
    same(computed("a @ b / 3", "float", *half, shape="4, 5"), (a @ b) / np.float32(3))
    same(computed("(tf32)a @ (tf32)b", "float", A, B, shape="4, 5"), a @ b)
    small = (("char a[4, 6]", a.astype(np.int8)), ("char b[6, 5]", (b * 15).astype(np.int8)))
    same(computed("dot(a, b)", "int", *small, shape="4, 5"), a @ (b * 15))
    unsigned = (("uint8 a[4, 6]", (a + 200).astype(np.uint8)), ("uint8 b[6, 5]",
                                                              (b + 200).astype(np.uint8)))
    same(computed("dot(a, b)", "int", *unsigned, shape="4, 5"), (a + 200) @ (b + 200))


def test_batched_products() -> None:
    rng = np.random.default_rng(2)
    a = rng.integers(-8, 8, (2, 3, 4, 5)).astype(np.float32)
    b = rng.integers(-8, 8, (3, 6, 4, 5)).astype(np.float32)
    want = np.einsum("mkbc,knbc->mnbc", a, b)
    operands = (("float a[2, 3, 4, 5]", a), ("float b[3, 6, 4, 5]", b))
    same(computed("a @ b", "float", *operands, shape="2, 6, 4, 5"), want)
    same(computed("dot(a, b, 3)", "float", *operands, shape="2, 6, 4, 5"), want + 3)
