"""Products on CUDA cores use shared memory without conflicts, and wait once for each step.

Counted on the last form of the samples, by the model of banks in `backend/layout/access.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tritonc import driver
from tritonc.backend.layout.access import bank_conflicts, shared_accesses
from tritonc.backend.layout.dot_layouts import fma_operand, thickened
from tritonc.backend.shared.shared_memory import allocation
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.syntax.parse import parse_module
from tritonc.ir.types import Buffer, Tile, shape
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

SAMPLES = Path(__file__).parents[2] / "samples"
LAYOUTS = {"nn": "matmul", "nt": "matmul_nt", "tn": "matmul_tn", "tt": "matmul_tt"}


def last_form(name: str, arch: str, **tune: int) -> Kernel:
    source = SourceFile(f"{name}.tc", (SAMPLES / f"{name}.tc").read_text(encoding="utf-8"))
    options = Options(arch=arch, tune=tune, stop_after="insert_barriers")
    text = driver.compile(source, options, ("tir",)).outputs["tir"]
    diagnostics = Diagnostics()
    module = parse_module(SourceFile("last.tir", text), diagnostics, ALL_OPS)
    diagnostics.raise_if_errors()
    (kernel,) = module.kernels
    return kernel


def conflicts(layout: Layout, buffer: Buffer) -> int:
    assert buffer.layout is not None
    return bank_conflicts(layout, buffer.layout, 8 * buffer.element.bytes)


def products_reads(kernel: Kernel) -> Iterator[tuple[Op, Value, Layout]]:
    """The buffers that products read, or slices for them, and the layouts in which they do."""
    for op in kernel.ops():
        t = op.results[0].type if op.results else None
        if op.name == "load_slice":
            assert isinstance(t, Tile) and t.layout is not None
            axis, (buffer,) = op.attributes["axis"], op.operands
            yield op, buffer, thickened(t.layout, axis, shape(buffer.type)[axis])
        elif op.name == "fma_dot":
            assert isinstance(t, Tile) and t.layout is not None
            depth = shape(op.operands[0].type)[-1]
            for value, left in zip(op.operands, (True, False), strict=False):
                if isinstance(value.type, Buffer):
                    yield op, value, fma_operand(t.layout, depth, left)


def operand_traffic(kernel: Kernel) -> list[tuple[str, int]]:
    """Each access of a buffer that a product reads, and of those by which an operand goes there:
    the operation, and how often it repeats."""
    found = []
    operands: set[Op] = set()
    for op, value, layout in products_reads(kernel):
        operands.add(allocation(value)[0])
        assert isinstance(value.type, Buffer)
        found.append((op.name, conflicts(layout, value.type)))
    operands |= {op for op in kernel.ops() if op.attributes.get("private")}
    for op in kernel.ops():
        if op.name in ("shared_store", "shared_load", "async_copy") and allocation(
                op.operands[0])[0] in operands:
            source = (op.results or op.operands[1:])[0].type
            buffer = op.operands[0].type
            assert isinstance(source, Tile) and source.layout is not None
            assert isinstance(buffer, Buffer)
            found.append((op.name, conflicts(source.layout, buffer)))
    return found


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("tile", [(), (32, 32, 64), (128, 128, 16)], ids=str)
@pytest.mark.parametrize("name", LAYOUTS.values(), ids=LAYOUTS)
def test_operands_of_products_meet_no_bank_conflicts(name: str, tile: tuple[int, ...],
                                                     arch: str, thorough: bool) -> None:
    """In the body for aligned operands; the other copies single elements."""
    if (tile == (32, 32, 64)) == (arch == "sm_90a") and not thorough:
        pytest.skip("needs --thorough")
    kernel = last_form(name, arch, **dict(zip(("TM", "TN", "TK"), tile, strict=False)))
    kernel.blocks = [block for block in kernel.blocks if ".fast" in block.name or block.name in (
        "entry", "dispatch")]
    traffic = operand_traffic(kernel)
    assert {what for what, _ in traffic} & {"fma_dot", "load_slice"}
    assert [entry for entry in traffic if entry[1] != 1] == []


@pytest.mark.parametrize("name", LAYOUTS.values(), ids=LAYOUTS)
def test_operands_in_registers_keep_their_parity(name: str) -> None:
    """What a thread reads of an operand's word lies in registers of one parity for each k."""
    kernel = last_form(name, "sm_90a")
    kernel.blocks = [block for block in kernel.blocks if ".fast" in block.name]
    for _, value, layout in products_reads(kernel):
        assert isinstance(value.type, Buffer) and value.type.layout is not None
        moves = shared_accesses(layout, value.type.layout, 32)
        assert moves.vector == 4
        assert all((r - i) % 2 == 0 for access in moves.accesses
                   for i, r in enumerate(access.registers))


@pytest.mark.parametrize("name", LAYOUTS.values(), ids=LAYOUTS)
def test_a_step_of_k_has_one_barrier(name: str) -> None:
    kernel = last_form(name, "sm_90a")
    loops = [[op.name for block in loop.blocks for op in block.ops] for loop in Cfg(kernel).loops]
    assert [names.count("barrier") for names in loops if "fma_dot" in names] == [1, 1]


def test_neighbouring_products_load_what_they_share_once() -> None:
    text = """kernel void f(const float* a, float* c, int n) {
      int i[64] = 0 ... 64, k[16] = 0 ... 16;
      float x[64, 64] = 0, y[64, 64] = 0;
      for (int o = 0; o < n; o += 16) {
        float s[64, 16] = a[i[:, newaxis] * n + o + k];
        float t[16, 64] = a[(o + k)[:, newaxis] * 64 + i];
        float u[16, 64] = a[(o + k)[:, newaxis] * 64 + i + 4096];
        float r[64, 16] = a[i[:, newaxis] * n + o + k + 8192];
        x += s @ t;
        y += OPERAND @ u;
      }
      c[i[:, newaxis] * 64 + i] = x * y;
    }"""

    def loads(operand: str) -> int:
        source = SourceFile("f.tc", text.replace("OPERAND", operand))
        lines = driver.compile(source, Options(arch="sm_80"), ("ll",)).outputs["ll"].splitlines()
        return sum(" = load " in line and "addrspace(3)" in line for line in lines)

    assert loads("s") < 0.9 * loads("r")
