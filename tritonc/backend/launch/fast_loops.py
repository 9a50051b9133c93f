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

from collections.abc import Iterable

from tritonc.analysis.values import origin
from tritonc.backend.memory.versions.general import rare
from tritonc.backend.pipeline.loop_slice import find_slice
from tritonc.backend.pipeline.safe_divisors import never_zero
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, add_incoming, make_phi, redirect
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value

_FIXED = ("assume_multiple", "assume_positive", "constant", "range")


def loop_fast_bodies(kernel: Kernel, home: Block) -> None:
    """Give fast bodies of one block, of the loop over programs that begins one at `home`, loops."""
    cfg = Cfg(kernel)
    loop, general = cfg.innermost.get(home), set(rare(cfg, cfg.order))
    latch = loop.latch if loop is not None and loop.regular else None
    if loop is None or latch is None or len(loop.header.phis()) != 1 or latch.phis():
        return
    for block in loop.blocks:
        before = cfg.predecessors[block]
        if block in general or block.successors != [latch] or len(before) != 1 \
                or cfg.innermost[block] is not loop:
            continue
        test = before[0].terminator
        if test.attributes.get("facts") and test.blocks[0] is block:
            _loop(kernel, cfg, loop, block, before[0])
            return


def _tests(cfg: Cfg, above: Iterable[Block], body: Block) -> list[Value] | None:
    """The conditions under which programs take the body, of the branches above it; None if not all
    are such.  A body may do without the facts of another one, of which a test comes first."""
    found = []
    for branch in (b.terminator for b in above):
        if branch.name == "cond_br" and cfg.dominates(branch.blocks[0], body):
            found.append(branch.operands[0])
        elif branch.name != "br" and not branch.attributes.get("facts"):
            return None
    return found


def _late(op: Op) -> bool:
    """Whether an operation must not run for a program that there is not: one that loads, promises,
    or divides by what might be 0 then."""
    divides = op.info.may_trap and origin(op.operands[-1]).op is not None
    return op.name == "load" or op.name in _FIXED[:2] or (
        divides and not never_zero(op.operands[-1]))


def _loop(kernel: Kernel, cfg: Cfg, loop: Loop, body: Block, test: Block) -> None:
    header, latch = loop.header, loop.latch
    assert latch is not None
    number = header.phis()[0]
    step = loop.next(number).op
    above = {b: None for b in loop.blocks if cfg.dominates(b, body) and b is not body}
    tests = _tests(cfg, above, body)
    inside = {op for b in above for op in b.ops}
    read = [v for op in body.ops for v in op.inputs() if v.op in inside]
    part = None if tests is None else find_slice(loop, [*tests, *read], {*above, latch}, True, True)
    if tests is None or part is None or part.phis != [number] or any(map(_late, part.ops)) \
            or step is None or step.name != "add" or step.operands[0] is not number.result:
        return
    outer, again, behind = Block("before"), Block("again"), Block("behind")
    mine = make_phi([number.result], [outer])
    mapping: dict[Value, Value] = {number.result: mine.result}
    again.ops = [mine, *copy_ops(part.ops, mapping)]
    b = Builder(again)
    comes = [mapping.get(v, v) for v in tests]
    while len(comes) > 1:
        comes.append(b.value("and", comes.pop(0), comes.pop(0)))
    b.emit("cond_br", *comes, blocks=[body, behind])
    fixed = {op for op in body.ops if op.name in _FIXED}
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
