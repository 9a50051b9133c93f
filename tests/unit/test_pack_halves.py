"""Random arithmetic of small integers: in pairs or not, the same numbers come out."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from programs import ROOT, Setting
from simulator.machine import handlers
from test_emit_sources import execute
from test_emit_sources import launch as launch_threads

from tritonc import driver
from tritonc.backend.layout.halves import Candidates
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.launch.data import prepare
from tritonc.launch.interpreter import launch
from tritonc.launch.run_problems import kernel_of, read_problems
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

RANGES = {"unsigned char": (0, 256), "signed char": (-128, 128), "short": (-32768, 32768),
          "unsigned short": (0, 65536)}
FORMS = (
    "({a} + {b})", "({a} - {b})", "({a} * {factor})", "min({a}, {b})", "max({a}, {b})",
    "({a} >> {shift})", "({a} {bits} {b})", "({a} & 255)", "({a} {relation} {b} ? {b} : {a})",
    "({a} {relation} {n} ? {n} : {a})", "({a} < {b} && {b} {relation} n ? 255 : {b})", "abs({a})",
    "({type})min(max({a}, -128), 127)", "clamp({a}, -20, 1000)",
)


def expression(r: random.Random, depth: int, leaves: list[str]) -> str:
    if not depth:
        return r.choice(leaves)
    return r.choice(FORMS).format(
        a=expression(r, depth - 1, leaves), b=expression(r, depth - 1, leaves),
        factor=r.choice((2, 3, -1, -4)), shift=r.randrange(1, 9), bits=r.choice("&|^"),
        relation=r.choice(("<", "<=", ">", ">=", "==", "!=")), n=r.choice(("n", "17", "0")),
        type=r.choice(("unsigned char", "signed char", "short")))


def source(seed: int) -> SourceFile:
    r = random.Random(seed)
    types = {"a": "unsigned char", "b": "unsigned char", "c": "signed char",
             "d": r.choice([*RANGES])}
    leaves = [*"aabbcd", str(r.randrange(-300, 300)), "n"]
    lines = [*(f"//! arg: p{name} = randint({RANGES[t][0]}, {RANGES[t][1]}, N)"
               for name, t in types.items()),
             "//! arg: y = zeros(N)", f"//! arg: n = {r.randrange(-400, 400)}",
             "kernel void k(" + ", ".join(f"const {t}* p{name} __aligned(16)"
                                          for name, t in types.items())
             + f", {r.choice([*RANGES, 'int'])}* y __aligned(16), int n) {{",
             "  int i[256] = get_global_range(0);",
             *(f"  {r.choice(['int', t])} {name}[256] = p{name}[i];" for name, t in types.items()),
             f"  {r.choice(['int', 'short'])} v[256] = {expression(r, 3, leaves)};",
             f"  y[i] = {expression(r, 2, ['v', 'v', *leaves])};", "}", ""]
    head = "//! size: N = 512\n//! range: N\n//! expect: y = y\n"
    return SourceFile("k.tc", head + "\n".join(lines))


@pytest.mark.parametrize("seed", range(8))
def test_pairs_are_as_elements(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text, options = source(seed), Options(arch="sm_80" if seed % 4 == 3 else "sm_90a")
    problem = next(iter(read_problems(text, options, "tc", Diagnostics())))

    def compiled(gain: int) -> tuple[Any, Any]:
        monkeypatch.setattr(Candidates, "gain", lambda self, group: gain)
        result = driver.compile(text, options, ("ll",))
        assert result.module is not None
        data = prepare(problem, result.module, kernel_of(problem, result.module), {})
        return result, data

    plain, data = compiled(0)
    want = launch(plain.module, data, ALL_OPS, handlers())["y"]
    packed, data = compiled(9)
    assert np.array_equal(launch(packed.module, data, ALL_OPS, handlers())["y"], want)
    assert np.array_equal(launch_threads(packed.outputs["ll"], data)[1]["y"], want)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["byte_pairs", "equal_bytes", "angles_of_heads"])
def test_programs_on_threads(name: str, target: str) -> None:
    execute(Setting(ROOT / "tests" / "run" / f"{name}.tc"), target)


@pytest.mark.parametrize("kind, value, small", [
    ("unsigned char", "{}", True), ("signed char", "{}", True),
    ("unsigned char", "{} * 8 + 7", True), ("unsigned char", "{} * 8 + 8", False)])
def test_exchanges_by_sums(kind: str, value: str, small: bool) -> None:
    """Numbers below 2048 are sorted by sums of f16 as by minima and maxima; none is flushed."""
    low, high = RANGES[kind]
    lines = [f"//! size: N = 512\n//! range: N\n//! expect: y = y\n//! arg: p = randint({low}, "
             f"{high}, 4 * N)\n//! arg: y = zeros(4 * N)", f"kernel void k(const {kind}* p "
             "__aligned(16), short* y __aligned(16)) {", "  int i[256] = get_global_range(0);",
             *(f"  int v{k}[256] = {value.format(f'p[i + {512 * k}]')};" for k in range(4))]
    for a, b in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):
        lines += [f"  int t{a}{b}[256] = min(v{a}, v{b});", f"  v{b} = max(v{a}, v{b});",
                  f"  v{a} = t{a}{b};"]
    lines += [*(f"  y[i + {512 * k}] = v{k};" for k in range(4)), "}", ""]
    text, options = SourceFile("k.tc", "\n".join(lines)), Options(arch="sm_90a")
    problem = next(iter(read_problems(text, options, "tc", Diagnostics())))
    result = driver.compile(text, options, ("ll",))
    assert result.module is not None
    assert ("fma.rn.relu" in result.outputs["ll"]) == small
    flushed = driver.compile(text, replace(options, denormal="flush"), ("ptx",)).outputs["ptx"]
    assert not small or ("fma.rn.relu.f16x2" in flushed and ".ftz" not in flushed)
    data = prepare(problem, result.module, kernel_of(problem, result.module), {})
    found = launch_threads(result.outputs["ll"], data)[1]["y"]
    p = next(a for a in data.arguments if a.name == "p").held.astype(int).reshape(4, 512)
    p = np.where(p < low, p + 256, p)
    assert np.array_equal(found.reshape(4, 512), np.sort(eval(value.format("p")), axis=0))


def test_a_sum_beside_an_exchange_of_its_terms() -> None:
    """The minimum has its maximum for other, not the sum."""
    text = SourceFile("k.tc", """//! range: 512
kernel void k(const unsigned char* restrict p, unsigned char* restrict y) {
  int r[512] = get_global_range(0);
  unsigned char a[512] = p[r], b[512] = p[r + 512], c[512] = p[r + 1024];
  y[r] = (a + b + c) / 4;
  y[r + 512] = min(a, b) - max(a, b) + c;
}
""")
    driver.compile(text, Options(arch="sm_90a", verify_each=True), ("ll",))
