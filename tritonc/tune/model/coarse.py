"""A second, smaller tile for launches of few programs, by the cost model.

One entry can have two bodies (`coarsen`): the host launches a block for each small tile, and where
these are more than a limit, blocks compute large ones.  Blocks beyond those end at once, which is
not for nothing where a block fills a multiprocessor: that is why the small tile may not be as small
as few programs would like it.  Clusters of two blocks that share a loop are worth twice as many
tiles of that size, and end at once still more slowly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import log2, prod
from typing import NamedTuple

from tritonc.backend.dots.together import chained
from tritonc.backend.launch.coarsen import AXES, MOST, ratios
from tritonc.backend.target.target import Target
from tritonc.tune.model.choose import Binding, Lower, ranked
from tritonc.tune.model.cluster_blocks import priced
from tritonc.tune.model.features import Profile, features
from tritonc.tune.model.portfolio import Form, form_of
from tritonc.tune.model.times import computing, formula
from tritonc.variants import choice
from tritonc.variants.choice import Cost

MOST_PARTS = 8  # small tiles of a large one, at most,
# The extent of a small one along each axis that it cuts, at least; on wgmma 64 x 32 is
# slower than the model says.
LEAST, LEAST_WGMMA = 32, 64
# Of a step, where the large body has more warps than the small tile would get: they share its
# inner axis (measured with 4 and 8 warps: convolutions by 64 x 64 1.25, products 1.0 to 1.15).
_SHARED_OUT = 1.05
# Clock cycles that a block takes which ends at once, of those of a multiprocessor: alone on it, or
# beside others.  H200: 0.14 us and 0.04 us of an empty one, 0.16 us in products.
_ENDS = (290, 70)
_ENDS_CLUSTERED = (600, 140)  # of each block of a cluster (H200: 0.34 us alone; more, of 50,000)
# A body for launches of which some share loops and others do not, whose steps are no numbers:
# without and with an operand that is computed (1.02 to 1.04; 1.01 to 1.35).
_SOME_SHARE = (1.04, 1.2)
CLUSTER = 2  # blocks of a cluster: the large body needs all multiprocessors
_MOST_LOST = 0.03  # of a launch of many programs, by blocks that end at once;
# by those of clusters, where the large tile is of these extents: who lists no larger ones has few
# launches of very many programs.
_MOST_LOST_CLUSTERED = 0.2
_MEASURED = (128, 128)
# Of blocks that stand beside each other on a multiprocessor, the first of a launch are not spread
# evenly: on an H200, 128 and 196 that compute before 896 and more that end take so much longer.
# A part of the chip with few multiprocessors gets as many blocks as the others, until it is full:
# with more than fill all but the last place of each, all have as many.  On CUDA cores all launches
# that leave places empty count: tiles chosen otherwise were slower (conv_table of 28 x 28).
_UNEVEN = 1.5
_MOST_WORK = 4  # operations of an element of an operand; 2 are its mask
_WORTH = 0.1  # of the logarithm to 2 of the time that a second body saves, over the launches below
# Of products whose operand each tile computes anew.  Int4 weights, 2048 in cube: 0.049 ms by 512
# programs of 128 x 64, 0.031 by 128 of 128 x 256 (H200).
_MOST_COMPUTED = 2
_LIMITS = (1, 2, 3, 4, 6, 8, 12, 16, 24)  # programs for each multiprocessor that run the small body
# The launches that it is chosen for: extents along the first two axes, of further ones, lengths.
_EXTENTS = (16, 64, 256, 512, 1024, 2048, 4096, 12288)
_LENGTHS = (512, 4096)
_MANY = (4096, 4096), (512, 512, 64)  # a launch of many programs, and one of a batch;
_DEEP = 2048, 256  # their loops
_UNIT = 4  # of a cycle, in a `Cost`
_TAPS = 3  # iterations of loops around the innermost

Launch = tuple[tuple[int, ...], tuple[int, ...]]  # extents of the range, lengths of loops


class Small(NamedTuple):
    """The tunables of the small body, the programs of a launch up to which it shall run, and how
    many of its tiles take as long as a large one where there are many."""

    binding: Binding
    most: int
    worth: int = 1
    shared: int = 0  # up to so many programs, the blocks of a cluster share its loops


class _Row(NamedTuple):
    """A combination, what the model read of it, its tile, and how it is computed."""

    binding: Binding
    profile: Profile
    tile: tuple[int, ...]
    depths: tuple[int, ...]
    kind: str
    threads: int


class _Candidate(NamedTuple):
    """A combination, its cost, what computes it, its tile; programs and times of the launches."""

    binding: Binding
    cost: Cost
    kind: str
    tile: tuple[int, ...]
    programs: list[int]
    times: list[int]
    shared: int = 0  # programs up to which clusters share loops


def small(space: Mapping[str, Sequence[int]], lower: Lower, target: Target, large: Binding,
          clusters: bool = False) -> Small | None:
    """The small body beside `large`, a combination of `space`; None where the model knows no cost,
    or saves too little.  `clusters` can share the kernel's loops."""
    if "async_copy" not in target.features:  # small tiles that wait for each load are not measured
        return None
    form = form_of(space, lower)
    (kernel,) = lower(large).kernels
    if form is None or not form.loops or any(map(chained, kernel.blocks)):
        return None
    sizes = (1, CLUSTER) if clusters and form.axes < AXES else (1,)
    found = _candidates(space, lower, target, large, form, [*_launches(form)], sizes)
    whole = next((each for each in found if each.binding == large), None)
    if whole is None:
        return None
    filled = whole.cost.processors * whole.cost.blocks - 1  # fewer tiles leave places empty
    if whole.kind == "wgmma":
        filled = whole.cost.processors * (whole.cost.blocks - 1)
    joined = [time * (_UNEVEN if whole.cost.blocks > 1 and count <= filled else 1)
              for time, count in zip(whole.times, whole.programs, strict=True)]
    computed = any(any(feature.raw) for feature in features(kernel))
    best, saved, chosen = None, _WORTH * len(joined), 0
    for each in found:
        ends = _UNIT * _ends(whole.cost, each.shared > 0) / whole.cost.processors
        gains = [(count, log2(old / (both + count * ends)), log2(old / new))
                 for count, old, both, new in zip(each.programs, whole.times, joined, each.times,
                                                  strict=True)]
        # A large tile, at least, for each multiprocessor: fewer may meet on one.
        least = prod(whole.tile) // prod(each.tile) if whole.cost.blocks > 1 else 1
        limits = [min(MOST, max(limit, least) * target.multiprocessors) for limit in _LIMITS
                  if limit <= _MOST_COMPUTED or not computed or whole.kind != "wgmma"]
        for most in [*filter(None, [each.shared]), *limits] if each is not whole else ():
            lost = log2(_SOME_SHARE[computed]) if most > each.shared > 0 else 0.0
            gain = sum(new - lost if count <= most else old for count, old, new in gains)
            if gain > saved:
                best, saved, chosen = each, gain, most
    if best is None:
        return None
    return Small(best.binding, chosen, max(1, int(_rate(whole.cost) / _rate(best.cost))),
                 best.shared)


def _rate(cost: Cost) -> float:
    """What a tile takes of a multiprocessor that is full, for a unit of the loop."""
    return max(cost.busy, cost.wait / cost.blocks) / (cost.depths[0] if cost.depths else 1)


def _candidates(space: Mapping[str, Sequence[int]], lower: Lower, target: Target, large: Binding,
                form: Form, launches: Sequence[Launch], sizes: Sequence[int]
                ) -> list[_Candidate]:
    """`large`, and the combinations whose tiles cut its tile into a few parts, by clusters of these
    `sizes`."""
    rows = [_Row(row.binding, row.profile, form.tiles[key], form.depths[key],
                 *computing(row.profile, target)) for row in ranked(space, lower, target)
            if row.cost < 1e6 and row.profile and _plain(row.profile, target) and (
                key := tuple(row.binding[name] for name in space))]
    whole = next((row for row in rows if row.binding == large), None)
    if whole is None:
        return []
    found, least = [], LEAST_WGMMA if whole.kind == "wgmma" else LEAST
    beside = formula(whole.profile, whole.depths, target)
    square = all(dot.extents[-3:-1] == _MEASURED for dot in whole.profile if dot.kind == "dot")
    lost = {1: _MOST_LOST, CLUSTER: _MOST_LOST_CLUSTERED if square else _MOST_LOST}
    most = {size: _most_parts(beside, whole.tile, form, size, lost[size]) for size in sizes
            if size == 1 or whole.kind != "mma"}  # of which no clusters are measured
    for row in rows:
        times = ratios(dict(enumerate(whole.tile)), dict(enumerate(row.tile)))
        if row is whole:
            found.append(_candidate(row, beside, launches))
        elif times is not None and all(part >= least for axis, part in enumerate(row.tile)
                                       if times[axis] > 1):
            # Shared memory and warps are those of both.
            more = _SHARED_OUT if row.kind == "wgmma" and row.threads < whole.threads else 1
            cost = formula(row.profile, row.depths, target)
            cost = cost._replace(blocks=min(cost.blocks, beside.blocks),
                                 wait=round(cost.wait * more))
            found += [_candidate(row, cost, launches, size, priced(
                row.profile, row.depths, target, size)) for size in most
                if prod(times.values()) * size <= most[size]]
    return found


def _candidate(row: _Row, cost: Cost, launches: Sequence[Launch], size: int = 1,
               split: Cost | None = None) -> _Candidate:
    """A combination of this `cost`; `split` is that of clusters of `size` which share its loops, as
    they do where all programs run at once."""
    programs = [_tiles(extents, row.tile) for extents, _ in launches]
    shared = split.processors if size > 1 and split is not None else 0
    times = [choice.time(split if split is not None and count <= shared else cost, row.tile,
                         extents, lengths)
             for count, (extents, lengths) in zip(programs, launches, strict=True)]
    binding = {**row.binding, "cluster_k": size} if shared else row.binding
    return _Candidate(binding, cost, row.kind, row.tile, programs, times, shared)


def _plain(profile: Profile, target: Target) -> bool:
    """Whether products are added up as they are and, on tensor cores, little is computed beside
    them but an operand from narrower numbers.  Others were slower with two bodies (fp8_block,
    conv_nhwc_flat and shift_conv_half of bench/suite)."""
    dots = [feature for feature in profile if feature.kind == "dot"]
    work = sum(prod(feature.extents) for feature in profile if feature.kind == "work")
    staged = sum(prod(dot.extents) // dot.extents[-2] + prod(dot.extents) // dot.extents[-3]
                 for dot in dots)
    return not any(dot.scaled for dot in dots) and (
        (kind := computing(profile, target)[0]) == "cores" or work <= _MOST_WORK * staged
        or (kind == "wgmma" and any(any(dot.raw) for dot in dots)))


def _tiles(extents: Sequence[int], tile: Sequence[int]) -> int:
    return prod(-(-extent // part) for extent, part in zip(extents, tile, strict=True))


def _most_parts(cost: Cost, tile: tuple[int, ...], form: Form, size: int, lost: float) -> float:
    """How many blocks a large tile may have, small tiles in clusters of `size`, so that those that
    end at once take no more than this share of the time."""
    batch = form.axes > 2
    extents = _MANY[batch][:form.axes]
    lengths = (_DEEP[batch], *[_TAPS] * (len(form.loops) - 1))
    each = _tiles(extents, tile) / cost.processors * _UNIT * _ends(cost, size > 1) / size
    return min(MOST_PARTS, 1 + lost * choice.time(cost, tile, extents, lengths) / each)


def _ends(cost: Cost, clustered: bool) -> int:
    """What the blocks of a small tile take that end at once."""
    beside = cost.blocks > 1
    return CLUSTER * _ENDS_CLUSTERED[beside] if clustered else _ENDS[beside]


def _launches(form: Form) -> Iterator[Launch]:
    axes = [_EXTENTS if axis < 2 else (1,) for axis in range(form.axes)]
    for *extents, length in product(*axes, _LENGTHS):
        yield tuple(extents), (length, *[_TAPS] * (len(form.loops) - 1))
