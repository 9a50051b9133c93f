"""Products on CUDA cores with other micro- and nano-tiles than the rule's compute the same."""

from __future__ import annotations

import pytest
from programs import ROOT, simulated

from tritonc import driver
from tritonc.backend.layout.dot_layouts import DEFAULT, Nesting, fma_layout, nestings
from tritonc.launch.run_problems import read_problems
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune.search.space import search_space

PRODUCT = ROOT / "tests" / "run" / "column_major_matmul.tc"
SOURCE = SourceFile(PRODUCT.name, PRODUCT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("nesting", [Nesting((8, 8), (1, 2)), Nesting((32, 8), (2, 4)),
                                     Nesting((8, 16), (4, 1)), Nesting((32, 16), (4, 4))])
def test_the_result_is_the_same(nesting: Nesting) -> None:
    given = {"micro_rows": nesting.micro[0], "micro_columns": nesting.micro[1],
             "nano_rows": nesting.nano[0], "nano_columns": nesting.nano[1]}
    options = Options(arch="sm_90a", tune={"TM": 32, "TN": 32, "TK": 8, "num_warps": 2, **given},
                      verify_each=True)
    result = driver.compile(SOURCE, options, ("manifest", "ptx"))
    problem, = read_problems(SOURCE, options, "tc", Diagnostics())
    simulated(result, problem, K=9)
    plain = driver.compile(SOURCE, Options(arch="sm_90a", tune={
        "TM": 32, "TN": 32, "TK": 8, "num_warps": 2}), ("ptx",))
    assert result.outputs["ptx"] != plain.outputs["ptx"]


def test_a_micro_tile_is_a_warp_and_a_nano_tile_a_thread() -> None:
    for nesting in nestings():
        layout = fma_layout((64, 64), 1, nesting)
        rows = {b // 64 for b in layout.lane} - {0}
        columns = {b % 64 for b in layout.lane} - {0}
        assert 2 * max([nesting.nano[0] // 2, *rows]) == nesting.micro[0]
        assert 2 * max([nesting.nano[1] // 2, *columns]) == nesting.micro[1]


def test_what_does_not_nest_is_said() -> None:
    result = driver.compile(SOURCE, Options(arch="sm_90a", tune={
        "micro_rows": 8, "micro_columns": 8, "nano_rows": 4}), ("ptx",))
    assert any("do not fit the 32 threads" in r.message for r in result.remarks if r.missed)


def test_the_space_of_the_paper() -> None:
    """Every tile with every nesting that fits it, the rule's own unbound."""
    space = search_space(SOURCE, Options(arch="sm_90a"), "matmul_nt", nesting=True)
    assert set(space.parameters) == {"TM", "TN", "TK", "micro_rows", "micro_columns", "nano_rows",
                                     "nano_columns"}
    large = [c for c in space.candidates if c["TM"] == c["TN"] == 64]
    assert len(large) == len(nestings()) and sum("micro_rows" not in c for c in large) == 1
    usual = search_space(SOURCE, Options(arch="sm_90a"), "matmul_nt")
    assert not {"micro_rows", "nano_rows"} & set(usual.parameters)
    assert DEFAULT in nestings()
