"""spread_late: rows that are spread over lanes are spread where they are read.

Before:  %g = convert_layout %f : f32<256>       After:  start %x0 = product(%a, %b0)
         start %x0 = product(%a, %b0)                    wait for %x0
         wait for %x0                                    %g = convert_layout %f : f32<256>
         %g0 = tile_part %g {index = 0}                  %g0 = tile_part %g {index = 0}
         start %x1 = product(%a, %b1)                    start %x1 = product(%a, %b1)
         wait for %x1                                    wait for %x1
         %g1 = tile_part %g {index = 1}                  %h = convert_layout %f : f32<256>
                                                         %g1 = tile_part %h {index = 1}

A row takes few registers of a thread as long as lanes share it out (`assign_layouts`), and many
once each lane has what it needs.  A copy of the conversion, of which only one part is read,
shuffles that part alone.

Done where all readers read parts."""

from tritonc.backend.layout.conversion import Shared, layout_of, plan_of
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, uses


def spread_late(kernel: Kernel, context: Context) -> bool:
    """Move such conversions, in the blocks with products on wgmma."""
    changed = False
    for block in kernel.blocks:
        if any(op.name == "wgmma_wait" for op in block.ops):
            for op in [op for op in block.ops if spreads(op)]:
                changed |= _move(kernel, block, op)
    return changed


def spreads(op: Op) -> bool:
    """Whether lanes give each other what they shared out: more registers than before."""
    if op.name != "convert_layout":
        return False
    return layout_of(op.result).registers > layout_of(
        op.operands[0]).registers and not isinstance(plan_of(op), Shared)


def _move(kernel: Kernel, block: Block, op: Op) -> bool:
    """A copy to each reader, if all read parts."""
    readers = list(dict.fromkeys(uses(kernel)[op.result]))
    if not all(reader.name == "tile_part" and reader in block.ops for reader in readers):
        return False
    block.ops.remove(op)
    for reader in readers:
        (copy,) = copy_ops([op], {})
        reader.replace_inputs({op.result: copy.result})
        block.ops.insert(block.ops.index(reader), copy)
    return True
