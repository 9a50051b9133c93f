"""The part of split_scans that is about scans by a function of the program's own.

Before:  %y = scan_with %x {function = f, axis = 0}           : f32<4096>          four warps
After:   %q = scan_with (reshape %x) {function = f, axis = 1} : f32<4, 1024>   a part for each
         %t = the last element of each part                   : f32<4>
         %s = scan_with %t {function = f, axis = 0}           : f32<4>
         %b = %s of the part before                           : f32<4>
         %y = reshape (select first part, %q, f(%b, %q))      : f32<4096>

An element is picked as bits: all others are 0, and the bits are joined by `or`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritonc.ir import combiner
from tritonc.ir.build import Builder
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I32, SCALARS, Tile, element, make, scalar, shape


def split_scans_with(kernel: Kernel, parts_of: Callable[[Op], int]) -> bool:
    """Split every scan_with into the parts that are asked for."""
    replaced: dict[Value, Value] = {}
    for block in kernel.blocks:
        old, block.ops = block.ops, []
        build = Builder(block)
        for op in old:
            parts = parts_of(op) if op.name == "scan_with" else 1
            if parts == 1:
                build.insert(op)
                continue
            build.span = op.span
            for result, found in zip(op.results, _split(op, parts, build), strict=True):
                found.name = result.name
                replaced[result] = found
    kernel.replace(replaced)
    return bool(replaced)


def _split(op: Op, parts: int, b: Builder) -> list[Value]:
    axis, reverse = op.attributes["axis"], bool(op.attributes.get("reverse"))
    extents = shape(op.operands[0].type)
    before, behind = extents[:axis], extents[axis + 1 :]
    inside = extents[axis] // parts
    split = (*before, parts, inside, *behind)
    common: dict[str, Any] = {k: v for k, v in op.attributes.items() if k != "axis"}

    def scanned(values: list[Value], along: int) -> list[Value]:
        return list(b.emit("scan_with", *values, axis=along, **common).results)

    own = scanned([_reshaped(b, v, split) for v in op.operands], axis + 1)
    last = _equal(b, axis + 1, split, 0 if reverse else inside - 1)
    totals = [_picked(b, last, v, axis + 1) for v in own]
    square = (*before, parts, parts, *behind)
    step = 1 if reverse else -1
    here, there = (numbers_along(b, axis + d, make(I32, square)) for d in range(2))
    wanted = b.value("add", here, b.constant(step, here.type))
    neighbour = b.value("icmp", there, wanted, predicate="eq")
    starts = []
    for total in scanned(totals, axis):
        across = _reshaped(b, total, (*before, 1, parts, *behind))
        across = b.value("broadcast", across, type=make(element(total.type), square))
        start = _picked(b, neighbour, across, axis + 1)
        start = _reshaped(b, start, (*before, parts, 1, *behind))
        starts.append(b.value("broadcast", start, type=make(element(start.type), split)))
    first = _equal(b, axis, split, parts - 1 if reverse else 0)
    joined = applied(b, combiner.read(op.attributes["function"]), starts, own)
    return [_reshaped(b, b.value("select", first, alone, both), extents)
            for alone, both in zip(own, joined, strict=True)]


def _reshaped(b: Builder, value: Value, extents: tuple[int, ...]) -> Value:
    return b.value("reshape", value, type=make(element(value.type), extents))


def _equal(b: Builder, axis: int, extents: tuple[int, ...], number: int) -> Value:
    """Where the index along the axis is that number."""
    t = make(I32, extents)
    return b.value("icmp", numbers_along(b, axis, t), b.constant(number, t), predicate="eq")


def _picked(b: Builder, chosen: Value, x: Value, axis: int) -> Value:
    """The one element along the axis that is chosen; 0 if none is."""
    e, extents = scalar(x.type), shape(x.type)
    bits = SCALARS[f"i{e.bits}"]
    if e != bits:
        x = b.value("bitcast", x, type=make(bits, extents))
    x = b.value("select", chosen, x, b.constant(0, x.type))
    found = b.value("reduce", x, kind="or", axes=(axis,))
    return found if e == bits else b.value("bitcast", found, type=make(e, shape(found.type)))


def applied(b: Builder, function: combiner.Combiner, before: list[Value], behind: list[Value]
            ) -> list[Value]:
    """The function on tiles, element by element."""
    extents = shape(before[0].type)
    values: dict[Value, Value] = dict(zip(function.parameters, [*before, *behind], strict=True))
    for op in function.ops:
        new = b.emit(op.name, *(values[v] for v in op.operands), **op.attributes,
                     type=make(element(op.results[0].type), extents))
        values.update(zip(op.results, new.results, strict=True))
    return [values[r] for r in function.results]


def numbers_along(b: Builder, axis: int, like: Any) -> Value:
    """The index along an axis of a tile of that type."""
    assert isinstance(like, Tile)
    flat = [1] * len(like.shape)
    flat[axis] = like.shape[axis]
    numbers = b.value("range", start=0, stop=like.shape[axis])
    numbers = b.value("reshape", numbers, type=make(I32, tuple(flat)))
    return b.value("broadcast", numbers, type=make(I32, like.shape))
