"""prefetch: a loop that stages dot operands loads the next iteration's while it computes its own.

Before:                                  After:
  header: %p = phi [%p0], [%p1]            preheader: %a0 = load %p0 if the loop is entered
          cond_br %c, body, exit                      shared_store %s[0], %a0
  body:   %a = load %p                     header: %p = phi ..., %i = phi [0], [1 - %i]
          shared_store %s, %a              body:   %a1 = load %p1 if there is a next iteration
          %d = fma_dot %s, ...                     %d = fma_dot %s[%i], ...
          %p1 = addptr %p, %step                   shared_store %s[1 - %i], %a1

The paper's prefetch (listing 7) and double buffering (section 5.3) in one: global memory works
while the cores multiply, and two stages of shared memory leave one barrier per iteration.

Needs: a loop with one exit, at its header, and one latch; operands that come from loads by pure
operations, addresses that follow from the loop's phis alone, and no store in the loop that may
reach what is loaded.  Other loops stay as they are.  Needs stage_dots; leaves barriers to
insert_barriers.
"""

from __future__ import annotations

from tritonc.analysis.aliases import pointer_roots, stores_may_reach
from tritonc.backend.pipeline.loop_slice import (
    Slice,
    advance,
    copy_slice,
    find_slice,
    initial_values,
)
from tritonc.backend.pipeline.staged_loop import (
    MOST_REGISTERS,
    StagedLoop,
    guard_loads,
    registers,
    staged_loops,
    stages_that_fit,
    widen,
)
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I32

STAGES = 2


def prefetch(kernel: Kernel, context: Context) -> bool:
    """Overlap loads and computation in the loops that stage operands through registers."""
    changed = False
    for staged in staged_loops(kernel):
        changed |= _overlap(kernel, staged, context)
    return changed


def _overlap(kernel: Kernel, staged: StagedLoop, context: Context) -> bool:
    stored = [store.operands[1] for store in staged.stores]
    part = find_slice(staged.loop, [staged.condition, *stored], ALL_OPS, staged.always)
    loads = part.loads if part else []
    if part is None or not loads:
        context.remark("prefetch", "loop not pipelined: an operand does not come from loads whose "
                       "addresses follow from the loop's counters", staged.stores[0].span,
                       missed=True)
        return False
    if registers(staged, stored) > MOST_REGISTERS:
        context.remark("prefetch", "loop not pipelined: the next operands and this product do not "
                       "fit into registers together", loads[0].span, missed=True)
        return False
    if stages_that_fit(staged, context.target.shared_per_block) < STAGES:
        context.remark("prefetch", f"loop not pipelined: {STAGES} stages of the operands do not "
                       "fit into shared memory", loads[0].span, missed=True)
        return False
    if stores_may_reach(kernel, staged.loop.blocks, loads, pointer_roots(kernel)):
        context.remark("prefetch", "loop not pipelined: a store in it may change what it loads",
                       loads[0].span, missed=True)
        return False
    _rewrite(kernel, staged, part)
    context.remark("prefetch", f"loop pipelined: {len(loads)} loads one iteration ahead",
                   loads[0].span)
    return True


def _rewrite(kernel: Kernel, staged: StagedLoop, part: Slice) -> None:
    loop, condition = staged.loop, staged.condition
    zero = make_op("constant", [], I32, value=0)
    one = make_op("constant", [], I32, value=1)
    kernel.entry.ops[:0] = [zero, one]
    stage = Op("phi", [], {}, (I32,), blocks=[])
    stage.result.name = "stage"
    loop.header.ops.insert(0, stage)
    other = make_op("sub", [one.result, stage.result])
    other.result.name = "next_stage"

    # Before the loop: the first iteration's operands.
    mapping = initial_values(part)
    ops = copy_slice(part, mapping)
    ops = _guarded(ops, mapping.get(condition, condition))
    staged.preheader.ops[-1:-1] = [*ops, *_stores(staged, mapping, zero.result, 0)]

    # In the loop: loads of the next iteration first, their stores last.
    steps, mapping = advance(part, {})
    ahead = copy_slice(part, mapping)
    early, late = _split_at_loads(_guarded(ahead, mapping.get(condition, condition)))
    first = len(staged.body.phis())
    staged.body.ops[first:first] = [other, *steps, *early]
    staged.latch.ops[-1:-1] = [*late, *_stores(staged, mapping, other.result, 1)]
    dropped = staged.replaced
    buffers = {store.operands[0] for store in staged.stores}
    for block in loop.blocks:
        kept: list[Op] = []
        for op in block.ops:
            if op in dropped:
                continue
            if op.name not in ("buffer_stage", "shared_store"):
                for i, operand in enumerate(op.operands):
                    if operand in buffers:
                        view = widen(operand, STAGES, stage.result, ahead=0)
                        kept.append(view)
                        op.operands[i] = view.result
            kept.append(op)
        block.ops = kept
    stage.operands = [zero.result, other.result]
    stage.blocks = [staged.preheader, staged.latch]


def _stores(staged: StagedLoop, mapping: dict[Value, Value], stage: Value, ahead: int) -> list[Op]:
    """The loop's stores to shared memory, of other values, to another stage."""
    ops: list[Op] = []
    for store in staged.stores:
        buffer, value = store.operands
        view = widen(buffer, STAGES, stage, ahead)
        ops += [view, make_op("shared_store", [view.result, mapping.get(value, value)],
                              span=store.span, table=ALL_OPS, **store.attributes)]
    if staged.asynchronous:
        ops.append(make_op("proxy_fence", [], table=ALL_OPS))
    return ops


def _guarded(ops: list[Op], condition: Value) -> list[Op]:
    """The operations, their loads under `condition` too, but for those that it needs."""
    return guard_loads(ops, condition, None, [], condition)


def _split_at_loads(ops: list[Op]) -> tuple[list[Op], list[Op]]:
    """Loads and what they need; and what needs their results."""
    late: set[Value] = set()
    early_ops: list[Op] = []
    late_ops: list[Op] = []
    for op in ops:
        behind = any(v in late for v in op.inputs())
        if behind or op.name == "load":
            late.update(op.results)
        (late_ops if behind else early_ops).append(op)
    return early_ops, late_ops
