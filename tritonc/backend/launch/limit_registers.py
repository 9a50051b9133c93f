"""limit_registers: how many blocks a multiprocessor shall hold at once.

Before:  kernel @f attributes {num_warps = 4}      After:  kernel @f attributes {num_warps = 4,
                                                                                 min_blocks = 3}

The assembler takes as many registers as help one thread; it does not know that a product waits at
a barrier in each step of k, and a row for memory and for other warps, which only another block's
warps can fill.  Told how many blocks must fit, it uses no more than that leaves.  The number comes
from `register_budget`, and nothing is set where one block is enough.  Where even a block alone
leaves a thread fewer registers than it needs, a warning says how many live where.

A meta-parameter, `min_blocks`; 0 sets nothing.

Needs allocate_shared.
"""

from __future__ import annotations

from tritonc.backend.launch.register_budget import resident_blocks
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel


def limit_registers(kernel: Kernel, context: Context) -> bool:
    """Set `min_blocks`, if more than one block is to be resident."""
    blocks = context.meta.get("min_blocks")
    if blocks is None:
        blocks = resident_blocks(kernel, context.target)
    if blocks < 2:
        return False
    kernel.attributes["min_blocks"] = blocks
    return True
