"""Operands of the second product are waited for where an iteration ends, before its last wait.

Before:  loop: start %s = product ...            After:  first: ...; ring_wait %v[0]
               ring_wait %v[i - 1]                       loop:  start %s = product ...
               start %t = product(%p, %v[i - 1])                start %t = product(%p, %v[i - 1])
               wait for %s                                      wait for %s
               %p' = exp2 ...                                   %p' = exp2 ...
               wait for %t                                      ring_wait %v[i]
                                                                wait for %t

The wait for a product depends on nothing that the threads compute beside it, and NVIDIA's assembler
moves it up as far as its block of instructions goes: the second product then runs beside nothing.
It moves no wait over a branch, and the wait at a ring is a loop.

Legal where the ring has a second stage: the copy that is waited for was started before, since
copies run at least one iteration ahead, and the stage that it fills was released an iteration ago.
"""

from __future__ import annotations

from collections.abc import Sequence

from tritonc.analysis.values import slice_of
from tritonc.backend.shared.shared_memory import allocation
from tritonc.ir.cfg import incoming
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Op
from tritonc.ir.types import Buffer


def wait_early(header: Block, sources: Sequence[Block], waits: Sequence[Op], end: Op,
               last: Block) -> None:
    """Move `waits` at rings, which precede the second product, to before `end`, the wait for it.

    `sources`: the block before the loop's header, then its body, which has them all; `last`: the
    block behind the loop with the second product's last turn, and waits of its own.
    """
    body = sources[1]
    rings = [allocation(wait.operands[0])[0] for wait in waits]
    cone = {*waits, *slice_of((v for wait in waits for v in wait.inputs()), set(body.ops))}
    needed, at = [op for op in body.ops if op in cone], body.ops.index(end)
    late = {r for op in body.ops[at:] for r in op.results}
    turned = [incoming(phi, body) for phi in header.phis()
              if any(phi.result in op.inputs() for op in needed)]
    if not needed or late & set(turned) or not all(
            isinstance(ring.result.type, Buffer) and ring.result.type.stages > 1
            for ring in rings) or any(
                not op.pure and op not in waits for op in needed):
        return
    for block, place, turn in ((sources[0], len(sources[0].ops) - 1, 0), (body, at, 1)):
        known = {phi.result: incoming(phi, block) for phi in header.phis()}
        copies = copy_ops(needed, known)
        for op in copies:
            if "ahead" in op.attributes:
                op.attributes["ahead"] += turn
        block.ops[place:place] = copies
    body.ops = [op for op in body.ops if op not in waits]
    last.ops = [op for op in last.ops if op.name != "ring_wait"
                or allocation(op.operands[0])[0] not in rings]
