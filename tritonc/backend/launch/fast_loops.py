"""The fast body of persistent blocks gets a loop of its own, as long as programs take it.

Before:  head:  %i = phi ...                     After:  ...
         test:  cond_br %inside, fast, general   test:   cond_br %inside, before, general
         fast:  ... program %i                   before: br again
                br next                          again:  %m = phi [%i, before], [%m + blocks, fast]
         next:  br head                                  cond_br %m is inside too, fast, behind
                                                 fast:   ... program %m
                                                         br again
                                                 behind: br next, which goes on behind %m - blocks

A loop of one block loads ahead (`load_ahead`), where the way through the tests of a program would
be in between.  What blocks add in shared memory they add one after the other, and meanwhile memory
had nothing to do.
"""

from __future__ import annotations

from tritonc.analysis.values import origin
from tritonc.backend.memory.versions.general import rare
from tritonc.backend.pipeline.loop_slice import find_slice
from tritonc.backend.pipeline.safe_divisors import never_zero
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, add_incoming, make_phi, redirect
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value

_PROMISES = ("assume_multiple", "assume_positive")


def loop_fast_bodies(kernel: Kernel, home: Block) -> None:
    """Give fast bodies of one block, of the loop over programs that begins one at `home`, loops."""
    cfg = Cfg(kernel)
    loop, general = cfg.innermost.get(home), set(rare(cfg, cfg.order))
    if loop is None or not loop.regular or len(loop.header.phis()) != 1:
        return
    for block in loop.blocks:
        before = cfg.predecessors[block]
        if block not in general and block.successors == [loop.latch] and len(before) == 1 \
                and before[0].terminator.attributes.get("facts") and not loop.latch.phis() \
                and before[0].terminator.blocks[0] is block and cfg.innermost[block] is loop:
            _loop(kernel, cfg, loop, block, before[0])
            return


def _may_trap(op: Op) -> bool:
    """Whether an operation might divide by 0 for a program that there is not."""
    return op.info.may_trap and origin(op.operands[-1]).op is not None and not never_zero(
        op.operands[-1])


def _loop(kernel: Kernel, cfg: Cfg, loop: Loop, body: Block, test: Block) -> None:
    header, latch = loop.header, loop.latch
    assert latch is not None
    number, tests = header.phis()[0], [b.terminator.operands[0] for b in (test, header)]
    step = loop.next(number).op
    above = {b for b in loop.blocks if cfg.dominates(b, body) and b is not body}
    inside = {op for b in above for op in b.ops}
    read = [v for op in body.ops for v in op.inputs() if v.op in inside]
    part = find_slice(loop, [*tests, *read], above | {latch}, True, True)
    if part is None or part.loads or part.phis != [number] or step is None or step.name != "add" \
            or step.operands[0] is not number.result or any(map(_may_trap, part.ops)):
        return
    outer, again, behind = Block("before"), Block("again"), Block("behind")
    mine = make_phi([number.result], [outer])
    mapping: dict[Value, Value] = {number.result: mine.result}
    again.ops = [mine, *copy_ops(part.ops, mapping)]
    b = Builder(again)
    b.emit("cond_br", b.value("and", *(mapping.get(v, v) for v in tests)), blocks=[body, behind])
    fixed = {op for op in body.ops if op.name in (*_PROMISES, "constant", "range")}
    moving = {op for op in body.ops if op not in fixed} | {*again.ops}
    outer.ops = [op for op in body.ops
                 if op in fixed and not any(v.op in moving for v in op.inputs())]
    body.ops = [op for op in body.ops[:-1] if op not in outer.ops]
    for op in body.ops:
        op.replace_inputs(mapping)
    b = Builder(body)
    add_incoming(mine, b.value("add", mine.result, step.operands[1]), body)
    b.emit("br", blocks=[again])
    b = Builder(behind)
    last = b.value("sub", mine.result, step.operands[1])
    b.emit("br", blocks=[latch])
    Builder(outer).emit("br", blocks=[again])
    redirect(test, body, outer)
    before = [p for p in cfg.predecessors[latch] if p is not body]
    done = make_phi([*[number.result] * len(before), last], [*before, behind])
    for op in latch.ops:
        op.replace_inputs({number.result: done.result})
    latch.ops.insert(0, done)
    at = kernel.blocks.index(body)
    kernel.blocks[at : at + 1] = [outer, again, body, behind]
