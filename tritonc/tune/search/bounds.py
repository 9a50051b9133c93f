"""How fast a candidate could be at best: what cannot be the fastest need not be compiled.

For kernels whose work is one product in a loop, by rates that no kernel exceeds.  What can be known
from the tile and the meta-parameters is the instruction (m x n x k below its least extents, or
`wgmma=0`) and the bytes of operands that must come from the second-level cache: a tile of m x n
brings (m + n) k numbers for m n k products."""

from collections.abc import Mapping

from tritonc.backend.target.matrix import INSTRUCTIONS, WGMMA
from tritonc.backend.target.target import Target
from tritonc.launch.cuda import Peaks
from tritonc.tune.model.feature import Feature, Profile

# mma.sync reaches 0.63 of the rate of wgmma.  Source: Luo et al., arXiv:2402.13499, table of
# tensor-core throughput on Hopper.
_MMA_SHARE = 0.65
# That the second-level cache delivers to a multiprocessor: the width of its port.  In practice it
# is about half; what two blocks of a multiprocessor share in its first level is less than that.
_BYTES_PER_CYCLE = 64


def least_milliseconds(profile: Profile, bound: Mapping[str, int], flops: float, peaks: Peaks,
                       target: Target) -> float:
    """The time below which a launch of so many `flops` is impossible; 0 if nothing is known."""
    dots = [feature for feature in profile if feature.kind == "dot"]
    if len(dots) != 1 or len(dots[0].extents) != 3 or not _streams(dots[0], profile):
        return 0.0
    m, n, _ = dots[0].extents
    seconds = [flops / _rate(dots[0], bound, peaks, target)] if peaks.tensor else []
    if peaks.cycles:
        moved = flops / 2 * dots[0].bytes * (1 / m + 1 / n)
        seconds.append(moved / (peaks.cycles * _BYTES_PER_CYCLE))
    return 1e3 * max(seconds, default=0.0)


def _streams(dot: Feature, profile: Profile) -> bool:
    """Whether both operands are read from memory in each iteration of the loop."""
    m, n, k = dot.extents
    reads = [sorted(f.extents) for f in profile if f.kind == "access"]
    for operand in (sorted((m, k)), sorted((k, n))):
        if operand not in reads:
            return False
        reads.remove(operand)
    return True


def _rate(dot: Feature, bound: Mapping[str, int], peaks: Peaks, target: Target) -> float:
    """FLOP/s of the fastest instruction that may compute a dot."""
    wide = bool(bound.get("wgmma", 1)) and bound.get("num_warps", 4) % 4 == 0
    rates = [peaks.f32 * 4 / dot.bytes]  # of packed numbers
    hopper = any(row.kind == WGMMA and row.feature in target.features for row in INSTRUCTIONS)
    for row in INSTRUCTIONS:
        if row.feature not in target.features or str(row.operand) != dot.element:
            continue
        if row.kind == WGMMA and not wide:
            continue
        m, n, k = dot.extents
        swapped = row.kind == WGMMA and n >= row.rows and m >= row.columns  # `swap_operands`
        if k >= row.depth and (swapped or (m >= row.rows and n >= row.columns)):
            share = _MMA_SHARE if hopper and row.kind != WGMMA else 1.0
            rates.append(peaks.tensor * share * 2 / dot.bytes)
    return max(rates)
