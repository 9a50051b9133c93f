"""A second, smaller tile for launches of few programs, by the cost model.

One entry can have two bodies (`coarsen`): the host launches a block for each small tile, and where
these are more than a limit, blocks compute large ones.  Blocks beyond those end at once, which is
not for nothing where a block fills a multiprocessor: that is why the small tile may not be as small
as few programs would like it.  For these there are other entries, where launches choose among
entries (`Few`): a cluster of blocks shares the loop of each program.  Launches that one entry does
not serve, as narrow ones or batches of small matrices, have one more or two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log2, prod

from tritonc.backend.dots.together import chained
from tritonc.backend.launch.coarsen import AXES, MOST, ratios
from tritonc.backend.target.matrix import LARGE
from tritonc.backend.target.target import Target
from tritonc.ir.types import TF32
from tritonc.later import LaterModule
from tritonc.records import NamedTuple
from tritonc.tune.model.blocks import computing
from tritonc.tune.model.choose import Binding, Lower, ranked
from tritonc.tune.model.feature import LINE, Profile, near_bytes
from tritonc.tune.model.launches import (
    ALL_EXTENTS,
    ALL_LENGTHS,
    BATCHES,
    FILTERS,
    PIXELS,
    TAPS,
    Candidate,
    Launch,
    count_tiles,
    launches_of,
    with_times,
)
from tritonc.tune.model.loops import Around
from tritonc.tune.model.measured import MOST_SENT
from tritonc.tune.model.pingpong import ENDED, can_pingpong
from tritonc.tune.model.pingpong_entries import (
    BodyInTurns,
    beside_pingpong,
    pingpong_body,
    pingpong_entries,
    priced_together,
    rate,
)
from tritonc.tune.model.portfolio import DOUBT_SCALED, Form, Member, form_of, slower
from tritonc.tune.model.times import UNIT, doubtful, formula
from tritonc.variants import choice
from tritonc.variants.choice import Cost

narrow_entries = LaterModule("tritonc.tune.model.narrow_entries")
entries = LaterModule("tritonc.tune.model.entries")
cluster_times = LaterModule("tritonc.tune.model.cluster_times")
chains = LaterModule("tritonc.tune.model.chains")
MOST_PARTS = 8  # small tiles of a large one, at most;
FEW_PARTS = 2  # beside entries of clusters, which take the launches of fewest programs
# The extent of a small one along each axis that it cuts, at least; on wgmma 64 x 32 is
# slower than the model says.
LEAST, LEAST_WGMMA = 32, 64
# Of a step, where the large body has more warps than the small tile would get: they share its
# inner axis (measured with 4 and 8 warps: convolutions by 64 x 64 1.25, products 1.0 to 1.15).
_SHARED_OUT = 1.05
# The same where the large body has a producer warp, and cycles of such a launch.  Halves by 128 x
# 64 beside 128 x 256, by 64 x 128 alone: 2048 x 512 x 512 5.8 us, 5.0, 1024 in cube 7.8, 7.2, 200
# x 4096 x 4096 22.5, 19.8, 2368 x 384 x 4096 20.7, 18.4, by half of the depth 24.5.
_PRODUCER, _LARGER = 1.2, 800
# Clock cycles that a block takes which ends at once, of those of a multiprocessor: alone on it, or
# beside others.  H200: 0.14 us and 0.04 us of an empty one, 0.16 us in products.
_ENDS = (290, 70)
_MOST_LOST = 0.03  # of a launch of many programs, by blocks that end at once
# Of blocks that stand beside each other on a multiprocessor, the first of a launch are not spread
# evenly: on an H200, 128 and 196 that compute before 896 and more that end take so much longer.
# A part of the chip with few multiprocessors gets as many blocks as the others, until it is full:
# with more than fill all but the last place of each, all have as many.  On CUDA cores all launches
# that leave places empty count: tiles chosen otherwise were slower (conv_table of 28 x 28).
_UNEVEN = 1.5
_MOST_WORK = 4  # operations of an element of an operand; 2 are its mask
_WORTH = 0.1  # of the logarithm to 2 of the time that a second body saves, over the launches below
# The same of an entry of clusters and, on tensor cores, of one more of larger tiles,
_WORTH_FEW = (0.1, 0.01)
_LEAST_WORK, _LARGEST = 1 << 27, 1 << 40  # multiply-adds of those launches
# Of other entries, at most so many: each lessens the fourth power of the logarithm of what launches
# take too long by, which is mostly that of the worst.
_OTHERS, _POWER, _WORTH_OTHER = 2, 4, 0.001
_DOUBT = 0.03
_DOUBT_CORES = 0.2  # conv_nchw of 28 x 28 by 64 x 128 took 1.2 times as long as by two bodies
_MOST_THREADS = 256  # 32 x 256 by four warpgroups: 1.8 times as long as 64 x 128 (conv_nhwc_flat)
# Of products whose operand each tile computes anew.  Int4 weights, 2048 in cube: 0.049 ms by 512
# programs of 128 x 64, 0.031 by 128 of 128 x 256 (H200).
_MOST_COMPUTED = 2
_LIMITS = (1, 2, 3, 4, 6, 8, 12, 16, 24)  # programs for each multiprocessor that run the small body
_MANY = (4096, 4096), (512, 512, 64)  # a launch of many programs, and one of a batch;
_DEEP = 2048, 256  # their loops


class Small(NamedTuple):
    """The tunables of the small body, the programs of a launch up to which it shall run, and how
    many of its tiles take as long as a large one where there are many; the costs of both bodies,
    and the tile of the large one, where that computes its last round in small tiles; a third body,
    whose warpgroups take programs in turn."""

    binding: Binding
    most: int
    worth: int = 1
    cost: Cost | None = None
    large: tuple[tuple[int, ...], Cost] | None = None
    turned: BodyInTurns | None = None


class Few(NamedTuple):
    """Entries beside the general one.  Those of clusters are for launches whose clusters run all at
    once, others for what the tiles of the general entry are too wide or deep for, or too small:
    their tunables and costs; the costs of the general entry's bodies; the loops; what holds where
    rows are aligned."""

    members: tuple[Member, ...]
    general: Cost
    large: tuple[tuple[int, ...], Cost] | None
    loops: tuple[Around, ...]
    aligned: list[dict[str, int]]


def bodies(space: Mapping[str, Sequence[int]], lower: Lower, target: Target, large: Binding,
           clusters: bool = False) -> tuple[Small | None, Few | None]:
    """What to have beside `large`, a combination of `space`: a small body, and with `clusters`
    other entries; None where the model knows no cost, or they save too little."""
    found = _combinations(space, lower, target, large)
    if found is None:
        chain = chains.more_rows(space, lower, target, large) if clusters else None
        return None, chain and Few((chain[0],), chain[1], None, chain[2], [])
    rows, whole, form = found
    launches = [*launches_of(form)]
    small = _small(rows, whole, form, target, launches)
    if not clusters:
        return small and _with_last_round(rows, whole, small._replace(
            turned=pingpong_body(rows, whole, _general(rows, whole, small), form, target)),
            target), None
    sizes = cluster_times.cluster_sizes(lower(large).kernels[0], target)
    if narrow_entries.are_converted(whole, form):  # entries serve launches of few programs better
        small, general = None, whole
        few = narrow_entries.entries([row for row in rows if row.threads <= _MOST_THREADS],
                                     [whole], form, target, sizes)
    elif entries.are_covered(whole, form):
        general, whole = _both(rows, whole, small, target)
        few = entries.covering(rows, [general, whole], form, target, sizes)
    else:
        few = _few(rows, whole, form, target, sizes[1:], small)
        if few and small is not None and whole.kind == "cores":
            small = _small(rows, whole, form, target, launches, 0, FEW_PARTS)
        if few and small is not None and whole.kind == "cores":
            tile = _general(rows, whole, small).tile
            meet = prod(whole.tile) // prod(tile) * whole.cost.blocks * target.multiprocessors
            small = small._replace(most=min(MOST, max(small.most, meet)))
        general = _general(rows, whole, small)
        turned = pingpong_entries(rows, form, target,
                                  beside_pingpong([whole, general, *few], general))
        few += _others(rows, whole, form, small, [*few, *turned])
        if turned:
            whole, general, *few = beside_pingpong([whole, general, *few], general)
            few += turned
    return small, Few(tuple(Member(row.binding, row.cost) for row in few), general.cost,
                      (whole.tile, whole.cost) if small else None, form.loops,
                      cluster_times.aligned(lower(large).kernels[0], target)) if few else None


def _combinations(space: Mapping[str, Sequence[int]], lower: Lower, target: Target, large: Binding
                  ) -> tuple[list[Candidate], Candidate, Form] | None:
    """All that the model knows the cost of, `large` among them and by itself, and the form."""
    if "async_copy" not in target.features:  # small tiles that wait for each load are not measured
        return None
    form = form_of(space, lower)
    (kernel,) = lower(large).kernels
    if form is None or not form.loops or any(map(chained, kernel.blocks)):
        return None
    rows = []
    for row in ranked(space, lower, target):
        if row.runs:
            tile, depths = form.cuts(row.binding)
            rows.append(Candidate(row.binding, row.profile, tile, *computing(row.profile, target),
                                   formula(row.profile, depths, target)))
    whole = next((row for row in rows if row.binding == large), None)
    return whole and (rows, whole, form)


def _general(rows: Sequence[Candidate], whole: Candidate, small: Small | None) -> Candidate:
    """What an entry computes launches of few programs by."""
    found = next((_beside(row, whole) for row in rows if small is not None
                  and row.binding == small.binding), None)
    if found is None or whole.kind != "wgmma" or prod(whole.tile) < LARGE:
        return found or whole
    return found._replace(cost=found.cost._replace(
        once=found.cost.once + UNIT * _LARGER, wait=round(found.cost.wait * _PRODUCER)))


def _both(rows: Sequence[Candidate], whole: Candidate, small: Small | None, target: Target
          ) -> tuple[Candidate, Candidate]:
    """The bodies of an entry: that of launches of few programs, and the large one, with its last
    round."""
    own = _general(rows, whole, small)
    found = small and _with_last_round(rows, whole, small, target).large
    whole, own = priced_together(whole, own if small else None), priced_together(own)
    if found:
        whole = whole._replace(cost=whole.cost._replace(parts=found[1].parts, part=found[1].part))
    return own, whole


def _with_last_round(rows: Sequence[Candidate], whole: Candidate, small: Small, target: Target
                     ) -> Small:
    own = _general(rows, whole, small)
    if any(can_pingpong(row.profile, target) for row in rows):
        whole, own = map(priced_together, (whole, own))
        # The last round, which starts sooner, counts as others: of blocks that end at once, one.
        whole = whole._replace(cost=whole.cost._replace(start=whole.cost.start + UNIT * ENDED))
    if whole.kind != "wgmma" or prod(whole.tile) < LARGE or small.worth < 2 or not own.cost.depths:
        return small
    step = max(own.cost.busy, own.cost.wait) * whole.cost.depths[0] // own.cost.depths[0]
    cost = whole.cost._replace(parts=prod(whole.tile) // prod(own.tile), part=step)
    return small._replace(cost=own.cost, large=(whole.tile, cost))


def _small(rows: Sequence[Candidate], whole: Candidate, form: Form, target: Target,
           launches: Sequence[Launch], worth: float = _WORTH, parts: int = MOST_PARTS
           ) -> Small | None:
    if not _plain(whole.profile, target) or _rounded(whole):
        return None
    whole = with_times(whole, launches)
    filled = whole.cost.processors * whole.cost.blocks - 1  # fewer tiles leave places empty
    if whole.kind == "wgmma":
        filled = whole.cost.processors * (whole.cost.blocks - 1)
    joined = [time * (_UNEVEN if whole.cost.blocks > 1 and count <= filled else 1)
              for time, count in zip(whole.times, whole.programs, strict=True)]
    computed = any(any(feature.raw) for feature in whole.profile)
    ends = UNIT * _ENDS[whole.cost.blocks > 1] / whole.cost.processors
    best, saved = None, worth * len(joined)
    for each in _parts(rows, whole, form, target, parts):
        each = with_times(each, launches)
        gains = [(count, log2(old / (both + count * ends)), log2(old / new))
                 for count, old, both, new in zip(each.programs, whole.times, joined, each.times,
                                                  strict=True)]
        # A large tile, at least, for each multiprocessor: fewer may meet on one.
        least = prod(whole.tile) // prod(each.tile) if whole.cost.blocks > 1 else 1
        for most in [min(MOST, max(limit, least) * target.multiprocessors) for limit in _LIMITS
                     if limit <= _MOST_COMPUTED or not computed or whole.kind != "wgmma"]:
            gain = sum(new if count <= most else old for count, old, new in gains)
            if gain > saved:
                saved = gain
                best = Small(each.binding, most,
                             max(1, int(rate(whole.cost) / rate(each.cost))))
    return best


def _few(rows: Sequence[Candidate], whole: Candidate, form: Form, target: Target,
         sizes: Sequence[int], small: Small | None) -> list[Candidate]:
    """The entries of clusters to have beside an entry with such a small body."""
    if form.axes >= AXES or whole.kind == "mma" or not sizes:  # of mma none are measured
        return []
    launches = [launch for launch in launches_of(form)
                if prod((*launch[0], *launch[1])) >= _LEAST_WORK]
    least = [*map(min, *(with_times(row, launches).times for row in (
        whole, _general(rows, whole, small))))]
    doubt = DOUBT_SCALED if any(feature.scaled for feature in whole.profile) else _DOUBT
    meet = cluster_times.clusters_meet(whole.profile, target)
    known = []
    for row in rows:
        if prod(row.tile) > _most_sent(row) or row.threads > _MOST_THREADS or (
                _of_words(row) and not _is_square(row)) or (
                _gathers(row.profile) and min(row.tile) < LEAST_WGMMA):
            continue
        for blocks in sizes:
            cost = cluster_times.priced(row.profile, row.cost.depths, target, blocks)
            if cost is not None:
                known.append(row._replace(binding={**row.binding, "cluster_k": blocks},
                                          cost=slower(cost, doubt)))
    chosen: list[Candidate] = []
    for worth in _WORTH_FEW:
        # One entry for the fewest programs, whose clusters run all at once.
        timed = [with_times(row if meet and chosen else row._replace(
            cost=row.cost._replace(blocks=0)), launches) for row in known]
        gains = [sum(log2(max(1.0, old / new)) for old, new in zip(least, row.times, strict=True))
                 for row in timed]
        best = max(range(len(timed)), key=lambda i: gains[i], default=None)
        if best is None or gains[best] < worth * len(launches):
            break
        chosen.append(timed[best])
        least = [*map(min, least, timed[best].times)]
        known = [row for row in known if prod(row.tile) > prod(chosen[0].tile)
                 and row.cost.processors >= chosen[0].cost.processors]  # for more programs
    return chosen


def _of_words(row: Candidate) -> bool:
    """Whether wgmma computes a product of tf32."""
    return row.kind == "wgmma" and any(
        one.kind == "dot" and one.element == str(TF32) for one in row.profile)


def _is_listed(row: Candidate) -> bool:
    """Whether its sides are powers of two.  Those between fill rounds of some launches, which have
    entries of their own; for all launches 64 x 144 and 208 x 64 were worse than 64 x 128: 16 x
    14336 x 4096 33.3 us for 26.7, 1024 in cube 1.1 times as long."""
    return not any(side & (side - 1) for side in row.tile)


def _is_square(row: Candidate) -> bool:
    """Whether its sides are those with which tf32 was measured.  Rows that a tensor lacks cost the
    most: 4096 x 128 x 4096 by 64 x 256 took 78 us, 26 by 128 x 64."""
    return min(row.tile[:2]) >= LEAST_WGMMA and max(row.tile[:2]) <= 128


def _rounded(row: Candidate) -> bool:
    """Whether TMA rounds an operand on its way, in small tiles too: a second body has none."""
    return _of_words(row) and any(any(one.inner) for one in row.profile if one.kind == "dot")


def _most_sent(row: Candidate) -> int:
    """The largest tile whose blocks send each other what the model says.  Of tf32, 128 x 128 in
    clusters of two was the best of all tiles (1024 in cube 13.3 us, 17.1 by one block)."""
    return LARGE if _of_words(row) else MOST_SENT


def _others(rows: Sequence[Candidate], whole: Candidate, form: Form, small: Small | None,
            few: Sequence[Candidate]) -> list[Candidate]:
    """Entries without clusters to have beside those with clusters.  None of products whose sums
    are computed, and none small of those whose operands are: by them int8_linear took 1.15 to
    1.2 times as long, fp8_block 1.1 and 0.93 times.  Rows that are gathered are gathered anew for
    each tile beside another: 161 x 700, one channel, by 64 x 32 took 0.404 ms, and 0.21 by 64 x
    128."""
    converted = any(any(feature.raw) for feature in whole.profile)
    if any(feature.scaled for feature in whole.profile):
        return []
    lengths = [length // TAPS ** (len(form.loops) - 1) for length in ALL_LENGTHS]
    sides = _sides(whole.profile)
    extents = [PIXELS if far else FILTERS if any(sides) else ALL_EXTENTS for far in sides]
    launches = [launch for launch in launches_of(form, extents, BATCHES, lengths)
                if _LEAST_WORK <= prod((*launch[0], *launch[1])) <= _LARGEST]
    own = doubtful(whole.profile, whole.cost)
    known = [with_times(row._replace(cost=slower(row.cost, _DOUBT + max(0.0, doubtful(
                row.profile, row.cost) - own))), launches)
             for row in rows if row.threads <= _MOST_THREADS and _is_listed(row) and not (
                 0 < near_bytes(row.profile) < LINE) and (
                 not _of_words(whole) or (row.kind == whole.kind and _is_square(row))) and (
                 not converted or (prod(row.tile) >= LARGE
                                   and row.cost.depths >= whole.cost.depths)) and (
                 row.kind == "cores" or not _gathers(row.profile)
                 or min(row.tile[:2]) >= LEAST_WGMMA)]
    if not known:
        return []
    least = [*map(min, *(with_times(row, launches).times
                         for row in (whole, _general(rows, whole, small), *few)))]
    best = [*map(min, least, *(row.times for row in known))]

    def excess(times: Sequence[int]) -> float:
        return sum(log2(time / fastest) ** _POWER
                   for time, fastest in zip(map(min, least, times), best, strict=True))

    chosen: list[Candidate] = []
    while known and len(chosen) < _OTHERS:
        found = min(known, key=lambda row: excess(row.times))
        if excess(least) - excess(found.times) < _WORTH_OTHER * len(launches):
            break
        chosen.append(found)
        least = [*map(min, least, found.times)]
    near = [(sum(log2(max(1.0, old / new)) for old, new in zip(least, row.times, strict=True)), i)
            for i, row in enumerate(known) if near_bytes(row.profile)]
    if near and max(near)[0] >= _WORTH_FEW[1] * len(launches):  # tiles of half and of full width
        chosen.append(known[max(near)[1]])
    doubt = _DOUBT_CORES if whole.kind == "cores" else 0
    return [row._replace(cost=slower(row.cost, doubt)) for row in chosen]


def _gathers(profile: Profile) -> bool:
    return any(feature.computed for feature in profile)


def _sides(profile: Profile) -> tuple[bool, bool]:
    """Which axes of a range are those of rows that a product gathers, pixels as a rule."""
    dots = [feature for feature in profile if feature.kind == "dot"]
    return any(dot.sides[0] for dot in dots), any(dot.sides[1] for dot in dots)


def _parts(rows: Sequence[Candidate], whole: Candidate, form: Form, target: Target, parts: int
           ) -> Iterator[Candidate]:
    """The combinations whose tiles cut the large one into a few parts."""
    least = LEAST_WGMMA if whole.kind == "wgmma" else LEAST
    most = min(parts, _most_parts(whole.cost, whole.tile, form))
    for row in rows:
        times = ratios(dict(enumerate(whole.tile)), dict(enumerate(row.tile)))
        if times is not None and prod(times.values()) <= most and _plain(row.profile, target) and (
                all(part >= least for axis, part in enumerate(row.tile) if times[axis] > 1)):
            yield _beside(row, whole)


def _beside(row: Candidate, whole: Candidate) -> Candidate:
    """A combination as the small body of an entry: shared memory and warps are those of both."""
    more = _SHARED_OUT if row.kind == "wgmma" and row.threads < whole.threads else 1
    return row._replace(cost=row.cost._replace(
        blocks=min(row.cost.blocks, whole.cost.blocks), wait=round(row.cost.wait * more)))


def _plain(profile: Profile, target: Target) -> bool:
    """Whether products are added up as they are and, on tensor cores, little is computed beside
    them but an operand from narrower numbers.  Others were slower with two bodies (fp8_block,
    conv_nhwc_flat and shift_conv_half of bench/suite)."""
    dots = [feature for feature in profile if feature.kind == "dot"]
    work = sum(prod(feature.extents) for feature in profile if feature.kind in ("work", "index"))
    staged = sum(prod(dot.extents) // dot.extents[-2] + prod(dot.extents) // dot.extents[-3]
                 for dot in dots)
    return not any(dot.scaled for dot in dots) and (
        (kind := computing(profile, target)[0]) == "cores" or work <= _MOST_WORK * staged
        or (kind == "wgmma" and any(any(dot.raw) for dot in dots)))


def _most_parts(cost: Cost, tile: tuple[int, ...], form: Form) -> float:
    """How many small tiles a large one may have, so that the blocks that end at once take no more
    than a small share of the time."""
    batch = form.axes > 2
    extents = _MANY[batch][:form.axes]
    lengths = (_DEEP[batch], *[TAPS] * (len(form.loops) - 1))
    each = count_tiles(extents, tile) / cost.processors * UNIT * _ENDS[cost.blocks > 1]
    return 1 + _MOST_LOST * int(choice.time(cost, tile, extents, lengths)) / each
