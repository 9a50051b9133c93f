"""Constant tables are filled once for a compilation, not once for each combination of tunables."""

from __future__ import annotations

import pytest

from tritonc import driver
from tritonc.options import Options
from tritonc.sema import tables
from tritonc.source import SourceFile

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
