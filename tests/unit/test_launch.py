"""Problems prepared, run in the interpreter and compared, on kernels given as Triton-IR."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonc.ir.core import Module
from tritonc.ir.syntax.parse import parse_module
from tritonc.launch.compare import _PORTION, _norms, differences
from tritonc.launch.data import Data, prepare
from tritonc.launch.interpreter import launch
from tritonc.launch.run_problems import run_problems
from tritonc.options import Options
from tritonc.problem.lines import Problem, parse
from tritonc.source import CompileError, Diagnostics, SourceFile, Span

SAXPY = """
kernel @saxpy(f32* %x, f32* %y, f32 %a, i32 %n) {tile = [8]} {
entry:
  %r = get_global_range {axis = 0, extent = 8} : i32<8>
  %nt = splat %n : i32<8>
  %in = icmp %r, %nt {predicate = slt} : i1<8>
  %xs = splat %x : f32*<8>
  %px = addptr %xs, %r : f32*<8>
  %ys = splat %y : f32*<8>
  %py = addptr %ys, %r : f32*<8>
  @%in %u = load %px : f32<8>
  @%in %v = load %py : f32<8>
  %as = splat %a : f32<8>
  %p = fmul %as, %u : f32<8>
  %s = fadd %p, %v : f32<8>
  @%in store %py, %s
  ret
}
"""
# One instance writes -1 to every element of an unsigned tile.
FILL = """
kernel @fill(i16* %y {ctype = "unsigned short *"}) {tile = [4]} {
entry:
  %r = get_global_range {axis = 0, extent = 4} : i32<4>
  %ys = splat %y : i16*<4>
  %py = addptr %ys, %r : i16*<4>
  %m = constant {value = -1} : i16<4>
  store %py, %m
  ret
}
"""
LINES = """\
size: N = 10
range: N
arg: x = randn(N)
arg: y = randn(N)
arg: a = 2.5
arg: N = N
expect: y = a * x + y
"""


def problem_of(lines: str) -> Problem:
    file = SourceFile("p.tc", lines)
    at, spans = 0, []
    for line in lines.splitlines():
        spans.append((line, Span(file, at, at + len(line))))
        at += len(line) + 1
    diagnostics = Diagnostics()
    (problem,) = parse(spans, diagnostics)
    diagnostics.raise_if_errors()
    return problem


def module_of(text: str) -> Module:
    return parse_module(SourceFile("k.tir", text), Diagnostics())


def ready(lines: str, text: str = SAXPY, seed: int = 0, **sizes: int) -> tuple[Module, Data]:
    module = module_of(text.replace("%n", "%N"))
    return module, prepare(problem_of(lines), module, module.kernels[0], sizes, seed)


def result(lines: str, text: str = SAXPY, **sizes: int) -> list[str]:
    module, data = ready(lines, text, **sizes)
    return differences(data, launch(module, data))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 31])
def test_right_at_every_size(size: int) -> None:
    assert result(LINES, N=size) == []
    module, data = ready(LINES, N=size)
    assert data.grid == (-(-size // 8),) and len(launch(module, data)["y"]) == size


def test_wrong_expectation_names_elements() -> None:
    lines = LINES.replace("a * x + y", "np.where(np.arange(N) == 3, 7, a * x + y)")
    (message,) = result(lines)
    assert "1 of 10 elements" in message and "y[3] is " in message and "should be 7" in message
    assert "tolerance 1e-05" in message
    assert result(lines + "tolerance: 10.0\n") == []


def test_infinities_and_nans_must_agree() -> None:
    assert result(LINES.replace("x = randn(N)", "x = np.full(N, np.nan)")) == []
    assert result(LINES.replace("x = randn(N)", "x = np.full(N, np.inf)")) == []
    (message,) = result(LINES.replace("a * x + y", "np.where(x > 0, np.nan, a * x + y)"))
    assert "infinite or NaN on one side" in message


def test_large_arrays_are_compared_in_portions() -> None:
    """As a whole is: with what is not finite, and what is wrong, in any of them."""
    count = 3 * _PORTION + 5
    rng = np.random.default_rng(1)
    want = rng.standard_normal(count)
    want[rng.integers(0, count, 9)] = np.nan
    want[_PORTION : 2 * _PORTION] = np.inf
    got = (want * (1 + 1e-4 * rng.standard_normal(count))).astype(np.float32)
    finite = np.isfinite(want)
    norm = np.linalg.norm(want[finite])
    whole = np.linalg.norm(got[finite] - want[finite]) / norm
    assert _norms(got, want) == pytest.approx((whole, norm), rel=1e-12)
    assert _norms(got[:0], want[:0]) == (0, 0) and _norms(got, np.zeros(count)) is None
    assert _norms(np.ones(3), np.zeros(3)) == (np.inf, 0)
    assert _norms(np.full(2, 3e200), np.full(2, 4e200)) == pytest.approx((0.25, 4e200 * 2**0.5))
    for place in (7, count - 1):
        other = got.copy()
        other[place] = np.inf
        assert _norms(other, want) is None


@pytest.mark.filterwarnings("error")
def test_what_is_wrong_beyond_measure_is_only_told() -> None:
    text = """kernel @f(f64* %y) {
entry:
  %x = constant {value = 1e200} : f64
  store %y, %x
  ret
}
"""
    (message,) = result("range: 1\narg: y = zeros(1)\nexpect: y = [0]\n", text)
    assert "||want|| = inf" in message


def test_unexpected_changes_are_found_unless_excused() -> None:
    lines = LINES.replace("expect: y = a * x + y", "expect: x = x")
    (message,) = result(lines)
    assert message.startswith("'y' is not expected to change, but 10 elements did: y[0] was ")
    assert result(lines + "clobber: y\n") == []


def test_integers_wrap_to_the_type_and_are_exact() -> None:
    lines = "range: 4\narg: y = [70000, -1, 1, 2]\nexpect: y = 65535 + 0 * y\n"
    assert result(lines, FILL) == []
    _, data = ready(lines, FILL)
    assert data.arguments[0].view().tolist() == [4464, 65535, 1, 2]
    (message,) = result(lines.replace("65535 +", "65534 +"), FILL)
    assert "y[0] is 65535, should be 65534" in message


def test_data_are_rounded_before_expressions_see_them() -> None:
    _, data = ready(LINES.replace("a = 2.5", "a = 1 / 3"))
    assert data.names["a"] == float(np.float32(1 / 3))
    _, data = ready(LINES.replace("randn(N)", "randn(N) : half", 1))
    assert data.arguments[0].held.dtype == np.float16


def test_lets_arguments_and_defines_see_each_other() -> None:
    lines = LINES.replace("arg: x = randn(N)", "arg: x = z + K") + (
        "let: z = ones(N) * y.mean()\ndefine: K = 3\ndefine: CODE = return\n")
    assert result(lines) == []


def test_seeds_change_the_data() -> None:
    first, again, other = (ready(LINES, seed=s)[1].arguments[0].held for s in (0, 0, 1))
    assert (first == again).all() and (first != other).any()


@pytest.mark.parametrize("old, new, text", [
    ("arg: a = 2.5\n", "", "has the parameters x, y, a, N, but"),
    ("arg: x", "arg: q", "has the parameters"),
    ("arg: a = 2.5", "arg: a = ones(2)", "scalar parameter"),
    ("arg: a = 2.5", "arg: a = 'a'", "real numbers"),
    ("arg: N = N", "arg: N = N + 1", "two values"),
    ("size: N = 10\n", "size: M = 10\nlet: N = 2.5\n", "two values"),
    ("size: N = 10\nrange: N\n", "size: N = 10\nrange: 10\ntolerance: [1]\n", "a tolerance is"),
    ("arg: x = randn(N)", "arg: x = y + y2", "'y2' is not defined"),
    ("arg: x = randn(N)", "arg: x = s\nlet: s = x", "defined by itself: x -> s -> x"),
    ("size: N = 10\n", "", "N -> N; `size: N = ...` states a size"),
    ("arg: x = randn(N)", "arg: x = randn(N) : int24", "not an element type"),
    ("arg: a = 2.5", "arg: a = 2.5 : half", "cannot change"),
    ("range: N", "range: N - 100", "negative"),
    ("range: N", "range: 2.5", "must be an integer"),
    ("range: N", "range: N / 2", "'//' divides integers"),
    ("expect: y = a * x + y", "expect: a = 1", "no kernel can change"),
    ("expect: y = a * x + y", "expect: y = ones(3)", "the shape (10,)"),
    ("expect: y = a * x + y", "expect: y = 'text'", "real numbers"),
    ("range: N", "range: N\ntolerance: -1", "a tolerance is"),
    ("range: N", "range: N\nsymbol: t = 1", "no constant table 't'"),
])  # fmt: skip
def test_what_does_not_fit_is_located(old: str, new: str, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        result(LINES.replace(old, new))
    item = caught.value.diagnostics[0]
    assert text in item.message and item.span is not None


def test_unknown_size() -> None:
    with pytest.raises(CompileError, match="no size 'M'"):
        ready(LINES, M=3)


def test_out_of_bounds_is_found_and_padding_excuses_reads() -> None:
    unguarded = SAXPY.replace("  @%in %u = load", "  %u = load")
    with pytest.raises(CompileError, match="buffer 'x' has 40 bytes"):
        result(LINES, unguarded)
    assert result(LINES + "pad: x = 24\n", unguarded) == []


def test_constant_tables() -> None:
    text = """
constant @t : f32[4]
kernel @f(f32* %y) {tile = [4]} {
entry:
  %r = get_global_range {axis = 0, extent = 4} : i32<4>
  %t = constant_table {symbol = "t"} : f32 constant*
  %ts = splat %t : f32 constant*<4>
  %pt = addptr %ts, %r : f32 constant*<4>
  %v = load %pt : f32<4>
  %ys = splat %y : f32*<4>
  %py = addptr %ys, %r : f32*<4>
  store %py, %v
  ret
}
"""
    lines = "range: 4\narg: y = zeros(4)\nsymbol: t = [1, 2, 3]\nexpect: y = [1, 2, 3, 0]\n"
    assert result(lines, text) == []
    with pytest.raises(CompileError, match="has 4 elements, found 5"):
        result(lines.replace("[1, 2, 3]", "[1, 2, 3, 4, 5]"), text)




def test_macros_of_the_command_line_reach_expressions() -> None:
    source = SourceFile("m.tc", """
//! define: STEP = 2
//! range: 1
//! arg: x = full(STEP, 1)
//! expect: x = full(STEP, STEP)
kernel void f(int* x) { for (int i = 0; i < STEP; i++) *(x + i) = STEP; }
""")
    for defines in ((), ("STEP=3",), ("STEP",)):
        (outcome,) = run_problems(source, Options(defines=defines), "tc", Diagnostics())
        assert outcome.ok, outcome.line()


@pytest.mark.parametrize(("extent", "message"), [
    ("10**30", "a launch has at most 2147483647 there"),
    ("10**9", "the interpreter would run 1000000000 programs")])
def test_ranges_beyond_any_launch(extent: str, message: str) -> None:
    """Nothing is made of that size on the way to the message."""
    source = SourceFile("k.tc", f"//! range: {extent}\n//! arg: x = zeros(1)\n//! expect: x = x\n"
                        "kernel void k(float* x) {}\n")
    with pytest.raises(CompileError, match=message):
        list(run_problems(source, Options(warnings=("no-all",)), "tc", Diagnostics()))


PYTHON = """//! python: reference.py
//! range: 8
//! arg: y = zeros(8)
//! expect: y = twice(np.arange(8)) + LATER
kernel void f(int* y) { int r[8] = get_global_range(0); y[r] = 2 * r; }
"""


def test_a_reference_in_python_runs_only_where_it_may(tmp_path: Path) -> None:
    def outcomes(text: str, allowed: bool) -> list[Any]:
        source = SourceFile(str(tmp_path / "a.tc"), text)
        return list(run_problems(source, Options(), "tc", Diagnostics(), allow_python=allowed))

    text, file = PYTHON.replace(" + LATER", ""), tmp_path / "reference.py"
    for what, allowed in (("--allow-python", False), ("there is no file", True)):
        with pytest.raises(CompileError, match=what):
            outcomes(text, allowed)
    file.write_text("import numpy as np\ndef twice(x):\n    return np.add(x, x)\n")
    (outcome,) = outcomes(text, True)
    assert outcome.ok
    with pytest.raises(CompileError, match="'LATER' is not defined here"):
        outcomes(PYTHON, True)
    file.write_text("raise ValueError('no')")
    with pytest.raises(CompileError, match="fails: ValueError: no"):
        outcomes(text, True)
    for name in ("../a.py", "a.txt", "a b.py"):
        with pytest.raises(CompileError, match="file beside the source"):
            outcomes(text.replace("reference.py", name), True)
