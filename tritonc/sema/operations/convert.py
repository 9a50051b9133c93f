"""Conversions of element types.

`number` and `pointer` convert where the caller knows that it is legal; `truth` makes conditions;
`unify` brings the operands of an elementwise operation to one type and shape.  Assignment's
conversions, with their messages, are in `implicit`, explicit ones in `casts`, those of shapes in
`shapes`."""

from tritonc.ir.numeric.numbers import round_to
from tritonc.sema.context import Context, is_poisoned
from tritonc.sema.types import ctypes, exact, shapes
from tritonc.sema.types.shapes import Shape
from tritonc.sema.types.term import POISON, Refused, Term
from tritonc.source import Span

# --- element types ---


def number(context: Context, term: Term, to: ctypes.Number) -> Term:
    """The term with elements converted to an arithmetic type, as C converts them."""
    source = term.type.element
    if source is to:
        return term
    assert isinstance(source, ctypes.Number)
    type = ctypes.ctype(to, term.shape)
    if source is ctypes.LITERAL:
        return Term(type, constant=_literal_as(term, to))
    if source.ir is to.ir:
        return Term(type, term.value, term.constant)
    if to is ctypes.BOOL:
        zero = term.like(0.0 if source.is_float else 0)
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


def _literal_as(term: Term, to: ctypes.Number) -> int | float:
    value = term.constant
    assert isinstance(value, float) or exact.is_fraction(value)
    if to.is_float:
        return exact.round_exact(value, to.ir)
    if to is ctypes.BOOL:
        return value != 0
    low, high = ctypes.integer_ends(to)
    found = exact.truncate(value)
    if found is None:
        found = 0 if value != value else (high if value == float("inf") else low)
    found = min(max(found, low), high)
    bits = to.ir.bits
    return found - (1 << bits) if found >> (bits - 1) and found >= 0 else found


def pointer(context: Context, term: Term, to: ctypes.PointerTo) -> Term:
    """A pointer as another pointer type of the same address space."""
    source = term.type.element
    type = ctypes.ctype(to, term.shape)
    if source.ir == to.ir:
        return Term(type, term.value, term.constant)
    return context.op("bitcast", type, term)


def address(context: Context, term: Term) -> Term:
    """The address in a pointer, a long."""
    return context.op("ptrtoint", ctypes.ctype(ctypes.LONG, term.shape), term)


def pointer_at(context: Context, address: Term, to: ctypes.PointerTo) -> Term:
    """The pointer of an address, a long; never a constant, which pointers cannot be."""
    type = ctypes.ctype(to, address.shape)
    return Term(type, context.emit("inttoptr", context.value(address), type=type).result)


def null(context: Context, to: ctypes.PointerTo, shape: Shape = ()) -> Term:
    return pointer_at(context, Term(ctypes.ctype(ctypes.LONG, shape), constant=0), to)


def is_null(term: Term) -> bool:
    """A constant integer zero, which C takes for the null pointer."""
    element = term.type.element
    return isinstance(element, ctypes.Number) and element.is_int and term.number == 0


# --- operands ---


def common_element(context: Context, span: Span, *terms: Term) -> ctypes.Number:
    """The type of the usual arithmetic conversions; refused for other types.

    Floats of one type keep it, tf32 and 8-bit floats too: `arithmetic` is for computing."""
    elements = [t.type.element for t in terms]
    found = elements[0]
    for e, t in zip(elements, terms):
        if not isinstance(e, ctypes.Number):
            number = next((u.type for u in terms
                           if isinstance(u.type.element, ctypes.Number)), None)
            context.refuse("type-mismatch", span, f"a number is expected here, found {t.type}"
                           if number is None else f"{t.type} and {number} have no type in common")
    assert isinstance(found, ctypes.Number)
    if all(e is found for e in elements):
        return found
    # Literals last: `1.5 + half` is half, also beside an integer.
    ordered = sorted(elements, key=lambda e: e is ctypes.LITERAL)
    for e in ordered:
        assert isinstance(e, ctypes.Number)
        if found is not e:
            found = ctypes.arithmetic(found, e)
    if found is ctypes.LITERAL and any(e is not ctypes.LITERAL for e in elements):
        return ctypes.FLOAT
    return found


def meet_types(context: Context, span: Span, *terms: Term, compute: bool = True) -> ctypes.CType:
    """The type that all terms convert to for an elementwise operation; refused if there is none.

    `compute`: the type is one to compute in (C's promotions); else equal types stay."""
    if is_poisoned(*terms):
        raise Refused
    first = terms[0].type
    if isinstance(first.element, ctypes.Number) and all(t.type is first for t in terms):
        promoted = ctypes.arithmetic(first.element, first.element)
        return ctypes.ctype(promoted, first.shape) if compute else first
    if any(t.members for t in terms):
        return _common_struct(context, span, *terms)
    pointers = [t.type.element for t in terms if isinstance(t.type.element, ctypes.PointerTo)]
    to: ctypes.Element
    if pointers and all(isinstance(t.type.element, ctypes.PointerTo) or is_null(t) for t in terms):
        to = _common_pointer(context, span, pointers)
    else:
        common = common_element(context, span, *terms)
        to = ctypes.arithmetic(common, common) if compute else _narrowest(common, terms)
    return ctypes.ctype(to, shapes.meet_shapes(context, span, *terms))


def _common_struct(context: Context, span: Span, *terms: Term) -> ctypes.CType:
    first = terms[0].type
    for term in terms[1:]:
        if term.type.element is not first.element:
            context.refuse("type-mismatch", span, f"{first} and {term.type} have no type in common")
    return ctypes.ctype(first.element, shapes.meet_shapes(context, span, *terms))


def _narrowest(to: ctypes.Number, terms: tuple[Term, ...]) -> ctypes.Number:
    """The type of the operands that are no constants, if C would only promote it.

    `m ? *p : 0` has the type of *p, also where that is char or an 8-bit float: no value differs,
    and a dot shall see what was loaded.  `m ? i : 3u` is unsigned, `m ? i : 3l` long, as in C."""
    types = {t.type.element for t in terms if t.constant is None}
    if len(types) != 1:
        return to
    only = types.pop()
    assert isinstance(only, ctypes.Number)
    return only if ctypes.arithmetic(only, only) is to and all(
        t.constant is None or _fits(t, only) for t in terms) else to


def _fits(term: Term, to: ctypes.Number) -> bool:
    """Whether an unsuffixed constant is a number of the type `to`."""
    integer, constant = term.integer, term.constant
    if integer is not None:
        low, high = ctypes.integer_ends(to)
        return round_to(to.ir, integer) == integer if to.is_float else low <= integer <= high
    if not to.is_float or term.type.element is not ctypes.LITERAL:
        return False
    assert isinstance(constant, float) or exact.is_fraction(constant)
    return exact.is_exact(constant, to.ir)


def to_type(context: Context, term: Term, type: ctypes.CType) -> Term:
    """The term as a type that `meet_types` found for it."""
    if term.type is type:
        return term
    if isinstance(type.element, ctypes.Struct):
        return Term(type, members=tuple(to_type(context, member, ctypes.member_type(type, at))
                                        for at, member in enumerate(term.members)))
    if isinstance(type.element, ctypes.PointerTo):
        if is_null(term):
            return null(context, type.element, type.shape)
        return shapes.broadcast(context, pointer(context, term, type.element), type.shape)
    return shapes.broadcast(context, number(context, term, type.element), type.shape)


def unify(context: Context, span: Span, *terms: Term, compute: bool = True) -> list[Term]:
    """The terms in one element type and one shape (see `meet_types`)."""
    type = meet_types(context, span, *terms, compute=compute)
    return [to_type(context, t, type) for t in terms]


def _common_pointer(context: Context, span: Span, pointers: list[ctypes.PointerTo]
                    ) -> ctypes.PointerTo:
    to = pointers[0]
    for e in pointers[1:]:
        if e.ir != to.ir or e.target is not to.target:
            context.refuse("type-mismatch", span, f"pointers of different types: {to} and {e}")
        to = ctypes.pointer_to(to.target, to.const or e.const, to.space, to.volatile or e.volatile)
    return to


def truth(context: Context, term: Term, span: Span, what: str = "a condition") -> Term:
    """A term as bool, for conditions and masks."""
    if term.poisoned:
        return POISON
    element = term.type.element
    if isinstance(element, ctypes.PointerTo):
        return context.error("condition-type", span, f"{what} must be bool or an integer, found "
                             f"{term.type}; compare the pointer, as in p != 0")
    if element.is_float:
        return context.error("condition-type", span, f"{what} must be bool or an integer, found "
                             f"{term.type}; compare it, as in x != 0")
    return number(context, term, ctypes.BOOL)
