"""Accumulators are scaled where an iteration ends, not where the next one adds a product to them.

Before:  loop: %acc = phi [.., first], [%w, body]    After:  first: %f = %acc0 * %g0
               %g  = phi [%g0, first], [%g1, body]           loop:  %t = phi [%f, first], [%n, body]
         body: start %s = product ...                        body:  start %s = product ...
               %t = %acc * %g                                       start product(%p, %v) + %t
               start product(%p, %v) + %t                           wait: %w
               wait: %w                                             %n = %w * %g1

Between the starts of two products the tensor cores, which soon have done the first, would wait for
the scaling; where an iteration ends, they work for the other warps, and what the threads compute
there leaves places for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tritonc.backend.machine_ops import ALL_OPS
from tritonc.ir.cfg import incoming
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Op


def scale_early(header: Block, sources: Sequence[Block], product: Op, last: Op) -> None:
    """Let the loop carry what `product` adds to, if only that is computed from accumulators.

    `sources`: the block before the loop's header, then its body, which has `product`; `last`: the
    same product behind the loop, which finds there what the loop carries.
    """
    body, total = sources[1], product.operands[2]
    inside = set(body.ops)
    needed: set[Op] = set()
    stack = [total]
    while stack:
        op = stack.pop().op
        if op in inside and op is not None and op not in needed:
            needed.add(op)
            stack += op.inputs()
    own = {r for op in needed for r in op.results}
    own |= {v for op in needed for v in op.inputs() if v.type == total.type and v.op is not None
            and v.op in header.phis()}
    if not needed or not all(ALL_OPS[op.name].pure for op in needed) or any(
            op not in needed and op is not product and own & set(op.inputs()) for op in body.ops):
        return
    ops = [op for op in body.ops if op in needed]
    body.ops = [op for op in body.ops if op not in needed]
    carried = Op("phi", [], {}, (total.type,), blocks=list(sources))
    carried.result.name = total.name
    for block in sources:
        known = {phi.result: incoming(phi, block) for phi in header.phis()}
        block.ops[-1:-1] = copy_ops(ops, known)
        carried.operands.append(known[total])
    header.ops.insert(0, carried)
    product.operands[2] = last.operands[2] = carried.result
