"""limit_registers: limits registers so that enough blocks fit a multiprocessor.

Before:  kernel @f attributes {num_warps = 4}      After:  kernel @f attributes {num_warps = 4,
                                                                                 min_blocks = 3}

The assembler takes as many registers as help one thread; it does not know that a product waits at
a barrier in each step of k, and a row for memory and for other warps, which only another block's
warps can fill.  Told how many blocks must fit, it uses no more than that leaves.  The number comes
from `register_budget`, or from a pipeline that leaves other blocks room; nothing is set where one
block is enough.  Where even a block alone leaves a thread fewer registers than it needs, a warning
says how many live where; the assembler is told of the one block, since where it cannot do without
spills, it takes a half or a quarter of the registers.

A meta-parameter, `min_blocks`; 0 sets nothing.

Needs allocate_shared."""

from math import ceil

from tritonc.analysis.registers.pressure import Estimate, estimated
from tritonc.analysis.values import defined_by
from tritonc.backend.launch.register_budget import (
    OVER,
    SECOND,
    SLACK,
    available,
    of_fast_body,
    registers_of,
    resident_blocks,
)
from tritonc.backend.pipeline.staged_loop import DOTS, words
from tritonc.backend.pipeline.stages import BESIDE
from tritonc.backend.pipeline.tma.roles import PRODUCER_WARPS, has_producer
from tritonc.ir.cfg import Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op
from tritonc.ir.layouts.layout import LANE_BITS
from tritonc.ir.types import Tile, scalar, shape
from tritonc.source import Note, fail

MOST_MULTIPLY_ADDS = 1 << 17  # of a thread: LLVM takes ten seconds for as many
# Rows whose estimate is FAR times what a thread has spill (1.8: softmax does not); they have this
# share of the threads of a multiprocessor.  H200: SwiGLU to bytes and entropies of 1536 and 3072
# columns 0.98 to 0.99 of the time, of odd numbers 0.58 to 0.83; a quarter of the threads 1.05 to
# 1.1 of that.
FAR, LEAST_ROWS = 2.0, 5 / 16
# Products whose estimate is more than FIT times what a thread has, have a block less.  H200, us,
# with the estimate as a share: convolutions of 8-bit floats by 128 x 64 1.27 17.4, 10.8; in groups
# 1.35 93, 82; gradients of filters 1.64 25.7, 22.9; distances 1.32 710, 690; repeated edges 1.57
# 22.0, 22.2.  Of others fewer are slower: 1.2 236, 238; 1.18 152, 157; 1.17 206, 212; 1.15 441,
# 488; 1.13 53, 63.  On CUDA cores two blocks stay: one alone has no work at its barriers.
FIT = 1.25
# The most columns of an instruction on wgmma, and what a thread needs beside its two rows' share of
# them, with an operand in registers (C7602 of ptxas 13.0 says 26 without).
COLUMNS, BESIDE_SUMS = 256, 30
LARGE = 8  # registers of a value that is worth naming


def limit_registers(kernel: Kernel, context: Context) -> bool:
    """Set `min_blocks`, if more than one block is to be resident."""
    _check_length(kernel)
    blocks, estimate = context.meta.get("min_blocks"), estimated(kernel)
    dots = any(op.name in DOTS for op in kernel.ops())
    if blocks is None:
        least = resident_blocks(kernel, context.target, estimate)
        blocks = max(least, kernel.attributes.get("min_blocks", 0))  # a pipeline has made room
        live = estimate.pressure().registers
        alone = 1 if any(op.name in ("mma_dot", "wgmma") for op in kernel.ops()) else 2
        while dots and blocks > (least if blocks > BESIDE + 1 else alone) and live > (
                FIT if blocks <= BESIDE else SECOND if blocks == BESIDE + 1 else 1) * (
                    now := available(kernel, context, blocks, estimate)) and (
                        available(kernel, context, blocks - 1, estimate) > now):
            blocks -= 1  # threads would spill; five of 64 x 64 x 32 (3-D) 103 us, four 94
        if blocks == least == 2 and live > SECOND * available(kernel, context, 2, estimate) and any(
                _products(loop) > 1 for loop in estimate.cfg.loops):
            blocks = 1
        while blocks > 1 and _takes(kernel) > registers_of(
                blocks * _warps(kernel) << LANE_BITS, context.target):
            blocks -= 1
    rows = blocks > 1 and not dots
    if rows and of_fast_body(estimate).registers > FAR * available(
            kernel, context, blocks, estimate):  # an entry asks for as many, whatever a row holds
        threads = LEAST_ROWS * context.target.threads_per_multiprocessor
        blocks = min(blocks, ceil(threads / (kernel.attributes["num_warps"] << LANE_BITS)))
    room = most = available(kernel, context, blocks, estimate)
    if rows and "min_blocks" in context.meta:  # an entry's, whose general body hardly ever runs
        most = registers_of(kernel.attributes["num_warps"] << LANE_BITS, context.target)
    _tell(kernel, context, estimate, rows, room, most)
    if "min_blocks" not in context.meta and estimate.pressure().registers > room:
        blocks = max(1, blocks)  # one that has to spill gets a half or less, if nothing is said
    if blocks < 1:
        return kernel.attributes.pop("min_blocks", None) is not None
    kernel.attributes["min_blocks"] = blocks
    return True


def _takes(kernel: Kernel) -> float:
    """The registers without which the assembler refuses an instruction of a product on wgmma."""
    return max((BESIDE_SUMS + min(words(op.result), op.attributes.get("asked", COLUMNS) * scalar(
        op.result.type).bytes / 8) for op in kernel.ops() if op.name == "wgmma"), default=0)


def _warps(kernel: Kernel) -> int:
    """Of a block; those of a producer start with as many registers as the others."""
    warps: int = kernel.attributes["num_warps"]
    return warps + PRODUCER_WARPS * has_producer(kernel)


def _products(loop: Loop) -> int:
    """How many products on CUDA cores a loop has, of which each may come in parts."""
    return sum(op.name == "fma_dot" and defined_by(op.operands[2], "fma_dot") is None
               for op in loop.ops())


def _check_length(kernel: Kernel) -> None:
    """Raise a CompileError where products on CUDA cores, which are unrolled, are too long."""
    for block in kernel.blocks:
        dots = [op for op in block.ops if op.name == "fma_dot"]
        if (steps := sum(map(_multiply_adds, dots))) > MOST_MULTIPLY_ADDS:
            raise fail("dot-too-large", dots[0].span, f"this product takes {steps} multiply-add "
                       "instructions in each thread, and the limit is "
                       f"{MOST_MULTIPLY_ADDS}",
                       Note("loop over parts of the inner axis, or use smaller tiles"))


def _multiply_adds(dot: Op) -> int:
    t = dot.result.type
    assert isinstance(t, Tile) and t.layout is not None
    return t.layout.registers * shape(dot.operands[0].type)[-1]


def _tell(kernel: Kernel, context: Context, estimate: Estimate, rows: bool, room: int, most: int
          ) -> None:
    """How many registers live where; a warning if they are more than `most` with some slack.  Of
    rows and streams, whose number of blocks suits the fast body, the others may spill."""
    found = of_fast_body(estimate) if rows else estimate.pressure()
    sure = estimate.between_blocks()
    if sure.registers > (SLACK if rows else 1) * most:
        found = sure
    said = f"about {found.registers} registers per thread are live here"
    context.remark("limit_registers", f"{said}, the highest number in kernel '{kernel.name}'; "
                                      f"{room} are available",
                   found.span or kernel.span)
    if found.registers <= OVER * most and found is not sure:
        return
    threads = kernel.attributes["num_warps"] * context.target.warp_size
    parts = [f"{value.name or 'a value'} {value.type}: {round(held)}"
             for value, held in found.live[:4] if held >= LARGE]
    context.warn("registers", f"{said}, and a block of {threads} threads has {most} for each: the "
                 "assembler spills the rest, or refuses", found.span or kernel.span,
                 *([Note(f"the largest: {', '.join(parts)}")] if parts else []),
                 Note("smaller tiles need fewer"))
