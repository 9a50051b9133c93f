"""Constant expressions, and the types that are written with them.

A constant expression is lowered as any other; its operations fold.  Meanwhile
`context.constant_for` says what wants it, so that what can never be constant is reported at its
place, and operations go to a block that is thrown away.
"""

from __future__ import annotations

from tritonc.frontend import syntax
from tritonc.ir.core import Block
from tritonc.sema.context import Context
from tritonc.sema.types import shapes
from tritonc.sema.types.ctypes import (
    NUMBERS,
    VOID,
    CType,
    Element,
    Number,
    Struct,
    array_of,
    ctype,
    pointer_to,
)
from tritonc.sema.types.term import POISON, Refused, Term, good
from tritonc.source import Note, Span


def constant(context: Context, node: syntax.Expression, what: str) -> Term:
    """The value of a constant expression, a constant scalar; poisoned after a message."""
    if isinstance(node, syntax.IntLiteral):
        return context.operand(node)
    outer, block = context.constant_for, context.block
    context.constant_for = what
    context.builder.block = Block("constant")
    term = context.operand(node)
    context.builder.block = block
    context.constant_for = outer
    if term.poisoned:
        return POISON
    if term.constant is None or term.shape:
        return not_constant(context, node.span, what)
    return term


def not_constant(context: Context, span: Span, what: str, found: str = "", *notes: Note) -> Term:
    because = f": {found}" if found else ""
    return context.error("not-a-constant", span, f"{what} must be a constant expression{because}",
                         *notes)


def check_constant(context: Context, span: Span, found: str, *notes: Note) -> None:
    """Refuse what has no value at compile time, if a constant expression is being read."""
    if context.constant_for is not None:
        not_constant(context, span, context.constant_for, found, *notes)
        raise Refused


def integer(context: Context, node: syntax.Expression, what: str) -> int | None:
    """The value of a constant integer expression; None after a message."""
    try:
        return integer_of(context, constant(context, node, what), node.span, what)
    except Refused:
        return None


def integer_of(context: Context, term: Term, span: Span, what: str) -> int:
    """The value of a term that has to be a constant integer."""
    number = good(term).number
    if number is None:
        element = term.type.element
        if isinstance(element, Number) and element.is_int and not term.shape:
            not_constant(context, span, what)
            raise Refused
        context.refuse("not-a-constant", span, f"{what} must be a constant integer, found "
                       f"{term.type}")
    return number


def extents(context: Context, nodes: tuple[syntax.Expression, ...], span: Span
            ) -> tuple[int, ...] | None:
    """The extents of a tile; None after a message."""
    found: list[int] = []
    right = True
    for node in nodes:
        number = integer(context, node, "the extent of a tile")
        if number is None:
            right = False
        elif number < 1:
            context.error("tile-extent", node.span, "the extent of a tile must be positive, found "
                          f"{number}")
            right = False
        else:
            found.append(number)
    if not right:
        return None
    try:
        shapes.check_size(context, tuple(found), span)
    except Refused:
        return None
    return tuple(found)


def resolve_type(context: Context, spec: syntax.TypeSpec) -> CType | None:
    """The type that the source spells; None after a message."""
    if spec.count is not None:
        return _array(context, spec, spec.count)
    shape: tuple[int, ...] | None = ()
    if spec.extents is not None:
        span = spec.extents[0].span.to(spec.extents[-1].span) if spec.extents else spec.span
        shape = extents(context, spec.extents, span)
    element: Element
    if spec.scalar == "auto":
        context.error("auto-type", spec.span, "'auto' takes its type from a value, and there is "
                      "none here")
        return None
    if spec.scalar.startswith("struct "):
        struct = struct_of(context, spec)
        if struct is None or not _may_be(context, spec, struct):
            return None
        element = struct
    else:
        element = NUMBERS[spec.scalar]
    if spec.pointer:
        assert isinstance(element, Number)
        if element is VOID:
            context.error("void-type", spec.span, "a pointer to void is not supported; name the "
                          "type of what it points to")
            return None
        pointer = pointer_to(element, spec.const, spec.space, spec.volatile)
        return None if shape is None else ctype(pointer, shape)
    if element is VOID and spec.extents is not None:
        context.error("void-type", spec.span, "there are no tiles of void")
        return None
    return None if shape is None else ctype(element, shape)


MOST_ELEMENTS = 256  # of an array of tiles


def _array(context: Context, spec: syntax.TypeSpec, count: syntax.Expression) -> CType | None:
    """An array of tiles."""
    number = integer(context, count, "the count of an array")
    plain = syntax.TypeSpec(spec.span, spec.scalar, spec.const, spec.pointer, spec.space,
                            spec.const_pointer, spec.extents, volatile=spec.volatile)
    type = resolve_type(context, plain)
    if number is None or type is None:
        return None
    if not 1 <= number <= MOST_ELEMENTS:
        context.error("tile-extent", count.span, f"an array has 1 to {MOST_ELEMENTS} tiles, found "
                      f"{number}")
        return None
    return array_of(type, number)


def struct_of(context: Context, spec: syntax.TypeSpec) -> Struct | None:
    """The struct that a type names, its members resolved once; None after a message."""
    unit = context.unit
    if spec.scalar not in unit.resolved:
        node = unit.structs[spec.scalar]
        unit.resolved[spec.scalar] = None
        scope, context.scope = context.scope, unit.scope
        types = [value_type(context, m.type, f"member '{m.name}'") for m in node.members]
        context.scope = scope
        if node.members and None not in types:
            unit.resolved[spec.scalar] = Struct(node.name or "struct", tuple(
                (m.name, type) for m, type in zip(node.members, types, strict=True) if type))
    return unit.resolved[spec.scalar]


def _may_be(context: Context, spec: syntax.TypeSpec, struct: Struct) -> bool:
    """Whether there are pointers to, or tiles of, the struct, if the type is one."""
    if spec.pointer:
        context.error("struct-value", spec.span, f"there are no pointers to structs; {struct} is "
                      "a value, and memory is reached by a pointer for each member")
        return False
    tile = next((name for name, type in struct.members if type.shape), None)
    if spec.extents is not None and tile is not None:
        context.error("struct-value", spec.span, f"there are no tiles of {struct}, whose member "
                      f"'{tile}' is a tile itself")
        return False
    return True


def value_type(context: Context, spec: syntax.TypeSpec, what: str) -> CType | None:
    """Like `resolve_type`, for something that must have a value."""
    type = resolve_type(context, spec)
    if type is not None and type.element is VOID:
        context.error("void-type", spec.span, f"{what} cannot be void")
        return None
    return type
