"""The simulated machine runs reductions and scans by functions as the interpreter does."""

from __future__ import annotations

import pytest
from programs import ROOT, Setting
from test_emit_sources import execute

RUN = ROOT / "tests" / "run"


@pytest.mark.parametrize("rows", [4, 1])
def test_rows(rows: int) -> None:
    """Of 48 elements: the padding must not count."""
    execute(Setting(RUN / "combined.tc", (("TM", str(rows)),)), "sm_80")


@pytest.mark.parametrize("count", [1000, 512])
def test_warps_combine_what_they_hold(count: int) -> None:
    execute(Setting(RUN / "combined_line.tc", (("N", str(count)),)), "sm_80")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_selection(target: str) -> None:
    execute(Setting(RUN / "language" / "builtins_selection.tc"), target)


def test_memory_order() -> None:
    execute(Setting(RUN / "language" / "memory_order.tc"), "sm_80")
