"""fetch_late: what a loop loads for its next iteration is loaded in that iteration.

Before:  %a0 = load %p0                        After:
  head:  %a = phi [%a0], [%a1]                   head:
         %p = phi [%p0], [%p1]                          %p = phi [%p0], [%p1]
  body:  use of %a                               body:  %a = load %p
         %p1 = addptr %p, 64                            use of %a
         %a1 = load %p1                                 %p1 = addptr %p, 64

Sources fetch an iteration ahead by hand.  The pipeliner does that itself, as far ahead as memory
wants it, and without holding tiles in registers: but it looks for loads in the iteration that uses
them.  So the load goes there, if what comes back is an expression of what the other phis get next,
if on entry it is what the phi begins with, and if nothing that can run meanwhile writes memory.
Loads of iterations that never come go.
"""

from __future__ import annotations

from functools import cache

from tritonc.analysis.values import attributes_key, changes_memory
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import Tile

_MOST = 32  # operations of an expression


def fetch_late(kernel: Kernel, context: Context) -> bool:
    """Do it for all loops."""
    cfg = Cfg(kernel)
    changed = False
    for loop in cfg.loops:
        if loop.preheader is None or loop.latch is None or not loop.one_exit \
                or not _only_reads(cfg, loop):
            continue
        stays = [block for block in loop.header.successors if block in loop]
        if len(stays) == 1 and stays[0] is not loop.header \
                and cfg.predecessors[stays[0]] == [loop.header]:
            for phi in loop.header.phis():
                changed |= _fetch(kernel, loop, phi, stays[0])
    return changed


def _only_reads(cfg: Cfg, loop: Loop) -> bool:
    """Whether nothing writes memory in the loop, nor on the way to it."""
    before = list(loop.blocks)
    for block in before:
        before += [b for b in cfg.predecessors[block] if b not in before]
    return not any(changes_memory(op) for block in before for op in block.ops)


def _fetch(kernel: Kernel, loop: Loop, phi: Op, body: Block) -> bool:
    if not isinstance(phi.result.type, Tile):
        return False
    inside = set(loop.ops())
    readers = uses(kernel).get(phi.result, [])
    if any(op not in inside or op in loop.header.ops for op in readers):
        return False  # what was fetched last is used behind the loop
    after = {loop.next(other): other.result for other in loop.header.phis() if other is not phi}
    needed = _expression(loop.next(phi), inside, after)
    if not any(op.name == "load" for op in needed):
        return False
    mapping = dict(after)
    made = copy_ops(needed, mapping)
    value = mapping[loop.next(phi)]
    starts = {other.result: loop.first(other) for other in loop.header.phis()}
    if not _same(value, loop.first(phi), starts, inside.union(made)):
        return False
    at = len(body.phis())
    body.ops[at:at] = made
    value.name = value.name or phi.result.name
    loop.header.ops.remove(phi)
    kernel.replace({phi.result: value})
    return True


def _expression(value: Value, inside: set[Op], after: dict[Value, Value]
                ) -> list[Op]:
    """The operations between phis' next values and `value`, in order; none if others take part."""
    found: list[Op] = []
    seen: set[Op] = set()

    def visit(v: Value) -> bool:
        op = v.op
        if v in after or op is None or op not in inside or op in seen:
            return True
        if op.name == "phi" or op.attributes.get("volatile") or op.info.may_trap or not (
                op.pure or op.name == "load"):
            return False
        seen.add(op)
        if not all(map(visit, op.inputs())):
            return False
        found.append(op)
        return True

    return found if visit(value) and len(found) <= _MOST else []


def _same(value: Value, start: Value, starts: dict[Value, Value], inside: set[Op]) -> bool:
    """Whether `value`, in the first iteration, where phis have their `starts`, is computed as
    `start` is."""
    @cache
    def same(a: Value, b: Value) -> bool:
        a = starts.get(a, a)
        x, y = a.op, b.op
        if a is b and x not in inside:
            return True
        return x is not None and y is not None and x.name == y.name and a.type == b.type \
            and (x.name == "load" if not x.pure else x.name != "phi") \
            and attributes_key(x.attributes) == attributes_key(y.attributes) \
            and x.results.index(a) == y.results.index(b) \
            and (x.guard is None) == (y.guard is None) \
            and len(x.operands) == len(y.operands) and all(map(same, x.inputs(), y.inputs()))

    return same(value, start)
