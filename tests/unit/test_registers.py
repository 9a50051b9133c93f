"""The register estimate, and what keeps kernels within their registers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from backend_programs import ALONE, data
from programs import Setting
from simulator.machine import handlers
from sketch import Program, Sketch
from test_backend_passes import lowered

from tritonc import driver
from tritonc.analysis.registers.pressure import Estimate, pressure
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.cfg import Cfg
from tritonc.ir.types import BF16, F32, Tile
from tritonc.launch.compare import differences
from tritonc.launch.data import prepare
from tritonc.launch.interpreter import launch
from tritonc.launch.run_problems import kernel_of, read_problems
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

PROGRAMS = Path(__file__).parents[1] / "run"


def weights(program: Program) -> dict[str, float]:
    """The registers of each named value once layouts are known."""
    kernel = lowered(program).kernel
    estimate = Estimate(kernel)
    return {v.name: estimate.weight(v) for op in kernel.ops() for v in op.results if v.name}


def test_elements_that_are_moved_as_words_share_registers() -> None:
    k = Sketch(warps=1)
    x, y = k.pointer("x", BF16, data(512), **ALONE), k.pointer("y", BF16, np.ones(512), **ALONE)
    r = k.arange(512)
    a = k.load(k.at(x, r))
    a.name = "a"
    wide = k.fpcast(a, type=Tile(F32, (512,)))
    b = k.fmul(wide, wide)
    b.name = "b"
    k.store(k.at(y, r), k.fpcast(b, type=Tile(BF16, (512,))))
    found = weights(k.done())
    assert (found["a"], found["b"]) == (8, 16)


def test_indices_that_differ_by_a_constant_share_a_register() -> None:
    k = Sketch(warps=1)
    x, y = k.pointer("x", F32, data(512)), k.pointer("y", F32, np.ones(512))
    r = k.add(k.arange(512), k.spread(k.integer("n", 0), (512,)))
    r.name = "r"
    k.store(k.at(y, r), k.load(k.at(x, r)))
    assert weights(k.done())["r"] == 1


def test_liveness_ends_with_the_last_use() -> None:
    k = Sketch(warps=1)
    x, y = k.pointer("x", F32, data(512)), k.pointer("y", F32, np.ones(512))
    r = k.arange(512)
    total = k.reduce(k.load(k.at(x, r)), kind="fadd", axes=(0,))
    k.store(k.at(y, r), k.fadd(k.load(k.at(x, r)), k.spread(total, (512,))))
    kernel = lowered(k.done()).kernel
    assert pressure(kernel).registers < 2 * 16
    assert not Estimate(kernel).live.at_end(Cfg(kernel).order[-1])


@pytest.mark.parametrize(("warps", "computed"), [(1, True), (8, False)])
def test_addresses_that_do_not_fit_are_computed_where_they_are_read(warps: int, computed: bool
                                                                     ) -> None:
    source = Setting(PROGRAMS / "many_addresses.tc").source
    options = Options(tune={"num_warps": warps}, verify_each=True)
    (problem,) = read_problems(source, options, "tc", Diagnostics())
    module = driver.compile(source, options, ("manifest",)).module
    assert module is not None
    (kernel,) = module.kernels
    loops = {block for loop in Cfg(kernel).loops for block in loop.blocks}
    assert any(op.name == "again" for block in loops for op in block.ops) is computed
    ready = prepare(problem, module, kernel_of(problem, module), {})
    assert not differences(ready, launch(module, ready, ALL_OPS, handlers()))


@pytest.mark.parametrize(("extent", "warned"), [(32, False), (256, True)])
def test_what_cannot_fit_is_warned_of(extent: int, warned: bool) -> None:
    text = """
kernel void f(const float* x, float* y, int n) {
  int rm[T] = 0 ... T, rn[128] = 0 ... 128;
  float a[T, 128] = 0, b[T, 128] = 0;
  for (int k = 0; k < n; k++) {
    float v[T, 128] = *(x + k + rm[:, newaxis] * 128 + rn);
    a += v;
    b = max(b, v);
  }
  *(y + rm[:, newaxis] * 128 + rn) = a * b;
}
"""
    result = driver.compile(SourceFile("f.tc", text), Options(
        defines=(f"T={extent}",), tune={"num_warps": 4}), ("ptx",))
    assert [item.name for item in result.diagnostics] == ["registers"] * warned
    if warned:
        (found,) = result.diagnostics
        assert "a f32<256, 128>: 256" in found.notes[0].message


def test_products_have_as_many_blocks_as_their_registers_allow() -> None:
    """An entry of 128 x 64, whose pipeline has room for four blocks, spilled 588 bytes by four."""
    path = Path(__file__).parents[2] / "bench" / "unseen" / "conv_fp8.tc"
    result = driver.compile(SourceFile(path.name, path.read_text(encoding="utf-8")),
                            Options(arch="sm_90a", small_clusters=True), ("ptx",))
    blocks = re.findall(r"entry (\w+)\([^{]*\.minnctapersm (\d)", result.outputs["ptx"])
    assert dict(blocks)["conv_fp8__v4"] == "3"
