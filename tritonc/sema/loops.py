"""Loops, and the jumps that leave them."""

from __future__ import annotations

from tritonc.frontend import syntax
from tritonc.ir.core import Block
from tritonc.ir.types import I1
from tritonc.sema import static_loop
from tritonc.sema.context import Context, Loop
from tritonc.sema.operations import convert, implicit
from tritonc.sema.types import constants
from tritonc.sema.types.ctypes import BOOL_TYPE
from tritonc.sema.types.term import Term
from tritonc.source import Note, Span

MOST_COPIES = 64  # of a loop's body


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
    if condition.poisoned:
        return Term(BOOL_TYPE, context.ssa.undef(I1))
    return condition


def for_(context: Context, node: syntax.For) -> None:
    if node.static:
        static_loop.lower(context, node)
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
    head, body, latch, exit = Block("loop"), Block("body"), Block("next"), Block("exit")
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
    _body(context, node.body, Loop(context.mask, exit, latch))
    if context.ssa.is_live(latch):
        context.branch(latch)
        context.start(latch)
    if step is not None:
        context.lower(step)
    context.at(at)
    context.branch(head)
    context.ssa.seal(head)
    context.start(exit)


def do_while(context: Context, node: syntax.DoWhile) -> None:
    head, latch, exit = Block("loop"), Block("next"), Block("exit")
    context.at(node.span)
    context.branch(head)
    context.start(head, seal=False)
    _body(context, node.body, Loop(context.mask, exit, latch))
    if context.ssa.is_live(latch):
        context.branch(latch)
        context.start(latch)
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
                      f"times, found {times}")
    elif test.ops and test.terminator.name == "cond_br":
        test.terminator.attributes["unroll"] = times


def _body(context: Context, node: syntax.Statement, loop: Loop) -> None:
    outer = context.loop
    context.loop = loop
    lower_part(context, node)
    context.loop = outer


def leave(context: Context, node: syntax.Break | syntax.Continue) -> None:
    loop, span = context.loop, node.span
    word = "break" if isinstance(node, syntax.Break) else "continue"
    if loop is None:
        context.error("misplaced-jump", span, f"'{word}' stands in no loop")
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
                       "condition", mask.span if mask is not None else None))
