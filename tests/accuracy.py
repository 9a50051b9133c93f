"""The greatest errors of functions of floats, measured against mpmath.

    python tests/accuracy.py                      the library's functions, 2000 points each
    python tests/accuracy.py pow lgamma --points 20000
    python tests/accuracy.py --table              as rows of docs/language.md
    python tests/accuracy.py --device=cuda        on a GPU: the operations, `exp` to `erf`, too

What the interpreter computes of the library is what every target computes: it is arithmetic of
Triton-IR, rounded operation by operation.  (`tan` beyond 10000 calls the operations `sin` and
`cos`.)  An operation is NumPy's in the interpreter; a target computes it by instructions of its
own, so that its error is measured there.  An error is counted in units in the last place (ulp) of
the type that the function is called in: 0.5 is a correctly rounded result.  Arguments are drawn
from what `FUNCTIONS` and `OPERATIONS` say, over all magnitudes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # so that the program runs where nothing is installed

from tritonc import driver  # noqa: E402
from tritonc.ir.core import Module  # noqa: E402
from tritonc.ir.numeric.numbers import largest, round_to  # noqa: E402
from tritonc.ir.types import BF16, F16, F32, F64, Scalar  # noqa: E402
from tritonc.launch.cuda import Device  # noqa: E402
from tritonc.launch.data import Data, prepare  # noqa: E402
from tritonc.launch.interpreter import launch  # noqa: E402
from tritonc.launch.run_problems import read_problems  # noqa: E402
from tritonc.options import Options  # noqa: E402
from tritonc.problem.lines import Problem  # noqa: E402
from tritonc.source import Diagnostics, SourceFile  # noqa: E402

mp.mp.prec = 200
TYPES: dict[str, Scalar] = {"half": F16, "bfloat16": BF16, "float": F32, "double": F64}
TILE = 1024
PLAIN = Options()
Draw = Callable[[np.random.Generator, int, float], Any]


def _all(rng: np.random.Generator, n: int, top: float) -> Any:
    """Numbers of every magnitude, of both signs."""
    return np.exp(rng.uniform(-top, top, n)) * rng.choice((-1, 1), n)


def _within(low: float, high: float) -> Draw:
    def draw(rng: np.random.Generator, n: int, top: float) -> Any:
        flat = rng.uniform(low, high, n)
        small = np.exp(rng.uniform(-min(top, 40), np.log(min(high, 1)), n))
        signs = rng.choice((-1, 1), n) if low < 0 else 1
        return np.where(rng.random(n) < 0.7, flat, small * signs)

    return draw


def _positive(rng: np.random.Generator, n: int, top: float) -> Any:
    return np.where(rng.random(n) < 0.5, np.exp(rng.uniform(-top, top, n)), rng.uniform(0.3, 3, n))


def _logs(sign: float) -> Draw:
    def draw(rng: np.random.Generator, n: int, top: float) -> Any:
        return np.where(rng.random(n) < 0.3, _within(-1, 1)(rng, n, top),
                        rng.uniform(-top if sign < 0 else 0, top, n))

    return draw


def _scaled(factor: float) -> Draw:
    return lambda rng, n, top: _logs(-1)(rng, n, top * factor)


def _pow(rng: np.random.Generator, n: int, top: float) -> Any:
    x = _positive(rng, n, min(top, 80))
    with np.errstate(all="ignore"):
        return x, rng.uniform(-top, top, n) / np.maximum(np.abs(np.log(x)), 1e-3)


def _pairs(rng: np.random.Generator, n: int, top: float) -> Any:
    x = _all(rng, n, top * 0.9)
    return x, np.where(rng.random(n) < 0.7, x * np.exp(rng.normal(0, 2, n)), _all(rng, n, top))


def _over_one(rng: np.random.Generator, n: int, top: float) -> Any:
    return 1 + np.exp(rng.uniform(-30, top, n))


def _erfinv(x: Any) -> Any:
    """Newton's method on erfc from the nearest double."""
    a = abs(x)
    if a == 0:
        return x
    y = mp.sqrt(-mp.log((1 - a) * (1 + a))) if a > 0.9 else mp.erfinv(a)
    for _ in range(60 if a > 0.9 else 3):
        y += (mp.erfc(y) - (1 - a)) / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
    return y * mp.sign(x)


def _remainder(x: Any, y: Any, whole: Callable[[Fraction], int]) -> Any:
    a, b = Fraction(float(x)), Fraction(float(y))
    return mp.mpf(float(a - b * whole(a / b)))  # which a float of that type holds


# A function: its exact value, and where it is measured.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Draw]] = {
    "pow": (mp.power, _pow),
    "exp10": (lambda x: mp.power(10, x), _scaled(1 / 2.31)),
    "expm1": (mp.expm1, _logs(-1)),
    "log10": (lambda x: mp.log10(x), _positive),
    "log1p": (mp.log1p, lambda rng, n, top: np.where(
        rng.random(n) < 0.5, _positive(rng, n, top), rng.uniform(-0.999, 1, n))),
    "sinh": (mp.sinh, _logs(-1)), "cosh": (mp.cosh, _logs(-1)),
    "asinh": (mp.asinh, _all), "acosh": (mp.acosh, _over_one), "atanh": (mp.atanh, _within(-1, 1)),
    "tan": (mp.tan, _within(-1000, 1000)),
    "asin": (mp.asin, _within(-1, 1)), "acos": (mp.acos, _within(-1, 1)),
    "atan": (mp.atan, lambda rng, n, top: _all(rng, n, min(top, 30))),
    "atan2": (mp.atan2, _pairs),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), _all), "hypot": (mp.hypot, _pairs),
    "erfc": (mp.erfc, _within(-6, 27)), "erfinv": (_erfinv, _within(-1, 1)),
    "lgamma": (lambda x: mp.loggamma(x).real, lambda rng, n, top: np.where(
        rng.random(n) < 0.6, rng.uniform(0, 30, n), _positive(rng, n, top * 0.9))),
    "fmod": (lambda x, y: _remainder(x, y, int), _pairs),
    "remainder": (lambda x, y: _remainder(x, y, round), _pairs),
    "rint": (mp.nint, lambda rng, n, top: _all(rng, n, min(top, 40))),
}


def _angles(rng: np.random.Generator, n: int, top: float) -> Any:
    return np.where(rng.random(n) < 0.6, rng.uniform(-1e5, 1e5, n), np.where(
        rng.random(n) < 0.5, rng.uniform(-10, 10, n), _all(rng, n, top)))


# What is an instruction, or some, of the target.
OPERATIONS: dict[str, tuple[Callable[..., Any], Draw]] = {
    "exp": (mp.exp, _logs(-1)), "exp2": (lambda x: mp.power(2, x), _scaled(1 / 0.694)),
    "log": (mp.log, _positive), "log2": (lambda x: mp.log(x, 2), _positive),
    "sqrt": (mp.sqrt, _positive), "rsqrt": (lambda x: 1 / mp.sqrt(x), _positive),
    "sin": (mp.sin, _angles), "cos": (mp.cos, _angles),
    "tanh": (mp.tanh, _within(-12, 12)), "erf": (mp.erf, _within(-6, 6)),
}


def evaluate(expression: str, kind: str, columns: list[Any], device: str = "interpreter",
             options: Options = PLAIN) -> Any:
    """An expression of x (and y), by the interpreter or a GPU; arrays of float64 that the type
    holds."""
    n = len(columns[0])
    names = "xyz"[: len(columns)]
    parameters = ", ".join(f"const {kind}* p{c}" for c in names)
    loads = "".join(f"  {kind} {c}[{TILE}] = r < N ? *(p{c} + r) : 1;\n" for c in names)
    arguments = "".join(f"//! arg: p{c} = np.zeros(N)\n" for c in names)
    text = (f"//! size: N = {n}\n//! range: N\n{arguments}//! arg: o = zeros(N)\n//! arg: N = N\n"
            f"//! expect: o = o\nkernel void f({parameters}, {kind}* o, int N) {{\n"
            f"  int r[{TILE}] = get_global_range(0);\n{loads}"
            f"  @(r < N) *(o + r) = {expression};\n}}")
    source = SourceFile("accuracy.tc", text)
    (problem,) = read_problems(source, options, "tc", Diagnostics())
    if device == "interpreter":
        module = driver.compile(source, replace(options, stop_after=driver.LOWER), ("tir",)).module
        assert module is not None
        data = _filled(problem, module, columns)
        return launch(module, data)["o"].astype(np.float64)
    with Device() as gpu:
        found = driver.compile(source, replace(options, arch=gpu.target), ("ptx",))
        assert found.module is not None and found.manifest is not None
        (entry,) = found.manifest["kernels"]
        data = _filled(problem, found.module, columns)
        return gpu.launch(found.outputs["ptx"], found.module, data, entry["threads"],
                          entry["dynamic_shared_bytes"])["o"].astype(np.float64)


def _filled(problem: Problem, module: Module, columns: list[Any]) -> Data:
    data = prepare(problem, module, module.kernels[0], {})
    for value, column in zip(data.arguments, columns):
        value.held[...] = column
    return data


def rounded(kind: str, column: Any) -> Any:
    """Each number as the type holds it."""
    return np.array([round_to(TYPES[kind], float(v)) for v in column])


def ulp(e: Scalar, value: Any) -> Any:
    """A unit in the last place of a number of that size."""
    if value == 0:
        exponent = -(1 << 20)
    else:
        exponent = int(mp.floor(mp.log(abs(value), 2)))
    return mp.mpf(2) ** (max(exponent, 2 - (1 << (e.exponent - 1))) - e.mantissa)


def error(e: Scalar, want: Any, got: float) -> float:
    """In ulp; a result beyond the greatest number counts as that or as infinite."""
    if abs(want) > largest(e):
        return 0.0 if abs(got) >= largest(e) else float("inf")
    if not np.isfinite(got):
        return float("inf") if abs(want) < largest(e) * 0.999 else 0.0
    return float(abs(mp.mpf(float(got)) - want) / ulp(e, want))


def measure(name: str, kind: str, points: int, device: str = "interpreter",
            options: Options = PLAIN) -> tuple[float, tuple[float, ...]]:
    """The greatest error in ulp, and where."""
    exact, draw = {**FUNCTIONS, **OPERATIONS}[name]
    e = TYPES[kind]
    top = {F16: 10.0, BF16: 88.0, F32: 88.0, F64: 709.0}[e]
    found = draw(np.random.default_rng(1), points, top)
    columns = [rounded(kind, c) for c in (found if isinstance(found, tuple) else (found,))]
    columns = [np.where(np.isfinite(c), c, 1.0) for c in columns]
    if name in ("fmod", "remainder"):
        columns[1] = np.where(columns[1] == 0, 1, columns[1])
    if name in ("log10", "lgamma", "acosh"):
        columns[0] = np.where(columns[0] <= (1 if name == "acosh" else 0), 1.5, columns[0])
    if name in ("log1p", "atanh", "erfinv"):
        columns[0] = np.where(np.abs(columns[0]) >= 1, np.where(columns[0] >= 1, columns[0] if
                              name == "log1p" else 0.5, 0.5), columns[0])
    if name == "pow":
        columns[0] = np.where(columns[0] == 0, 1, columns[0])
    if name in ("log", "log2", "sqrt", "rsqrt"):
        columns[0] = np.where(columns[0] == 0, 1, columns[0])
    if name == "exp2" and e in (BF16, F32) and not options.precise_math:
        columns[0] = np.maximum(columns[0], -126)  # below that it may be 0
    results = evaluate(f"{name}({', '.join('xyz'[: len(columns)])})", kind, columns, device,
                       options)
    worst, where = 0.0, tuple(float(c[0]) for c in columns)
    for at, got in enumerate(results):
        arguments = [float(c[at]) for c in columns]
        off = error(e, exact(*map(mp.mpf, arguments)), float(got))
        if off > worst:
            worst, where = off, tuple(arguments)
    return worst, where


def row(name: str, points: int, device: str, options: Options) -> tuple[str, Sequence[Any]]:
    """What is measured of a function, for each type."""
    return name, [measure(name, kind, points, device, options) for kind in TYPES]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--device", choices=("interpreter", "cuda"), default="interpreter")
    parser.add_argument("--precise", action="store_true", help="with -fprecise-math")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    names = given.names or [*(OPERATIONS if given.device == "cuda" else ()), *FUNCTIONS]
    options = Options(precise_math=given.precise)
    with ProcessPoolExecutor(given.jobs) as pool:
        rows = pool.map(row, names, *([value] * len(names) for value in (
            given.points, given.device, options)))
        for name, found in rows:
            if given.table:
                print(f"| `{name}` | " + " | ".join(f"{w:.2f}" for w, _ in found) + " |",
                      flush=True)
            else:
                print(name, *(f"{kind} {w:.3f} at {at}" for kind, (w, at) in zip(TYPES, found)),
                      sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
