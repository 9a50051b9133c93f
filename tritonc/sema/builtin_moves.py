"""How builtins lower that move the elements of tiles: gather, flip, join, cat, sort."""

from __future__ import annotations

from math import prod

from tritonc.frontend import syntax
from tritonc.sema import constants, convert, shapes
from tritonc.sema.builtin_tiles import tile_and_axis
from tritonc.sema.context import Context, decayed
from tritonc.sema.ctypes import BOOL, INT, NUMBERS, Number, ctype
from tritonc.sema.shapes import Shape
from tritonc.sema.term import POISON, Term

_SIGNED = {8: "int8", 16: "int16", 32: "int32", 64: "int64"}


def _along(context: Context, shape: Shape, axis: int) -> Term:
    """0, 1, 2, ... along an axis, in that shape."""
    line = context.op("range", ctype(INT, (shape[axis],)), start=0, stop=shape[axis])
    flat = tuple(n if d == axis else 1 for d, n in enumerate(shape))
    return shapes.broadcast(context, shapes.reshape(context, line, flat), shape)


def _number(context: Context, value: int, shape: Shape) -> Term:
    return Term(ctype(INT, shape), constant=value)


def _take(context: Context, x: Term, index: Term, axis: int) -> Term:
    type = ctype(x.type.element, index.shape)
    if x.constant is not None:
        return Term(type, constant=x.constant)
    return context.op("take", type, x, index, axis=axis, extent=x.shape[axis])


def gather(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """gather(x, index, axis)."""
    x, index, axis_term = arguments
    found = tile_and_axis(context, node, [x, axis_term], 2)
    if found is None:
        return POISON
    axis = found[1]
    assert axis is not None
    element = index.type.element
    if not isinstance(element, Number) or not element.is_int or element is BOOL:
        return context.error("type-mismatch", node.arguments[1].span, "the indices of gather must "
                             f"be integers, found {index.type}")
    others = [tuple(n for d, n in enumerate(t.shape) if d != axis) for t in (x, index)]
    if len(x.shape) != len(index.shape) or others[0] != others[1]:
        return context.error("shape-mismatch", node.arguments[1].span, "gather wants indices of "
                             f"the tile's shape, but along axis {axis}: found {index.type} for "
                             f"{x.type}")
    return _take(context, decayed(x), convert.number(context, index, INT), axis)


def flip(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """flip(x, axis)."""
    found = tile_and_axis(context, node, arguments)
    if found is None:
        return POISON
    x, axis = found
    assert axis is not None
    last = _number(context, x.shape[axis] - 1, x.shape)
    back = context.op("sub", last.type, last, _along(context, x.shape, axis))
    return _take(context, x, back, axis)


def join(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """join(a, b): a new last axis, of a and b."""
    operands = convert.unify(context, node.span, *arguments, compute=False)
    if operands is None:
        return POISON
    a, b = (decayed(t) for t in operands)
    shape = (*a.shape, 2)
    if not shapes.check_size(context, shape, node.span):
        return POISON
    return _beside(context, a, b, len(a.shape))


def _beside(context: Context, a: Term, b: Term, axis: int) -> Term:
    """Two tiles of one shape along a new axis of extent 2."""
    one = (*a.shape[:axis], 1, *a.shape[axis:])
    shape = (*a.shape[:axis], 2, *a.shape[axis:])
    a, b = (shapes.broadcast(context, shapes.reshape(context, t, one), shape) for t in (a, b))
    first = context.op("icmp", ctype(BOOL, shape), _along(context, shape, axis),
                       _number(context, 0, shape), predicate="eq")
    return context.op("select", a.type, first, a, b)


def cat(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """cat(a, b, axis): b behind a."""
    a, b, axis_term = arguments
    found = tile_and_axis(context, node, [a, axis_term], 2)
    if found is None:
        return POISON
    axis = found[1]
    assert axis is not None
    others = [tuple(n for d, n in enumerate(t.shape) if d != axis) for t in (a, b)]
    if len(a.shape) != len(b.shape) or others[0] != others[1]:
        return context.error("shape-mismatch", node.span, "cat wants tiles whose extents are equal "
                             f"but along axis {axis}: found {a.type} and {b.type}")
    element = convert.common_element(context, node.span, a, b) if \
        a.type.element is not b.type.element else a.type.element
    if element is None:
        return POISON
    if isinstance(element, Number) and a.type.element is not b.type.element:
        a, b = (convert.number(context, t, element) for t in (a, b))
    m, n = a.shape[axis], b.shape[axis]
    shape = (*a.shape[:axis], m + n, *a.shape[axis + 1 :])
    if not shapes.check_size(context, shape, node.span):
        return POISON
    if m == n:
        return shapes.reshape(context, _beside(context, a, b, axis), shape)
    at = _along(context, shape, axis)
    inside = context.op("icmp", ctype(BOOL, shape), at, _number(context, m, shape),
                        predicate="slt")
    zero = _number(context, 0, shape)
    behind = context.op("sub", at.type, at, _number(context, m, shape))
    left = _take(context, a, context.op("select", at.type, inside, at, zero), axis)
    right = _take(context, b, context.op("select", at.type, inside, zero, behind), axis)
    return context.op("select", left.type, inside, left, right)


# --- sorting ---


def sort(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """sort(x, axis) and sort(x, axis, descending): a bitonic network (Batcher 1968).

    Floats are compared as integers: -0 before 0, NaNs behind all numbers.
    """
    found = tile_and_axis(context, node, arguments[:2])
    if found is None:
        return POISON
    x, axis = found
    assert axis is not None
    descending = False
    if len(arguments) == 3:
        number = arguments[2].constant
        if not isinstance(number, int) or arguments[2].shape:
            return constants.not_constant(context, node.arguments[2].span,
                                          "whether a sort is descending")
        descending = bool(number)
    element = x.type.element
    if not isinstance(element, Number) or (element.is_float and element.ir.bits < 16):
        return context.error("type-mismatch", node.arguments[0].span, f"'{node.callee}' takes "
                             f"numbers of 16 bits or more, or integers, found {x.type}")
    if x.constant is not None or x.shape[axis] == 1:
        return x
    rows, n, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    keys = shapes.reshape(context, _keys(context, x, element), (rows, n, inner))
    size = 1 << (n - 1).bit_length()
    if size != n:
        if not shapes.check_size(context, (rows, size, inner), node.span):
            return POISON
        keys = _padded(context, keys, size, descending)
    keys = _network(context, keys, size, descending)
    if size != n:
        keys = _take(context, keys, _along(context, (rows, n, inner), 1), 1)
    result = _values(context, shapes.reshape(context, keys, x.shape), element)
    last = result.value.op if result.value is not None else None
    if context.region is not None and last is not None and x.value is not None:
        context.region.lines[last] = x.value, axis
    return result


def _flipped(context: Context, bits: Term) -> Term:
    """Of negative numbers all bits but the sign changed: integers in the order of floats."""
    element = bits.type.element
    assert isinstance(element, Number)
    width = element.ir.bits
    sign = context.op("ashr", bits.type, bits, Term(bits.type, constant=width - 1))
    mask = context.op("lshr", bits.type, sign, Term(bits.type, constant=1))
    return context.op("xor", bits.type, bits, mask)


def _keys(context: Context, x: Term, element: Number) -> Term:
    """Signed integers in the order of the elements."""
    if element is BOOL:
        return convert.number(context, x, NUMBERS["int8"])
    signed = NUMBERS[_SIGNED[element.ir.bits]]
    type = ctype(signed, x.shape)
    if element.is_float:
        bits = _flipped(context, context.op("bitcast", type, x))
        nan = context.op("fcmp", ctype(BOOL, x.shape), x, x, predicate="uno")
        return context.op("select", type, nan, Term(type, constant=_greatest(signed)), bits)
    if not element.signed:
        return context.op("xor", type, Term(type, x.value), Term(
            type, constant=-1 - _greatest(signed)))
    return x


def _greatest(element: Number) -> int:
    return (1 << (element.ir.bits - 1)) - 1


def _values(context: Context, keys: Term, element: Number) -> Term:
    type = ctype(element, keys.shape)
    signed = keys.type.element
    assert isinstance(signed, Number)
    if element is BOOL:
        return convert.number(context, keys, BOOL)
    if element.is_float:
        return context.op("bitcast", type, _flipped(context, keys))
    if not element.signed:
        keys = context.op("xor", keys.type, keys, Term(
            keys.type, constant=-1 - _greatest(signed)))
        return Term(type, keys.value)
    return keys


def _padded(context: Context, keys: Term, size: int, descending: bool) -> Term:
    """With keys that come last behind the others."""
    rows, n, inner = keys.shape
    shape = (rows, size, inner)
    at = _along(context, shape, 1)
    inside = context.op("icmp", ctype(BOOL, shape), at, _number(context, n, shape),
                        predicate="slt")
    index = context.op("smin", at.type, at, _number(context, n - 1, shape))
    taken = _take(context, keys, index, 1)
    element = keys.type.element
    assert isinstance(element, Number)
    last = -1 - _greatest(element) if descending else _greatest(element)
    return context.op("select", taken.type, inside, taken, Term(taken.type, constant=last))


def _network(context: Context, keys: Term, n: int, descending: bool) -> Term:
    """log2(n) (log2(n) + 1) / 2 steps, each of which compares elements `near` apart."""
    along = 2
    while along <= n:
        near = along // 2
        while near:
            keys = _step(context, keys, n, along, near, descending)
            near //= 2
        along *= 2
    return keys


def _step(context: Context, keys: Term, n: int, along: int, near: int, descending: bool) -> Term:
    """Of two partners one keeps the lesser, one the greater; both by their exclusive or."""
    rows, _, inner = keys.shape
    split = (rows * n // (2 * near), 2, near * inner)
    pairs = shapes.reshape(context, keys, split)
    both = context.op("reduce", ctype(keys.type.element, (split[0], split[2])), pairs, kind="xor",
                      axes=[1])
    both = shapes.broadcast(context, shapes.reshape(context, both, (split[0], 1, split[2])), split)
    other = context.op("xor", pairs.type, pairs, both)
    low = context.op("smin", pairs.type, pairs, other)
    high = context.op("smax", pairs.type, pairs, other)
    # The later of two keeps the greater, but where bit `along` of its place is set.
    place = _along(context, (rows, n, inner), 1)
    later = _bit(context, place, near)
    back = _bit(context, place, along) if along < n else None
    greater = later if back is None else context.op("xor", later.type, later, back)
    if descending:
        greater = context.op("xor", greater.type, greater, Term(greater.type, constant=True))
    greater = shapes.reshape(context, greater, split)
    return shapes.reshape(context, context.op("select", low.type, greater, high, low), keys.shape)


def _bit(context: Context, place: Term, bit: int) -> Term:
    masked = context.op("and", place.type, place, Term(place.type, constant=bit))
    return context.op("icmp", ctype(BOOL, place.shape), masked, Term(place.type, constant=0),
                      predicate="ne")
