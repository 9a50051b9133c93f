"""A second, smaller tile for launches of few programs, by the cost model.

One entry can have two bodies (`coarsen`): the host launches a block for each small tile, and where
these are more than a limit, blocks compute large ones.  Blocks beyond those end at once, which is
not for nothing where a block fills a multiprocessor: that is why the small tile may not be as small
as few programs would like it.  For these there are other entries, where launches choose among
entries (`Few`): a cluster of blocks shares the loop of each program.  Launches that one entry does
not serve, as narrow ones or batches of small matrices, have one more or two.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import log2, prod

from tritonc.backend.dots.together import chained
from tritonc.backend.launch.coarsen import MOST, ratios
from tritonc.backend.target.matrix import LARGE
from tritonc.backend.target.target import Target
from tritonc.records import NamedTuple
from tritonc.tune.model.alignments import Facts, aligned, asked
from tritonc.tune.model.blocks import computing
from tritonc.tune.model.chains import more_rows
from tritonc.tune.model.choose import Binding, Lower, ranked
from tritonc.tune.model.cluster_times import LONG, cluster_sizes
from tritonc.tune.model.feature import Profile
from tritonc.tune.model.form import Form, form_of
from tritonc.tune.model.launches import TAPS, Candidate, count_tiles, launches_of
from tritonc.tune.model.loops import Around
from tritonc.tune.model.measured import LEAST_WGMMA
from tritonc.tune.model.pingpong import ENDED, can_pingpong
from tritonc.tune.model.pingpong_entries import (
    PingpongBody,
    beside_pingpong,
    pingpong_body,
    pingpong_entries,
    priced_together,
    rate,
)
from tritonc.tune.model.portfolio import Member
from tritonc.tune.model.times import UNIT, formula
from tritonc.variants import choice
from tritonc.variants.choice import Cost

MOST_PARTS = 8  # small tiles of a large one, at most;
FEW_PARTS = 2  # beside entries of clusters, which take the launches of fewest programs
LEAST = 32  # the extent of a small one along each axis that it cuts, at least
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
    pingpong: PingpongBody | None = None


class Few(NamedTuple):
    """Entries beside the general one.  Those of clusters are for launches whose clusters run all at
    once, others for what the tiles of the general entry are too wide or deep for, or too small:
    their tunables and costs; the costs of the general entry's bodies; the loops; what holds where
    rows are aligned; the ways in which operands may lie that all are made for but the first
    `free`."""

    members: tuple[Member, ...]
    general: Cost
    large: tuple[tuple[int, ...], Cost] | None
    loops: tuple[Around, ...]
    aligned: Facts
    ways: Sequence[tuple[Facts, Facts]] = ()
    free: int = 0


def bodies(space: Mapping[str, Sequence[int]], lower: Lower, target: Target, large: Binding,
           clusters: bool = False) -> tuple[Small | None, Few | None]:
    """What to have beside `large`, a combination of `space`: a small body, and with `clusters`
    other entries; None where the model knows no cost, or they save too little."""
    found = _combinations(space, lower, target, large)
    if found is None:
        chain = more_rows(space, lower, target, large) if clusters else None
        return None, chain and Few((chain[0],), chain[1], None, chain[2], [])
    rows, whole, form = found
    small = _small(rows, whole, form, target)
    if not clusters:
        return small and _with_last_round(rows, whole, small._replace(
            pingpong=pingpong_body(rows, whole, _general(rows, whole, small), form, target)),
            target), None
    from tritonc.tune.model import entries  # only where launches choose among them

    sizes = cluster_sizes(lower(large).kernels[0], target, form.axes)
    if entries.are_converted(whole, form):  # entries serve launches of few programs better
        small, general = None, whole
        few = entries.converting_entries(rows, whole, form, target, sizes)
    elif entries.are_covered(whole, form):
        if whole.kind == "cores":  # the same
            small = None
        general, whole = _both(rows, whole, small, target)
        few = entries.covering_entries(rows, [general, whole] if small else [whole], form, target,
                                       sizes)
    else:
        few = entries.cluster_entries(rows, [whole, _general(rows, whole, small)], form, target,
                                      sizes[1:])
        if few and small is not None and whole.kind == "cores":
            small = _small(rows, whole, form, target, 0, FEW_PARTS)
        if few and small is not None and whole.kind == "cores":
            tile = _general(rows, whole, small).tile
            meet = prod(whole.tile) // prod(tile) * whole.cost.blocks * target.multiprocessors
            small = small._replace(most=min(MOST, max(small.most, meet)))
        general = _general(rows, whole, small)
        pingpong = pingpong_entries(rows, form, target,
                                  beside_pingpong([whole, general, *few], general))
        few += entries.other_entries(rows, [whole, general, *few, *pingpong], form)
        if pingpong:
            whole, general, *few = beside_pingpong([whole, general, *few], general)
            few += pingpong
    (kernel,) = lower(large).kernels
    asks = entries.are_covered(whole, form) and entries.asks(whole, form)
    ways = asked(kernel, target) if asks else []
    return small, Few(tuple(Member(row.binding, row.cost) for row in few), general.cost,
                      (whole.tile, whole.cost) if small else None, form.loops,
                      aligned(kernel, target), ways,
                      1 if len(ways) != 1 else entries.FREE + any(
                          row.binding.get("cluster_k") == LONG for row in few)) if few else None


def _combinations(space: Mapping[str, Sequence[int]], lower: Lower, target: Target, large: Binding
                  ) -> tuple[list[Candidate], Candidate, Form] | None:
    """All that the model knows the cost of, `large` among them and by itself, and the form."""
    if "async_copy" not in target.features:  # small tiles that wait for each load are not measured
        return None
    form = form_of(space, lower)
    (kernel,) = lower(large).kernels
    if form is None or not (form.axes and form.loops) or any(map(chained, kernel.blocks)):
        return None
    rows = []
    for row in ranked(space, lower, target):
        if row.runs and any(feature.kind == "dot" for feature in row.profile):
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
    if whole.kind != "wgmma":
        return own, whole
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
           worth: float = _WORTH, parts: int = MOST_PARTS) -> Small | None:
    if not _plain(whole.profile, target) or _rounded(whole):
        return None
    launches = [*launches_of(form)]
    whole = whole.with_times(launches)
    filled = whole.cost.processors * whole.cost.blocks - 1  # fewer tiles leave places empty
    if whole.kind == "wgmma":
        filled = whole.cost.processors * (whole.cost.blocks - 1)
    joined = [time * (_UNEVEN if whole.cost.blocks > 1 and count <= filled else 1)
              for time, count in zip(whole.times, whole.programs, strict=True)]
    computed = any(any(feature.raw) for feature in whole.profile)
    ends = UNIT * _ENDS[whole.cost.blocks > 1] / whole.cost.processors
    best, saved = None, worth * len(joined)
    for each in _parts(rows, whole, form, target, parts):
        each = each.with_times(launches)
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


def _rounded(row: Candidate) -> bool:
    """Whether TMA rounds an operand on its way, in small tiles too: a second body has none."""
    return row.of_words and any(any(one.inner) for one in row.profile if one.kind == "dot")


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
