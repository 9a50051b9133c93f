"""How elementwise builtins lower."""

from tritonc.frontend import syntax
from tritonc.sema.builtins import library, tiles
from tritonc.sema.context import Context, decayed
from tritonc.sema.operations import convert
from tritonc.sema.operations.memory import kind_of
from tritonc.sema.operations.operators import negate
from tritonc.sema.types import constants, shapes
from tritonc.sema.types.ctypes import FLOAT, Number
from tritonc.sema.types.term import Term, good


def _unified(context: Context, node: syntax.Call, arguments: list[Term],
             compute: bool = True) -> list[Term]:
    """The arguments in one type; floating constants alone are double."""
    for term in arguments:
        if compute and not isinstance(term.type.element, Number):
            context.refuse("type-mismatch", node.span, f"'{node.callee}' takes numbers, found "
                           f"{term.type}")
    return [decayed(t) for t in convert.unify(context, node.span, *arguments, compute=compute)]


def _floats(context: Context, node: syntax.Call, arguments: list[Term]) -> list[Term]:
    """The arguments in one float type; integers convert to float."""
    found = _unified(context, node, arguments)
    is_float = found[0].type.arithmetic.is_float
    return found if is_float else [convert.number(context, t, FLOAT) for t in found]


def function(name: str, context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """A function of one float."""
    (x,) = _floats(context, node, arguments)
    return context.op(name, x.type, x)


def library_function(file: str, name: str, whole: tuple[int, ...], context: Context,
                     node: syntax.Call, arguments: list[Term]) -> Term:
    """A function of floats in the library; at the places `whole` it takes an int."""
    constants.check_constant(context, node.span, f"'{node.callee}' is a function of the library")
    floats = [t for at, t in enumerate(arguments) if at not in whole]
    operands = _unified(context, node, floats)
    integers = [arguments[at] for at in whole]
    for at, term in zip(whole, integers):
        element = term.type.element
        if not isinstance(element, Number) or not element.is_int:
            return context.error("type-mismatch", node.arguments[at].span, "an integer is "
                                 f"expected here, found {term.type}")
    shapes.meet_shapes(context, node.span, *operands, *integers)
    rest = iter(_floats(context, node, operands))
    ordered = [t if at in whole else next(rest) for at, t in enumerate(arguments)]
    return library.real(context, file, name, ordered, node.span, whole)


def extremum(operation: str, context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """min and max, of several arguments or of the elements of one tile."""
    if len(arguments) == 1:
        if not arguments[0].shape:
            return context.error("call-arguments", node.span, f"'{node.callee}' takes two "
                                 f"arguments or more, or one tile; found {arguments[0].type}")
        return tiles.reduction(operation, context, node, arguments)
    result, *others = _unified(context, node, arguments)
    for other in others:
        result = _pick(context, operation, result, other)
    return result


def _pick(context: Context, operation: str, a: Term, b: Term) -> Term:
    element = a.type.arithmetic
    return context.op(kind_of(operation, element), a.type, a, b)


def magnitude(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """abs of floats and integers."""
    (x,) = _unified(context, node, arguments)
    element = x.type.arithmetic
    if element.is_float:
        return context.op("fabs", x.type, x)
    return context.op("smax", x.type, x, negate(context, x)) if element.signed else x


def select(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """select(c, a, b); a and b may be pointers."""
    condition = convert.truth(context, arguments[0], node.arguments[0].span,
                              "the condition of select")
    operands = _unified(context, node, arguments[1:], compute=False)
    shape = shapes.meet_shapes(context, node.span, good(condition), operands[0])
    context.at(node.span)
    a, b = (shapes.broadcast(context, t, shape) for t in operands)
    return context.op("select", a.type, shapes.broadcast(context, condition, shape), a, b)


def clamp(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    x, low, high = _unified(context, node, arguments)
    return _pick(context, "min", _pick(context, "max", x, low), high)


def fma(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """Of floats rounded once; of integers it is a * b + c."""
    a, b, c = _unified(context, node, arguments)
    element = a.type.arithmetic
    if element.is_float:
        return context.op("fma", a.type, a, b, c)
    return context.op("add", a.type, context.op("mul", a.type, a, b), c)


