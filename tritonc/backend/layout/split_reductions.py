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

from tritonc.backend.layout.split_with import split
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I1


def split_reductions(kernel: Kernel, context: Context) -> bool:
    """Split every reduction whose axes reach across warps."""
    replaced: dict[Value, Value] = {}
    for block in kernel.blocks:
        block.ops = [new for op in block.ops for new in (
            split(op, replaced) if op.name == "reduce_with" or (
                op.name == "reduce" and not by_vote(op)) else [op])]
    kernel.replace(replaced)
    return bool(replaced)


def by_vote(op: Op) -> bool:
    """Whether a reduction is `any` or `all` of a whole tile: copies of elements change nothing, so
    that the threads vote, all that run the kernel."""
    return op.attributes["kind"] in ("or", "and") and op.result.type == I1
