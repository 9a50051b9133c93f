"""How builtins with effects lower: atomics, barriers, hints, checks, output."""

import re
from typing import Any

from tritonc.frontend import syntax
from tritonc.sema.context import Context, Words, decayed
from tritonc.sema.operations import convert, memory
from tritonc.sema.predicates.if_conversion import guard_for
from tritonc.sema.types import constants, shapes
from tritonc.sema.types.ctypes import DOUBLE, INT, NUMBERS, STRING_TYPE, Number, PointerTo
from tritonc.sema.types.term import NOTHING, Refused, Term, good
from tritonc.source import Span

Shape = tuple[int, ...]

# atomic_add_float_64x32 and f32_atomic_add state the type in their names.
_TYPED = re.compile(r"(?:__)?atomic_[a-z]+_([a-z]\w*?)_(\d+)x(\d+)")
_NAMED_TYPES = {"float": "float32", "f32": "float32", "double": "float64", "f64": "float64",
                "half": "float16", "f16": "float16", "int": "int32", "long": "int64"}


def atomic(operation: str, context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """p, v (cas: p, compare, v), and a mask if there is one argument more."""
    count = {"cas": 3, "load": 1}.get(operation, 2)
    target, shape = _stated(context, node)
    pointer = arguments[0]
    element = pointer.type.element
    if target is not None and isinstance(element, PointerTo) and element.target is not target:
        return context.error("type-mismatch", node.arguments[0].span, f"this spelling is for "
                             f"{target}, the pointer is {pointer.type}")
    mask = arguments[count] if len(arguments) > count else None
    words = _said(context)
    tile = next((t for t in arguments if t.shape), None)
    if words.order not in ("", "relaxed") and tile is not None:
        return context.error("atomic-order", node.span, f"the accesses of a tile, here {tile.type},"
                             f" have no order; '{words.order}' applies only to a scalar pointer")
    return memory.atomic(context, operation, pointer, arguments[1:count], mask, shape, node.span,
                         [a.span for a in node.arguments[: len(arguments)]],
                         used=context.statement is not node, words=words)


def _said(context: Context) -> Words:
    """The words behind the arguments of this call."""
    words, context.words = context.words or memory.PLAIN, None
    return words


def plain_load(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """load(p, mask), with words about caches."""
    words, mask = _said(context), None
    if len(arguments) == 2:
        mask = good(convert.truth(context, arguments[1], node.arguments[1].span, "a mask"))
    return memory.load(context, arguments[0], mask, node.span, node.arguments[0].span, words=words)


def plain_store(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """store(p, v, mask), with words about caches."""
    words, mask = _said(context), None
    if len(arguments) == 3:
        mask = good(convert.truth(context, arguments[2], node.arguments[2].span, "a mask"))
    memory.store(context, arguments[0], mask, arguments[1], node.span, node.arguments[1].span,
                 node.arguments[0].span, words=words)
    return NOTHING


def _stated(context: Context, node: syntax.Call) -> tuple[Number | None, Shape | None]:
    """The element type and shape that the spelling of a call states."""
    match = _TYPED.fullmatch(node.callee)
    if match:
        name = _NAMED_TYPES.get(match[1], match[1])
        if name not in NUMBERS:
            context.refuse("type-mismatch", node.callee_span, f"'{match[1]}' is no type")
        return NUMBERS[name], (int(match[2]), int(match[3]))
    if node.callee.startswith("f32_"):
        return NUMBERS["float32"], None
    if node.template is None:
        return None, None
    first, *rest = node.template
    extents = [n for n in rest if not isinstance(n, syntax.TypeSpec)]
    if not isinstance(first, syntax.TypeSpec):
        context.refuse("call-arguments", node.span, f"'{node.callee}' takes an element type and "
                       f"extents first: {node.callee}(float, TM, TN)(p, v, mask)")
    type = constants.value_type(context, first, "the type of an atomic operation")
    if not isinstance(type.element, Number):
        raise Refused
    return type.element, constants.extents(context, tuple(extents))


def barrier(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    context.emit("memory_barrier")
    return NOTHING


# --- hints ---


def multiple_of(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    n = constants.integer_of(context, arguments[1], node.arguments[1].span,
                             "the second argument of multiple_of")
    return promise(context, arguments[0], n, node.span, node.arguments[1].span)


def promise(context: Context, x: Term, n: int, span: Span, n_span: Span) -> Term:
    """x, which is a multiple of n."""
    element = x.type.element
    if n < 1:
        return context.error("call-arguments", n_span, f"a multiple of {n} makes no sense; the "
                             "number must be positive")
    if isinstance(element, Number) and not element.is_int:
        return context.error("type-mismatch", span, "only integers and pointers are multiples of a "
                             f"number, found {x.type}")
    context.at(span)
    return x if n == 1 or x.constant is not None else context.op("assume_multiple", x.type, x, n=n)


def assume(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    condition = good(convert.truth(context, arguments[0], node.arguments[0].span,
                                   f"the condition of '{node.callee}'"))
    return _guarded(context, node, "assume", [condition])


def _guarded(context: Context, node: syntax.Call, name: str, terms: list[Term],
             **attributes: Any) -> Term:
    """An operation of no result that the predicates in force guard."""
    shape = shapes.meet_shapes(context, node.span, *terms) if terms else ()
    context.at(node.span)
    if context.mask is not None:
        # A condition of fewer axes than the predicate concerns all elements along them.
        wide = shapes.common_shape(shape, context.mask.shape)
        shape = shape if wide is None else wide
    spread = [shapes.broadcast(context, t, shape) for t in terms]
    guard = guard_for(context, shape, node.span)
    context.emit(name, *(context.value(t) for t in spread), guard=guard, **attributes)
    return NOTHING


# --- checks and output ---


def check(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """assert(c) and assert(c, "message")."""
    condition = good(convert.truth(context, arguments[0], node.arguments[0].span,
                                   "the condition of assert"))
    span = node.arguments[0].span
    message = " ".join(span.file.text[span.start:span.end].split())
    if len(arguments) == 2:
        if arguments[1].type is not STRING_TYPE:
            return context.error("string-literal", node.arguments[1].span, "the message of assert "
                                 "must be a string")
        message = str(arguments[1].constant)
    return _guarded(context, node, "assert", [condition], message=message)


_DIRECTIVE = re.compile(r"%(?:%|[-+ #0]*\d*(?:\.\d+)?(hh|ll|[hljztL])?(.?))", re.DOTALL)


def printf(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """Values are promoted as C promotes the arguments of printf."""
    if arguments[0].type is not STRING_TYPE:
        return context.error("string-literal", node.arguments[0].span, "the first argument of "
                             "printf must be a string")
    format = str(arguments[0].constant)
    letters = [(m[0], m[2]) for m in _DIRECTIVE.finditer(format) if m[0] != "%%"]
    if len(letters) != len(arguments) - 1:
        return context.error("printf-format", node.span, f"the format has {len(letters)} "
                             f"directives, found {len(arguments) - 1} values")
    values = [good(_printed(context, text, letter, term, argument.span))
              for (text, letter), term, argument
              in zip(letters, arguments[1:], node.arguments[1:])]
    return _guarded(context, node, "printf", values, format=format)


def _printed(context: Context, text: str, letter: str, term: Term, span: Span) -> Term:
    term = decayed(term)
    element = term.type.element
    if isinstance(element, PointerTo):
        if letter != "p":
            return context.error("printf-format", span, f"'{text}' does not print {term.type}; "
                                 "'%p' does")
        return convert.address(context, term)
    if letter in ("d", "i", "u", "o", "x", "X", "c") and letter and element.is_int:
        return convert.number(context, term, INT) if element.ir.bits < 32 else term
    if letter in tuple("eEfFgGaA") and element.is_float:
        return convert.number(context, term, DOUBLE)
    if letter in tuple("diuoxXceEfFgGaA"):
        better = "%f" if element.is_float else "%ld" if element.ir.bits == 64 else "%d"
        return context.error("printf-format", span, f"'{text}' does not print {term.type}; "
                             f"'{better}' does")
    return context.error("printf-format", span, f"'{text}' is not a directive that can be "
                         "printed here")


