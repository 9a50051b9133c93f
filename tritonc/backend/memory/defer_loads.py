"""defer_loads: general bodies load what they store to shared memory behind the product, not before.

Before:  %v = load %p                           After:  %c = wgmma %a, %b, %acc
         %c = wgmma %a, %b, %acc                        %v = load %p
         shared_store %s, %v                            shared_store %s, %v

The operands of the next iteration are on their way while a product runs, in registers if they are
not copied asynchronously, as from unaligned addresses.  Narrow elements take a register each.  All
bodies of a kernel have the registers of the one that needs the most, and as many blocks are to be
resident as the fast bodies leave room for.  So where a general body needs more than those, and does
not fit, it waits for these loads; what still does not fit comes piece by piece (`compute_pieces`).

After rematerialize, which costs less.
"""

from __future__ import annotations

from tritonc.analysis.registers.pressure import estimated
from tritonc.analysis.registers.weights import chain_of
from tritonc.backend.launch.register_budget import GENERAL, available
from tritonc.backend.memory.versions.general import general_blocks
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import WRITE

ENOUGH = 16  # registers of a tile that are worth it


def defer_loads(kernel: Kernel, context: Context) -> bool:
    """Move loads of general bodies, the largest first, until each block fits."""
    estimate, changed = estimated(kernel), False
    general, readers = general_blocks(estimate.cfg), uses(kernel)
    room = max(GENERAL * available(kernel, context, estimate=estimate), estimate.pressure(
        [block for block in estimate.cfg.order if block not in general]).registers)
    for block in general:
        loads = [op for op in block.ops if op.name == "load"
                 and estimate.weight(op.result) >= ENOUGH]
        for load in sorted(loads, key=lambda op: -estimate.weight(op.result)):
            before, held = list(block.ops), estimate.pressure([block]).registers
            if held <= room or not _defer(block, load, readers):
                continue
            estimate = estimated(kernel)
            if estimate.pressure([block]).registers >= held:
                block.ops[:], estimate = before, estimated(kernel)
            else:
                changed = True
    return changed


def _defer(block: Block, load: Op, readers: dict[Value, list[Op]]) -> bool:
    """Move the load, and what only it or its reader needs, to the store of it."""
    moved, found = chain_of(load, readers)
    if len(found) != 1 or found[0].name != "shared_store" or found[0] not in block.ops or \
            load.attributes.get("volatile"):
        return False
    first, last = block.ops.index(load), block.ops.index(found[0])
    between = [op for op in block.ops[first:last] if op not in moved]
    if last < first or any(WRITE in op.effects for op in between):
        return False
    needed = set(moved)
    for op in reversed(block.ops[:last]):
        if op.name != "phi" and op.pure and all(
                reader in needed for result in op.results for reader in readers.get(result, ())):
            needed.add(op)
    chain = [op for op in block.ops[:last] if op in needed]
    rest = [op for op in block.ops if op not in needed]
    at = rest.index(found[0])
    block.ops[:] = [*rest[:at], *chain, *rest[at:]]
    return True
