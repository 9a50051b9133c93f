"""What `split_reductions` makes of a reduction; here by a function of the program's own:

Before:  %m, %s = reduce_with %x, %y {axis = 1}          : f32<64>     64 x 256, two warps on axis 1
After:   %p, %q = reduce_with (reshape %x), ... {axis = 2}  : f32<64, 2>  one of each per warp
         %v, %w = convert_layout %p, convert_layout %q      : f32<64, 2>  all in a thread
         %m, %s = reduce_with %v, %w {axis = 1}             : f32<64>

All values that are combined at once go the same way.  If the function commutes, what a warp holds
combines first, whatever its place on the axis.  Else the order of the axis is kept: the axis is cut
into runs of bits that lie in warps and bits that do not, and the runs combine from the lowest on.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tritonc.backend.layout.reduced_axes import into_registers, split_axes
from tritonc.ir import combiner, layout_ops
from tritonc.ir.build import make_op
from tritonc.ir.core import Op, Value
from tritonc.ir.layout import Layout
from tritonc.ir.types import Tile, element, make, shape


def split(op: Op, replaced: dict[Value, Value]) -> list[Op]:
    """What stands in place of a reduction; `replaced` gets its results, if they are others."""
    steps = _Steps(op)
    layout, axes = steps.layout, op.attributes.get("axes") or (op.attributes["axis"],)
    if not layout_ops.reduction(layout, axes).warp:
        return [op]
    extents, inside, across = split_axes(layout, axes, layout.warp)
    axis, behind = axes[0], range(axes[0] + len(inside) + len(across), len(extents))
    steps.reshape(extents)
    if op.name == "reduce":
        left = [d for d in range(len(extents)) if d not in inside]
        if inside:
            steps.reduce(*inside)
        moved = [left.index(d) for d in across]
        steps.gather(*moved)
        steps.reduce(*moved)
    elif combiner.read(op.attributes["function"]).commutative:
        steps.permute((*range(axis), *inside, *across, *behind))
        merged = steps.extents(axis, len(inside)), steps.extents(axis + len(inside), len(across))
        steps.reshape((*extents[:axis], *merged, *extents[behind.start:]))
        if inside:
            steps.reduce(axis)
        else:
            steps.reshape((*extents[:axis], merged[1], *extents[behind.start:]))
        steps.gather(axis)
        steps.reduce(axis)
    else:
        for part in reversed(range(axis, behind.start)):
            if part in across:
                steps.gather(part)
            steps.reduce(part)
    for old, new in zip(op.results, steps.finish(), strict=True):
        new.name = old.name
        replaced[old] = new
    return steps.ops


class _Steps:
    """Operations that are made one after the other, on all values that are combined."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.ops: list[Op] = []
        self.values = list(op.operands)

    @property
    def layout(self) -> Layout:
        t = self.values[0].type
        assert isinstance(t, Tile) and t.layout is not None
        return t.layout

    def extents(self, first: int, count: int) -> int:
        """The product of some extents."""
        return prod(shape(self.values[0].type)[first : first + count])

    def each(self, name: str, layout: Layout, **attributes: Any) -> None:
        made = [make_op(name, [v], make(element(v.type), layout.shape, layout), span=self.op.span,
                        **attributes) for v in self.values]
        self.ops += made
        self.values = [new.result for new in made]

    def reshape(self, extents: tuple[int, ...]) -> None:
        if extents != self.layout.shape:
            self.each("reshape", layout_ops.reshape(self.layout, extents))

    def permute(self, order: tuple[int, ...]) -> None:
        if list(order) != sorted(order):
            self.each("trans", layout_ops.transpose(self.layout, order), permutation=order)

    def gather(self, *axes: int) -> None:
        """All elements along the axes into each thread that has one of them."""
        self.each("convert_layout", into_registers(self.layout, axes))

    def reduce(self, *axes: int) -> None:
        left = layout_ops.slice_axes(self.layout, axes)
        stated = make(element(self.values[0].type), left.shape, left) if left.shape else None
        how = self.op.attributes
        more = {"kind": how["kind"], "axes": axes} if "kind" in how else {
            "axis": axes[0], "function": how["function"]}
        op = make_op(self.op.name, self.values, stated, span=self.op.span, **more)
        self.ops.append(op)
        self.values = list(op.results)

    def finish(self) -> list[Value]:
        """The values in the types of the operation that is replaced."""
        result = self.op.results[0].type
        if isinstance(result, Tile):
            assert result.layout is not None
            self.reshape(result.shape)
            if self.layout != result.layout:
                self.each("convert_layout", result.layout)
        return self.values
