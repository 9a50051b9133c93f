"""split_reductions: a reduction across warps becomes two reductions within warps.

Before:  %s = reduce %x {kind = fadd, axes = [1]}        : f32<64>   64 x 256, two warps on axis 1
After:   %y = reshape %x                                 : f32<64, 2, 128>
         %p = reduce %y {kind = fadd, axes = [2]}        : f32<64, 2>    one partial result per warp
         %q = convert_layout %p                          : f32<64, 2>    all of them in a thread
         %s = reduce %q {kind = fadd, axes = [1]}        : f32<64>

The index bits that lie in warps are split off as axes of their own; the order in which the elements
combine is fixed by the layout, so a result is reproducible for one compilation.  Reductions inside
a warp stay: registers fold, lanes shuffle.  So does `any` or `all` of a whole tile (`by_vote`), for
which there are instructions that reach all threads.

By a function of the program's own:

Before:  %m, %s = reduce_with %x, %y {axis = 1}          : f32<64>     64 x 256, two warps on axis 1
After:   %p, %q = reduce_with (reshape %x), ... {axis = 2}  : f32<64, 2>  one of each per warp
         %v, %w = convert_layout %p, convert_layout %q      : f32<64, 2>  all in a thread
         %m, %s = reduce_with %v, %w {axis = 1}             : f32<64>

All values that are combined at once go the same way.  If the function commutes, what a warp holds
combines first, whatever its place on the axis.  Else the order of the axis is kept: the axis is cut
into runs of bits that lie in warps and bits that do not, and the runs combine from the lowest on.

Needs layouts; leaves the conversion to lower_conversions."""

from collections.abc import Collection, Iterable
from math import prod
from typing import Any

from tritonc.backend.layout.conversion import layout_of
from tritonc.ir import combiner
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts import layout_ops
from tritonc.ir.layouts.layout import Layout, axis_bases
from tritonc.ir.types import I1, Tile, element, make, shape

MOST = 64  # registers of what warps tell each other


def split_reductions(kernel: Kernel, context: Context) -> bool:
    """Split every reduction whose axes reach across warps."""
    replaced: dict[Value, Value] = {}
    for block in kernel.blocks:
        block.ops = [new for op in block.ops for new in (
            _split(op, replaced) if op.name == "reduce_with" or (
                op.name == "reduce" and not by_vote(op)) else [op])]
    kernel.replace(replaced)
    return bool(replaced)


def by_vote(op: Op) -> bool:
    """Whether a reduction is `any` or `all` of a whole tile: copies of elements change nothing, so
    that the threads vote, all that run the kernel."""
    return op.attributes["kind"] in ("or", "and") and op.result.type == I1


def reduced_axes(op: Op) -> tuple[int, ...]:
    return tuple(op.attributes.get("axes") or (op.attributes["axis"],))


def _split(op: Op, replaced: dict[Value, Value]) -> list[Op]:
    """What stands in place of a reduction; `replaced` gets its results, if they are others."""
    steps = Steps(op)
    layout, axes = steps.layout, reduced_axes(op)
    if not layout_ops.reduction(layout, axes).warp:
        return [op]
    extents, inside, across = split_axes(layout, axes, layout.warp)
    axis, behind = axes[0], range(axes[0] + len(inside) + len(across), len(extents))
    steps.reshape(extents)
    if op.name == "reduce":
        if inside:
            steps.reduce(*inside)
        moved = left_of(across, inside)
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


class Steps:
    """Operations that are made one after the other, on all values that are combined."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.ops: list[Op] = []
        self.values = list(op.operands)

    @property
    def layout(self) -> Layout:
        return layout_of(self.values[0])

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
        """All elements along the axes into each thread that has one of them; where these would be
        too many, into so many more threads as have copies."""
        layout = into_registers(self.layout, axes)
        if layout.registers * sum(max(element(v.type).bits, 32) for v in self.values) > 32 * MOST:
            layout = over_copies(layout, axes)
        self.each("convert_layout", layout)

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


def split_axes(layout: Layout, axes: tuple[int, ...], distant: tuple[int, ...]) -> tuple[
        tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Split each reduced axis into runs of bits that are `distant`, as those of warps, and others.

    Returns the new shape, its reduced axes that are not distant, and those that are."""
    shape: list[int] = []
    inside: list[int] = []
    across: list[int] = []
    for axis, extent in enumerate(layout.shape):
        if axis not in axes:
            shape.append(extent)
            continue
        runs: list[tuple[bool, int]] = []  # from the highest bit: distant?, extent
        for basis in reversed(axis_bases(layout.shape, axis)):
            far = basis in distant
            if runs and runs[-1][0] == far:
                runs[-1] = (far, runs[-1][1] * 2)
            else:
                runs.append((far, 2))
        for far, size in runs or [(False, 1)]:
            (across if far else inside).append(len(shape))
            shape.append(size)
    assert prod(shape) == layout.size
    return tuple(shape), tuple(inside), tuple(across)


def left_of(axes: Iterable[int], reduced: Collection[int]) -> tuple[int, ...]:
    """What axes are when those that are reduced have gone."""
    return tuple(axis - sum(gone < axis for gone in reduced) for axis in axes)


def over_copies(layout: Layout, axes: Collection[int]) -> Layout:
    """The layout with bits that are not of `axes` in lanes that hold copies, not in registers."""
    kept = {basis for axis in axes for basis in axis_bases(layout.shape, axis)}
    moved = [basis for basis in layout.register if basis and basis not in kept]
    lane = [basis or (moved.pop() if moved else 0) for basis in layout.lane]
    register = tuple(basis for basis in layout.register if basis in kept or basis in moved)
    return Layout(layout.shape, register, tuple(lane), layout.warp)


def into_registers(layout: Layout, axes: Collection[int]) -> Layout:
    """The layout with the bits of `axes` in registers; the warps that held them hold copies."""
    moved = [basis for axis in axes for basis in axis_bases(layout.shape, axis)]
    warp = tuple(0 if basis in moved else basis for basis in layout.warp)
    return Layout(layout.shape, (*layout.register, *moved), layout.lane, warp)
