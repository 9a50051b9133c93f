"""What a product on CUDA cores costs, for a multiply-add, in a machine that is full."""

from math import prod, sqrt

from tritonc.backend.launch.choose_warps import LEGAL
from tritonc.backend.launch.product_threads import ACCUMULATORS
from tritonc.backend.memory.masks.merged_axes import padded
from tritonc.backend.target.target import Target
from tritonc.tune.model.feature import Feature
from tritonc.tune.model.residency import SPILLS

# Numbers that GPUs from sm_60 on share, or nearly so.
_WARPS_THAT_HIDE_LATENCY = 12  # of independent multiply-adds, eight accumulators and more each
_L2_BYTES_PER_MAC = 0.16  # that the second-level cache delivers while one multiply-add runs
_STEP = 60.0  # multiply-adds that a barrier and the addresses of one k step cost a thread
# Of a block by itself whose products are in no loop: while it loads and stores, nobody computes.
# Quadratic forms of 96 floats on an H200: 165 us by 64 rows, 176 by 128.
_ALONE = 1.1
_TRANSPOSE = 4.0  # multiply-adds for an element that a thread transposes on its way


def core_cost(dot: Feature, target: Target, carried: int, spread: float,
              once: bool = False) -> float:
    """Time per multiply-add of a dot in a loop over k, staged in shared memory: 1 is the peak.
    `once`: in no loop.  Then operands have one stage, and threads half as many results.

    Accumulators live in registers, `ACCUMULATORS` in a thread if the tile is large enough, as a
    square micro-tile: a thread reads m + n words of shared memory for m x n multiply-adds.  An
    operand that comes with K contiguous is transposed, and had better be the one with less of it.
    """
    *batch, m, n, k = dot.extents
    results = prod(batch) * m * n
    stages, room = (1, target.shared_per_block) if once else (2, target.static_shared)
    warps = max(1, min(LEGAL[-1], results // (ACCUMULATORS * stages // 2) // 32))
    threads = 32 * (1 << (warps.bit_length() - 1))
    held = max(results / threads, 1.0)
    side = sqrt(held)
    words = max(dot.bytes / 4, 1.0)
    staged = (m * k + k * n) * prod(batch)
    # Accumulators, two steps of operands, the next tile on its way, addresses and counters.
    registers = words * (held + 4 * side + staged / threads) + int(carried / threads) + 40
    registers = -(-registers // 8) * 8
    rows, columns, depth = padded((m, n, k))
    shared = stages * (rows + columns) * depth * prod(batch) * dot.bytes
    blocks = target.resident(threads, int(registers), shared)
    if registers > target.registers_per_thread or shared > room or blocks < 1:
        return SPILLS + registers + shared
    resident = blocks * threads / 32
    hidden = min(1.0, resident / _WARPS_THAT_HIDE_LATENCY)
    idle = min(1.0, results / threads / 4)  # threads that hold copies do nothing new
    transpose = _TRANSPOSE * words * (dot.inner[0] / n + dot.inner[1] / m)
    compute = (1 + 0.5 * 2 / side + _STEP / (held * k) + transpose) / idle
    traffic = spread * (1 / m + 1 / n) * dot.bytes / _L2_BYTES_PER_MAC * words
    # Loads overlap with arithmetic until they take longer; until then they still disturb it.
    alone = _ALONE if once and blocks == 1 else 1.0
    return alone * max(compute / (0.5 + 0.5 * hidden) + 0.1 * traffic, traffic)
