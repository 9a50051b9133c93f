"""overlap_sums: what is computed from one product overlaps the next product.

    for k: start p; wait p; acc += f(p)      for k by 3: start p0; start p1
                                        ->               wait p0; acc += f(p0); start p2
                                                         wait p1; acc += f(p1)
                                                         wait p2; acc += f(p2)
                                             for k:      the rest, as before

Sums of products that are scaled are computed by the threads, while the tensor cores rest if no
other warpgroup has work for them (without scales, fp8 by rows took 1.01 of its time so, and counts
of pairs, which reduce each product, 1.12).  With
two results in registers in turn one product is always in flight, but at the end of three
iterations: a result in flight over the back edge of a loop makes ptxas wait for each
product (C7514).

Done for loops of a header and one block, counted upwards, around one product from zero whose
operands a warp of its own brings (`specialize_warps`), where two results fit beside the sums.
Last of all: to other passes a loop is one iteration."""

from tritonc.analysis.counters import step_of
from tritonc.analysis.values import is_zero
from tritonc.backend.target.register_limits import MOST_REGISTERS
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, add_incoming, incoming, make_phi, redirect
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import I64, Buffer, Tile
from tritonc.records import dataclass

TRIP = 3  # iterations: of four, ptxas 13.0 may hold three results at once, and spills
_LATE = frozenset({"wgmma_wait", "arrive_empty", "broadcast", "reshape"})
_EARLY = frozenset({"load", "wait_full", "wait_empty", "expect_full", "tma_load", "wgmma"})


@dataclass
class _Part:
    """A loop and what of its block waits for the product."""

    loop: Loop
    preheader: Block
    body: Block
    wait: Op
    late: set[Op]
    step: int


def overlap_sums(kernel: Kernel, context: Context) -> bool:
    """Unroll such loops, each product one iteration ahead of what is made of it."""
    parts = [part for loop in Cfg(kernel).loops if (part := _part(loop)) is not None]
    for part in parts:
        _unroll(kernel, part)
        context.remark("overlap_sums", "the accumulation of each product overlaps the next product",
                       part.wait.span)
    return bool(parts)


def _part(loop: Loop) -> _Part | None:
    header, preheader, body = loop.header, loop.preheader, loop.body
    if preheader is None or body is None or not all(op.pure for op in header.ops[:-1]):
        return None
    compare = header.terminator.operands[0].op
    starts = [op for op in body.ops if op.name == "wgmma"]
    waits = [op for op in body.ops if op.name == "wgmma_wait"]
    if body.phis() or len(starts) != 1 or len(waits) != 1:
        return None
    (start,), (wait,) = starts, waits
    t = start.result.type
    if wait.operands != [start.result] or wait.attributes["pending"] or not is_zero(
            start.operands[2]) or not isinstance(start.operands[0].type, Buffer) \
            or not isinstance(t, Tile) or t.layout is None \
            or 3 * t.layout.registers > MOST_REGISTERS:
        return None
    if compare is None or compare.name != "icmp" or compare.attributes["predicate"] != "slt" \
            or compare.operands[0].op not in header.phis() or compare not in header.ops:
        return None
    counter = compare.operands[0].op
    step, limit = step_of(loop, counter) if counter is not None else None, compare.operands[1].op
    if not step or step < 0 or limit in header.ops or limit in body.ops:
        return None
    late = _made_of(body, wait)
    early = [op for op in body.ops[:-1] if op not in late]
    if not any(op.name == "arrive_empty" for op in late) or not all(
            op.pure or op.name in _EARLY for op in early) or not all(
            op.info.elementwise or op.name in _LATE for op in late) or all(
            op.name != "fmul" for op in late):
        return None
    return _Part(loop, preheader, body, wait, late, step)


def _made_of(body: Block, wait: Op) -> set[Op]:
    """The wait, what depends on it, the release of what the product has read, and what is computed
    for them alone."""
    late = {wait}
    for op in body.ops[body.ops.index(wait) :]:
        if op.name == "arrive_empty" or any(v.op in late for v in op.inputs()):
            late.add(op)
    for op in reversed(body.ops[:-1]):
        readers = [one for one in body.ops if op in (v.op for v in one.inputs())]
        if readers and late.issuperset(readers) and op.pure:
            late.add(op)
    return late


def _unroll(kernel: Kernel, part: _Part) -> None:
    header, body = part.loop.header, part.body
    phis, compare = header.phis(), header.terminator.operands[0].op
    assert compare is not None
    trips, trip = Block(f"{header.name}.trips"), Block(f"{body.name}.trip")
    at = kernel.blocks.index(header)
    kernel.blocks[at:at] = [trips, trip]
    redirect(part.preheader, header, trips)
    now: dict[Value, Value] = {}
    for phi in phis:
        new = make_phi([incoming(phi, part.preheader)], [part.preheader], phi.result.name)
        trips.ops.append(new)
        now[phi.result] = new.result
        edge = phi.blocks.index(part.preheader)
        phi.operands[edge], phi.blocks[edge] = new.result, trips
    b = Builder(trips, span=compare.span)
    last = b.value("add", b.value("sext", now[compare.operands[0]], type=I64),
                   b.constant((TRIP - 1) * part.step, I64))
    more = b.value("icmp", last, b.value("sext", compare.operands[1], type=I64), predicate="slt")
    b.emit("cond_br", more, blocks=[trip, header])
    pending: list[Op] = []
    for number in range(TRIP):
        mapping = dict(now)
        trip.ops += copy_ops(header.ops[len(phis) : -1], mapping)
        waiting: list[Op] = []
        for op in body.ops[:-1]:
            (new,) = copy_ops([op], mapping)
            (waiting if op in part.late else trip.ops).append(new)
        wait = next(op for op in waiting if op.name == "wgmma_wait")
        wait.attributes["pending"] = 0 if number == TRIP - 1 else 1
        trip.ops += pending
        pending = waiting
        now = {phi.result: mapping.get(value, value) for phi in phis
               for value in [incoming(phi, body)]}
    trip.ops += pending
    Builder(trip).emit("br", blocks=[trips])
    for new, phi in zip(trips.phis(), phis, strict=True):
        add_incoming(new, now[phi.result], trip)
