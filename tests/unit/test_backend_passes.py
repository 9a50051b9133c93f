"""Every pass of the backend keeps the meaning of every program, and the last form has no race."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_programs import MATRIX_PROGRAMS, PROGRAMS
from matrix_programs import matmul, strided
from sketch import Program, context, same

from tritonc import pass_manager, passes
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.interp.interpreter import InterpreterError
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op
from tritonc.ir.types import BF16, F16
from tritonc.ir.verify import Known, verify
from tritonc.opt.expand_range import expand_range
from tritonc.opt.loops.canonicalize_loops import canonicalize_loops


def lowered(program: Program, check: bool = False, target: str = "sm_80",
            without: tuple[str, ...] = (), level: int = 2, shared: int | None = None,
            **meta: int) -> Program:
    """The program after the backend; `check` runs it after each pass.

    The copy engine serves small products too, unless `meta` says otherwise.  `shared`: bytes of
    shared memory that a block may have, where it shall be less than the target's.
    """
    ready = program.copy()
    settings = context(target, **{"tma_load": 1, "tma_store": 1, **meta})
    if shared is not None:
        settings.target = settings.target._replace(shared_per_block=shared,
                                                   shared_per_multiprocessor=shared + 1024)
    expand_range(ready.kernel, settings)
    canonicalize_loops(ready.kernel, settings)
    before = ready.run(check=False) if check else {}
    known: Known = {}

    def after(label: str, kernel: Kernel, changed: bool) -> None:
        if changed:
            verify(kernel, label, ALL_OPS, known=known)
        if check and changed:
            try:
                same(before, ready.run(check=label == "insert_barriers"))
            except Exception as error:
                raise AssertionError(f"after {label}:\n{ready.text()}") from error

    rows = [row for row in passes.BACKEND if row.name not in without]
    hooks = pass_manager.Hooks(after=after)
    pass_manager.run(ready.kernel, settings, rows, level=level, hooks=hooks)
    return ready


TENSOR_CORES = ("sm_75", "sm_80", "sm_90a")
LARGE = ("f16 tt", "f16 wide")  # run at the end only


@pytest.mark.parametrize("target", TENSOR_CORES)
@pytest.mark.parametrize("name", MATRIX_PROGRAMS)
def test_matrix_instructions(name: str, target: str) -> None:
    """For each program, one target in turn is looked at after each pass."""
    program = MATRIX_PROGRAMS[name]()
    turn = TENSOR_CORES[[*MATRIX_PROGRAMS].index(name) % len(TENSOR_CORES)]
    done = lowered(program, check=name not in LARGE and target == turn, target=target)
    found = done.run()["c"]
    np.testing.assert_array_equal(found, program.expected["c"])


def places(kernel: Kernel, *names: str) -> list[tuple[Any, int]]:
    """Operations of these names, as (block, position)."""
    return [(block, i) for block in kernel.blocks for i, op in enumerate(block.ops)
            if op.name in names]





# Programs with a barrier that a launch on this data does not need: a second turn of waiting for a
# lock, a loop that might have run once more, pointers that might have been others.
CAREFUL = ("lock", "nested dots of none", "chosen pointers")


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in CAREFUL])
@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_each_barrier_is_needed(name: str, target: str) -> None:
    needed(lowered(alone(PROGRAMS[name]()), target=target))


@pytest.mark.parametrize("name", ["bf16 tn", "f16 tt", "f16 odd"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_each_barrier_of_matrix_instructions_is_needed(name: str, target: str) -> None:
    needed(lowered(alone(MATRIX_PROGRAMS[name]()), target=target))


def test_each_fence_of_a_loop_is_needed() -> None:
    needed(lowered(alone(MATRIX_PROGRAMS["f16 odd"]()), target="sm_90a"), "proxy_fence")


def alone(program: Program) -> Program:
    """A launch cannot show what a barrier between parameters that may be aliases is for."""
    for info in program.kernel.info:
        info.no_alias = True
    return program


def needed(program: Program, name: str = "barrier") -> None:
    """Without any of the barriers (or others of that name) that a launch meets, it fails."""
    ran: dict[Op, None] = {}
    program.run(True, ran, (name,))
    for block, i in places(program.kernel, name):
        op = block.ops[i]
        if op not in ran:
            continue
        del block.ops[i]
        try:
            program.run()
        except InterpreterError as error:
            assert error.diagnostics[0].name in ("run-race", "run-shared-memory")
        else:
            raise AssertionError(f"{op.name} {i} of {block.name} is not needed:\n{program.text()}")
        finally:
            block.ops.insert(i, op)


def test_the_barrier_before_a_lock_is_given_back_is_needed() -> None:
    program = lowered(PROGRAMS["lock"](), without=("specialize",))
    block = next(b for b in program.kernel.blocks if b.name.startswith("go"))
    i = next(i for i, op in enumerate(block.ops) if op.name == "atomic_rmw")
    assert block.ops.pop(i - 1).name == "barrier"
    with pytest.raises(InterpreterError, match="guards"):
        program.run()


def loop_barriers(program: Program) -> list[int]:
    """Barriers in each innermost loop that holds a dot."""
    cfg = Cfg(program.kernel)
    found = []
    for loop in cfg.loops:
        names = [op.name for block in loop.blocks for op in block.ops]
        if not any(other.parent is loop for other in cfg.loops) and any(
                name.endswith("_dot") for name in names):
            found.append(names.count("barrier"))
    return found


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
@pytest.mark.parametrize("name", ["matmul", "matmul nt", "matmul tn", "matmul tt", "nested dots"])
def test_a_loop_of_dots_has_one_barrier(name: str, target: str) -> None:
    for meta in ({}, {"num_stages": 1}):  # then operands come through registers
        counts = loop_barriers(lowered(PROGRAMS[name](), target=target, **meta))
        assert counts and set(counts) == {1}
    plain = loop_barriers(lowered(PROGRAMS[name](), target=target, without=("pipeline",)))
    assert set(plain) == {2}
    assert loop_barriers(lowered(PROGRAMS[name](), target=target, num_stages=0)) == plain


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_the_warps_of_a_small_product_share_its_inner_axis(target: str) -> None:
    """Each warp multiplies all rows and columns, by its own part of k."""
    program = lowered(PROGRAMS["matmul split"](), target=target)
    assert program.kernel.attributes["num_warps"] == 4
    dots = [op.result.type for op in program.kernel.ops() if op.name == "fma_dot"]
    assert {(t.shape, t.layout.warp) for t in dots} == {((4, 32, 32), (1024, 2048))}
    assert loop_barriers(program) == [1, 1]
    whole = lowered(PROGRAMS["matmul split"](), target=target, slices=1)
    assert whole.kernel.attributes["num_warps"] == 1


@pytest.mark.parametrize("name", ["nested dots", "chained dots"])
def test_what_is_more_than_a_sum_of_products_is_not_split(name: str) -> None:
    program = PROGRAMS[name]()
    program.kernel.attributes.pop("num_warps", None)
    done = lowered(program)
    assert all(len(op.result.type.shape) == 2 for op in done.kernel.ops() if op.name == "fma_dot")


def test_a_conversion_has_one_barrier() -> None:
    """And one more for each that uses the same bytes again."""
    program = lowered(PROGRAMS["transpose"](), without=("specialize",))
    names = [op.name for op in program.kernel.ops()]
    assert names.count("shared_store") == names.count("barrier") == 1


def test_kernels_without_aliases_that_keep_to_their_threads_have_no_barrier() -> None:
    program = lowered(PROGRAMS["vector_add aligned"]())
    assert not places(program.kernel, "barrier")


# Programs that need more than that many bytes, and the slices of their products in a body.
THIN = [("matmul nt", "sm_75", 2048, 2), ("matmul split", "sm_75", 2048, 2),
        ("chained dots", "sm_75", 6144, 4), ("bf16 tn", "sm_80", 4096, 2),
        ("f16 wide", "sm_90a", 28720, 2)]


@pytest.mark.parametrize("name, target, room, slices", THIN)
def test_products_go_in_slices_where_operands_do_not_fit(name: str, target: str, room: int,
                                                         slices: int) -> None:
    program = {**PROGRAMS, **MATRIX_PROGRAMS}[name]()
    done = lowered(program, check=name not in LARGE, target=target, shared=room,
                   without=("specialize",))
    assert done.kernel.attributes["shared_bytes"] <= room
    assert sum(op.name in DOTS for op in done.kernel.ops()) == slices
    (result,) = program.expected
    np.testing.assert_array_equal(done.run()[result], program.expected[result])


@pytest.mark.parametrize("stride, shift", [(64, 0), (64, -16), (-64, 64 * 64)])
def test_tensors_have_neither_negative_strides_nor_coordinates(stride: int, shift: int) -> None:
    """One body has TMA loads of both operands; it runs where strides are not negative, from
    a base that is moved to where starts are not."""
    program = strided(stride, shift)
    done = lowered(program, target="sm_90a")
    ran: dict[Op, None] = {}
    np.testing.assert_array_equal(done.run(True, ran, ("tma_load",))["c"],
                                  program.expected["c"])
    assert len({op.attributes["index"] for op in ran}) == (2 if stride >= 0 else 1)


def test_promised_signs_need_no_test() -> None:
    done = lowered(strided(64, 0, promised=True), target="sm_90a")
    assert _each(done, "tma_load")
    assert not any(block.name == "dispatch" for block in done.kernel.blocks)


def _each(program: Program, name: str) -> list[Op]:
    return [op for op in program.kernel.ops() if op.name == name]


def _keep_products(program: Program) -> None:
    for op in _each(program, "wgmma_wait"):
        op.attributes["pending"] = 7


def _expect_more(program: Program) -> None:
    for op in _each(program, "expect_full"):
        op.attributes["bytes"] += 16


def _other_swizzle(program: Program) -> None:
    for op in _each(program, "tensor_map"):
        op.attributes["swizzle"] = 64


def _no_wait(program: Program) -> None:
    for block in program.kernel.blocks:
        block.ops = [op for op in block.ops if op.name != "wait_full"]


def _early_release(program: Program) -> None:
    """Each body gives its slot back before it waits for it."""
    assert _each(program, "release_slot")
    waits: Block | None = None
    for block in program.kernel.blocks:
        if any(op.name == "wait_full" for op in block.ops):
            waits = block
        for release in [op for op in block.ops if op.name == "release_slot"]:
            assert waits is not None
            block.ops.remove(release)
            at = next(i for i, op in enumerate(waits.ops) if op.name == "wait_full")
            waits.ops.insert(at, release)


@pytest.mark.parametrize(("sabotage", "message"), [
    (_keep_products, "undefined|product in flight"), (_expect_more, "waits forever"),
    (_other_swizzle, None), (_no_wait, "in flight"), (_early_release, "in flight"),
])
def test_sabotage_of_a_tensor_pipeline_is_seen(sabotage: Any, message: str | None) -> None:
    program = lowered(MATRIX_PROGRAMS["f16 tt"](), target="sm_90a")
    same(program.run(), program.run())
    sabotage(program)
    if message is None:
        assert not np.array_equal(program.run()["c"], MATRIX_PROGRAMS["f16 tt"]().expected["c"])
        return
    with pytest.raises(InterpreterError, match=message):
        program.run()


@pytest.mark.parametrize(("name", "message"), [
    ("arrive_empty", "waits forever"), ("wait_empty", "overwrites: another thread used it"),
    ("group_barrier", "no proxy_fence and barrier between"), ("arrive_full", "waits forever"),
    ("async_wait", "a copy into it is in flight"),
])
def test_sabotage_of_a_producer_is_seen(name: str, message: str) -> None:
    program = lowered(matmul(BF16, 136, 72, 264, (128, 64, 64), result=F16), target="sm_90a",
                      producer=1)
    for block in program.kernel.blocks:
        block.ops = [op for op in block.ops if op.name != name]
    with pytest.raises(InterpreterError, match=message):
        program.run()
