"""alternate_registers: unrolls a loop by two, so that products in flight use other registers.

Before:  header: %h = phi [%zero], [%w]         After:  header: %h = phi [%zero], [%w2]
                 cond_br %c, body, exit                         cond_br %c, body, leave
         body:   %w = pack %a                            body:   %w = pack %a
                 %d = wgmma %a, ...                              %d = wgmma %a, ...
                 %e = wgmma_wait %d, %h                          %e = wgmma_wait %d, %h
                 br header                                       br header.2
                                                        header.2: cond_br %c2, body.2, leave
                                                        body.2: %w2 = pack %a2
                                                                %d2 = wgmma %a2, ...
                                                                %e2 = wgmma_wait %d2, %w
                                                                br header

A product in flight reads its operand from registers, which must stay until it is waited for, an
iteration later.  There the threads compute the next operand already, in other registers; what is in
flight cannot be moved.  So each of two iterations has registers of its own.

So it is with what `load_ahead` loads iterations ahead: to move it on from one register to the next
is to wait for it.  Such a loop has as many iterations one behind the other as it has registers of a
load (`repeat_loop`).

Last of all: to other passes a loop is one iteration.
"""

from __future__ import annotations

from tritonc.backend.pipeline.repeat_loop import repeat_loop
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.ir.cfg import Cfg, Loop, incoming, make_phi, redirect
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_blocks, copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import Tile

MOST_OPS = 150  # of a loop that is repeated for its loads


def alternate_registers(kernel: Kernel, context: Context) -> bool:
    """Double the loops in which a wait holds registers of the iteration before, and repeat those
    that load ahead."""
    changed = False
    for loop in Cfg(kernel).loops:
        phis = {phi.result for phi in loop.header.phis()}
        held = any(op.name == "wgmma_wait" and "held" in op.attributes
                   and phis.intersection(op.operands[-op.attributes["held"]:])
                   for op in loop.ops())
        if held and loop.latch is not None and [e[0] for e in loop.exits] == [loop.header] \
                and any(op.name == "wgmma_wait" for op in loop.exits[0][1].ops):
            _double(kernel, loop)
            changed = True
        elif ahead := _iterations_ahead(loop):
            repeat_loop(kernel, loop, ahead + 1)
            changed = True
    return changed


def _iterations_ahead(loop: Loop) -> int:
    """How many iterations wait between the load of a tile and its use; 0 for loops of products, of
    recurrences, which wait for each other anyway, and where nothing is gained."""
    ops = list(loop.ops())
    if loop.latch is None or [edge[0] for edge in loop.exits] != [loop.header] or \
            len(ops) > MOST_OPS or any(op.name in (*DOTS, "reduce", "scan") for op in ops):
        return 0
    following = {phi.result: incoming(phi, loop.latch) for phi in loop.header.phis()}
    longest = 0
    for value in following:
        steps = 0
        while value in following and isinstance(value.type, Tile) and steps < len(following):
            value, steps = following[value], steps + 1
        if value.op is not None and value.op.name == "load" and value.op in ops:
            longest = max(longest, steps)
    return longest


def _double(kernel: Kernel, loop: Loop) -> None:
    header, latch, (_, leave) = loop.header, loop.latch, loop.exits[0]
    assert latch is not None
    inside = set(loop.ops())
    copies, mapping = copy_blocks(loop.blocks, ".2")
    second = dict(zip(loop.blocks, copies, strict=True))
    phis = header.phis()
    following = {phi.result: incoming(phi, latch) for phi in phis}
    # The second iteration begins with what the first one leaves.
    begins = {mapping[phi.result]: following[phi.result] for phi in phis}
    second[header].ops = second[header].ops[len(phis):]
    for block in copies:
        for op in block.ops:
            op.replace_inputs(begins)
    after = {value: begins.get(new, new) for value, new in mapping.items()}
    for phi in phis:
        at = phi.blocks.index(latch)
        phi.blocks[at] = second[latch]
        phi.operands[at] = after.get(following[phi.result], following[phi.result])
    redirect(latch, header, second[header])
    redirect(second[latch], second[header], header)
    readers = uses(kernel)
    inside |= {op for block in copies for op in block.ops}
    at = 1 + max(kernel.blocks.index(block) for block in loop.blocks)
    kernel.blocks[at:at] = copies
    # Each iteration's registers are waited for where they are, before both ways out meet.
    number = len(leave.phis())
    end = 1 + next(i for i, op in enumerate(leave.ops) if op.name == "wgmma_wait")
    waiting = leave.ops[number:end]
    leave.ops[number:end] = []
    known = [{}, dict(after)]
    edges = [Block(f"{leave.name}.{i}") for i in (1, 2)]
    for edge, mapping, source in zip(edges, known, (header, second[header]), strict=True):
        edge.ops = [*copy_ops(waiting, mapping), Op("br", [], {}, (), blocks=[leave])]
        redirect(source, leave, edge)
    at = kernel.blocks.index(leave)
    kernel.blocks[at:at] = edges
    for phi in leave.phis():
        phi.operands = [mapping.get(v, v) for v in phi.operands for mapping in known]
        phi.blocks = edges
    replaced: dict[Value, Value] = {}
    for op in (*header.ops, *waiting):
        for value in op.results:
            if any(reader not in inside and reader not in waiting
                   for reader in readers.get(value, ())):
                replaced[value] = make_phi([mapping.get(value, value) for mapping in known],
                                           edges, value.name).result
    kept = {op for edge in edges for op in edge.ops} | inside
    for op in kernel.ops():
        if op not in kept:
            op.replace_inputs(replaced)
    leave.ops[:0] = [value.op for value in replaced.values() if value.op is not None]
