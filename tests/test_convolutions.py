"""Convolutions as implicit products: all ways of writing one have the same loop."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import PTXAS, ROOT, Setting, compiled, ptxas, simulate, simulated

from tritonc import driver
from tritonc.ir.cfg import Cfg
from tritonc.ir.types import I32
from tritonc.launch.run_problems import read_problems
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

PATH = ROOT / "tests" / "run" / "convolution_ways.tc"
WAYS = range(8)


def way(number: int, **more: int) -> Setting:
    values = {"WAY": number, **more}
    return Setting(PATH, tuple((name, str(value)) for name, value in values.items()))


@pytest.mark.parametrize("number", WAYS)
def test_simulated(number: int, thorough: bool) -> None:
    simulate(way(number, C=64), "sm_90a")
    if number % 2 == 0 or thorough:
        simulate(way(number, C=24, TM=64, TN=64, TC=32), "sm_80")


@pytest.mark.parametrize("number", WAYS)
def test_one_loop_copies_rows_beside_boxes(number: int, tmp_path: Path, thorough: bool) -> None:
    """In the bodies for aligned operands: rows by cp.async, filters by boxes (where their pointers
    do not move by hand), one loop of one block around them, whatever the source's loops are."""
    assembled = PTXAS is not None and (thorough or number % 3 == 1)
    (result, _), = compiled(way(number, TM=128, TN=256, TC=64), "sm_90a",
                            ("ptx" if assembled else "manifest",))
    assert result.module is not None
    kernel = result.module.kernels[0]
    fed = [block for block in kernel.blocks if any(op.name == "wgmma" for op in block.ops)
           and any(op.name == "async_copy" for op in block.ops)]
    assert len(fed) in (1, 2)  # a second one where results are not aligned
    for body in fed:
        names = [op.name for op in body.ops]
        assert "shared_store" not in names and ("tma_load" in names or number == 5)
        assert all(op.result.type == I32 for op in body.ops if op.name == "load")  # of a table
        loop = Cfg(kernel).innermost[body]
        products = [b for b in loop.blocks if any(op.name == "wgmma" for op in b.ops)]
        assert products == [body]
        assert len(loop.blocks) <= 4
    if assembled:
        assert "C75" not in ptxas(result.outputs["ptx"], "sm_90a", tmp_path)


@pytest.mark.parametrize("path, values", [
    ("samples/conv_nhwc.tc", {"B": 3, "H": 5, "W": 4, "C": 24, "K": 136, "S": 5, "PW": 2}),
    ("samples/conv_nhwc.tc", {"PH": 0, "PW": 0}),  # the body that is not for as many pixels
    ("bench/suite/conv_nhwc_flat.tc", {"C": 128, "K": 16, "R": 3, "S": 3, "PH": 1, "PW": 1}),
    ("bench/suite/conv_nhwc_flat.tc", {"C": 24, "K": 16, "R": 3, "S": 3, "PH": 1, "PW": 1}),
    ("tests/run/convolution_centred.tc", {"C": 64})])
def test_pixels_are_rows_of_a_matrix(path: str, values: dict[str, int]) -> None:
    """Where results are as many as pixels, TMA brings what a tap reads of all images."""
    tile = {"TM": 128, "TN": 128, "TK" if "flat" in path else "TC": 64}
    setting = Setting(ROOT / path, tuple((n, str(v)) for n, v in {**tile, **values}.items()))
    (result,) = simulate(setting, "sm_90a")
    assert [r for r in result.remarks if r.pass_name == "flatten_rows"]


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 6])
@pytest.mark.parametrize("cluster", [2, 3, 4])
def test_clusters_share_the_loop(number: int, cluster: int, thorough: bool) -> None:
    """Counters that go on by selects go on several times at once."""
    if cluster != 2 + number % 3 and not thorough:
        pytest.skip("needs --thorough")
    source = SourceFile(PATH.name, PATH.read_text(encoding="utf-8"))
    options = Options(arch="sm_90a", verify_each=True, defines=(f"WAY={number}",), tune={
        "TM": 64, "TN": 64, "TC": 32, "cluster_k": cluster})
    (problem,) = read_problems(source, options, "tc", Diagnostics())
    result = driver.compile(source, options, ("manifest",))
    assert result.module is not None
    assert any(op.name == "cluster_reduce" for op in result.module.kernels[0].ops())
    simulated(result, problem)


@pytest.mark.parametrize("path, tile, blocks", [
    ("bench/suite/conv_nhwc_flat.tc", {"TM": 64, "TN": 64, "TK": 32}, 3),
    ("bench/unseen/conv_nchw.tc", {"TF": 128, "TP": 64, "TK": 32}, 4),
    ("samples/conv_nhwc.tc", {"TM": 64, "TN": 32, "TC": 32}, 4)])
def test_more_blocks_only_where_their_registers_suffice(path: str, tile: dict[str, int],
                                                        blocks: int) -> None:
    """A pipeline asks for more than three where the estimate allows that."""
    source = SourceFile(path, (ROOT / path).read_text(encoding="utf-8"))
    result = driver.compile(source, Options(arch="sm_90a", tune=tile, defines=("T=half",),
                                            warnings=("no-all",)), ("ptx",))
    assert f".minnctapersm {blocks}" in result.outputs["ptx"]
