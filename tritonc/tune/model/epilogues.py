"""What a block computes behind its products: the epilogue, from the sums to what is stored.

The instructions of an epilogue follow each other without a loop, for all elements that a thread
holds: of a tile of 128 x 256 each is there 128 times.  While they fit into the cache of
instructions they cost what they compute, part of it beside the products of other warpgroups or
blocks; beyond that each waits for its own text.
"""

from collections.abc import Iterator

from tritonc.analysis.values import slice_of
from tritonc.backend.dots.fuse_logistic import logistic
from tritonc.backend.dots.together import chained
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Op, uses
from tritonc.ir.types import I1, I64, element, shape

# H200, products of halves of 4096 x 4096 x 1024 and more with 16, 64 and 160 multiply-adds for each
# result, GELU, and random numbers, by nine tiles.  Cycles of a warp for an instruction: by itself
# (64 x 128: 2.26), beside others (128 x 128: 2.5 for 256 threads), and if the epilogue has more
# instructions than these (5173 do not wait; 6500, as of SiLU with exact quotients, and 8166 do: 3.7
# to 6.7).
WAITS, ISSUED, MISSED = 2.3, 100, 5.0
CACHED = 6000
LIGHT = 4  # instructions for a result that all blocks take, which `times` counts as their start
_FREE = frozenset("""
    constant splat broadcast reshape trans phi dot load truncate zext sext psi
""".split())  # words of registers, or nothing
_HALF = frozenset("and or xor".split())  # two of them are one instruction
_QUOTIENTS = frozenset("sdiv udiv srem urem fdiv".split())
_LONGER = {"exp": 8.0, "log": 26.0, "log2": 24.0, "tanh": 5.0, "erf": 19.0, "sqrt": 16.0,
           "sin": 20.0, "cos": 20.0, "reduce": 2.0}
_SHARED = ("constant", "splat", "broadcast")  # by many elements
_QUOTIENT, _OWN_DIVISOR, _APPROXIMATE = 9.0, 28.0, 2.0


def behind(kernel: Kernel, cfg: Cfg) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """The shape of what the last product in a loop makes, the instructions that one of its elements
    takes behind all loops, on its way to memory, and how many tiles of its shape are loaded there.
    Of products that take others' results nothing: loops are most of these."""
    looped = [block for block in cfg.order if block in cfg.innermost]
    dots = [op for block in looped for op in block.ops if op.name == "dot"]
    if not dots or any(map(chained, looped)):
        return
    extents = shape(dots[-1].result.type)
    after = [op for block in cfg.order if block not in cfg.innermost for op in block.ops]
    stored = [v for op in after if op.name == "store" for v in op.operands[1:]]
    found = slice_of(stored, {*after}, ("load",), masks=False)
    readers = uses(kernel)
    short = {one for op in found if op.name == "fdiv" and (power := logistic(op, readers))
             for one in (op, power)}
    fused = {v.op for op in found if op.name in ("fadd", "fsub") for v in op.operands
             if v.op is not None and v.op.name == "fmul"}
    yield extents, round(sum(_APPROXIMATE if op in short else _instructions(op)
                             for op in found - fused if any(
        shape(v.type) == extents for v in (*op.operands, *op.results)))), sum(
        op.name == "load" and shape(op.result.type) == extents for op in found)


def _instructions(op: Op) -> float:
    if op.name in _FREE or not op.results or element(op.results[0].type) == I1:
        return 0.0
    if op.name in _HALF:
        return 0.5
    if op.name in _QUOTIENTS:
        divisor = op.operands[1].op
        return _OWN_DIVISOR if op.name == "fdiv" and (
            divisor is None or divisor.name not in _SHARED) else _QUOTIENT
    if element(op.results[0].type) == I64:  # of a product the half of a pair of registers
        return {"mul": 2.0, "lshr": 0.0}.get(op.name, 1.0)
    return _LONGER.get(op.name, 1.0)


def cycles(results: int, instructions: int, threads: int, blocks: int = 1) -> float:
    """What a multiprocessor takes for so many `instructions` for each result of a tile, of so many
    `blocks` beside each other.

    For 128 x 256 of 4096 x 4096 x 1024, with 64 multiply-adds behind the loop (H200: 41600, 21600):

    >>> [round(cycles(128 * n, 65, 256)) * 256 // n for n in (256, 128)]
    [41600, 19988]
    """
    held = results / threads
    if held * instructions > CACHED:
        return held * instructions * MISSED
    return held * max(0, instructions - LIGHT) * max(WAITS, blocks * threads / ISSUED)


def alike(results: int, instructions: int) -> float:
    """What it takes for those that all tiles take alike."""
    return results * min(instructions, LIGHT) / ISSUED
