"""Loops, and the jumps that leave them.

A `static for` is a loop that the compiler runs, whose counter is a constant in each iteration:

    static for (int i = 0; i < 4; i++)
      acc[i] += a[i] * b[:, newaxis];

The body is lowered once for each iteration; the counter may stand in extents, ranges, conditions of
static_assert and as the index of an array of tiles.  `break` and `continue` under a condition that
is no constant leave the iterations as they do in other loops."""

from tritonc.frontend import syntax
from tritonc.ir.core import Block
from tritonc.ir.types import I1
from tritonc.sema.context import Context, Loop
from tritonc.sema.operations import convert, implicit, operators
from tritonc.sema.scope import Variable
from tritonc.sema.types import constants
from tritonc.sema.types.ctypes import BOOL_TYPE, INT_TYPE
from tritonc.sema.types.term import Term, good
from tritonc.source import CompileError, Note, Span

MOST_COPIES = 64  # of a loop's body
MOST_ITERATIONS = 1024  # of a static loop
ALL_ITERATIONS = 8192  # of those of a kernel, one inside the other


def lower_part(context: Context, node: syntax.Statement) -> None:
    """A statement that is a block of its own, as C has it for the parts of an if or loop."""
    with context.inner_scope():
        context.lower(node)


def _loop_condition(context: Context, node: syntax.Expression | None) -> Term:
    """The condition of a loop, a scalar; a missing one is true."""
    if node is None:
        return Term(BOOL_TYPE, constant=True)
    condition = convert.truth(context, context.operand(node), node.span)
    if condition.shape and condition.type.size == 1:
        condition = implicit.assign(context, condition, BOOL_TYPE, node.span, "the condition")
    if condition.shape:
        condition = context.error("tile-condition", node.span, "the condition of a loop must be a "
                                  f"scalar, found {condition.type}; any(...) or all(...) makes it "
                                  "one")
    return Term(BOOL_TYPE, context.ssa.undef(I1)) if condition.poisoned else condition


def for_(context: Context, node: syntax.For) -> None:
    if node.static:
        _static(context, node)
        return
    with context.inner_scope():
        frame = context.frame
        lift = frame.lift if frame is not None else None
        if node.init is not None:
            if frame is not None:
                frame.lift = None  # the counter of a loop is a scalar
            context.lower(node.init)
            if frame is not None:
                frame.lift = lift
        _loop(context, node, node.condition, node.step)


def while_(context: Context, node: syntax.While) -> None:
    _loop(context, node, node.condition, None)


def _loop(context: Context, node: syntax.For | syntax.While, condition: syntax.Expression | None,
          step: syntax.Expression | None) -> None:
    head, body, exit = Block("loop"), Block("body"), Block("exit")
    at = condition.span if condition is not None else node.span
    context.at(at)
    context.branch(head)
    context.start(head, seal=False)
    term = _loop_condition(context, condition)
    context.at(at)
    test = context.block
    context.branch_if(term, body, exit)
    _unroll(context, node, test)
    context.start(body)
    _body(context, node.body, exit)
    if step is not None:
        context.lower(step)
    context.at(at)
    context.branch(head)
    context.ssa.seal(head)
    context.start(exit)


def do_while(context: Context, node: syntax.DoWhile) -> None:
    head, exit = Block("loop"), Block("exit")
    context.at(node.span)
    context.branch(head)
    context.start(head, seal=False)
    _body(context, node.body, exit)
    term = _loop_condition(context, node.condition)
    context.at(node.condition.span)
    test = context.block
    context.branch_if(term, head, exit)
    _unroll(context, node, test)
    context.ssa.seal(head)
    context.start(exit)


def _unroll(context: Context, node: syntax.For | syntax.While | syntax.DoWhile, test: Block
            ) -> None:
    """Note at the loop's test how often its body is to be repeated."""
    if node.unroll is None:
        return
    times = constants.integer(context, node.unroll, "how often a loop is unrolled")
    if not 0 <= times <= MOST_COPIES:
        context.error("call-arguments", node.unroll.span, f"a loop is unrolled 1 to {MOST_COPIES} "
                      f"times, found {times}; without a number, once for each iteration")
    elif test.ops and test.terminator.name == "cond_br":
        test.terminator.attributes["unroll"] = times


def _body(context: Context, node: syntax.Statement, exit: Block, after: Span | None = None) -> None:
    """The body of a loop, and where `continue` goes; `after` is the place of the way there."""
    latch = Block("next")
    outer, context.loop = context.loop, Loop(context.mask, exit, latch)
    lower_part(context, node)
    context.loop = outer
    if context.ssa.is_live(latch):
        if after is not None:
            context.at(after)
        context.branch(latch)
        context.start(latch)


def leave(context: Context, node: syntax.Break | syntax.Continue) -> None:
    loop, span = context.loop, node.span
    word = "break" if isinstance(node, syntax.Break) else "continue"
    if loop is None:
        context.error("misplaced-jump", span, f"'{word}' is not inside a loop")
        return
    if context.mask is not loop.mask:
        predicated_jump(context, span, word)
        return
    context.at(span)
    context.branch(loop.exit if word == "break" else loop.next)


def predicated_jump(context: Context, span: Span, word: str) -> None:
    mask = context.mask
    context.error("predicated-jump", span, f"'{word}' under a tile predicate: some elements would "
                  "take it and others not",
                  Note("the predicate is here; if (any(...)) or if (all(...)) is a scalar "
                       "condition", mask.span if mask is not None else None),
                  *([Note("what follows for the other elements goes under the opposite predicate, "
                          "as in if (i < n) { ... }")] if word == "return" else []))


# --- static loops ---


def _static(context: Context, node: syntax.For) -> None:
    """All iterations, one behind the other."""
    with context.inner_scope():
        _begin(context, node)
        exit = Block("exit")
        iterations = 0
        while _holds(context, node):
            iterations += 1
            context.iterations += 1
            if iterations > MOST_ITERATIONS or context.iterations > ALL_ITERATIONS:
                context.error("static-loop", node.span,
                              f"this loop has more than {MOST_ITERATIONS} iterations, or the "
                              f"static loops of '{context.kernel.name}' have more than "
                              f"{ALL_ITERATIONS} together; the compiler writes out the body for "
                              "each")
                if context.iterations > ALL_ITERATIONS:
                    raise CompileError(context.diagnostics.items)
                break
            _body(context, node.body, exit, node.span)
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
