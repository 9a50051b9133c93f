"""stagger_warpgroups: warpgroups that compute from products in a loop do so one after the other.

Before:  loop:  wait_full %r, %phase           After:  loop:  wait_full %r, %phase
                %p = wgmma; wgmma_wait                        order_wait %t, %phase
                %c1 = fadd %c, (fmul %p, %scale)              %p = wgmma; wgmma_wait
                                                              order_arrive %t
                                                              %c1 = fadd %c, (fmul %p, %scale)

Where a partial sum is scaled and added, a warpgroup has no product in flight meanwhile: its
registers hold one partial sum.  Those of another one fill the tensor cores if it is elsewhere in
its iteration.  But all wait for the same stage, and as they take equally long, each waits for the
product, and computes, when the others do.  So in each stage the others begin when the first product
of the first warpgroup has ended.  If they come later by themselves, they need not wait.

Between the two nothing may wait for all threads: no one uses shared memory there but products that
read what copies bring.

Done for products in halves (`halve_products`); smaller ones overlap with what is made of the one
before (`overlap_sums`).  Not for 8-bit operands, whose halves take half as long: by rows and
columns 8192 in cube took 0.803 ms on an H200, 0.765 without turns; nor where a warpgroup computes
an operand, too, while others multiply: bytes with factors for sums of 128, 4096 in cube, 218 and
203 us.  No value depends on it.  Must come before allocate_shared."""

from tritonc.backend.dots.together import WARPGROUP
from tritonc.backend.launch.persist import computed_of
from tritonc.backend.pipeline.staged_loop import widen
from tritonc.backend.shared.shared_memory import accesses, allocate, allocation, allocations
from tritonc.backend.target import matrix
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, uses
from tritonc.ir.layouts.shared_layout import row_major
from tritonc.ir.types import I64, Buffer, Tile


def stagger_warpgroups(kernel: Kernel, context: Context) -> bool:
    """Let warpgroups take turns in the loops that gain from it, behind the start of a producer."""
    if kernel.attributes["num_warps"] <= WARPGROUP:
        return False
    cfg, changed = Cfg(kernel), False
    for start in [op for op in kernel.ops() if op.name == "start_producer"]:
        home = cfg.block_of[start]
        for loop in cfg.loops:
            block = _computing(kernel, cfg, loop)
            if block is not None and home not in loop and cfg.dominates(home, block):
                changed |= _order(kernel, loop, block, home)
    return changed


def _computing(kernel: Kernel, cfg: Cfg, loop: Loop) -> Block | None:
    """The block of an innermost loop whose threads compute from several products, but no operand of
    another one, in this iteration or the next."""
    readers, inside = uses(kernel), list(loop.ops())
    for block in loop.blocks:
        results = {v for op in block.ops if op.name == "wgmma_wait" for v in op.results}
        starts = [op for op in block.ops if op.name == "wgmma"]
        if cfg.innermost.get(block) is loop and len(starts) > 1 and all(
                matrix.BY_NAME[op.attributes["instruction"]].operand.bits > 8
                and not isinstance(op.operands[0].type, Tile) for op in starts) and any(
                op in inside and op.name not in ("phi", "wgmma", "wgmma_wait")
                for result in results for op in readers.get(result, ())):
            made = computed_of(inside, results)
            return None if any(made.intersection(op.operands[:2]) for op in starts) else block
    return None


def _order(kernel: Kernel, loop: Loop, block: Block, home: Block) -> bool:
    """Put barriers for turns into the block, one for each stage of the buffer that it reads: they
    move on with its stages, so that one phase says both."""
    names = [op.name for op in block.ops]
    first = names.index("wgmma")
    waits = [op for op in block.ops[:first] if op.name == "wait_full"]
    if len(waits) != 1 or waits[0].operands[0].op is None:
        return False
    end = names.index("wgmma_wait") + 1
    stored = {root for op in loop.ops() if op.name == "shared_store" for root in allocations(op)}
    if any(op.name == "barrier" or (accesses(op) and (op.name != "wgmma" or not stored.isdisjoint(
            allocations(op)))) for op in block.ops[first:end]):
        return False
    view, phase = waits[0].operands[0].op, waits[0].operands[1]
    own = allocation(view.result)[0]
    if any(op.name == "wait_full" and allocation(op.operands[0])[0] is own and op not in block.ops
           for op in kernel.ops()):
        return False  # stages that another loop uses would not turn here
    stages = view.operands[0].type
    assert isinstance(stages, Buffer)
    order = allocate(I64, row_major((1,)), stages.stages, named="order", pinned=True)
    kernel.entry.ops.insert(0, order)
    at = next(i for i, op in enumerate(home.ops) if op.name == "init_barriers")
    home.ops.insert(at, make_op("init_barriers", [order.result]))
    stage = widen(order.result, stages.stages, view.operands[1], 0)
    block.ops.insert(end, make_op("order_arrive", [stage.result]))
    block.ops[first:first] = [stage, make_op("order_wait", [stage.result, phase])]
    return True
