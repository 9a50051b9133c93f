"""choose_turns: whether the warpgroups of a persistent block take programs in turn (ping-pong).

Two warpgroups that hold a tile together both wait while its result is stored, and what comes before
that is computed.  If each holds a tile of its own, the products of one run beside that of the other
(`alternate_programs`).  A thread holds twice as many sums, so what it computes of them must be
little.

H200, us, together and in turn: 128 x 128 of 3072 x 3072 x 1024 with bias 35.1 and 32.5, with GELU
44.9 and 37.4, of 4096 x 3072 x 768 46.4 and 38.1, of 4096 in cube 209 and 200; plain, 4096 in cube
194 and 190.

A launch whose rows are not aligned takes another body, in which a warpgroup's threads copy and
hold a tile alone: 4095 x 4097 x 1027 193 us and 176, with bias 200 and 254; 333 x 777 x 555 14.5
and 24.  So this is for entries that a launch's sizes choose, and where they are known.

Meta-parameter `turns`: 2 lets them take programs in turn, where that can be.
"""

from __future__ import annotations

from tritonc.backend.dots.raw_operands import is_plain
from tritonc.backend.launch.persist import counts_programs, rare_programs
from tritonc.backend.target import matrix
from tritonc.ir.cfg import Cfg, Loop, reached
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel
from tritonc.ir.types import shape

SHAPE = 128, 128  # of a result of which a warpgroup's threads hold 128 sums each
WARPS = 4  # of a warpgroup


def choose_turns(kernel: Kernel, context: Context) -> bool:
    """Set `turns`, and the warps of one, if a block shall compute two programs at once."""
    if "num_warps" in kernel.attributes or not _wanted(kernel, context):
        return False
    kernel.attributes.update(num_warps=WARPS, turns=2)
    return True


def _wanted(kernel: Kernel, context: Context) -> bool:
    if context.meta.get("turns", 1) == 1 or context.meta.get("num_warps", WARPS) != WARPS \
            or not context.meta.get("producer", 1) or not context.meta.get("continued", 1):
        return False
    cfg = Cfg(kernel)
    loops = [loop for loop in cfg.loops if counts_programs(loop)]
    rare = set(rare_programs(kernel))
    return bool(loops) and all(_alternates(cfg, loop, rare) for loop in loops)


def _alternates(cfg: Cfg, programs: Loop, rare: set[Block]) -> bool:
    """Whether a program has one product, in one loop, of plain operands."""
    blocks = [block for block in programs.blocks if block not in rare]
    products = [(block, op) for block in blocks for op in block.ops if op.name == "dot"]
    if len(products) != 1:
        return False
    ((home, dot),) = products
    inner = cfg.innermost.get(home)
    if inner is None or inner.parent is not programs or not matrix.on_wgmma(dot) \
            or not all(is_plain(v, masked=True) for v in dot.operands[:2]):
        return False
    behind = reached([to for _, to in inner.exits], stop=[programs.header])
    return shape(dot.result.type) == SHAPE and not any(
        op.name == "load" and shape(op.result.type) == SHAPE
        for block in behind if block not in rare for op in block.ops)
