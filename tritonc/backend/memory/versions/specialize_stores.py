"""specialize_stores: versioning of a store behind a loop, if it can be wide.

Before:  exit: store %q, %sum            After:  exit: %ok = (%Q | ..) % 4 == 0
                                                       cond_br %ok, fast, general
                                                 fast:    store of 16 bytes each
                                                 general: the store as it was

Whether the pixels of an image lie in runs of four depends on its width, and a body that assumes so
from the start is lost for all others, with the copies of its loops.  So what is assumed for stores
alone is tested where they stand.  Their addresses are computed anew there, of what is assumed; the
assembler's compiler finds what is the same.  Atomics that add floats are such stores, too.

After specialize, for addresses whose runs are remainders: what else they need, it has tested."""

from tritonc.analysis.multiples import joined
from tritonc.analysis.quotients import gathered
from tritonc.backend.memory.versions.assumed import Assumed
from tritonc.backend.memory.versions.assumed_facts import assumed_of
from tritonc.backend.memory.versions.promises import promise
from tritonc.backend.memory.versions.specialize import add_body
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import shape

_ROOTS = ("phi", "assume_multiple", "get_program_id")


def specialize_stores(kernel: Kernel, context: Context) -> bool:
    """Do it for the stores behind loops, one to a block."""
    cfg = Cfg(kernel)
    if not cfg.loops:
        return False
    behind = [block for block in kernel.blocks if block not in cfg.innermost and any(
        cfg.dominates(loop.header, block) for loop in cfg.loops)]
    changed = False
    for block in behind:
        stores = [op for op in block.ops if op.name == "store" or "wide" in op.attributes]
        if len(stores) != 1 or block.terminator.name != "ret":
            continue
        loads = [op for op in block.ops if op.name == "load" and shape(op.result.type)]
        found, gathers = Assumed(), any(op.name == "dot" and gathered(op) for op in kernel.ops())
        for op in (*stores, *loads):
            found.multiples = joined(found.multiples, assumed_of(kernel, op, gathers))
        available = all(v.op is None or cfg.dominates(cfg.block_of[v.op], block)
                        for v in found.multiples)
        if found.multiples and available:
            at = _addressed_here(cfg, block, [*loads, *stores], found)
            context.remark("specialize", promise(found), stores[0].span)
            add_body(kernel, found, (block, at))
            changed = True
    return changed


def _addressed_here(cfg: Cfg, block: Block, accesses: list[Op], found: Assumed) -> int:
    """Compute the accesses' addresses and masks in their block, from what is assumed and what loops
    or memory give; the place where that begins."""
    needed: list[Op] = []
    seen: set[Op] = set()
    stack = [(v.op, False) for access in accesses
             for v in (access.operands[0], access.guard) if v is not None]
    while stack:
        op, done = stack.pop()
        if op is None or any(result in found.multiples for result in op.results):
            continue
        if done:
            needed.append(op)
        elif op not in seen and op.name not in _ROOTS and op.pure \
                and cfg.block_of[op] not in cfg.innermost:
            seen.add(op)
            stack.append((op, True))
            stack += [(v.op, False) for v in op.inputs()]
    read = {v.op for op in needed for v in op.inputs()} | {v.op for v in found.multiples}
    at = max([len(block.phis()), *(
        i + 1 for i, op in enumerate(block.ops) if op in read and op not in needed)])
    mapping: dict[Value, Value] = {}
    made = copy_ops(needed, mapping)
    for access in accesses:
        access.operands[0] = mapping.get(access.operands[0], access.operands[0])
        if access.guard is not None:
            access.guard = mapping.get(access.guard, access.guard)
    block.ops[at:at] = made
    return at
