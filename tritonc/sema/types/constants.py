"""Constant expressions, and the types that are written with them.

A constant expression is lowered as any other; its operations fold.  Meanwhile
`context.constant_for` says what wants it, so that what can never be constant is reported at its
place, and operations go to a block that is thrown away.

What has no value, or is no type, is refused after a message."""

from contextlib import suppress

from tritonc.frontend import syntax
from tritonc.ir.core import Block
from tritonc.sema.context import Context
from tritonc.sema.types import ctypes, shapes
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


def integer(context: Context, node: syntax.Expression, what: str) -> int:
    """The value of a constant integer expression."""
    return integer_of(context, constant(context, node, what), node.span, what)


def integer_of(context: Context, term: Term, span: Span, what: str) -> int:
    """The value of a term that has to be a constant integer."""
    number = good(term).number
    if number is None:
        element = term.type.element
        if isinstance(element, ctypes.Number) and element.is_int and not term.shape:
            not_constant(context, span, what)
            raise Refused
        context.refuse("not-a-constant", span, f"{what} must be a constant integer, found "
                       f"{term.type}")
    return number


def extents(context: Context, nodes: tuple[syntax.Expression, ...]) -> tuple[int, ...]:
    """The extents of a tile; refused after messages about all of them."""
    found: list[int] = []
    for node in nodes:
        with suppress(Refused):
            number = integer(context, node, "the extent of a tile")
            if number < 1:
                context.refuse("tile-extent", node.span, "the extent of a tile must be positive, "
                               f"found {number}")
            found.append(number)
    if len(found) < len(nodes):
        raise Refused
    if nodes:
        shapes.check_size(context, tuple(found), nodes[0].span.to(nodes[-1].span))
    return tuple(found)


def resolve_type(context: Context, spec: syntax.TypeSpec) -> ctypes.CType:
    if spec.count is not None:
        return _array(context, spec, spec.count)
    element = element_of(context, spec)
    if element is ctypes.VOID and spec.extents is not None:
        context.refuse("void-type", spec.span, "there are no tiles of void")
    return ctypes.ctype(element, extents(context, spec.extents or ()))


def element_of(context: Context, spec: syntax.TypeSpec) -> ctypes.Element:
    """The type without its extents."""
    if spec.scalar == "auto":
        context.refuse("auto-type", spec.span, "'auto' takes its type from a value, and there is "
                       "none here")
    if spec.scalar.startswith("struct "):
        return _struct(context, spec)
    element = ctypes.NUMBERS[spec.scalar]
    if not spec.pointer:
        return element
    if element is ctypes.VOID:
        context.refuse("void-type", spec.span, "a pointer to void is not supported; name the type "
                       "of what it points to")
    return ctypes.pointer_to(element, spec.const, spec.space, spec.volatile)


MOST_ELEMENTS = 256  # of an array of tiles


def _array(context: Context, spec: syntax.TypeSpec, count: syntax.Expression) -> ctypes.CType:
    """An array of tiles."""
    number = None
    with suppress(Refused):
        number = integer(context, count, "the count of an array")
    type = ctypes.ctype(element_of(context, spec), extents(context, spec.extents or ()))
    if number is None:
        raise Refused
    if not 1 <= number <= MOST_ELEMENTS:
        context.refuse("tile-extent", count.span, f"an array has 1 to {MOST_ELEMENTS} tiles, found "
                       f"{number}")
    return ctypes.array_of(type, number)


def _struct(context: Context, spec: syntax.TypeSpec) -> ctypes.Struct:
    """The struct that a type names."""
    struct = struct_of(context, spec.scalar)
    if struct is None:
        raise Refused
    if spec.pointer:
        context.refuse("struct-value", spec.span, f"there are no pointers to structs; {struct} is "
                       "a value, and memory is reached by a pointer for each member")
    tile = next((name for name, type in struct.members if type.shape), None)
    if spec.extents is not None and tile is not None:
        context.refuse("struct-value", spec.span, f"there are no tiles of {struct}, whose member "
                       f"'{tile}' is a tile itself")
    return struct


def struct_of(context: Context, key: str) -> ctypes.Struct | None:
    """A struct, its members resolved once; None after a message."""
    unit = context.unit
    if key not in unit.resolved:
        node = unit.structs[key]
        unit.resolved[key] = None
        scope, context.scope = context.scope, unit.scope
        types: list[tuple[str, ctypes.CType]] = []
        for member in node.members:
            with suppress(Refused):
                type = value_type(context, member.type, f"member '{member.name}'")
                types.append((member.name, type))
        context.scope = scope
        if node.members and len(types) == len(node.members):
            unit.resolved[key] = ctypes.Struct(node.name or "struct", tuple(types))
    return unit.resolved[key]


def value_type(context: Context, spec: syntax.TypeSpec, what: str) -> ctypes.CType:
    """Like `resolve_type`, for something that must have a value."""
    type = resolve_type(context, spec)
    if type.element is ctypes.VOID:
        context.refuse("void-type", spec.span, f"{what} cannot be void")
    return type
