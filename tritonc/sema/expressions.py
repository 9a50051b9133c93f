"""Expressions: one function per class of the syntax tree."""

from collections.abc import Callable
from typing import Any

from tritonc.frontend import foreign, syntax
from tritonc.sema import scope, unit
from tritonc.sema.assignments import assign, step
from tritonc.sema.builtins import table
from tritonc.sema.builtins.products import dot
from tritonc.sema.context import Context
from tritonc.sema.functions import call_function
from tritonc.sema.operations import casts, choices, convert, memory, operators, structs
from tritonc.sema.operations.subscripts import address_of, rotate, subscript
from tritonc.sema.types import constants, ctypes, exact, shapes
from tritonc.sema.types.term import POISON, Term, good
from tritonc.source import Note, Span
from tritonc.spelling import closest

# --- literals and names ---


def int_literal(context: Context, node: syntax.IntLiteral) -> Term:
    """C11 6.4.4.1: the first type of a list that holds the value."""
    unsigned, long = "u" in node.suffix, "l" in node.suffix
    for type in (ctypes.INT, ctypes.UINT, ctypes.LONG, ctypes.ULONG):
        if (unsigned and type.signed) or (long and type.ir.bits < 64):
            continue
        if not type.signed and not unsigned and node.decimal:
            continue
        if node.value <= ctypes.integer_ends(type)[1]:
            bits = type.ir.bits
            value = node.value - (1 << bits) if node.value >> (bits - 1) else node.value
            return Term(ctypes.ctype(type), constant=value)
    return context.error("literal-range", node.span, f"{node.value} fits no signed type; the "
                         "suffix 'u' makes it unsigned")


def float_literal(context: Context, node: syntax.FloatLiteral) -> Term:
    value = exact.parse(node.text)
    if not node.suffix:
        return Term(ctypes.ctype(ctypes.LITERAL), constant=value)
    type = ctypes.FLOAT if node.suffix == "f" else ctypes.DOUBLE
    return Term(ctypes.ctype(type), constant=exact.round_exact(value, type.ir))


def name(context: Context, node: syntax.Name) -> Term:
    entity = context.scope.lookup(node.name)
    if isinstance(entity, scope.Variable):
        if entity.constant is not None:
            return entity.constant
        if context.constant_for is not None:
            constants.check_constant(context, node.span, f"'{node.name}' is a {entity.kind}",
                                     entity.note)
        return context.read(entity, node.span)
    if isinstance(entity, scope.Tunable):
        return unit.tunable_value(context, entity, node.span)
    if isinstance(entity, scope.JointMember):
        unit.tunable_value(context, entity.tunable, node.span)
        return entity.value or POISON
    if isinstance(entity, scope.NamedConstant):
        return unit.constant_value(context, entity, node.span)
    if isinstance(entity, scope.Table):
        constants.check_constant(context, node.span, f"'{node.name}' is a constant table")
        context.at(node.span)
        return context.op("constant_table", entity.type, symbol=entity.name)
    if isinstance(entity, scope.FunctionEntity):
        return context.error("undeclared-name", node.span, f"'{node.name}' is a function; it can "
                             "only be called", entity.note)
    if entity is None:
        if table.find(node.name) is not None:
            return context.error("undeclared-name", node.span, f"'{node.name}' is a builtin "
                                 "function; it can only be called")
        unknown(context, node.name, node.span, "there is nothing named")
    return POISON


def unknown(context: Context, name: str, span: Span, message: str) -> None:
    """Report an unknown name, once in a scope."""
    candidates = [name for name in context.scope.visible()
                  if not isinstance(context.scope.lookup(name), scope.Poisoned)]
    candidates += [*table.names(), *(m for m in context.unit.macros if m[0] != "_"),
                   "return", "break", "continue"]
    notes = foreign.notes(name)
    near = None if notes else closest(name, candidates)
    ended = context.frame.ended.get(name) if context.frame is not None else None
    if not notes and ended is not None and not isinstance(ended, scope.Poisoned):
        near = None
        notes = (Note(f"the block that declares this '{name}' has ended", ended.span),)
    elif near and (entity := context.scope.lookup(near)):
        notes = (Note(f"'{near}' is declared here", entity.span),)
    text = f"{message} '{name}'" + (f"; did you mean '{near}'?" if near else "")
    context.error("undeclared-name", span, text, *notes, suggestion=near)
    context.scope.names[name] = scope.Poisoned(name, span)


# --- operators ---


def unary(context: Context, node: syntax.Unary) -> Term:
    term = context.operand(node.operand)
    if node.operator == "^":
        return rotate(context, term, node.span)
    return operators.unary(context, node.operator, term, node.span)


def binary(context: Context, node: syntax.Binary) -> Term:
    left = context.operand(node.left)
    right = context.operand(node.right)
    _check_precedence(context, node, left, right)
    with context.about(node.left, node.right):
        if node.operator == "@":
            return dot(context, left, right, None, node.span, None,
                       operators.missing_semicolon(node.operator_span))
        result = operators.binary(context, node.operator, left, right, node.span,
                                  node.operator_span)
    if node.operator in ("+", "-"):
        operators.may_contract(context, result, node.left, left)
        operators.may_contract(context, result, node.right, right)
    return result


def _check_precedence(context: Context, node: syntax.Binary, left: Term, right: Term) -> None:
    """Warn of operands that are taken for others: `x & 1 == 0` is x & (1 == 0), `x >> 32 - n & 31`
    is (x >> (32 - n)) & 31.  In parentheses an operand's span is not at the end of the whole."""
    for part, other, bare in (
            (node.left, right, node.left.span.start == node.span.start),
            (node.right, left, node.right.span.end == node.span.end)):
        if not bare or not isinstance(part, syntax.Binary) \
                or part.operator_span.expansion is not None:
            continue
        if node.operator in ("&", "|", "^") and part.operator in operators.COMPARISONS \
                and good(other) and other.type.element is not ctypes.BOOL:
            name = "bitwise-precedence"
        elif node.operator in ("<<", ">>") and part.operator in ("+", "-"):
            name = "shift-precedence"
        elif part.operator in (order := ("<", "<=", ">", ">=")) and node.operator in order:
            context.warning("chained-comparison", node.span, "this compares the result of a "
                            "comparison, 0 or 1; a range is tested as in 'a < x && x < b'")
            continue
        else:
            continue
        context.warning(name, part.operator_span, f"'{part.operator}' binds tighter than "
                        f"'{node.operator}'; parentheses make this explicit")


def range_(context: Context, node: syntax.Range) -> Term:
    low = constants.integer(context, node.low, "the start of a range (x + 0 ... n begins at x)")
    high = constants.integer(context, node.high, "the end of a range")
    if high <= low:
        return context.error("range-bounds", node.span, f"the range {low} ... {high} is empty; its "
                             "end must be greater than its start")
    least, most = ctypes.integer_ends(ctypes.INT)
    if low < least or high - 1 > most:
        return context.error("range-bounds", node.span, f"the range {low} ... {high} does not "
                             "fit int")
    shapes.check_size(context, (high - low,), node.span)
    context.at(node.span)
    return context.op("range", ctypes.ctype(ctypes.INT, (high - low,)), start=low, stop=high)


def sizeof(context: Context, node: syntax.SizeOf) -> Term:
    type = constants.value_type(context, node.type, "the operand of sizeof")
    if isinstance(type.element, ctypes.Struct):
        return context.error("struct-value", node.type.span, f"sizeof takes a number's type, and "
                             f"{type} is a struct, which has no place in memory")
    if type.shape:
        return context.error("tile-sizeof", node.span, "sizeof takes a scalar type; a tile lies in "
                             "registers and has no size in memory")
    return Term(ctypes.ctype(ctypes.ULONG), constant=type.element.ir.bytes)


# --- memory ---


def deref(context: Context, node: syntax.Deref) -> Term:
    constants.check_constant(context, node.span, "'*' loads from memory")
    widen = context.widened is node
    pointer = context.operand(node.pointer)
    before = node.span.file.text[max(node.span.start - 1, 0) : node.span.start]
    if before == "*" and not (isinstance(pointer.type.element, ctypes.PointerTo)
                              or pointer.poisoned):
        return context.error("not-a-pointer", node.span, "'*' needs a pointer or a tile of "
                             f"pointers, found {pointer.type}",
                             Note("there is no operator for powers; write x * x"))
    with context.about(node.pointer):
        return memory.load(context, pointer, None, node.span, node.pointer.span, widen)


def masked_deref(context: Context, node: syntax.MaskedDeref) -> Term:
    constants.check_constant(context, node.span, "'*?' loads from memory")
    widen = context.widened is node
    mask = convert.truth(context, context.operand(node.mask), node.mask.span, "a mask")
    pointer = context.operand(node.pointer)
    return memory.load(context, pointer, good(mask), node.span, node.pointer.span, widen)


# --- calls ---


def call(context: Context, node: syntax.Call) -> Term:
    entity: scope.Entity | None = context.scope.lookup(node.callee)
    if isinstance(entity, scope.FunctionEntity):
        constants.check_constant(context, node.span,
                                 f"'{node.callee}' is a function of the program")
        if node.template is not None:
            return context.error("call-arguments", node.span, f"function '{node.callee}' takes "
                                 "one list of arguments", entity.note)
        return call_function(context, entity, node)
    if entity is None:
        row = table.find(node.callee)
        if row is not None:
            return table.call(context, row, node)
        unknown(context, node.callee, node.callee_span, "there is no function")
    elif not isinstance(entity, scope.Poisoned):
        hides = f", which hides the builtin '{node.callee}'" \
            if table.find(node.callee) is not None else ""
        context.error("not-a-function", node.callee_span, f"'{node.callee}' is a {entity.kind}"
                      f"{hides}; it cannot be called", entity.note)
    for argument in node.arguments:
        context.lower(argument)
    return POISON


HANDLERS: dict[type[syntax.Node], Callable[[Context, Any], Term]] = {
    syntax.Name: name, syntax.IntLiteral: int_literal, syntax.FloatLiteral: float_literal,
    syntax.BoolLiteral: lambda context, node: Term(ctypes.BOOL_TYPE, constant=node.value),
    syntax.CharLiteral: lambda context, node: Term(ctypes.INT_TYPE, constant=node.value),
    syntax.StringLiteral: lambda context, node: Term(ctypes.STRING_TYPE, constant=node.value),
    syntax.Unary: unary, syntax.Binary: binary, syntax.Logical: choices.logical,
    syntax.Range: range_, syntax.Assign: assign, syntax.IncDec: step,
    syntax.Conditional: choices.conditional, syntax.Cast: casts.cast, syntax.Bitcast: casts.bitcast,
    syntax.SizeOf: sizeof, syntax.Call: call, syntax.Deref: deref, syntax.MaskedDeref: masked_deref,
    syntax.AddressOf: address_of, syntax.Subscript: subscript, syntax.Member: structs.member,
    syntax.StructValue: structs.literal}
