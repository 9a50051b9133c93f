"""A loop of a few iterations, whose number is known, becomes straight code.

    head: %s = phi [0, pre], [%s1, body]            X with %s = 0
          cond_br (%s < 2), body, exit       ->     X with %s = 1
    body: X   %s1 = add %s, 1   br head             br exit

Loops of one iteration always; others if their body, repeated, stays small, as around a product in
a loop of its own, which would otherwise not be the innermost one, nor have a constant in the place
of the counter.  The number is found by counting, exactly as the program would.

`#pragma unroll` decides for its loop (the attribute `unroll` of its test): all iterations, none,
or n of them in a row, if n divides their number, with one test for all.

Needs preheaders and single latches.  What constants in the place of counters decide is folded here,
so that the passes below see what is left."""

from tritonc.analysis import taps
from tritonc.analysis.counters import iterations
from tritonc.ir.cfg import Cfg, Loop, incoming
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_iterations
from tritonc.ir.core import Block, Kernel, Op
from tritonc.opt.cse import cse
from tritonc.opt.dce import dce
from tritonc.opt.fold_constants import fold_constants
from tritonc.opt.peephole import peephole
from tritonc.opt.simplify_cfg import simplify_cfg

MOST_ITERATIONS = 4  # around a product, and
MOST_ASKED = 1024  # of a loop that the source wants unrolled
MOST_COPIED = 20_000  # operations
MOST_OPERATIONS = 160  # of all iterations together; about two products with their masks
ITERATIONS, OPERATIONS = 8, 256  # without a product, such as the taps of a filter
MOST_LOADED = 1 << 14  # elements of all iterations: one copy's addresses and masks stay for all
_FREE = frozenset({"constant", "splat", "reshape", "broadcast", "cmpp", "phi", "br", "cond_br"})


def unroll_loops(kernel: Kernel, context: Context) -> bool:
    """Unroll the innermost loops that are short enough, until none is."""
    changed = False
    while _unroll_one(kernel, context):
        while _unroll_one(kernel, context):
            pass
        for clean in (fold_constants, peephole, simplify_cfg, cse, dce):
            clean(kernel, context)
        changed = True
    return changed


def _unroll_one(kernel: Kernel, context: Context) -> bool:
    for loop in Cfg(kernel).innermost_loops:
        if not loop.regular or loop.latch is loop.header:
            continue
        ops = list(loop.ops())
        test = next((end for block in loop.blocks  # which says how often to unroll it
                     if "unroll" in (end := block.terminator).attributes), None)
        times = None if test is None else test.attributes["unroll"]
        if test is not None and times is not None and times != 1:
            test.attributes["unroll"] = 1
            count, why = _possible(loop, times, len(ops))
            if not why:
                unroll(kernel, loop, count, count if times in (0, count) else times)
                return True
            context.remark("unroll_loops", f"loop not unrolled despite '#pragma unroll': {why}",
                           test.span, missed=True)
        if times is not None:
            continue
        product = any(op.name == "dot" for op in ops)
        few = iterations(loop, MOST_ITERATIONS if product else ITERATIONS)
        close = product and taps.near(loop, ops)  # then copies share addresses and masks
        size, most = len(ops), MOST_OPERATIONS << close
        if not product:
            size, most = sum(op.name not in _FREE for op in ops), OPERATIONS
        if few is not None and (few < 2 or (
                few * size <= most and (
                    taps.few(few * taps.products(ops), few * taps.loaded(ops)) if close
                    else few * taps.loaded(ops) <= MOST_LOADED))):
            unroll(kernel, loop, few, few)
            return True
    return False


def _possible(loop: Loop, times: int, size: int) -> tuple[int, str]:
    """How often the loop runs, and why it cannot be unrolled so often, "" if it can."""
    count = iterations(loop, MOST_ASKED)
    if count is None:
        return 0, f"its number of iterations is not known, or is more than {MOST_ASKED}"
    if times and count % times:
        return count, f"{times} does not divide its {count} iterations"
    if (times or count) * size > MOST_COPIED:
        return count, f"the result would have more than {MOST_COPIED} operations"
    return count, ""


def unroll(kernel: Kernel, loop: Loop, count: int, copied: int) -> None:
    """Copies of the loop's blocks, one after the other.

    If all `count` iterations are `copied`, the header stays behind the last one.  Else the loop
    stays, and the copies of all but the first iteration of each run come before its back edge."""
    assert loop.preheader is not None and loop.latch is not None
    header, latch, whole = loop.header, loop.latch, copied == count
    source = loop.preheader if whole else latch
    values = {phi.result: incoming(phi, source) for phi in header.phis()}
    latched = {phi.result: loop.next(phi) for phi in header.phis()}
    made: list[Block] = []
    for copies, known in copy_iterations(loop, range(not whole, copied), source, values):
        test = copies[0].terminator
        inside = next(block for block in test.blocks if block in copies)
        copies[0].ops[-1] = Op("br", [], span=test.span, blocks=[inside])
        values = {phi: known.get(v, v) for phi, v in latched.items()}
        source = copies[loop.blocks.index(latch)]
        made += copies
    if not whole:
        for phi in header.phis():
            place = phi.blocks.index(latch)
            phi.operands[place], phi.blocks[place] = values[phi.result], source
        at = kernel.blocks.index(latch) + 1
        kernel.blocks[at:at] = made
        return
    at = kernel.blocks.index(header)
    kernel.blocks[at:at] = made
    kernel.blocks = [block for block in kernel.blocks if block is header or block not in loop]
    header.ops = header.ops[len(header.phis()):]
    header.ops[-1] = Op("br", [], span=header.terminator.span, blocks=[loop.exits[0][1]])
    kernel.replace(values)
