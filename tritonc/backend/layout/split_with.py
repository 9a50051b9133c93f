"""Reductions across warps by a function of the program's own: see split_reductions.

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
    """What stands in place of a reduce_with; `replaced` gets its results, if they are others."""
    t, axis = op.operands[0].type, op.attributes["axis"]
    assert isinstance(t, Tile) and t.layout is not None
    if not layout_ops.reduction(t.layout, (axis,)).warp:
        return [op]
    steps = _Steps(op)
    extents, inside, across = split_axes(t.layout, (axis,), t.layout.warp)
    steps.reshape(extents)
    behind = range(axis + len(inside) + len(across), len(extents))
    if combiner.read(op.attributes["function"]).commutative:
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

    def gather(self, axis: int) -> None:
        """All elements along the axis into each thread that has one of them."""
        self.each("convert_layout", into_registers(self.layout, [axis]))

    def reduce(self, axis: int) -> None:
        left = layout_ops.slice_axes(self.layout, (axis,))
        stated = make(element(self.values[0].type), left.shape, left) if left.shape else None
        op = make_op("reduce_with", self.values, stated, span=self.op.span, axis=axis,
                     function=self.op.attributes["function"])
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
