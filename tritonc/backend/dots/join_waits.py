"""join_waits: independent products run together and are waited for once.

Before:  %p = wgmma %a, %b, %c            After:  %p = wgmma %a, %b, %c
         %x = wgmma_wait %p                       %q = wgmma %a, %d, %e
         %q = wgmma %a, %d, %e                    %x, %y = wgmma_wait %p, %q
         %y = wgmma_wait %q

A wait moves down to the next one if nothing in between reads its results, or writes what its
products read.  So do products that only add to an accumulator of the loop each, two products of one
operand, and the two of a chain of five that need nothing of the others.

Needs stage_dots.
"""

from __future__ import annotations

from tritonc.backend.shared.shared_memory import accesses, allocation
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op
from tritonc.ir.types import Buffer


def join_waits(kernel: Kernel, context: Context) -> bool:
    """Join the waits of each block."""
    changed = False
    for block in kernel.blocks:
        at = 0
        while at < len(block.ops):
            op = block.ops[at]
            later = _later(block, at) if op.name == "wgmma_wait" else None
            if later is None:
                at += 1
                continue
            both = make_op("wgmma_wait", [*op.operands, *later.operands], span=later.span,
                           pending=later.attributes["pending"])
            replaced = dict(zip((*op.results, *later.results), both.results, strict=True))
            for old, new in replaced.items():
                new.name = old.name
            block.ops[block.ops.index(later)] = both
            block.ops.remove(op)
            kernel.replace(replaced)
            changed = True
    return changed


def _later(block: Block, at: int) -> Op | None:
    """The wait that the one at `at` can join, if there is such."""
    wait = block.ops[at]
    read = {allocation(v)[0] for product in wait.operands if product.op is not None
            for v in product.op.operands if isinstance(v.type, Buffer)}
    for op in block.ops[at + 1 :]:
        if set(wait.results) & set(op.inputs()):
            return None
        if op.name == "wgmma_wait":
            same = op.attributes["pending"] == wait.attributes["pending"] == 0
            return op if same else None
        if op.name in ("wgmma", "proxy_fence"):
            continue
        if any(access.write and access.allocation in read for access in accesses(op)):
            return None
        if not op.pure and op.name not in ("load", "shared_store", "shared_load"):
            return None
    return None
