"""lower_take: elements chosen by an index along an axis become a gather by row-major numbers.

Before:  %y = take %x, %i {axis = 1, extent = 48}   : f32<8, 64>     of %x : f32<8, 64>
After:   %n = add %i, (mul (range along axis 0), 64)
         %y = gather %x, %n                         : f32<8, 64>

An index that is outside names some element, of which nothing is promised.  Where indices are known
and all name the element a constant number of places on, clamped or wrapped at the ends, the gather
says so: `shift`.  Lanes of a warp exchange such elements (`lower_conversions`).  Needs extents that
are powers of two."""

from math import prod

from tritonc.analysis.elements import Elements
from tritonc.ir.build import Builder, replace_each
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.layout import coordinates
from tritonc.ir.types import I32, make, shape

MOST = 1 << 12  # elements of a tile whose indices are looked at


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
        place = build.numbers(d, whole)
        stride = prod(from_shape[d + 1 :])
        part = build.value("mul", place, build.constant(stride, t)) if stride != 1 else place
        total = build.value("add", total, part)
    made = build.emit("gather", source, total, named=op.result.name)
    if (shift := _shift(op)) is not None:
        made.attributes["shift"] = shift
    return made.result


def _shift(op: Op) -> tuple[int, int, int] | None:
    """The axis, how many places on the elements are that the indices name, and whether they go on
    at the other end (1) or stay at the last one (0)."""
    source, index = op.operands
    axis, extents = op.attributes["axis"], shape(index.type)
    n, total, known = extents[axis], prod(extents), Elements()
    if extents != shape(source.type) or n != op.attributes["extent"] or total > MOST:
        return None

    def along(first: int) -> list[int] | None:
        place = list(coordinates(extents, first))
        found = [known.at(index, (*place[:axis], i, *place[axis + 1 :])) for i in range(n)]
        numbers = [number for number in found if number is not None]
        return numbers if len(numbers) == n else None

    middle = known.at(index, tuple(n // 2 if d == axis else 0 for d in range(len(extents))))
    line = along(0) if middle is not None else None
    if middle is None or line is None:
        return None
    by = middle - n // 2
    for wrap in (0, 1):
        wanted = [(i + by) % n if wrap else min(max(i + by, 0), n - 1) for i in range(n)]
        if by and abs(by) < n and all(
                g == to or not 0 <= g < n
                for g, to in zip(line, wanted, strict=True)):
            break
    else:
        return None
    stride = prod(extents[axis + 1 :])
    same = all(along(first) == line for first in range(1, total) if not first // stride % n)
    return (axis, by, wrap) if same else None
