"""bench/ways: each way to write a product, attention or a row computes what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tritonc import driver
from tritonc.launch.run_problems import run_problems
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

BENCH = Path(__file__).parent.parent / "bench"
sys.path.append(str(BENCH))  # the scripts there import one another by name

from ways import GROUPS, Way, as_float, goal_of, listing, tasks  # noqa: E402

ALL = listing(GROUPS)
SHORT = [way for way in ALL if not way.plain and way.variant != "d128"]


def test_there_are_as_many_as_the_goals_ask_for() -> None:
    count = {group: len({w.name for w in ALL if w.group == group and not w.plain})
             for group in GROUPS}
    assert count["products"] >= 36 and count["fp32"] >= 12 and count["attention"] >= 13


@pytest.mark.parametrize("way", SHORT, ids=lambda way: f"{way.group}-{way.label}")
def test_interpreted(way: Way, thorough: bool) -> None:
    """With small tiles, so that several programs and iterations meet the edges; every other one."""
    if SHORT.index(way) % 2 and not thorough:
        pytest.skip("needs --thorough")
    tune = {name: 32 for name in ("TM", "TN", "TK") if f"tunable int {name} " in way.text}
    if way.group == "memory":
        tune = {}  # its lists have no common value
    source = SourceFile(f"{way.name}.tc", way.text)
    options = Options(opt_level=0, tune=tune, defines=way.defines)
    for outcome in run_problems(source, options, "tc", Diagnostics()):
        assert outcome.ok, outcome.line()
        assert not outcome.diagnostics


@pytest.mark.parametrize("way", SHORT, ids=lambda way: f"{way.group}-{way.label}")
def test_says_what_it_is(way: Way) -> None:
    """A description, no promise to the compiler, and sizes to measure at."""
    first = way.text.split("\n")[0]
    assert first.startswith("// ") and first.endswith((".", ","))
    for promise in ("align", "multiple_of", "assume", "restrict"):
        assert promise not in way.text.split("kernel void", 1)[1]
    assert "//! bench:" in way.text and ("//! flops:" in way.text or "//! bytes:" in way.text)


def test_what_is_measured() -> None:
    """Every way follows the plain kernel of its group and size."""
    from ways import Built

    built = [Built(way) for way in ALL]
    seen, plain = set(), None
    for one, size, task in tasks(built, {4096, 2048}, 1):
        plain = task["plain"]["key"] if one.way.plain else plain
        assert task["plain"]["key"] == plain
        seen.add((one.way.group, one.way.label, size))
    assert len({row for row in seen if row[0] == "products" and row[2] == 4096}) == len(
        [way for way in ALL if way.group == "products"])
    assert {row[2] for row in seen if row[0] == "fp32"} == {4096}
    assert {row[2] for row in seen if row[0] == "attention"} == {2048}
    assert len({row for row in seen if row[0] == "memory"}) == len(
        [way for way in ALL if way.group == "memory"])


def test_substitution_of_types() -> None:
    text = as_float("//! tolerance: 5e-3\nconst bfloat16* a;\n")
    assert text == "//! tolerance: 2e-5\nconst float* a;\n"


def test_goals() -> None:
    assert goal_of("// A way.\n// goal: 0.97, float 0.95\n") == (0.97, None, 0.95)
    assert goal_of("// goal: 1.0 of blockwise\n") == (1.0, "blockwise", None)
    with pytest.raises(ValueError, match="missing"):
        goal_of("// A way.\n")


@pytest.mark.parametrize("name", ["triton_tutorial", "wrapped_rows"])
def test_rows_that_wrap_have_the_plain_product_s_tile(name: str) -> None:
    """A remainder vanishes where the tile is full, and is no reason for small tiles."""
    (way,) = [way for way in ALL if way.name == name and way.group == "products"][:1]
    result = driver.compile(SourceFile(f"{name}.tc", way.text), Options(
        arch="sm_90a", defines=way.defines), ("manifest",))
    assert result.tunables["TM"] == 128 and result.tunables["TN"] == 256
