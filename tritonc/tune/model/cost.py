"""What a combination of tunables costs: the relative time of its products, in a machine that is
full.  What kernels without a product cost is in `rows`; how long a launch takes, in `times`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod, sqrt

from tritonc.backend.dots.inner_axis import reads
from tritonc.backend.launch.choose_warps import ACCUMULATORS, LEGAL, warpgroups
from tritonc.backend.memory.masks.pad_tiles import padded
from tritonc.backend.pipeline.stages import LARGE_STAGE, RELEASED_STAGES, blocks_beside
from tritonc.backend.target.matrix import ACCUMULATORS as MATRIX_ACCUMULATORS
from tritonc.backend.target.matrix import (
    INSTRUCTIONS,
    MOST_BATCH,
    WGMMA,
    MatrixInstruction,
    arrange,
)
from tritonc.backend.target.register_limits import BESIDE_RESULTS, COMPUTED_LEFT, MOST_REGISTERS
from tritonc.backend.target.target import Target
from tritonc.tune.model.epilogues import cycles
from tritonc.tune.model.features import (
    APART,
    Feature,
    Profile,
    joined,
    places,
    side_by_side,
    spread,
    stage_bytes,
    swapped,
)
from tritonc.tune.model.loops import TYPICAL
from tritonc.tune.model.residency import ROWS, Chained, brought, busy, crowded, held

SPILLS = 1e6  # the least cost of what spills, or does not run: any other candidate is better
# Numbers that GPUs from sm_60 on share, or nearly so.
_WARPS_THAT_HIDE_LATENCY = 12  # of independent multiply-adds, eight accumulators and more each
_L2_BYTES_PER_MAC = 0.16  # that the second-level cache delivers while one multiply-add runs
_STEP = 60.0  # multiply-adds that a barrier and the addresses of one k step cost a thread
_ALONE = 1.3  # of 8-bit products that do not run while their sums are scaled (`overlap_sums`)
# Rows whose products take as long as a step of a chain of few rows waits.  Decoding 16 heads of 512
# numbers that they share on an H200: 293 us by 16 rows a step, 193 by 32, 122 by 64.
_FEW_STEP = 32.0
_EXCHANGED = 4096  # bytes of shared memory beside stages, for scores that threads exchange
_TURN = 4.0  # multiply-adds that an element costs that a thread turns on its way to shared memory
_BESIDE_OPERANDS = 24  # where a thread computes operands of wgmma: all but sums, words and operands
_TENSOR_GAIN = 16  # how much faster tensor cores are than CUDA cores
# Of larger stages of wgmma three are enough, not four.  H200: low-rank factors of 16
# beside a product of 4096 in cube 205 us by 128 x 256 x 64, 241 by 128 x 128 x 64.
_WIDE_STAGE = 48 * 1024
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


# Of products without a loop by so many rows, beside `busy`: there is one block to a multiprocessor,
# and nothing is computed while it loads and stores.  Three layers of 64 on an H200: 2 million
# points by 256 rows 167 us, by 128 103, by 64 104.
_ONCE, _ONCE_ROWS = 3.0, 256


def cost(profile: Profile, target: Target, extents: Sequence[int] = ()) -> float:
    """Relative time of the kernels with these features, in a launch of a range of `extents` if
    that is known; infinite for tiles without elements, which a value of 0 predicts."""
    if any(extent < 1 for feature in profile for extent in feature.extents):
        return inf
    once = any(f.kind == "dot" and f.extents[-3] >= _ONCE_ROWS for f in profile) and any(
        f.kind == "kernel" and f.form == "once" for f in profile)
    return (_ONCE if once else 1.0) * _cost(profile, target, extents)


def _cost(profile: Profile, target: Target, extents: Sequence[int]) -> float:
    dots = joined([_with_taps(f) for f in profile if f.kind == "dot"])
    if not dots:
        from tritonc.tune.model.rows import stream_cost  # where there is no product

        return stream_cost(profile, target, extents)
    found = [_instructions(dot, target) for dot in dots]
    if len(dots) == 1:
        held = 0 if dots[0].beside else sum(prod(f.extents) * max(f.bytes, 4) // 4
                                            for f in profile if f.kind == "held")
        return _product_cost(dots[0], target, held, max(1.0, spread(profile)),
                             sum(f.bytes for f in profile if f.kind == "behind"))
    if all(found) and all(dot.extents[-3] < ROWS for dot in dots):
        products = [_chained(dot, dot.extents[-3:]) for dot in dots]
        if any(crowded([product], dots[0].bytes) for product in products):
            return _few_rows_cost(products, dots[0].bytes, target)
    if all(rows and rows[0].kind == WGMMA for rows in found):
        return _mean([[dot for dot in dots if dot.place == place]
                      for place in dict.fromkeys(dot.place for dot in dots)], target)
    return max(_product_cost(dot, target) for dot in dots)


def _with_taps(dot: Feature) -> Feature:
    """A product as deep as a step of its loop is, in which taps run side by side."""
    *rows, k = dot.extents
    taps = side_by_side(dot)
    return dot._replace(extents=(*rows, k * taps), taps=dot.taps // taps)


def _mean(chains: list[list[Feature]], target: Target) -> float:
    """Of the chains of products of several loops, which are taken to be as long: each takes time
    for each of its products.  If one does not fit into registers, what that one costs."""
    costs = [_chain_cost(chain, target) for chain in chains]
    if max(costs) >= SPILLS:
        return max(costs)
    return sum(cost * len(chain) for cost, chain in zip(costs, chains, strict=True)) / sum(
        map(len, chains))


def _chain_cost(dots: list[Feature], target: Target) -> float:
    """Of the products on wgmma of one block."""
    found = max(_product_cost(dot, target) for dot in dots)
    if len(dots) == 1:
        return found
    products = [_chained(dot, padded(dot.extents[-3:])) for dot in dots]  # as registers have it
    if crowded(products, dots[0].bytes):
        return SPILLS + held(products, dots[0].bytes)
    return found / busy(products, dots[0].bytes, target)


def _chained(dot: Feature, extents: Sequence[int]) -> Chained:
    m, n, k = extents
    return Chained(m, n, k, dot.left, dot.again, dot.added, dot.short, dot.raw[1] * (m < ROWS))


def _few_rows_cost(products: list[Chained], size: int, target: Target) -> float:
    """Of a chain of few rows on mma.sync, one result of which is longer than what a thread of wgmma
    holds: a step waits for what it brings, so the more the better that fits."""
    registers = sum(p.m * p.n for p in products) / 128
    shared = brought(products, size)
    if registers > MATRIX_ACCUMULATORS or shared > target.shared_per_block - _EXCHANGED:
        return SPILLS + registers + shared
    return 1 + _FEW_STEP / min(p.n for p in products)


def _instructions(dot: Feature, target: Target) -> list[MatrixInstruction]:
    """Those of the target that can be the dot's, the best first."""
    *batch, _, _, _ = dot.extents
    return [row for row in INSTRUCTIONS if row.feature in target.features
            and str(row.operand) == dot.element and prod(batch) <= MOST_BATCH and (
                row.kind != WGMMA or (not batch and (
                    reads(row, *dot.inner) or reads(row, *dot.inner[::-1]))))]


def _product_cost(dot: Feature, target: Target, carried: int = 0, spread: float = 1.0,
                  behind: int = 0) -> float:
    """Of a dot on tensor cores, where it can be, or on CUDA cores; 1 is the peak of the best.

    `carried` is the registers, of all threads, that hold other tiles meanwhile; `spread`, how many
    bytes come from memory for one of an operand; `behind`, the instructions for each result that
    follow behind the loop.
    """
    rows = _instructions(dot, target)
    if not rows:
        return _dot_cost(dot, target, carried, spread)
    *batch, m, n, k = dot.extents
    for row in rows:
        if row.takes(m, n, k):
            slower = 2 if row.kind != WGMMA and rows[0].kind == WGMMA else 1
            whole = dot._replace(extents=(*batch, max(m, row.rows), max(n, row.columns), k))
            repeated = prod(whole.extents) / prod(dot.extents)
            return slower * repeated * _tensor_cost(whole, row, target, carried, spread, behind)
    return _TENSOR_GAIN * _dot_cost(dot, target, carried, spread)


def _tensor_cost(dot: Feature, row: MatrixInstruction, target: Target, carried: int,
                 spread: float, behind: int) -> float:
    """Time per multiply-add of a dot on tensor cores: 1 is the peak.

    What a large tile saves is bytes of its operands, from the second-level cache and from shared
    memory; what limits it is the registers of its accumulators, and stages of operands enough to
    hide the latency of memory.
    """
    *batch, m, n, k = dot.extents
    products, wide = prod(batch), row.kind == WGMMA
    words = max(dot.bytes // 4, 1)  # of a sum: those of doubles are two
    threads = 128 * warpgroups(m, n, places(dot)) if wide else max(
        128, 32 * products, products * m * n * words // MATRIX_ACCUMULATORS)
    held = products * m * n * words / threads
    stage = stage_bytes(dot)
    results = min(m * n * 2, 2 * 16 * 1024) if wide else 0
    stored = 0 if wide or "async_copy" not in target.features else _stored(dot, row, threads)
    longest = (128 if stored else 64) * words  # bytes of a row
    blocks = 1 if wide else 2
    room = (target.shared_per_multiprocessor // blocks - target.shared_reserved - results)
    stages = (min(room, target.shared_per_block - 1024 - results) - stored) // stage
    needed = 2 if "async_copy" not in target.features else 4 if wide and stage <= _WIDE_STAGE else 3
    if wide and dot.scaled and stage >= LARGE_STAGE:
        needed = RELEASED_STAGES  # H200, 4096 in cube: 194 us by 128 x 256 x 128, 230 by half of K
    if (held + carried / threads > target.registers_per_thread - BESIDE_RESULTS or stages < 2
            or threads > target.threads_per_block):
        return SPILLS + held + stage
    # What threads compute for wgmma: words that they read, and two sets of operands, of which one
    # is in flight.
    made = sum(size * k * dot.bytes / 4 / threads for size, raw in zip((m, n), dot.raw) if raw)
    if wide and held + 2 * made > min(target.registers_per_thread,
                                       target.registers_per_multiprocessor // threads
                                       ) - _BESIDE_OPERANDS:
        return SPILLS + held + stage
    late = 1.2 if wide and made and held + 3 * made > COMPUTED_LEFT else 1.0
    late *= APART if dot.taps > 1 else 1.0
    # Rows of a stage are whole lines of 128 bytes of shared memory where wgmma reads them.
    # With mma.sync longer rows only need more registers on their way there.
    odd = (k * dot.bytes < 128) * 2.0 if wide else (k * dot.bytes > longest) * 1.3
    resident = 1.3 if not wide and threads > 128 else 1.0
    step = _TENSOR_STEP[wide] * 2 / dot.bytes / (products * m * n * k)
    traffic = 20 * spread * (1 / m + 1 / n) + (0.02 if (m < n if dot.swapped else m > n) else 0.0)
    if wide:
        traffic += _CONVERTED * sum(1 / size for size, raw in zip((n, m), dot.raw) if raw)
    if "wgmma" in target.features:  # beside mma.sync it is not measured
        traffic += _GATHERED * sum(1 / size for size, far in zip((n, m), dot.sides) if far)
    few = 1 + 0.3 * max(0, needed - stages)
    if wide and dot.scaled and dot.bytes == 1 and 3 * held > MOST_REGISTERS:
        few *= _ALONE
    if wide and dot.computed:
        beside = blocks_beside(stage, threads // 32, int(held), target)
        step, few = step / beside, _COMPUTED_ALONE if beside < 2 else 1.0
    rate = 2 if row.depth * dot.bytes < _DEEP else 1
    found = (rate + step + traffic) * max(odd, 1.0) * resident * few * late
    if wide:
        computing = 128 * warpgroups(*((n, m) if swapped(dot) else (m, n)), places(dot))
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


def _dot_cost(dot: Feature, target: Target, carried: int, spread: float) -> float:
    """Time per multiply-add of a dot in a loop over k, staged in shared memory: 1 is the peak.

    Accumulators live in registers, `ACCUMULATORS` in a thread if the tile is large enough, as a
    square micro-tile: a thread reads m + n words of shared memory for m x n multiply-adds.  An
    operand that comes with K contiguous is turned, and had better be the one with less to turn.
    """
    *batch, m, n, k = dot.extents
    results = prod(batch) * m * n
    warps = max(1, min(LEGAL[-1], results // ACCUMULATORS // 32))
    threads = 32 * (1 << (warps.bit_length() - 1))
    held = max(results / threads, 1.0)
    side = sqrt(held)
    words = max(dot.bytes / 4, 1.0)
    staged = (m * k + k * n) * prod(batch)
    # Accumulators, two steps of operands, the next tile on its way, addresses and counters.
    registers = words * (held + 4 * side + staged / threads) + int(carried / threads) + 40
    registers = -(-registers // 8) * 8
    shared = 2 * staged * dot.bytes
    blocks = min(target.registers_per_multiprocessor // (threads * registers),
                 target.shared_per_multiprocessor // (shared + target.shared_reserved),
                 target.threads_per_multiprocessor // threads, target.blocks_per_multiprocessor)
    if registers > target.registers_per_thread or shared > target.static_shared or blocks < 1:
        return SPILLS + registers + shared
    resident = blocks * threads / 32
    hidden = min(1.0, resident / _WARPS_THAT_HIDE_LATENCY)
    idle = min(1.0, results / threads / 4)  # threads that hold copies do nothing new
    turn = _TURN * words * (dot.inner[0] / n + dot.inner[1] / m)
    compute = (1 + 0.5 * 2 / side + _STEP / (held * k) + turn) / idle
    traffic = spread * (1 / m + 1 / n) * dot.bytes / _L2_BYTES_PER_MAC * words
    # Loads overlap with arithmetic until they take longer; until then they still disturb it.
    return max(compute / (0.5 + 0.5 * hidden) + 0.1 * traffic, traffic)
