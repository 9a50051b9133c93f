"""Spaces of tunables too large to compare: compiled in a moment, with a warning."""

from __future__ import annotations

from time import process_time
from unittest.mock import Mock, patch

import pytest

from tritonc import driver, sema
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


@pytest.mark.parametrize("unused", [False, True])
def test_what_was_compared_is_not_analysed_again(unused: bool) -> None:
    """Warnings of the program come all the same."""
    source = declared(["T0", "T1"], [1, 2])
    if unused:
        source = SourceFile("many.tc", source.text.replace("int r[64]", "int u = 1; int r[64]"))
    with patch.object(sema, "analyze", Mock(wraps=sema.analyze)) as asked:
        result = driver.compile(source, Options(warnings=("all",)), ("tir",))
    assert all(call.kwargs == {"tables": False} for call in asked.mock_calls)
    assert [item.name for item in result.diagnostics] == ["unused-variable"] * unused
