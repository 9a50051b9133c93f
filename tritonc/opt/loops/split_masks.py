"""A loop of products runs without masks that are no boxes, where they hold for whole tiles.

    for (; k < n; k += 64)                        for (; k < n && k + 63 <= i0; k += 64)
      C += dot(k + r <= i ? *pa : 0, ...);   ->     C += dot(*pa, ...);
                                                  for (; k < n; k += 64)
                                                    C += dot(k + r <= i ? *pa : 0, ...);

What a mask leaves that compares one axis with another one, as along a diagonal, threads load by
elements; what no such mask limits is copied in boxes, by TMA where there is one.  `merge_tails`
does the opposite for masks that are bounds of axes, which cost copies nothing.

The new test says that the greatest of one side is below the least of the other one, so that the
first loop may end anywhere.  Where the mask holds from some iteration on, as above a diagonal, the
first loop has it, and ends at that test; what it compares with the counter does not fall.  Needs
loops of one form (`unify_exits`)."""

from functools import partial, reduce

from tritonc.analysis.values import conditions, constant_of, defined_by, is_uniform, slice_of
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
    for loop in cfg.innermost_loops:
        if loop.regular and any(op.name == "dot" for op in loop.ops()):
            changed |= _split(kernel, cfg, loop, context)
    if changed:
        peephole(kernel, context)
    return changed


def by_element(loop: Loop) -> list[Op]:
    """The comparisons of one axis with another one that limit the loop's loads."""
    found = {test.op for op in loop.ops() if op.name == "load" and op.guard is not None
             for test in conditions(op.guard) if test.op is not None and test.op.name == "icmp"
             and sum(extent > 1 for extent in shape(test.type)) > 1
             and not any(map(is_uniform, test.op.operands))}
    return [op for op in loop.ops() if op in found]


def _split(kernel: Kernel, cfg: Cfg, loop: Loop, context: Context) -> bool:
    assert loop.preheader is not None
    header, preheader = loop.header, loop.preheader
    r = Rewriter(kernel)
    r.op = header.terminator
    holding: dict[bool, dict[Value, Value]] = {False: {}, True: {}}  # from the start, to the end
    for test in by_element(loop):
        (a, b), predicate = test.operands, test.attributes["predicate"]
        if predicate in _ABOVE:
            a, b, predicate = b, a, _ABOVE[predicate]
        if predicate not in ("slt", "sle"):
            continue
        greatest, least = end_of_run(a, False, r), end_of_run(b, True, r)
        if greatest is None or least is None or _moves(greatest, loop) == _moves(least, loop):
            continue
        late = _moves(least, loop)
        if not late or _rises(least, loop):
            holding[late][test.result] = r.value("icmp", greatest, least, predicate=predicate)
    late = not holding[False]
    here = {op for op in header.ops if op is not header.terminator}
    if not holding[late] or any(
            cfg.block_of.get(v.op) in loop.block_set and v.op not in here
            for op in r.made for v in op.operands if v.op is not None and v.op not in r.made):
        return False
    runs = reduce(partial(r.value, "and"), holding[late].values())
    if late:
        runs = r.value("xor", runs, r.constant(True, runs.type))
    runs = r.value("and", header.terminator.operands[0], runs)
    header.ops[-1:-1] = r.made
    copies, mapping = copy_blocks(loop.blocks, ".first")
    header.ops = [op for op in header.ops if op not in r.made]
    first, between = copies[0], Block(f"{header.name}.between")
    between.ops.append(Op("br", [], blocks=[header]))
    first.terminator.operands = [mapping[runs]]
    first.terminator.blocks = [between if block not in loop else copies[loop.blocks.index(block)]
                               for block in header.terminator.blocks]
    redirect(preheader, header, first)
    for phi in header.phis():
        remove_operands(phi, (preheader,))
        add_incoming(phi, mapping[phi.result], between)
    at = kernel.blocks.index(header)
    kernel.blocks[at:at] = [*copies, between]
    for held in holding[late]:
        true = Op("constant", [], {"value": True}, (held.type,), span=header.terminator.span)
        block = header if late else first
        block.ops.insert(len(block.phis()), true)
        kernel.replace({held if late else mapping[held]: true.result})
    context.remark("split_masks", "iterations whose tiles the diagonal does not cut run without "
                   f"its mask; the others run {'before' if late else 'after'} them",
                   header.terminator.span)
    return True


def _moves(value: Value, loop: Loop) -> bool:
    """Whether it differs between iterations."""
    return not slice_of([value]).isdisjoint(loop.header.phis())


def _rises(value: Value, loop: Loop) -> bool:
    """Whether it is a counter that never falls, and what does not move."""
    if value.op in loop.header.phis():
        step = defined_by(loop.next(value.op), "add")
        return step is not None and value in step.operands and any(
            (constant_of(v) or 0) > 0 for v in step.operands)
    return value.op is not None and value.op.name == "add" and all(
        _rises(v, loop) or not _moves(v, loop) for v in value.op.operands)
