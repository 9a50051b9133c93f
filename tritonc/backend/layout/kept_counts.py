"""Histograms that a loop adds up are counted in one buffer: `%n1 = add %n, histogram %i`.

Before:  head: %n = phi [%n0], [%n1]             After:  shared_store %s, %n0; barrier
         body: %h = histogram %i                         body: shared_atomic %s, %i, 1
               %n1 = add %n, %h                          exit: %n = shared_load %s
         exit: ... %n

So no iteration fills a buffer with zeros, reads it, or waits for other threads.  The sums may be
added by several histograms, if nothing else in the loop reads them."""

from collections.abc import Callable

from tritonc.analysis.loop_totals import place_behind
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.layouts.shared_layout import row_major
from tritonc.ir.types import Buffer, Type, scalar, shape


def keep_counts(kernel: Kernel, room: int, count: Callable[[Value, Op], list[Op]]) -> None:
    """Do it for all loops; `count` makes what counts a histogram's operand in a buffer.  Buffers
    take no more than `room` bytes, as others are needed meanwhile."""
    sizes = [buffer_type(op.result.type).bytes for op in kernel.ops() if op.name == "histogram"]
    again = 0 < sum(sizes) <= room
    while again:
        cfg = Cfg(kernel)
        again = any(_keep(kernel, cfg, loop, phi, count) for loop in cfg.loops
                    if loop.regular for phi in loop.header.phis())


def _summed(kernel: Kernel, loop: Loop, phi: Op) -> list[Op]:
    """The histograms whose sum the phi is, what brings them there and adds them up, if nothing else
    reads any of these in the loop."""
    readers, inside, found = uses(kernel), set(loop.ops()), list[Op]()
    stack = [(loop.next(phi), phi)]
    while stack:
        value, reader = stack.pop()
        op, others = value.op, [other for other in readers[value] if other in inside]
        if others != [reader] or op is None:
            return []
        if op is not phi:
            if op.name not in ("add", "convert_layout", "histogram") or readers[value] != others:
                return []
            found.append(op)
            stack += [(v, op) for v in op.operands if op.name != "histogram"]
    return found if sum(phi.result in op.operands for op in found) == 1 else []


def _keep(kernel: Kernel, cfg: Cfg, loop: Loop, phi: Op, count: Callable[[Value, Op], list[Op]]
          ) -> bool:
    gone = _summed(kernel, loop, phi)
    if not gone or loop.preheader is None:
        return False
    outside = place_behind(kernel, cfg, loop)
    t = phi.result.type
    buffer = make_op("alloc_shared", [], buffer_type(t), span=phi.span)
    buffer.result.name = "counts"
    first = make_op("shared_store", [buffer.result, loop.first(phi)], span=phi.span)
    loop.preheader.ops[-1:-1] = [buffer, first, make_op("barrier", [])]
    for block in loop.blocks:
        block.ops = [new for op in block.ops if op is not phi for new in (
            [op] if op not in gone else count(buffer.result, op) if op.name == "histogram" else [])]
    outside.ops.insert(0, make_op("shared_load", [buffer.result], t, span=phi.span))
    kernel.replace({phi.result: outside.ops[0].result})
    return True


def buffer_type(t: Type) -> Buffer:
    """That of the counts of a tile of that type."""
    return Buffer(scalar(t), shape(t), 1, row_major(shape(t)))
