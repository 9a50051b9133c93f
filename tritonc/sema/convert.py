"""Implicit conversions of element types and of shapes.

`number` and `broadcast` convert where the caller knows that it is legal; `assign` is what
initialisation, assignment, arguments and results share, with its messages; `truth` makes
conditions; `unify` brings the operands of an elementwise operation to one type and shape.
Explicit conversions are in `casts`.
"""

from __future__ import annotations

from math import prod

from tritonc.ir.numbers import round_to
from tritonc.sema import exact
from tritonc.sema.context import Context, is_poisoned
from tritonc.sema.ctypes import (
    BOOL,
    FLOAT,
    LITERAL,
    LONG,
    CType,
    Element,
    Number,
    PointerTo,
    arithmetic,
    ctype,
    integer_ends,
)
from tritonc.sema.term import POISON, Term
from tritonc.source import Note, Span

MAX_ELEMENTS = 1 << 20  # of a tile; more fits no GPU's registers many times over

Shape = tuple[int, ...]


# --- element types ---


def number(context: Context, term: Term, to: Number) -> Term:
    """The term with elements converted to an arithmetic type, as C converts them."""
    source = term.type.element
    if source is to:
        return term
    assert isinstance(source, Number)
    type = ctype(to, term.shape)
    if source is LITERAL:
        return Term(type, constant=_literal_as(term, to))
    if source.ir is to.ir:
        return Term(type, term.value, term.constant)
    if to is BOOL:
        zero = Term(term.type, constant=0.0 if source.is_float else 0)
        if source.is_float:
            return context.op("fcmp", type, term, zero, predicate="une")
        return context.op("icmp", type, term, zero, predicate="ne")
    if source.is_int and to.is_int:
        if to.ir.bits < source.ir.bits:
            name = "truncate"
        else:
            name = "sext" if source.signed else "zext"
    elif source.is_int:
        name = "sitofp" if source.signed else "uitofp"
    elif to.is_int:
        name = "fptosi" if to.signed else "fptoui"
    else:
        name = "fpcast"
    return context.op(name, type, term)


def _literal_as(term: Term, to: Number) -> int | float:
    value = term.constant
    assert isinstance(value, exact.Exact | float)
    if to.is_float:
        return exact.round_exact(value, to.ir)
    if to is BOOL:
        return value != 0 if isinstance(value, float) else value.numerator != 0
    low, high = integer_ends(to)
    found = exact.truncate(value)
    if found is None:
        found = 0 if value != value else (high if value == float("inf") else low)
    found = min(max(found, low), high)
    bits = to.ir.bits
    return found - (1 << bits) if found >> (bits - 1) and found >= 0 else found


def pointer(context: Context, term: Term, to: PointerTo) -> Term:
    """A pointer as another pointer type of the same address space."""
    source = term.type.element
    type = ctype(to, term.shape)
    if source.ir == to.ir:
        return Term(type, term.value, term.constant)
    return context.op("bitcast", type, term)


def address(context: Context, term: Term) -> Term:
    """The address in a pointer, a long."""
    return context.op("ptrtoint", ctype(LONG, term.shape), term)


def pointer_at(context: Context, address: Term, to: PointerTo) -> Term:
    """The pointer of an address, a long; never a constant, which pointers cannot be."""
    type = ctype(to, address.shape)
    return Term(type, context.emit("inttoptr", context.value(address), type=type).result)


def null(context: Context, to: PointerTo, shape: Shape = ()) -> Term:
    return pointer_at(context, Term(ctype(LONG, shape), constant=0), to)


def is_null(term: Term) -> bool:
    """A constant integer zero, which C takes for the null pointer."""
    return isinstance(term.type.element, Number) and term.type.element.is_int \
        and term.number == 0


# --- shapes ---


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


def check_size(context: Context, shape: Shape, span: Span) -> bool:
    """Whether a tile of that shape is of a size that can be; reports it if not."""
    if prod(shape) <= MAX_ELEMENTS:
        return True
    context.error("tile-too-large", span, f"a tile of shape {spell(shape)} has {prod(shape)} "
                  f"elements; {MAX_ELEMENTS} is the most")
    return False


def spell(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def meet_shapes(context: Context, span: Span, *terms: Term) -> Shape | None:
    """The common shape of several terms; None after a message if they have none."""
    first = terms[0].shape
    if all(t.shape == first for t in terms):
        return first
    found = common_shape(*(t.shape for t in terms))
    if found is None:
        a, b = next((a, b) for i, b in enumerate(terms) for a in terms[:i]
                    if common_shape(a.shape, b.shape) is None)
        context.error("shape-mismatch", span, f"the shapes of {a.type} and {b.type} do not match: "
                      "extents must be equal, or 1", *_hint(a.shape, b.shape),
                      *context.declarations())
        return None
    return found if check_size(context, found, span) else None


def _hint(a: Shape, b: Shape) -> tuple[Note, ...]:
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
                         f"with axis {axis} of the {spell(long)}"),)
    return (Note("shapes are aligned at the right, and missing axes count as 1"),)


# --- operands ---


def common_element(context: Context, span: Span, *terms: Term) -> Number | None:
    """The type of the usual arithmetic conversions; None after a message for other types.

    Floats of one type keep it, tf32 and 8-bit floats too: `arithmetic` is for computing.
    """
    elements = [t.type.element for t in terms]
    found = elements[0]
    for e, t in zip(elements, terms):
        if not isinstance(e, Number):
            number = next((u.type for u in terms if isinstance(u.type.element, Number)), None)
            context.error("type-mismatch", span, f"a number is wanted here, found {t.type}"
                          if number is None else f"{t.type} and {number} have no type in common")
            return None
    assert isinstance(found, Number)
    if all(e is found for e in elements):
        return found
    # Literals last: `1.5 + half` is half, also beside an integer.
    ordered = sorted(elements, key=lambda e: e is LITERAL)
    for e in ordered:
        assert isinstance(e, Number)
        if found is not e:
            found = arithmetic(found, e)
    if found is LITERAL and any(e is not LITERAL for e in elements):
        return FLOAT
    return found


def meet_types(context: Context, span: Span, *terms: Term, compute: bool = True) -> CType | None:
    """The type that all terms convert to for an elementwise operation; None after a message.

    `compute`: the type is one to compute in (C's promotions); else equal types stay.
    """
    if is_poisoned(*terms):
        return None
    pointers = [t.type.element for t in terms if isinstance(t.type.element, PointerTo)]
    to: Element | None
    if pointers and all(isinstance(t.type.element, PointerTo) or is_null(t) for t in terms):
        to = _common_pointer(context, span, pointers)
    else:
        to = common_element(context, span, *terms)
        if to is not None:
            to = arithmetic(to, to) if compute else _narrowest(to, terms)
    if to is None:
        return None
    shape = meet_shapes(context, span, *terms)
    return None if shape is None else ctype(to, shape)


def _narrowest(to: Number, terms: tuple[Term, ...]) -> Number:
    """The type of the operands that are no constants, if it holds the constants beside them.

    `m ? *p : 0` has the type of *p, also where that is char or an 8-bit float: C would promote,
    but no value differs, and a dot shall see what was loaded.
    """
    types = {t.type.element for t in terms if t.constant is None}
    if len(types) != 1:
        return to
    only = types.pop()
    assert isinstance(only, Number)
    return only if all(t.constant is None or _fits(t, only) for t in terms) else to


def _fits(term: Term, to: Number) -> bool:
    """Whether an unsuffixed constant is a number of the type `to`."""
    integer, constant = term.integer, term.constant
    if integer is not None:
        low, high = integer_ends(to)
        return round_to(to.ir, integer) == integer if to.is_float else low <= integer <= high
    if not to.is_float or term.type.element is not LITERAL:
        return False
    assert isinstance(constant, exact.Exact | float)
    return exact.is_exact(constant, to.ir)


def to_type(context: Context, term: Term, type: CType) -> Term:
    """The term as a type that `meet_types` found for it."""
    if isinstance(type.element, PointerTo):
        if is_null(term):
            return null(context, type.element, type.shape)
        return broadcast(context, pointer(context, term, type.element), type.shape)
    return broadcast(context, number(context, term, type.element), type.shape)


def unify(context: Context, span: Span, *terms: Term, compute: bool = True) -> list[Term] | None:
    """The terms in one element type and one shape (see `meet_types`); None after a message."""
    type = meet_types(context, span, *terms, compute=compute)
    return None if type is None else [to_type(context, t, type) for t in terms]


def _common_pointer(context: Context, span: Span, pointers: list[PointerTo]) -> PointerTo | None:
    to = pointers[0]
    for e in pointers[1:]:
        if e.ir != to.ir or e.target is not to.target:
            context.error("type-mismatch", span, f"pointers of different types: {to} and {e}")
            return None
        to = e if e.const else to
    return to


def truth(context: Context, term: Term, span: Span, what: str = "a condition") -> Term:
    """A term as bool, for conditions and masks."""
    if term.poisoned:
        return POISON
    element = term.type.element
    if isinstance(element, PointerTo):
        return context.error("condition-type", span, f"{what} must be bool or an integer, found "
                             f"{term.type}; compare the pointer, as in p != 0")
    if element.is_float:
        return context.error("condition-type", span, f"{what} must be bool or an integer, found "
                             f"{term.type}; compare it, as in x != 0")
    return number(context, term, BOOL)


# --- assignment ---


def assign(context: Context, term: Term, to: CType, span: Span, what: str, *notes: Note) -> Term:
    """`term` converted and broadcast to `to`; `what` names the receiver in messages."""
    if term.poisoned:
        return POISON
    single = not to.shape and term.type.size == 1
    if not to.shape and not single:
        tile = f", as in {what[1:-1]}{spell(term.shape)}" if what.startswith("'") else ""
        return context.error("tile-to-scalar", span, f"{what} is the scalar {to.element}, but the "
                             f"value is the tile {term.type}", *notes,
                             Note("reduce the tile, as in x[+] or max(x), or declare a "
                                  f"tile{tile}"))
    if not single and not broadcastable(term.shape, to.shape):
        return context.error("shape-mismatch", span, f"{what} is {to}, but the value is "
                             f"{term.type}, whose shape does not broadcast to {spell(to.shape)}",
                             *notes, *(_hint(term.shape, to.shape) if len(to.shape) > 1 else ()))
    converted = implicit(context, term, to.element, span, what, *notes)
    if converted.poisoned:
        return POISON
    return reshape(context, converted, ()) if single else broadcast(context, converted, to.shape)


def implicit(context: Context, term: Term, to: Element, span: Span, what: str,
             *notes: Note) -> Term:
    """The term with its elements converted as assignment does it, with warnings and errors."""
    source = term.type.element
    if source is to:
        return term
    if isinstance(source, PointerTo):
        if to is BOOL:
            value = address(context, term)
            return context.op("icmp", ctype(BOOL, term.shape), value,
                              Term(value.type, constant=0), predicate="ne")
        if isinstance(to, PointerTo):
            return _implicit_pointer(context, term, source, to, span, what, *notes)
        return context.error("type-mismatch", span, f"{what} is {to}, but the value is "
                             f"{term.type}; a pointer converts to a number only by a cast",
                             Note("'*' before it loads what it points to"), *notes)
    if isinstance(to, PointerTo):
        if is_null(term):
            return null(context, to)
        return context.error("type-mismatch", span, f"{what} is {to}, but the value is "
                             f"{term.type}; a number converts to a pointer only by a cast", *notes)
    if source.is_float and to.is_int and to is not BOOL and not _exact_integer(term):
        context.warning("float-to-int", span, f"{what} is {to}: the {source} is cut off to an "
                        f"integer here; a cast ({to}) would say that this is meant", *notes)
    if isinstance(term.constant, int) and to.is_int and to is not BOOL and source.is_int:
        bits, held = to.ir.bits, term.constant
        if not source.signed and held < 0:  # as a signed number
            held += 1 << source.ir.bits
        if not -(1 << (bits - 1)) <= held < 1 << bits:
            context.warning("constant-conversion", span, f"{what} is {to}, which does not hold "
                            f"{held}; a cast ({to}) would say that this is meant", *notes)
    return number(context, term, to)


def _implicit_pointer(context: Context, term: Term, source: PointerTo, to: PointerTo, span: Span,
                      what: str, *notes: Note) -> Term:
    if source.target is not to.target or source.space != to.space:
        return context.error("type-mismatch", span, f"{what} is {to}, but the value is "
                             f"{term.type}; a cast ({to}) converts it", *notes)
    if source.const and not to.const:
        context.warning("discarded-const", span, f"{what} is {to}: this drops the 'const' of "
                        f"{source}", *notes)
    return pointer(context, term, to)


def _exact_integer(term: Term) -> bool:
    constant = term.constant
    if isinstance(constant, exact.Exact):
        return exact.is_integer(constant)
    return isinstance(constant, float) and constant.is_integer()
