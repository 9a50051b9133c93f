"""How many registers a thread can have, and how many blocks shall share a multiprocessor.

A multiprocessor's registers are divided among its threads, so blocks that are resident at once
and registers of a thread are one choice.  It is made here, from `analysis.registers.pressure`:

  - products on CUDA cores wait at a barrier in each step of k, which only another block's warps
    can fill: as many blocks as their loops leave room for, up to ENOUGH warps;
  - of products on wgmma that follow from each other (attention) all may be in flight at once: as
    many blocks as have registers for results and operands, and for what else lives there;
  - where no product stands in a loop, loads, products and barriers follow one another, and other
    blocks alone fill the time: two, if the estimate allows (cross attention with 77 and 16 keys, 8
    x 20 x 1024, takes 51.5 us with 138 registers, 33.3 with 120, which leave room for two);
  - rows want many bytes of memory in flight: three quarters of the threads that a multiprocessor
    can hold, a half where loops load, or less; the most with which a thread does not spill, or as
    many blocks as the estimate of all bodies allows;
  - so do streams and stencils, whose threads load once and end: as many as their estimate allows.
    It counts whole tiles, where the assembler makes each element in turn.

Rows and streams ask what their body needs for which all tested facts hold.  The others would have
all bodies have more registers; they may spill.

`available` is what passes have that can save registers, `resident_blocks` what a launch asks for.

The table: what is not a fact of the machine is measured, the slack by bench/registers.py --least,
the rest by the tables of docs/performance.md."""

from tritonc.analysis.column_loops import scans_columns, sums_columns
from tritonc.analysis.registers.pressure import Estimate, Pressure, estimated, pressure
from tritonc.backend.dots.together import waits
from tritonc.backend.memory.versions.general import rare
from tritonc.backend.pipeline.staged_loop import DOTS, elements_per_thread
from tritonc.backend.pipeline.tma.roles import has_producer
from tritonc.backend.pipeline.tma.roles import registers as registers_of_roles
from tritonc.backend.target.register_limits import BESIDE_CHAIN, MOST_REGISTERS
from tritonc.backend.target.target import Target
from tritonc.ir import combiner
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.layout import LANE_BITS
from tritonc.ir.types import I1, Tile, is_float, scalar

STEP = 8  # registers are given in groups of so many
SLACK = 1.15  # by which the estimate, as a rule, exceeds what the assembler needs
LOOP_SLACK = 1.1  # and in loops that load; of rows in few registers the first, in more none
SURE = 0.92  # of a thread's registers: beside mma.sync the estimate may be so much too low
# Of a thread's registers, for general bodies, whose speed matters less: all bodies get those of the
# one that needs the most, so the estimate of these shall be sure.
GENERAL = 0.85
RECOMPUTED = 0.7  # the same where addresses are recomputed for it, which costs least
FENCED = 0.75  # the same: where they take more, the assembler shall not move accesses
OVER = 1.4  # times as much does not fit, however the assembler orders what is computed
# A second block is worth some more: products of 128 x 128 by 8 warps take 129 registers if nothing
# is said, or 127; they are 5 to 10 % faster with two blocks.  At most 32 bytes are spilled.
SECOND = 1.2
ENOUGH = 16  # warps of a multiprocessor, for products on CUDA cores: they hide each other's waits
WARPGROUP = 4  # warps
COLUMNS = 1.4  # of an estimate: of columns each iteration ahead has addresses of its own
# Elements of a thread: for more in a general body three quarters of the blocks are enough.  Rows of
# 4096 to bytes spill 48 bytes by eight blocks, and none by six: 1.05 of the time (H200).
QUOTIENTS = 16
_ROWS = {"reduce", "reduce_with"}
# Of the threads of a multiprocessor, for rows; the first not of functions that keep the order.
# Mean and variance of 4096 columns 66.6 us, 63.3 by a half, argmax 63.5, 62.3; sums of
# exponentials, which commute, 67.7 and 70.8.
SHARES = (3 / 4, 1 / 2, 3 / 8, 1 / 4)
# Of streams: shares of the threads of a multiprocessor, with how much the estimate may exceed the
# registers that each leaves, and that of the general body.  H200: life 1.13 (0.96 of odd widths),
# GELU 1.06 (0.92), doubled images 1.06 (0.93), pixels shuffled 1.1; a wave by 40 registers, whose
# general body wants 85, 1.01 (0.52), by 64 1.02; SwiGLU by 16 halves of a thread, of which the
# estimate is 87, 1.03 to 1.06, inverses of 4 x 4 0.99.  Not of larger blocks, which exchange tiles:
# odd halves transposed took 1.5 times as long. A general body that needs up to MARGIN times what
# the fast one needs may exceed it as that does; others do not: without a limit folds of 3 x 3 take
# 0.7 to 0.98 of the time, images to YUV 0.67, reaction and diffusion 0.92 to 0.97, a wave 1.01;
# sharpened bytes by a half 0.83 to 1.
MARGIN = 1.1
STREAMS = ((3 / 4, 1.15, 1.35), (9 / 16, 1.2, 1.25), (1 / 2, 1.4, 1.22))

# The same of an entry whose general body hardly runs: the estimate counts whole tiles, of pixels
# that the assembler computes in turn.  Medians, whose estimate is 116, by 64 registers.
ALIGNED = 2.0


def available(kernel: Kernel, context: Context, blocks: int | None = None,
              estimate: Estimate | None = None) -> int:
    """The registers that a thread can have, if the blocks are resident that shall be.

    Rows have what their threads can have, so that nothing is computed anew for more blocks: rows
    of 4095 that were took twice as long.
    `estimate` is the kernel's, if there is one."""
    target: Target = context.target
    warps: int = kernel.attributes["num_warps"]
    if has_producer(kernel):
        roles = registers_of_roles(warps * kernel.attributes.get("pingpong", 1), target)
        if roles is not None and roles[1]:
            return min(roles[1], target.registers_per_thread)
    if any(op.name in DOTS for op in kernel.ops()):
        blocks = context.meta.get("min_blocks", blocks)
    if blocks is None:
        blocks = max(_product_blocks(kernel, target, Cfg(kernel).loops, estimate),
                     kernel.attributes.get("min_blocks", 0))
    return registers_of(max(1, blocks) * warps << LANE_BITS, target)


def registers_of(threads: int, target: Target) -> int:
    """The registers of each of so many resident threads: of their warps, the same number in each
    partition of a multiprocessor.

    >>> from tritonc.backend.target.target import TARGETS
    >>> [registers_of(32 * warps, TARGETS["sm_90a"]) for warps in (16, 17, 20, 21)]
    [128, 96, 96, 80]
    """
    warps = -(-threads // (target.partitions << LANE_BITS))
    each = target.registers_per_multiprocessor // target.partitions // (warps << LANE_BITS)
    return min(each // STEP * STEP, target.registers_per_thread)


def _blocks_of(warps: int, registers: float, target: Target) -> int:
    """How many blocks of so many warps are resident, by the registers that a thread needs."""
    each = -(-int(registers) // STEP) * STEP << LANE_BITS
    return target.registers_per_multiprocessor // target.partitions // each * (
        target.partitions) // warps


def resident_blocks(kernel: Kernel, target: Target, estimate: Estimate | None = None) -> int:
    """How many blocks shall be resident; 0 for any number."""
    warps: int = kernel.attributes["num_warps"]
    threads, loops = warps << LANE_BITS, Cfg(kernel).loops
    wanted = _product_blocks(kernel, target, loops, estimate) or (
        _row_threads if _has_rows(kernel) else _stream_threads)(
            kernel, target, loops, estimate or estimated(kernel)) // threads
    if not wanted and any(op.name == "wgmma" for op in kernel.ops()) and not any(
            _has(loop, name, 1) for loop in loops for name in DOTS):
        second = registers_of(2 * threads, target)
        if second < target.registers_per_thread and second >= (
                estimate or estimated(kernel)).pressure().registers:
            wanted = 2
    if wanted > 1 and warps == WARPGROUP and any(_has(loop, "wgmma", 1) for loop in loops):
        # Beside the products, what is loaded, too.
        needed = (estimate or estimated(kernel)).pressure().registers / OVER
        while wanted > 1 and needed > (now := registers_of(wanted * threads, target)) and (
                registers_of((wanted - 1) * threads, target) > now):
            wanted -= 1
    return min(wanted, target.resident(threads, 0, kernel.attributes.get("shared_bytes", 0)))


def _product_blocks(kernel: Kernel, target: Target, loops: list[Loop],
                    estimate: Estimate | None) -> int:
    """Of products; 0 where one block is enough."""
    warps: int = kernel.attributes["num_warps"]
    needs = []
    if on_cores := [loop for loop in loops if _has(loop, "fma_dot", 1)]:
        estimate = estimate or estimated(kernel)
        needs = [estimate.pressure(loop.blocks).registers / SLACK for loop in on_cores]
    if warps == WARPGROUP:
        # The products of a chain may be in several iterations at once: then none waits here.
        needs += [_in_flight(loop) for loop in loops if _has(loop, "wgmma", 2) or (
            _has(loop, "wgmma", 1) and any(map(waits, loop.blocks)))]
    if not needs:
        return 0
    found = min(_blocks_of(warps, max(needs), target), ENOUGH // warps)
    if found == 1 and 2 * warps <= ENOUGH and warps > WARPGROUP and max(needs) <= (
            SECOND * registers_of(2 * warps << LANE_BITS, target)):
        return 2
    return found


def _row_threads(kernel: Kernel, target: Target, loops: list[Loop], estimate: Estimate) -> int:
    """How many threads of rows shall be resident; 0 for any number."""
    needed: float = of_fast_body(estimate).registers
    # Few programs, which load far ahead: none is to spill.
    if sums_columns(kernel, estimate.cfg) or scans_columns(kernel, estimate.cfg):
        needed = max(needed, COLUMNS * estimate.pressure().registers)
    streaming = any(map(_loads_tiles, loops))
    most, middle, less, least = (round(share * target.threads_per_multiprocessor)
                                 for share in SHARES)
    choices = [middle, less, least] if streaming else [middle]
    general = rare(estimate.cfg, estimate.cfg.order)
    if not streaming and not any(_in_order(op) or op.attributes.get("piecewise")
                                 for block in kernel.blocks if block not in general
                                 for op in block.ops):
        choices.insert(0, most)
    for threads in choices:
        slack = LOOP_SLACK if streaming else SLACK if threads == most else 1.0
        if needed < slack * registers_of(threads, target):
            own = kernel.attributes["num_warps"] << LANE_BITS
            fewer = less // own  # blocks
            return less if not streaming and 4 * fewer >= 3 * (threads // own) and any(
                op.name == "fdiv" and elements_per_thread(op.result) > QUOTIENTS
                for block in general for op in block.ops) else threads
    warps: int = kernel.attributes["num_warps"]
    # A block more, if the estimates of all bodies allow it.
    blocks = _blocks_of(warps, max(needed, estimate.pressure().registers), target)
    return blocks * warps << LANE_BITS if blocks > 1 and not streaming else 0


def _in_order(op: Op) -> bool:
    """Whether it combines elements by a function in the order of their axis, so that lanes exchange
    several of each."""
    return op.name == "reduce_with" and not combiner.read(op.attributes["function"]).commutative


def _stream_threads(kernel: Kernel, target: Target, loops: list[Loop], estimate: Estimate) -> int:
    """How many threads shall be resident that load once and end; 0 for any number."""
    if kernel.attributes["num_warps"] > WARPGROUP or any(
            op.name in DOTS for op in kernel.ops()) or any(map(_loads_tiles, loops)):
        return 0
    needed, general = of_fast_body(estimate).registers, estimate.pressure().registers
    for share, slack, rest in STREAMS:
        threads = round(share * target.threads_per_multiprocessor)
        registers = registers_of(threads, target)
        if needed <= slack * registers and general <= max(rest * registers, MARGIN * needed):
            return threads
    return 0


def aligned_blocks(kernel: Kernel, target: Target, estimate: Estimate) -> int:
    """How many blocks of a stream shall be resident where hardly a program takes the general body;
    0 where that is not in the way."""
    if _stream_threads(kernel, target, [], estimate) or _has_rows(kernel) or (
            kernel.attributes["num_warps"] > WARPGROUP) or any(
            op.name in DOTS for op in kernel.ops()) or any(
            map(_loads_tiles, estimate.cfg.loops)):
        return 0
    needed, general = of_fast_body(estimate).registers, estimate.pressure().registers
    share, _, rest = STREAMS[-1]
    threads = round(share * target.threads_per_multiprocessor)
    registers = registers_of(threads, target)
    if needed > ALIGNED * registers or general <= max(rest * registers, OVER * needed):
        return 0
    warps: int = kernel.attributes["num_warps"]
    return min(threads // (warps << LANE_BITS), target.blocks_per_multiprocessor)


def of_fast_body(estimate: Estimate) -> Pressure:
    """Of the body for which all tested facts hold."""
    cfg = estimate.cfg
    left = set(rare(cfg, cfg.order))
    return estimate.pressure([block for block in cfg.order if block not in left])


def rows_hold_too_much(kernel: Kernel, target: Target) -> bool:
    """Whether rows keep so many of their threads from being resident that it is worth loading
    again what is in a cache."""
    threads = round(SHARES[1] * target.threads_per_multiprocessor)
    return _has_rows(kernel) and pressure(kernel).registers > SLACK * registers_of(threads, target)


def _has_rows(kernel: Kernel) -> bool:
    """Whether it reduces tiles and multiplies none; `any` or `all` of a tile makes no rows."""
    names = {op.name for op in kernel.ops() if op.name != "reduce" or op.result.type != I1}
    return bool(names & _ROWS) and not names & set(DOTS)


def _has(loop: Loop, name: str, count: int) -> bool:
    """Whether so many operations of that name are in the loop."""
    return sum(op.name == name for op in loop.ops()) >= count


def _loads_tiles(loop: Loop) -> bool:
    return any(op.name == "load" and isinstance(op.result.type, Tile) for op in loop.ops())


def _in_flight(loop: Loop) -> float:
    """Of products on wgmma that run at once: results, and operands in registers, which take the
    place of results where both are too many for products to run ahead (`rotate_dots`)."""
    ops = [op for op in loop.ops() if op.name == "wgmma"]
    results = sum(_size(op.result) for op in ops)
    operands = sum(_size(v) for op in ops for v in op.operands[:2])
    return results + (operands if results + operands <= MOST_REGISTERS else 0) + BESIDE_CHAIN


def _size(value: Value) -> float:
    t = value.type
    return elements_per_thread(value) * max(scalar(t).bytes, 2) / 4 if is_float(t) else 0
