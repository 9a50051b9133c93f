"""lower_argreduce: argmin and argmax become two reductions.

Before:  %i = argreduce %x {kind = fmax, axis = 1}        : i32<64>           x is 64 x 256
After:   %m = reduce %x {kind = fmax, axes = [1]}         : f32<64>
         %h = fcmp oeq %x, (broadcast %m)                 : i1<64, 256>
         %c = select %h, (broadcast 0 ... 256), 256       : i32<64, 256>
         %j = reduce %c {kind = smin, axes = [1]}         : i32<64>
         %i = select (%j == 256), 0, %j                   : i32<64>

Of equal elements the first wins.  A NaN equals nothing, so it never wins; where all elements are
NaNs nothing does and the index is 0.  (For integers there is always a winner, and no last line.)
"""

from __future__ import annotations

from tritonc.ir.build import Builder, replace_each
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I32, Tile, Type, element, is_float, make, shape


def lower_argreduce(kernel: Kernel, context: Context) -> bool:
    """Replace every argreduce."""
    return replace_each(kernel, "argreduce", _lower)


def _lower(op: Op, build: Builder) -> Value:
    tile, axis, kind = op.operands[0], op.attributes["axis"], op.attributes["kind"]
    t = tile.type
    assert isinstance(t, Tile)
    extent = t.shape[axis]
    best = build.value("reduce", tile, kind=kind, axes=(axis,))
    everywhere = _along(build, best, t, axis)
    if is_float(t):
        hit = build.value("fcmp", tile, everywhere, predicate="oeq")
    else:
        hit = build.value("icmp", tile, everywhere, predicate="eq")
    flat = (1,) * axis + (extent,) + (1,) * (len(t.shape) - axis - 1)
    numbers = build.value("range", start=0, stop=extent)
    numbers = build.value("reshape", numbers, type=make(I32, flat))
    numbers = build.value("broadcast", numbers, type=make(I32, t.shape))
    nowhere = build.constant(extent, make(I32, t.shape))
    places = build.value("select", hit, numbers, nowhere)
    found = build.value("reduce", places, kind="smin", axes=(axis,))
    if is_float(t):
        lost = build.value("icmp", found, build.constant(extent, found.type), predicate="eq")
        found = build.value("select", lost, build.constant(0, found.type), found)
    found.name = op.result.name
    return found


def _along(build: Builder, value: Value, t: Type, axis: int) -> Value:
    """A reduced value in every element along the axis."""
    whole = shape(t)
    if len(whole) == 1:
        return build.value("splat", value, type=t)
    kept = (*whole[:axis], 1, *whole[axis + 1 :])
    value = build.value("reshape", value, type=make(element(t), kept))
    return build.value("broadcast", value, type=t)
