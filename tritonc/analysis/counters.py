"""Loops that count: a phi that moves by a number, and the test at the header that ends the loop."""

from tritonc.analysis.values import defined_by, int_of, origin
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop, add_incoming, make_phi
from tritonc.ir.core import Op, Value
from tritonc.ir.numeric.numbers import fit, holds
from tritonc.ir.ops import OPPOSITE, SWAPPED
from tritonc.ir.types import scalar
from tritonc.records import NamedTuple


class Counter(NamedTuple):
    """The loop runs while `phi predicate limit` holds, and `phi` moves by `step`."""

    phi: Op
    step: int
    predicate: str
    limit: Value


def step_of(loop: Loop, phi: Op) -> int | None:
    """By how much a phi of the loop's header moves in each iteration; None if not by a number."""
    after = loop.next(phi).op if loop.latch is not None else None
    if after is None or after.name not in ("add", "sub") or after.operands[0] is not phi.result:
        return None
    step = int_of(origin(after.operands[1]))
    return step if step is None or after.name == "add" else -step


def counter_of(loop: Loop) -> Counter | None:
    """What the test at the header counts, of a loop with a preheader and one latch."""
    end, phis = loop.header.terminator, loop.header.phis()
    test = defined_by(end.operands[0], "icmp") if end.name == "cond_br" else None
    ways = [block in loop for block in end.blocks]
    if test is None or sum(ways) != 1 or loop.preheader is None or loop.latch is None:
        return None
    (phi, limit), predicate = test.operands, test.attributes["predicate"]
    if phi.op not in phis:
        phi, limit, predicate = limit, phi, SWAPPED[predicate]
    step = step_of(loop, phi.op) if phi.op in phis and limit.op not in phis else None
    if phi.op is None or step is None:
        return None
    return Counter(phi.op, step, predicate if ways[0] else OPPOSITE[predicate], limit)


def iterations(loop: Loop, most: int) -> int | None:
    """How often the body runs, if that is a number up to `most`."""
    counter = counter_of(loop)
    start = int_of(loop.first(counter.phi)) if counter is not None else None
    limit = int_of(counter.limit) if counter is not None else None
    if counter is None or start is None or limit is None:
        return None
    value, t = start, scalar(counter.limit.type)
    for count in range(most + 1):
        if not holds(counter.predicate, value, limit, t.bits):
            return count
        value = int(fit(t, value + counter.step))
    return None


def add_counter(cfg: Cfg, loop: Loop, first: Value, step: int, name: str) -> Value:
    """A counter that a loop with a preheader and one latch gets: `first`, then `step` more in each
    iteration.  `cfg` stays right."""
    assert loop.preheader is not None and loop.latch is not None
    phi = make_phi([first], [loop.preheader], name)
    by = make_op("constant", [], first.type, value=abs(step))
    following = make_op("add" if step > 0 else "sub", [phi.result, by.result])
    add_incoming(phi, following.result, loop.latch)
    loop.header.ops.insert(0, phi)
    loop.preheader.ops.insert(-1, by)
    loop.latch.ops.insert(-1, following)
    cfg.block_of.update({phi: loop.header, by: loop.preheader, following: loop.latch})
    return phi.result
