"""aligned_entry: launches whose arguments are aligned have an entry with the registers that their
body needs.

Before:  kernel @f(x, y, W)      its general body takes 200 registers, the fast one 60
After:   kernel @f(x {multiple_of = 8}, y {multiple_of = 8}, W {multiple_of = 8}) {min_blocks = 16}

All bodies of a kernel have the registers of the one that needs the most, so that of streams whose
general body needs far more few threads are resident.  The entry has the same code, of which it is
promised what the fast body tests of parameters; only tiles at edges take the general body there,
which may spill.  H200, bytes, 16384 x 16384: medians of nine 404 us and 574, 345 and 410 so, Sobel
352 and 233.  Their general bodies take 1.7 to 5 times as long with as few registers, so there shall
be many tiles along each axis."""

from dataclasses import replace
from math import lcm

from tritonc.analysis.registers.pressure import estimated
from tritonc.backend.launch.register_budget import aligned_blocks
from tritonc.backend.target.target import Target
from tritonc.ir.copies import copy_kernel
from tritonc.ir.core import Kernel

TILES = 64  # along each axis


def aligned_entry(kernel: Kernel, target: Target) -> Kernel | None:
    """A kernel, as the passes left it, for aligned arguments; None where that gains nothing."""
    known = kernel.attributes.get("aligned")
    if not known or "min_blocks" in kernel.attributes:
        return None
    blocks = aligned_blocks(kernel, target, estimated(kernel))
    if blocks < 2:
        return None
    found = copy_kernel(kernel)
    for place, multiple in enumerate(known):
        info = found.info[place]
        found.info[place] = replace(info, multiple_of=lcm(info.multiple_of, multiple))
    found.attributes |= {"min_blocks": blocks, "tiles": TILES}
    return found
