"""Fewer blocks and branches.

    a: br b         b (only from a): X         ->  a: X
    a: br b         b: br c  (nothing else)    ->  a: br c
    cond_br %c, b, b                           ->  br b

An empty block before a loop's header stays: it is the loop's preheader or its only latch."""

from tritonc.ir.build import until_unchanged
from tritonc.ir.cfg import Cfg, follow, incoming, redirect, remove_unreachable
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value


def simplify_cfg(kernel: Kernel, context: Context) -> bool:
    """Apply the rules above until none applies."""
    changed = remove_unreachable(kernel)
    return until_unchanged(lambda: _simplify_branches(kernel) or _skip_empty(kernel)
                           or merge_chains(kernel)) or changed


def _simplify_branches(kernel: Kernel) -> bool:
    changed = False
    for block in kernel.blocks:
        op = block.terminator
        if op.name == "cond_br" and op.blocks[0] is op.blocks[1]:
            block.ops[-1] = Op("br", [], span=op.span, blocks=[op.blocks[0]])
            changed = True
    return changed


def merge_chains(kernel: Kernel) -> bool:
    """Append each block to its only predecessor, if that leads nowhere else."""
    cfg = Cfg(kernel)
    merged: dict[Block, Block] = {}  # a block that is gone, and the one that has its operations
    mapping: dict[Value, Value] = {}
    for block in cfg.order[1:]:
        sources = cfg.predecessors[block]
        if len(sources) != 1:
            continue
        source = merged.get(sources[0], sources[0])
        if source is block or source.terminator.name != "br":
            continue
        phis = block.phis()
        for op in phis:
            mapping[op.result] = op.operands[0]
        source.ops[-1:] = block.ops[len(phis):]
        for successor in source.successors:
            follow(successor, block, source)
        merged[block] = source
    if merged:
        kernel.blocks = [block for block in kernel.blocks if block not in merged]
        kernel.replace(mapping)
    return bool(merged)


def _skip_empty(kernel: Kernel) -> bool:
    """Let branches to a block that only branches on go where it goes."""
    cfg = Cfg(kernel)
    predecessors, headers = dict(cfg.predecessors), {loop.header for loop in cfg.loops}
    place = {block: i for i, block in enumerate(kernel.blocks)}
    gone: set[Block] = set()
    for block in cfg.order[1:]:
        if len(block.ops) != 1 or block.terminator.name != "br":
            continue
        target = block.terminator.blocks[0]
        if target is block or target in headers:
            continue
        sources = predecessors[block]
        if any(target in source.successors for source in sources) and target.phis():
            continue  # two edges from one block would need two operands of a phi
        for op in target.phis():
            value = incoming(op, block)
            remove = op.blocks.index(block)
            op.operands[remove:remove + 1] = [value] * len(sources)
            op.blocks[remove:remove + 1] = sources
        for source in sources:
            redirect(source, block, target)
        gone.add(block)
        predecessors[target] = sorted({*predecessors[target], *sources} - {block},
                                      key=place.__getitem__)
        if block in headers:
            headers.add(target)
    kernel.blocks = [block for block in kernel.blocks if block not in gone]
    return bool(gone)

