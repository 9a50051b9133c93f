"""sort and topk: bitonic networks, in registers and between threads (Batcher 1968)."""

from math import prod

from tritonc.frontend import syntax
from tritonc.sema.builtins.moves import SIGNED, from_end, structure, take
from tritonc.sema.builtins.tiles import axis_of
from tritonc.sema.context import Context, decayed
from tritonc.sema.operations import convert
from tritonc.sema.operations.operators import compare
from tritonc.sema.types import constants, shapes
from tritonc.sema.types.ctypes import BOOL, INT, LONG, NUMBERS, UINT, Number, ctype
from tritonc.sema.types.term import Term
from tritonc.source import Note

WORD = 32  # bits that the hardware compares and chooses at once
MOST_COMPARISONS = 1 << 24  # of a network, which is written out: 65536 elements in a line


def sort(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """sort(x, axis) and sort(x, axis, descending): a bitonic network (Batcher 1968).

    Floats are compared as integers: -0 before 0, NaNs behind all numbers."""
    x = arguments[0]
    axis = axis_of(context, node, x, arguments[1])
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
    _check_padded(context, x, axis, x.shape[axis], node)
    result = _values(context, _sorted(context, _keys(context, x, element), axis, descending),
                     element)
    _note(context, result, x, axis)
    return result


def _note(context: Context, result: Term, x: Term, axis: int) -> None:
    """Each element of the result may be any of its line."""
    last = result.value.op if result.value is not None else None
    if context.region is not None and last is not None and x.value is not None:
        context.region.lines[last] = x.value, axis


def _sorted(context: Context, keys: Term, axis: int, descending: bool) -> Term:
    """Signed integers in order along an axis."""
    shape = keys.shape
    rows, n, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    keys = shapes.reshape(context, keys, (rows, n, inner))
    size = 1 << (n - 1).bit_length()
    if size != n:
        keys = _padded(context, keys, size, descending)
    keys = _network(context, keys, size, size, descending)
    if size != n:
        keys = take(context, keys, shapes.along(context, (rows, n, inner), 1), 1)
    return shapes.reshape(context, keys, shape)


def _greatest_first(context: Context, keys: Term, axis: int, k: int) -> Term:
    """The k greatest of signed integers along an axis, the greatest first.

    Blocks of k are sorted, to and fro by turns.  Of two such blocks the greater of each two
    elements that have one place are the k greatest of both; they rise and fall once, so that the
    last steps of a sort put them in order.  So half of the elements are left each time."""
    shape = keys.shape
    rows, n, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    keys = shapes.reshape(context, keys, (rows, n, inner))
    size, block = 1 << (n - 1).bit_length(), 1 << (k - 1).bit_length()
    if size != n:
        keys = _padded(context, keys, size, True)
    keys = _network(context, keys, size, block, True)
    while size > block:
        split = (rows * size // (2 * block), 2, block * inner)
        keys = context.op("reduce", ctype(keys.type.element, (split[0], split[2])),
                          shapes.reshape(context, keys, split), kind="smax", axes=[1])
        size //= 2
        keys = shapes.reshape(context, keys, (rows, size, inner))
        keys = _merged(context, keys, size, block, True)
    if block != k:
        keys = take(context, keys, shapes.along(context, (rows, k, inner), 1), 1)
    return shapes.reshape(context, keys, (*shape[:axis], k, *shape[axis + 1 :]))


def _check_padded(context: Context, x: Term, axis: int, block: int, node: syntax.Call) -> None:
    """Refuse a tile that is too large once it is padded to a power of two, or whose network is."""
    size, run = (1 << (n - 1).bit_length() for n in (x.shape[axis], block))
    padded = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    shapes.check_size(context, padded, node.span)
    steps = run.bit_length() * (run.bit_length() - 1) // 2
    if prod(padded) * steps > MOST_COMPARISONS:
        context.refuse("tile-too-large", node.span, f"'{node.callee}' of {x.type} takes {steps} "
                       f"steps of {prod(padded)} elements, which are written out; the limit is "
                       f"{MOST_COMPARISONS} in all", Note(
                           "sort smaller tiles, and merge them in memory"))


def topk(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """topk(x, k, axis): sorted is a long, an element's key above its place from the end, so that of
    equal elements the first is the greater one; keys alone where `.values` is all that is read."""
    x, count, axis_term = arguments
    axis = axis_of(context, node, x, axis_term, 2)
    k = constants.integer_of(context, count, node.arguments[1].span, "a count of elements")
    x = decayed(x)
    element, n = x.type.element, x.shape[axis]
    if not isinstance(element, Number) or element.ir.bits > 32 or (
            element.is_float and element.ir.bits < 16):
        return context.error("type-mismatch", node.arguments[0].span, "topk takes floats of 16 or "
                             f"32 bits, or integers of up to 32, found {x.type}")
    if not 1 <= k <= n:
        return context.error("call-arguments", node.arguments[1].span, f"the axis has {n} "
                             f"elements, so k is 1 to {n}, found {k}")
    _check_padded(context, x, axis, k, node)
    context.at(node.span)
    x = Term(x.type, context.value(x))
    keys = _keys(context, x, element)
    if context.member is not None and context.member.base is node \
            and context.member.name == "values":
        values = _values(context, _greatest_first(context, keys, axis, k), element)
        _note(context, values, x, axis)
        return structure("topk", ("values",), [values])
    keys = convert.number(context, keys, LONG)
    high = context.op("shl", keys.type, keys, keys.like(32))
    place = convert.number(context, from_end(context, x.shape, axis), UINT)
    low = convert.number(context, place, LONG)
    both = context.op("or", keys.type, high, low)
    both = _greatest_first(context, both, axis, k)
    found_key = context.op("ashr", both.type, both, both.like(32))
    signed = NUMBERS[SIGNED[max(element.ir.bits, 8)]]
    values = _values(context, convert.number(context, found_key, signed), element)
    place = convert.number(context, both, INT)
    indices = context.op("sub", place.type, place.like(n - 1), place)
    for part in (values, indices):
        _note(context, part, x, axis)
    return structure("topk", ("values", "indices"), [values, indices])


def _flipped(context: Context, bits: Term) -> Term:
    """Of negative numbers all bits but the sign changed: integers in the order of floats."""
    element = bits.type.arithmetic
    width = element.ir.bits
    sign = context.op("ashr", bits.type, bits, bits.like(width - 1))
    mask = context.op("lshr", bits.type, sign, bits.like(1))
    return context.op("xor", bits.type, bits, mask)


def _keys(context: Context, x: Term, element: Number) -> Term:
    """Signed integers in the order of the elements."""
    if element is BOOL:
        return convert.number(context, x, NUMBERS["int8"])
    signed = NUMBERS[SIGNED[element.ir.bits]]
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
    signed = keys.type.arithmetic
    if element is BOOL:
        return convert.number(context, keys, BOOL)
    if element.is_float:
        return context.op("bitcast", type, _flipped(context, keys))
    if not element.signed:
        keys = context.op("xor", keys.type, keys, Term(keys.type, constant=-1 - _greatest(signed)))
        return Term(type, keys.value)
    return keys


def _padded(context: Context, keys: Term, size: int, descending: bool) -> Term:
    """With keys that come last behind the others."""
    rows, n, inner = keys.shape
    shape = (rows, size, inner)
    at = shapes.along(context, shape, 1)
    inside = compare(context, "<", at, at.like(n))
    index = context.op("smin", at.type, at, at.like(n - 1))
    taken = take(context, keys, index, 1)
    element = keys.type.arithmetic
    last = -1 - _greatest(element) if descending else _greatest(element)
    return context.op("select", taken.type, inside, taken, taken.like(last))


def _network(context: Context, keys: Term, n: int, block: int, descending: bool) -> Term:
    """log2(n) (log2(n) + 1) / 2 steps, if the block is of n elements; blocks of fewer are sorted
    each on its own, every second one in the opposite order."""
    run = 2
    while run <= block:
        keys = _merged(context, keys, n, run, descending)
        run *= 2
    return keys


def _merged(context: Context, keys: Term, n: int, run: int, descending: bool) -> Term:
    """Runs that rise and fall once, in order: log2(run) steps compare elements `near` apart."""
    near = run // 2
    while near:
        keys = _step(context, keys, n, run, near, descending)
        near //= 2
    return keys


def _step(context: Context, keys: Term, n: int, run: int, near: int, descending: bool) -> Term:
    """Of two partners one keeps the lesser, one the greater; both by their exclusive or."""
    rows, _, inner = keys.shape
    split = (rows * n // (2 * near), 2, near * inner)
    pairs = shapes.reshape(context, keys, split)
    both = context.op("reduce", ctype(keys.type.element, (split[0], split[2])), pairs, kind="xor",
                      axes=[1])
    both = shapes.broadcast(context, shapes.reshape(context, both, (split[0], 1, split[2])), split)
    other = context.op("xor", pairs.type, pairs, both)
    # The later of two keeps the greater, but where bit `run` of its place is set.
    place = shapes.along(context, (rows, n, inner), 1)
    later = _bit(context, place, near)
    back = _bit(context, place, run) if run < n else None
    greater = later if back is None else context.op("xor", later.type, later, back)
    if descending:
        greater = context.op("xor", greater.type, greater, greater.like(True))
    greater = shapes.reshape(context, greater, split)
    element = keys.type.arithmetic
    if element.ir.bits > WORD:  # one comparison and one choice, each of two words
        less = compare(context, "<", pairs, other)
        own = context.op("xor", less.type, less, greater)
        kept = context.op("select", pairs.type, own, pairs, other)
    else:  # one instruction, minimum or maximum
        low = context.op("smin", pairs.type, pairs, other)
        high = context.op("smax", pairs.type, pairs, other)
        kept = context.op("select", low.type, greater, high, low)
    return shapes.reshape(context, kept, keys.shape)


def _bit(context: Context, place: Term, bit: int) -> Term:
    masked = context.op("and", place.type, place, place.like(bit))
    return compare(context, "!=", masked, place.like(0))
