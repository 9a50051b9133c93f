"""jam_loops: a short loop around the loop of a product goes into that loop ("unroll and jam").

Before:  for s = 0, 1, 2:                        After:  for c = 0, TC, ...:
           for c = 0, TC, ...:                             a += dot(w(c, 0), x(c, 0))
             a += dot(w(c, s), x(c, s))                    a += dot(w(c, 1), x(c, 1))
                                                           a += dot(w(c, 2), x(c, 2))

The taps of a filter lie side by side in memory, or read what lies side by side.  In a loop of their
own each of them goes through all channels before the next one comes, and the sectors of memory that
both read come twice; one behind the other, they take their elements of the same accesses
(`analysis.windows`).  So it is done where a load of one tap lies less than an access from that of
the next (`near`), and where the tiles of all of them are not too many.

Both loops must be as `coalesce_loops` wants them, the outer one runs a number of times that is
known, and the inner one counts by itself and does nothing but add products to sums, which has no
order.  Before strength_reduce: addresses follow from counters."""

from tritonc.analysis.counters import iterations
from tritonc.analysis.taps import MOST_TAPS, few, loaded, near, products
from tritonc.analysis.values import needed
from tritonc.ir.build import until_unchanged
from tritonc.ir.cfg import Cfg, incoming, redirect
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.opt.loops.coalesce_loops import Pair


def jam_loops(kernel: Kernel, context: Context) -> bool:
    """Jam loops from the inside, until none is left."""
    return until_unchanged(lambda: _one_more(kernel, context))


def _one_more(kernel: Kernel, context: Context) -> bool:
    cfg = Cfg(kernel)
    for inner in cfg.innermost_loops:
        outer = inner.parent
        if outer is None or len(inner.blocks) != 2:
            continue
        times, ops = iterations(outer, MOST_TAPS), list(inner.ops())
        if times is None or times < 2 or not few(
                times * products(ops), times * loaded(ops)) or not near(outer, ops):
            continue
        pair = Pair(kernel, cfg, outer, inner)
        if pair.possible() and _sums(kernel, pair) and _counts_alone(pair):
            span = inner.header.terminator.span
            _jam(kernel, pair, times)
            context.remark("jam_loops", f"unroll and jam: {times} iterations of the outer loop run "
                           "together, since they load adjacent elements", span)
            return True
    return False


def _sums(kernel: Kernel, pair: Pair) -> bool:
    """Whether the tiles that the loops carry are sums of products, which nothing else reads."""
    readers, inside = uses(kernel), set(pair.inner.ops())
    for phi in pair.joined:
        value = pair.inner.next(phi)
        while value is not phi.result:
            made = value.op
            if made is None or made.name != "dot" or made not in inside \
                    or len([op for op in readers[value] if op in inside]) != 1:
                return False
            value = made.operands[2]
        if len([op for op in readers[phi.result] if op in inside]) != 1:
            return False
    return bool(pair.joined)


def _counts_alone(pair: Pair) -> bool:
    """Whether how the inner loop goes on is the same in all iterations of the outer one."""
    outer, inner = pair.outer, pair.inner
    ops, own = list(inner.ops()), {phi for phi in inner.header.phis() if phi not in pair.joined}
    goes_on = needed(ops, [inner.header.terminator.operands[0], *map(inner.next, own)])
    around = {op for op in outer.ops() if op not in ops}
    return not any(op.name == "load" or (op.name == "phi" and op not in own) or any(
        v.op in around for v in (op.operands if op.name != "phi" else [])) for op in goes_on) \
        and all(incoming(phi, pair.before).op not in around for phi in own)


def _jam(kernel: Kernel, pair: Pair, times: int) -> None:
    outer, inner = pair.outer, pair.inner
    assert outer.preheader is not None and inner.latch is not None and outer.latch is not None
    before, body = outer.preheader, inner.latch
    state: dict[Value, Value] = {phi.result: outer.first(phi) for phi in outer.header.phis()}
    sums = {phi.result: phi.result for phi in pair.joined}
    first: dict[Value, Value] = {}
    made: list[Op] = []
    for number in range(times):
        around = dict(state)
        before.ops[-1:-1] = copy_ops([*pair.own(outer.header), *pair.own(pair.before)], around)
        mapping = {**around, **sums}
        made += copy_ops([*pair.own(inner.header), *pair.own(body)], mapping)
        sums = {phi: mapping[inner.next(phi.op)] for phi in sums if phi.op is not None}
        first = first or mapping
        if number < times - 1:
            before.ops[-1:-1] = copy_ops(pair.own(outer.latch), around)
            state = {phi.result: around.get(v := outer.next(phi), v)
                     for phi in outer.header.phis() if phi not in pair.joined.values()}
    body.ops[len(body.phis()):-1] = made
    for phi in inner.header.phis():
        start = pair.joined.get(phi)
        place = phi.blocks.index(pair.before)
        phi.operands[place] = incoming(phi, pair.before) if start is None else outer.first(start)
        phi.blocks[place] = before
        value = inner.next(phi)
        phi.operands[phi.blocks.index(body)] = sums.get(phi.result, first.get(value, value))
    leave = outer.exits[0][1]
    redirect(before, outer.header, inner.header)
    redirect(inner.header, pair.after, leave)
    for phi in leave.phis():
        phi.blocks = [inner.header if b is outer.header else b for b in phi.blocks]
    gone = {outer.header, pair.before, pair.after}
    kernel.blocks = [block for block in kernel.blocks if block not in gone]
    kernel.replace({b.result: a.result for a, b in pair.joined.items()})
