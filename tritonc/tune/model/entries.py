"""The entries beside the general one of products of 16-bit numbers.

Of all tiles, clusters and those in ping-pong, those that leave the least excess over the best one,
at sizes of which few are powers of two.  What a size loses counts by its square, so that one that
loses much counts more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import inf, log2, prod

from tritonc.backend.launch.coarsen import AXES
from tritonc.backend.target.target import Target
from tritonc.tune.model.cluster_times import priced
from tritonc.tune.model.launches import Candidate, Launch, launches_of, with_times
from tritonc.tune.model.measured import is_measured
from tritonc.tune.model.pingpong import SHORT, in_pingpong
from tritonc.tune.model.pingpong_entries import priced_together, rate
from tritonc.tune.model.portfolio import Form, slower
from tritonc.variants.choice import LARGEST

# Entries, and sizes: extents along the first two axes, lengths; of batches, which are short loops.
_MOST = {2: 6, 3: 3}
_EXTENTS = {2: ((64, 128, 512, 1536, 2304), (64, 768, 1152, 2304, 4608, 6144, 12288)),
            3: ((96, 320, 1024),) * 2}
_LENGTHS, _BATCHES = {2: (768, 1536, 3072), 3: (32, 128, 384)}, (32,)
_LEAST_WORK = 1 << 25  # multiply-adds; what has less takes the time of a launch
_DOUBT = 0.03  # that the model says others gain over the general entry, which is there already
_NEARLY = {2: 1.02, 3: inf}  # of the time of a tile's best depth in a long loop
_EXCHANGES = 2  # rounds


def are_covered(whole: Candidate, form: Form) -> bool:
    """Whether entries are chosen so: of one product of 16-bit numbers on wgmma, as memory has them.
    """
    return whole.kind == "wgmma" and form.axes in _MOST and all(
        dot.alone and dot.bytes == 2 and not (any(dot.raw) or dot.computed or dot.scaled)
        for dot in whole.profile if dot.kind == "dot")


def covering(rows: Sequence[Candidate], general: Sequence[Candidate], form: Form, target: Target,
             clusters: Sequence[int]) -> list[Candidate]:
    """The entries to have beside the bodies of the general one, of all combinations `rows`."""
    axes = form.axes
    launches = [launch for launch in launches_of(form, _EXTENTS[axes], _BATCHES, _LENGTHS[axes])
                if prod((*launch[0], *launch[1])) >= _LEAST_WORK]
    rows = [row for row in rows if is_measured(row.profile, row.tile, 1)]
    fastest: dict[tuple[int, ...], float] = {}
    for row in rows:
        fastest[row.tile] = min(rate(row.cost), fastest.get(row.tile, inf))
    known = [_legal(with_times(row, launches), launches) for row in _candidates([
        row for row in rows if rate(row.cost) <= _NEARLY[axes] * fastest[row.tile]],
        target, clusters if axes < AXES else (1,))]
    own = [*map(min, *(with_times(row, launches).times for row in general))]
    chosen = fewest([[*map(log2, row.times)] for row in known], [*map(log2, own)], 2, _MOST[axes])
    return [known[i] for i in chosen]


def fewest(times: Sequence[Sequence[float]], own: Sequence[float], power: float, most: int,
           worth: float = 0.0) -> list[int]:
    """The rows, at most `most`, beside which the least is left of a power of what `own` and they
    exceed the best of all by, as logarithms; one that leaves less by less than `worth` of a launch
    is none.  Each time what leaves the least; then each is exchanged for what leaves less."""
    best = [min(column) for column in zip(own, *times, strict=True)]
    lost, *excess = ([(time - least) ** power for time, least in zip(row, best, strict=True)]
                     for row in (own, *times))
    chosen: list[int] = []

    @cache
    def next_best(beside: tuple[int, ...]) -> tuple[int, float]:
        """What leaves the least beside these; how much."""
        now = [*map(min, lost, *(excess[i] for i in beside), lost)]
        left = [sum(map(min, now, row)) for row in excess]
        found = min(range(len(left)), key=left.__getitem__)
        return found, sum(now) - left[found]

    while times and len(chosen) < most:
        found, gain = next_best((*chosen,))
        if gain <= worth * len(own):
            break
        chosen.append(found)
    for place in [*range(len(chosen))] * _EXCHANGES:
        chosen[place], _ = next_best((*chosen[:place], *chosen[place + 1:]))
    return [*dict.fromkeys(chosen)]


def _legal(row: Candidate, launches: Sequence[Launch]) -> Candidate:
    """With no time in turn of loops for which that is not."""
    return row if "pingpong" not in row.binding else row._replace(times=[
        time if lengths[0] >= SHORT else LARGEST
        for time, (_, lengths) in zip(row.times, launches, strict=True)])


def _candidates(rows: Sequence[Candidate], target: Target, clusters: Sequence[int]
                ) -> Iterator[Candidate]:
    for row in rows:
        for blocks in clusters:
            cost = priced(row.profile, row.cost.depths, target, blocks)
            if cost is None:
                continue
            if blocks > 1:
                row = row._replace(binding={**row.binding, "cluster_k": blocks})
                cost = cost._replace(blocks=0)
            found = priced_together(row._replace(cost=cost))
            yield found._replace(cost=slower(found.cost, _DOUBT))
            if blocks == 1 and (cost := in_pingpong(row.profile, cost, target)) is not None:
                yield row._replace(cost=slower(cost, _DOUBT),
                                   binding={**row.binding, "pingpong": 2})
