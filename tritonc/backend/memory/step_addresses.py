"""step_addresses: the addresses of a thread's rows in a loop are stepped instead of recomputed.

Before:  pre:   %q = addptr ...                   rows of a matrix, row i at i * stride
         loop:  %o = phi %o0, (add %o, %n)        moves with the loop
         body:  %p = addptr %q, (splat %o)
                %v = load %p
After:   pre:   %s = sext %stride : i64
                %q0 = addptr %q, (splat %o0)
         loop:  %m = phi %q0, (addptr %m, (splat %n))
         body:  %p = step_pointers %m, 0, %s, %1
                %v = load %p

`%p` is the same tile of pointers.  But as a sum of two tiles a thread would hold the address of
each row that it reads, two registers each for the whole loop; told how far the rows are apart, it
holds one address and the distance, which is the same for all threads.  A product on CUDA cores that
reads 24 rows had no room for them beside its accumulators.  To move the one address takes two
instructions of an iteration, to add an offset four to six; so it moves even if a thread has one
row.  Where the offset is no counter of the loop, or nothing is multiplied on CUDA cores, it is
added to the addresses of several (`step_pointers %q, %o, ...`).

Needs layouts, and pointers whose elements are an affine function of their place (`affine.py`), with
strides that are known before the loop.  After the passes that copy slices of loops."""

from tritonc.analysis.affine import Affine, Affinity
from tritonc.analysis.linear import emit
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop, add_incoming, make_phi
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Value
from tritonc.ir.layouts.layout import coordinates
from tritonc.ir.types import I64, Tile, scalar, with_element


def step_addresses(kernel: Kernel, context: Context) -> bool:
    """Rewrite the additions that move affine tiles of pointers in loops."""
    cfg = Cfg(kernel)
    if not cfg.loops:
        return False
    affinity = Affinity()
    strides: dict[tuple[Value, Block], list[Value]] = {}
    moving: dict[tuple[Value, Block, Value], tuple[Value, Value]] = {}
    replaced: dict[Value, Value] = {}
    for block in cfg.order:
        loop = cfg.innermost.get(block)
        if loop is None or loop.preheader is None:
            continue
        for op in list(block.ops):
            if op.name != "addptr" or not isinstance(op.result.type, Tile):
                continue
            fixed, offset = op.operands[0], op.operands[1].op
            if offset is None or offset.name != "splat" or not cfg.available(fixed, loop.preheader):
                continue
            form = affinity.of(fixed)
            if form is None or not all(cfg.available(v, loop.preheader)
                                       for s in form.strides for v in s.values()):
                continue
            key = fixed, loop.preheader, offset.operands[0]
            if key not in moving:
                moving[key] = _moving(*key, loop, cfg)
            if moving[key][0] is fixed and not _spread(op.result.type, form):
                continue
            if key[:2] not in strides:
                strides[key[:2]] = _computed(form, loop.preheader)
            new = make_op("step_pointers", [*moving[key], *strides[key[:2]]], span=op.span,
                          named=op.result.name)
            block.ops[block.ops.index(op)] = new
            replaced[op.result] = new.result
    kernel.replace(replaced)
    return bool(replaced)


def _moving(fixed: Value, before: Block, offset: Value, loop: Loop, cfg: Cfg
            ) -> tuple[Value, Value]:
    """The pointers with an offset added that is a counter of the loop, and 0; or what is given.  An
    offset of 32 bits may wrap, which its sum with a pointer does not.  Beside products on tensor
    cores instructions count less than registers: attention with four strides spilled."""
    phi, latch = offset.op, loop.latch
    if phi is None or phi not in loop.header.phis() or latch is None or offset.type != I64 or not (
            any(op.name == "fma_dot" for op in loop.ops())):
        return fixed, offset
    start, onward = (phi.operands[phi.blocks.index(block)] for block in (before, latch))
    if onward.op is None or onward.op.name != "add" or offset not in onward.op.operands:
        return fixed, offset
    step = onward.op.operands[onward.op.operands.index(offset) ^ 1]
    if not cfg.available(step, before):
        return fixed, offset

    def advanced(pointers: Value, by: Value, block: Block) -> Value:
        b = Builder(block, len(block.ops) - 1)
        tile = b.value("splat", by, type=with_element(pointers.type, scalar(by.type)))
        return b.value("addptr", pointers, tile)

    first = advanced(fixed, start, before)
    moved = make_phi([first], [before], f"{fixed.name}.moving" if fixed.name else "",
                     phi.span)
    loop.header.ops.insert(0, moved)
    add_incoming(moved, advanced(moved.result, step, latch), latch)
    return moved.result, Builder(before, len(before.ops) - 1).constant(0, offset.type)


def _spread(t: Tile, form: Affine) -> bool:
    """Whether a thread holds elements whose distance is not a constant."""
    if t.layout is None:
        return False
    held = {axis for basis in t.layout.register
            for axis, n in enumerate(coordinates(t.shape, basis)) if n}
    return any(form.strides[axis].constant is None for axis in held)


def _computed(form: Affine, preheader: Block) -> list[Value]:
    """The strides, in elements, at the end of the preheader."""
    scratch = Block("")
    builder = Builder(scratch)
    found = [emit(builder, stride, I64) for stride in form.strides]
    preheader.ops[-1:-1] = scratch.ops
    return found
