"""What a product on tensor cores costs, for a multiply-add, in a machine that is full."""

from math import prod

from tritonc.backend.launch.product_threads import warpgroups
from tritonc.backend.pipeline.stages import blocks_beside
from tritonc.backend.target.matrix import ACCUMULATORS, WGMMA, MatrixInstruction, arrange
from tritonc.backend.target.register_limits import BESIDE_RESULTS, COMPUTED_LEFT, MOST_REGISTERS
from tritonc.backend.target.target import Target
from tritonc.tune.model.epilogues import cycles
from tritonc.tune.model.feature import APART, Feature
from tritonc.tune.model.loops import TYPICAL
from tritonc.tune.model.residency import SPILLS

_ALONE = 1.3  # of 8-bit products that do not run while their sums are scaled (`overlap_sums`)
_BESIDE_OPERANDS = 24  # where a thread computes operands of wgmma: all but sums, words and operands
# Of larger stages of wgmma three are enough, not four.  H200: low-rank factors of 16
# beside a product of 4096 in cube 205 us by 128 x 256 x 64, 241 by 128 x 128 x 64.
_WIDE_STAGE = 48 * 1024
# Bytes that arrive in a latency of memory, while one stage is multiplied by and one is converted.
# Floats as weights of bfloat16, 4096 in cube by 256 x 128 x 64 343 us, by 256 x 128 x 32 209.
_LATENCY = 44 * 1024
_CONVERTED = 20.0  # multiply-adds that an element costs that a thread converts for wgmma
# The same of an element of rows that are gathered: halves in NCHW order by 128 filters x 64 pixels
# x 32 44.7 to 54.0 us, by 64 x 128 58.3 to 66.7, and by 128 x 128 x 8 71.3 to 103.
_GATHERED = 40.0
_DEEP = 32  # bytes of a row that mma.sync multiplies at once, at its full rate
_TENSOR_STEP = {True: 8e5, False: 1e5}  # multiply-adds that a k step of wgmma, of mma costs
# Where threads compute in each step where rows are: several blocks of few warps compute that beside
# each other's products, and a tile that has a multiprocessor to itself leaves most of them idle in
# launches of the size that convolutions have.  H200: tasks of the Triton paper by 64 x 128 x 64 in
# three blocks are 1.0 to 1.7 times as fast as by 128 x 256 x 64, of 16 times the size 0.75.
_COMPUTED_ALONE = 1.7
_RATE = 1540.0  # multiply-adds of wgmma in a cycle, of 16-bit numbers


def tma_cost(dot: Feature, row: MatrixInstruction, target: Target, carried: int,
                spread: float, behind: int, fixed: int = 0) -> float:
    """Time per multiply-add of a dot on tensor cores: 1 is the peak.

    What a large tile saves is bytes of its operands, from the second-level cache and from shared
    memory; what limits it is the registers of its accumulators, and stages of operands enough to
    hide the latency of memory.  `fixed` bytes of those stay there.
    """
    *batch, m, n, k = dot.extents
    products, wide = prod(batch), row.kind == WGMMA
    words = max(dot.bytes // 4, 1)  # of a sum: those of doubles are two
    threads = 128 * warpgroups(m, n, dot.places) if wide else max(
        128, 32 * products, products * m * n * words // ACCUMULATORS)
    held = prod(dot.register_extents[:-1]) * words / threads
    parts = dot.steps  # of a stage
    stage = (dot.stage_bytes - fixed) // parts
    results = fixed + (min(m * n * 2, 2 * 16 * 1024) if wide else 0)
    stored = 0 if wide or "async_copy" not in target.features else _stored(dot, row, threads)
    longest = (128 if stored else 64) * words  # bytes of a row
    blocks = 1 if wide else 2
    room = (target.shared_per_multiprocessor // blocks - target.shared_reserved - results)
    stages = (min(room, target.shared_per_block - 1024 - results) - stored) // stage
    needed = 2 if "async_copy" not in target.features else 4 if wide and stage <= _WIDE_STAGE else 3
    if (held + carried / threads > target.registers_per_thread - BESIDE_RESULTS
            or stages < 2 * parts or threads > target.threads_per_block):
        return SPILLS + held + stage
    # What threads compute for wgmma: words that they read, and two sets of operands, of which one
    # is in flight.
    made = sum(size * k // parts * dot.bytes / 4 / threads
               for size, raw in zip((m, n), dot.raw) if raw)
    if wide and held + 2 * made > min(target.registers_per_thread,
                                       target.registers_per_multiprocessor // threads
                                       ) - _BESIDE_OPERANDS:
        return SPILLS + held + stage
    late = 1.2 if wide and made and held + 3 * made > COMPUTED_LEFT else 1.0
    late *= APART if prod(dot.taps) > 1 else 1.0
    # Rows of a stage are whole lines of 128 bytes of shared memory where wgmma reads them.
    # With mma.sync longer rows only need more registers on their way there.
    row_bytes = k // parts * dot.bytes
    # Raw elements that are wider than converted ones: floats, not bytes or words of several.
    apart = wide and made and not fixed and dot.bytes < max(dot.raw) <= 4
    odd = (row_bytes < 128 and not apart) * 2.0 if wide else (row_bytes > longest) * 1.3
    resident = 1.3 if not wide and threads > 128 else 1.0
    step = _TENSOR_STEP[wide] * 2 / dot.bytes / (products * m * n * k)
    traffic = 20 * spread * (1 / m + 1 / n) + (0.02 if (m < n if dot.swapped else m > n) else 0.0)
    if wide:
        traffic += _CONVERTED * sum(1 / size for size, raw in zip((n, m), dot.raw) if raw)
    if "wgmma" in target.features:  # beside mma.sync it is not measured
        traffic += _GATHERED * sum(1 / size for size, far in zip((n, m), dot.sides) if far)
    few = 1 + 0.3 * max(0, needed - stages)
    if apart:
        few = max(1.0, (_LATENCY + stage) / (max(1, stages - 2) * stage))
    if wide and dot.scaled and dot.bytes == 1 and 3 * held > MOST_REGISTERS:
        few *= _ALONE
    if wide and dot.computed:
        beside = blocks_beside(stage, threads // 32, int(held), target)
        step, few = step / beside, _COMPUTED_ALONE if beside < 2 else 1.0
    rate = 2 if row.depth * dot.bytes < _DEEP else 1
    found = (rate + step + traffic) * max(odd, 1.0) * resident * few * late
    if wide:
        computing = 128 * warpgroups(*((n, m) if dot.is_swapped else (m, n)), dot.places)
        found += cycles(m * n, behind, computing) * _RATE / (m * n * TYPICAL)
    return found


def _stored(dot: Feature, row: MatrixInstruction, threads: int) -> int:
    """Bytes that threads convert from narrower numbers and store for several warps of mma.sync,
    beside the stages.  A step waits for that, and its rows are short in memory, so it had better be
    long.  H200, code for sm_80, weights of 4 bits by 128 x 128 x 32 757 us, by x 64 525."""
    *batch, m, n, k = dot.extents
    readers = arrange(row, (m, n), max(1, threads // 32 // prod(batch)))
    return prod(batch) * k * dot.bytes * sum(
        size for size, raw, warps in zip((m, n), dot.raw, readers[::-1])
        if 0 < raw < dot.bytes and warps > 1)
