"""Dead code elimination: removes operations without effects whose results nobody reads.

    %a = load %p : f32<64>           (no use of %a)  ->  nothing

What has an effect is live, and what a live operation reads; the rest goes, cycles of phis that feed
only themselves included.  Loads go too, unless they are volatile."""

from tritonc.analysis.values import removable, slice_of
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel


def dce(kernel: Kernel, context: Context) -> bool:
    """Remove what is dead.  Blocks and branches stay."""
    acts = [op for op in kernel.ops() if not removable(op)]
    live = {*acts, *slice_of(v for op in acts for v in op.inputs())}
    changed = False
    for block in kernel.blocks:
        count = len(block.ops)
        block.ops = [op for op in block.ops if op in live]
        changed |= len(block.ops) < count
    return changed
