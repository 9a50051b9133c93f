"""Constant tables are filled once for a compilation, not once for each combination of tunables."""

from __future__ import annotations

import pytest

from tritonc import driver
from tritonc.options import Options
from tritonc.sema import tables
from tritonc.source import CompileError, SourceFile

SOURCE = """
const tunable int T = {16, 32, 64};
__constant__ int* squares = alloc_const int[8];
for (int i = 0; i < 8; i++)
  squares[i] = i * i;
kernel void f(int* y) {
  int r[T] = get_global_range(0);
  EXTRA
  *(y + r) = *(squares + r % 8);
}
"""


@pytest.mark.parametrize("extra, most", [("", 1), ("int q[squares[4]] = 0 ... squares[4];", 9)])
def test_the_cost_model_does_without_contents(monkeypatch: pytest.MonkeyPatch, extra: str,
                                              most: int) -> None:
    """But where a tile's extent is read of a table."""
    runs = []
    whole = tables._Run.run
    monkeypatch.setattr(tables._Run, "run", lambda self: (runs.append(1), whole(self))[1])
    source = SourceFile("t.tc", SOURCE.replace("EXTRA", extra))
    result = driver.compile(source, Options(), ("tir",))
    assert "table" in result.outputs["tir"] and 1 <= len(runs) <= most


ARITHMETIC = """
const int WIDE = 7;
const tunable int T = {32};
__constant__ int* x = alloc_const int[64];
__constant__ long long* y = alloc_const long long[8];
for (int i = 0; i < 64; i++)
  x[i] = (i - 31) / WIDE * 100 + (i - 31) % WIDE - T * (i >= 32 ? 1 : -1);
for (int i = 8; i < 64; i += 3)
  x[i] = x[i - 8] - -x[i] * 3;
for (int i = 0; i != 8; ++i) {
  unsigned u = i - 3;
  y[i] = u / 2 + x[i] * 1000000000;
}
kernel void f(int* a) { *a = *x; }
"""


def contents(text: str) -> list[object]:
    module = driver.compile(SourceFile("t.tc", text), Options(), ("tir",)).module
    assert module is not None
    return [table.data for table in module.constants]


def test_arithmetic_is_that_of_c() -> None:
    quotients = [int((i - 31) / 7) for i in range(64)]
    x = [q * 100 + (i - 31 - q * 7) - 32 * (1 if i >= 32 else -1)
         for i, q in enumerate(quotients)]
    for i in range(8, 64, 3):
        x[i] = x[i - 8] + x[i] * 3
    words = [(((i - 3) % 2**32) // 2 + x[i] * 1000000000) % 2**32 for i in range(8)]
    assert contents(ARITHMETIC) == [x, words]


def test_what_fills_a_table_may_be_any_statements_of_scalars() -> None:
    text = """__constant__ float* t = alloc_const float[6];
      float half_of(int n) { if (n % 2) return n * 0.5f; return n / 2; }
      for (int i = 0; ; i++) {
        if (i == 6) break;
        __constant__ float* p = t + i;
        *p = half_of(i) + (i > 3 && t[i - 1] > 0 ? sqrt(4.0f) : 0);
      }
      static_assert(t[5] == 4.5f);
      kernel void f(float* a) { *a = *t; }"""
    assert contents(text) == [[0, 0.5, 1, 1.5, 4, 4.5]]
    with pytest.raises(CompileError, match="static assertion failed: five"):
        contents(text.replace("== 4.5f", '== 4, "five"'))


@pytest.mark.parametrize("body, found", [
    ("*?(i < 2) (t + i) = i + 5;", [5, 6, 0]),
    ("int v; if (i > 1) v = 4; t[i] = v;", "has no value yet"),
    ("(i ? t : t + 1)[0] = 1;", "must be a constant expression"),
    ("t[i] = get_program_id(0);", "must be a constant expression"),
    ("t[i] = *(int*)0;", "only elements of constant tables"),
    ("int v[2] = i; t[i] = any(v > 0);", "compute with scalars"),
    ("{ int v = 3 / (i - 1); t[i] = v; }", "must be a constant expression"),
    ("t[i - 1] = 1;", "index -1 is outside of table 't'")])
def test_what_cannot_be_executed_is_said(body: str, found: list[int] | str) -> None:
    text = ("__constant__ int* t = alloc_const int[3];\nfor (int i = 0; i < 3; i++) { BODY }\n"
            "kernel void f(int* a) { *a = *t; }").replace("BODY", body)
    if isinstance(found, list):
        assert contents(text) == [found]
        return
    with pytest.raises(CompileError, match=found):
        contents(text)


def test_a_division_by_zero_is_still_said() -> None:
    source = "__constant__ int* x = alloc_const int[4];\nfor (int i = 0; i < 4; i++)\n" \
        "  x[i] = 12 / i;\nkernel void f(int* a) { *a = *x; }\n"
    with pytest.raises(CompileError, match="constant"):
        driver.compile(SourceFile("t.tc", source), Options(), ("tir",))
