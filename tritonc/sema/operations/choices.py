"""`c ? a : b`, `a && b`, `a || b`.

With a scalar condition only what is chosen is evaluated.  The sides are lowered to blocks of their
own; where these turn out to hold nothing but operations that may as well run in any case, they are
joined to the block before, and a `select` (`and`, `or`) takes the place of the branch.

With a tile for a condition both sides are evaluated, their loads, stores and divisions under the
condition's predicate."""

from contextlib import nullcontext, suppress

from tritonc.analysis.values import speculatable
from tritonc.frontend import syntax
from tritonc.ir.core import Block
from tritonc.sema.context import Context, decayed, is_poisoned
from tritonc.sema.operations import convert
from tritonc.sema.operations.operators import invert
from tritonc.sema.predicates import if_conversion
from tritonc.sema.predicates.in_force import Mask
from tritonc.sema.scope import Variable
from tritonc.sema.types import shapes
from tritonc.sema.types.ctypes import BOOL, BOOL_TYPE, DOUBLE, LITERAL, VOID_TYPE, CType, ctype
from tritonc.sema.types.term import NOTHING, POISON, Refused, Term


class _Side:
    """One alternative, lowered into a block of its own after `origin`."""

    def __init__(self, context: Context, node: syntax.Expression, name: str) -> None:
        self.origin = context.block
        self.begin = Block(name)
        if context.live:
            context.ssa.add_edge(self.origin, self.begin)
        before = context.assignments
        context.start(self.begin)
        self.term: Term = context.lower(node)
        self.end = context.block
        self.assigns = context.assignments != before
        context.builder.block = self.origin

    @property
    def free(self) -> bool:
        """Nothing here needs the condition to hold."""
        return (self.begin is self.end and not self.assigns
                and all(map(speculatable, self.begin.ops)))


def _join(context: Context, sides: list[_Side]) -> None:
    """Move the operations of free sides to the block before."""
    for side in sides:
        context.block.ops.extend(side.begin.ops)
        context.ssa.predecessors.pop(side.begin, None)
        if context.kernel.blocks and side.begin in context.kernel.blocks[-2:]:
            context.kernel.blocks.remove(side.begin)


# --- conditional ---


def conditional(context: Context, node: syntax.Conditional) -> Term:
    """`condition ? then : orelse`."""
    condition = convert.truth(context, context.operand(node.condition), node.condition.span)
    if condition.poisoned:
        if context.constant_for is None:
            context.lower(node.then)
            context.lower(node.orelse)
        return POISON
    if condition.shape:
        return _tile_conditional(context, node, condition)
    if condition.constant is not None:
        return _known_conditional(context, node, bool(condition.constant))
    then = _Side(context, node.then, "then")
    orelse = _Side(context, node.orelse, "else")
    return _branches(context, node, condition, then, orelse)


def _known_conditional(context: Context, node: syntax.Conditional, holds: bool) -> Term:
    """The condition is a constant: one side is only checked."""
    sides: list[Term] = []
    for side, chosen in ((node.then, holds), (node.orelse, not holds)):
        with nullcontext() if chosen else context.unreachable():
            sides.append(context.lower(side))
    then, orelse = sides
    if then.type is VOID_TYPE is orelse.type:
        return NOTHING
    if not _both_values(context, node, then, orelse):
        return POISON
    with context.about(node.then, node.orelse):
        type = convert.meet_types(context, node.span, then, orelse, compute=False)
    return convert.to_type(context, then if holds else orelse, type)


def _both_values(context: Context, node: syntax.Conditional, then: Term, orelse: Term) -> bool:
    if is_poisoned(then, orelse):
        return False
    if then.type is VOID_TYPE or orelse.type is VOID_TYPE:
        context.error("void-value", node.span, "one side of '?:' has a value and the other is void")
        return False
    return True


def _branches(context: Context, node: syntax.Conditional, condition: Term, then: _Side,
              orelse: _Side) -> Term:
    """Put the two sides of a scalar condition together."""
    type: CType | None = None
    if then.term.type is VOID_TYPE is orelse.term.type:
        type = VOID_TYPE
    elif _both_values(context, node, then.term, orelse.term):
        with suppress(Refused), context.about(node.then, node.orelse):
            type = convert.meet_types(context, node.span, then.term, orelse.term, compute=False)
        if type is not None and type.element is LITERAL:
            type = ctype(DOUBLE, type.shape)
    sides = [then, orelse]
    context.at(node.span)
    if type is not None and type is not VOID_TYPE:
        for side in sides:
            context.builder.block = side.end
            side.term = convert.to_type(context, side.term, type)
            if not (then.free and orelse.free):
                for leaf in side.term.leaves():
                    context.value(leaf)
        context.builder.block = then.origin
        if then.free and orelse.free:
            _join(context, sides)
            return _selected(context, condition, then.term, orelse.term)
    context.builder.block = then.origin
    if context.live:
        context.emit("cond_br", context.value(condition)).blocks = [then.begin, orelse.begin]
    result = Variable("", node.span, type) if type is not None and type is not VOID_TYPE else None
    join = Block("join")
    for side in sides:
        context.builder.block = side.end
        if result is not None:
            context.write(result, side.term)
        context.branch(join)
    context.start(join)
    if result is not None:
        return context.current(result)
    return NOTHING if type is VOID_TYPE else POISON


def _selected(context: Context, condition: Term, a: Term, b: Term) -> Term:
    """a where the condition holds, else b, of one type; no part of a struct is left out."""
    if a.members:
        return Term(a.type, members=tuple(
            _selected(context, condition, x, y)
            for x, y in zip(a.members, b.members, strict=True)))
    return context.op("select", a.type, shapes.broadcast(context, condition, a.shape), a, b)


def _tile_conditional(context: Context, node: syntax.Conditional, condition: Term) -> Term:
    guarded = [if_conversion.needs_guard(context, side) for side in (node.then, node.orelse)]
    if not any(guarded):
        return _chosen(context, node, condition, None, context.lower(node.then),
                       context.lower(node.orelse))
    outer = context.mask
    with if_conversion.region(context):
        mask = if_conversion.enter(context, condition, node.condition.span)
        with if_conversion.under(context, mask if guarded[0] else outer):
            context.widened = node.then
            then = context.lower(node.then)
        other = if_conversion.opposite(context, mask) if guarded[1] else None
        with if_conversion.under(context, other or outer):
            context.widened = node.orelse
            orelse = context.lower(node.orelse)
        return _chosen(context, node, condition, (mask, other), then, orelse)


def _chosen(context: Context, node: syntax.Conditional, condition: Term,
            masks: tuple[Mask, Mask | None] | None, then: Term, orelse: Term) -> Term:
    """The two sides of a tile condition, merged element by element."""
    if then.type is VOID_TYPE is orelse.type:
        return NOTHING
    if not _both_values(context, node, then, orelse):
        return POISON
    start = len(context.region.ops) if context.region is not None else 0
    context.at(node.span)
    with context.about(node.condition, node.then, node.orelse):
        operands = convert.unify(context, node.span, then, orelse, compute=False)
        a, b = (decayed(t) for t in operands)
        shape = shapes.meet_shapes(context, node.span, condition, a)
    type = ctype(a.type.element, shape)
    a, b = convert.to_type(context, a, type), convert.to_type(context, b, type)
    if masks is None:
        return _selected(context, condition, a, b)
    return _merged(context, a, b, shape, masks, start)


def _merged(context: Context, a: Term, b: Term, shape: shapes.Shape,
            masks: tuple[Mask, Mask | None], start: int) -> Term:
    """Where a predicate holds a, else b; a struct member by member."""
    if a.members:
        return Term(a.type, members=tuple(_merged(context, x, y, shape, masks, start)
                                          for x, y in zip(a.members, b.members, strict=True)))
    mask, other = masks
    holds, fails = (context.value(shapes.broadcast(context, t, shape)) for t in mask.own)
    values = context.value(a), context.value(b)
    psi = context.emit("psi", holds, values[0], fails, values[1], type=a.type)
    assert context.region is not None
    context.region.join(psi, start, {1: mask} if other is None else {1: mask, 3: other})
    return Term(a.type, psi.result)


# --- logical ---


def logical(context: Context, node: syntax.Logical) -> Term:
    """`left && right`, `left || right`."""
    what = f"an operand of '{node.operator}'"

    def truth(side: syntax.Expression) -> Term:
        return convert.truth(context, context.operand(side), side.span, what)

    left = truth(node.left)
    conjunction = node.operator == "&&"
    if left.poisoned:
        if context.constant_for is None:
            context.lower(node.right)
        return POISON
    if left.shape:
        return _tile_logical(context, node, left, conjunction, what)
    if left.constant is not None:
        if bool(left.constant) == conjunction:
            return truth(node.right)
        with context.unreachable():
            right = truth(node.right)
        if right.poisoned:
            return POISON
        return Term(ctype(BOOL, right.shape), constant=not conjunction)
    side = _Side(context, node.right, "right")
    context.builder.block = side.end
    right = convert.truth(context, context.checked(side.term, node.right), node.right.span, what)
    context.builder.block = side.origin
    context.at(node.span)
    type = ctype(BOOL, right.shape) if not right.poisoned else BOOL_TYPE
    if side.free and not right.poisoned:
        _join(context, [side])
        return context.op("and" if conjunction else "or", type,
                          shapes.broadcast(context, left, right.shape), right)
    result = Variable("", node.span, type)
    join = Block("join")
    context.write(result, Term(type, constant=not conjunction))
    origin = context.block
    if context.live:
        targets = [side.begin, join] if conjunction else [join, side.begin]
        context.emit("cond_br", context.value(left)).blocks = targets
        context.ssa.add_edge(origin, join)
    context.builder.block = side.end
    if not right.poisoned:
        context.write(result, right)
    context.branch(join)
    context.start(join)
    return POISON if right.poisoned else Term(type, context.ssa.read(result, context.block))


def _tile_logical(context: Context, node: syntax.Logical, left: Term, conjunction: bool,
                  what: str) -> Term:
    if not if_conversion.needs_guard(context, node.right):
        return _both_sides(context, node, left, conjunction, what, None)
    with if_conversion.region(context):
        context.at(node.left.span)
        decides = left if conjunction else invert(context, left)
        mask = if_conversion.enter(context, decides, node.left.span)
        return _both_sides(context, node, left, conjunction, what, mask)


def _both_sides(context: Context, node: syntax.Logical, left: Term, conjunction: bool, what: str,
                mask: Mask | None) -> Term:
    with if_conversion.under(context, mask or context.mask):
        right = convert.truth(context, context.operand(node.right), node.right.span, what)
    if right.poisoned:
        return POISON
    start = len(context.region.ops) if context.region is not None else 0
    with context.about(node.left, node.right):
        shape = shapes.meet_shapes(context, node.operator_span, left, right)
    context.at(node.span)
    found = context.op("and" if conjunction else "or", ctype(BOOL, shape),
                       shapes.broadcast(context, left, shape),
                       shapes.broadcast(context, right, shape))
    if mask is not None and context.region is not None and found.value is not None \
            and found.value.op is not None:
        context.region.join(found.value.op, start, {1: mask})
    return found
