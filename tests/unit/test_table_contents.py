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
    whole = tables._Filler.loop
    monkeypatch.setattr(tables._Filler, "loop",
                        lambda self, *rest: (runs.append(1), whole(self, *rest))[1])
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


def test_plain_ints_are_as_all_constants_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def contents() -> list[object]:
        module = driver.compile(SourceFile("t.tc", ARITHMETIC), Options(), ("tir",)).module
        assert module is not None
        return [table.data for table in module.constants]

    quick = contents()
    for name in ("integer", "condition", "binary"):
        monkeypatch.setattr(f"tritonc.sema.quick.Quick.{name}", lambda *rest: None)
    assert quick == contents() and quick[0] != quick[1]


def test_a_division_by_zero_is_still_said() -> None:
    source = "__constant__ int* x = alloc_const int[4];\nfor (int i = 0; i < 4; i++)\n" \
        "  x[i] = 12 / i;\nkernel void f(int* a) { *a = *x; }\n"
    with pytest.raises(CompileError, match="constant"):
        driver.compile(SourceFile("t.tc", source), Options(), ("tir",))
