"""Functions of floats: within the bounds that emit/math.py states, special values included."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from machine_programs import execute, ptx
from native_functions import NativeFunctions
from programs import PTXAS, ptxas
from sketch import Sketch
from test_backend_passes import lowered
from test_emit_elementwise import program

from tritonc.backend.emit.body import Body, Term, helper_function
from tritonc.backend.emit.floats import math_f32, math_f64
from tritonc.backend.emit.floats.math import BOUNDS
from tritonc.backend.emit.floats.math_reduction import any_angle, two_over_pi
from tritonc.ir.types import BF16, F16, F32, F64

wide = np.longdouble
REFERENCES: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "rsqrt": lambda a: 1 / np.sqrt(a),
    "erf": lambda a: np.array([math.erf(x) for x in a], wide),
}
TYPES = {"float": (F32, np.float32, 88.0), "double": (F64, np.float64, 709.0)}


@cache
def functions() -> NativeFunctions:
    helpers = {(name, "float"): build for name, build in math_f32.FUNCTIONS.items()}
    helpers |= {(name, "double"): build for name, build in math_f64.FUNCTIONS.items()}
    helpers |= {(name, t): of_any_angle(t, build) for (name, t), build in helpers.items()
                if name in ("sin", "cos")}
    return NativeFunctions({key: build for key, build in helpers.items() if key[0] != "angle"})


def of_any_angle(t: str, build: Callable[[Body], None]) -> Callable[[Body], None]:
    """A sine or cosine of one number, as `emit.math` calls it."""
    table = math_f64.FUNCTIONS if t == "double" else math_f32.FUNCTIONS

    def whole(body: Body) -> None:
        assert body.module is not None
        x, pair = body.parameters[0], f"{{ {t}, i32 }}"
        near = helper_function(body.module, f"angle.{t}", pair, (t,), table["angle"])
        any_ = helper_function(body.module, f"any.angle.{t}", pair, (t, t, "i32"), any_angle)
        wave = helper_function(body.module, f"wave.{id(build)}", t, (t, "i32"), build)
        found: list[Term] = []
        for name in (near, any_):
            both = body.call_helper(name, pair, x, *found)
            found = [body.make(f"extractvalue {pair} {both.name}, {i}", of)
                     for i, of in enumerate((t, "i32"))]
        body.give(body.call_helper(wave, t, *found))
    return whole


def arguments(name: str, limit: float) -> Any:
    """Where a function is hard: near its zeros, near overflow, of all magnitudes."""
    draw = np.random.default_rng(1)
    n = 20000
    if name in ("exp", "exp2"):
        top = limit / math.log(2) if name == "exp2" else limit
        return np.concatenate([draw.uniform(-1.15 * top, top, n), draw.uniform(-1, 1, n),
                               draw.normal(0, 1e-4, 100)])
    if name in ("log", "log2", "rsqrt"):
        positive = np.exp(draw.uniform(-limit, limit, n))
        return np.concatenate([positive, draw.uniform(0.5, 2, n), 1 + draw.normal(0, 1e-4, n),
                               [2.0**-140 if limit < 100 else 5e-324]])
    if name in ("sin", "cos"):
        huge = np.exp(draw.uniform(0, limit, n))
        hardest = 16367173.0 * 2.0**72 if limit < 100 else 6381956970095103.0 * 2.0**797
        return np.concatenate([draw.uniform(-10, 10, n), draw.uniform(-1e5, 1e5, n), huge, -huge,
                               np.arange(1, 9999) * (math.pi / 2), [hardest]])
    return np.concatenate([draw.uniform(-1, 1, n), draw.uniform(-25, 25, n),
                           draw.normal(0, 1e-4, 100), draw.uniform(0.5, 6, n)])


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_errors_are_within_the_bounds(name: str, t: str) -> None:
    _, dtype, limit = TYPES[t]
    x = arguments(name, limit).astype(dtype)
    found = functions().call(name, t, x).astype(wide)
    exact = REFERENCES[name](x.astype(wide))
    nearest = exact.astype(dtype)
    assert np.isfinite(nearest).all()
    error = np.abs(found - exact) / np.spacing(np.abs(nearest)).astype(wide)
    bound = BOUNDS[name][t == "double"]
    worst = int(np.argmax(error))
    assert error[worst] <= bound, (x[worst], found[worst], exact[worst])


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_special_values(name: str, t: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -4.0], TYPES[t][1])
    found = functions().call(name, t, x)
    if name in ("log", "log2", "rsqrt", "sin", "cos"):
        with np.errstate(all="ignore"):
            want = REFERENCES[name](x.astype(wide)).astype(x.dtype)
    else:
        want = REFERENCES[name](x.astype(wide)).astype(x.dtype)
    np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize("name", ["log", "log2"])
def test_logarithms_from_one(name: str) -> None:
    x = np.array([1, 1.25, 2, 1e20, 3e38, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(functions().call(f"{name}_from_one", "float", x),
                                  functions().call(name, "float", x))


def test_overflow_and_underflow() -> None:
    for t, (_, dtype, limit) in TYPES.items():
        x = np.array([limit + 2, 2 * limit, 1e30, -2 * limit, -1e30], dtype)
        np.testing.assert_array_equal(functions().call("exp", t, x), [np.inf] * 3 + [0, 0])
        np.testing.assert_array_equal(functions().call("exp2", t, 2 * x), [np.inf] * 3 + [0, 0])
        np.testing.assert_array_equal(functions().call("tanh", t, x), [1, 1, 1, -1, -1])
        np.testing.assert_array_equal(functions().call("erf", t, x), [1, 1, 1, -1, -1])


def test_digits_of_two_over_pi() -> None:
    words = two_over_pi()
    assert words[:3] == (0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0)
    assert all(0 <= word < 1 << 64 for word in words)


@pytest.mark.parametrize("e", [F16, BF16, F32, F64], ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_functions_of_tiles(name: str, e: Any) -> None:
    """Through the whole backend, on the machine in NumPy."""
    x = np.linspace(0.25, 3, 256)
    p = program(name, [x], [e])
    want, got = p.run()["out"], execute(lowered(p))["out"]
    if e == BF16:
        want, got = ((a.astype(np.uint32) << 16).view(np.float32) for a in (want, got))
    size = np.spacing(np.abs(want)) * (2.0**16 if e == BF16 else 1)
    assert (np.abs(want - got) <= 3.5 * size).all()


@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
@pytest.mark.parametrize("options", [{}, {"fast_math": True}, {"precise_math": True}], ids=str)
def test_ptxas_accepts(options: dict[str, bool], tmp_path: Any) -> None:
    """A kernel of all functions, for each type."""
    for e in (F16, F32, F64):
        k = Sketch("functions", 1)
        x = k.pointer("x", e, np.ones(32))
        at = k.at(x, k.arange(32))
        value = k.load(at)
        for name in BOUNDS:
            value = k.build.value(name, value)
        k.store(at, value)
        ptxas(ptx(lowered(k.done()), "sm_80", **options), "sm_80", tmp_path)


def test_options_choose_the_algorithm() -> None:
    p = lowered(program("exp", [np.ones(256)], [F32]))
    plain, fast, precise = (ptx(p, "sm_80", **options) for options in (
        {}, {"fast_math": True}, {"precise_math": True}))
    assert "fma.rn.sat.f32" in plain and "ex2.approx.ftz.f32" in fast and ".sat." not in fast
    assert "fma.rn.f64" in precise and "ex2" not in precise
    assert fast.count("\n") < plain.count("\n") < precise.count("\n")


def test_exp2_is_one_instruction() -> None:
    """Unless its subnormal results are asked for."""
    p = lowered(program("exp2", [np.ones(256)], [F32]))
    plain, precise = (ptx(p, "sm_80", **options) for options in ({}, {"precise_math": True}))
    assert "ex2.approx.ftz.f32" in plain and "ex2.approx.f32" not in plain
    assert "fma.rn.f64" in precise and "ex2" not in precise
