"""Tiles that are read behind a product's loop, on simulated tensor cores: the producer warp brings
them while the loop ends."""

from __future__ import annotations

import pytest
from programs import ROOT, Setting, simulate

WAYS = ROOT / "bench" / "ways" / "products"
TILE = (("M", "392"), ("N", "264"), ("K", "136"), ("TM", "128"), ("TN", "128"), ("TK", "64"))


@pytest.mark.parametrize("name, size", [("residual", 2), ("alpha_beta", 4)])
def test_what_an_epilogue_reads_comes_by_tma(name: str, size: int) -> None:
    (result,) = simulate(Setting(WAYS / f"{name}.tc", TILE), "sm_90a")
    assert result.module is not None
    (kernel,) = result.module.kernels
    (beside,) = [op for op in kernel.ops() if op.attributes.get("behind")]
    ring = [op for op in kernel.ops() if op.name in ("wait_empty", "tensor_copy", "arrive_empty")
            and any(v.op is not None and v.op.operands[:1] == [beside.result]
                    for v in op.operands)]
    assert [op.name for op in ring] == ["wait_empty", "tensor_copy", "arrive_empty"]
    assert beside.result.type.bytes == 128 * 128 * size
