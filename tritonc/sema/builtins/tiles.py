"""How builtins that work across the elements of a tile, or on its shape, lower."""

from math import prod

from tritonc.frontend import syntax
from tritonc.sema.builtins import combine
from tritonc.sema.context import Context
from tritonc.sema.operations import convert, subscripts
from tritonc.sema.scope import FunctionEntity
from tritonc.sema.types import constants, shapes
from tritonc.sema.types.ctypes import STRING_TYPE, ctype
from tritonc.sema.types.term import Term, good


def tile_and_axis(context: Context, node: syntax.Call, arguments: list[Term]
                  ) -> tuple[Term, int | None]:
    """The tile and the axis, counted from 0, of f(x) or f(x, axis)."""
    if len(arguments) == 1:
        return _tile(context, node, arguments[0]), None
    return arguments[0], axis_of(context, node, arguments[0], arguments[1])


def _tile(context: Context, node: syntax.Call, x: Term) -> Term:
    if not x.shape:
        context.refuse("reduction", node.arguments[0].span, f"'{node.callee}' takes a tile, found "
                       f"the scalar {x.type}")
    return x


def axis_of(context: Context, node: syntax.Call, x: Term, term: Term, place: int = 1) -> int:
    """The axis of a tile, counted from 0; `place` is its among the arguments of the call."""
    span = node.arguments[place].span
    rank = len(_tile(context, node, x).shape)
    axis = constants.integer_of(context, term, span, "an axis")
    if not -rank <= axis < rank:
        axes = "only axis 0" if rank == 1 else f"axes 0 {'and' if rank == 2 else 'to'} {rank - 1}"
        context.refuse("reduction", span, f"{x.type} has {axes}, found {axis}")
    context.at(node.span)
    return axis % rank


def reduction(operation: str, context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """f(x) and f(x, axis)."""
    x, axis = tile_and_axis(context, node, arguments)
    axes = list(range(len(x.shape))) if axis is None else [axis]
    return subscripts.reduce(context, x, operation, axes, node.span)


def truth_reduction(operation: str, context: Context, node: syntax.Call, arguments: list[Term]
                    ) -> Term:
    """any and all: elements count as conditions do."""
    x = good(convert.truth(context, arguments[0], node.arguments[0].span,
                           f"the operand of '{node.callee}'"))
    return reduction(operation, context, node, [x, *arguments[1:]])


def _flat(context: Context, x: Term, axis: int | None) -> tuple[Term, int]:
    if axis is not None:
        return x, axis
    return shapes.reshape(context, x, (x.type.size,)), 0


def arg_reduction(operation: str, context: Context, node: syntax.Call, arguments: list[Term]
                  ) -> Term:
    x, axis = _flat(context, *tile_and_axis(context, node, arguments))
    return subscripts.argreduce(context, x, operation, axis, node.span)


def scan(operation: str, context: Context, node: syntax.Call, arguments: list[Term],
         reverse: bool = False) -> Term:
    x, axis = _flat(context, *tile_and_axis(context, node, arguments[:2]))
    return subscripts.scan(context, x, operation, axis, node.span, reverse)


_KINDS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


def _operation(context: Context, node: syntax.Call, term: Term, at: int) -> str | FunctionEntity:
    """What combines: the name of a built-in operation, or a function."""
    name = term.constant
    if isinstance(name, str) and term.type is STRING_TYPE:
        entity = context.scope.lookup(name)
        if isinstance(entity, FunctionEntity):
            return entity
        if name in _KINDS:
            return name
    context.refuse("reduction", node.arguments[at].span, f"the operation of '{node.callee}' is "
                   f"one of {', '.join(_KINDS)}, or a function of the program that combines two "
                   "values")


def _numbers(context: Context, node: syntax.Call, arguments: list[Term], operation: str
             ) -> list[Term]:
    """The arguments of an operation of the language: a tile of numbers, or of truth for any and
    all."""
    x, where = arguments[0], node.arguments[0].span
    if x.members:
        context.refuse("struct-value", where, f"'{operation}' combines numbers, found the struct "
                       f"{x.type}; a function of the program combines structs")
    if operation in ("any", "all"):
        x = convert.truth(context, x, where, f"the operand of '{node.callee}'")
    return [good(x), *arguments[1:]]


def named_reduction(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """reduce(x, axis, operation) and reduce(x, operation)."""
    at = len(arguments) - 1
    operation = _operation(context, node, arguments[at], at)
    if isinstance(operation, FunctionEntity):
        x, axis = tile_and_axis(context, node, arguments[:at])
        if axis is None:
            x = _flattened(context, x)
        return combine.combine(context, node, x, axis or 0, operation, False)
    numbers = _numbers(context, node, arguments[:at], operation)
    return reduction(_KINDS[operation], context, node, numbers)


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
    if isinstance(operation, FunctionEntity):
        axis = axis_of(context, node, arguments[0], arguments[1])
        return combine.combine(context, node, arguments[0], axis, operation, True, reverse)
    numbers = _numbers(context, node, arguments, operation)
    return scan(_KINDS[operation], context, node, numbers, reverse)


# --- shapes ---


def _integers(context: Context, node: syntax.Call, arguments: list[Term], what: str) -> list[int]:
    """The constant integers behind the first argument."""
    return [constants.integer_of(context, t, n.span, what)
            for t, n in zip(arguments[1:], node.arguments[1:])]


def transpose(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """trans(x), trans(x, axes...) and permute(x, axes...)."""
    x = arguments[0]
    if not x.shape:
        return context.error("subscript", node.arguments[0].span, f"'{node.callee}' takes a tile, "
                             f"found the scalar {x.type}")
    if len(arguments) == 1:
        return subscripts.permute(context, x, list(reversed(range(len(x.shape)))), node.span)
    order = _integers(context, node, arguments, "an axis")
    return subscripts.permute(context, x, order, node.span)


def _extents(context: Context, node: syntax.Call, arguments: list[Term]) -> tuple[int, ...]:
    extents = _integers(context, node, arguments, "an extent")
    for extent, argument in zip(extents, node.arguments[1:]):
        if extent < 1:
            context.refuse("tile-extent", argument.span, "the extent of a tile must be positive, "
                           f"found {extent}")
    shapes.check_size(context, tuple(extents), node.span)
    return tuple(extents)


def reshaped(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    shape = _extents(context, node, arguments)
    x = arguments[0]
    count = prod(shape)
    if count != x.type.size:
        return context.error("shape-mismatch", node.span, f"{x.type} has {x.type.size} elements, "
                             f"{shapes.spell(shape)} has {count}")
    context.at(node.span)
    return shapes.reshape(context, x, shape)


def broadcast(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    shape = _extents(context, node, arguments)
    x = arguments[0]
    if not shapes.broadcastable(x.shape, shape):
        return context.error("shape-mismatch", node.span, f"{x.type} does not broadcast to "
                             f"{shapes.spell(shape)}: extents must be equal, or 1 in the operand")
    context.at(node.span)
    return shapes.broadcast(context, x, shape)
