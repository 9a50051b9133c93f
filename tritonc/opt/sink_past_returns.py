"""what an early return does not need is computed after it.

    a: %x = ...   %c = ...                   a: %c = ...
       cond_br %c, out, b          ->           cond_br %c, out, b
    b: ...                                   b: %x = ...   ...
    out: ret                                 out: ret

A test of parameters alone then stands alone, and the blocks of a persistent launch make it once
(`group_instances`).
"""

from __future__ import annotations

from tritonc.analysis.values import slice_of
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op
from tritonc.ir.ops import READ

_READS = frozenset({READ})


def sink_past_returns(kernel: Kernel, context: Context) -> bool:
    """Sink below each branch of which one side only returns."""
    cfg = Cfg(kernel)
    changed = False
    for block in reversed(cfg.order):
        end = block.terminator
        if end.name != "cond_br" or end.blocks[0] is end.blocks[1]:
            continue
        going = [to for to in end.blocks if [op.name for op in to.ops] != ["ret"]]
        if len(going) == 1 and cfg.predecessors[going[0]] == [block] and not going[0].phis():
            changed |= _sink(block, going[0])
    return changed


def _sink(block: Block, target: Block) -> bool:
    needed = slice_of(block.terminator.operands)
    sunk: list[Op] = []
    for op in reversed(block.ops[:-1]):
        if op.name == "phi" or not op.effects <= _READS or op.attributes.get("volatile"):
            break
        if op not in needed:
            sunk.insert(0, op)
    gone = set(sunk)
    block.ops = [op for op in block.ops if op not in gone]
    target.ops[:0] = sunk
    return bool(sunk)
