"""Several iterations of a loop, one behind the other, as one iteration of a longer loop.

Before:  header: %v = phi [%v0], [%w]           After:  header:   %v = phi [%v0], [%w.3]
                 cond_br %c, body, leave                          cond_br %c, body, joined
         body:   %w = ... %v                            body:     %w = ... %v
                 br header                                        br header.2
         leave:  ... %v                                 header.2: cond_br %c.2, body.2, joined
                                                        body.2:   %w.2 = ... %w
                                                                  br header
                                                        joined:   %v.1 = phi [%v], [%w]
                                                        leave:    ... %v.1

Each iteration tests whether it comes, so that their number may be any.
"""

from __future__ import annotations

from tritonc.ir.cfg import Loop, incoming, make_phi, redirect
from tritonc.ir.copies import copy_blocks, copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value


def repeat_loop(kernel: Kernel, loop: Loop, times: int, behind: list[Op] | None = None) -> None:
    """Make `times` iterations of one; the loop is left from its header alone.  `behind`: what each
    way out does by itself, before they meet."""
    header, latch, ((source, leave),) = loop.header, loop.latch, loop.exits
    assert latch is not None and source is header and times > 1
    phis = header.phis()
    following = [incoming(phi, latch) for phi in phis]
    left: list[tuple[Block, dict[Value, Value]]] = [(header, {})]  # what is known at each way out
    made: list[Block] = []
    now: dict[Value, Value] = {}  # values of the first iteration as the last one has them
    last = latch
    for copies, mapping in [copy_blocks(loop.blocks, f".{n}") for n in range(2, times + 1)]:
        first = copies[loop.blocks.index(header)]
        starts = {mapping[phi.result]: now.get(value, value)
                  for phi, value in zip(phis, following, strict=True)}
        first.ops = first.ops[len(phis):]
        for block in copies:
            for op in block.ops:
                op.replace_inputs(starts)
        now = {value: starts.get(new, new) for value, new in mapping.items()}
        redirect(last, header, first)
        last = copies[loop.blocks.index(latch)]
        redirect(last, first, header)
        left.append((first, now))
        made += copies
    for phi, value in zip(phis, following, strict=True):
        at = phi.blocks.index(latch)
        phi.blocks[at], phi.operands[at] = last, now.get(value, value)
    inside = {op for block in (*loop.blocks, *made) for op in block.ops}
    joined = Block(f"{leave.name}.joined")
    edges = [Block(f"{leave.name}.{i}") for i in range(len(left)) if behind]
    for (block, known), edge in zip(left, edges or [joined] * len(left), strict=True):
        redirect(block, leave, edge)
        if behind:
            edge.ops = [*copy_ops(behind, known), Op("br", [], {}, (), blocks=[joined])]
    replaced: dict[Value, Value] = {}
    for op in (*header.ops, *(behind or ())):
        for value in op.results:
            if any(value in reader.inputs() for block in kernel.blocks for reader in block.ops
                   if reader not in inside):
                phi = make_phi([known.get(value, value) for _, known in left],
                               edges or [block for block, _ in left], value.name)
                replaced[value] = phi.result
                joined.ops.append(phi)
    joined.ops.append(Op("br", [], {}, (), blocks=[leave]))
    for op in kernel.ops():
        if op not in inside:
            op.replace_inputs(replaced)
    for phi in leave.phis():
        phi.blocks = [joined if block is header else block for block in phi.blocks]
    at = 1 + max(kernel.blocks.index(block) for block in loop.blocks)
    kernel.blocks[at:at] = [*made, *edges, joined]
