"""How builtins that work across the elements of a tile, or on its shape, lower."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tritonc.frontend import syntax
from tritonc.sema.builtins import combine, products
from tritonc.sema.context import Context
from tritonc.sema.operations import convert, subscripts
from tritonc.sema.scope import FunctionEntity
from tritonc.sema.types import constants, shapes
from tritonc.sema.types.ctypes import STRING_TYPE, ctype
from tritonc.sema.types.term import POISON, Term

Lower = Callable[[Context, syntax.Call, list[Term]], Term]


def tile_and_axis(context: Context, node: syntax.Call, arguments: list[Term], place: int = 1
                  ) -> tuple[Term, int | None] | None:
    """The tile and the axis, counted from 0, of f(x) or f(x, axis); None after a message.

    `place` is that of the axis among the arguments of the call.
    """
    x = arguments[0]
    if not x.shape:
        context.error("reduction", node.arguments[0].span, f"'{node.callee}' takes a tile, found "
                      f"the scalar {x.type}")
        return None
    if len(arguments) == 1:
        return x, None
    span = node.arguments[place].span
    axis = constants.integer_of(context, arguments[1], span, "an axis")
    rank = len(x.shape)
    if axis is None:
        return None
    if not -rank <= axis < rank:
        axes = "only axis 0" if rank == 1 else f"axes 0 {'and' if rank == 2 else 'to'} {rank - 1}"
        context.error("reduction", span, f"{x.type} has {axes}, found {axis}")
        return None
    context.at(node.span)
    return x, axis % rank


def reduction(operation: str) -> Lower:
    """f(x) and f(x, axis)."""
    def lower(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
        found = tile_and_axis(context, node, arguments)
        if found is None:
            return POISON
        x, axis = found
        axes = list(range(len(x.shape))) if axis is None else [axis]
        return subscripts.reduce(context, x, operation, axes, node.span)

    return lower


def truth_reduction(operation: str) -> Lower:
    """any and all: elements count as conditions do."""
    def lower(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
        x = convert.truth(context, arguments[0], node.arguments[0].span,
                          f"what '{node.callee}' reduces")
        if x.poisoned:
            return POISON
        return reduction(operation)(context, node, [x, *arguments[1:]])

    return lower


def _flat(context: Context, x: Term, axis: int | None) -> tuple[Term, int]:
    if axis is not None:
        return x, axis
    return shapes.reshape(context, x, (x.type.size,)), 0


def arg_reduction(operation: str) -> Lower:
    def lower(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
        found = tile_and_axis(context, node, arguments)
        if found is None:
            return POISON
        x, axis = _flat(context, *found)
        return subscripts.argreduce(context, x, operation, axis, node.span)

    return lower


def scan(operation: str, reverse: bool = False) -> Lower:
    def lower(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
        found = tile_and_axis(context, node, arguments[:2])
        if found is None:
            return POISON
        x, axis = _flat(context, *found)
        return subscripts.scan(context, x, operation, axis, node.span, reverse)

    return lower


_KINDS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


def _operation(context: Context, node: syntax.Call, term: Term, at: int
               ) -> str | FunctionEntity | None:
    """What combines: the name of a built-in operation, or a function; None after a message."""
    name = term.constant
    if isinstance(name, str) and term.type is STRING_TYPE:
        entity = context.scope.lookup(name)
        if isinstance(entity, FunctionEntity):
            return entity
        if name in _KINDS:
            return name
    context.error("reduction", node.arguments[at].span, f"the operation of '{node.callee}' is one "
                  f"of {', '.join(_KINDS)}, or a function of the program that combines two values")
    return None


def _numbers(context: Context, node: syntax.Call, arguments: list[Term], operation: str
             ) -> list[Term] | None:
    """The arguments of an operation of the language: a tile of numbers, or of truth for any and
    all; None after an error."""
    x, where = arguments[0], node.arguments[0].span
    if x.members:
        context.error("struct-value", where, f"'{operation}' combines numbers, found the struct "
                      f"{x.type}; a function of the program combines structs")
        return None
    if operation in ("any", "all"):
        x = convert.truth(context, x, where, f"what '{node.callee}' combines")
    return None if x.poisoned else [x, *arguments[1:]]


def named_reduction(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """reduce(x, axis, operation) and reduce(x, operation)."""
    at = len(arguments) - 1
    operation = _operation(context, node, arguments[at], at)
    if operation is None:
        return POISON
    if isinstance(operation, FunctionEntity):
        found = tile_and_axis(context, node, arguments[:at])
        if found is None:
            return POISON
        x, axis = found
        if axis is None:
            x = _flattened(context, x)
        return combine.combine(context, node, x, axis or 0, operation, False)
    numbers = _numbers(context, node, arguments[:at], operation)
    return POISON if numbers is None else reduction(_KINDS[operation])(context, node, numbers)


def _flattened(context: Context, x: Term) -> Term:
    if x.members:
        flat = tuple(_flattened(context, member) for member in x.members)
        return Term(ctype(x.type.element, (x.type.size,)), members=flat)
    return shapes.reshape(context, x, (x.type.size,))


def named_scan(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """scan(x, axis, operation, reverse)."""
    reverse = False
    if len(arguments) == 4:
        word = arguments[3].constant
        if word != "reverse" and not isinstance(word, bool):
            return context.error("call-arguments", node.arguments[3].span, "the last argument of a "
                                 "scan is the word 'reverse', or a constant bool")
        reverse = bool(word)
    operation = _operation(context, node, arguments[2], 2) if len(arguments) > 2 else "sum"
    if operation is None:
        return POISON
    if isinstance(operation, FunctionEntity):
        found = tile_and_axis(context, node, arguments[:2])
        if found is None or found[1] is None:
            return POISON
        return combine.combine(context, node, found[0], found[1], operation, True, reverse)
    numbers = _numbers(context, node, arguments, operation)
    return POISON if numbers is None else scan(_KINDS[operation], reverse)(context, node, numbers)


def product(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """dot(a, b) and dot(a, b, acc)."""
    acc = arguments[2] if len(arguments) == 3 else None
    return products.dot(context, arguments[0], arguments[1], acc, node.span,
                        node.arguments[2].span if acc is not None else None)


# --- shapes ---


def _integers(context: Context, node: syntax.Call, arguments: list[Term], what: str
              ) -> list[int] | None:
    """The constant integers behind the first argument; None after a message."""
    found = [constants.integer_of(context, t, n.span, what)
             for t, n in zip(arguments[1:], node.arguments[1:])]
    return None if None in found else [n for n in found if n is not None]


def transpose(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """trans(x), trans(x, axes...) and permute(x, axes...)."""
    x = arguments[0]
    if not x.shape:
        return context.error("subscript", node.arguments[0].span, f"'{node.callee}' takes a tile, "
                             f"found the scalar {x.type}")
    if len(arguments) == 1:
        return subscripts.permute(context, x, list(reversed(range(len(x.shape)))), node.span)
    order = _integers(context, node, arguments, "an axis")
    return POISON if order is None else subscripts.permute(context, x, order, node.span)


def _extents(context: Context, node: syntax.Call, arguments: list[Term]
             ) -> tuple[int, ...] | None:
    extents = _integers(context, node, arguments, "an extent")
    if extents is None:
        return None
    for extent, argument in zip(extents, node.arguments[1:]):
        if extent < 1:
            context.error("tile-extent", argument.span, "the extent of a tile must be positive, "
                          f"found {extent}")
            return None
    shape = tuple(extents)
    return shape if shapes.check_size(context, shape, node.span) else None


def reshaped(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    shape = _extents(context, node, arguments)
    if shape is None:
        return POISON
    x = arguments[0]
    count = prod(shape)
    if count != x.type.size:
        return context.error("shape-mismatch", node.span, f"{x.type} has {x.type.size} elements, "
                             f"{shapes.spell(shape)} has {count}")
    context.at(node.span)
    return shapes.reshape(context, x, shape)


def broadcast(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    shape = _extents(context, node, arguments)
    if shape is None:
        return POISON
    x = arguments[0]
    if not shapes.broadcastable(x.shape, shape):
        return context.error("shape-mismatch", node.span, f"{x.type} does not broadcast to "
                             f"{shapes.spell(shape)}: extents must be equal, or 1 in the operand")
    context.at(node.span)
    return shapes.broadcast(context, x, shape)
