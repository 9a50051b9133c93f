"""fetch_late: what a loop makes for its next iteration of what else goes there is made in that one.

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

Counters that repeat another one, as `k` in `i++; k = i * 64;`, are such expressions, too: the loop
then has one counter."""

from functools import cache

from tritonc.analysis.values import attributes_key, changes_memory, int_of, speculatable
from tritonc.ir.cfg import Cfg, Loop, reached
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.numeric.numbers import NotFoldable, evaluate
from tritonc.ir.types import Tile, is_int

_MOST, _MOST_OF_COUNTER = 32, 4  # operations of an expression


def fetch_late(kernel: Kernel, context: Context) -> bool:
    """Do it for all loops."""
    cfg = Cfg(kernel)
    changed = False
    for loop in cfg.loops:
        if loop.preheader is None or loop.latch is None:
            continue
        for phi in loop.header.phis():
            if not isinstance(phi.result.type, Tile):
                changed |= _derive(kernel, loop, phi)
            elif (body := _body(cfg, loop)) is not None:
                changed |= _fetch(kernel, loop, phi, body)
    return changed


def _body(cfg: Cfg, loop: Loop) -> Block | None:
    """Where loads of an iteration may stand, if nothing writes memory in the loop or before it."""
    stays = [block for block in loop.header.successors if block in loop]
    if not loop.one_exit or len(stays) != 1 or stays[0] is loop.header \
            or cfg.predecessors[stays[0]] != [loop.header]:
        return None
    before = reached(loop.blocks, lambda block: cfg.predecessors[block])
    writes = any(changes_memory(op) for block in before for op in block.ops)
    return None if writes else stays[0]


def _derive(kernel: Kernel, loop: Loop, phi: Op) -> bool:
    """Replace a counter that repeats another one."""
    needed = _expression(loop, phi)
    if not 0 < len(needed) <= _MOST_OF_COUNTER or not is_int(phi.result.type) or any(
            isinstance(v.type, Tile) for op in needed for v in (*op.results, *op.operands)) \
            or not all(op.guard is None and speculatable(op) for op in needed):
        return False
    return _replace(kernel, loop, phi, needed, loop.header)


def _fetch(kernel: Kernel, loop: Loop, phi: Op, body: Block) -> bool:
    """Load a tile in the iteration that uses it."""
    inside, needed = set(loop.ops()), _expression(loop, phi)
    if not any(op.name == "load" for op in needed) or any(
            op not in inside or op in loop.header.ops
            for op in uses(kernel).get(phi.result, [])):
        return False  # what was fetched last is used behind the loop
    return _replace(kernel, loop, phi, needed, body)


def _expression(loop: Loop, phi: Op) -> list[Op]:
    """The operations between other phis' next values and this one's, in order; none if others take
    part."""
    found: list[Op] = []
    inside, after = set(loop.ops()), _others(loop, phi)

    def visit(v: Value) -> bool:
        op = v.op
        if v in after or op is None or op not in inside or op in found:
            return True
        if op.name == "phi" or op.attributes.get("volatile") or op.info.may_trap or not (
                op.pure or op.name == "load"):
            return False
        if len(found) > _MOST or not all(map(visit, op.inputs())):
            return False
        found.append(op)
        return True

    return found if visit(loop.next(phi)) and len(found) <= _MOST else []


def _others(loop: Loop, phi: Op) -> dict[Value, Value]:
    """The next values of the other phis, and these."""
    return {loop.next(other): other.result for other in loop.header.phis() if other is not phi}


def _replace(kernel: Kernel, loop: Loop, phi: Op, needed: list[Op], block: Block) -> bool:
    """Compute in `block` what the phi is, if it begins so."""
    mapping = _others(loop, phi)
    made = copy_ops(needed, mapping)
    value = mapping[loop.next(phi)]
    starts = {other.result: loop.first(other) for other in loop.header.phis()}
    if not _same(value, loop.first(phi), starts, {*loop.ops(), *made}):
        return False
    at = len(block.phis())
    block.ops[at:at] = made
    value.name = value.name or phi.result.name
    loop.header.ops.remove(phi)
    kernel.replace({phi.result: value})
    return True


def _same(value: Value, start: Value, starts: dict[Value, Value], inside: set[Op]) -> bool:
    """Whether `value`, in the first iteration, where phis have their `starts`, is computed as
    `start` is, or is the same number."""
    @cache
    def same(a: Value, b: Value) -> bool:
        a = starts.get(a, a)
        x, y = a.op, b.op
        if x is None or y is None or x not in inside:
            return a is b
        return x.name == y.name and a.type == b.type \
            and (x.name == "load" if not x.pure else x.name != "phi") \
            and attributes_key(x.attributes) == attributes_key(y.attributes) \
            and x.results.index(a) == y.results.index(b) \
            and (x.guard is None) == (y.guard is None) \
            and len(x.operands) == len(y.operands) and all(map(same, x.inputs(), y.inputs()))

    @cache
    def number(a: Value) -> int | None:
        a = starts.get(a, a)
        if a.op is None or a.op not in inside or a.op.name in ("constant", "phi"):
            return int_of(a)
        known = [n for n in map(number, a.op.operands) if n is not None]
        try:
            return int(evaluate(a.op.info, a.op, known)[0]) if len(known) == len(
                a.op.operands) and not isinstance(a.type, Tile) else None
        except NotFoldable:
            return None

    first = int_of(start)
    return same(value, start) or (first is not None and number(value) == first)
