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
from tritonc.backend.pipeline.channel import Channel, Means
from tritonc.backend.pipeline.loop_slice import find_slice
from tritonc.backend.pipeline.ring import Rewrite
from tritonc.backend.pipeline.staged_loop import (
    MOST_REGISTERS,
    StagedLoop,
    registers,
    staged_loops,
    stages_that_fit,
)
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel

STAGES = 2


def prefetch(kernel: Kernel, context: Context) -> bool:
    """Overlap loads and computation in the loops that stage operands through registers."""
    changed = False
    for staged in staged_loops(kernel):
        changed |= _overlap(kernel, staged, context)
    return changed


def _overlap(kernel: Kernel, staged: StagedLoop, context: Context) -> bool:
    stored = [store.operands[1] for store in staged.stores]
    part = find_slice(staged.loop, [staged.condition, *stored], staged.always)
    loads = part.loads if part else []
    if part is None or not loads:
        why = "an operand is not loaded from addresses that the loop's counters determine"
    elif registers(staged, stored) > MOST_REGISTERS:
        why = "the next operands do not fit into registers beside this product"
    elif stages_that_fit(staged, context.target.shared_per_block) < STAGES:
        why = f"{STAGES} stages of the operands do not fit into shared memory"
    elif stores_may_reach(kernel, staged.loop.blocks, loads, pointer_roots(kernel)):
        why = "a store in the loop may change what it loads"
    else:
        channels = [Channel(store, Means.REGISTERS) for store in staged.stores]
        Rewrite(kernel, staged, part, channels, STAGES, STAGES - 1).run()
        context.remark("prefetch", f"loop pipelined: {len(loads)} loads run one iteration ahead",
                       loads[0].span)
        return True
    context.remark("prefetch", f"loop not pipelined: {why}", (loads or staged.stores)[0].span,
                   missed=True)
    return False
