"""What a combination of tunables costs: the relative time of its products, in a machine that is
full.  What kernels without a product cost is in `rows`; how long a launch takes, in `times`.
"""

from collections.abc import Sequence
from math import inf, prod

from tritonc.backend.dots.inner_axis import reads
from tritonc.backend.memory.masks.merged_axes import padded
from tritonc.backend.target import matrix
from tritonc.backend.target.target import Target
from tritonc.tune.model import residency
from tritonc.tune.model.core_cost import core_cost
from tritonc.tune.model.feature import Feature, Profile, computes, joined, spread
from tritonc.tune.model.tma_cost import tma_cost

# Rows whose products take as long as a step of a chain of few rows waits.  Decoding 16 heads of 512
# numbers that they share on an H200: 293 us by 16 rows a step, 193 by 32, 122 by 64; of 288 in 144
# programs 57, 35 and 25, in 576 95, 71 and 73.
_FEW_STEP = 32.0
_EXCHANGED = 4096  # bytes of shared memory beside stages, for scores that threads exchange
_TENSOR_GAIN = 16  # how much faster tensor cores are than CUDA cores
# Products of a chain on mma.sync, where threads compute nothing beside them.  Attention, heads of
# 40, 64 x 2100, an H200: by 32 x 128 465 us, by 64 x 128 282, by 128 x 128 223.
_SYNCHRONOUS = 2.0
# Of products without a loop by so many rows, beside `busy`: there is one block to a multiprocessor,
# and nothing is computed while it loads and stores.  Three layers of 64 on an H200: 2 million
# points by 256 rows 167 us, by 128 103, by 64 104.
_ONCE, _ONCE_ROWS = 3.0, 256
# The same where a product stands beside a loop, of more than one warpgroup.  Scans of chunks on an
# H200: of 256 by 128 rows 1103 us, by 64 989, of 192 306 and 221.
_BEFORE = 1.1


def cost(profile: Profile, target: Target) -> float:
    """Relative time of the kernels with these features; infinite for tiles without elements, which
    a value of 0 predicts."""
    if any(extent < 1 for feature in profile for extent in feature.extents):
        return inf
    form = next((f.form for f in profile if f.kind == "kernel"), "")
    rows = max((f.extents[-3] for f in profile if f.kind == "dot"), default=0)
    alone = _ONCE if form == "once" and rows >= _ONCE_ROWS else (
        _BEFORE if form == "before" and rows > residency.ROWS else 1.0)
    return alone * _cost(profile, target)


def _once(profile: Profile) -> bool:
    """Whether products are in no loop."""
    return any(f.kind == "kernel" and f.form == "once" for f in profile)


def _cost(profile: Profile, target: Target) -> float:
    dots = joined([_with_taps(f) for f in profile if f.kind == "dot"])
    if not dots:
        from tritonc.tune.model.rows import stream_cost  # where there is no product

        return stream_cost(profile)
    if len(dots) == 1:
        return waiting(profile, target) * _product_cost(
            dots[0], target, _live(profile), max(1.0, spread(profile)),
            sum(f.bytes for f in profile if f.kind == "behind"), _once(profile))
    found = [_instructions(dot, target) for dot in dots]
    if all(found) and all(dot.extents[-3] < residency.ROWS for dot in dots):
        products = [_chained(dot, dot.extents[-3:]) for dot in dots]
        if any(residency.exceeds_registers([product], dots[0].bytes) for product in products):
            return _few_rows_cost(products, dots[0].bytes, target)
    if all(rows and rows[0].kind == matrix.WGMMA for rows in found):
        return _mean([[dot for dot in dots if dot.place == place]
                      for place in dict.fromkeys(dot.place for dot in dots)], target)
    return max(_product_cost(dot, target) for dot in dots)


def waiting(profile: Profile, target: Target) -> float:
    """How much longer a product takes with which threads compute in each step, beside those of
    other warpgroups, of which four have neither registers for that nor a producer.  H200: a bias'
    gradient from two products by 64 x 64 809 us, by 128 x 64 992, by 128 x 128, which spills, 981;
    sums of exponentials by 64 x 128 288, by 128 x 128 311, by 256 x 64 663."""
    dots = joined([_with_taps(f) for f in profile if f.kind == "dot"])
    if len(dots) != 1 or _once(profile) or not computes(profile) or not (
            found := _instructions(dots[0], target)) or found[0].kind != matrix.WGMMA:
        return 1.0
    m, n, k = dots[0].extents
    return residency.SPILLS if m > residency.ENOUGH * residency.ROWS else 1 / residency.busy(
        [_chained(dots[0], padded((m, n, k))), residency.Chained(m, _live(profile) // m, 0)],
        dots[0].bytes, target)


def _live(profile: Profile) -> int:
    """The registers, of all threads, that hold other tiles beside products."""
    return sum(prod(f.extents) * max(f.bytes, 4) // 4 for f in profile if f.kind == "live")


def _with_taps(dot: Feature) -> Feature:
    """A product as deep as a step of its loop is, in which taps run side by side."""
    *rows, k = dot.extents
    taps = dot.side_by_side
    return dot._replace(extents=(*rows, k * taps), taps=(prod(dot.taps) // taps,))


def _mean(chains: list[list[Feature]], target: Target) -> float:
    """Of the chains of products of several loops, which are taken to be as long: each takes time
    for each of its products.  If one does not fit into registers, what that one costs."""
    costs = [_chain_cost(chain, target) for chain in chains]
    if max(costs) >= residency.SPILLS:
        return max(costs)
    return sum(cost * len(chain) for cost, chain in zip(costs, chains, strict=True)) / sum(
        map(len, chains))


def _chain_cost(dots: list[Feature], target: Target) -> float:
    """Of the products on wgmma of one block; by few rows they are on mma.sync."""
    if len(dots) == 1:
        return _product_cost(dots[0], target)
    brought_once = [dot._replace(fixed=True, computed=dot.sides[1], sides=(False, dot.sides[1]))
                    if dot.left == "fixed" else dot for dot in dots]
    found = max(_product_cost(dot, target, fixed=dot.fixed_bytes) for dot in brought_once)
    if min(dot.extents[-3] for dot in dots) < residency.ROWS:
        found *= _SYNCHRONOUS
    products = [_chained(dot, padded(dot.extents[-3:])) for dot in dots]  # as registers have it
    if residency.exceeds_registers(products, dots[0].bytes):
        return residency.SPILLS + residency.held(products, dots[0].bytes)
    if dots[0].extents[-3] < residency.ROWS and dots[-1].again and found < residency.SPILLS:
        return found * _waiting(products)
    # What is computed between products is computed in their padding, too.
    more = max(p.k / dot.extents[-1] if p.left == "registers" else 1
               for p, dot in zip(products, dots, strict=True))
    return more * found / residency.busy(products, dots[0].bytes, target)


def _chained(dot: Feature, extents: Sequence[int]) -> residency.Chained:
    """As registers and shared memory have it; products that make one sum have tiles of their own,
    each with its padding."""
    m, n, k = extents
    k = sum(padded(dot.parts)) or k
    raw = dot.raw[1] * (m < residency.ROWS)
    return residency.Chained(m, n, k, dot.left, dot.again, dot.added, dot.short, raw, dot.fresh)


def _few_rows_cost(products: list[residency.Chained], size: int, target: Target) -> float:
    """Of a chain of few rows on mma.sync, one result of which is longer than what a thread of wgmma
    holds: a step waits for what it brings, so the more the better that fits."""
    registers = sum(p.m * p.n for p in products) / 128
    shared = residency.brought(products, size)
    if registers > matrix.ACCUMULATORS or shared > target.shared_per_block - _EXCHANGED:
        return residency.SPILLS + registers + shared
    return _waiting(products) * residency.ROWS / products[0].m  # what is brought serves so many


def _waiting(products: list[residency.Chained]) -> float:
    """How much longer the steps take that wait for what they bring, of products of few rows."""
    return 1 + _FEW_STEP / min(p.n for p in products)


def _instructions(dot: Feature, target: Target) -> list[matrix.MatrixInstruction]:
    """Those of the target that can be the dot's, the best first."""
    *batch, _, _, _ = dot.extents
    return [row for row in matrix.INSTRUCTIONS if row.feature in target.features
            and str(row.operand) == dot.element and prod(batch) <= matrix.MOST_BATCH and (
                row.kind != matrix.WGMMA or (not batch and (
                    reads(row, *dot.inner) or reads(row, *dot.inner[::-1]))))]


def _product_cost(dot: Feature, target: Target, carried: int = 0, spread: float = 1.0,
                  behind: int = 0, once: bool = False, fixed: int = 0) -> float:
    """Of a dot on tensor cores, where it can be, or on CUDA cores; 1 is the peak of the best.

    `carried` is the registers, of all threads, that hold other tiles meanwhile; `spread`, how many
    bytes come from memory for one of an operand; `behind`, the instructions for each result that
    follow behind the loop.
    """
    rows = _instructions(dot, target)
    if not rows:
        return core_cost(dot, target, carried, spread, once)
    *batch, m, n, k = dot.extents
    for row in rows:
        if row.takes(m, n, k):
            slower = 2 if row.kind != matrix.WGMMA and rows[0].kind == matrix.WGMMA else 1
            whole = dot._replace(extents=(*batch, max(m, row.rows), max(n, row.columns), k))
            repeated = prod(whole.extents) / prod(dot.extents)
            return slower * repeated * tma_cost(
                whole, row, target, carried, spread, behind, fixed)
    return _TENSOR_GAIN * core_cost(dot, target, carried, spread)
