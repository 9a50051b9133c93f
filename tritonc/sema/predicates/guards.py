"""Guards of what is computed under a tile predicate: exactly the elements that are needed.

    @((rm < M)[:, newaxis] && rn < N) *pc = acc * (*(s + rm))[:, newaxis];

The store takes effect where the predicate holds; s[i] is loaded where some column of row i is
stored.  So a load, a division or an atomic operation of a value gets its guard when the whole
statement is known: `settle` walks from what has effects backwards, and takes the predicate back
through each operation, as `needs.py` says.  Between where an operation stands and its use there may
be variables, functions, loops and predicates that are entered later.  Of the predicates those count
that were in force where the operation stands."""

from collections.abc import Iterator

from tritonc.ir.core import Block, Op, Value
from tritonc.ir.ops import OPS
from tritonc.ir.types import is_float
from tritonc.ir.types import shape as shape_of
from tritonc.sema.context import Context
from tritonc.sema.predicates import conditions, needs
from tritonc.sema.predicates.in_force import Mask, Pending, Region
from tritonc.sema.predicates.needs import Need
from tritonc.sema.types.term import Term
from tritonc.source import Note

_MOST = 64  # different conditions under which one tile is needed
Uses = Iterator[tuple[Value, Need]]


def settle(context: Context) -> None:
    """The outermost predicate has ended: give what was made under it its guards."""
    region = context.region
    context.region = None
    if region is None or not region.pending:
        return
    walk = _Walk(context, region)
    walk.needs()
    deciding = walk.deciding()
    made: dict[tuple[Block, Need], Term] = {}
    before: dict[Op, list[Op]] = {}
    behind: dict[Op, list[Op]] = {}
    for pending in region.pending:
        op = pending.op
        before[op] = _guard(context, pending, walk.wanted(pending), made)
        if op.guard is not None and op.result in deciding:
            behind[op] = _default(op, op.guard)
    for block in {pending.block: None for pending in region.pending}:
        block.ops = [each for op in block.ops
                     for each in (*before.get(op, ()), op, *behind.get(op, ()))]


def _default(op: Op, guard: Value) -> list[Op]:
    """Make a result 0 where the guard does not hold; gives what has to stand behind."""
    result = op.result
    zero = 0.0 if is_float(result.type) else 0
    if op.name == "load":
        op.attributes["other"] = zero
        return []
    op.results = [Value(result.type, "", op)]
    default = Op("constant", [], {"value": zero}, (result.type,), span=op.span)
    choice = Op("select", [guard, op.result, default.result], span=op.span)
    choice.results, result.op = [result], choice
    return [default, choice]


class _Walk:
    """What is needed of each value of a region."""

    def __init__(self, context: Context, region: Region) -> None:
        self.context = context
        self.region = region
        self.under = dict(region.ops)
        self.found: dict[Value, dict[Need, None]] = {}
        self.again = False

    def needs(self) -> None:
        """Backwards over the operations; once more if a loop carries a condition back, or if the
        guards read a predicate inside another: where that holds, its condition must be known."""
        read: dict[Mask, None] = {}
        while True:
            self.again = False
            for op, mask in reversed(self.region.ops):
                for value, need in self.uses(op, mask):
                    self.add(value, need, False)
            for pending in self.region.pending:
                for need in self.wanted(pending):
                    for leaf in needs.leaves(need):
                        self.condition(leaf, read)
            if not self.again:
                return

    def wanted(self, pending: Pending) -> list[Need]:
        """What is needed of a result."""
        result = pending.op.result
        return [*self.found.get(result, ())] or [_of_unread(pending, shape_of(result.type))]

    def condition(self, leaf: Need, read: dict[Mask, None]) -> None:
        inner = leaf.mask
        if leaf.kind != "full" or inner is None or inner in read:
            return
        read[inner] = None
        outer, pair = inner.outer, inner.full
        if outer is not None and outer.full is not None and pair is not None:
            assert pair[0].value is not None
            self.add(pair[0].value, needs.expand(needs.full(outer), pair[0].shape), True)

    def add(self, value: Value, need: Need, through_phi: bool) -> None:
        value = self.context.ssa.resolve(value)
        op = value.op
        if op is None or (op not in self.under and op.name != "phi"):
            return
        if op.name != "phi":
            need = needs.within(need, self.under[op], self.region.joins.get(op, ()))
        known = self.found.setdefault(value, {})
        if len(known) > _MOST or any(needs.covers(other, need) for other in known):
            return
        for other in [other for other in known if needs.covers(need, other)]:
            del known[other]
        known[need] = None
        if op.name == "phi":
            for operand in op.operands:
                self.add(operand, need, True)
        elif through_phi:
            self.again = True

    def deciding(self) -> set[Value]:
        """The values that branches under a predicate depend on.

        The predicate may hold nowhere; what was not loaded is 0 then, so that control goes
        somewhere."""
        found: set[Value] = set()
        pending = [op.operands[0] for op, mask in self.region.ops
                   if op.name == "cond_br" and mask is not None]
        while pending:
            value = self.context.ssa.resolve(pending.pop())
            op = value.op
            if value not in found and op is not None and (op in self.under or op.name == "phi"):
                found.add(value)
                pending += op.operands
        return found

    def uses(self, op: Op, mask: Mask | None) -> Uses:
        """What an operation needs of its operands."""
        row = OPS[op.name]
        known = [n for r in op.results for n in self.found.get(r, ())]
        if mask is None and op in self.region.arms:  # the whole `?:`, which may be used anywhere
            known = [needs.everything(shape_of(op.results[0].type))]
        if not row.pure and (not op.results or not known):
            for value in op.inputs():
                shape = shape_of(value.type)
                yield value, (needs.everything(shape) if mask is None else
                              needs.fit(needs.full(mask), shape))
            return
        if op in self.region.lines:
            value, axis = self.region.lines[op]
            for need in known:
                yield value, needs.expand(needs.some(need, (axis,)), shape_of(value.type))
            return
        for at, value in enumerate(op.inputs()):
            to = shape_of(value.type)
            merge = self.region.merges.get(op, {}).get(at)
            arm = self.region.arms.get(op, {}).get(at)
            if merge is not None and merge[1] is None:
                yield value, needs.fit(needs.full(merge[0]), to)
                continue
            for need in known:
                need = _back(op, need, to, at)
                if arm is not None:
                    need = needs.both(needs.expand(needs.own(arm), to), need)
                elif merge is not None:
                    need = _merged(*merge, need)
                yield value, need


def _merged(mask: Mask, base: Mask | None, need: Need) -> Need:
    """A value of which the predicates between `base` and `mask` select elements."""
    at: Mask | None = mask
    while at is not None and at is not base:
        need = needs.both(needs.expand(needs.own(at), need.shape), need)
        at = at.outer
    return need


def _back(op: Op, need: Need, to: tuple[int, ...], at: int) -> Need:
    """The condition on operand `at`, of shape `to`, that belongs to one on the result."""
    name, attributes = op.name, op.attributes
    if OPS[name].elementwise or name in ("load", "atomic_rmw", "atomic_cas"):
        return need
    if name == "splat":
        return needs.reshape(needs.some(need, tuple(range(len(need.shape)))), ())
    if name == "broadcast":
        return needs.some(need, tuple(d for d, n in enumerate(to) if n == 1))
    if name == "reshape":
        return needs.reshape(need, to)
    if name == "trans":
        order = attributes["permutation"]
        return needs.transpose(need, tuple(order.index(d) for d in range(len(order))))
    if name in ("reduce", "reduce_with"):
        axes = attributes["axes"] if name == "reduce" else [attributes["axis"]]
        kept = tuple(1 if d in axes else n for d, n in enumerate(to))
        return needs.expand(needs.reshape(need, kept), to)
    if name in ("scan", "scan_with"):
        if attributes.get("reverse"):
            return needs.expand(needs.some(need, (attributes["axis"],)), to)
        return needs.onward(need, attributes["axis"])
    if name == "take":
        return needs.expand(needs.some(need, (attributes["axis"],)), to) if at == 0 else need
    if name == "dot" and at < 2:
        rank = len(to)
        return needs.expand(needs.some(need, (rank - 1 - at,)), to)
    return need if need.shape == to else needs.everything(to)


# --- guards ---


def _guard(context: Context, pending: Pending, wanted: list[Need],
           made: dict[tuple[Block, Need], Term]) -> list[Op]:
    """Guard an operation; gives what computes the guard, which has to stand before it."""
    op = pending.op
    if len(wanted) > _MOST:
        context.error("predicate-shape", op.span or pending.mask.span, "the predicate cannot be "
                      "taken back to this operation: its elements are needed under more than "
                      f"{_MOST} conditions",
                      Note("before the predicate, '*?(mask) p' states the elements to load"),
                      Note("the predicate is here", pending.mask.span))
        return []
    block = context.builder.block
    context.builder.block = new = Block("guard")
    context.at(op.span or pending.mask.span)
    holds: Term | None = None
    for need in wanted:
        key = pending.block, need
        if key not in made:
            made[key] = conditions.emit(context, need)
        term = made[key]
        holds = term if holds is None else context.op("or", term.type, holds, term)
    assert holds is not None
    if pending.explicit is not None:
        holds = context.op("and", holds.type, pending.explicit, holds)
    if holds.constant is not True:
        _apply(context, op, holds)
    context.builder.block = block
    return new.ops


def _of_unread(pending: Pending, shape: tuple[int, ...]) -> Need:
    """What is needed of a result that nobody reads: what the statement selects, if that has a
    shape, else nothing; an atomic operation takes place where each of the predicates wants it."""
    mask: Mask | None = pending.mask
    if pending.mask.full is not None:
        return needs.fit(needs.full(pending.mask), shape)
    if pending.op.name == "load" or OPS[pending.op.name].pure:
        return needs.nothing(shape)
    found = needs.everything(shape)
    while mask is not None:
        found = needs.both(needs.fit(needs.own(mask), shape), found)
        mask = mask.outer
    return found


def _apply(context: Context, op: Op, holds: Term) -> None:
    if op.name not in ("sdiv", "udiv", "srem", "urem") or holds.shape:
        op.guard = context.value(holds)
        return
    # A scalar may decide where control goes, so it has a value where no element wants it, too.
    divisor = op.operands[1]
    one = context.builder.value("constant", type=divisor.type, value=1)
    op.operands[1] = context.emit("select", context.value(holds), divisor, one).result
