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
its declaration and the assignment; so what is declared under a predicate is ordinary there.
"""

from __future__ import annotations

from tritonc.frontend import syntax
from tritonc.ir.core import Block, Value
from tritonc.sema import shapes
from tritonc.sema.context import Context
from tritonc.sema.ctypes import BOOL, ctype
from tritonc.sema.scope import Variable
from tritonc.sema.term import Term
from tritonc.source import Note, Span

Shape = tuple[int, ...]
Pair = tuple[Term, Term]


class Mask:
    """A predicate in force: `own` alone, and `full`, conjoined with those around it.

    Each is a pair: where it holds and where it does not.  `spread` has predicates broadcast to
    other shapes, by the block that this was done in; the two branches of an if share it.
    """

    __slots__ = ("full", "outer", "own", "shape", "span", "spread")

    def __init__(self, own: Pair, full: Pair, outer: Mask | None, span: Span,
                 spread: dict[tuple[Block, Value, Shape], Term]) -> None:
        self.own = own
        self.full = full
        self.shape = full[0].shape
        self.outer = outer
        self.span = span
        self.spread = spread

    @property
    def holds(self) -> Term:
        return self.full[0]


def enter(context: Context, condition: Term, span: Span) -> Mask | None:
    """The predicate of a tile condition inside the one in force; None after a message."""
    context.at(span)
    return _inside(context, _pair(context, condition), span, {})


def opposite(context: Context, mask: Mask) -> Mask | None:
    """The predicate of the else-branch."""
    context.at(mask.span)
    holds, fails = mask.own
    return _inside(context, (fails, holds), mask.span, mask.spread)


def _pair(context: Context, condition: Term) -> Pair:
    holds, fails = context.emit("cmpp", context.value(condition)).results
    return Term(condition.type, holds), Term(condition.type, fails)


def _inside(context: Context, own: Pair, span: Span,
            spread: dict[tuple[Block, Value, Shape], Term]) -> Mask | None:
    outer = context.mask
    if outer is None:
        return Mask(own, own, None, span, spread)
    both = conjoin(context, outer.holds, own[0], span, Note(
        f"it is under this predicate, {outer.holds.type}", outer.span))
    return None if both is None else Mask(own, _pair(context, both), outer, span, spread)


def conjoin(context: Context, a: Term, b: Term, span: Span, *notes: Note) -> Term | None:
    """a and b, broadcast together; None after a message, to which `notes` belong."""
    shape = shapes.meet_shapes(context, span, a, b, notes=notes)
    if shape is None:
        return None
    return context.op("and", ctype(BOOL, shape), shapes.broadcast(context, a, shape),
                      shapes.broadcast(context, b, shape))


def merge(context: Context, variable: Variable, new: Term, span: Span) -> Term | None:
    """What `variable` holds after `new` was assigned under the predicate in force.

    `new` has the variable's type.  None after a message.
    """
    mask = context.mask
    if mask is None or mask is variable.mask:
        return new
    declared = Note(f"'{variable.name}' is declared here", variable.span)
    if not variable.type.shape:
        context.error("predicated-scalar", span, f"'{variable.name}' is a scalar, but this "
                      "assignment is under a tile predicate, which holds for each element on its "
                      f"own", declared, Note("the predicate is here; any(...) of it is a scalar "
                                             "condition", mask.span))
        return None
    pair = _between(context, mask, variable.mask, variable.type.shape)
    if pair is None:
        context.error("shape-mismatch", span, f"'{variable.name}' is {variable.type}, but this "
                      f"assignment is under a predicate of shape {shapes.spell(mask.shape)}, "
                      f"which does not broadcast to {shapes.spell(variable.type.shape)}",
                      declared, Note("the predicate is here", mask.span))
        return None
    holds, fails = context.value(pair[0]), context.value(pair[1])
    old = context.ssa.read(variable, context.block)
    value = context.value(new)
    if old.op is not None and old.op.name == "psi" and holds in old.op.operands[0::2]:
        pairs = old.op.operands
        kept = [v for p, w in zip(pairs[0::2], pairs[1::2]) if p is not holds for v in (p, w)]
        operands = [*kept, holds, value]
    else:
        operands = [fails, old, holds, value]
    return Term(variable.type, context.emit("psi", *operands, type=variable.type).result)


def _between(context: Context, mask: Mask, base: Mask | None, shape: Shape) -> Pair | None:
    """The conjunction of the predicates from below `base` to `mask`, in that shape."""
    if mask.outer is base:
        holds, fails = mask.own
    elif base is None:
        holds, fails = mask.full
    else:
        both = mask.own[0]
        at = mask.outer
        while at is not base:
            assert at is not None, "a variable is visible only inside its own predicate"
            conjoined = conjoin(context, at.own[0], both, mask.span)
            assert conjoined is not None, "the full predicate had a shape"
            both, at = conjoined, at.outer
        holds, fails = _pair(context, both)
    if not shapes.broadcastable(holds.shape, shape):
        return None
    return _spread(context, mask, holds, shape), _spread(context, mask, fails, shape)


def _spread(context: Context, mask: Mask, predicate: Term, shape: Shape) -> Term:
    """The predicate in another shape: the same value each time, so that psis find it again."""
    key = (context.block, context.value(predicate), shape)
    found = mask.spread.get(key)
    if found is None:
        found = mask.spread[key] = shapes.broadcast(context, predicate, shape)
    return found


def guard_for(context: Context, shape: Shape) -> Value | None:
    """A guard for an operation of that shape which the predicate in force shall not widen.

    So a scalar division under a predicate that holds nowhere does not trap.
    """
    if context.mask is None:
        return None
    return context.value(fitted(context, context.mask.holds, shape))


def fitted(context: Context, holds: Term, shape: Shape) -> Term:
    """A predicate in that shape; along axes that the shape lacks, whether any element holds."""
    if shapes.broadcastable(holds.shape, shape):
        return shapes.broadcast(context, holds, shape)
    missing = len(holds.shape) - len(shape)
    extents = (1,) * missing + shape if missing > 0 else shape[-missing:]
    if shapes.common_shape(holds.shape, shape) is not None:
        axes = [d for d, n in enumerate(holds.shape) if d < missing or n != extents[d]]
    else:
        axes = list(range(len(holds.shape)))
    aligned = tuple(1 if d in axes else n for d, n in enumerate(holds.shape))
    left = tuple(n for d, n in enumerate(holds.shape) if d not in axes)
    some = context.op("reduce", ctype(BOOL, left), holds, kind="or", axes=axes)
    some = shapes.reshape(context, some, aligned[max(missing, 0):] if left else ())
    return shapes.broadcast(context, some, shape)


def needs_guard(context: Context, node: syntax.Node) -> bool:
    """Whether lowering `node` could make an operation that a predicate must guard."""
    known = context.guarded_nodes
    found = known.get(node)
    if found is None:
        found = _makes_effects(context, node)
        for child in () if found else syntax.children(node):
            if needs_guard(context, child):
                found = True
                break
        known[node] = found
    return found


def _makes_effects(context: Context, node: syntax.Node) -> bool:
    if isinstance(node, syntax.Binary):
        return node.operator in ("/", "%")
    if isinstance(node, syntax.Call):
        hidden = context.scope.lookup(node.callee) is not None
        return hidden or node.callee not in context.pure_calls
    return isinstance(node, syntax.Deref | syntax.MaskedDeref | syntax.Assign | syntax.IncDec)
