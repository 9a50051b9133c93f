"""Statements: control flow over blocks, declarations, predicates."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tritonc.frontend import syntax
from tritonc.ir.core import Block
from tritonc.ir.types import I1
from tritonc.sema import generics, loops
from tritonc.sema.builtins import launch, table
from tritonc.sema.context import HINTS, Context, Frame, decayed
from tritonc.sema.operations import convert, implicit, structs
from tritonc.sema.predicates import if_conversion
from tritonc.sema.scope import Poisoned, Variable
from tritonc.sema.types import constants, ctypes
from tritonc.sema.types.term import POISON, Refused, Term, good
from tritonc.source import Note, Span


def block(context: Context, node: syntax.Block) -> None:
    with context.inner_scope():
        for statement in node.statements:
            context.lower(statement)


def expression(context: Context, node: syntax.ExpressionStatement) -> None:
    context.statement = node.expression
    context.lower(node.expression)


def nothing(context: Context, node: syntax.Node) -> None:
    """An empty statement; a typedef, which the parser has replaced."""


def static_assert(context: Context, node: syntax.StaticAssert) -> None:
    what = "the condition of static_assert"
    message = f": {node.message}" if node.message else ""
    if context.frame is None:  # with the tables as they are then
        condition = good(convert.truth(context, context.operand(node.condition),
                                       node.condition.span, what))
        context.at(node.condition.span)
        context.emit("assert", context.value(condition), message=message)
        return
    term = constants.constant(context, node.condition, what)
    condition = convert.truth(context, term, node.condition.span, what)
    if not condition.poisoned and not condition.constant:
        context.error("static-assertion", node.condition.span, f"static assertion failed{message}")


# --- declarations ---


def declaration(context: Context, node: syntax.Declaration) -> None:
    for variable in node.variables:
        _declare(context, variable)


def _declare(context: Context, node: syntax.Variable) -> None:
    given = _given(context, node) if node.type.scalar == "auto" else None
    try:
        type = constants.value_type(context, node.type, f"'{node.name}'") if given is None else \
            generics.deduced(context, node.type, decayed(good(given)).type, f"'{node.name}'")
    except Refused:
        if given is None and node.initializer is not None and not _takes_extent(
                context, node.initializer):
            context.lower(node.initializer)
        context.scope.names.setdefault(node.name, Poisoned(node.name, node.name_span))
        return
    if context.frame is not None and context.frame.lift and not type.shape:
        type = ctypes.ctype(type.element, context.frame.lift)
    const = node.type.const_pointer if node.type.pointer else node.type.const
    variable = Variable(node.name, node.name_span, type, const, mask=context.mask)
    context.enter(variable)
    context.declare(variable)
    if node.initializer is None:
        if const:
            context.error("const-assignment", node.name_span, f"'{node.name}' is const and needs "
                          "a value here: it cannot be assigned later")
            context.spoil(variable)
        return
    reads = len(context.reads)
    term = _initial_value(context, node, type, given)
    if term.poisoned:  # a mistake there may only look like a use of the variable
        context.reads[reads:] = [r for r in context.reads[reads:] if r[1] is not variable]
    for qualifier in node.qualifiers:
        try:
            term = _promised(context, qualifier, term)
        except Refused:
            term = POISON
    if term.poisoned:
        context.spoil(variable)
        return
    if const and term.constant is not None:
        variable.constant = term
    context.write(variable, term)


def _given(context: Context, node: syntax.Variable) -> Term:
    """The value from which an `auto` variable takes its type."""
    if node.initializer is None:
        return context.error("auto-type", node.name_span, f"'{node.name}' is auto and needs a "
                             "value here, which says its type")
    return context.operand(node.initializer, structs=True)


def _initial_value(context: Context, node: syntax.Variable, type: ctypes.CType, given: Term | None
                   ) -> Term:
    initializer = node.initializer
    assert initializer is not None
    if given is not None:
        term = given
    elif _takes_extent(context, initializer):
        assert isinstance(initializer, syntax.Call)
        if len(type.shape) != 1:
            return context.error("global-range", initializer.span, "get_global_range gives a 1-D "
                                 f"tile, but '{node.name}' is {type}",
                                 Note("a scalar is the program's number, get_program_id(axis); "
                                      "for a tile elsewhere, write get_global_range[T](axis)"))
        axis = context.operand(initializer.arguments[0])
        term = POISON
        with suppress(Refused):
            term = launch.slice_of(context, initializer, axis, type.shape[0])
    else:
        term = structs.value(context, initializer, type, f"'{node.name}'")
    context.at(initializer.span)
    return implicit.assign(context, term, type, initializer.span, f"'{node.name}'")


def _takes_extent(context: Context, node: syntax.Expression) -> bool:
    """Whether it is a call of get_global_range whose extent is that of the tile declared."""
    if not isinstance(node, syntax.Call) or node.template is not None or len(node.arguments) != 1:
        return False
    row = table.find(node.callee)
    return (row is not None and row.name == "get_global_range"
            and context.scope.lookup(node.callee) is None)


def _promised(context: Context, qualifier: syntax.Qualifier, term: Term) -> Term:
    """The value of a variable declared `multiple_of(n)`."""
    if qualifier.name not in HINTS or qualifier.argument is None:
        return term
    n = constants.integer(context, qualifier.argument, f"the argument of '{qualifier.name}'")
    if term.poisoned:
        return POISON
    if term.members:
        return context.error("struct-value", qualifier.span, f"'{qualifier.name}' does not apply "
                             f"to the struct {term.type}")
    from tritonc.sema.builtins import memory

    return memory.promise(context, term, n, qualifier.span, qualifier.argument.span)


# --- choice ---


def if_(context: Context, node: syntax.If) -> None:
    _choose(context, node.condition, "a condition", node.then, node.orelse)


def predicated(context: Context, node: syntax.Predicated) -> None:
    """`@mask statement`."""
    _choose(context, node.mask, "a predicate", node.body, None)


def _choose(context: Context, test: syntax.Expression, what: str, then: syntax.Statement,
            orelse: syntax.Statement | None) -> None:
    condition = convert.truth(context, context.operand(test), test.span, what)
    if not condition.shape:
        _scalar_if(context, condition, test.span, then, orelse)
        return
    with if_conversion.region(context):
        mask = if_conversion.enter(context, condition, test.span)
        with if_conversion.under(context, mask):
            loops.lower_part(context, then)
        if orelse is not None:
            with if_conversion.under(context, if_conversion.opposite(context, mask)):
                loops.lower_part(context, orelse)


def _scalar_if(context: Context, condition: Term, span: Span, then: syntax.Statement,
               orelse: syntax.Statement | None) -> None:
    if condition.poisoned:
        condition = Term(ctypes.BOOL_TYPE, context.ssa.undef(I1))
    then_block, join = Block("then"), Block("join")
    else_block = Block("else") if orelse is not None else join
    context.at(span)
    context.branch_if(condition, then_block, else_block)
    context.start(then_block)
    loops.lower_part(context, then)
    context.at(span)
    context.branch(join)
    if orelse is not None:
        context.start(else_block)
        loops.lower_part(context, orelse)
        context.at(span)
        context.branch(join)
    context.start(join)


# --- returning ---


def return_(context: Context, node: syntax.Return) -> None:
    frame = context.frame
    if frame is None:
        context.refuse("file-statement", node.span, "outside functions, only statements that "
                       "fill constant tables are allowed")
    term = None
    if node.value is not None:
        term = structs.value(context, node.value, frame.returns,
                             f"the result of '{frame.function.name}'")
    if context.mask is not frame.mask:
        loops.predicated_jump(context, node.span, "return")
        return
    with suppress(Refused):
        _set_result(context, frame, node, term)
    if node is frame.tail:
        return  # control falls out of the body anyway
    if frame.exit is None:
        frame.exit = Block("return")
    context.at(node.span)
    context.branch(frame.exit)


def _set_result(context: Context, frame: Frame, node: syntax.Return, term: Term | None) -> None:
    function = frame.function
    if frame.returns.element is ctypes.AUTO and term is not None:
        frame.returns = ctypes.ERROR_TYPE
        term = decayed(term)
        if term.type.element is ctypes.VOID:
            context.refuse("void-value", node.span, "a value is expected here; this call of a void "
                           "function gives none")
        frame.returns = generics.deduced(context, function.node.returns, good(term).type,
                                         f"the result of '{function.name}'")
        frame.result = Variable("result", node.span, frame.returns, mask=frame.mask)
    if frame.returns.element is ctypes.AUTO or frame.returns.element is ctypes.ERROR:
        return
    if frame.returns is ctypes.VOID_TYPE or frame.returns.element is ctypes.VOID:
        if term is not None and not term.poisoned:
            context.error("return-type", node.span, f"'{function.name}' is void and cannot return "
                          "a value", function.note)
        return
    assert frame.result is not None
    if term is None:
        context.refuse("return-type", node.span, f"'{function.name}' must return a value of type "
                       f"{frame.returns}", function.note)
    assert node.value is not None
    context.at(node.value.span)
    term = implicit.assign(context, term, frame.returns, node.value.span,
                          f"the result of '{function.name}'", function.note)
    if term.poisoned:
        context.spoil(frame.result)
    else:
        context.write(frame.result, term)


HANDLERS: dict[type[syntax.Node], Callable[[Context, Any], None]] = {
    syntax.Block: block, syntax.Declaration: declaration, syntax.LocalTypedef: nothing,
    syntax.ExpressionStatement: expression, syntax.StaticAssert: static_assert, syntax.If: if_,
    syntax.For: loops.for_, syntax.While: loops.while_, syntax.DoWhile: loops.do_while,
    syntax.Break: loops.leave, syntax.Continue: loops.leave, syntax.Return: return_,
    syntax.Empty: nothing, syntax.Predicated: predicated}
