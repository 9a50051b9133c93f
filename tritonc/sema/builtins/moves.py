"""How builtins lower that move or count elements: gather, flip, join, split, cat, histogram."""

from tritonc.frontend import syntax
from tritonc.sema.builtins.tiles import axis_of
from tritonc.sema.context import Context, decayed
from tritonc.sema.operations import convert
from tritonc.sema.operations.operators import compare
from tritonc.sema.types import constants, shapes
from tritonc.sema.types.ctypes import BOOL, INT, NUMBERS, Number, PointerTo, Struct, ctype
from tritonc.sema.types.shapes import Shape, along
from tritonc.sema.types.term import Term
from tritonc.source import Note

SIGNED = {8: "int8", 16: "int16", 32: "int32", 64: "int64"}


def take(context: Context, x: Term, index: Term, axis: int) -> Term:
    type = ctype(x.type.element, index.shape)
    if x.constant is not None:
        return Term(type, constant=x.constant)
    return context.op("take", type, x, index, axis=axis, extent=x.shape[axis])


def gather(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """gather(x, index, axis)."""
    x, index, axis_term = arguments
    axis = axis_of(context, node, x, axis_term, 2)
    element = index.type.element
    if not isinstance(element, Number) or not element.is_int or element is BOOL:
        return context.error("type-mismatch", node.arguments[1].span, "the indices of gather must "
                             f"be integers, found {index.type}")
    others = [tuple(n for d, n in enumerate(t.shape) if d != axis) for t in (x, index)]
    if len(x.shape) != len(index.shape) or others[0] != others[1]:
        return context.error("shape-mismatch", node.arguments[1].span, "gather needs indices of "
                             f"the tile's shape, except along axis {axis}: found {index.type} for "
                             f"{x.type}")
    return take(context, decayed(x), convert.number(context, index, INT), axis)


def flip(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """flip(x, axis)."""
    x, axis_term = arguments
    axis = axis_of(context, node, x, axis_term)
    return take(context, x, from_end(context, x.shape, axis), axis)


def from_end(context: Context, shape: Shape, axis: int) -> Term:
    """..., 2, 1, 0 along an axis, in that shape."""
    at = along(context, shape, axis)
    return context.op("sub", at.type, at.like(shape[axis] - 1), at)


def join(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """join(a, b): a new last axis, of a and b."""
    a, b = (decayed(t) for t in convert.unify(context, node.span, *arguments, compute=False))
    shapes.check_size(context, (*a.shape, 2), node.span)
    return _beside(context, a, b, len(a.shape))


def _beside(context: Context, a: Term, b: Term, axis: int) -> Term:
    """Two tiles of one shape along a new axis of extent 2."""
    one = (*a.shape[:axis], 1, *a.shape[axis:])
    shape = (*a.shape[:axis], 2, *a.shape[axis:])
    a, b = (shapes.broadcast(context, shapes.reshape(context, t, one), shape) for t in (a, b))
    at = along(context, shape, axis)
    return context.op("select", a.type, compare(context, "==", at, at.like(0)), a, b)


def cat(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """cat(a, b, axis): b behind a."""
    a, b, axis_term = arguments
    axis = axis_of(context, node, a, axis_term, 2)
    others = [tuple(n for d, n in enumerate(t.shape) if d != axis) for t in (a, b)]
    if len(a.shape) != len(b.shape) or others[0] != others[1]:
        return context.error("shape-mismatch", node.span, "cat needs tiles whose extents are equal "
                             f"except along axis {axis}: found {a.type} and {b.type}")
    element = convert.common_element(context, node.span, a, b) if \
        a.type.element is not b.type.element else a.type.element
    if isinstance(element, Number) and a.type.element is not b.type.element:
        a, b = (convert.number(context, t, element) for t in (a, b))
    m, n = a.shape[axis], b.shape[axis]
    shape = (*a.shape[:axis], m + n, *a.shape[axis + 1 :])
    shapes.check_size(context, shape, node.span)
    if m == n:
        return shapes.reshape(context, _beside(context, a, b, axis), shape)
    at = along(context, shape, axis)
    inside = compare(context, "<", at, at.like(m))
    behind = context.op("sub", at.type, at, at.like(m))
    left = take(context, a, context.op("select", at.type, inside, at, at.like(0)), axis)
    right = take(context, b, context.op("select", at.type, inside, at.like(0), behind), axis)
    return context.op("select", left.type, inside, left, right)


def split(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """split(x): what join joins."""
    x = decayed(arguments[0])
    if not x.shape or x.shape[-1] != 2:
        return context.error("shape-mismatch", node.arguments[0].span, "split takes a tile whose "
                             f"last axis has the extent 2, found {x.type}")
    halves = [_part(context, x, len(x.shape) - 1, at) for at in range(2)]
    return structure("halves", ("first", "second"), halves)


def structure(name: str, names: tuple[str, ...], members: list[Term]) -> Term:
    """A struct that a builtin gives, of terms of one shape."""
    struct = Struct(name, tuple((n, ctype(m.type.element))
                                for n, m in zip(names, members, strict=True)), built_in=True)
    return Term(ctype(struct, members[0].shape), members=tuple(members))


def _part(context: Context, x: Term, axis: int, at: int) -> Term:
    """The elements that have the number `at` along an axis: as bits, all others 0, joined by or."""
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    element = x.type.element
    if x.constant is not None:
        return Term(ctype(element, shape), constant=x.constant)
    bits = x
    if isinstance(element, PointerTo):
        bits = convert.address(context, x)
    elif element.is_float:
        bits = context.op("bitcast", ctype(NUMBERS[SIGNED[element.ir.bits]], x.shape), x)
    place = along(context, x.shape, axis)
    here = compare(context, "==", place, place.like(at))
    zero = bits.like(False if element is BOOL else 0)
    chosen = context.op("select", bits.type, here, bits, zero)
    found = context.op("reduce", ctype(bits.type.element, shape), chosen, kind="or", axes=[axis])
    if isinstance(element, PointerTo):
        return convert.pointer_at(context, found, element)
    return context.op("bitcast", ctype(element, shape), found) if element.is_float else found


# --- counting ---

MOST_BINS = 8192


def histogram(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """histogram(x, bins)."""
    x = arguments[0]
    bins = constants.integer_of(context, arguments[1], node.arguments[1].span, "a count of bins")
    element = x.type.element
    if not isinstance(element, Number) or not element.is_int or element is BOOL or not x.shape:
        return context.error("type-mismatch", node.arguments[0].span, "histogram counts a tile of "
                             f"integers, found {x.type}")
    if not 1 <= bins <= MOST_BINS:
        return context.error("tile-extent", node.arguments[1].span, f"a histogram has 1 to "
                             f"{MOST_BINS} bins, found {bins}",
                             Note("more are counted in memory, as in 'atomic_add(counts + x, 1)'"))
    context.at(node.span)
    if element.ir.bits == 64:  # what is outside stays so
        least = "smin" if element.signed else "umin"
        x = context.op(least, x.type, x, x.like(bins))
        if element.signed:
            x = context.op("smax", x.type, x, x.like(-1))
    numbers = context.value(convert.number(context, x, INT))
    return context.op("histogram", ctype(INT, (bins,)), Term(ctype(INT, x.shape), numbers),
                      extent=bins)
