"""Loop-invariant code motion: what is the same in each iteration is computed before the loop.

    body: %m = icmp slt %rows, %n    ->   preheader: %m = icmp slt %rows, %n

An operation is invariant if all it reads is.  It may leave the loop

- if it is pure and cannot trap: a scalar always; a tile only from a block that each iteration
  passes, as its work would be wasted where the loop passes by;
- if it reads global memory or may trap: only from a block that is passed before the loop can be
  left, and a load only if nothing in the loop writes memory or orders accesses; and not past
  what prints or may end the program.

Constants, ranges, splats, broadcasts and reshapes of tiles are not worth a register for the length
of the loop; they leave it only with an operation that reads them and does work.  The backend makes
them anew in either place.

Needs preheaders (`canonicalize_loops`).  Inner loops come first, so that an operation may leave
several."""

from tritonc.analysis.values import changes_memory, slice_of, speculatable
from tritonc.ir import rules
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op
from tritonc.ir.ops import OUTPUT, READ
from tritonc.ir.types import Tile

_CHEAP = (rules.stated_type, rules.make_range, rules.splat, rules.broadcast, rules.reshape)
_LOADS = frozenset({READ})


def licm(kernel: Kernel, context: Context) -> bool:
    """Move invariant operations to preheaders."""
    cfg = Cfg(kernel)
    changed = False
    for loop in reversed(cfg.loops):
        if loop.preheader is not None:
            changed |= _hoist(cfg, loop, loop.preheader)
    return changed


def _hoist(cfg: Cfg, loop: Loop, preheader: Block) -> bool:
    block_of, writes = cfg.block_of, any(map(changes_memory, loop.ops()))
    ends = any(OUTPUT in op.effects for op in loop.ops())
    invariant: dict[Op, None] = {}
    roots: list[Op] = []
    for block in loop.blocks:
        each_time = all(cfg.dominates(block, latch) for latch in loop.latches)
        first = (each_time and not ends
                 and all(cfg.dominates(block, source) for source, _ in loop.exits))
        for op in block.ops:
            if op.name == "phi" or not _may_leave(op, first, writes):
                continue
            if any(v.op is not None and v.op not in invariant and block_of[v.op] in loop.block_set
                   for v in op.inputs()):
                continue
            invariant[op] = None
            tile = any(isinstance(v.type, Tile) for v in op.results)
            if not tile or (each_time and op.info.rule not in _CHEAP):
                roots.append(op)
    leave = slice_of((v for op in roots for v in op.results), invariant)
    if not leave:
        return False
    for block in loop.blocks:
        block.ops = [op for op in block.ops if op not in leave]
    moved = [op for op in invariant if op in leave]
    preheader.ops[-1:-1] = moved
    block_of.update(dict.fromkeys(moved, preheader))
    return True


def _may_leave(op: Op, first: bool, writes: bool) -> bool:
    if not op.results:
        return False
    if speculatable(op):
        return True
    if op.effects == _LOADS:
        return first and not writes and not op.attributes.get("volatile", False)
    return first and op.pure
