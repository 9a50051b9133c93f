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

Each iteration tests whether it comes, so that their number may be any; what is read behind the loop
is a phi of the ways out."""

from tritonc.analysis.column_loops import scans_columns
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.ir.cfg import Cfg, Loop, follow, incoming, make_phi, redirect
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_iterations, copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Tile

MOST_OPS = 150  # of a loop that is repeated for its loads


def alternate_registers(kernel: Kernel, context: Context) -> bool:
    """Double the loops in which a wait holds registers of the iteration before, and repeat those
    that load ahead."""
    changed, cfg = False, Cfg(kernel)
    columns = scans_columns(kernel, cfg)
    for loop in cfg.loops:
        phis = {phi.result for phi in loop.header.phis()}
        held = any(op.name == "wgmma_wait" and "live" in op.attributes
                   and phis.intersection(op.operands[-op.attributes["live"]:])
                   for op in loop.ops())
        if held and loop.regular and any(op.name == "wgmma_wait" for op in loop.exits[0][1].ops):
            _double(kernel, loop)
            changed = True
        elif ahead := _iterations_ahead(loop, columns):
            repeat_loop(kernel, loop, ahead + 1)
            changed = True
    return changed


def _iterations_ahead(loop: Loop, columns: bool) -> int:
    """How many iterations wait between the load of a tile and its use; 0 for loops of products and
    where nothing is gained.  Sums down columns gain, since a move would wait for memory in each
    iteration (320 columns of 43246 rows on an H200: 782 us, 589 so), and where lanes tell each
    other one number of a row 2 %; scans along rows lose 13 %."""
    ops = list(loop.ops())
    names = {op.name for op in ops}
    if not loop.regular or len(ops) > MOST_OPS or names & {*DOTS} or (
            names & {"scan", "scan_with"} and not columns):
        return 0
    following = {phi.result: loop.next(phi) for phi in loop.header.phis()}
    longest = 0
    for value in following:
        steps = 0
        while value in following and isinstance(value.type, Tile) and steps < len(following):
            value, steps = following[value], steps + 1
        if value.op is not None and value.op.name == "load" and value.op in ops:
            longest = max(longest, steps)
    return longest if longest < 2 or columns or "reduce" not in names else 0


def _double(kernel: Kernel, loop: Loop) -> None:
    """Each iteration's registers are waited for where they are, before both ways out meet."""
    leave = loop.exits[0][1]
    number = len(leave.phis())
    end = 1 + next(i for i, op in enumerate(leave.ops) if op.name == "wgmma_wait")
    waiting = leave.ops[number:end]
    leave.ops[number:end] = []
    repeat_loop(kernel, loop, 2, waiting)


def repeat_loop(kernel: Kernel, loop: Loop, times: int, behind: list[Op] | None = None) -> None:
    """Make `times` iterations of one; the loop is left from its header alone.  `behind`: what each
    way out does by itself, before they meet."""
    header, latch, ((source, leave),) = loop.header, loop.latch, loop.exits
    assert latch is not None and source is header and times > 1
    following = {phi.result: incoming(phi, latch) for phi in header.phis()}
    left: list[tuple[Block, dict[Value, Value]]] = [(header, {})]  # what is known at each way out
    made: list[Block] = []
    for copies, now in copy_iterations(loop, range(2, times + 1), latch, following):
        left.append((copies[0], now))
        made += copies
    for phi in header.phis():
        value = following[phi.result]
        phi.operands[phi.blocks.index(latch)] = now.get(value, value)
    follow(header, latch, copies[loop.blocks.index(latch)])
    inside = {op for block in (*loop.blocks, *made) for op in block.ops}
    joined = Block(f"{leave.name}.joined")
    edges = [Block(f"{leave.name}.{i}") for i in range(len(left)) if behind]
    for (block, known), edge in zip(left, edges or [joined] * len(left), strict=True):
        redirect(block, leave, edge)
        if behind:
            edge.ops = [*copy_ops(behind, known), Op("br", [], {}, (), blocks=[joined])]
    replaced: dict[Value, Value] = {}
    read = {value for op in kernel.ops() if op not in inside for value in op.inputs()}
    for op in (*header.ops, *(behind or ())):
        for value in op.results:
            if value in read:
                phi = make_phi([known.get(value, value) for _, known in left],
                               edges or [block for block, _ in left], value.name)
                replaced[value] = phi.result
                joined.ops.append(phi)
    joined.ops.append(Op("br", [], {}, (), blocks=[leave]))
    for op in kernel.ops():
        if op not in inside:
            op.replace_inputs(replaced)
    follow(leave, header, joined)
    at = 1 + max(kernel.blocks.index(block) for block in loop.blocks)
    kernel.blocks[at:at] = [*made, *edges, joined]
