"""Tiles that are read behind a product's loop, on simulated tensor cores: the producer warp brings
them, part by part, while the loop ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from programs import ROOT, Setting, check, compiled, simulate

from tritonc.driver import compile as compile_
from tritonc.options import Options
from tritonc.source import SourceFile

SIZES = (("M", "392"), ("N", "520"), ("K", "136"), ("TM", "128"), ("TK", "64"))


@pytest.mark.parametrize("path, columns, parts", [
    ("ways/products/residual", 128, 2), ("ways/products/residual", 256, 4),
    ("ways/products/residual", 192, 3), ("ways/products/residual", 160, 5),
    ("unseen/gemm_axpby", 128, 4)])
def test_what_an_epilogue_reads_comes_by_tma(path: str, columns: int, parts: int) -> None:
    setting = Setting(ROOT / "bench" / f"{path}.tc", (*SIZES, ("TN", str(columns))))
    (result,) = simulate(setting, "sm_90a")
    assert result.module is not None
    (kernel,) = result.module.kernels
    beside = {op.result for op in kernel.ops() if op.attributes.get("behind")}
    copies = [op.name for op in kernel.ops() if op.name in ("wait_empty", "tma_load") and any(
        v.op is not None and v.op.operands and v.op.operands[0] in beside for v in op.operands)]
    assert len(beside) == 2 and copies == ["wait_empty", "tma_load"] * parts


@pytest.mark.parametrize("restrict", [False, True])
def test_what_may_be_overwritten_is_read_before(restrict: bool) -> None:
    """Of a residual that may lie where the result goes, all parts; else each in its turn."""
    path = ROOT / "bench/ways/products/residual.tc"
    text = path.read_text(encoding="utf-8")
    if restrict:
        text = text.replace("bfloat16* c,", "bfloat16* restrict c,")
    values = {"TM": 128, "TN": 256, "TK": 64}
    result = compile_(SourceFile("p.tc", text), Options(arch="sm_90a", tune=values), ("manifest",))
    assert result.module is not None and ("restrict" in text) == restrict
    (block,) = [block for block in result.module.kernels[0].blocks if any(
        op.name == "tma_store" for op in block.ops)]
    names = [op.name for op in block.ops if op.name in ("wait_full", "tma_store")]
    assert names == ["wait_full", "tma_store"] * 4 if restrict else (
        ["wait_full"] * 4 + ["tma_store"] * 4)


@pytest.mark.parametrize("name", ["producer", "continued"])
def test_without_a_pipeline_threads_load_it(name: str) -> None:
    setting = Setting(ROOT / "bench/ways/products/residual.tc", (*SIZES, ("TN", "128")))
    (result, data), = compiled(setting, "sm_90a", make=lambda source, options, kinds: compile_(
        source, replace(options, tune={**options.tune, name: 0}), kinds))
    assert result.module is not None
    assert not any(op.attributes.get("behind") for op in result.module.kernels[0].ops())
    check(result, data)
