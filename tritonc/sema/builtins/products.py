"""Matrix products: `a @ b`, `dot(a, b)`, `dot(a, b, acc)`.

In the source, batch axes trail, [M, K, B] @ [K, N, B]; in Triton-IR they lead."""

from tritonc.frontend import syntax
from tritonc.sema.context import Context, is_poisoned
from tritonc.sema.operations import convert, implicit
from tritonc.sema.operations.subscripts import permute
from tritonc.sema.types import shapes
from tritonc.sema.types.ctypes import BOOL, DOUBLE, FLOAT, INT, UINT8, Number, ctype
from tritonc.sema.types.term import POISON, Term, good
from tritonc.source import Note, Span


def accumulator(element: Number) -> Number:
    if element.is_float:
        return DOUBLE if element.ir.bits == 64 else FLOAT
    return INT if element.ir.bits == 8 else element


def product(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """dot(a, b) and dot(a, b, acc)."""
    acc = arguments[2] if len(arguments) == 3 else None
    return dot(context, arguments[0], arguments[1], acc, node.span,
               node.arguments[2].span if acc is not None else None)


def dot(context: Context, a: Term, b: Term, acc: Term | None, span: Span, acc_span: Span | None,
        hint: tuple[Note, ...] = ()) -> Term:
    """The matrix product of a and b, plus acc; `hint` goes with an error about its operands."""
    if is_poisoned(a, b) or (acc is not None and acc.poisoned):
        return POISON
    for term in (a, b):
        element = term.type.element
        if not isinstance(element, Number) or element is BOOL or len(term.shape) < 2:
            return context.error("dot-operands", span, "a matrix product needs tiles of numbers "
                                 f"with two axes or more, found {a.type} and {b.type}",
                                 *(hint or context.declarations()))
    if a.type.element is not b.type.element:
        return context.error("dot-operands", span, "a matrix product needs operands of one element "
                             f"type, found {a.type} and {b.type}",
                             Note("a cast converts one of them, as in (half)a"),
                             *context.declarations())
    if len(a.shape) != len(b.shape) or a.shape[2:] != b.shape[2:]:
        return context.error("dot-operands", span, "a matrix product needs operands with the same "
                             f"axes behind the first two, found {a.type} and {b.type}",
                             *context.declarations())
    if a.shape[1] != b.shape[0]:
        notes: tuple[Note, ...] = ()
        if a.shape[1] == b.shape[1]:
            notes = (Note("trans(b) would fit"),)
        elif a.shape[0] == b.shape[0]:
            notes = (Note("trans(a) would fit"),)
        return context.error("dot-operands", span, "a matrix product needs [M, K] and [K, N], "
                             f"found {a.type} and {b.type}", *notes, *context.declarations())
    element = a.type.arithmetic
    result = accumulator(element)
    shape = (a.shape[0], b.shape[1], *a.shape[2:])
    shapes.check_size(context, shape, span)
    if acc is not None:
        acc = good(implicit.assign(context, acc, ctype(result, shape), acc_span or span,
                                   "the accumulator of this product"))
    context.at(span)
    if element is UINT8:  # Triton-IR multiplies i8 as signed
        a, b = (convert.number(context, t, INT) for t in (a, b))
    rank = len(shape)
    to_front = [*range(2, rank), 0, 1]
    to_back = [rank - 2, rank - 1, *range(rank - 2)]
    a, b = (permute(context, t, to_front, span) for t in (a, b))
    inside = ctype(result, tuple(shape[d] for d in to_front))
    if acc is None:
        acc = Term(inside, constant=0.0 if result.is_float else 0)
    else:
        acc = permute(context, acc, to_front, span)
    return permute(context, context.op("dot", inside, a, b, acc), to_back, span)
