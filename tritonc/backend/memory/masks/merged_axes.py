"""Axes that one reshape merges and another takes apart, with products between, as tensors are
contracted.

    %m = reshape %x : f32<64, 80> of f32<64, 2, 40>      padded: (64, 2, 64) -> (64, 128)
    %c = dot %u, %m : f32<24, 80>
    %r = reshape %c : f32<24, 2, 40>                     padded: (32, 128) -> (32, 2, 64)

Padded behind its 80 elements, the merged axis would have them at other row-major numbers than the
two axes, so that both reshapes were gathers.  What a product makes of a row or column depends on
that one alone: between the reshapes nobody can tell where the padding of the merged axis is, and it
may be padded as the two are.  Done where that makes no larger tile."""

from math import prod

from tritonc.analysis.values import constant_of
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import shape

Shape = tuple[int, ...]


def padded(extents: Shape) -> Shape:
    """The next powers of two.

    >>> padded((48, 1, 3, 64))
    (64, 1, 4, 64)
    """
    return tuple(1 << (n - 1).bit_length() for n in extents)


def merged_axes(kernel: Kernel) -> dict[Value, Shape]:
    """The extents of tiles with such an axis, which is as long as it is padded."""
    readers, found = uses(kernel), dict[Value, Shape]()
    for op in [op for op in kernel.ops() if op.name == "reshape"]:
        apart = [(a, b) for a, b in groups(shape(op.operands[0].type), shape(op.result.type))
                 if not (plain(a) and plain(b)) and a != b]
        if len(apart) != 1 or len(apart[0][1]) != 1:
            continue
        ((merged, (extent,)),) = apart
        whole = prod(padded(merged))
        axis = shape(op.result.type).index(extent)
        if shape(op.result.type).count(extent) > 1 or whole != padded((extent,))[0]:
            continue
        for value, place in (_between(op.result, axis, merged, readers) or {}).items():
            extents = list(found.get(value, shape(value.type)))
            extents[place] = whole
            found[value] = tuple(extents)
    return found


def _between(value: Value, axis: int, merged: Shape, readers: dict[Value, list[Op]]
             ) -> dict[Value, int] | None:
    """What is made of a tile until its axis is taken apart, with where the axis is; None if it may
    be known meanwhile where its elements are."""
    found = {value: axis}
    stack = [value]
    while stack:
        value = stack.pop()
        axis = found[value]
        for op in readers.get(value, ()):
            if op.name == "reshape" and _takes_apart(op, axis, merged):
                continue
            converts = op.info.elementwise and len(op.operands) == len(op.results) == 1 and (
                op.guard is None)
            multiplies = op.name == "dot" and len(shape(op.result.type)) == 2 and (
                op.operands.index(value) == axis and op.operands.count(value) == 1
                and constant_of(op.operands[2]) is not None)
            if not converts and not multiplies:
                return None
            found[op.result] = axis
            stack.append(op.result)
    return found


def _takes_apart(op: Op, axis: int, merged: Shape) -> bool:
    before, after = shape(op.operands[0].type), shape(op.result.type)
    apart = [(a, b) for a, b in groups(before, after) if not (plain(a) and plain(b)) and a != b]
    return apart == [((before[axis],), merged)] and before.count(before[axis]) == 1


def plain(extents: Shape) -> bool:
    """All but the first are powers of two."""
    return all(n & (n - 1) == 0 for n in extents[1:])


def groups(before: Shape, after: Shape) -> list[tuple[Shape, Shape]]:
    """The shortest runs of axes of both shapes that have equal sizes; extents of 1 left out.

    >>> groups((4, 6, 1, 5), (8, 3, 5))
    [((4, 6), (8, 3)), ((5,), (5,))]
    """
    found = []
    a, b = [n for n in before if n > 1], [n for n in after if n > 1]
    while a or b:
        left, right = [a.pop(0)], [b.pop(0)]
        while prod(left) != prod(right):
            if prod(left) < prod(right):
                left.append(a.pop(0))
            else:
                right.append(b.pop(0))
        found.append((tuple(left), tuple(right)))
    return found
