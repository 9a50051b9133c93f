"""exchange_late: threads exchange behind a loop what each has added up in it.

Before:  head: %s = phi [%s0], [%s1]             f32<64>; each row of %t lies in two lanes
         body: %r = reduce %t {axes = [1]}       %t is f32<64, 128>
               %s1 = fadd %s, %r
         exit: ... %s

After:   head: %p = phi [-0.0], [%p1]            f32<64, 2>: a thread's part of each row's sum
         body: %y = reshape %t                   f32<64, 2, 64>
               %r = reduce %y {axes = [2]}       in registers
               %p1 = fadd %p, %r
         exit: %w = reduce %p {axes = [1]}       across lanes or warps
               %s = fadd %s0, %w

A sum that the loop scales, `sum = sum * f + p[+]` of a softmax, is scaled part by part, and its
start shared out.  Beside products of several warpgroups it stays: `rotate_dots` has it added up
while a product runs (H200, heads of 128: ALiBi took 1.17 of the time, the plain form 1.06).

A thread holds as many numbers as of %r before.  late_sums keeps a sum of each element, where there
are registers for that; this pass serves the loops that it leaves, those with products.  Behind the
loop the exchange costs what it costs in one iteration.

Needs layouts, and loops that end at their headers; before passes that rotate loops."""

from collections.abc import Sequence
from math import prod

from tritonc.analysis import loop_totals
from tritonc.backend.dots.together import WARPGROUP
from tritonc.backend.layout.conversion import layout_of
from tritonc.backend.layout.split_reductions import left_of, split_axes
from tritonc.backend.target.matrix import on_wgmma
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Value
from tritonc.ir.layouts import layout_ops
from tritonc.ir.types import Tile, Type, element, make, shape

_MOST = 8  # registers that a thread keeps of a total, if those of the loop's own are fewer


def exchange_late(kernel: Kernel, context: Context) -> bool:
    """Do it for all loops, the innermost first: what threads keep, outer loops may add up."""
    def loop_changes(cfg: Cfg, loop: Loop, readers: loop_totals.Readers) -> bool:
        scaled = context.contract and not (
            kernel.attributes["num_warps"] > WARPGROUP and any(map(on_wgmma, loop.ops())))
        found = [one for one in loop_totals.totals_of(loop, readers, scaled) if _exchanges(one)]
        outside = loop_totals.place_behind(kernel, cfg, loop) if found else kernel.entry
        for one in found:
            _move(kernel, loop, outside, one)
        return bool(found)

    return loop_totals.each_until_none(kernel, loop_changes)


def _exchanges(one: loop_totals.LoopTotal) -> bool:
    """Whether threads exchange parts of the total, each of which has few."""
    layout, axes = layout_of(one.part.operands[0]), one.part.attributes["axes"]
    across, kept = layout_ops.reduction(layout, axes), layout_ops.slice_axes(layout, axes).register
    t = one.phi.result.type
    now = t.layout.register if isinstance(t, Tile) and t.layout is not None else ()
    if one.scaled is not None and (t != one.part.result.type or (
            isinstance(t, Tile) and t.layout != layout_ops.slice_axes(layout, axes))):
        return False
    return bool(across.lane or across.warp) and 1 << len(kept) <= max(_MOST, 1 << len(now))


def _spread(b: Builder, factor: Value, t: Type, across: Sequence[int]) -> Value:
    """A factor of each total for all parts of it."""
    if not isinstance(factor.type, Tile):
        return b.value("splat", factor, type=t)
    thin = tuple(1 if axis in across else extent for axis, extent in enumerate(shape(t)))
    row = b.value("reshape", factor, type=make(
        element(t), thin, layout_ops.reshape(layout_of(factor), thin)))
    return b.value("broadcast", row, type=t)


def _move(kernel: Kernel, loop: Loop, outside: Block, one: loop_totals.LoopTotal) -> None:
    start, tile, kind = loop.first(one.phi), one.part.operands[0], one.total.name
    block = next(b for b in loop.blocks if one.total in b.ops)
    here = Builder(block, block.ops.index(one.total), one.total.span)
    layout = layout_of(tile)
    extents, inside, across = split_axes(
        layout, one.part.attributes["axes"], (*layout.lane, *layout.warp))

    def reduced(at: Builder, value: Value, axes: tuple[int, ...]) -> Value:
        left = layout_ops.slice_axes(layout_of(value), axes)
        t = make(element(value.type), left.shape, left) if left.shape else None
        return at.value("reduce", value, type=t, kind=kind, axes=axes)

    part = here.value("reshape", tile, type=make(
        element(tile.type), extents, layout_ops.reshape(layout, extents)))
    if inside:
        part = reduced(here, part, inside)
    partial = one.partial(loop, part.type, prod(extents[axis] for axis in across))
    across = left_of(across, inside)
    before = partial.result
    if one.scaled is not None:
        factor = next(v for v in one.scaled.operands if v is not one.phi.result)
        before = here.value("fmul", before, _spread(here, factor, part.type, across),
                            **one.scaled.attributes)
    partial.operands[1] = here.value(kind, before, part, **one.total.attributes)
    one.replace(kernel, loop, partial)
    behind = Builder(outside, 0, one.total.span)
    whole = reduced(behind, partial.result, across)
    if whole.type != start.type:
        whole = behind.value("convert_layout", whole, type=start.type)
    result = whole if one.scaled is not None else behind.value(kind, start, whole)
    result.name = one.phi.result.name
    kernel.replace({one.phi.result: result})
