"""What initialisation, assignment, arguments and results share: the implicit conversion to a known
type, with its messages."""

from math import isfinite

from tritonc.ir.numeric.numbers import largest
from tritonc.sema.context import Context, decayed
from tritonc.sema.operations import convert
from tritonc.sema.types import exact, shapes
from tritonc.sema.types.ctypes import (
    BOOL,
    CType,
    Element,
    Number,
    PointerTo,
    Struct,
    ctype,
    member_type,
)
from tritonc.sema.types.term import POISON, Term
from tritonc.source import Note, Span


def assign(context: Context, term: Term, to: CType, span: Span, what: str, *notes: Note) -> Term:
    """`term` converted and broadcast to `to`; `what` names the receiver in messages."""
    if term.poisoned:
        return POISON
    if term.members or isinstance(to.element, Struct):
        return _struct(context, term, to, span, what, *notes)
    single = not to.shape and term.type.size == 1
    if not to.shape and not single:
        return context.error("tile-to-scalar", span, f"{what} is the scalar {to.element}, but the "
                             f"value is the tile {term.type}", *notes,
                             Note("reduce the tile, as in x[+] or max(x), or "
                                  f"{_declaration(what, term)}"))
    if not single and not shapes.broadcastable(term.shape, to.shape):
        hint = shapes.receiving_hint(term.shape, to.shape)
        return context.error("shape-mismatch", span, f"{what} is {to}, but the value is "
                             f"{term.type}, whose shape does not broadcast to "
                             f"{shapes.spell(to.shape)}", *notes, *hint)
    converted = implicit(context, term, to.element, span, what, *notes)
    if converted.poisoned:
        return POISON
    if single:
        return shapes.reshape(context, converted, ())
    return shapes.broadcast(context, converted, to.shape)


def _declaration(what: str, term: Term) -> str:
    """Advice: how the receiver is declared so that it can hold the tile."""
    if what.startswith(("parameter", "the result of")):
        return f"declare the {'result' if what[0] == 't' else 'parameter'} 'auto', of any shape"
    as_in = f", as in {what[1:-1]}{shapes.spell(term.shape)}" if what.startswith("'") else ""
    return f"declare a tile{as_in}"


def _struct(context: Context, term: Term, to: CType, span: Span, what: str, *notes: Note) -> Term:
    source = term.type.element
    if isinstance(to.element, Struct) and to.element.array and not term.members:
        return Term(to, members=tuple(  # a value fills all tiles of an array
            assign(context, term, type, span, what, *notes) for _, type in to.element.members))
    fits = source is to.element or (
        isinstance(source, Struct) and isinstance(to.element, Struct) and source.built_in
        and len(source.members) == len(to.element.members))
    if not fits:
        return context.error("type-mismatch", span, f"{what} is {to}, but the value is "
                             f"{term.type}", *notes)
    if not to.shape and term.shape:
        hint = f"reduce the tile by a function of the program, or {_declaration(what, term)}"
        return context.error("tile-to-scalar", span, f"{what} is a single {to}, but the value is "
                             f"the tile {term.type}", *notes, Note(hint))
    if not shapes.broadcastable(term.shape, to.shape):
        return context.error("shape-mismatch", span, f"{what} is {to}, but the value is "
                             f"{term.type}, whose shape does not broadcast to "
                             f"{shapes.spell(to.shape)}", *notes)
    return Term(to, members=tuple(
        assign(context, member, member_type(to, at), span, what, *notes)
        for at, member in enumerate(term.members)))


def implicit(context: Context, term: Term, to: Element, span: Span, what: str,
             *notes: Note) -> Term:
    """The term with its elements converted as assignment does it, with warnings and errors."""
    source = term.type.element
    if source is to:
        return term
    assert not isinstance(source, Struct) and not isinstance(to, Struct)
    if isinstance(source, PointerTo):
        if to is BOOL:
            value = convert.address(context, term)
            return context.op("icmp", ctype(BOOL, term.shape), value, value.like(0), predicate="ne")
        if isinstance(to, PointerTo):
            return _implicit_pointer(context, term, source, to, span, what, *notes)
        return context.error("type-mismatch", span, f"{what} is {to}, but the value is "
                             f"{term.type}; a pointer converts to a number only by a cast",
                             Note("'*' before it loads what it points to"), *notes)
    if isinstance(to, PointerTo):
        if convert.is_null(term):
            return convert.null(context, to)
        return context.error("type-mismatch", span, f"{what} is {to}, but the value is "
                             f"{term.type}; a number converts to a pointer only by a cast", *notes)
    if source.is_float and to.is_int and to is not BOOL and not _exact_integer(term):
        context.warning("float-to-int", span, f"{what} is {to}: the {source} is cut off to an "
                        f"integer here; a cast ({to}) makes this explicit", *notes)
    if isinstance(term.constant, int) and to.is_int and to is not BOOL and source.is_int:
        bits, held = to.ir.bits, term.constant
        if not source.signed and held < 0:  # as a signed number
            held += 1 << source.ir.bits
        # 0xffffffff may mean the bits, and so may 255 of a char; 3000000000 means a number.
        most = 1 << (bits - 1 if to.signed and source.signed and bits >= 32 else bits)
        if not -(1 << (bits - 1)) <= held < most:
            context.warning("constant-conversion", span, f"{what} is {to}, which does not hold "
                            f"{held}; a cast ({to}) makes this explicit", *notes)
    result = convert.number(context, term, to)
    if to.is_float and _too_large(term, result, to):
        context.warning("constant-conversion", span, f"{what} is {to}, whose greatest number is "
                        f"{largest(to.ir):g}; a cast ({to}) makes this explicit", *notes)
    return result


def _too_large(term: Term, result: Term, to: Number) -> bool:
    """Whether a finite constant is beyond the numbers of a float type."""
    constant = decayed(term).constant
    if not isinstance(constant, int | float) or not isfinite(constant):
        return False
    value, most = result.constant, largest(to.ir)
    if not isinstance(value, int | float):
        return False
    return not isfinite(value) or (abs(value) == most and abs(constant) > most * (1 + 2.0**-5))


def _implicit_pointer(context: Context, term: Term, source: PointerTo, to: PointerTo, span: Span,
                      what: str, *notes: Note) -> Term:
    if source.target is not to.target or source.space != to.space:
        return context.error("type-mismatch", span, f"{what} is {to}, but the value is "
                             f"{term.type}; a cast ({to}) converts it", *notes)
    if source.const and not to.const:
        context.warning("discarded-const", span, f"{what} is {to}: this drops the 'const' of "
                        f"{source}", *notes)
    if source.volatile and not to.volatile:
        context.warning("discarded-const", span, f"{what} is {to}: this drops the 'volatile' of "
                        f"{source}", *notes)
    return convert.pointer(context, term, to)


def _exact_integer(term: Term) -> bool:
    constant = term.constant
    if exact.is_fraction(constant):
        return exact.is_integer(constant)
    return isinstance(constant, float) and constant.is_integer()
