"""Matrix instructions, ldmatrix, wgmma and TMA loads: what the emitted code computes, and that
the assembler takes it as it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from machine_programs import launch, ptx
from matrix_programs import chained, matmul
from programs import PTXAS, ptxas
from simt_matrix import MatrixMachine, read_matrix
from sketch import Program, context
from test_backend_passes import lowered

from tritonc import driver, pass_manager, passes
from tritonc.backend import llvm
from tritonc.backend.emit.products.wgmma import shared_operand
from tritonc.backend.layout.matrix_access import MatrixAccesses, matrix_accesses
from tritonc.backend.layout.select_matrix_loads import select_matrix_loads
from tritonc.backend.pipeline.tma.specialize_warps import specialize_warps
from tritonc.backend.target import matrix
from tritonc.backend.target.target import find
from tritonc.interp.interpreter import InterpreterError
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Again
from tritonc.ir.core import Kernel
from tritonc.ir.layouts import f2, fragment
from tritonc.ir.layouts.layout import Layout, SharedLayout
from tritonc.ir.layouts.shared_layout import row_major, tensor_core
from tritonc.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, I16, I32, TF32, Buffer, Scalar
from tritonc.options import Options
from tritonc.source import CompileError, SourceFile

ORDERS = [(False, False), (False, True), (True, False), (True, True)]
K_FIRST = (False, True)  # both operands stored with k contiguous
BOX = "cp.async.bulk.tensor.g2s.tile.2d"


def run(program: Program, target: str, **meta: int) -> set[str]:
    """Run the program on the machine, compare, and give the matrix instructions that ran."""
    done = lowered(program, target=target, **meta)
    found, machine = launch(done, target, MatrixMachine)
    assert isinstance(machine, MatrixMachine)
    for name, want in program.expected.items():
        np.testing.assert_array_equal(found[name], np.asarray(want).reshape(found[name].shape))
    return machine.seen


def has(seen: set[str], *parts: str) -> bool:
    return any(all(part in name for part in parts) for name in seen)


# ---- what it computes ----------------------------------------------------------------------------

OPERANDS = [
    ("sm_75", F16), ("sm_75", I8), ("sm_80", F16), ("sm_80", BF16), ("sm_80", TF32), ("sm_80", I8),
    ("sm_80", F64), ("sm_89", F8E4M3), ("sm_89", F8E5M2), ("sm_90a", F16), ("sm_90a", BF16),
    ("sm_90a", TF32), ("sm_90a", I8), ("sm_90a", F8E4M3), ("sm_90a", F8E5M2),
]
NAMES = [f"{target}-{e}" for target, e in OPERANDS]


@pytest.mark.parametrize("target, e", OPERANDS, ids=NAMES)
def test_products(target: str, e: Scalar) -> None:
    """Part of a tile, and a last step that is not full."""
    seen = run(matmul(e, 40, 56, 72, (64, 64, 64 if e.bytes == 1 else 32)), target)
    if target == "sm_90a" and e.bytes == 2:
        assert has(seen, "wgmma.mma_async")


@pytest.mark.parametrize("target, e", OPERANDS, ids=NAMES)
def test_products_with_k_contiguous(target: str, e: Scalar) -> None:
    """A whole tile: copies and fragments as wide as they can be."""
    seen = run(matmul(e, 64, 64, 64, (64, 64, 64 if e.bytes == 1 else 32), *K_FIRST), target)
    assert has(seen, "ldmatrix" if target != "sm_90a" else "wgmma.mma_async") or e == F64


@pytest.mark.parametrize("target, e", [o for o in OPERANDS if o[1].is_float],
                         ids=[f"{target}-{e}" for target, e in OPERANDS if e.is_float])
def test_products_that_are_taken_away(target: str, e: Scalar) -> None:
    """The instruction changes the sign, or what is in registers before it."""
    run(matmul(e, 64, 64, 64, (64, 64, 64 if e.bytes == 1 else 32), *K_FIRST, minus=True), target)


@pytest.mark.parametrize("turned", [(True, False), (True, True)])
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_other_orders(target: str, turned: tuple[bool, bool]) -> None:
    assert has(run(matmul(F16, 64, 64, 64, (64, 64, 32), *turned), target),
               "wgmma" if target == "sm_90a" else "ldmatrix", "" if target == "sm_90a" else "trans")


SLICED = [  # of these tiles, the operands transposed so, and how many slices are to be expected
    ("sm_75", F16, (32, 32, 64), (False, True), {}, 4),
    ("sm_80", BF16, (16, 32, 64), (True, False), {"num_warps": 8, "slices": 4}, 4),
    ("sm_80", I8, (32, 32, 64), K_FIRST, {}, 2),
    ("sm_90a", BF16, (64, 16, 64), (False, False), {"wgmma": 0, "slices": 4}, 4),
]


@pytest.mark.parametrize("target, e, tile, turned, meta, slices", SLICED)
def test_warps_share_the_inner_axis(target: str, e: Scalar, tile: tuple[int, int, int],
                                    turned: tuple[bool, bool], meta: dict[str, int], slices: int,
                                    thorough: bool) -> None:
    """Each warp has all rows and columns or, with more warps than slices, some of them."""
    if e in (F16, I8) and not thorough:
        pytest.skip("needs --thorough")
    program = matmul(e, tile[0] + 8, tile[1], 152, tile, *turned)
    done = lowered(program, check=turned == (True, False), target=target, **meta)
    products = [op for op in done.kernel.ops() if op.name == "mma_dot"]
    assert {op.result.type.shape for op in products} == {(slices, *tile[:2])}
    assert all(op.attributes.get("late") for op in done.kernel.ops()
               if op.name == "shared_load" and op.result.type.element == e)
    assert has(run(program, target, **meta), "ldmatrix")


FLAT = [(BF16, (32, 64, 64), turned) for turned in ORDERS] + [
    (F16, (8, 128, 32), (False, False)), (TF32, (16, 64, 32), K_FIRST), (I8, (32, 64, 64), K_FIRST),
    (F8E4M3, (16, 64, 256), K_FIRST)]


@pytest.mark.parametrize("e, tile, turned", FLAT)
def test_columns_are_the_rows_of_wgmma(e: Scalar, tile: tuple[int, int, int],
                                       turned: tuple[bool, bool]) -> None:
    """Of products with fewer than 64 rows; part of a tile, and a last step that is not full."""
    program = matmul(e, tile[0] + 5, 56, 2 * tile[2] + 24, tile, *turned)
    assert has(run(program, "sm_90a"), "wgmma.mma_async")


def test_threads_that_copy_for_wgmma() -> None:
    """Their blocks do not stay, and they copy as far ahead as memory needs: 96 KiB, 16 at once."""
    program = matmul(BF16, 128, 64, 64, (64, 64, 64))
    done = lowered(program, target="sm_90a", tma_load=0)
    names = [op.name for op in done.kernel.ops()]
    assert "async_copy" in names and "get_num_multiprocessors" not in names
    assert max(v.type.stages for op in done.kernel.ops() for v in op.results
               if isinstance(v.type, Buffer)) == 8
    assert has(run(program, "sm_90a", tma_load=0), "wgmma.mma_async")


@pytest.mark.parametrize("turned", ORDERS)
def test_a_pipeline_of_tma_loads(turned: tuple[bool, bool]) -> None:
    """More iterations than stages, two instances, tiles that end outside, operands of panels."""
    seen = run(matmul(BF16, 128, 136, 328, (128, 128, 64), *turned), "sm_90a")
    assert has(seen, BOX) and has(seen, "wgmma", "bf16")


@pytest.mark.parametrize("depth", [0, 200])
def test_a_pipeline_that_goes_on_from_one_program_to_the_next(depth: int) -> None:
    """Six instances of three blocks, with fewer iterations than run ahead and more."""
    program = matmul(BF16, 72, 136, depth, (64, 64, 32), result=F16 if depth == 200 else None)
    done = lowered(program, target="sm_90a", producer=1)
    assert done.kernel.attributes["producer_warps"]
    seen = run(program, "sm_90a", producer=1)
    assert has(seen, BOX) == bool(depth) and has(seen, "s2g")


@pytest.mark.parametrize("meta", ["continued", "tma_store", "persistent"])
def test_without_what_the_parts_of_a_persistent_product_rely_on(meta: str) -> None:
    run(matmul(BF16, 72, 136, 72, (64, 64, 64)), "sm_90a", **{meta: 0})


def test_a_warp_of_its_own_makes_the_copies() -> None:
    """Instances follow each other; two warpgroups take registers and store for themselves."""
    program = matmul(BF16, 136, 72, 136, (128, 64, 64), result=F16)
    done = lowered(program, target="sm_90a", producer=1)
    np.testing.assert_array_equal(done.run()["c"], program.expected["c"])
    assert done.kernel.threads == 256 + 128
    (begin,) = [block for block in done.kernel.blocks if block.name == "begin"]
    warm = [op.name for op in begin.ops if op.name in ("async_copy", "tensor_map", "arrive_full")]
    assert warm == ["async_copy"] * 2 + ["tensor_map"] * 3 + ["arrive_full"]
    (body,) = [block for block in done.kernel.blocks if any(
        op.name == "wait_empty" for op in block.ops)]
    assert not any(op.name == "barrier" for op in body.ops)
    found, machine = launch(done, "sm_90a", MatrixMachine)
    np.testing.assert_array_equal(found["c"], program.expected["c"].reshape(found["c"].shape))
    assert isinstance(machine, MatrixMachine)
    assert has(machine.seen, BOX) and has(machine.seen, "mbarrier.arrive.scope", "cta")


TRIANGLE = """
kernel void product(const half* a, const half* b, half* c, int M, int N, int K) {
  int rm[128] = get_global_range(0);
  int rn[W] = get_global_range(1);
  int rk[64] = 0 ... 64;
  const half* pa[128, 64] = a + rm[:, newaxis] * K + rk;
  const half* pb[64, W] = b + rk[:, newaxis] * N + rn;
  float C[128, W] = 0;
  int end = END;
  for (int k = 0; k < end; k += 64) {
    bool inside_a[128, 64] = (rm < M)[:, newaxis] && (rk + k < K);
    bool inside_b[64, W] = (rk + k < K)[:, newaxis] && (rn < N);
    half A[128, 64] = inside_a ? *(pa + k) : 0;
    half B[64, W] = inside_b ? *(pb + k * N) : 0;
    C += dot(A, B);
  }
  half* pc[128, W] = c + rm[:, newaxis] * N + rn;
  @((rm < M)[:, newaxis] && (rn < N)) *pc = C;
}
"""


@pytest.mark.parametrize("end, warm", [("K", True), ("get_program_id(0) * 128", False)])
def test_a_warm_start_where_all_instances_have_a_first_iteration(end: str, warm: bool) -> None:
    """Or none has: zeros may come to the stage later than the copies of the next instance."""
    tune = {"producer": 1, "tma_load": 1, "tma_store": 1, "num_warps": 8}
    made = driver.compile(SourceFile("t.tc", TRIANGLE.replace("END", end)),
                          Options(arch="sm_90a", tune=tune, defines=("W=64",)), ("ptx",))
    text = made.outputs["ptx"]
    assert "setmaxnreg" in text and ("cp.async.cg" in text) == warm


@pytest.mark.parametrize("persistent", [0, 1])
def test_parts_of_two_results_have_a_buffer_each(persistent: int) -> None:
    """Threads wait once for all that the copy engine has read, and again before the maps go."""
    text = TRIANGLE.replace("END", "K").replace("half* c,", "half* restrict c, half* restrict d,")
    text = text.replace("64", "32").rstrip().removesuffix("}")
    second = "@((rm < M)[:, newaxis] && (rn < N)) *(d + rm[:, newaxis] * N + rn) = C * 2.0f;\n}"
    made = driver.compile(SourceFile("t.tc", text + second),
                          Options(arch="sm_90a", defines=("W=256",),
                                  tune={"persistent": persistent}), ("manifest",))
    assert made.module is not None
    names = [op.name for op in made.module.kernels[0].ops()]
    assert names.index("release_slot") > names.index("store_wait", names.index("tma_store"))
    sends = [op.operands[0] for op in made.module.kernels[0].ops() if op.name == "tma_store"]
    assert len(set(sends)) == len(sends) == 8


@pytest.mark.parametrize("persistent", [0, 1])
def test_a_producer_of_a_loop_in_another_one_starts_once(persistent: int) -> None:
    """Not in each instance: its pipeline goes on through all of them."""
    text = TRIANGLE.replace("END", "K")
    inner = text[text.index("  for") : text.index("  half* pc")]
    outer = "  for (int i = 0; i < 3; i += 1) {\n" + inner + "    C = max(C, 0);\n  }\n"
    text = text.replace(inner, outer)
    tune = {"producer": 1, "tma_load": 1, "num_warps": 8, "persistent": persistent}
    made = driver.compile(SourceFile("t.tc", text), Options(arch="sm_90a", tune=tune,
                                                            defines=("W=64",)), ("manifest",))
    assert made.module is not None
    kernel = made.module.kernels[0]
    names = [op.name for op in kernel.ops()]
    cfg = Cfg(kernel)
    assert names.count("start_producer") == 1 and kernel.attributes["producer_warps"]
    assert not any(op.name == "start_producer" for block in cfg.innermost for op in block.ops)


@pytest.mark.parametrize("where, engine", [("a", False), ("c", True)])
def test_the_engine_does_not_load_what_threads_have_stored(where: str, engine: bool) -> None:
    text = TRIANGLE.replace("END", "K").replace("const half*", "half* restrict", 2)
    store = f"  @(rm < M) *({where} + rm * K) = 0;\n"
    made = driver.compile(SourceFile("t.tc", text.replace("  int end", store + "  int end")),
                          Options(arch="sm_90a", tune={"tma_load": 1}, defines=("W=64",)),
                          ("manifest",))
    assert made.module is not None
    copies = [op for op in made.module.kernels[0].ops() if op.name == "tma_load"]
    assert len({op.attributes["index"] for op in copies}) == (2 if engine else 1)


def test_maps_of_another_slot_keep_their_boxes() -> None:
    """Where warpgroups store their own rows: only the map of what they store changes, not those of
    the two loops' rows, which had boxes of the same extents."""
    text = TRIANGLE.replace("END", "K")
    loop = text[text.index("  for") : text.index("  half* pc")]
    tune = {"producer": 1, "tma_load": 1, "tma_store": 1, "num_warps": 8, "persistent": 0}
    made = driver.compile(SourceFile("t.tc", text.replace(loop, loop + loop)),
                          Options(arch="sm_90a", tune=tune, defines=("W=64",)), ("manifest",))
    assert made.module is not None
    boxes: dict[str, list[tuple[int, int]]] = {"tensor_map": [], "tma_load": []}
    for op in made.module.kernels[0].ops():
        boxes.get(op.name, []).append(op.attributes.get("box"))
    assert boxes["tensor_map"].count((64, 128)) == 2
    assert boxes["tma_load"].count((64, 128)) == 4  # the halves of these rows


def test_a_producer_waits_for_what_meets_with_its_copies() -> None:
    done = lowered(matmul(BF16, 72, 72, 136, (64, 64, 32), result=F16), target="sm_90a", producer=1)
    (start,) = [op for op in done.kernel.ops() if op.name == "start_producer"]
    assert not start.attributes["waits"]
    for block in done.kernel.blocks:
        block.ops = [op for op in block.ops if op.name != "arrive_full"]
    assert specialize_warps(done.kernel, context("sm_90a")) and start.attributes["waits"]


@pytest.mark.parametrize("stages, buffers", [(3, 4), (4, 2)])
def test_results_take_the_memory_that_stages_leave(stages: int, buffers: int) -> None:
    """Of a product whose other body, of addresses that are not aligned, has no copies."""
    program = matmul(BF16, 128, 256, 64, (128, 256, 64), result=F16)
    ready = program.copy()
    settings = context("sm_90a", num_stages=stages)
    pass_manager.run(ready.kernel, settings, [*passes.OPT, *passes.BACKEND])
    leaving = [op for op in ready.kernel.ops() if op.attributes.get("groups") == 2
               and op.name == "alloc_shared"]
    assert len(leaving) == buffers and ready.kernel.attributes["producer_warps"]
    (last,) = [block for block in ready.kernel.blocks if any(
        op.name == "tma_store" for op in block.ops)]
    fences = [op for op in last.ops if op.name in ("proxy_fence", "group_barrier")]
    assert len(fences) == (3 if buffers == 4 else 4 * 3)  # for all parts, or for each
    np.testing.assert_array_equal(ready.run()["c"], program.expected["c"])


def test_what_the_source_promises_needs_no_second_body() -> None:
    """Nor memory for one: the producer's condition is one start."""
    for known, bodies in ((1, 3), (8, 1)):
        ready = lowered(matmul(BF16, 72, 72, 136, (64, 64, 32), known=known, result=F16),
                        target="sm_90a", producer=1)
        products = [op for op in ready.kernel.ops() if op.name == "wgmma"]
        assert len(products) == bodies and ready.kernel.attributes["producer_warps"]


def _volatile_start(kernel: Kernel) -> None:
    """A box starts where memory says, which others may change meanwhile."""
    copy = next(op for op in kernel.ops() if op.name == "tma_load")
    block = next(b for b in kernel.blocks if copy in b.ops)
    load = make_op("load", [kernel.parameters[0]], volatile=True)
    bits = make_op("bitcast", [load.result], I16)
    start = make_op("sext", [bits.result], I32)
    at = block.ops.index(copy)
    block.ops[at:at] = [load, bits, start]
    copy.operands[-1] = start.result


def _no_acquire(kernel: Kernel) -> None:
    for block in kernel.blocks:
        block.ops = [op for op in block.ops if op.name != "wait_empty"]


def _other_use(kernel: Kernel) -> None:
    """Threads write what copies write, while copies can follow."""
    copy = next(op for op in kernel.ops() if op.name == "tma_load")
    block = next(b for b in kernel.blocks if copy in b.ops)
    block.ops.insert(-1, make_op("init_barriers", [copy.operands[0]]))


def test_boxes_begin_at_multiples_of_16_bytes() -> None:
    """As coordinates of rows that begin anywhere would not, whose maps could have every eighth."""
    done = lowered(matmul(BF16, 72, 72, 136, (64, 64, 32), result=F16), target="sm_90a", producer=1)
    for block in done.kernel.blocks:
        for op in [op for op in block.ops if op.name == "tma_load"]:
            one = make_op("constant", [], I32, value=1)
            start = make_op("add", [op.operands[3], one.result])
            at = block.ops.index(op)
            block.ops[at:at] = [one, start]
            op.operands[3] = start.result
    with pytest.raises(InterpreterError, match="no multiple of 16 bytes"):
        done.run()


@pytest.mark.parametrize("change", [_volatile_start, _no_acquire, _other_use])
def test_copies_that_are_no_program_of_their_own_stay(change: Callable[[Kernel], None]) -> None:
    done = lowered(matmul(BF16, 72, 72, 136, (64, 64, 32), result=F16), target="sm_90a", producer=1,
                   without=("specialize_warps", "insert_barriers"))
    kernel = done.kernel
    assert specialize_warps(kernel, context("sm_90a"))
    del kernel.attributes["producer_warps"]
    change(kernel)
    with pytest.raises(Again):
        specialize_warps(kernel, context("sm_90a"))
    assert "producer_warps" not in kernel.attributes


@pytest.mark.parametrize("columns, engine", [(64, False), (128, True), (256, True)])
def test_the_copy_engine_serves_large_products(columns: int, engine: bool) -> None:
    program = matmul(BF16, 128, columns, 64, (128, columns, 64), known=64, result=BF16)
    settings = context("sm_90a")
    ready = program.copy()
    pass_manager.run(ready.kernel, settings, [*passes.OPT, *passes.BACKEND])
    names = {op.name for op in ready.kernel.ops()}
    assert {"tma_load", "tma_store"} & names == (
        {"tma_load", "tma_store"} if engine else set())


@pytest.mark.parametrize("e", [TF32, I8, F8E4M3])
def test_tensor_copies_of_other_types(e: Scalar) -> None:
    assert has(run(matmul(e, 64, 64, 192, (64, 64, 128 // e.bytes), *K_FIRST), "sm_90a"), BOX)


@pytest.mark.parametrize("target, way", [("sm_80", "copy"), ("sm_90a", "copy"), ("sm_90a", "box")])
@pytest.mark.parametrize("turned", [ORDERS[0], K_FIRST])
def test_tf32_operands_are_rounded_once(target: str, way: str, turned: tuple[bool, bool]) -> None:
    """Of floats, by whatever way they come: TMA loads round, wgmma itself would cut."""
    program = matmul(TF32, 64, 64, 96, (64, 64, 32), *turned, stored=F32)
    seen = run(program, target, tma_load=int(way == "box"))
    assert has(seen, BOX) == (way == "box")


def test_tensor_copies_of_no_iteration() -> None:
    run(matmul(BF16, 64, 64, 0, (64, 64, 64)), "sm_90a")


@pytest.mark.parametrize("turned", ORDERS)
def test_wgmma_fed_by_cp_async(turned: tuple[bool, bool]) -> None:
    seen = run(matmul(F16, 64, 64, 160, (64, 64, 32), *turned), "sm_90a", tma_load=0)
    assert has(seen, "wgmma") and not has(seen, BOX)


def test_wgmma_fed_through_registers() -> None:
    """Rows of 2 x 37 bytes suit no copy."""
    seen = run(matmul(F16, 33, 35, 37, (64, 64, 32)), "sm_90a")
    assert has(seen, "wgmma") and not has(seen, BOX)


@pytest.mark.parametrize("tile, warps", [
    ((128, 64, 32), 8),  # two warpgroups along m
    ((128, 64, 32), 4),  # two blocks of rows in one
    ((64, 128, 32), 8),  # two warpgroups along n
    ((64, 512, 16), 8),  # of 256 columns
    ((64, 512, 16), 4),  # two blocks of them in one
    ((64, 64, 32), 8),  # of 32 columns: half a panel
    ((64, 8, 32), 4),
    ((128, 256, 16), 16),  # both
])
@pytest.mark.parametrize("turned", [(False, False), (True, True)])
def test_parts_of_warpgroups(tile: tuple[int, int, int], warps: int, turned: tuple[bool, bool],
                             thorough: bool) -> None:
    if turned[0] == (warps == 8) and not thorough:
        pytest.skip("needs --thorough")
    rows, columns, depth = tile
    program = matmul(F16, rows, columns, depth, tile, *turned)
    program.kernel.attributes["num_warps"] = warps
    assert has(run(program, "sm_90a"), "wgmma")


@pytest.mark.parametrize("depth", [64, 128, 256])
def test_eight_bit_floats_are_added_in_parts(depth: int) -> None:
    program = matmul(F8E4M3, 64, 64, depth, (64, 64, depth), *K_FIRST)
    done = lowered(program, target="sm_90a")
    parts = [op.attributes.get("inner") for op in done.kernel.ops() if op.name == "wgmma"]
    bodies = sum(any(op.name == "wgmma" for op in block.ops) for block in done.kernel.blocks)
    assert bodies == 4  # general, half accesses, aligned operands alone, all aligned
    assert len(parts) == bodies * max(1, depth // 128)
    run(program, "sm_90a")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_chained_products_keep_the_first_in_registers(target: str) -> None:
    seen = run(chained(BF16), target)
    assert has(seen, "wgmma" if target == "sm_90a" else "ldmatrix")


def test_a_target_without_the_instruction_says_so() -> None:
    done = lowered(matmul(F16, 64, 64, 64, (64, 64, 32)), target="sm_90a")
    with pytest.raises(CompileError, match="sm_80 has no"):
        llvm.emit(done.module, find("sm_80"), Options())


# ---- descriptors ---------------------------------------------------------------------------------


def planes(layout: SharedLayout, size: int, base: int) -> Any:
    """Memory that holds each element's index at its place, in `size` bytes: the low bytes first,
    then in a second memory the rest of it, as far as there is more."""
    for shift in range(0, 16, 8 * size):
        memory = np.zeros(1 << 18, np.uint8)
        for index in range(layout.size):
            number = (index >> shift) & (1 << 8 * size) - 1
            at = base + layout.offset_of(index) * size
            memory[at : at + size] = list(number.to_bytes(size, "little"))
        yield shift, memory


@pytest.mark.parametrize("size, swizzle, transposed", [
    *((size, swizzle, False) for size, swizzle in product((1, 2, 4), (32, 64, 128))),
    *((2, swizzle, True) for swizzle in (0, 32, 64, 128)),
    (2, 0, False), (1, 0, False), (4, 0, False),
])
@pytest.mark.parametrize("rows", [0, 1], ids=["a", "b"])
def test_descriptors_find_every_element(size: int, swizzle: int, transposed: bool, rows: int
                                        ) -> None:
    """What PTX says of descriptors, against the layout, over all blocks and steps of k."""
    depth = 32 // size
    for mn, k in ((64, depth), (64, 2 * depth), (128, 4 * depth), (256, depth)):
        shape = (mn, k) if rows == 0 else (k, mn)
        inner = rows if transposed else 1 - rows
        if shape[inner] * size < max(swizzle, 16):
            continue
        layout = tensor_core(shape, (inner, 1 - inner), size, swizzle)
        operand = shared_operand(layout, size, rows)
        assert operand.transposed == transposed
        base = 3 * 1024
        index = np.arange(mn * k).reshape(shape)
        index = index if rows == 0 else index.T
        for shift, memory in planes(layout, size, base):
            for block in (64,) if rows == 0 else (64, 128):
                for first, start in product(range(0, mn, block), range(0, k, depth)):
                    if block > mn:
                        continue
                    word = operand.high | (base + operand.offset(first, start)) >> 4
                    found = read_matrix(memory, word, block, depth, _raw(size), transposed)
                    want = index[first : first + block, start : start + depth] >> shift
                    np.testing.assert_array_equal(found, want & (1 << 8 * size) - 1)


def _raw(size: int) -> Scalar:
    return {1: I8, 2: F16, 4: TF32}[size]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_no_descriptor_describes_another_layout(order: tuple[int, int]) -> None:
    with pytest.raises(AssertionError, match="no descriptor"):
        shared_operand(row_major((64, 64), order), 2, 0)


def test_descriptors_are_computed_once() -> None:
    path = Path(__file__).parents[2] / "samples" / "fp8_block.tc"
    text = driver.compile(SourceFile(str(path), path.read_text()), Options(
        arch="sm_90a", tune={"TM": 128, "TN": 128}), ("ll",)).outputs["ll"]
    first, rest = text[text.index("entry:"):].split("\nb0:", 1)
    assert ", 262143" in first and "wgmma.mma_async" in rest and ", 262143" not in rest


# ---- ldmatrix ------------------------------------------------------------------------------------


def moved(found: MatrixAccesses, layout: Layout, shared: SharedLayout, size: int
          ) -> dict[tuple[int, int], int]:
    """(thread, register) -> the element that the instruction gives it, as PTX defines it."""
    each, result = 4 // size, {}
    for thread in range(32 << len(layout.warp)):
        lane, first = thread & 31, thread & ~31
        for access in found.accesses:
            assert len(access.registers) == each * found.count
            tellers = [f2.apply(found.moves.thread, first + i) for i in range(8 * found.count)]
            rows = [(teller ^ access.flip) + access.add for teller in tellers]
            assert not any(row * size % 16 for row in rows)
            for i, register in enumerate(access.registers):
                matrix, part = divmod(i, each)
                if found.transposed:
                    offset = rows[8 * matrix + 2 * (lane % 4) + part] + lane // 4
                else:
                    offset = rows[8 * matrix + lane // 4] + lane % 4 * each + part
                result[thread, register] = shared.at(offset)
    return result


FRAGMENTS: list[tuple[int, Layout]] = [
    (2, fragment.mma_a((64, 64), (2, 1), 16, 16)), (2, fragment.mma_b((64, 64), (2, 2), 16, 16)),
    (2, fragment.mma_a((32, 16), (2, 2), 16, 8)), (2, fragment.mma_b((16, 16), (1, 2), 16, 8)),
    (1, fragment.mma_a((64, 64), (2, 1), 8, 32)), (1, fragment.mma_b((64, 64), (1, 4), 8, 32)),
    (4, fragment.mma_a((64, 32), (2, 1), 32, 8)), (4, fragment.mma_b((32, 64), (1, 4), 32, 8)),
    (2, fragment.wgmma_a((128, 64), (2, 1), 16)), (2, fragment.mma_accumulator((64, 64), (2, 2))),
    (2, fragment.wgmma_accumulator((64, 64), (1, 1), 64)),
    (2, fragment.mma_b((64, 8), (4, 1), 16, 16, 8)), (2, fragment.mma_a((8, 64), (1, 1), 16, 16)),
]


@pytest.mark.parametrize("size, layout", FRAGMENTS)
@pytest.mark.parametrize("inner", [0, 1])
def test_ldmatrix_gives_every_element_its_thread(size: int, layout: Layout, inner: int) -> None:
    fits = 0
    for swizzle in (0, 32, 64, 128):
        if layout.shape[inner] * size < max(swizzle, 16):
            continue
        shared = tensor_core(layout.shape, (inner, 1 - inner), size, swizzle)
        found = matrix_accesses(layout, shared, size)
        if found is None:
            continue
        fits += 1
        elements = moved(found, layout, shared, size)
        kept = [r for r in range(layout.registers) if not r & layout.replicated_registers]
        assert {r for _, r in elements} == set(kept)
        for (thread, register), element in elements.items():
            assert element == layout.at(register, thread & 31, thread >> 5)
    assert fits or size != 2  # others need their inner axis contiguous
    if size != 2:
        by_k = 0 if layout.register[:1] in ((64,), (32,)) or layout.lane[0] == 64 else 1
        assert bool(fits) == (inner == by_k)


def test_ldmatrix_takes_no_other_layouts() -> None:
    blocked = Layout((64, 64), (1, 2, 4, 1024, 2048), (8, 16, 32, 64, 128), (256, 512))
    shared = tensor_core((64, 64), (1, 0), 2, 128)
    assert matrix_accesses(blocked, shared, 2) is None
    doubles = fragment.mma_accumulator((64, 64), (2, 2))
    assert matrix_accesses(doubles, row_major((64, 64)), 8) is None
    scattered = SharedLayout((64, 64), tuple(random.Random(1).sample(shared.offset, 12)), 1024)
    assert matrix_accesses(fragment.mma_a((64, 64), (2, 1), 16, 16), scattered, 2) is None


def test_conflicts_of_ldmatrix() -> None:
    """Rows of 128 bytes lie in the same banks unless they are swizzled."""
    a = fragment.mma_a((64, 64), (2, 1), 16, 16)
    buffers = (row_major((64, 64)), *(tensor_core((64, 64), (1, 0), 2, s) for s in (128, 32)))
    counts = [found.conflicts for buffer in buffers
              if (found := matrix_accesses(a, buffer, 2)) is not None]
    assert counts == [8, 1, 1]


@pytest.mark.parametrize("between", ["", "proxy_fence", "async_commit"])
def test_only_loads_that_nothing_overtakes_are_late(between: str) -> None:
    """A load may not move behind what changes shared memory."""
    program = lowered(matmul(F16, 64, 64, 32, (64, 64, 32)), without=("select_matrix_loads",))
    for block in program.kernel.blocks:
        for i in reversed(range(len(block.ops))):
            if block.ops[i].name == "mma_dot" and between:
                block.ops.insert(i, make_op(between, []))
    select_matrix_loads(program.kernel, context("sm_80"))
    loads = [op for op in program.kernel.ops() if op.name == "mma_dot"]
    late = [v.op.attributes.get("late", False) for op in loads for v in op.operands[:2] if v.op]
    assert late and set(late) == {not between}


# ---- the assembler -------------------------------------------------------------------------------

SILENT = ("C7508", "C7511", "C7512", "C7514", "C7517", "C7519", "warning")
ASSEMBLED = [
    ("sm_75", F16, (64, 64, 64)), ("sm_75", F16, (128, 128, 32)), ("sm_75", I8, (64, 64, 64)),
    *(("sm_80", e, (64, 64, 64)) for e in (F16, BF16, TF32, I8, F64)),
    ("sm_80", BF16, (128, 128, 64)), ("sm_80", F16, (128, 256, 32)),
    ("sm_90", F64, (64, 64, 64)),
    ("sm_89", F8E4M3, (128, 128, 64)), ("sm_89", F8E5M2, (64, 64, 64)),
    *(("sm_90a", e, (64, 64, 64)) for e in (F16, BF16, TF32, I8, F8E4M3, F8E5M2)),
    *(("sm_90a", e, (128, 128, 128 // e.bytes)) for e in (TF32, I8, F8E4M3)),
    ("sm_90a", BF16, (128, 128, 64)), ("sm_90a", BF16, (128, 256, 64)),
    ("sm_90a", F16, (256, 128, 64)),
]


@pytest.mark.skipif(PTXAS is None, reason="no ptxas")
@pytest.mark.parametrize("target, e, tile", ASSEMBLED,
                         ids=[f"{t}-{e}-{'x'.join(map(str, s))}" for t, e, s in ASSEMBLED])
def test_ptxas_takes_it_as_it_is(target: str, e: Scalar, tile: tuple[int, int, int],
                                 tmp_path: Path) -> None:
    """No warning, nothing serialised or repaired, no spill."""
    rows, columns, depth = tile
    for turned in ORDERS if e.bytes == 2 and tile[0] == 64 else (K_FIRST,):
        program = matmul(e, rows, columns, depth, tile, *turned, masked=False,
                         known=min(depth, 64))
        text = ptx(lowered(program, target=target), target)
        log = ptxas(text, target, tmp_path)
        assert not any(word in log for word in SILENT), log
        assert " 0 bytes spill stores, 0 bytes spill loads" in log, log
        assert ("wgmma.mma_async" if target == "sm_90a" else "mma.sync") in text
        if target == "sm_90a":
            assert "cp.async.bulk.tensor" in text


def test_every_instruction_is_assembled() -> None:
    """The rows of the table that no target of this file would choose are named here."""
    used = {(target, e.name) for target, e, _ in ASSEMBLED}
    for row in matrix.INSTRUCTIONS:
        targets = [t for t in ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a")
                   if row.feature in find(t).features]
        assert any((t, row.operand.name) in used for t in targets), row.name
