"""What of a multiprocessor a block takes that computes a product: by the rules of the passes that
decide it (`Use`)."""

from math import prod, sqrt

from tritonc.backend.dots.inner_axis import reads
from tritonc.backend.dots.slice_k import COMPUTED, FEW, MATRIX_WARPS, SUMS, WARPS
from tritonc.backend.dots.swap_operands import LEAST_ROWS
from tritonc.backend.launch.product_threads import ACCUMULATORS, FRAGMENT, warpgroups
from tritonc.backend.pipeline.stages import (
    ALONE_IN_FLIGHT,
    ALONE_STAGES,
    IN_FLIGHT,
    MOST_ASYNCHRONOUS,
    MOST_STAGES,
    blocks_beside,
    blocks_computing,
    share_of,
    stages_beside,
)
from tritonc.backend.target.matrix import INSTRUCTIONS, LARGE, MOST_BATCH, WGMMA, MatrixInstruction
from tritonc.backend.target.target import Target
from tritonc.ir.types import TF32
from tritonc.records import NamedTuple
from tritonc.tune.model.feature import Feature, Profile, joined
from tritonc.variants.choice import MOST_BLOCKS

LEAST = 16  # rows of mma, and columns of the least product of wgmma here
# Registers of a thread beside sums and operands: weights of 8 and 4 bits by 16 x 64 take 79 and 109
# in all, by 32 x 64 120 and 165, by 64 x 64 127 and 176.
_OF_LEAST, _OTHERS = 48, 80
_LATE = 180  # registers beyond which the next loads do not go out before the products


class Use(NamedTuple):
    """What of a multiprocessor a block takes.  `ahead`: how many stages are on their way while one
    is computed; `slices`: groups of warps that share the inner axis."""

    kind: str  # "wgmma", "mma", "cores"
    threads: int
    slices: int
    registers: int
    shared: int
    ahead: int
    persistent: bool = False
    gathers: bool = False  # it is one warpgroup, which computes which rows it copies
    late: bool = False  # loads go out behind the products: there are no registers for them before
    slow: bool = False  # it has but half of its kind's rate

    def blocks(self, target: Target) -> int:
        """How many of them a multiprocessor holds."""
        registers = min(self.registers, target.registers_per_thread)
        return max(1, min(target.resident(self.threads, registers, self.shared), MOST_BLOCKS))


def computing(profile: Profile, target: Target) -> tuple[str, int]:
    """The kind of a combination's product, and how many threads compute it."""
    widest = max((use(dot, target) for dot in joined([f for f in profile if f.kind == "dot"])),
                 key=lambda one: one.threads)
    return widest.kind, consumers(widest)


def consumers(one: Use) -> int:
    """The threads that compute, not those of a producer warp."""
    return one.threads - (128 if one.persistent and one.threads > 256 else 0)


def use(dot: Feature, target: Target, work: float = 0, alone: bool = False) -> Use:
    """What a block takes that computes a dot in a loop, `alone` as those of clusters.  `work`:
    operations of single elements beside it."""
    *batch, m, n, k = dot.extents
    results, fixed = prod(batch) * m * n, dot.fixed_bytes
    stage = dot.stage_bytes - fixed
    rows = [row for row in INSTRUCTIONS if row.feature in target.features
            and str(row.operand) == dot.element and k >= row.depth
            and (not batch or (row.kind != WGMMA and prod(batch) <= MOST_BATCH))]
    wide = None if batch else next((row for row in rows if _takes(row, dot)), None)
    if wide is not None:
        groups = warpgroups(*((n, m) if dot.is_swapped else (m, n)), dot.places)
        persistent = results >= LARGE
        room = target.shared_per_block - 2048 - fixed
        most, in_flight = (ALONE_STAGES, ALONE_IN_FLIGHT) if alone else (
            MOST_ASYNCHRONOUS, IN_FLIGHT)
        # Of products that make one sum each is a part of a stage.
        stages = dot.steps * room // stage if persistent else min(
            most, room // stage, 2 - -in_flight // stage)
        if dot.computed and (beside := blocks_beside(
                stage, 4 * groups, results // (128 * groups), target)) > 1:
            stages, persistent = stages_beside(stage, beside, target), False
            return Use("wgmma", 128 * groups, 1, results // (128 * groups) + 80, stages * stage,
                       stages, gathers=groups == 1)
        slices = COMPUTED if groups == 1 and any(dot.raw) else 1
        threads = 128 * groups * slices + (128 if persistent and groups > 1 else 0)
        others = _OF_LEAST if min(m, n) == LEAST else _OTHERS
        registers = results // (128 * groups) + others + _live_operands(
            dot, work, 128 * groups * slices)
        kept = _held(dot, results // (128 * groups), threads)
        if any(dot.raw) and not persistent and (beside := blocks_computing(
                stage, 4 * groups * slices, kept, target)) > 1:
            stages = min(stages, share_of(beside, target) // stage)
            registers = min(registers, target.registers_per_multiprocessor // (beside * threads))
        return Use("wgmma", threads, slices, registers,
                   (room if persistent else stages * stage) + fixed, stages - 2, persistent,
                   dot.computed and groups == 1)
    copies = "async_copy" in target.features
    if any(m >= row.rows and n >= row.columns for row in rows):
        results *= max(1, dot.bytes // 4)  # words
        warps = max(1, results // (FRAGMENT * 32))
        depth = next(row.depth for row in rows if m >= row.rows and n >= row.columns)
        warps = warps if warps < FEW else max(FEW, results // (128 * 32))
        slices = 1 if batch else _slices(MATRIX_WARPS // warps, k // depth, results)
        half = (target.shared_per_multiprocessor // 2 - target.shared_reserved - fixed) // stage
        stages = max(2, min(MOST_STAGES, half if half >= 3 else (
            target.shared_per_block - fixed) // stage))
        threads = 32 * warps * slices
        registers = results * slices // threads + 48 + _live_operands(dot, work, threads, 8)
        return Use("mma", threads, slices, registers, stages * stage + fixed,
                   stages - 1 if copies else 1,
                   slow="wgmma" in target.features and dot.element == str(TF32))
    threads = results // (FRAGMENT if dot.scaled else ACCUMULATORS)
    slices = 1
    if threads < FEW * 32 and not dot.scaled:  # `slice_k` takes sums alone
        warps = max(1, results // (ACCUMULATORS * 32))
        slices = _slices(WARPS // warps, k // 4, results)
        threads = 32 * warps * slices
    threads = max(32, min(512, 1 << threads.bit_length() - 1))
    words = max(dot.bytes // 4, 1)
    held = results * slices / threads
    registers = max(80, words * round(held + 4 * sqrt(held) + stage / dot.bytes / threads) + 40)
    registers += round(work / threads / 20)
    sums = 4 * words * results * slices if slices > 1 else 0
    # Slightly too many are limited to what lets a second block run (`limit_registers`).
    half = target.registers_per_multiprocessor // (2 * threads)
    within = half if half < registers < 1.32 * half and not work else registers
    return Use("cores", threads, slices, within, max(2 * stage + fixed, sums), 1,
               late=registers > _LATE)


def _held(dot: Feature, sums: int, threads: int) -> int:
    """Registers of a thread for sums and two sets of operands that it computes."""
    return sums + _elements(dot) * dot.bytes // (2 * threads)


def _elements(dot: Feature) -> int:
    """Those of operands that threads compute for a product."""
    return dot.extents[-1] // dot.steps * sum(
        n for n, raw in zip(dot.extents[-3:-1], dot.raw) if raw)


def _live_operands(dot: Feature, work: float, threads: int, least: int = 0) -> int:
    """Registers of a thread for operands that it computes: two sets of them, and what the
    operations need.  Weights of 8 bits by 64 x 128 x 128 184 in all, by x 32 120, of 4 bits 191 and
    160: then no second block fits; by 16 x 32 x 128 of mma.sync 104, 128."""
    elements = _elements(dot)
    more = min(32.0, max(least, 8 * (work / (elements * dot.steps) - 1))) if elements else 0.0
    return round(elements * dot.bytes / (2 * threads) + more)


def _takes(row: MatrixInstruction, dot: Feature) -> bool:
    """Whether wgmma computes a dot, as it is or the other way round (`swap_operands`)."""
    m, n, _ = dot.extents
    return row.kind == WGMMA and (reads(row, *dot.inner) or reads(row, *dot.inner[::-1])) and (
        (m >= row.rows and n >= row.columns) or (n >= row.rows and m >= row.columns))


def in_registers(dot: Feature, one: Use) -> bool:
    """Whether threads compute an operand from narrower numbers where an instruction reads it: wgmma
    takes it in place of rows, else it goes through shared memory once more."""
    return any(dot.raw) and one.kind != "cores" and (
        one.kind == "mma" or not dot.raw[1] or dot.extents[-2] >= LEAST_ROWS)


def _slices(wanted: int, most: int, results: int) -> int:
    count = min(wanted, most, SUMS // (4 * results))
    return 1 << count.bit_length() - 1 if count > 0 else 1
