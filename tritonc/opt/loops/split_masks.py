"""A loop of products runs without masks that are no boxes, as far as they hold for whole tiles.

    for (; k < n; k += 64)                        for (; k < n && k + 63 <= i0; k += 64)
      C += dot(k + r <= i ? *pa : 0, ...);   ->     C += dot(*pa, ...);
                                                  for (; k < n; k += 64)
                                                    C += dot(k + r <= i ? *pa : 0, ...);

What a mask leaves that compares one axis with another one, as along a diagonal, threads load by
elements; what no such mask limits is copied in boxes, by TMA where there is one.  `merge_tails`
does the opposite for masks that are bounds of axes, which cost copies nothing.

The new test says that the greatest of one side is below the least of the other one, so that the
first loop may end anywhere.  Needs loops of one form (`unify_exits`).
"""

from __future__ import annotations

from tritonc.analysis.values import conditions
from tritonc.ir.cfg import Cfg, Loop, add_incoming, redirect, remove_operands
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_blocks
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import shape
from tritonc.opt.loops.scalar_tests import end_of_run
from tritonc.opt.peephole import peephole
from tritonc.opt.peephole.rewrite import Rewriter

_ABOVE = {"sgt": "slt", "sge": "sle"}


def split_masks(kernel: Kernel, context: Context) -> bool:
    """Split all loops of products with such masks."""
    cfg, changed = Cfg(kernel), False
    for loop in cfg.loops:
        if not loop.regular or not any(op.name == "dot" for op in loop.ops()):
            continue
        if not any(other.parent is loop for other in cfg.loops):
            changed |= _split(kernel, cfg, loop, context)
    if changed:
        peephole(kernel, context)
    return changed


def by_element(loop: Loop) -> list[Op]:
    """The comparisons of one axis with another one that limit the loop's loads."""
    found = {test.op for op in loop.ops() if op.name == "load" and op.guard is not None
             for test in conditions(op.guard) if test.op is not None and test.op.name == "icmp"
             and sum(extent > 1 for extent in shape(test.type)) > 1}
    return [op for op in loop.ops() if op in found]


def _split(kernel: Kernel, cfg: Cfg, loop: Loop, context: Context) -> bool:
    assert loop.preheader is not None
    header, preheader = loop.header, loop.preheader
    r = Rewriter(kernel)
    r.op = header.terminator
    starts = [loop.first(phi) for phi in header.phis()]  # a loop that begins at the diagonal
    whole, holds = r.op.operands[0], list[Value]()
    for test in by_element(loop):
        (a, b), predicate = test.operands, test.attributes["predicate"]
        if predicate in _ABOVE:
            a, b, predicate = b, a, _ABOVE[predicate]
        if predicate not in ("slt", "sle"):
            continue
        greatest, least = end_of_run(a, False, r), end_of_run(b, True, r)
        if greatest is not None and least is not None and least not in starts:
            whole = r.value("and", whole, r.value("icmp", greatest, least, predicate=predicate))
            holds.append(test.result)
    here = {op for op in header.ops if op is not header.terminator}
    if not holds or any(cfg.block_of.get(v.op) in loop.block_set and v.op not in here
                        for op in r.made for v in op.operands if v.op is not None
                        and v.op not in r.made):
        return False
    header.ops[-1:-1] = r.made
    copies, mapping = copy_blocks(loop.blocks, ".whole")
    header.ops = [op for op in header.ops if op not in r.made]
    first, between = copies[0], Block(f"{header.name}.between")
    between.ops.append(Op("br", [], blocks=[header]))
    first.terminator.operands = [mapping[whole]]
    first.terminator.blocks = [between if block not in loop else copies[loop.blocks.index(block)]
                               for block in header.terminator.blocks]
    redirect(preheader, header, first)
    for phi in header.phis():
        remove_operands(phi, (preheader,))
        add_incoming(phi, mapping[phi.result], between)
    at = kernel.blocks.index(header)
    kernel.blocks[at:at] = [*copies, between]
    for held in holds:
        true = Op("constant", [], {"value": True}, (held.type,), span=header.terminator.span)
        first.ops.insert(len(first.phis()), true)
        kernel.replace({mapping[held]: true.result})
    context.remark("split_masks", "runs without the mask of a diagonal as far as that holds for "
                                  "whole tiles, and then with it", header.terminator.span)
    return True
