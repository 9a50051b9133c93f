"""stagger_warpgroups: warpgroups that compute from products in a loop begin one after the other.

Before:  start_copier                          After:  start_copier
         loop:  ring_wait; wgmma; wgmma_wait           stagger {cycles = 512}
                %c1 = fadd %c, (fmul %p, %scale)       loop:  as before

Where a partial sum is scaled and added, a warpgroup has no product in flight meanwhile: its
registers hold one partial sum.  Those of another one fill the tensor cores if it is elsewhere in
its iteration.  But all begin with the same stage at the same time, and as they take equally long,
each waits for the product, and computes, when the others do.  So each begins later than the one
before by the time that its product takes alone.  Nothing that they wait for afterwards makes them
meet again: a producer warp is ahead of all, and each stores its own results.

Needs specialize_warps.
"""

from __future__ import annotations

from tritonc.backend.dots.together import chained, products
from tritonc.backend.target.matrix import BY_NAME
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, uses
from tritonc.ir.types import Buffer, Tile, shape

WARPGROUP = 4  # warps
OF_A_CYCLE = 2048  # products of 16 bits that the tensor cores of a multiprocessor add up


def stagger_warpgroups(kernel: Kernel, context: Context) -> bool:
    """Let the warpgroups of each body begin at different times, where their loop gains from it."""
    groups = kernel.attributes["num_warps"] // WARPGROUP
    if not kernel.attributes.get("copier_warps") or groups < 2:
        return False
    cfg, changed = Cfg(kernel), False
    for start in [op for op in kernel.ops() if op.name == "start_copier"]:
        home = cfg.block_of[start]
        found = [_cycles(op, groups) for loop in cfg.loops if cfg.dominates(home, loop.header)
                 and home not in loop for op in _partial(kernel, cfg, loop)]
        if found:
            home.ops.insert(-1, make_op("stagger", [], cycles=max(found)))
            changed = True
    return changed


def _partial(kernel: Kernel, cfg: Cfg, loop: Loop) -> list[Op]:
    """The products of an innermost loop from which its threads compute, but no other product."""
    readers, inside = uses(kernel), set(loop.ops())
    found = []
    for block in loop.blocks if all(cfg.innermost.get(b) is loop for b in loop.blocks) else ():
        ends = [op for op in block.ops if op.name == "wgmma_wait"]
        computed = [result for end in ends for result in end.results if any(
            op in inside and op.name not in ("phi", "wgmma", "wgmma_wait")
            for op in readers.get(result, ()))]
        if computed and not chained(block):
            found += products(block.ops)
    return found


def _cycles(product: Op, groups: int) -> int:
    """What a warpgroup's part of a product takes if no other one runs."""
    rows, columns = shape(product.result.type)[-2:]
    left = product.operands[0].type
    assert isinstance(left, Tile | Buffer)
    bits = BY_NAME[product.attributes["instruction"]].operand.bits
    return rows * columns * left.shape[-1] * bits // 16 // OF_A_CYCLE // groups
