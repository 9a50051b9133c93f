"""look_ahead: a loop that asks for one number after the other loads lines of them.

Before:  %mine = atomic_rmw %p {kind = load, order = relaxed}       in a loop, %p another each time
         %seen = from_first_lane %mine
After:   %kept, %line, %used = phi ...                              nothing before the loop
         %mine = atomic_rmw %p {kind = load, order = relaxed, line}
         %seen, ... = word_of_line %mine, %p, %kept, %line, %used

A program that looks back over what others have told waits for memory at each step.  Here the lanes
of its warp load what lies before it in a line of 128 bytes, by one instruction, and have the next
steps' numbers.  A word that was used is loaded again, so that a loop that waits sees it change.

Legal of relaxed loads, which have no order among addresses: what an iteration asks for has been
loaded since the loop began, behind what was read of that address before.  Bytes of the line of an
access may be read: memory is mapped by larger pieces.  Nothing else in the loop may touch memory.

Behind `lower_atomics`: where an answer goes by `from_first_lane`, a whole warp asks.
"""

from __future__ import annotations

from tritonc.analysis.values import int_of
from tritonc.backend.target.target import Target
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop, make_phi
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.ops import CONTROL
from tritonc.ir.types import I32, I64, SCALARS, is_pointer, scalar

WORDS = (4, 8)  # bytes of a number


def look_ahead(kernel: Kernel, context: Context) -> bool:
    """Load lines where loops ask for words."""
    target: Target = context.target
    if "atomic_order" not in target.features:
        return False
    cfg, readers, changed = Cfg(kernel), uses(kernel), False
    for loop in filter(_goes_back, cfg.loops):
        asking = [op for op in loop.ops() if op.effects - {CONTROL}]
        if len(asking) == 1 and _legal(asking[0], loop, cfg, readers):
            _look(kernel, asking[0], loop, readers[asking[0].result])
            changed = True
    return changed


def _goes_back(loop: Loop) -> bool:
    """Whether something that the loop carries becomes less."""
    carried = {phi.result for phi in loop.header.phis()}
    return any(op.name == "add" and op.operands[0] in carried
               and (int_of(op.operands[1]) or 0) < 0 for op in loop.ops())


def _legal(op: Op, loop: Loop, cfg: Cfg, readers: dict[Value, list[Op]]) -> bool:
    made, more = op.operands[0].op if op.operands else None, op.attributes
    return (op.name == "atomic_rmw" and more["kind"] == "load" and more.get("order") == "relaxed"
            and more.get("scope") != "block" and "volatile" not in more and op.guard is None
            and not is_pointer(op.result.type) and scalar(op.result.type).bytes in WORDS
            and loop.preheader is not None and len(loop.latches) == 1
            and cfg.dominates(cfg.block_of[op], loop.latches[0])
            and made in cfg.block_of and cfg.block_of[made] in loop
            and all(reader.name == "from_first_lane" for reader in readers.get(op.result, ())))


def _look(kernel: Kernel, op: Op, loop: Loop, readers: list[Op]) -> None:
    before, t = loop.preheader, scalar(op.result.type)
    assert before is not None
    none = [make_op("constant", [], kind, value=value)
            for kind, value in ((SCALARS[f"i{t.bits}"], 0), (I64, 1), (I32, 0))]
    before.ops[-1:-1] = none
    phis = [make_phi([one.result], [before]) for one in none]
    word = make_op("word_of_line", [op.result, op.operands[0], *(phi.result for phi in phis)],
                   span=op.span)
    for phi, value in zip(phis, word.results[1:], strict=True):
        phi.operands.append(value)
        phi.blocks.append(loop.latches[0])
    loop.header.ops[:0] = phis
    op.attributes["line"] = True
    for block in loop.blocks:
        if op in block.ops:
            block.ops.insert(block.ops.index(op) + 1, word)
        block.ops = [one for one in block.ops if one not in readers]
    for one in kernel.ops():
        one.replace_inputs({reader.result: word.results[0] for reader in readers})
