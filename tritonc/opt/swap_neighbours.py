"""swap_neighbours: gathers that swap neighbours, `x[i ^ 4]`, split and join an axis instead.

Before:  %i = xor (0 ... 256), 4                  After:  %s = reshape %x            : i32<32, 2, 4>
         %y = take %x, %i {axis = 0}                      %a, %b = the halves of axis 1
                                                          %y = reshape (%b beside %a) : i32<256>

A gather goes through shared memory, since its indices may be any.  Halves of an axis are registers
of a thread, or a shuffle away."""

from tritonc.analysis.affine import Affinity
from tritonc.analysis.values import axis_before, int_of
from tritonc.ir import types
from tritonc.ir.build import Builder, replace_each
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value

MOST_BITS = 2  # each is an exchange of its own


def swap_neighbours(kernel: Kernel, context: Context) -> bool:
    """Replace each take whose index is its own place with a few bits inverted."""
    return replace_each(kernel, "take", _swapped)


def _swapped(op: Op, build: Builder) -> Value | None:
    x, index = op.operands
    t, axis = x.type, op.attributes["axis"]
    if not isinstance(t, types.Tile) or t.shape != types.shape(index.type) or types.is_pointer(t):
        return None
    mask, extent = _mask(index, axis), t.shape[axis]
    if mask is None or not 0 < mask < extent or extent & extent - 1 or mask.bit_count() > MOST_BITS:
        return None
    e = types.scalar(t)
    bits = x if not types.is_float(t) else build.value(
        "bitcast", x, type=types.make(types.SCALARS[f"i{e.bits}"], t.shape))
    for bit in range(mask.bit_length()):
        if mask >> bit & 1:
            bits = _swap(build, bits, axis, bit)
    found = build.value("bitcast", bits, type=t) if types.is_float(t) else bits
    found.name = op.result.name
    return found


def _mask(index: Value, axis: int) -> int | None:
    """The number of which the index along an axis is the exclusive disjunction with its place."""
    op = index.op
    while op is not None and op.name in ("broadcast", "reshape"):
        source = axis_before(op, axis)
        if source is None:
            return None
        axis, op = source, op.operands[0].op
    if op is None or op.name != "xor":
        return None
    for place, other in (op.operands, op.operands[::-1]):
        mask, form = int_of(other), Affinity().of(place)
        if mask is not None and form is not None and form.offset.constant == 0 and all(
                stride.constant == (d == axis) for d, stride in enumerate(form.strides)):
            return mask
    return None


def _swap(build: Builder, x: Value, axis: int, bit: int) -> Value:
    """The elements whose places differ in one bit, swapped."""
    whole, e = types.shape(x.type), types.scalar(x.type)
    before, behind = whole[:axis], whole[axis + 1:]
    low, high = 1 << bit, whole[axis] >> bit + 1
    pairs = (*before, high, 2, low, *behind)
    one = (*before, high, 1, low, *behind)
    at = len(before) + 1
    split = build.value("reshape", x, type=types.make(e, pairs))
    numbers = build.numbers(at, pairs)
    halves = [_half(build, split, numbers, at, number, one) for number in (1, 0)]
    first = build.value("icmp", numbers, build.constant(0, numbers.type), predicate="eq")
    return build.value("reshape", build.value("select", first, *halves), type=x.type)


def _half(build: Builder, pairs: Value, numbers: Value, axis: int, number: int,
          one: tuple[int, ...]) -> Value:
    """One of each pair, in both of their places."""
    here = build.value("icmp", numbers, build.constant(number, numbers.type), predicate="eq")
    chosen = build.value("select", here, pairs, build.constant(0, pairs.type))
    half = build.value("reduce", chosen, kind="or", axes=(axis,))
    return build.spread(half, one, types.shape(pairs.type))
