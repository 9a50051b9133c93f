"""leave_early: a loop ends where a test around all of its work has failed for good.

Before:  head: %n = phi [0], [%n1]               After:  head: %n = phi [0], [%n1]
               %v = phi [%v0], [%v2]                           %v = phi [%v0], [%v1]
               %c = icmp %n, %S   cond_br %c, b, out           %c = icmp %n, %S   cond_br %c, b, out
         b:    %t = icmp %n, %end                        b:    %t = icmp %n, %end
               cond_br %t, work, next                          cond_br %t, work, out
         work: %v1 = ...          br next                work: %v1 = ...          br next
         next: %v2 = phi [%v, b], [%v1, work]            next: %n1 = add %n, 64   br head
               %n1 = add %n, 64   br head

`for (n = 0; n < S; n += 64) if (n < end) ...`, as one writes a causal mask.  A counter that has
passed a bound stays beyond it: it wraps only where the work would then use an index that wrapped,
which no program may.  Nothing but counters changes once the test fails, and no one reads those
behind the loop.  `unify_exits` makes one test of both; loops of one block are pipelined."""

from tritonc.analysis.counters import step_of
from tritonc.analysis.values import defined_by, int_of, slice_of, speculatable
from tritonc.ir.cfg import Cfg, Loop, add_incoming, incoming, redirect, remove_edge
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Value
from tritonc.ir.ops import OPPOSITE, READ, SWAPPED
from tritonc.ir.types import Scalar, is_pointer


def leave_early(kernel: Kernel, context: Context) -> bool:
    """Let each such test leave its loop."""
    changed = False
    cfg = Cfg(kernel)
    for loop in cfg.loops:
        if loop.preheader is None or loop.latch is None or loop.header is loop.latch:
            continue
        block = _test_around(cfg, loop)
        out = next((to for source, to in loop.exits if source is loop.header), None)
        if block is None or out is None or not _only_counts(cfg, loop, block):
            continue
        for phi in out.phis():
            add_incoming(phi, incoming(phi, loop.header), block)
        remove_edge(block, loop.latch)
        redirect(block, loop.latch, out)
        changed = True
    return changed


def _test_around(cfg: Cfg, loop: Loop) -> Block | None:
    """The block behind the header whose test passes all else by, if that stays so."""
    inside = [to for to in loop.header.successors if to in loop]
    if len(inside) != 1 or cfg.predecessors[inside[0]] != [loop.header]:
        return None
    block = inside[0]
    end = block.terminator
    if end.name != "cond_br" or loop.latch not in end.blocks or end.blocks[0] is end.blocks[1] \
            or any(not op.pure and (op.effects != {READ} or op.attributes.get("volatile"))
                   for op in (*loop.header.ops[:-1], *block.ops[:-1])):
        return None
    test = defined_by(end.operands[0], "icmp")
    return block if test is not None and _fails_for_good(
        loop, test.operands, test.attributes["predicate"], end.blocks[1] is loop.latch) else None


def _fails_for_good(loop: Loop, sides: list[Value], predicate: str, holds: bool) -> bool:
    """Whether a comparison, or its opposite, of a counter with what does not change fails from some
    iteration on."""
    a, b = sides
    if not holds:
        predicate = OPPOSITE[predicate]
    if step := _step(loop, b):
        a, b, predicate = b, a, SWAPPED[predicate]
    else:
        step = _step(loop, a)
    fixed = not any(b in op.results for op in loop.ops())
    return fixed and bool(step) and predicate in (
        ("slt", "sle") if step > 0 else ("sgt", "sge"))


def _step(loop: Loop, value: Value) -> int:
    """By how much a scalar counter moves, or a multiple of one from which the work's addresses
    follow; 0 if the value is neither."""
    op = value.op
    if op is None or not isinstance(value.type, Scalar):
        return 0
    if op in loop.header.phis():
        return step_of(loop, op) or 0
    factor = int_of(op.operands[1]) if op.name == "mul" else None
    if factor is None or factor <= 0 or op.operands[0].op not in loop.header.phis():
        return 0
    inside = set(loop.ops())
    pointers = [v for one in inside if one.effects for v in one.operands if is_pointer(v.type)]
    return _step(loop, op.operands[0]) if op in slice_of(pointers, inside, ("phi",)) else 0


def _only_counts(cfg: Cfg, loop: Loop, block: Block) -> bool:
    """Whether an iteration that is passed by changes counters alone, unread behind the loop."""
    latch = loop.latch
    assert latch is not None
    if not all(op.name == "phi" or speculatable(op) for op in latch.ops[:-1]) \
            or len(cfg.predecessors[latch]) != 2:
        return False
    read = {v for other in cfg.order if other not in loop for op in other.ops for v in op.inputs()}
    if any(v in read for op in loop.header.ops if op.name != "phi" for v in op.results):
        return False
    for phi in loop.header.phis():
        after = incoming(phi, latch)
        if after.op in latch.phis() and incoming(after.op, block) is phi.result:
            continue
        if not step_of(loop, phi) or phi.result in read:
            return False
    return True
