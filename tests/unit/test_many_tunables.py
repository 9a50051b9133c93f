"""Spaces of tunables too large to compare: compiled in a moment, with a warning."""

from __future__ import annotations

from time import process_time

import pytest

from tritonc import driver
from tritonc.options import Options
from tritonc.source import SourceFile

BODY = """kernel void f(float* x, int n) {
  int r[64] = get_global_range(0);
  @(r < n) *(x + r) = SUM;
}
"""


def declared(names: list[str], values: list[int]) -> SourceFile:
    lists = ", ".join(map(str, values))
    text = "".join(f"const tunable int {name} = {{{lists}}};\n" for name in names)
    return SourceFile("many.tc", text + BODY.replace("SUM", " + ".join(names)))


@pytest.mark.parametrize(("count", "values"), [
    (12, [1, 2, 4, 8]), (1, [*range(1, 20001)]), (500, [1, 2, 4, 8])])
def test_many_combinations_take_a_moment(count: int, values: list[int]) -> None:
    started = process_time()
    result = driver.compile(declared([f"T{i}" for i in range(count)], values), Options(), ("tir",))
    assert process_time() - started < 20  # a moment on a busy machine; for ever before
    assert [item.name for item in result.diagnostics] == ["many-tunables"]


def test_few_combinations_are_compared() -> None:
    result = driver.compile(declared(["T0", "T1"], [1, 2]), Options(), ("tir",))
    assert not result.diagnostics
