"""lower_take: elements chosen by an index along an axis become a gather by row-major numbers.

Before:  %y = take %x, %i {axis = 1, extent = 48}   : f32<8, 64>     of %x : f32<8, 64>
After:   %n = add %i, (mul (range along axis 0), 64)
         %y = gather %x, %n                         : f32<8, 64>

An index that is outside names some element, of which nothing is promised.  Needs extents that are
powers of two.
"""

from __future__ import annotations

from math import prod

from tritonc.backend.memory.masks.pad_tiles import spread
from tritonc.ir.build import Builder, replace_each
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I32, make, shape


def lower_take(kernel: Kernel, context: Context) -> bool:
    """Replace each take."""
    return replace_each(kernel, "take", _lowered)


def _lowered(op: Op, build: Builder) -> Value:
    source, index = op.operands
    axis, whole, from_shape = op.attributes["axis"], shape(op.result.type), shape(source.type)
    t = make(I32, whole)
    stride = prod(from_shape[axis + 1 :])
    total = build.value("mul", index, build.constant(stride, t)) if stride != 1 else index
    for d, n in enumerate(whole):
        if d == axis or n == 1:
            continue
        place = spread(build, build.value("range", start=0, stop=n), d, whole)
        stride = prod(from_shape[d + 1 :])
        part = build.value("mul", place, build.constant(stride, t)) if stride != 1 else place
        total = build.value("add", total, part)
    found = build.emit("gather", source, total).result
    found.name = op.result.name
    return found
