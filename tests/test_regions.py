"""Products whose loop is not alone, on simulated tensor cores: one pipeline for a region."""

from __future__ import annotations

import pytest
from programs import ROOT, Setting, compiled, settings, simulate

from tritonc.backend.launch.persist import counts_programs, rare_programs
from tritonc.ir.cfg import Cfg
from tritonc.ir.types import Buffer

WAYS = ROOT / "bench" / "ways" / "products"
SMALL = (("M", "136"), ("N", "264"), ("K", "72"), ("TM", "128"), ("TN", "256"), ("TK", "64"))
CHOOSING = [Setting(WAYS / name, SMALL) for name in ("experts.tc", "grouped_order.tc")]
PLAIN = [setting for name in ("region_matmul.tc", "tiles_matmul.tc")
         for setting in settings(ROOT / "tests" / "run" / name)]


TWO_STEPS = Setting(WAYS / "two_steps.tc", SMALL)
TWO_PRODUCTS = Setting(ROOT / "bench" / "unseen" / "two_gradients.tc", SMALL)
BEHIND = Setting(ROOT / "tests" / "run" / "low_rank.tc", (
    ("M", "300"), ("N", "304"), ("K", "200"), ("TM", "128"), ("TN", "128")))


@pytest.mark.parametrize("setting", [*PLAIN, *CHOOSING, TWO_STEPS, TWO_PRODUCTS, BEHIND],
                         ids=lambda s: s.name)
def test_a_producer_warp_serves_any_region(setting: Setting) -> None:
    (result,) = simulate(setting, "sm_90a")
    assert result.module is not None and result.module.kernels[0].attributes["producer_warps"]


@pytest.mark.parametrize("name", ["two_sets", "global_tokens"])
def test_loops_behind_each_other_in_persistent_blocks(name: str) -> None:
    """One pipeline serves both loops, and one of two stages has the queries that both read."""
    path = ROOT / "bench" / "ways" / "attention" / f"{name}.tc"
    setting = Setting(path, (("D", "128"), ("TM", "128"), ("TN", "128")))
    (result, _), = compiled(setting, "sm_90a")
    assert result.module is not None
    kernel = result.module.kernels[0]
    (loop,) = (loop for loop in Cfg(kernel).loops if counts_programs(loop))
    assert kernel.attributes["producer_warps"]
    products = [op for op in loop.ops() if op.name == "wgmma"]
    queries = {op.operands[0] for op in products if isinstance(op.operands[0].type, Buffer)}
    (view,) = [value.op for value in queries]
    assert view is not None and view.name == "buffer_stage"
    assert isinstance(t := view.operands[0].type, Buffer) and t.stages == 2
    assert len(products) == 8  # a first and a last one of each loop stand outside of it


@pytest.mark.parametrize("setting", CHOOSING, ids=lambda s: s.name)
def test_warpgroups_do_not_wait_where_an_instance_chooses_a_body(setting: Setting) -> None:
    """What the instances before have stored is no reason, whichever body they took."""
    (result, _), = compiled(setting, "sm_90a")
    assert result.module is not None
    kernel = result.module.kernels[0]
    (loop,) = (loop for loop in Cfg(kernel).loops if counts_programs(loop))
    rare = rare_programs(kernel)
    names = [op.name for block in loop.blocks if block not in rare for op in block.ops]
    assert rare and "wgmma" in names and "barrier" not in names
