"""pack_programs: programs of one warp share a block.

Before:  kernel @f {num_warps = 1, min_blocks = 32}      tile 1: a program for each block
           ...
After:   kernel @f {num_warps = 1, min_blocks = 8, programs = 4}      tile 4: one for each warp
           cond_br get_program_id < get_num_programs, ..., over

A launch starts no more than a block in 0.61 ns (H200), and a multiprocessor holds 32 of them, that
is half of the warps that there is room for.  Such programs exchange nothing but between lanes, so
that they need not know of each other.  Those that go on until a tile is done stay alone: all of a
block would wait for the last one (search_sorted took 1.05 times as long).  The launch takes this
entry if there are programs for all multiprocessors, and a blockful along axis 0.  Where their
number is no multiple, warps of the last block end at once; how many the shape of the launch's
blocks says (`variants.choice.block_shape`)."""

from tritonc.analysis.row_loops import ends_by_tile
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg
from tritonc.ir.copies import copy_kernel
from tritonc.ir.core import Block, Kernel

PROGRAMS = 4  # sparse_rows: 0.645 ms by one, 0.326 by two, 0.263 by four, 0.261 by eight


def pack_programs(kernel: Kernel) -> Kernel | None:
    """A kernel, as the passes left it, of PROGRAMS programs in a block; None where a program needs
    its block."""
    attributes = kernel.attributes
    if attributes["num_warps"] > 1 or 0 not in kernel.tile or any(
            attributes.get(name) for name in ("shared_bytes", "producer_warps", "cluster", "few")) \
            or ends_by_tile(kernel, Cfg(kernel)):
        return None
    packed = copy_kernel(kernel)
    start, over = Block("there"), Block("over")
    b = Builder(start)
    there = b.value("icmp", b.value("get_program_id", axis=0), b.value("get_num_programs", axis=0),
                    predicate="ult")
    b.emit("cond_br", there, blocks=[packed.entry, over])
    Builder(over).emit("ret")
    packed.blocks = [start, *packed.blocks, over]
    packed.tile[0] *= PROGRAMS
    packed.attributes["programs"] = PROGRAMS
    if "min_blocks" in attributes:
        packed.attributes["min_blocks"] = -(-attributes["min_blocks"] // PROGRAMS)
    return packed
