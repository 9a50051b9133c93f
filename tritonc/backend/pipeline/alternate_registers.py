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
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel
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
        if held and loop.latch is not None and loop.one_exit \
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
    if loop.latch is None or not loop.one_exit or \
            len(ops) > MOST_OPS or any(op.name in (*DOTS, "reduce", "scan") for op in ops):
        return 0
    following = {phi.result: loop.next(phi) for phi in loop.header.phis()}
    longest = 0
    for value in following:
        steps = 0
        while value in following and isinstance(value.type, Tile) and steps < len(following):
            value, steps = following[value], steps + 1
        if value.op is not None and value.op.name == "load" and value.op in ops:
            longest = max(longest, steps)
    return longest


def _double(kernel: Kernel, loop: Loop) -> None:
    """Each iteration's registers are waited for where they are, before both ways out meet."""
    leave = loop.exits[0][1]
    number = len(leave.phis())
    end = 1 + next(i for i, op in enumerate(leave.ops) if op.name == "wgmma_wait")
    waiting = leave.ops[number:end]
    leave.ops[number:end] = []
    repeat_loop(kernel, loop, 2, waiting)
