"""Explicit conversions: casts and bitcasts."""

from tritonc.frontend import syntax
from tritonc.sema.context import Context
from tritonc.sema.operations import convert, implicit
from tritonc.sema.types import constants, ctypes, shapes
from tritonc.sema.types.term import NOTHING, Term, good
from tritonc.source import Span


def cast(context: Context, node: syntax.Cast) -> Term:
    term = context.operand(node.operand)
    type = constants.resolve_type(context, node.type)
    good(term)
    if isinstance(type.element, ctypes.Struct):
        return context.error("struct-value", node.span, f"nothing converts to the struct {type}; "
                             f"({type}){{...}} makes one of its members")
    context.at(node.span)
    return NOTHING if type.element is ctypes.VOID else convert_to(context, term, type, node.span)


def bitcast(context: Context, node: syntax.Bitcast) -> Term:
    term = context.operand(node.operand)
    to = constants.value_type(context, node.type, "the type of a bitcast")
    good(term)
    if isinstance(to.element, ctypes.Struct):
        return context.error("struct-value", node.type.span, f"the struct {to} has no bits")
    source = term.type.element
    if source is ctypes.LITERAL:
        term = convert.number(context, term, ctypes.DOUBLE)
        source = ctypes.DOUBLE
    shape = to.shape or term.shape
    if source.ir.bits != to.element.ir.bits or (ctypes.BOOL in (source, to.element)
                                                and source is not to.element):
        return context.error("type-mismatch", node.span, f"a bitcast keeps the bits, but {source} "
                             f"has {source.ir.bits} and {to.element} has {to.element.ir.bits}")
    if shape != term.shape:
        return context.error("shape-mismatch", node.span, f"a bitcast keeps the shape, but the "
                             f"operand is {term.type} and the type {to}")
    context.at(node.span)
    type = ctypes.ctype(to.element, shape)
    if source.ir == to.element.ir:
        return Term(type, term.value, term.constant)
    if isinstance(source, ctypes.PointerTo) and isinstance(to.element, ctypes.Number):
        term = convert.address(context, term)
        if to.element.is_int:
            return Term(type, term.value, term.constant)
    elif isinstance(to.element, ctypes.PointerTo) and isinstance(source, ctypes.Number):
        if source.is_float:
            term = context.op("bitcast", ctypes.ctype(ctypes.LONG, shape), term)
        return convert.pointer_at(context, term, to.element)
    return context.op("bitcast", type, term)


def convert_to(context: Context, term: Term, to: ctypes.CType, span: Span) -> Term:
    """An explicit conversion: the element type, then the shape (section 4 of the language)."""
    converted = _element(context, good(term), to.element, span)
    if converted.poisoned or not to.shape or converted.shape == to.shape:
        return converted
    if shapes.broadcastable(converted.shape, to.shape):
        return shapes.broadcast(context, converted, to.shape)
    if converted.type.size == to.size:
        return shapes.reshape(context, converted, to.shape)
    return context.error("shape-mismatch", span, f"{term.type} cannot become {to}: it neither "
                         f"broadcasts to {shapes.spell(to.shape)}, nor has as many elements")


def _element(context: Context, term: Term, to: ctypes.Element, span: Span) -> Term:
    source = term.type.element
    if isinstance(source, ctypes.Number) and isinstance(to, ctypes.Number):
        return convert.number(context, term, to)
    if isinstance(source, ctypes.PointerTo) and isinstance(to, ctypes.PointerTo):
        if source.space != to.space:
            return context.error("type-mismatch", span, f"{term.type} points to {source.space} "
                                 f"memory; it cannot become {to}")
        return convert.pointer(context, term, to)
    if isinstance(source, ctypes.PointerTo):
        assert isinstance(to, ctypes.Number)
        if to is ctypes.BOOL:
            return implicit.implicit(context, term, to, span, "")
        if to.is_float:
            return context.error("type-mismatch", span, f"{term.type} cannot become {to}")
        return convert.number(context, convert.address(context, term), to)
    assert isinstance(to, ctypes.PointerTo)
    if source.is_float:
        return context.error("type-mismatch", span, f"{term.type} cannot become {to}")
    return convert.pointer_at(context, convert.number(context, term, ctypes.LONG), to)
