"""choose_pingpong: whether the warpgroups of a persistent block take programs in turn (ping-pong).

Two warpgroups that hold a tile together both wait while its result is stored, and what comes before
that is computed.  If each holds a tile of its own, the products of one run beside that of the other
(`pingpong_programs`).  A thread holds twice as many sums, so what it computes of them must be
little.

H200, us, together and in turn: 128 x 128 of 3072 x 3072 x 1024 with bias 35.1 and 32.6, with GELU
40.2 and 34.7, of 4096 x 3072 x 768 40.2 and 35.1, of 4096 in cube 197 and 191; plain, 4096 in cube
192 and 188.

A launch whose rows are not aligned takes another body, in which a warpgroup's threads copy and
hold a tile alone: 4095 x 4097 x 1027 193 us and 176, with bias 200 and 254; 333 x 777 x 555 14.5
and 24.  So this is for entries that launches choose, and where sizes are known; the entry for all
sizes may have a body of this kind beside others, for rows that are aligned (`add_pingpong`).

Meta-parameter `pingpong`: 2 lets them take programs in turn, where that can be."""

from tritonc.backend.dots.raw_operands import is_plain
from tritonc.backend.launch.persist import counts_programs, rare_programs
from tritonc.backend.target import matrix
from tritonc.ir.cfg import Cfg, Loop, reached
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel
from tritonc.ir.types import shape
from tritonc.source import Span

SHAPE = 128, 128  # of a result of which a warpgroup's threads hold 128 sums each
WARPS, THREADS = 4, 128  # of a warpgroup


def choose_pingpong(kernel: Kernel, context: Context) -> bool:
    """Set `pingpong`, and the warps of one, if a block shall compute two programs at once."""
    if context.meta.get("pingpong", 1) == 1:
        return False
    found = _missing(kernel, context)
    if found is not None:
        refuse(context, *found)
        return False
    kernel.attributes.update(num_warps=WARPS, pingpong=2)
    return True


def refuse(context: Context, reason: str, span: Span | None) -> None:
    """Say why warpgroups work together where they were to take turns."""
    context.remark("choose_pingpong", f"no ping-pong of warpgroups: {reason}", span, missed=True)


def _missing(kernel: Kernel, context: Context) -> tuple[str, Span | None] | None:
    """What they would need, and where; None if nothing is missing."""
    warps = kernel.attributes.get("num_warps", context.meta.get("num_warps", WARPS))
    if warps != WARPS:
        return f"a warpgroup has {WARPS} warps, and num_warps is {warps}", kernel.span
    for name in ("producer", "continued"):
        if not context.meta.get(name, 1):
            return f"{name} is 0", kernel.span
    cfg = Cfg(kernel)
    loops = [loop for loop in cfg.loops if counts_programs(loop)]
    if not loops:
        return "blocks are not persistent: each computes one program", kernel.span
    rare = set(rare_programs(kernel))
    return next((found for loop in loops if (found := _needs(cfg, loop, rare))), None)


def _needs(cfg: Cfg, programs: Loop, rare: set[Block]) -> tuple[str, Span | None] | None:
    """The same of a loop over programs: each has one product, in one loop, of plain operands."""
    blocks = [block for block in programs.blocks if block not in rare]
    products = [(block, op) for block in blocks for op in block.ops if op.name == "dot"]
    if len(products) != 1:
        return f"a program has {len(products)} products, not one", cfg.kernel.span
    ((home, dot),) = products
    inner = cfg.innermost.get(home)
    if inner is None or inner.parent is not programs:
        return "the product has no loop of its own", dot.span
    if not matrix.on_wgmma(dot) or shape(dot.result.type) != SHAPE:
        return f"the product is not one of {SHAPE[0]}x{SHAPE[1]} on wgmma", dot.span
    if not all(is_plain(v, masked=True) for v in dot.operands[:2]):
        return "an operand is computed from loaded values", dot.span
    behind = reached([to for _, to in inner.exits], stop=[programs.header])
    return next((("threads have no registers for what is loaded after the product", op.span)
                 for block in behind if block not in rare for op in block.ops
                 if op.name == "load" and shape(op.result.type) == SHAPE), None)
