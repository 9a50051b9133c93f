"""compute_early: what a program computes of its own tile is computed before it waits for others.

Before:  loop: ... atomic_rmw %p {kind = load}         After:  %y = scan %x
         ...                                                   loop: ...
         exit: %y = scan %x
               store %q, (fadd %before, %y)                    exit: store %q, (fadd %before, %y)

Scans and reductions behind a loop that asks what other programs have told, with what they need,
move before it, if they follow from nothing that the loop finds: meanwhile others tell something.
What is told before the loop is told as early as before.

Needs nothing; before layouts.
"""

from __future__ import annotations

from tritonc.analysis.row_loops import asks
from tritonc.analysis.values import slice_of
from tritonc.backend.memory.load_early import COMBINING
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op


def compute_early(kernel: Kernel, context: Context) -> bool:
    """Move them before each such loop, the first loop first."""
    cfg, changed = Cfg(kernel), False
    for loop in sorted(cfg.loops, key=lambda loop: cfg.order.index(loop.header)):
        if loop.preheader is not None and asks(loop):
            changed |= _move(loop, cfg)
    return changed


def _move(loop: Loop, cfg: Cfg) -> bool:
    before = loop.preheader
    assert before is not None
    behind = [block for block in cfg.order if block not in loop and cfg.dominates(
        loop.header, block) and cfg.innermost.get(block) is cfg.innermost.get(before)]
    later = {op: None for block in behind for op in block.ops}
    moved: set[Op] = set()
    for op in later:
        if op.name in COMBINING:
            made = slice_of(op.results)
            own = made & later.keys()
            if all(one.pure and one.name != "phi" for one in own) and all(
                    cfg.dominates(cfg.block_of[one], before) for one in made - own):
                moved |= own
    if moved:
        for block in behind:
            block.ops = [op for op in block.ops if op not in moved]
        before.ops[-1:-1] = [op for op in later if op in moved]
        for op in moved:
            cfg.block_of[op] = before
    return bool(moved)
