"""The elementwise operators: from typed operands to operations."""

from tritonc.frontend import syntax
from tritonc.sema.context import Context, decayed, is_poisoned
from tritonc.sema.operations import convert
from tritonc.sema.predicates.if_conversion import later
from tritonc.sema.types import exact, shapes
from tritonc.sema.types.ctypes import BOOL, INT, LITERAL, LONG, Number, PointerTo, ctype, promote
from tritonc.sema.types.term import POISON, Term, good
from tritonc.source import Note, Span

ARITHMETIC = {"+": ("add", "fadd"), "-": ("sub", "fsub"), "*": ("mul", "fmul")}
BITWISE = {"&": "and", "|": "or", "^": "xor"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def binary(context: Context, operator: str, left: Term, right: Term, span: Span,
           operator_span: Span) -> Term:
    """`left operator right`; `span` is that of the expression, errors stand at the operator."""
    if is_poisoned(left, right):
        return POISON
    if isinstance(left.type.element, PointerTo) or isinstance(right.type.element, PointerTo):
        return _pointers(context, operator, left, right, span, operator_span)
    if operator in COMPARISONS:
        return _compare(context, operator, left, right, span, operator_span)
    if operator in ("<<", ">>"):
        return _shift(context, operator, left, right, span, operator_span)
    bits = operator in BITWISE and left.type.element is BOOL is right.type.element
    a, b = convert.unify(context, operator_span, left, right, compute=not bits)
    element = a.type.arithmetic
    context.at(span)
    if element is LITERAL and operator in "+-*/":
        return _literals(operator, a, b)
    if operator in ARITHMETIC:
        return context.op(ARITHMETIC[operator][element.is_float], a.type, a, b)
    if operator == "/" and element.is_float:
        return context.op("fdiv", a.type, a, b)
    if element.is_float:
        notes = (Note("it is the exclusive or; a power is a product, as in x * x"),)
        return context.error("type-mismatch", operator_span, f"'{operator}' takes integers, found "
                             f"{left.type} and {right.type}", *(notes if operator == "^" else ()))
    if operator in BITWISE:
        return context.op(BITWISE[operator], a.type, a, b)
    return _divide(context, operator, a, b, operator_span)


def _literals(operator: str, a: Term, b: Term) -> Term:
    assert not isinstance(a.constant, int | str | None)
    assert not isinstance(b.constant, int | str | None)
    return a.like(exact.compute(operator, a.constant, b.constant))


def _divide(context: Context, operator: str, a: Term, b: Term, span: Span) -> Term:
    signed = isinstance(a.type.element, Number) and a.type.element.signed
    name = ("s" if signed else "u") + ("div" if operator == "/" else "rem")
    if b.constant == 0:
        context.warning("division-by-zero", span, f"'{operator}' by zero")
    result = context.op(name, a.type, a, b)
    op = result.value.op if result.value is not None else None
    if op is not None and (b.constant is None or b.constant in (0, -1)):
        later(context, op)
    return result


def _compare(context: Context, operator: str, left: Term, right: Term, span: Span,
             operator_span: Span) -> Term:
    both_bool = left.type.element is BOOL is right.type.element and operator in ("==", "!=")
    operands = convert.unify(context, operator_span, left, right, compute=not both_bool)
    a, b = (decayed(t) for t in operands)
    context.at(span)
    return compare(context, operator, a, b)


def compare(context: Context, operator: str, a: Term, b: Term) -> Term:
    """Comparison of terms of one type."""
    element = a.type.arithmetic
    predicate = COMPARISONS[operator]
    type = ctype(BOOL, a.shape)
    if element.is_float:
        return context.op("fcmp", type, a, b,
                          predicate="une" if operator == "!=" else "o" + predicate)
    if operator not in ("==", "!="):
        predicate = ("s" if element.signed else "u") + predicate
    return context.op("icmp", type, a, b, predicate=predicate)


def _shift(context: Context, operator: str, left: Term, right: Term, span: Span,
           operator_span: Span) -> Term:
    a, b = left.type.element, right.type.element
    assert isinstance(a, Number) and isinstance(b, Number)
    if a.is_float or b.is_float:
        return context.error("type-mismatch", operator_span, f"'{operator}' takes integers, found "
                             f"{left.type} and {right.type}")
    shape = shapes.meet_shapes(context, operator_span, left, right)
    context.at(span)
    to = promote(a)
    count = right.constant
    if isinstance(count, int) and not 0 <= count < to.ir.bits:
        context.warning("shift-count", operator_span, f"the shift count {count} is not between 0 "
                        f"and {to.ir.bits - 1}; the result is undefined")
    value = shapes.broadcast(context, convert.number(context, left, to), shape)
    by = shapes.broadcast(context, convert.number(context, right, to), shape)
    name = "shl" if operator == "<<" else "ashr" if to.signed else "lshr"
    return context.op(name, value.type, value, by)


def may_contract(context: Context, total: Term, node: syntax.Expression, product: Term) -> None:
    """Mark a product, written as `node`, and the sum that it is an operand of.

    Only what stands as a product in the sum itself is marked, so that no product of another
    expression is ever joined to a marked sum."""
    if not (context.contract and isinstance(node, syntax.Binary) and node.operator == "*"):
        return
    a = total.value.op if total.value is not None else None
    b = product.value.op if product.value is not None else None
    if a is not None and b is not None and a.name in ("fadd", "fsub") and b.name == "fmul":
        a.attributes["contract"] = b.attributes["contract"] = True


# --- pointers ---


def _pointers(context: Context, operator: str, left: Term, right: Term, span: Span,
              operator_span: Span) -> Term:
    a, b = left.type.element, right.type.element
    if operator in COMPARISONS:
        if not all(isinstance(t.type.element, PointerTo) or convert.is_null(t)
                   for t in (left, right)):
            return _no_such(context, operator, left, right, operator_span)
        operands = convert.unify(context, operator_span, left, right)
        context.at(span)
        first, second = (convert.address(context, t) for t in operands)
        predicate = COMPARISONS[operator]
        return context.op("icmp", ctype(BOOL, first.shape), first, second,
                          predicate=predicate if operator in ("==", "!=") else "u" + predicate)
    if operator == "-" and isinstance(a, PointerTo) and isinstance(b, PointerTo):
        operands = convert.unify(context, operator_span, left, right)
        context.at(span)
        return context.op("ptrdiff", ctype(LONG, operands[0].shape), *operands)
    if operator == "+" and isinstance(b, PointerTo):
        left, right = right, left
        a, b = b, a
    if operator in ("+", "-") and isinstance(a, PointerTo) and isinstance(b, Number) and b.is_int:
        shape = shapes.meet_shapes(context, operator_span, left, right)
        context.at(span)
        offset = _offset(context, right, operator == "-")
        return context.op("addptr", ctype(a, shape), shapes.broadcast(context, left, shape),
                          shapes.broadcast(context, offset, shape))
    return _no_such(context, operator, left, right, operator_span)


def _offset(context: Context, offset: Term, negative: bool) -> Term:
    """An offset as addptr takes it: signed, 32 or 64 bits.

    It was computed in its own type; an unsigned int of the upper half is a large positive number.
    A difference is negated in 64 bits, where the least int has an opposite."""
    element = offset.type.arithmetic
    known = offset.number if not offset.shape else None
    if known is not None and -(1 << 31) < (value := -known if negative else known) < 1 << 31:
        return Term(ctype(INT), constant=value)
    if negative or (element.ir.bits == 32 and not element.signed):
        offset = convert.number(context, offset, LONG)
    elif element.ir.bits < 32:
        offset = convert.number(context, offset, INT)
    if negative:
        zero = offset.like(0)
        offset = context.op("sub", offset.type, zero, offset)
    return offset


def _no_such(context: Context, operator: str, left: Term, right: Term, span: Span) -> Term:
    notes: tuple[Note, ...] = ()
    for term in (left, right):
        if isinstance(term.type.element, PointerTo):
            notes = (Note(f"{term.type} is a pointer; '*' before it loads what it points to"),)
    notes = missing_semicolon(span) or (*notes, *context.declarations())
    return context.error("type-mismatch", span, f"'{operator}' does not take {left.type} and "
                         f"{right.type}", *notes)


def missing_semicolon(operator: Span) -> tuple[Note, ...]:
    """A note where an operator, which could begin a statement, is the first thing on its line."""
    line, column = operator.file.line_column(operator.start)
    before = operator.file.line_text(line)[: column - 1]
    if line == 1 or before.strip() or operator.expansion is not None:
        return ()
    return (Note("if a new statement begins here, the one before lacks its ';'"),)


# --- unary ---


def unary(context: Context, operator: str, term: Term, span: Span) -> Term:
    """`- + ! ~` of an operand."""
    element = good(term).type.element
    if operator == "!":
        condition = good(convert.truth(context, term, span, "the operand of '!'"))
        context.at(span)
        return invert(context, condition)
    if not isinstance(element, Number):
        return context.error("type-mismatch", span, f"unary '{operator}' takes a number, found "
                             f"{term.type}")
    context.at(span)
    if operator == "~":
        if element.is_float:
            return context.error("type-mismatch", span, f"'~' takes integers, found {term.type}")
        if element is BOOL:
            return invert(context, term)
    to = promote(element)
    value = convert.number(context, term, to)
    if operator == "+":
        return value
    if operator == "~":
        return context.op("xor", value.type, value, value.like(-1))
    return negate(context, value)


def negate(context: Context, value: Term) -> Term:
    element = value.type.arithmetic
    if element is LITERAL:
        assert not isinstance(value.constant, int | str | None)
        return value.like(exact.negate(value.constant))
    if element.is_float:
        return context.op("fneg", value.type, value)
    return context.op("sub", value.type, value.like(0), value)


def invert(context: Context, condition: Term) -> Term:
    return context.op("xor", condition.type, condition, condition.like(True))


