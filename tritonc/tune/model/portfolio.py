"""A few combinations of tunables that are good at every size, by the cost model alone.

Every combination that the model ranks gets a `Cost` (`tritonc.variants.choice`): a closed form of
the launch's range and of the lengths of the loops around the product.  All are priced at a grid of
sizes, and a greedy cover takes the fewest that are nearly the best everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from tritonc.backend.dots.together import chained
from tritonc.backend.target.target import Target
from tritonc.records import NamedTuple
from tritonc.source import CompileError
from tritonc.tune.model.alignments import aligned
from tritonc.tune.model.choose import Binding, Lower, Ranked, ranked
from tritonc.tune.model.cluster_times import IN_MEMORY, cluster_sizes, clusters_meet
from tritonc.tune.model.cluster_times import priced as cost_of
from tritonc.tune.model.cost import waiting
from tritonc.tune.model.feature import Profile, as_boxes, between
from tritonc.tune.model.features import features
from tritonc.tune.model.form import Form, form_of
from tritonc.tune.model.loops import Around, forms, loops_around
from tritonc.tune.model.measured import is_measured
from tritonc.tune.model.pingpong import in_pingpong, with_results
from tritonc.tune.model.times import doubtful
from tritonc.variants import choice
from tritonc.variants.choice import Cost
from tritonc.variants.variant import Variant

if TYPE_CHECKING:  # it takes 60 ms to import, which only portfolios are worth
    import numpy as np

WITHIN = 0.05  # a size is served by what is at most so much slower than the best
DOUBT = 0.01  # with 0.03 two of 89 sizes took the general entry where another was faster
_POWER = 1.5  # of the logarithm of what a size takes longer: one that loses much counts more
DOUBT_SCALED = 0.3  # of sums that are scaled, but of 8-bit floats, of which few were measured
_MOST_PRICED = 512  # combinations,
# The sizes that a portfolio is made for: along the first two axes of the range, along further ones
# (batches), and of the loop.
_EXTENTS = tuple(1 << e for e in range(4, 15))
_BETWEEN = tuple(sorted((*_EXTENTS, *(3 << e for e in range(4, 13)))))  # for portfolios of many
_MANY = 16
_PIXELS = tuple(1 << e for e in range(7, 18))  # along the first one where rows are computed
_BATCHES = (1, 8, 64)
_LENGTHS = tuple(1 << e for e in range(5, 15))
_TYPICAL = 1024  # of a loop of which nothing is known
_TAPS = 9  # iterations of loops around it
_LEAST_WORK = 1 << 24  # multiply-adds; what has less takes the time of a launch
_EXCHANGES = 4  # rounds
_MOST_IN_MEMORY = 2  # variants
_Priced = tuple[Binding, Cost, tuple[int, ...], Profile]  # with its tile


class Member(NamedTuple):
    """A combination of a portfolio."""

    binding: Binding
    cost: Cost


class Portfolio(NamedTuple):
    """`general` is the cost of the combination that was given, `loops` those around the product,
    `aligned` what holds where its rows are aligned; `worst` how many times as long as the best a
    size of the grid may take; `served` the share of sizes that take at most `WITHIN` longer."""

    general: Cost
    members: tuple[Member, ...]
    loops: tuple[Around, ...]
    aligned: list[dict[str, Any]]
    served: float
    worst: float


def portfolio(space: Mapping[str, Sequence[int]], lower: Lower, target: Target,
              general: Mapping[str, int], most: int, in_memory: bool = False
              ) -> Portfolio | None:
    """The combinations of `space` to have beside `general`; None where the model knows no cost:
    the kernel has no product in a loop, one that takes another's result (the formula is of a loop's
    one product: at attention of 256 columns it was wrong by four), or its extents do not follow
    from its tunables.

    With `in_memory` there are up to `_MOST_IN_MEMORY` more, whose blocks add up in memory of the
    launch.  `lower` makes a module with one kernel for a combination, and takes values outside of
    `space` from elsewhere.
    """
    base = {name: general[name] for name in space if space[name]}
    form = form_of(space, lower)
    if form is None:
        return None
    rows = [row for row in ranked(space, lower, target) if row.runs][:_MOST_PRICED]
    if all(row.binding != base for row in rows):
        rows += [row for row in ranked({n: [v] for n, v in base.items()}, lower, target)
                 if row.profile]
    known: list[_Priced] = []
    (kernel,) = lower(base).kernels
    if any(chained(block) for block in kernel.blocks):
        return None
    whole = with_results([row.profile for row in rows], target)
    scaled, computed = (any(getattr(f, name) for row in rows for f in row.profile)
                        for name in ("scaled", "computed"))
    for blocks in cluster_sizes(kernel, target, form.axes):
        more = {"cluster_k": blocks} if blocks > 1 else {}
        for row in rows:
            tile, depths = form.cuts(row.binding)
            found = cost_of(row.profile, depths, target, blocks)
            if found is not None and (is_measured(row.profile, tile, blocks) or (
                    row.binding == base and blocks == 1)):
                pingpong = in_pingpong(row.profile, found, target) if blocks == 1 else None
                found = slower(found, waiting(row.profile, target) - 1)
                known.append(({**row.binding, **more}, whole(row.profile, found), tile,
                              row.profile))
                if pingpong is not None:
                    known.append(({**row.binding, "pingpong": 2}, pingpong, tile, row.profile))
    first = next((i for i, (binding, *_) in enumerate(known) if binding == base), None)
    if first is None:
        return None
    extents = _EXTENTS if most <= _MANY else _BETWEEN
    times = _times(known, form, _PIXELS if computed else extents, extents)
    # The sizes of the grid ask for few of these; what a launch asks for is between.
    kept = [i for i, (binding, *_) in enumerate(known)
            if i != first and between(known[i][-1])] if most > _MANY else []
    rest = [i for i in range(len(known)) if i not in kept]  # all others as if these were not there
    chosen, served, worst = cover(times[rest] / times[rest].min(axis=0), rest.index(first), most)
    chosen = [*kept, *(rest[i] for i in chosen)]
    members = []
    for i in chosen:
        binding, cost, _, profile = known[i]
        more_doubtful = doubtful(profile, cost) - doubtful(known[first][-1], known[first][1])
        # In several waves, on tensor cores: conv_nhwc of 28 x 28 27 us, 23 by blocks without.
        if "cluster_k" in binding and not clusters_meet(profile, target):
            cost = cost._replace(blocks=0)
        # What is as doubtful of both was no reason for the general one: conv_nchw of 79 x 341 took
        # 128 x 64 for 32 filters, 1134 us, and not 64 x 32, 772.
        measured = all(f.bytes == 1 for f in profile if f.scaled)
        doubt = DOUBT + max(0.0, more_doubtful) if measured else DOUBT_SCALED
        members.append(Member(binding, slower(cost, doubt)))
    if in_memory and form.axes < 3 and form.loops and not (scaled or computed) \
            and "wgmma" in target.features:
        least = times[[first, *chosen]].min(axis=0)
        members += _in_memory(rows, form, target, least, extents)
    return Portfolio(known[first][1], tuple(members), form.loops, aligned(kernel, target), served,
                     worst)


def _in_memory(rows: Sequence[Ranked], form: Form, target: Target, least: np.ndarray,
               extents: tuple[int, ...]) -> list[Member]:
    """The combinations that save most at sizes which take `least` without memory of the launch."""
    import numpy as np

    known: list[_Priced] = []
    whole = with_results([row.profile for row in rows], target)
    for blocks in IN_MEMORY:
        for row in rows:
            tile, depths = form.cuts(row.binding)
            cost = cost_of(row.profile, depths, target, blocks, in_memory=True)
            if cost is not None:
                known.append(({**row.binding, "memory_k": blocks}, whole(row.profile, cost), tile,
                              row.profile))
    members: list[Member] = []
    times = _times(known, form, extents, extents) if known else np.ones((1, 1))
    while known and len(members) < _MOST_IN_MEMORY:
        gains = np.log2(np.maximum(1, least / times)).sum(axis=1).round(6)
        best = int(gains.argmax())
        if not gains[best]:
            break
        members.append(Member(known[best][0], slower(known[best][1], DOUBT)))
        least = np.minimum(least, times[best])
    return members


def slower(cost: Cost, doubt: float) -> Cost:
    """A cost that is `doubt` more: what the model says to be hardly better may be worse, and the
    general entry is there already."""
    most = choice.MOST_CYCLES
    return cost._replace(**{name: min(round(getattr(cost, name) * (1 + doubt)), most)
                            for name, most in (("start", 1 << 20), ("busy", most), ("wait", most),
                                               ("slow", most))})


def best_at(space: Mapping[str, Sequence[int]], lower: Lower, target: Target,
            extents: Sequence[int], arguments: Mapping[str, int],
            clusters: Sequence[int] | None = (1,)) -> Binding | None:
    """The combination that takes the least time at one range, `arguments` being the scalars that
    are known of a launch; None where the model knows no cost.  It has `cluster_k`, if that is not
    1: one of `clusters`, or of all that are legal for None; or `pingpong`, in which it is 2."""
    rows = [row for row in ranked(space, lower, target) if row.runs][:_MOST_PRICED]
    if rows and clusters is None:
        (kernel,) = lower(rows[0].binding).kernels
        clusters = cluster_sizes(kernel, target)
    found: list[tuple[int, float, Binding]] = []
    for blocks in clusters or ():
        times = times_at(space, lower, target, rows, extents, arguments, blocks)
        if times is None:
            return None
        more = {"cluster_k": blocks} if blocks > 1 else {}
        found += [(time, row.cost, {**row.binding, **more})
                  for time, row in zip(times, rows, strict=True)]
    pingpong = times_at(space, lower, target, rows, extents, arguments, pingpong=True)
    found += [(time, row.cost, {**row.binding, "pingpong": 2})
              for time, row in zip(pingpong or (), rows, strict=False) if time < choice.LARGEST]
    return min(found, key=lambda each: each[:2])[2] if found else None


def times_at(space: Mapping[str, Sequence[int]], lower: Lower, target: Target,
             rows: Sequence[Ranked], extents: Sequence[int], arguments: Mapping[str, int],
             blocks: int = 1, pingpong: bool = False) -> list[int] | None:
    """The times of combinations at one range, to compare with each other, in clusters of `blocks`,
    or where warpgroups take programs in turn; None where the model knows no cost."""
    if not rows or (form := form_of(space, lower)) is None:
        return None
    (kernel,) = lower(rows[0].binding).kernels
    known = [arguments.get(value.name, 0) for value in kernel.parameters]
    if any(known[i] < 1 for loop in form.loops for i in loop.arguments):
        return None
    lengths = [choice.length(loop._asdict(), known) for loop in form.loops]
    whole = with_results([row.profile for row in rows], target)
    if pingpong and not choice.all_hold(aligned(kernel, target), extents, known):
        return None

    def taken(row: Ranked) -> int:
        tile, depths = form.cuts(row.binding)
        found = cost_of(row.profile, depths, target, blocks)
        if found is not None:
            both = in_pingpong(row.profile, found, target) if pingpong else None
            found = both if pingpong else whole(row.profile, found)
        return int(choice.time(found, tile, extents, lengths)) if (
            found is not None and is_measured(row.profile, tile, blocks)) else choice.LARGEST

    return [taken(row) for row in rows]


def priced(variants: Sequence[Variant], tunables: Mapping[str, int], lower: Lower, target: Target
           ) -> tuple[tuple[Around, ...], list[Cost]] | None:
    """The loops around a product, and the costs of the kernel with these `tunables` and of its
    variants, which may have `memory_k`; None where the model knows no cost."""
    costs = []
    known: tuple[Around, ...] | None = None
    for each in ({}, *(variant.binding for variant in variants)):
        binding = {**tunables, **{k: v for k, v in each.items() if k in {*tunables, "memory_k"}}}
        try:
            (kernel,) = lower({k: v for k, v in binding.items() if k != "memory_k"}).kernels
        except CompileError:
            return None
        loops = loops_around(kernel)
        if all(op.name != "dot" for op in kernel.ops()) or (
                known is not None and forms(loops) != forms(known)):
            return None
        known = known or loops
        cost = cost_of(as_boxes(features(kernel), target), tuple(loop.depth for loop in loops),
                       target, binding.get("memory_k", 1), in_memory=True)
        if cost is None:
            return None
        costs.append(cost)
    return (known, costs) if known is not None else None


def cover(ratios: np.ndarray, first: int, most: int, within: float = WITHIN
          ) -> tuple[list[int], float, float]:
    """Rows to add to row `first`, at most `most`, so that each column has a ratio of at most
    1 + `within` in some row, or else the least sum of `_POWER`s of excess; the share of columns
    that have, and the worst of the ratios.

    Each time the row that leaves the least excess (greedy cover), as long as some is left; then
    each is exchanged for another one if that leaves less.

    >>> import numpy as np
    >>> cover(np.array([[1, 1.2, 2], [1.04, 1, 2], [3, 3, 1]]), 0, 2)
    ([2, 1], 1.0, 1.0)
    """
    import numpy as np

    excess = np.log(np.maximum(ratios / (1 + within), 1)) ** _POWER
    chosen: list[int] = []

    def others(place: int) -> np.ndarray:
        rows = [first, *(row for row in chosen if row != place)]
        return np.asarray(excess[rows].min(axis=0))

    def best(now: np.ndarray) -> tuple[int, float]:
        left = np.minimum(excess, now).sum(axis=1).round(6)
        found = int(np.lexsort((ratios.sum(axis=1), left))[0])
        return found, float(left[found])

    while len(chosen) < most and others(-1).any():
        take, left = best(others(-1))
        if left >= others(-1).sum().round(6):
            break
        chosen.append(take)
    for _ in range(_EXCHANGES):
        before = list(chosen)
        for place in before:
            take, left = best(others(place))
            if left < others(-1).sum().round(6):
                chosen[chosen.index(place)] = take
        if chosen == before:
            break
    # What a later one made superfluous goes.
    for place in [*chosen]:
        if others(place).sum().round(6) <= others(-1).sum().round(6):
            chosen.remove(place)
    final = ratios[[first, *chosen]].min(axis=0)
    return chosen, float((final <= 1 + within).mean()), round(float(final.max()), 6)


def _times(known: Sequence[_Priced], form: Form, first: tuple[int, ...], second: tuple[int, ...]
           ) -> np.ndarray:
    """The time of each combination at each size of a grid with these extents along two axes."""
    import numpy as np

    class Sizes(np.ndarray):
        def select(self, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
            return np.where(self, yes, no).view(Sizes)

    axes = [first, second, _BATCHES][:form.axes]
    # The innermost loop is as long as the grid says; those around it are short, as are taps.
    lengths = _LENGTHS if form.loops and form.loops[0].arguments else (_TYPICAL,)
    sizes = np.array([*product(*axes, lengths)], np.int64)
    sizes = sizes[sizes.prod(axis=1) >= _LEAST_WORK]
    *extents, depth = sizes.T.view(Sizes)
    loops = len(form.loops)
    inner = [(depth, *(each * _TAPS ** (at == 0) for at, each in enumerate(cost.depths[1:loops])))
             for _, cost, *_ in known]
    return np.array([choice.time(cost, tile, extents, lengths)
                     for (_, cost, tile, _), lengths in zip(known, inner)], np.float64)
