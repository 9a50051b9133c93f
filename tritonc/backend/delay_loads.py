"""delay_loads: large tiles on their way to shared memory pass through few registers.

Before:  %v = load %p                           After:  ...
         ...                                            %v = load %p {late = true}
         shared_store %s, %v                            shared_store %s, %v

A thread holds a register for each element that an unaligned operand loads on its own; beside the
accumulators of the product there may be no room for all.  Such a load is made piece by piece, where
each piece is stored.  Pieces wait for each other, so a load is left alone where it fits.

Must come after the passes that move loads and stores; insert_barriers treats the two as one.
"""

from __future__ import annotations

from tritonc.backend.machine_ops import ALL_OPS
from tritonc.backend.staged_loop import DOTS, MOST_REGISTERS
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import Tile, scalar


def delay_loads(kernel: Kernel, context: Context) -> bool:
    """Mark the loads that are to be made where they are stored, and move them there."""
    readers = uses(kernel)
    changed = False
    for block in kernel.blocks:
        held = sum(_registers(op.result) * scalar(op.result.type).bytes / 4
                   for op in block.ops if op.name in DOTS)
        for op in [op for op in block.ops if op.name == "load"]:
            # the elements, and addresses for some of them
            if held and held + 1.2 * _registers(op.result) > MOST_REGISTERS and \
                    not op.attributes.get("volatile"):
                changed |= _delay(block, op, readers)
    return changed


def _registers(value: Value) -> int:
    t = value.type
    return t.layout.registers if isinstance(t, Tile) and t.layout is not None else 0


def _delay(block: Block, load: Op, readers: dict[Value, list[Op]]) -> bool:
    """Move the load to its one reader, if that stores it in this block with nothing between."""
    if len(readers.get(load.result, ())) != 1:
        return False
    (store,) = readers[load.result]
    first = block.ops.index(load)
    if store.name != "shared_store" or store not in block.ops[first:]:
        return False
    last = block.ops.index(store)
    if any(not ALL_OPS[op.name].pure for op in block.ops[first + 1 : last]):
        return False
    del block.ops[first]
    block.ops.insert(last - 1, load)
    load.attributes["late"] = True
    return True
