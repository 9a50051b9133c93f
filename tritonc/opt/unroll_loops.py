"""A loop of a few iterations, whose number is known, becomes straight code.

    head: %s = phi [0, pre], [%s1, body]            X with %s = 0
          cond_br (%s < 2), body, exit       ->     X with %s = 1
    body: X   %s1 = add %s, 1   br head             br exit

Loops of one iteration always; others if their body, repeated, stays small, as around a product in
a loop of its own, which would otherwise not be the innermost one, nor have a constant in the place
of the counter.  The number is found by counting, exactly as the program would.

Needs preheaders and single latches.  What constants in the place of counters decide is folded here,
so that the passes below see what is left.
"""

from __future__ import annotations

from tritonc.analysis.values import defined_by, int_of, wrap
from tritonc.ir.cfg import Cfg, Loop, incoming, redirect
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.numbers import compare_int
from tritonc.ir.types import Scalar
from tritonc.opt.cse import cse
from tritonc.opt.dce import dce
from tritonc.opt.fold_constants import fold_constants
from tritonc.opt.peephole import peephole
from tritonc.opt.simplify_cfg import simplify_cfg

MOST_ITERATIONS = 4  # around a product, and
MOST_OPERATIONS = 160  # of all iterations together; about two products with their masks
ITERATIONS, OPERATIONS = 8, 256  # without a product, such as the taps of a filter
_FREE = frozenset({"constant", "splat", "reshape", "broadcast", "cmpp", "phi", "br", "cond_br"})


def unroll_loops(kernel: Kernel, context: Context) -> bool:
    """Unroll the innermost loops that are short enough, until none is."""
    changed = False
    while _unroll_one(kernel):
        while _unroll_one(kernel):
            pass
        for clean in (fold_constants, peephole, simplify_cfg, cse, dce):
            clean(kernel, context)
        changed = True
    return changed


def _unroll_one(kernel: Kernel) -> bool:
    cfg = Cfg(kernel)
    outer = {loop.parent for loop in cfg.loops}
    for loop in cfg.loops:
        if loop in outer or loop.preheader is None or loop.latch is None \
                or loop.latch is loop.header or len(loop.exits) != 1 \
                or loop.exits[0][0] is not loop.header:
            continue
        ops = [op for block in loop.blocks for op in block.ops]
        product = any(op.name == "dot" for op in ops)
        count = iterations(loop, MOST_ITERATIONS if product else ITERATIONS)
        size, most = len(ops), MOST_OPERATIONS
        if not product:
            size, most = sum(op.name not in _FREE for op in ops), OPERATIONS
        if count is not None and (count < 2 or count * size <= most):
            _unroll(kernel, loop, count)
            return True
    return False


def iterations(loop: Loop, most: int) -> int | None:
    """How often the body runs, if that is a number up to `most`."""
    assert loop.preheader is not None and loop.latch is not None
    end = loop.header.terminator
    test = defined_by(end.operands[0], "icmp") if end.name == "cond_br" else None
    if test is None:
        return None
    phis = [v.op for v in test.operands if v.op in loop.header.phis()]
    if len(phis) != 1 or phis[0] is None:
        return None
    phi = phis[0]
    t = phi.result.type
    moved = incoming(phi, loop.latch).op
    start = int_of(incoming(phi, loop.preheader))
    if start is None or moved is None or moved.name not in ("add", "sub") \
            or moved.operands[0] is not phi.result or not isinstance(t, Scalar):
        return None
    step = int_of(moved.operands[1])
    others = [int_of(v) for v in test.operands if v is not phi.result]
    if step is None or len(others) != 1 or others[0] is None:
        return None
    stay, value = end.blocks[0] in loop, start
    for count in range(most + 1):
        a, b = (value if v is phi.result else others[0] for v in test.operands)
        if compare_int(test, a, b) is not stay:
            return count
        value = wrap(value + (step if moved.name == "add" else -step), t.bits)
    return None


def _unroll(kernel: Kernel, loop: Loop, count: int) -> None:
    """Copies of the loop's blocks, one after the other; the header stays behind the last."""
    assert loop.preheader is not None and loop.latch is not None
    header, source = loop.header, loop.preheader
    values = {phi.result: incoming(phi, loop.preheader) for phi in header.phis()}
    made: list[Block] = []
    for number in range(count):
        copies = {block: Block(f"{block.name}.{number}") for block in loop.blocks}
        mapping: dict[Value, Value] = dict(values)
        for block in loop.blocks:
            ops = block.ops[len(block.phis()):] if block is header else block.ops
            copies[block].ops = copy_ops(ops, mapping, {**copies, header: header})
        for block in copies.values():
            for op in block.ops:
                op.replace_inputs(mapping)  # a phi reads what comes later
        for op in (op for block in copies.values() for op in block.phis()):
            op.blocks = [copies.get(b, b) for b in op.blocks]
        end = copies[header].terminator
        copies[header].ops[-1] = Op("br", [], span=end.span, blocks=[
            copies[next(b for b in header.successors if b in loop)]])
        redirect(source, header, copies[header])
        source = copies[loop.latch]
        latched = {phi.result: incoming(phi, loop.latch) for phi in header.phis()}
        values = {phi: mapping.get(v, v) for phi, v in latched.items()}
        made += copies.values()
    at = kernel.blocks.index(header)
    gone = {block for block in loop.blocks if block is not header}
    kernel.blocks[at:at] = made
    kernel.blocks = [block for block in kernel.blocks if block not in gone]
    header.ops = header.ops[len(header.phis()):]
    leave = loop.exits[0][1]
    header.ops[-1] = Op("br", [], span=header.terminator.span, blocks=[leave])
    kernel.replace(values)
