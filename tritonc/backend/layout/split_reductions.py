"""split_reductions: a reduction across warps becomes two reductions within warps.

Before:  %s = reduce %x {kind = fadd, axes = [1]}        : f32<64>   64 x 256, two warps on axis 1
After:   %y = reshape %x                                 : f32<64, 2, 128>
         %p = reduce %y {kind = fadd, axes = [2]}        : f32<64, 2>    one partial result per warp
         %q = convert_layout %p                          : f32<64, 2>    all of them in a thread
         %s = reduce %q {kind = fadd, axes = [1]}        : f32<64>

The index bits that lie in warps are split off as axes of their own; the order in which the elements
combine is fixed by the layout, so a result is reproducible for one compilation.  Reductions inside
a warp stay: registers fold, lanes shuffle.  So does `any` or `all` of a whole tile (`by_vote`), for
which there are instructions that reach all threads.  Those by a function of the program's own are
in `split_with`.  Needs layouts; leaves the conversion to lower_conversions.
"""

from __future__ import annotations

from tritonc.backend.layout import split_with
from tritonc.backend.layout.reduced_axes import into_registers, split_axes
from tritonc.ir import layout_ops
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I1, Tile, element, make


def split_reductions(kernel: Kernel, context: Context) -> bool:
    """Split every reduction whose axes reach across warps."""
    replaced: dict[Value, Value] = {}
    for block in kernel.blocks:
        ops: list[Op] = []
        for op in block.ops:
            if op.name == "reduce_with":
                ops += split_with.split(op, replaced)
                continue
            new = _split(op) if op.name == "reduce" and not by_vote(op) else [op]
            ops += new
            if new[-1] is not op:
                replaced[op.result] = new[-1].result
        block.ops = ops
    kernel.replace(replaced)
    return bool(replaced)


def by_vote(op: Op) -> bool:
    """Whether a reduction is `any` or `all` of a whole tile: copies of elements change nothing, so
    that the threads vote, all that run the kernel."""
    return op.attributes["kind"] in ("or", "and") and op.result.type == I1


def _split(op: Op) -> list[Op]:
    source = op.operands[0]
    t, axes = source.type, op.attributes["axes"]
    assert isinstance(t, Tile) and t.layout is not None
    if not layout_ops.reduction(t.layout, axes).warp:
        return [op]
    shape, inside, across = split_axes(t.layout, axes, t.layout.warp)
    kind, e = op.attributes["kind"], element(t)
    split = layout_ops.reshape(t.layout, shape)
    reshaped = make_op("reshape", [source], Tile(e, shape, split), span=op.span)
    ops, value, partial = [reshaped], reshaped.result, split
    if inside:
        partial = layout_ops.slice_axes(split, inside)
        step = make_op("reduce", [value], make(e, partial.shape, partial), span=op.span,
                       kind=kind, axes=inside)
        ops.append(step)
        value = step.result
    left = [d for d in range(len(shape)) if d not in inside]
    moved = [left.index(d) for d in across]
    gathered = into_registers(partial, moved)
    convert = make_op("convert_layout", [value], make(e, partial.shape, gathered), span=op.span)
    ops.append(convert)
    final = layout_ops.slice_axes(gathered, moved)
    last = make_op("reduce", [convert.result],
                   make(e, final.shape, final) if final.shape else None, span=op.span,
                   kind=kind, axes=tuple(moved))
    ops.append(last)
    result = op.result.type
    if isinstance(result, Tile) and last.result.type != result:
        ops.append(make_op("reshape", [last.result], make(e, result.shape, layout_ops.reshape(
            final, result.shape)), span=op.span))
        if ops[-1].result.type != result:
            ops.append(make_op("convert_layout", [ops[-1].result], result, span=op.span))
    ops[-1].result.name = op.result.name
    return ops
