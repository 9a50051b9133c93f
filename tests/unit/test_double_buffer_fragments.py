"""double_buffer_fragments: the first operands of an iteration are read in the one before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonc import driver
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Op
from tritonc.ir.syntax.parse import parse_module
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

SAMPLES = Path(__file__).parents[2] / "samples"
ACCUMULATES = "C += dot(A, trans(B));"


def last_form(text: str) -> Kernel:
    options = Options(arch="sm_90a", stop_after="insert_barriers")
    text = driver.compile(SourceFile("x.tc", text), options, ("tir",)).outputs["tir"]
    diagnostics = Diagnostics()
    module = parse_module(SourceFile("last.tir", text), diagnostics, ALL_OPS)
    diagnostics.raise_if_errors()
    (kernel,) = module.kernels
    return kernel


def loops(kernel: Kernel) -> dict[bool, list[Op]]:
    """The operations of the loop in the body for aligned addresses, and of the other."""
    return {".fast" in loop.header.name: [op for block in loop.blocks for op in block.ops]
            for loop in Cfg(kernel).loops}


def test_threads_multiply_while_they_wait() -> None:
    found = loops(last_form((SAMPLES / "matmul_nt.tc").read_text()))
    names = [op.name for op in found[True]]
    dots = [i for i, name in enumerate(names) if name == "fma_dot"]
    (barrier,) = (i for i, name in enumerate(names) if name == "barrier")
    assert len(dots) == 16 and dots[-2] < barrier < dots[-1]
    assert all(v.op is not None and v.op.name == "phi" for v in found[True][dots[0]].operands)
    assert "load_slice" in names[barrier : dots[-1]]
    stores = [i for i, name in enumerate(names) if name == "shared_store"]
    assert len(stores) == 6 and all(dots[7] < i < dots[-2] for i in stores)
    between = {sum(dot < i for dot in dots) for i in stores}
    assert len(between) == 6, "two stores beside one k"


def test_not_where_elements_are_copied_one_by_one() -> None:
    found = loops(last_form((SAMPLES / "matmul_nt.tc").read_text()))
    assert [op.name for op in found[False]].count("fma_dot") == 1


@pytest.mark.parametrize("other", ["C = C * 2 + dot(A, trans(B));", "C += exp(dot(A, trans(B)));"])
def test_not_where_more_than_a_sum_is_made_of_the_product(other: str) -> None:
    text = (SAMPLES / "matmul_nt.tc").read_text()
    assert ACCUMULATES in text
    kernel = last_form(text.replace(ACCUMULATES, other))
    assert all(op.name != "load_slice" for op in kernel.ops())
