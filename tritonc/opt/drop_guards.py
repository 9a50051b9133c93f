"""removes a branch around a loop where the loop itself would run no iteration.

    cond_br %g, pre, join                    br pre
    pre:  br head                            pre:  br head
    head: %s = phi [%s0], ...         ->     head: %s = phi [%s0], ...
          cond_br %c, body, join                   cond_br %c, body, join
    join: %r = phi [%s0], [%s]               join: %r = phi [%s]

`%g` is what the loop's own test `%c` says before the first iteration, and where it fails the loop
leaves what the branch around it would have left.  The loop then stands in every run, as pipelines
across the programs of a persistent block need it.

Needs preheaders, and loops with one exit at the header (`unify_exits`).
"""

from __future__ import annotations

from tritonc.analysis.conditions import Turn, first_turn, same_condition
from tritonc.analysis.values import speculatable
from tritonc.ir.cfg import Cfg, Loop, incoming, remove_edge
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op


def drop_guards(kernel: Kernel, context: Context) -> bool:
    """Remove the branches that loops make needless."""
    changed = False
    while _drop_one(kernel):
        changed = True
    return changed


def _drop_one(kernel: Kernel) -> bool:
    cfg = Cfg(kernel)
    for loop in cfg.loops:
        pre, header = loop.preheader, loop.header
        if pre is None or not loop.one_exit:
            continue
        above = cfg.predecessors[pre]
        if len(above) != 1 or not _early(pre) or not _early(header):
            continue
        guard = above[0].terminator
        if guard.name != "cond_br" or guard.blocks[0] is guard.blocks[1]:
            continue
        around = next(block for block in guard.blocks if block is not pre)
        if _same(cfg, loop, guard, around):
            above[0].ops[-1] = Op("br", [], blocks=[pre], span=guard.span)
            remove_edge(above[0], around)
            return True
    return False


def _early(block: Block) -> bool:
    """Whether a block may run where the guard would not have let it."""
    return all(speculatable(op) for op in block.ops[:-1] if op.name != "phi")


def _same(cfg: Cfg, loop: Loop, guard: Op, around: Block) -> bool:
    """Whether the loop, where the guard fails, leaves what the way around it leaves."""
    test, turn = loop.header.terminator, first_turn(loop)
    opposite = (guard.blocks[0] is loop.preheader) is not (test.blocks[0] in loop)
    if not same_condition(test.operands[0], guard.operands[0], turn, opposite=opposite):
        return False
    source, leave = loop.exits[0]
    if leave is not around:  # an empty block between
        if [op.name for op in leave.ops] != ["br"] or leave.successors != [around] \
                or cfg.predecessors[leave] != [source]:
            return False
        source = leave
    if any(not _left(phi, cfg, source, guard, turn) for phi in around.phis()):
        return False
    return source in cfg.predecessors[around]


def _left(phi: Op, cfg: Cfg, source: Block, guard: Op, turn: Turn) -> bool:
    value, other = incoming(phi, source), incoming(phi, cfg.block_of[guard])
    return turn.phis[value] is other if value in turn.phis else (
        value is other and not turn.varies(value))
