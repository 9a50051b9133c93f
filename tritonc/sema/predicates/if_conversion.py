"""Tile predicates: control flow inside a tile, by if-conversion to predicated SSA.

    if (m) { x = a; *p = x; } else x = b;

with a tile `m` becomes

    %p, %np = cmpp %m
    %x1 = psi [%np, %x0], [%p, %a]
    @%p store %p, %x1
    %x2 = psi [%p, %a], [%np, %b]

Operations that can be guarded carry the predicate; an assignment to a variable from outside merges
old and new values by a psi.  The psi of the else-branch finds its own predicate in the psi of the
then-branch and takes its place there, which leaves one psi of both values.  Inside another
predicate, predicates are conjoined.  A variable is merged only by those predicates that lie between
its declaration and the assignment; so what is declared under a predicate is ordinary there."""

from collections.abc import Iterator
from contextlib import contextmanager

from tritonc.frontend import syntax
from tritonc.frontend.tree import children
from tritonc.ir.core import Block, Op, Value
from tritonc.sema.context import Context
from tritonc.sema.predicates import conditions, guards, needs
from tritonc.sema.predicates.in_force import Mask, Pair, Pending, Region, Shape
from tritonc.sema.scope import FunctionEntity, Variable
from tritonc.sema.types import shapes
from tritonc.sema.types.ctypes import BOOL, ctype
from tritonc.sema.types.term import Term
from tritonc.source import Note, Span


def enter(context: Context, condition: Term, span: Span) -> Mask:
    """The predicate of a tile condition inside the one in force."""
    context.at(span)
    return _inside(context, _pair(context, condition), span, {})


def opposite(context: Context, mask: Mask) -> Mask:
    """The predicate of the else-branch."""
    context.at(mask.span)
    holds, fails = mask.own
    return _inside(context, (fails, holds), mask.span, mask.spread)


def _pair(context: Context, condition: Term) -> Pair:
    holds, fails = context.emit("cmpp", context.value(condition)).results
    return Term(condition.type, holds), Term(condition.type, fails)


def _inside(context: Context, own: Pair, span: Span,
            spread: dict[tuple[Block, Value, Shape], Term]) -> Mask:
    outer = context.mask
    if outer is None:
        return Mask(own, own, None, span, spread)
    if outer.full is None or shapes.common_shape(outer.shape, own[0].shape) is None:
        return Mask(own, None, outer, span, spread)
    both = conjoin(context, outer.full[0], own[0], span)
    return Mask(own, _pair(context, both), outer, span, spread)


@contextmanager
def region(context: Context) -> Iterator[None]:
    """Around an outermost predicate and all that is made under it: gives out the guards."""
    if context.region is not None:
        yield
        return
    context.region = Region()
    try:
        yield
    finally:
        guards.settle(context)


@contextmanager
def under(context: Context, mask: Mask | None) -> Iterator[None]:
    """`mask` is the predicate in force meanwhile."""
    outer, context.mask = context.mask, mask
    try:
        yield
    finally:
        context.mask = outer


def holds(context: Context, mask: Mask, span: Span) -> Term:
    """Where `mask` and all around it hold; refused if there is no such shape."""
    if mask.full is not None:
        return mask.full[0]
    at = mask
    while at.outer is not None and at.outer.full is None:
        at = at.outer
    assert at.outer is not None and at.outer.full is not None
    notes = [Note(f"it is under this predicate, {at.outer.full[0].type}", at.outer.span)]
    if span.start != at.span.start:
        notes.insert(0, Note("this has to take effect under both", span))
    shapes.meet_shapes(context, at.span, at.outer.full[0], at.own[0], notes=tuple(notes))
    raise AssertionError("they have no shape in common")


def conjoin(context: Context, a: Term, b: Term, span: Span) -> Term:
    """a and b, broadcast together."""
    shape = shapes.meet_shapes(context, span, a, b)
    return context.op("and", ctype(BOOL, shape), shapes.broadcast(context, a, shape),
                      shapes.broadcast(context, b, shape))


def merge(context: Context, variable: Variable, new: Term, span: Span) -> Term:
    """What `variable` holds after `new` was assigned under the predicate in force.

    `new` has the variable's type."""
    mask = context.mask
    if mask is None or mask is variable.mask:
        return new
    declared = variable.note
    if not variable.type.shape:
        context.refuse("predicated-scalar", span, f"'{variable.name}' is a scalar, but this "
                       "assignment is under a tile predicate, which holds for each element on its "
                       "own", declared, Note("the predicate is here; any(...) of it is a scalar "
                                             "condition", mask.span))
    if variable.mask is None:
        holds(context, mask, span)
    pair = _between(context, mask, variable.mask, variable.type.shape)
    if pair is None:
        context.refuse("shape-mismatch", span, f"'{variable.name}' is {variable.type}, but this "
                       f"assignment is under a predicate of shape {shapes.spell(mask.shape)}, "
                       f"which does not broadcast to {shapes.spell(variable.type.shape)}",
                       declared, Note("the predicate is here", mask.span))
    here, not_here = context.value(pair[0]), context.value(pair[1])
    old = context.ssa.read(variable, context.block)
    value = context.value(new)
    if old.op is not None and old.op.name == "psi" and here in old.op.operands[0::2]:
        pairs = old.op.operands
        kept = [at for at, p in enumerate(pairs) if at % 2 == 0 and p is not here]
        operands = [*(v for at in kept for v in pairs[at : at + 2]), here, value]
    else:
        kept = []
        operands = [not_here, old, here, value]
    psi = context.emit("psi", *operands, type=variable.type)
    _note(context, psi, old.op, kept, (mask, variable.mask))
    return Term(variable.type, psi.result)


def _note(context: Context, psi: Op, old: Op | None, kept: list[int],
          merged: tuple[Mask, Mask | None]) -> None:
    """Say under which predicates a psi has got its values, also those taken over from `old`."""
    if context.region is None:
        return
    merges = context.region.merges
    known = merges.get(old, {}) if old is not None else {}
    merges[psi] = {2 * to + 1: known[at + 1] for to, at in enumerate(kept) if at + 1 in known}
    merges[psi][len(psi.operands) - 1] = merged


def _between(context: Context, mask: Mask, base: Mask | None, shape: Shape) -> Pair | None:
    """The conjunction of the predicates from below `base` to `mask`, in that shape."""
    if mask.outer is base:
        here, not_here = mask.own
    elif base is None:
        assert mask.full is not None, "merge has asked"
        here, not_here = mask.full
    else:
        both = mask.own[0]
        at = mask.outer
        while at is not base:
            assert at is not None, "a variable is visible only inside its own predicate"
            if shapes.common_shape(at.own[0].shape, both.shape) is None:
                return None
            both, at = conjoin(context, at.own[0], both, mask.span), at.outer
        here, not_here = _pair(context, both)
    if not shapes.broadcastable(here.shape, shape):
        return None
    return _spread(context, mask, here, shape), _spread(context, mask, not_here, shape)


def _spread(context: Context, mask: Mask, predicate: Term, shape: Shape) -> Term:
    """The predicate in another shape: the same value each time, so that psis find it again."""
    key = (context.block, context.value(predicate), shape)
    found = mask.spread.get(key)
    if found is None:
        found = mask.spread[key] = shapes.broadcast(context, predicate, shape)
    return found


def guard_for(context: Context, shape: Shape, span: Span) -> Value | None:
    """A guard for an operation of that shape which the predicate in force shall not widen."""
    if context.mask is None:
        return None
    holds(context, context.mask, span)
    need = needs.fit(needs.full(context.mask), shape)
    return context.value(conditions.emit(context, need))


def later(context: Context, op: Op, explicit: Term | None = None) -> None:
    """`op`, the last that was made, gets its guard when it is known what is needed of it."""
    if context.mask is not None and context.region is not None:
        context.region.pending.append(Pending(op, context.block, context.mask, explicit))


def needs_guard(context: Context, node: syntax.Node) -> bool:
    """Whether lowering `node` could make an operation that a predicate must guard."""
    known = context.guarded_nodes
    found = known.get(node)
    if found is None:
        found = _makes_effects(context, node)
        for child in () if found else children(node):
            if needs_guard(context, child):
                found = True
                break
        known[node] = found
    return found


def _makes_effects(context: Context, node: syntax.Node) -> bool:
    if isinstance(node, syntax.Binary):
        return node.operator in ("/", "%")
    if isinstance(node, syntax.Call):
        entity = context.scope.lookup(node.callee)
        if isinstance(entity, FunctionEntity) and entity.home is not None:
            return False  # of the library
        return entity is not None or node.callee not in context.pure_calls
    if isinstance(node, syntax.Subscript):
        return any(isinstance(entry, syntax.Index) for entry in node.entries)
    return isinstance(node, syntax.Deref | syntax.MaskedDeref | syntax.Assign | syntax.IncDec)
