"""Tiles of extents that are no powers of two: TMA brings and stores boxes of what they have."""

from __future__ import annotations

import pytest
from programs import ROOT, Setting, simulate

from tritonc.driver import compile as compile_
from tritonc.ir.core import Kernel
from tritonc.options import Options
from tritonc.source import SourceFile

SIZES = (("M", "264"), ("N", "328"), ("K", "136"), ("TM", "128"))
SUITE = ROOT / "bench" / "suite"


def boxes(kernel: Kernel, name: str) -> set[tuple[tuple[int, int], int]]:
    return {(tuple(op.attributes["box"]), op.attributes["panels"])
            for op in kernel.ops() if op.name == name}


@pytest.mark.parametrize("stem, brought", [
    ("matmul_f16", ((64, 64), 3)), ("linear_bf16", ((64, 192), 1))])
def test_boxes_without_padding(stem: str, brought: tuple[tuple[int, int], int]) -> None:
    """The right operand's 192 columns; of the result, three parts of 64."""
    (result,) = simulate(Setting(SUITE / f"{stem}.tc", (*SIZES, ("TN", "192"), ("TK", "64"))),
                         "sm_90a")
    assert result.module is not None
    (kernel,) = result.module.kernels
    assert boxes(kernel, "tma_load") == {((64, 128), 1), brought}
    assert sum(op.name == "tma_store" for op in kernel.ops()) == 3
    assert {op.attributes["bytes"] for op in kernel.ops() if op.name == "expect_full"} == {
        2 * 64 * (128 + 192)}


@pytest.mark.parametrize("columns, depth", [(144, 64), (128, 48)])
def test_what_no_box_has(columns: int, depth: int) -> None:
    """144 columns are no whole rows of 128 bytes; the padding of K must be zero."""
    (result,) = simulate(Setting(SUITE / "matmul_f16.tc", (
        *SIZES, ("TN", str(columns)), ("TK", str(depth)))), "sm_90a")
    assert result.module is not None
    (kernel,) = result.module.kernels
    assert ((64, 64), 3) not in boxes(kernel, "tma_load")


def test_what_a_product_reads_is_zero() -> None:
    """A program's own mask leaves out columns, which are zero then."""
    text = (SUITE / "matmul_f16.tc").read_text(encoding="utf-8")
    masked = text.replace("rn < N ? *(b", "rn < N && 0 ... TN < 192 ? *(b")
    values = {"TM": 128, "TN": 256, "TK": 64}

    def copied(text: str) -> set[tuple[tuple[int, int], int]]:
        result = compile_(SourceFile("p.tc", text), Options(arch="sm_90a", tune=values),
                          ("manifest",))
        assert result.module is not None
        return boxes(result.module.kernels[0], "tma_load")

    assert masked != text and copied(text) == {((64, 128), 1), ((64, 64), 4)}
    assert not {panels for _, panels in copied(masked)} & {3, 4}


def test_heads_side_by_side() -> None:
    """80 columns of each head are an axis of their own, so that one map serves all heads."""
    heads = ROOT / "bench" / "unseen" / "vit_attention.tc"
    sizes = (("S", "150"), ("H", "3"), ("BQ", "128"), ("BK", "128"))
    (result,) = simulate(Setting(heads, sizes), "sm_90a")
    assert result.module is not None
    (kernel,) = result.module.kernels
    stores = [op for op in kernel.ops() if op.name == "tma_store"]
    assert kernel.attributes["producer_warps"] and stores
    assert all(len(op.operands) == 2 + 4 for op in stores)  # columns, rows, heads, batches
