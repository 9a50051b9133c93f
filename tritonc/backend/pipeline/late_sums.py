"""Sums beside a chain of products, for which nothing in the loop waits, may be late by a turn.

    loop: %sum = phi [..], [%next, loop]
          %p   = ...                                  what the second product multiplies
          %r   = reduce %p {kind = fadd, axes = [1]}
          %next = %sum * %g + %r

A thread adds up its own elements at once; the lanes' exchange, whose steps wait for each other, and
the sum itself are left for the time when the next products run.  `late_chains` finds such values
that only go around the loop, `split_lanes` parts a reduction into the thread's share and the rest.
"""

from __future__ import annotations

from tritonc.backend.layout.split_reductions import split_axes
from tritonc.ir import layout_ops
from tritonc.ir.build import make_op
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import Tile, element, make


def late_chains(header: Block, body: Block, readers: dict[Value, list[Op]]) -> list[Op]:
    """Phis of the header on which in the loop only operations without effects depend, which it
    does not need: neither to go on, nor for a product, nor for other phis."""
    inside = {*header.ops, *body.ops}
    found = []
    for phi in header.phis():
        chain, stack = {phi}, [phi]
        while stack:
            for result in stack.pop().results:
                fresh = {op for op in readers.get(result, []) if op in inside} - chain
                chain |= fresh
                stack += fresh
        if isinstance(phi.result.type, Tile) and len(chain) > 1 and all(
                op is phi or (op in body.ops and op.name != "phi" and op.pure
                              and not op.info.terminator) for op in chain):
            found.append(phi)
    return found


def split_lanes(op: Op) -> list[Op]:
    """The reduction in two steps: of what a thread holds, and across lanes.  Alone, if it is one
    of the two already."""
    source = op.operands[0]
    t, axes = source.type, op.attributes["axes"]
    if not isinstance(t, Tile) or t.layout is None:
        return [op]
    shape, inside, across = split_axes(t.layout, axes, (*t.layout.lane, *t.layout.warp))
    if not inside or not across:
        return [op]
    kind, e, split = op.attributes["kind"], element(t), layout_ops.reshape(t.layout, shape)
    partial = layout_ops.slice_axes(split, inside)
    left = [d for d in range(len(shape)) if d not in inside]
    moved = tuple(left.index(d) for d in across)
    final = layout_ops.slice_axes(partial, moved)
    if make(e, final.shape, final) != op.result.type:
        return [op]
    reshaped = make_op("reshape", [source], Tile(e, shape, split), span=op.span)
    own = make_op("reduce", [reshaped.result], make(e, partial.shape, partial), span=op.span,
                  kind=kind, axes=inside)
    whole = make_op("reduce", [own.result], op.result.type, span=op.span, kind=kind, axes=moved)
    whole.result.name = op.result.name
    return [reshaped, own, whole]
