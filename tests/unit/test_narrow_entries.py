"""Products whose operand is converted: the entries of a plain launch, and their bodies at edges."""

from __future__ import annotations

from pathlib import Path

import pytest
from planned_entries import planned_entries

from tritonc import driver
from tritonc.options import Options
from tritonc.source import SourceFile
from tritonc.variants import choice

INT4 = Path(__file__).parents[2] / "samples" / "int4_linear.tc"


def compiled(**options: object) -> driver.Compilation:
    source = SourceFile(INT4.name, INT4.read_text(encoding="utf-8"))
    return driver.compile(source, Options(arch="sm_90a", **options), ("manifest",))


@pytest.fixture(scope="module")
def kernel() -> dict:
    source = SourceFile(INT4.name, INT4.read_text(encoding="utf-8"))
    first, *others = planned_entries(source)
    return {**first, "variants": others}


@pytest.mark.parametrize("m, n, k, rows", [
    (1, 11008, 4096, 16), (8, 5120, 5120, 16), (16, 6152, 10368, 16),  # 46.2, 28.7 us before
    (300, 4096, 4096, 160),  # by clusters: 30.5, 25 us before
    (40, 6144, 6272, 64), (300, 13824, 3072, 160), (4096, 4096, 4096, 256)])
def test_rows_of_what_a_launch_takes(kernel: dict, m: int, n: int, k: int, rows: int) -> None:
    entries = [kernel, *kernel["variants"]]
    arguments = {i: {"M": m, "N": n, "K": k}.get(p["name"], 0)
                 for i, p in enumerate(kernel["parameters"])}
    taken = choice.choose(kernel["choice"], [entry["tile"] for entry in entries],
                          [True] * len(entries), (m, n), arguments)
    assert entries[taken]["tile"][0] == rows


def test_columns_beside_the_fewest_rows_need_not_fill_a_tile() -> None:
    """Blocks of the general body take three times as long as all others: 6 x 9960 x 3072 by 16 x 32
    34 us, 12 where columns divide."""
    found = compiled(tune={"TM": 16, "TN": 32, "TK": 128})
    fast = [remark.message for remark in found.remarks if "fast path" in remark.message]
    assert fast and not any("full" in message for message in fast)
