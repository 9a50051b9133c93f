"""Each loop gets one block that leads into it and one that leads back.

    a: cond_br %c, head, d           ->   a: cond_br %c, pre, d     pre: br head
    x: br head     y: br head        ->   x: br latch   y: br latch   latch: br head

The *preheader* is where later passes put what they take out of the loop; the only *latch* is where
the next iteration begins.  Phis of the header are split between the new blocks."""

from tritonc.ir.build import until_unchanged
from tritonc.ir.cfg import Cfg, merge_edges
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op


def canonicalize_loops(kernel: Kernel, context: Context) -> bool:
    """Give all loops a preheader and one latch."""
    changed = False
    if Cfg(kernel).predecessors[kernel.entry]:
        entry = Block("start")
        entry.ops.append(Op("br", [], blocks=[kernel.entry]))
        kernel.blocks.insert(0, entry)
        changed = True
    return until_unchanged(lambda: _one_more(kernel)) or changed


def _one_more(kernel: Kernel) -> bool:
    cfg = Cfg(kernel)
    for loop in cfg.loops:
        name = loop.header.name
        outside = [p for p in cfg.predecessors[loop.header] if cfg.reachable(p) and p not in loop]
        if loop.preheader is None:
            merge_edges(kernel, outside, loop.header, f"{name}.preheader")
            return True
        if loop.latch is None:
            merge_edges(kernel, loop.latches, loop.header, f"{name}.latch")
            return True
    return False
