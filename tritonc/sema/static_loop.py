"""`static for`: a loop that the compiler runs, whose counter is a constant in each turn.

    static for (int i = 0; i < 4; i++)
      acc[i] += a[i] * b[:, newaxis];

The body is lowered once for each turn; the counter may stand in extents, ranges, conditions of
static_assert and as the index of an array of tiles.  `break` and `continue` under a condition that
is no constant leave the turns as they do in other loops.
"""

from __future__ import annotations

from tritonc.frontend import syntax
from tritonc.ir.core import Block
from tritonc.sema.context import Context, Loop
from tritonc.sema.operations import convert, implicit, operators
from tritonc.sema.scope import Variable
from tritonc.sema.types import constants
from tritonc.sema.types.ctypes import INT_TYPE
from tritonc.sema.types.term import Term, good

MOST_TURNS = 1024


def lower(context: Context, node: syntax.For) -> None:
    """All turns, one behind the other."""
    with context.inner_scope():
        _begin(context, node)
        exit = Block("exit")
        turns = 0
        while True:
            holds = _holds(context, node)
            if not holds:
                break
            turns += 1
            if turns > MOST_TURNS:
                context.error("static-loop", node.span, f"this loop has more than {MOST_TURNS} "
                              "turns; the compiler writes out the body for each")
                break
            latch = Block("next")
            outer, context.loop = context.loop, Loop(context.mask, exit, latch)
            with context.inner_scope():
                context.lower(node.body)
            context.loop = outer
            if context.ssa.is_live(latch):
                context.at(node.span)
                context.branch(latch)
                context.start(latch)
            if not _step(context, node):
                break
        if context.ssa.is_live(exit):
            context.at(node.span)
            context.branch(exit)
            context.start(exit)


def _begin(context: Context, node: syntax.For) -> None:
    """Declare the counter."""
    init = node.init
    if not isinstance(init, syntax.Declaration) or node.condition is None or node.step is None:
        context.refuse("static-loop", node.span, "a static loop declares its counter, tests it and "
                       "steps it, as in 'static for (int i = 0; i < 4; i++)'")
    for variable in init.variables:
        what = f"'{variable.name}'"
        type = constants.value_type(context, variable.type, what)
        if variable.initializer is None:
            context.refuse("static-loop", variable.name_span, f"{what} needs a value here, "
                           "which is a constant")
        value = constants.constant(context, variable.initializer, f"the first value of {what}")
        value = good(implicit.assign(context, value, type, variable.initializer.span, what))
        context.scope.declare(Variable(variable.name, variable.name_span, type, const=True,
                                       mask=context.mask, constant=value))


def _holds(context: Context, node: syntax.For) -> bool:
    assert node.condition is not None
    what = "the condition of a static loop"
    term = convert.truth(context, constants.constant(context, node.condition, what),
                         node.condition.span, what)
    return not term.poisoned and bool(term.constant)


def _step(context: Context, node: syntax.For) -> bool:
    """Move the counter on; whether that could be done."""
    step = node.step
    if isinstance(step, syntax.IncDec):
        target, operator, value = step.target, step.operator, Term(INT_TYPE, constant=1)
    elif isinstance(step, syntax.Assign):
        target, operator = step.target, step.operator or ""
        value = constants.constant(context, step.value, "the step of a static loop")
    else:
        target, operator, value = None, "", Term(INT_TYPE)
    counter = context.scope.names.get(target.name) if isinstance(target, syntax.Name) else None
    if not isinstance(counter, Variable) or counter.constant is None:
        assert step is not None
        context.error("static-loop", step.span, "the step of a static loop changes its counter, as "
                      "in 'i++' or 'i += 2'")
        return False
    if value.poisoned:
        return False
    if operator:
        value = operators.binary(context, operator, counter.constant, value, node.span, node.span)
    value = implicit.assign(context, value, counter.type, node.span, f"'{counter.name}'")
    if value.poisoned or value.constant is None:
        return False
    counter.constant = value
    return True
