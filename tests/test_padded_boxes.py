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
        2 * 64 * 192}  # and those of the left operand's rows, as many as there are


@pytest.mark.parametrize("stem, rows, columns, brought, parts", [
    ("matmul_f16", 128, 160, {((64, 128), 1): 64 * 128, ((64, 64), 3): 64 * 192}, 5),
    ("linear_bf16", 128, 144, {((64, 128), 1): 64 * 128, ((64, 144), 1): 64 * 144}, 9),
    ("matmul_f16", 176, 128, {((64, 176), 1): 64 * 176, ((64, 64), 1): 64 * 128}, 11),
    ("linear_bf16", 224, 128, {((64, 224), 1): 64 * 224, ((64, 128), 1): 64 * 128}, 7)])
def test_stages_without_padding(stem: str, rows: int, columns: int, brought: dict[
        tuple[tuple[int, int], int], int], parts: int) -> None:
    """Boxes end with what is no padding, or with the next whole line of it, and so do stages; parts
    of the result are whole ones."""
    values = (*SIZES[:3], ("TM", str(rows)), ("TN", str(columns)), ("TK", "64"))
    (result,) = simulate(Setting(SUITE / f"{stem}.tc", values), "sm_90a")
    assert result.module is not None
    (kernel,) = result.module.kernels
    assert boxes(kernel, "tma_load") == {*brought}
    assert sum(op.name == "tma_store" for op in kernel.ops()) == parts
    padded = {2 * n for (box, panels), n in brought.items() if n != 64 * 128}
    assert {op.attributes["pitch"] for op in kernel.ops()
            if op.name == "alloc_shared" and "pitch" in op.attributes} == padded


def test_what_no_box_has() -> None:
    """The padding of K must be zero."""
    (result,) = simulate(Setting(SUITE / "matmul_f16.tc", (
        *SIZES, ("TN", "128"), ("TK", "48"))), "sm_90a")
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

    assert masked != text and copied(text) == {((64, 128), 1), ((64, 64), 1)}
    assert copied(masked) == {((64, 128), 1)}


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
