"""Fewer blocks and branches.

    a: br b         b (only from a): X         ->  a: X
    a: br b         b: br c  (nothing else)    ->  a: br c
    cond_br %c, b, b                           ->  br b
    cond_br (not %c), a, b                     ->  cond_br %c, b, a
    b: %p = phi [true, a], [%x, d]             ->  a: br c
       cond_br %p, c, e                            b: %p = phi [%x, d] ...

The last is jump threading through a block of phis and a branch, which is what `&&` and `||` leave.
The header of a loop keeps a negated condition, where it goes on while that holds.
An empty block before a loop's header stays: it is the loop's preheader or its only latch.
"""

from __future__ import annotations

from tritonc.analysis.values import constant_of, defined_by
from tritonc.ir.cfg import (
    Cfg,
    Loop,
    add_incoming,
    incoming,
    redirect,
    remove_edge,
    remove_unreachable,
)
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses


def simplify_cfg(kernel: Kernel, context: Context) -> bool:
    """Apply the rules above until none applies."""
    changed = remove_unreachable(kernel)
    while (_simplify_branches(kernel) or _thread_jumps(kernel) or _skip_empty(kernel)
           or merge_chains(kernel)):
        changed = True
    return changed


def _simplify_branches(kernel: Kernel) -> bool:
    changed = False
    headers: dict[Block, Loop] | None = None
    for block in kernel.blocks:
        op = block.terminator
        if op.name != "cond_br":
            continue
        if op.blocks[0] is op.blocks[1]:
            block.ops[-1] = Op("br", [], span=op.span, blocks=[op.blocks[0]])
            changed = True
            continue
        negation = defined_by(op.operands[0], "xor")
        if negation is not None and constant_of(negation.operands[1]):
            if headers is None:
                headers = {loop.header: loop for loop in Cfg(kernel).loops}
            if block in headers and op.blocks[1] not in headers[block]:
                continue  # a loop runs while its condition holds
            op.operands = [negation.operands[0]]
            op.blocks = [op.blocks[1], op.blocks[0]]
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
        for successor in dict.fromkeys(source.successors):
            for op in successor.phis():
                op.blocks = [source if b is block else b for b in op.blocks]
        merged[block] = source
    if merged:
        kernel.blocks = [block for block in kernel.blocks if block not in merged]
        kernel.replace(mapping)
    return bool(merged)


def _skip_empty(kernel: Kernel) -> bool:
    """Let branches to a block that only branches on go where it goes."""
    cfg = Cfg(kernel)
    changed = False
    for block in cfg.order[1:]:
        if len(block.ops) != 1 or block.terminator.name != "br":
            continue
        target = block.terminator.blocks[0]
        if target is block or _is_header(cfg, target):
            continue
        sources = cfg.predecessors[block]
        if any(target in source.successors for source in sources) and target.phis():
            continue  # two edges from one block would need two operands of a phi
        for op in target.phis():
            value = incoming(op, block)
            remove = op.blocks.index(block)
            op.operands[remove:remove + 1] = [value] * len(sources)
            op.blocks[remove:remove + 1] = sources
        for source in sources:
            redirect(source, block, target)
        kernel.blocks.remove(block)
        cfg = Cfg(kernel)
        changed = True
    return changed


def _is_header(cfg: Cfg, block: Block) -> bool:
    """Whether a back edge leads there."""
    at = cfg.index[block]
    return any(cfg.index.get(p, -1) >= at for p in cfg.predecessors[block])


def _thread_jumps(kernel: Kernel) -> bool:
    """Where a predecessor fixes the way a block of phis will branch, go there at once."""
    users: dict[Value, list[Op]] | None = None
    cfg: Cfg | None = None
    for block in kernel.blocks:
        op = block.terminator
        if op.name != "cond_br" or op.blocks[0] is op.blocks[1]:
            continue
        phis = block.phis()
        if len(phis) != len(block.ops) - 1 or not phis or block in op.blocks:
            continue
        chooser = next((p for p in phis if p.result is op.operands[0]), None)
        if chooser is None:
            continue
        known = [(source, constant_of(value))
                 for source, value in zip(chooser.blocks, chooser.operands, strict=True)]
        users = users if users is not None else uses(kernel)
        if not any(number is not None for _, number in known) or not _ends_here(block, users):
            continue
        cfg = cfg or Cfg(kernel)
        if _is_header(cfg, block):
            continue  # its loop shall keep one entry
        for source, number in known:
            if number is None:
                continue
            target = op.blocks[0] if number else op.blocks[1]
            if target in source.successors:
                continue  # that edge exists already; a phi cannot tell the two apart
            for phi in target.phis():
                value = incoming(phi, block)
                own = value.op if value.op in phis else None
                add_incoming(phi, incoming(own, source) if own is not None else value, source)
            redirect(source, block, target)
            remove_edge(source, block)
            remove_unreachable(kernel)
            return True
    return False


def _ends_here(block: Block, users: dict[Value, list[Op]]) -> bool:
    """Whether the block's phis are read only by its branch and by phis for the edges from it."""
    for op in block.phis():
        for user in users.get(op.result, []):
            if user is block.terminator:
                continue
            if user.name != "phi" or user.guard is not None:
                return False
            if any(v is op.result and b is not block
                   for v, b in zip(user.operands, user.blocks, strict=True)):
                return False
    return True
