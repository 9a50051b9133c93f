"""The greatest errors of the library's functions, measured in the interpreter against mpmath.

    python tests/accuracy.py                      every function, 2000 points each
    python tests/accuracy.py pow lgamma --points 20000
    python tests/accuracy.py --table              as rows of docs/language.md

What the interpreter computes is what every target computes: the library is arithmetic of Triton-IR,
rounded operation by operation.  (`tan` beyond 10000 calls the operations `sin` and `cos`, which a
target computes with a bound of its own.)  An error is counted in units in the last place (ulp) of
the type that the function is called in: 0.5 is a correctly rounded result.  Arguments are drawn
from what `RANGES` says, over all magnitudes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # so that the program runs where nothing is installed

from tritonc import driver  # noqa: E402
from tritonc.ir.numbers import largest, round_to  # noqa: E402
from tritonc.ir.types import BF16, F16, F32, F64, Scalar  # noqa: E402
from tritonc.launch.data import prepare  # noqa: E402
from tritonc.launch.interpreter import launch  # noqa: E402
from tritonc.launch.run_problems import read_problems  # noqa: E402
from tritonc.options import Options  # noqa: E402
from tritonc.source import Diagnostics, SourceFile  # noqa: E402

mp.mp.prec = 200
TYPES: dict[str, Scalar] = {"half": F16, "bfloat16": BF16, "float": F32, "double": F64}
TILE = 1024
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


def evaluate(expression: str, kind: str, columns: list[Any]) -> Any:
    """An expression of x (and y), by the interpreter; arrays of float64 that the type holds."""
    n = len(columns[0])
    names = "xyz"[: len(columns)]
    parameters = ", ".join(f"const {kind}* p{c}" for c in names)
    loads = "".join(f"  {kind} {c}[{TILE}] = r < N ? *(p{c} + r) : 1;\n" for c in names)
    arguments = "".join(f"//! arg: p{c} = np.zeros(N)\n" for c in names)
    text = (f"//! size: N = {n}\n//! range: N\n{arguments}//! arg: o = zeros(N)\n//! arg: N = N\n"
            f"//! expect: o = o\nkernel void f({parameters}, {kind}* o, int N) {{\n"
            f"  int r[{TILE}] = get_global_range(0);\n{loads}"
            f"  @(r < N) *(o + r) = {expression};\n}}")
    source, options = SourceFile("accuracy.tc", text), Options(stop_after=driver.LOWER)
    module = driver.compile(source, options, ("tir",)).module
    assert module is not None
    (problem,) = read_problems(source, options, "tc", Diagnostics())
    data = prepare(problem, module, module.kernels[0], {})
    for value, column in zip(data.arguments, columns):
        value.held[...] = column
    return launch(module, data)["o"].astype(np.float64)


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


def measure(name: str, kind: str, points: int) -> tuple[float, tuple[float, ...]]:
    """The greatest error in ulp, and where."""
    exact, draw = FUNCTIONS[name]
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
    results = evaluate(f"{name}({', '.join('xyz'[: len(columns)])})", kind, columns)
    worst, where = 0.0, tuple(float(c[0]) for c in columns)
    for at, got in enumerate(results):
        arguments = [float(c[at]) for c in columns]
        off = error(e, exact(*map(mp.mpf, arguments)), float(got))
        if off > worst:
            worst, where = off, tuple(arguments)
    return worst, where


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(FUNCTIONS))
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    for name in options.names or FUNCTIONS:
        found = {kind: measure(name, kind, options.points) for kind in TYPES}
        if options.table:
            print(f"| `{name}` | " + " | ".join(f"{w:.2f}" for w, _ in found.values()) + " |")
        else:
            print(name, *(f"{kind} {w:.3f} at {at}" for kind, (w, at) in found.items()),
                  sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
