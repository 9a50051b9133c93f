"""The library of functions: accuracy, special values, and random numbers equal to Triton's."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accuracy import FUNCTIONS, OPERATIONS, TYPES, evaluate, measure

from tritonc.backend.emit.floats.math import BOUNDS


def stated() -> dict[str, list[float]]:
    """The greatest errors in ulp by type, as the tables of docs/language.md have them."""
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|((?: (?:[\d.]+|exact) \|){4,5})$", page, re.MULTILINE)
    return {name: [0.0 if word == "exact" else float(word) for word in row.split("|")[:-1]
                   for word in word.split()] for name, row in rows}


def test_tables_have_every_function() -> None:
    assert stated().keys() == {*FUNCTIONS, *OPERATIONS}
    for name in OPERATIONS:  # half, bfloat16, float, float with -fprecise-math, double
        single, double = BOUNDS[name]
        half, bfloat, plain, precise, wide = stated()[name]
        assert half == bfloat == 0.5 and precise <= 0.51
        assert plain <= single and wide <= double


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_within_the_bounds(name: str, thorough: bool) -> None:
    for kind, bound in zip(TYPES, stated()[name], strict=True):
        worst, where = measure(name, kind, 300 if thorough else 150)
        assert worst <= bound * 1.05, (kind, where)  # points are few here, and others


INF, NAN = math.inf, math.nan
SPECIAL: dict[str, list[tuple[float, ...]]] = {  # arguments, result
    "expm1(x)": [(-0.0, -0.0), (INF, INF), (-INF, -1), (NAN, NAN), (89, INF)],
    "log1p(x)": [(-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF), (NAN, NAN)],
    "log10(x)": [(0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF), (1, 0), (1000, 3)],
    "exp10(x)": [(INF, INF), (-INF, 0), (NAN, NAN), (2, 100), (0, 1)],
    "sinh(x)": [(-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "cosh(x)": [(-0.0, 1), (-INF, INF), (NAN, NAN)],
    "asinh(x)": [(-0.0, -0.0), (-INF, -INF), (NAN, NAN)],
    "acosh(x)": [(1, 0), (0.5, NAN), (INF, INF), (NAN, NAN)],
    "atanh(x)": [(-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN), (NAN, NAN)],
    "tan(x)": [(-0.0, -0.0), (INF, NAN), (NAN, NAN)],
    "asin(x)": [(-0.0, -0.0), (2, NAN), (NAN, NAN)],
    "acos(x)": [(1, 0), (-2, NAN), (NAN, NAN)],
    "atan(x)": [(-0.0, -0.0), (INF, np.float32(math.pi / 2)), (NAN, NAN)],
    "atan2(x, y)": [(0, 1, 0), (-0.0, 1, -0.0), (0, -1, np.float32(math.pi)),
                    (-0.0, -0.0, -np.float32(math.pi)), (INF, INF, np.float32(math.pi / 4)),
                    (1, 0, np.float32(math.pi / 2)), (NAN, 1, NAN), (1, -INF, np.float32(math.pi))],
    "cbrt(x)": [(-0.0, -0.0), (-INF, -INF), (NAN, NAN), (27, 3), (-8, -2)],
    "hypot(x, y)": [(INF, NAN, INF), (NAN, 1, NAN), (0, -0.0, 0), (3, -4, 5)],
    "erfc(x)": [(0, 1), (INF, 0), (-INF, 2), (NAN, NAN)],
    "erfinv(x)": [(-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (NAN, NAN)],
    "lgamma(x)": [(1, 0), (2, 0), (0, INF), (-3, INF), (INF, INF), (-INF, INF), (3e38, INF),
                  (NAN, NAN)],
    "pow(x, y)": [(NAN, 0, 1), (1, NAN, 1), (NAN, 2, NAN), (-2, 3, -8), (-2, 0.5, NAN),
                  (-0.0, -3, -INF), (0, -2, INF), (-0.0, 3, -0.0), (-INF, 3, -INF),
                  (-INF, -2, 0), (-1, INF, 1), (0.5, INF, 0), (2, -INF, 0), (INF, 0.5, INF),
                  (-0.0, 0.5, 0), (-INF, 0.5, INF), (-8, 33554432, INF)],
    "fmod(x, y)": [(-6, 4, -2), (5, INF, 5), (INF, 2, NAN), (1, 0, NAN), (-4, 2, -0.0),
                   (NAN, 1, NAN)],
    "remainder(x, y)": [(3, 2, -1), (1, 2, 1), (-3, 2, 1), (5, INF, 5), (1, 0, NAN), (-4, 2, -0.0),
                        (3e38, 2.5e38, float(np.float32(3e38) - np.float32(2.5e38)))],
    "rint(x)": [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, -0.0), (-INF, -INF), (NAN, NAN)],
    "fdim(x, y)": [(3, 1, 2), (1, 3, 0), (NAN, 1, NAN), (INF, INF, 0)],
    "copysign(x, y)": [(3, -0.0, -3), (-3, 1, 3), (INF, -1, -INF)],
    "minimum(x, y)": [(NAN, 1, NAN), (1, NAN, NAN), (1, 2, 1), (0.0, -0.0, -0.0)],
    "maximum(x, y)": [(NAN, 1, NAN), (1, NAN, NAN), (1, 2, 2), (-0.0, 0.0, 0.0)],
    "nextafter(x, y)": [(0, 1, 1e-45), (0, -1, -1e-45), (1, 1, 1), (INF, 0, 3.4028235e38),
                        (1, 2, 1.0000001), (-1, -2, -1.0000001), (1, 0, 0.99999994), (NAN, 0, NAN)],
    "ldexp(x, (int)y)": [(1, 10, 1024), (1, -149, 1e-45), (3, 200, INF), (1.5, -150, 1e-45),
                         (1, -400, 0), (1e-45, 276, 2.0**127)],
    "frexp_fraction(x)": [(8, 0.5), (-3, -0.75), (0, 0), (INF, INF), (1e-45, 0.5), (NAN, NAN)],
    "frexp_exponent(x)": [(8, 4), (-3, 2), (0, 0), (INF, 0), (1e-45, -148)],
    "isnan(x) + 2 * isinf(x) + 4 * isfinite(x) + 8 * signbit(x)": [
        (1, 4), (-1, 12), (INF, 2), (-INF, 10), (NAN, 1), (-0.0, 12)],
}


@pytest.mark.parametrize("expression", SPECIAL)
def test_special_values(expression: str) -> None:
    rows = SPECIAL[expression]
    columns = [np.float64(np.float32(c)) for c in zip(*rows, strict=True)]
    *arguments, want = columns
    got = evaluate(expression, "float", list(arguments))
    same = (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
    assert same.all(), [(row, g) for row, g, s in zip(rows, got, same, strict=True) if not s]


def philox(seed: int, offset: int) -> tuple[int, int, int, int]:
    """Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), with 10 rounds."""
    m = 0xFFFFFFFF
    c, k = [offset & m, offset >> 32 & m, 0, 0], [seed & m, seed >> 32 & m]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & m, (p >> 32) ^ c[3] ^ k[1], p & m]
        k = [(k[0] + 0x9E3779B9) & m, (k[1] + 0xBB67AE85) & m]
    return c[0], c[1], c[2], c[3]


def uniform(word: int) -> Any:
    word = word - (1 << 32) if word >> 31 else word
    return np.float32(-word - 1 if word < 0 else word) * np.float32(4.6566127342e-10)


def test_random_numbers_are_those_of_triton() -> None:
    assert philox(0, 0)[0] == 0x6627E8D5  # a known answer of the authors
    offsets = np.array([0, 1, 2, 77, 5000, 2**20])
    for seed in (0, 17, 123456789):
        words = [philox(seed, int(o)) for o in offsets]
        got = evaluate(f"(double)randint({seed}, (int)x)", "double", [offsets.astype(float)])
        assert got.tolist() == [w[0] for w in words]
        got = evaluate(f"rand({seed}, (int)x)", "float", [offsets.astype(float)])
        assert got.tolist() == [float(uniform(w[0])) for w in words]
        got = evaluate(f"randn({seed}, (int)x)", "float", [offsets.astype(float)])
        want = [math.sqrt(-2 * math.log(max(1e-7, uniform(w[0])))) * math.cos(
            2 * math.pi * float(uniform(w[1]))) for w in words]
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
        for i in range(4):
            got = evaluate(f"(double)philox({seed}, (int)x, 0, 0, 0).c{i}", "double",
                           [offsets.astype(float)])
            assert got.tolist() == [w[i] for w in words]
    long = evaluate("(double)randint(5, (long)x << 30)", "double", [offsets.astype(float)])
    assert long.tolist() == [philox(5, int(o) << 30)[0] for o in offsets]
    negative = evaluate("(double)randint(-5, (int)x)", "double", [offsets.astype(float)])
    assert negative.tolist() == [philox(-5 & (1 << 64) - 1, int(o))[0] for o in offsets]
