"""a main loop and the masked tail after it become one loop.

    for (; k + 64 <= K; k += 64)             for (; k < K; k += 64)
      C += dot(*pa, *pb);                ->    C += dot(k + r < K ? *pa : 0, ...);
    for (; k < K; k += 64)
      C += dot(k + r < K ? *pa : 0, ...);

Where the test of the first loop says that the masks of the second hold for the whole tile, one
iteration of the second does what one of the first does.  So the second may do them all.  The tail
may be a single iteration under an `if`, too, if none would follow it.  And where each iteration
asks whether it needs the masks, all have them:

    if (k + 64 <= K) A = *pa;            ->   A = k + r < K ? *pa : 0;
    else A = k + r < K ? *pa : 0;

The tail's counter may begin where the first loop's ends, and what the masks compare may be known
from the masks of all stores: of a program that stores nothing, nothing is seen.  So causal
attention with a loop before the diagonal is that with one loop.

One body instead of two: one pipeline that does not end and start again, no second set of buffers,
half of the code.  Its masks cost products little: copies zero what lies outside, and `specialize`
makes a body for sizes that allow wide accesses.  Loops without a product stay as they are.

The indices of masks are taken not to wrap, as everywhere (docs/architecture.md).  Needs loops of
one form (`unify_exits`), and pointers that still move as the source moved them."""

from tritonc.analysis.affine import Affinity
from tritonc.analysis.counters import step_of
from tritonc.analysis.linear import Linear, number, symbol
from tritonc.analysis.signs import Signs
from tritonc.analysis.values import slice_of, speculatable
from tritonc.ir.build import until_unchanged
from tritonc.ir.cfg import Cfg, Loop, incoming, redirect, remove_operands, remove_unreachable
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import I32
from tritonc.opt.loops.masked_same import READS, Known, Same, seen, slacks
from tritonc.opt.loops.split_masks import by_element


def merge_tails(kernel: Kernel, context: Context) -> bool:
    """Do it for each loop with a product that a masked one, or a masked product, follows."""
    return until_unchanged(lambda: _merge_one(kernel, context))


def _merge_one(kernel: Kernel, context: Context) -> bool:
    cfg = Cfg(kernel)
    for loop in cfg.loops:
        if any(op.name == "dot" for op in loop.ops()) and any(
                _merge_sides(kernel, cfg, block, context) for block in loop.blocks):
            return True
        if loop.body is None or not any(op.name == "dot" for op in loop.ops()) \
                or not _reads_only(loop.blocks):
            continue
        after, between = _behind(cfg, loop)
        tail = next((other for other in cfg.loops if other.header is after), None)
        if tail is not None and _merge_loops(kernel, cfg, loop, tail, between, context):
            return True
        if tail is None and _merge_branch(kernel, cfg, loop, after, context):
            return True
    return False


def _merge_sides(kernel: Kernel, cfg: Cfg, choice: Block, context: Context) -> bool:
    """Take one of two sides of a branch always, if it does what the other one does."""
    end = choice.terminator
    if end.name != "cond_br" or end.blocks[0] is end.blocks[1]:
        return False
    sides = end.blocks
    if any(cfg.predecessors[side] != [choice] or side.terminator.name != "br"
           for side in sides) or sides[0].successors != sides[1].successors \
            or not _reads_only(sides):
        return False
    (join,) = sides[0].successors
    for fails, (plain, masked) in enumerate((sides, sides[::-1])):
        same = Same({}, Known(slacks(end.operands[0], {}, bool(fails))))
        if all(same.values(incoming(phi, plain), incoming(phi, masked)) for phi in join.phis()):
            for phi in join.phis():
                remove_operands(phi, (plain,))
            choice.ops[-1] = Op("br", [], blocks=[masked], span=end.span)
            kernel.blocks.remove(plain)
            context.remark("merge_tails", "every iteration of this loop is masked, although only "
                                          "the last one needs it",
                           end.span)
            return True
    return False


def _reads_only(blocks: list[Block]) -> bool:
    return all(op.effects <= READS and not op.attributes.get("volatile")
               for block in blocks for op in block.ops if op is not block.terminator)


def _behind(cfg: Cfg, loop: Loop) -> tuple[Block, list[Block]]:
    """Where a loop leads to, past blocks that only compute; and these."""
    block = loop.exits[0][1]
    between: list[Block] = []
    while block.terminator.name == "br" and len(cfg.predecessors[block]) == 1 and all(
            speculatable(op) or op.name == "phi"
            for op in block.ops[:-1]):
        between.append(block)
        block = block.successors[0]
    return block, between


def _merge_loops(kernel: Kernel, cfg: Cfg, loop: Loop, tail: Loop, between: list[Block],
                 context: Context) -> bool:
    """Let `tail` begin where `loop` does, if it does the same."""
    assert loop.preheader is not None and loop.latch is not None
    if tail.body is None or tail.preheader not in between or any(
            block.phis() for block in between) or not _reads_only(tail.blocks):
        return False
    assert tail.preheader is not None and tail.latch is not None
    if by_element(tail) and not by_element(loop):
        context.remark("merge_tails", "not merged with the loop that follows: its masks are not "
                                      "bounds on each axis, so threads load its operands",
                       loop.header.terminator.span)
        return False
    pairs: dict[Value, Value] = {}
    slack = 0
    for phi in tail.header.phis():
        start = incoming(phi, tail.preheader)
        if start.op not in loop.header.phis():
            ended = _reaches(loop, start)
            if ended is None:
                return False  # it counts the tail's own iterations, say
            start, slack = ended
        if start in pairs:
            return False
        pairs[start] = phi.result
    tests = slacks(loop.header.terminator.operands[0], pairs)
    goes_on = slacks(tail.header.terminator.operands[0], {})
    facts = Known([test - number(slack) for test in tests], seen(kernel, cfg))
    if not goes_on or not all(map(facts.follows, goes_on)):
        return False
    same = Same(pairs, facts)
    if not all(same.values(loop.next(_phi(p)), incoming(_phi(q), tail.latch))
               for p, q in pairs.items()):
        return False
    starts = set(tail.header.phis())
    outside = {result for op in loop.ops() for result in op.results}
    for block in cfg.order:
        if block not in loop and any(v in outside and op not in starts
                                     for op in block.ops for v in op.inputs()):
            return False
    for p, q in pairs.items():
        _phi(q).operands[_phi(q).blocks.index(tail.preheader)] = p
    redirect(loop.preheader, loop.header, loop.exits[0][1])
    kernel.replace({p: loop.first(_phi(p)) for p in pairs})
    remove_unreachable(kernel)
    context.remark("merge_tails", "merged with the masked loop that follows",
                   loop.header.terminator.span)
    return True


def _reaches(loop: Loop, value: Value) -> tuple[Value, int] | None:
    """The counter of the loop that ends at `value`, just where the test fails first; and by how
    much more than one the test holds before."""
    end = Affinity().of(value)
    for phi in loop.header.phis() if end is not None and value.type == I32 else ():
        form = Affinity().of(loop.first(phi))
        step = step_of(loop, phi)
        if form is None or end is None or not step or step < 0:
            continue
        way = end.offset - form.offset
        if slacks(loop.header.terminator.operands[0], {}) == [
                end.offset - symbol(phi.result) - number(1)] and Signs().positive(way) and all(
                    n % step == 0 for _, n in way.terms):
            return phi.result, step - 1
    return None


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
            or not _reads_only([block]) or block.phis() \
            or not all(speculatable(op) for op in choice.ops[:-1]):
        return False
    pairs = {phi.result: phi.result for phi in loop.header.phis()}
    test, goes_on = slacks(loop.header.terminator.operands[0], {}), slacks(end.operands[0], {})
    facts = Known(test)
    if len(test) != 1 or len(goes_on) != 1 or not facts.follows(goes_on[0]):
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
    same = Same(pairs, facts)
    if not all(same.values(loop.next(_phi(p)), then) for p, then in after.items()):
        return False
    last = _stepped(goes_on[0], loop)
    if last is None or not Known([last]).follows(test[0]):
        return False  # where `test` is below zero, so shall be the next `goes_on`
    readers = uses(kernel)
    inside = {*loop.header.ops, *loop.latch.ops, *block.ops, *choice.ops, *join.phis()}
    if any(user not in inside for phi in loop.header.phis() if phi.result not in after
           for user in readers.get(phi.result, ())):
        return False
    body = loop.latch
    kept = slice_of([incoming(_phi(p), body) for p in pairs if p not in after], set(body.ops))
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
    context.remark("merge_tails", "merged with the masked iteration that follows",
                   header.terminator.span)
    return True


def _stepped(slack: Linear, loop: Loop) -> Linear | None:
    """A polynomial of a loop's phis, one iteration later."""
    affinity, mapping = Affinity(), dict[Value, Linear]()
    for v in slack.values():
        form = affinity.of(loop.next(v.op)
                           if v.op is not None and v.op in loop.header.phis() else v)
        if form is None:
            return None
        mapping[v] = form.offset
    return slack.substituted(mapping)
