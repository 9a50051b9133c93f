"""Pointers that a launch reads or writes for certain, and those of which that is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tritonc import driver
from tritonc.analysis.first_accesses import first_accesses
from tritonc.interp.interpreter import InterpreterError, Memory
from tritonc.launch import interpreter
from tritonc.launch.data import prepare
from tritonc.launch.run_problems import kernel_of, read_problems, with_defines
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

ROOT = Path(__file__).parent.parent.parent


def accesses(body: str, parameters: str = "float* x, float* y, int n, int m") -> str:
    """`x: n>=1 m>=1; y:`, of the parameters in their order."""
    text = f"kernel void f({parameters}) {{\n  int r[16] = get_global_range(0);\n{body}\n}}\n"
    found = driver.compile(SourceFile("f.tc", text), Options(stop_after=driver.LOWER), ("tir",))
    assert found.module is not None
    (kernel,) = found.module.kernels
    names = [value.name for value in kernel.parameters]
    return "; ".join(f"{names[place]}:" + "".join(
        f" {names[other]}>={least}" for other, least in sorted(facts))
        for place, facts in sorted(first_accesses(kernel).items()))


@pytest.mark.parametrize("body, expected", [
    ("*(x + r) = 1;", "x:"),
    ("@(r < n) *(x + r) = *(y + r);", "x: n>=1; y: n>=1"),
    ("@(n > r && r + 5 < m) *(x + r * n) = 1;", "x: n>=1 m>=6"),
    ("@(r <= n) *(x + r) = 1;", "x: n>=0"),
    ("@(r < n) *(x + r / 8 + r % 8) = *y;", "x: n>=1; y: n>=1"),  # y, where any is left
    ("*(x + r / n) = 1;", ""),  # by 0?
    ("*(x + r + 1) = 1;", ""),  # null and one more is what another asks
    ("*(x + r + n) = 1;", ""),
    ("@(r < n && *(y + r) > 0) *(x + r) = 1;", "y: n>=1"),
    ("@(r < n) *(x + r) = y != 0 ? *(y + r) : 0;", "x: n>=1"),
    ("if (y != 0) { *(y + r) = 2; } *(x + r) = 1;", "x:"),
    ("if (n > 3) { *(y + r) = 2; } *(x + r) = 1;", "x:; y: n>=4"),
    ("if (n > 3) return; *(x + r) = 1;", ""),
    # loops: the first iteration, and what comes after
    ("float s[16] = 0; for (int k = n; k > 0; k -= 1) s += *(y + r); *(x + r) = s;",
     "x:; y: n>=1"),
    ("int k = 0; while (k < n) k += 4; *(x + r + k) = 1;", ""),
    ("for (int k = 0; k < n; k += 1) { if (k > 2) { *(x + r) = 1; } *(y + r) = 1; }", "y: n>=1"),
    ("for (int k = 0; k < n; k += 1) for (int j = 0; j < m; j += 1) *(y + r * k + j) = 1;",
     "y: n>=1 m>=1"),
    ("for (int k = 0; k < n; k += 1) { if (k == 2) break; *(y + r) = 1; }", ""),
    ("for (int k = 0; k < n; k += 1) { for (int j = 0; j < m; j += 1) *(y + r) = 1; "
     "*(x + r) = 1; }", "x: n>=1; y: n>=1 m>=1"),
])  # fmt: skip
def test_accesses(body: str, expected: str) -> None:
    assert accesses(body) == expected


def test_types() -> None:
    """Unsigned numbers are compared as such; what a long's low half is, is not asked."""
    wide = "float* x, float* y, unsigned char n, long m, bool b"
    assert accesses("@(r < n) *(x + r) = 1; @(r < (int)m) *(y + r) = 1;", wide) == "x: n>=1"
    assert accesses("@(r < m) *(x + r) = 1; @(b) *(y + r) = 1;", wide) == "x: m>=1"


def programs() -> list[Path]:
    """Samples and tests, each with its problems."""
    return sorted([*ROOT.glob("samples/*.tc"), *ROOT.glob("tests/run/*.tc")])


@pytest.mark.parametrize("number", range(8))
def test_null_would_have_been_an_error(number: int, thorough: bool,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each pointer that a launch refuses to be null: the interpreter cannot run it either."""
    class Nothing(Memory):
        def allocate(self, array: Any, name: str, *more: Any, **most: Any) -> int:
            return 0 if name == null else super().allocate(array, name, *more, **most)

    monkeypatch.setattr(interpreter, "Memory", Nothing)
    tried = 0
    for path in programs()[number :: 8 if thorough else 40]:
        source = SourceFile(str(path), path.read_text())
        for problem in read_problems(source, Options(), "tc", Diagnostics()):
            options = with_defines(problem, Options(stop_after=driver.LOWER))
            module = driver.compile(source, options, ("tir",)).module
            assert module is not None
            kernel = kernel_of(problem, module)
            data = prepare(problem, module, kernel, {})
            if 0 in data.grid:
                continue
            for place, facts in first_accesses(kernel).items():
                if all(int(data.arguments[i].held) >= least for i, least in facts):
                    null = kernel.parameters[place].name
                    tried += 1
                    with pytest.raises(InterpreterError):
                        interpreter.launch(module, data)
    assert tried
