"""Tiles that are read behind a product's loop, on simulated tensor cores: the producer warp brings
them, part by part, while the loop ends."""

from __future__ import annotations

import pytest
from programs import ROOT, Setting, simulate

SIZES = (("M", "392"), ("N", "520"), ("K", "136"), ("TM", "128"), ("TK", "64"))


@pytest.mark.parametrize("path, columns, parts", [
    ("ways/products/residual", 128, 2), ("ways/products/residual", 256, 4),
    ("unseen/gemm_axpby", 128, 4)])
def test_what_an_epilogue_reads_comes_by_tma(path: str, columns: int, parts: int) -> None:
    setting = Setting(ROOT / "bench" / f"{path}.tc", (*SIZES, ("TN", str(columns))))
    (result,) = simulate(setting, "sm_90a")
    assert result.module is not None
    (kernel,) = result.module.kernels
    beside = {op.result for op in kernel.ops() if op.attributes.get("behind")}
    ring = [op.name for op in kernel.ops() if op.name in ("wait_empty", "tensor_copy") and any(
        v.op is not None and v.op.operands and v.op.operands[0] in beside for v in op.operands)]
    assert len(beside) == 2 and ring == ["wait_empty", "tensor_copy"] * parts
