"""Single passes of the backend on what they must and must not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_programs import ALONE, data, matmul, transpose, vector_add
from sketch import Program, Sketch, context, same
from test_backend_passes import lowered

from tritonc.analysis.aliases import may_alias, pointer_roots
from tritonc.backend.launch.choose_warps import choose_warps
from tritonc.backend.memory.lower_atomics import lower_atomics
from tritonc.backend.memory.masks.fold_masked_loads import fold_masked_loads
from tritonc.backend.shared.allocate_shared import allocate_shared, live_ranges
from tritonc.interp.interpreter import InterpreterError
from tritonc.ir.core import Op
from tritonc.ir.types import BF16, F32, I32, I64, Buffer, Pointer, Tile
from tritonc.source import CompileError


def ops(program: Program, name: str) -> list[Op]:
    return [op for op in program.kernel.ops() if op.name == name]


# ---- fold_masked_loads


def masked(rest: float, other: float | None = None) -> Program:
    k = Sketch(warps=1)
    x, y = k.pointer("x", F32, data(8)), k.pointer("y", F32, np.ones(8))
    r = k.arange(8)
    yes, no = k.emit("cmpp", k.less(r, k.number(5))).results
    given = {} if other is None else {"other": other}
    v = k.load(k.at(x, r), yes, **given)
    k.store(k.at(y, r), k.psi(yes, v, no, k.full(rest, F32, 8)))
    return k.done()


def test_the_merged_constant_goes_into_the_load() -> None:
    program = masked(2.5)
    before = program.run()
    assert fold_masked_loads(program.kernel, context())
    same(before, program.run())
    (load,) = ops(program, "load")
    assert load.attributes["other"] == 2.5


def test_zeros_of_two_signs_are_two_numbers() -> None:
    program = masked(0.0, other=-0.0)
    assert not fold_masked_loads(program.kernel, context())
    assert fold_masked_loads(masked(-0.0, other=-0.0).kernel, context())


def test_another_predicate_is_not_folded() -> None:
    k = Sketch(warps=1)
    x, y = k.pointer("x", F32, data(8)), k.pointer("y", F32, np.ones(8))
    r = k.arange(8)
    yes, no = k.emit("cmpp", k.less(r, k.number(5))).results
    other, rest = k.emit("cmpp", k.less(r, k.number(3))).results
    v = k.load(k.at(x, r), yes)
    k.store(k.at(y, r), k.psi(other, v, rest, k.full(1.0, F32, 8)))
    k.store(k.at(y, r), k.select(k.less(r, k.number(5)), k.full(0.0, F32, 8), v), no)
    assert not fold_masked_loads(k.done().kernel, context())


# ---- pipeline


def pipelined(program: Program) -> bool:
    """Whether the loop was overlapped; checks what the kernel means."""
    before = program.run(check=False)
    done = lowered(program, check=True)
    same(before, done.run())
    stages = [op.result.type for op in ops(done, "alloc_shared")]
    return any(isinstance(t, Buffer) and t.stages > 1 for t in stages)


def strip_sum(body: Any, count: int = 3, **info: Any) -> Program:
    """total = sum over i of x[i] @ w, with `body(k, p, i)` giving x[i]."""
    k = Sketch(warps=4)
    x = k.pointer("x", F32, data(4, 16, 16), **(info or ALONE))
    w = k.pointer("w", F32, data(16, 16, seed=1), **(info or ALONE))
    y = k.pointer("y", F32, np.zeros((16, 16)), **(info or ALONE))
    r = k.arange(16)
    right = k.load(k.rows(w, r, 16, r))
    n = k.integer("n", count)
    with k.loop(n, k.full(0, F32, 16, 16), k.rows(x, r, 16, r)) as loop:
        total, p = loop.values
        step = k.full(256, I32, 16, 16)
        loop.next = [k.dot(body(k, p, loop.index, n, y), right, total), k.addptr(p, step)]
    k.store(k.rows(y, r, 16, r), loop.values[0])
    return k.done()


def test_a_plain_loop_is_overlapped() -> None:
    assert pipelined(strip_sum(lambda k, p, i, n, y: k.load(p)))


def test_a_division_that_traps_after_the_end_is_made_safe() -> None:
    """n - i is zero in the iteration that does not come; the divisor becomes at least 1."""
    def body(k: Sketch, p: Any, i: Any, n: Any, y: Any) -> Any:
        far = k.udiv(k.number(0), k.sub(n, i))
        return k.load(k.addptr(p, k.spread(far, (16, 16))))

    assert pipelined(strip_sum(body))


def test_divisions_that_trap_after_the_end_are_not_run_early() -> None:
    """Of n - i, n - i + 1, ..., the first is zero in the iteration that does not come."""
    def body(k: Sketch, p: Any, i: Any, n: Any, y: Any) -> Any:
        left = k.add(k.spread(k.sub(n, i), (16, 16)), k.spread(k.arange(16), (16, 16)))
        return k.load(k.addptr(p, k.udiv(k.full(0, I32, 16, 16), left)))

    assert not pipelined(strip_sum(body))


def test_a_division_by_a_constant_is() -> None:
    def body(k: Sketch, p: Any, i: Any, n: Any, y: Any) -> Any:
        return k.load(k.addptr(p, k.spread(k.udiv(i, k.number(9)), (16, 16))))

    assert pipelined(strip_sum(body))


def test_a_promise_is_not_made_for_an_iteration_that_does_not_come() -> None:
    def body(k: Sketch, p: Any, i: Any, n: Any, y: Any) -> Any:
        left = k.assume_multiple(k.select(k.icmp(i, n, predicate="slt"), k.number(0), i), n=16)
        return k.load(k.addptr(p, k.spread(left, (16, 16))))

    assert not pipelined(strip_sum(body, count=3))


def test_a_volatile_load_stays() -> None:
    assert not pipelined(strip_sum(lambda k, p, i, n, y: k.load(p, volatile=True)))


def test_a_loop_that_stores_where_it_loads_is_not_overlapped() -> None:
    def body(k: Sketch, p: Any, i: Any, n: Any, y: Any) -> Any:
        v = k.load(p)
        k.store(p, k.fadd(v, v))
        return v

    assert not pipelined(strip_sum(body))


def test_a_loop_that_stores_elsewhere_is_if_that_is_known_or_tested() -> None:
    def body(k: Sketch, p: Any, i: Any, n: Any, y: Any) -> Any:
        v = k.load(p)
        k.store(k.rows(y, k.arange(16), 16, k.arange(16)), v)
        return v

    assert pipelined(strip_sum(body))
    tested = strip_sum(body, multiple_of=16)
    assert pipelined(tested)
    assert any(op.attributes.get("facts") for op in ops(lowered(tested, check=True), "cond_br"))


def private(program: Program) -> int:
    return sum(bool(op.attributes.get("private")) for op in ops(program, "alloc_shared"))


def test_what_is_turned_is_copied_as_it_is_and_turned_by_its_thread() -> None:
    """No register waits for memory: where the addresses are aligned, the loop has no loads."""
    for a, b in ((False, False), (False, True), (True, True)):
        done = lowered(matmul(a_transposed=a, b_transposed=b), target="sm_80")
        assert private(done) == (not a) + b
        loads = [op for op in ops(done, "load") if isinstance(op.result.type, Tile)]
        assert all("fast" not in block.name for block in done.kernel.blocks
                   for op in block.ops if op in loads)
    assert not private(lowered(matmul(), target="sm_75"))


def test_sums_of_products_are_detached_from_wide_stores() -> None:
    done = lowered(matmul(64, 64, 32), check=True)
    for op in ops(done, "detach"):
        assert op.operands[0].op is not None and op.operands[0].op.name == "phi"
    stored = [op.operands[1].op for op in ops(done, "store") if op.attributes.get("vector", 1) > 1]
    assert stored and all(op is not None and op.name == "detach" for op in stored)
    narrow = [op.operands[1].op for op in ops(done, "store") if op.attributes.get("vector", 1) == 1]
    assert all(op is None or op.name != "detach" for op in narrow)


def test_sums_of_products_are_detached_from_exchanges() -> None:
    done = lowered(matmul(64, 64, 32))
    sums = [op.operands[0] for op in ops(done, "detach")]
    assert len(sums) == 2  # the fast body stores them, the general one exchanges them
    assert not any(op.operands[1] in sums for op in ops(done, "shared_store"))


def test_what_is_turned_goes_through_registers_where_its_copy_does_not_fit() -> None:
    program = matmul(tile=(64, 128, 64), b_transposed=True)
    assert private(lowered(program, target="sm_90")) == 2
    assert not private(lowered(program, target="sm_86"))


# ---- lower_atomics


def test_a_volatile_scalar_is_the_first_threads() -> None:
    k = Sketch(warps=2)
    x, y = k.pointer("x", I32, [7]), k.pointer("y", I32, np.zeros(64))
    v = k.load(x, volatile=True)
    k.store(k.at(y, k.arange(64)), k.spread(v, (64,)))
    program = k.done()
    done = lowered(program, check=True)
    same(program.run(), done.run())
    assert ops(done, "shared_load")


def test_results_that_nobody_reads_are_not_passed_on() -> None:
    k = Sketch(warps=2)
    k.atomic_rmw(k.pointer("x", I32, [7]), k.number(1), kind="add")
    program = k.done()
    assert not lower_atomics(program.kernel, context())


# ---- aliases


def test_pointers_of_unknown_origin_alias_everything() -> None:
    k = Sketch()
    x = k.pointer("x", F32, [0.0], no_alias=True)
    y = k.pointer("y", F32, [0.0], no_alias=True)
    made = k.inttoptr(k.number(0, I64), type=Pointer(F32))
    mixed = k.select(k.less(k.number(1), k.number(2)), x, made)
    roots = pointer_roots(k.kernel)
    assert roots[made] is None and roots[mixed] is None
    assert may_alias(k.kernel, mixed, y, roots) and not may_alias(k.kernel, x, y, roots)


def test_loops_keep_the_origin() -> None:
    k = Sketch()
    x = k.pointer("x", F32, [0.0])
    with k.loop(k.number(3), x, x) as loop:
        p, q = loop.values
        loop.next = [k.addptr(q, k.number(1)), k.addptr(p, k.number(1))]
    roots = pointer_roots(k.kernel)
    assert roots[p] is x and roots[q] is x


# ---- allocate_shared


def buffers(program: Program, name: str) -> list[tuple[int, int]]:
    """First byte and end of each buffer that is read by operations of that name."""
    found = []
    readers = [op for op in program.kernel.ops() if op.name == name]
    for op in ops(program, "alloc_shared"):
        t = op.result.type
        assert isinstance(t, Buffer)
        views = [v.result for v in ops(program, "buffer_stage") if op.result in v.operands]
        if any(v in reader.operands for reader in readers for v in (op.result, *views)):
            found.append((op.attributes["offset"], op.attributes["offset"] + t.bytes))
    return found


def test_a_tile_too_large_for_shared_memory_is_a_located_error() -> None:
    """Where slices of one row and one column do not fit either."""
    with pytest.raises(CompileError, match="needs 512 bytes of shared memory") as caught:
        lowered(matmul(8, 8, 8), shared=255)
    assert caught.value.diagnostics[0].name == "shared-memory"
    assert caught.value.diagnostics[0].span is not None


def test_buffers_live_at_once_do_not_overlap_and_others_do() -> None:
    program = lowered(matmul(), without=("specialize",))
    (exchange,) = buffers(program, "shared_load")
    one, two = buffers(program, "load_slice")
    assert one[1] <= two[0] or two[1] <= one[0]
    assert any(b[0] < exchange[1] and exchange[0] < b[1] for b in (one, two))
    end = max(b[1] for b in (exchange, one, two))
    assert program.kernel.attributes["shared_bytes"] == end


def test_a_buffer_used_before_and_after_a_loop_lives_through_it() -> None:
    """Even where the exit's block comes before the body's."""
    k = Sketch(warps=1)
    t = Buffer(I32, (4,), 1)
    outer, v = k.alloc_shared(type=t), k.arange(4)
    k.emit("shared_store", outer, v)
    with k.loop(k.number(2), v) as loop:
        inner = k.alloc_shared(type=t)
        k.emit("shared_store", inner, loop.values[0])
        loop.next = [k.shared_load(inner, type=Tile(I32, (4,)))]
    k.shared_load(outer, type=Tile(I32, (4,)))
    k.emit("ret")
    header = k.kernel.blocks[1]
    for turned in (False, True):
        if turned:
            header.terminator.blocks.reverse()
        lives = live_ranges(k.kernel)
        first, second = lives[outer.op], lives[inner.op]
        assert first[0] < second[0] and second[1] <= first[1], turned
    allocate_shared(k.kernel, context())
    assert outer.op.attributes["offset"] != inner.op.attributes["offset"]


def test_what_a_product_reads_lives_until_it_is_waited_for() -> None:
    k = Sketch(warps=4)
    left, right, other = (k.alloc_shared(type=Buffer(BF16, shape, 1))
                          for shape in ((64, 16), (16, 8), (64, 16)))
    total = k.number(0.0, Tile(F32, (64, 8)))
    started = k.emit("wgmma", left, right, total, instruction="wgmma.m64k16.bf16").result
    k.emit("shared_store", other, k.number(0.0, Tile(BF16, (64, 16))))
    k.shared_load(other, type=Tile(BF16, (64, 16)))
    k.emit("wgmma_wait", started, pending=0)
    k.emit("ret")
    lives = live_ranges(k.kernel)
    assert lives[left.op][1] > lives[other.op][1] and lives[right.op][1] > lives[other.op][1]


# ---- others


def test_warps_follow_the_work_and_the_tuner() -> None:
    for size, warps in ((32, 1), (1024, 4), (1 << 15, 16)):
        program = vector_add(tile=size, warps=None)
        choose_warps(program.kernel, context())
        assert program.kernel.attributes["num_warps"] == warps
    program = vector_add(tile=64, warps=None)
    choose_warps(program.kernel, context(num_warps=8))
    assert program.kernel.attributes["num_warps"] == 8


def test_wide_accesses_where_they_are_legal() -> None:
    done = lowered(vector_add(1024, 256, 2, **ALONE), without=("specialize",))
    assert [(op.attributes["vector"], op.attributes["ragged"]) for op in done.kernel.ops()
            if op.name in ("load", "store")] == 3 * [(4, True)]  # n is not known to be even
    k = Sketch(warps=2)
    x, y = k.pointer("x", F32, data(256), **ALONE), k.pointer("y", F32, data(256), **ALONE)
    r = k.arange(256)
    k.store(k.at(y, r), k.load(k.at(x, r)))
    done = lowered(k.done())
    assert [op.attributes["vector"] for op in done.kernel.ops()
            if op.name in ("load", "store")] == [4, 4]


def test_an_exchange_of_pointers_keeps_them() -> None:
    k = Sketch(warps=4)
    a = data(16, 64)
    x, y = k.pointer("x", I32, a), k.pointer("y", I32, np.zeros((64, 16)))
    flags = k.load(k.rows(x, k.arange(16), 64, k.arange(64)))
    p = k.select(k.icmp(flags, k.full(0, I32, 16, 64), predicate="slt"),
                 k.rows(x, k.arange(16), 64, k.arange(64)), k.spread(x, (16, 64)))
    turned = k.trans(p, permutation=(1, 0))
    k.store(k.rows(y, k.arange(64), 16, k.arange(16)), k.load(turned))
    program = k.done()
    done = lowered(program, check=True)
    same(program.run(), done.run())
    np.testing.assert_array_equal(done.run()["y"], np.where(a < 0, a, a[0, 0]).T)


def test_without_the_exchange_a_transpose_would_read_early() -> None:
    """What the programs' tests rely on: a conversion's barrier is what makes it right."""
    program = lowered(transpose(), without=("insert_barriers", "specialize"))
    with pytest.raises(InterpreterError, match="another thread wrote it"):
        program.run()


def barriers(program: Program) -> int:
    return len(ops(lowered(program, without=("specialize",)), "barrier"))


def test_a_chain_of_exchanges_has_one_barrier_each() -> None:
    for count in (1, 2, 3):
        k = Sketch(warps=4)
        x, y = k.pointer("x", I32, data(64), **ALONE), k.pointer("y", I32, [0], **ALONE)
        v = k.load(k.at(x, k.arange(64)))
        for i in range(count):
            total = k.reduce(v, kind="add", axes=(0,))
            v = k.add(v, k.spread(k.add(total, k.number(i)), (64,)))
        k.store(y, k.reduce(v, kind="add", axes=(0,)))
        program = k.done()
        same(program.run(), lowered(program, check=True).run())
        assert barriers(program) == count + 1


def test_an_exchange_in_a_loop_has_two_barriers_and_two_have_them_too() -> None:
    for count in (1, 2):
        k = Sketch(warps=4)
        x, y = k.pointer("x", I32, data(64), **ALONE), k.pointer("y", I32, np.zeros(64), **ALONE)
        r = k.arange(64)
        with k.loop(k.number(3), k.load(k.at(x, r))) as loop:
            (v,) = loop.values
            for _ in range(count):
                v = k.add(v, k.spread(k.reduce(v, kind="add", axes=(0,)), (64,)))
            loop.next = [v]
        k.store(k.at(y, r), loop.values[0])
        program = k.done()
        same(program.run(), lowered(program, check=True).run())
        assert barriers(program) == 2


def test_large_exchanges_share_their_bytes() -> None:
    k = Sketch(warps=4)
    a = data(64, 64)
    x, y = k.pointer("x", I32, a, **ALONE), k.pointer("y", I32, np.zeros((64, 64)), **ALONE)
    z = k.pointer("z", I32, np.zeros((64, 64)), **ALONE)
    r = k.arange(64)
    v = k.load(k.rows(x, r, 64, r))
    k.store(k.rows(y, r, 64, r), k.trans(v, permutation=(1, 0)))
    k.store(k.rows(z, r, 64, r), k.trans(k.add(v, v), permutation=(1, 0)))
    done = lowered(k.done())
    assert done.kernel.attributes["shared_bytes"] == 64 * 64 * 4
