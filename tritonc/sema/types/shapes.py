"""Shapes of tiles: which fit each other, and bringing values to another one."""

from math import prod

from tritonc.sema.context import Context
from tritonc.sema.types.ctypes import INT, ctype
from tritonc.sema.types.term import Term
from tritonc.source import Note, Span

MAX_ELEMENTS = 1 << 20  # of a tile; more fits no GPU's registers many times over

Shape = tuple[int, ...]


def broadcastable(shape: Shape, to: Shape) -> bool:
    """Whether NumPy's rule takes `shape` to `to`."""
    if len(shape) > len(to):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(to)))


def common_shape(*shapes: Shape) -> Shape | None:
    """The shape that all broadcast to; None if there is none.

    >>> common_shape((64, 1), (32,), ()), common_shape((64,), (32,))
    ((64, 32), None)
    """
    found = shapes[0]
    for shape in shapes[1:]:
        if shape == found or not shape:
            continue
        long, short = (found, shape) if len(found) >= len(shape) else (shape, found)
        short = (1,) * (len(long) - len(short)) + short
        if any(a != b and a != 1 and b != 1 for a, b in zip(long, short)):
            return None
        found = tuple(b if a == 1 else a for a, b in zip(long, short))
    return found


def broadcast(context: Context, term: Term, shape: Shape) -> Term:
    """The term in a shape that it broadcasts to."""
    if term.shape == shape:
        return term
    type = ctype(term.type.element, shape)
    if term.constant is not None:
        return Term(type, constant=term.constant)
    if not term.shape:
        return context.op("splat", type, term)
    if len(term.shape) < len(shape):
        term = reshape(context, term, (1,) * (len(shape) - len(term.shape)) + term.shape)
    return term if term.shape == shape else context.op("broadcast", type, term)


def reshape(context: Context, term: Term, shape: Shape) -> Term:
    """The same elements in row-major order in another shape of the same count."""
    if term.shape == shape:
        return term
    type = ctype(term.type.element, shape)
    if term.constant is not None:
        return Term(type, constant=term.constant)
    return context.op("reshape" if term.shape else "splat", type, term)


def along(context: Context, shape: Shape, axis: int) -> Term:
    """0, 1, 2, ... along an axis, in that shape."""
    line = context.op("range", ctype(INT, (shape[axis],)), start=0, stop=shape[axis])
    flat = tuple(n if d == axis else 1 for d, n in enumerate(shape))
    return broadcast(context, reshape(context, line, flat), shape)


def check_size(context: Context, shape: Shape, span: Span) -> None:
    """Refuse a tile that is too large."""
    if prod(shape) > MAX_ELEMENTS:
        context.refuse("tile-too-large", span, f"a tile of shape {spell(shape)} has {prod(shape)} "
                       f"elements; the limit is {MAX_ELEMENTS}")


def spell(shape: Shape) -> str:
    """As messages write it: `[32, 64]`."""
    return f"[{', '.join(map(str, shape))}]"


def meet_shapes(context: Context, span: Span, *terms: Term, notes: tuple[Note, ...] = ()) -> Shape:
    """The common shape of several terms; refused, with `notes`, if they have none."""
    first = terms[0].shape
    if all(t.shape == first for t in terms):
        return first
    found = common_shape(*(t.shape for t in terms))
    if found is None:
        a, b = next((a, b) for i, b in enumerate(terms) for a in terms[:i]
                    if common_shape(a.shape, b.shape) is None)
        context.refuse("shape-mismatch", span, f"the shapes of {a.type} and {b.type} do not match: "
                       "extents must be equal, or 1", *notes, *fitting_hint(a.shape, b.shape),
                       *context.declarations())
    check_size(context, found, span)
    return found


def receiving_hint(shape: Shape, to: Shape) -> tuple[Note, ...]:
    """How a value of `shape` most likely becomes one of `to`: an axis is reduced or inserted."""
    for axis in reversed(range(len(shape))):
        if shape[:axis] + shape[axis + 1:] == to:
            entries = ", ".join("max" if d == axis else ":" for d in range(len(shape)))
            return (Note(f"x[{entries}] is the greatest along axis {axis}, and + instead of max "
                         "the sum"),)
    return fitting_hint(shape, to) if len(to) > 1 else ()


def fitting_hint(a: Shape, b: Shape) -> tuple[Note, ...]:
    """What is most likely missing: an axis."""
    if len(a) == len(b) == 1:
        return (Note("x[:, newaxis] with the one and y[newaxis, :] with the other combines every "
                     f"element with every other, to {spell(a + b)}"),)
    if len(a) == 2 and a == b[::-1]:
        return (Note(f"trans(x) of the one has the shape {spell(b)} of the other"),)
    short, long = sorted((a, b), key=len)
    if len(short) < len(long) and len(short) == 1:
        axis = next((d for d, n in enumerate(long) if n == short[0]), None)
        if axis is not None:
            entries = ", ".join(":" if d == axis else "newaxis" for d in range(axis, len(long)))
            return (Note(f"shapes are aligned at the right; x[{entries}] aligns the {spell(short)} "
                         f"with axis {axis} of the {spell(long)}"), *receiving_hint(long, short))
    return (Note("shapes are aligned at the right, and missing axes count as 1"),)
