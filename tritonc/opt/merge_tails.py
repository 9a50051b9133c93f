"""A masked tail takes over the whole loop before it.

    for (; k + 64 <= K; k += 64)             for (; k < K; k += 64)
      C += dot(*pa, *pb);                ->    C += dot(k + r < K ? *pa : 0, ...);
    for (; k < K; k += 64)
      C += dot(k + r < K ? *pa : 0, ...);

Where the test of the first loop says that the masks of the second hold for the whole tile, one
iteration of the second does what one of the first does.  So the second may do them all.  The tail
may be a single iteration under an `if`, too, if none would follow it.

One body instead of two: one pipeline that does not end and start again, no second set of buffers,
half of the code.  Its masks cost products little: copies zero what lies outside, and `specialize`
makes a body for sizes that allow wide accesses.  Loops without a product stay as they are.

The indices of masks are taken not to wrap, as everywhere (docs/architecture.md).  Needs loops of
one form (`unify_exits`), and pointers that still move as the source moved them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tritonc.analysis.affine import Affinity
from tritonc.analysis.linear import Linear, number
from tritonc.analysis.values import attributes_key, defined_by, speculatable
from tritonc.ir.cfg import Cfg, Loop, incoming, redirect, remove_unreachable
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import READ
from tritonc.ir.types import shape

_READS = frozenset({READ})
_MOVES = ("splat", "broadcast", "reshape")


def merge_tails(kernel: Kernel, context: Context) -> bool:
    """Do it for each loop with a product that a masked one, or a masked product, follows."""
    changed = False
    while _merge_one(kernel, context):
        changed = True
    return changed


def _merge_one(kernel: Kernel, context: Context) -> bool:
    cfg = Cfg(kernel)
    for loop in cfg.loops:
        if not _simple(loop) or not any(op.name == "dot" for b in loop.blocks for op in b.ops) \
                or not _reads_only(loop.blocks, context):
            continue
        after, between = _behind(cfg, loop, context)
        tail = next((other for other in cfg.loops if other.header is after), None)
        if tail is not None and _merge_loops(kernel, cfg, loop, tail, between, context):
            return True
        if tail is None and _merge_branch(kernel, cfg, loop, after, context):
            return True
    return False


def _simple(loop: Loop) -> bool:
    """A header with the only test, and one block."""
    return (loop.preheader is not None and loop.latch is not None and len(loop.blocks) == 2
            and len(loop.exits) == 1 and loop.exits[0][0] is loop.header
            and loop.header.terminator.blocks[0] in loop)


def _reads_only(blocks: list[Block], context: Context) -> bool:
    return all(context.table[op.name].effects <= _READS and not op.attributes.get("volatile")
               for block in blocks for op in block.ops if op is not block.terminator)


def _behind(cfg: Cfg, loop: Loop, context: Context) -> tuple[Block, list[Block]]:
    """Where a loop leads to, past blocks that only compute; and these."""
    block = loop.exits[0][1]
    between: list[Block] = []
    while block.terminator.name == "br" and len(cfg.predecessors[block]) == 1 and all(
            speculatable(op, context.table[op.name]) or op.name == "phi"
            for op in block.ops[:-1]):
        between.append(block)
        block = block.successors[0]
    return block, between


def _merge_loops(kernel: Kernel, cfg: Cfg, loop: Loop, tail: Loop, between: list[Block],
                 context: Context) -> bool:
    """Let `tail` begin where `loop` does, if it does the same."""
    assert loop.preheader is not None and loop.latch is not None
    if not _simple(tail) or tail.preheader not in between or any(
            block.phis() for block in between) or not _reads_only(tail.blocks, context):
        return False
    assert tail.preheader is not None and tail.latch is not None
    pairs: dict[Value, Value] = {}
    for phi in tail.header.phis():
        start = incoming(phi, tail.preheader)
        if start.op in loop.header.phis():
            if start in pairs:
                return False
            pairs[start] = phi.result
        elif start.op is not None and cfg.block_of[start.op] in loop:
            return False
    test = _slack(loop.header.terminator.operands[0], pairs)
    goes_on = _slack(tail.header.terminator.operands[0], {})
    if test is None or goes_on is None or not _at_least(goes_on - test, 0):
        return False
    same = _Same(context, pairs, test)
    if not all(same.values(incoming(_phi(p), loop.latch), incoming(_phi(q), tail.latch))
               for p, q in pairs.items()):
        return False
    starts = set(tail.header.phis())
    outside = {result for block in loop.blocks for op in block.ops for result in op.results}
    for block in cfg.order:
        if block not in loop and any(v in outside and op not in starts
                                     for op in block.ops for v in op.inputs()):
            return False
    redirect(loop.preheader, loop.header, loop.exits[0][1])
    kernel.replace({p: incoming(_phi(p), loop.preheader) for p in pairs})
    remove_unreachable(kernel)
    context.remark("merge_tails", "the masked loop behind this one does its iterations, too",
                   loop.header.terminator.span)
    return True


def _phi(value: Value) -> Op:
    assert value.op is not None
    return value.op


def _merge_branch(kernel: Kernel, cfg: Cfg, loop: Loop, choice: Block, context: Context) -> bool:
    """Put the block under an `if` behind the loop in the place of its body."""
    assert loop.latch is not None
    end = choice.terminator
    if end.name != "cond_br" or end.blocks[0] is end.blocks[1] \
            or cfg.predecessors[choice] != [loop.header] or choice.phis():
        return False
    block, join = end.blocks
    if cfg.predecessors[block] != [choice] or block.successors != [join] \
            or not _reads_only([block], context) or block.phis() \
            or not all(speculatable(op, context.table[op.name]) for op in choice.ops[:-1]):
        return False
    pairs = {phi.result: phi.result for phi in loop.header.phis()}
    test, goes_on = _slack(loop.header.terminator.operands[0], {}), _slack(end.operands[0], {})
    if test is None or goes_on is None or not _at_least(goes_on - test, 0):
        return False
    after: dict[Value, Value] = {}  # what the block makes of the loop's phis
    for phi in join.phis():
        if set(phi.blocks) != {choice, block}:
            return False
        before, then = incoming(phi, choice), incoming(phi, block)
        if before in pairs and after.setdefault(before, then) is then:
            continue
        if before is not then or (before.op is not None and cfg.block_of[before.op] is block):
            return False
    same = _Same(context, pairs, test)
    if not all(same.values(incoming(_phi(p), loop.latch), then) for p, then in after.items()):
        return False
    last = _stepped(goes_on, loop)
    if last is None or not _at_least(test - last, 0):
        return False  # where `test` is below zero, so shall be the next `goes_on`
    readers = uses(kernel)
    inside = {*loop.header.ops, *loop.latch.ops, *block.ops, *choice.ops, *join.phis()}
    if any(user not in inside for phi in loop.header.phis() if phi.result not in after
           for user in readers.get(phi.result, ())):
        return False
    body = loop.latch
    kept = _needed([incoming(_phi(p), body) for p in pairs if p not in after], body)
    condition = choice.ops[:-1]
    body.ops = [*(op for op in body.ops[:-1] if op in kept), *block.ops[:-1], body.terminator]
    for p, then in after.items():
        phi = _phi(p)
        phi.operands[phi.blocks.index(body)] = then
    header = loop.header
    header.ops[-1:-1] = condition
    header.terminator.operands = [end.operands[0]]
    choice.ops = [Op("br", [], blocks=[join], span=end.span)]
    for phi in join.phis():
        value = incoming(phi, choice)
        phi.operands, phi.blocks = [value], [choice]
    kernel.blocks.remove(block)
    context.remark("merge_tails", "the masked iteration behind this loop became its body",
                   header.terminator.span)
    return True


def _needed(values: list[Value], block: Block) -> set[Op]:
    found: set[Op] = set()
    stack = [v.op for v in values]
    while stack:
        op = stack.pop()
        if op is not None and op in block.ops and op not in found:
            found.add(op)
            stack += [v.op for v in op.inputs()]
    return found


# --- what tests say ---


def _slack(condition: Value, pairs: dict[Value, Value]) -> Linear | None:
    """A polynomial that is not negative just where a comparison holds for all elements.

    `pairs`: symbols to rename.
    """
    test = defined_by(condition, "icmp")
    if test is None or test.attributes["predicate"] not in ("slt", "sle", "sgt", "sge"):
        return None
    affinity = Affinity()
    less, more = (affinity.of(v) for v in test.operands)
    predicate = test.attributes["predicate"]
    if predicate in ("sgt", "sge"):
        less, more = more, less
    if less is None or more is None or less.base is not None or more.base is not None:
        return None
    found = more.offset - less.offset - number(predicate in ("slt", "sgt"))
    for extent, a, b in zip(shape(test.operands[0].type), less.strides, more.strides, strict=True):
        step = (b - a).constant
        if step is None:
            return None
        found = found + number(min(0, step * (extent - 1)))
    return Linear(tuple((tuple(pairs.get(v, v) for v in monomial), n)
                        for monomial, n in found.terms))


def _stepped(slack: Linear, loop: Loop) -> Linear | None:
    """A polynomial of a loop's phis, one iteration later."""
    assert loop.latch is not None
    affinity, found = Affinity(), Linear()
    for monomial, n in slack.terms:
        product = number(n)
        for v in monomial:
            form = affinity.of(incoming(v.op, loop.latch)
                               if v.op is not None and v.op in loop.header.phis() else v)
            if form is None:
                return None
            product = product * form.offset
        found = found + product
    return found


def _at_least(difference: Linear, least: int) -> bool:
    constant = difference.constant
    return constant is not None and constant >= least


# --- what bodies do ---


@dataclass
class _Same:
    """Whether values of two loops are the same where phis of one are their partners, and `test`,
    of the second's phis, is not negative."""

    context: Context
    pairs: dict[Value, Value]
    test: Linear
    known: dict[tuple[Value, Value], bool] = field(default_factory=dict)

    def values(self, ours: Value, theirs: Value) -> bool:
        key = ours, theirs
        if key not in self.known:
            self.known[key] = self._values(ours, self._plain(theirs))
        return self.known[key]

    def _values(self, ours: Value, theirs: Value) -> bool:
        ours = self._plain(ours)
        if ours in self.pairs:
            return self.pairs[ours] is theirs
        a, b = ours.op, theirs.op
        if ours is theirs and (a is None or a.name == "phi"):
            return True
        first, second = _choice(a), _choice(b)
        if first and second:
            return all(map(self.values, first, second))
        if a is None or b is None or a.name != b.name or a.name == "phi" \
                or ours.type != theirs.type or a.results.index(ours) != b.results.index(theirs):
            return False
        left, right = dict(a.attributes), dict(b.attributes)
        guard = b.guard if b.guard is None or not self._full(b.guard) else None
        if a.guard is None or guard is None:
            if a.guard is not guard:
                return False
            left.pop("other", None)
            right.pop("other", None)
        elif not self.values(a.guard, guard):
            return False
        if not self.context.table[a.name].effects <= _READS \
                or attributes_key(left) != attributes_key(right) \
                or len(a.operands) != len(b.operands):
            return False
        return all(self.values(x, y) for x, y in zip(a.operands, b.operands, strict=True))

    def _plain(self, value: Value) -> Value:
        """What is left of a value where full masks are true."""
        op = value.op
        if op is not None and op.name == "and":
            for side, other in (op.operands, op.operands[::-1]):
                if self._full(side):
                    return self._plain(other)
        choice = _choice(op)
        if choice and self._full(choice[0]):
            return self._plain(choice[1])
        if op is not None and op.name == "cmpp" and value is op.results[0]:
            return self._plain(op.operands[0])
        return value

    def _full(self, value: Value) -> bool:
        """Whether a mask holds in all elements."""
        op = value.op
        if op is None:
            return False
        if op.name in _MOVES or (op.name == "cmpp" and value is op.results[0]):
            return self._full(op.operands[0])
        if op.name == "and":
            return all(map(self._full, op.operands))
        slack = _slack(value, {})
        return slack is not None and _at_least(slack - self.test, 0)


def _choice(op: Op | None) -> list[Value]:
    """Of a psi of two opposite predicates: the first, and both values."""
    if op is None or op.name != "psi" or len(op.operands) != 4:
        return []
    a, b = op.operands[0], op.operands[2]
    while a.op is not None and b.op is not None and a.op.name == b.op.name in _MOVES:
        a, b = a.op.operands[0], b.op.operands[0]
    if a.op is None or a.op.name != "cmpp" or [a, b] != a.op.results:
        return []
    return [op.operands[0], op.operands[1], op.operands[3]]
