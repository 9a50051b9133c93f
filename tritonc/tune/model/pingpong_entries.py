"""Entries and bodies in ping-pong, beside others (`pingpong` has the price).

Where launches choose among entries there is one more.  An entry of its own has one more body
(`coarsen`), for loops that are so short that what is behind them is worth the loss of a smaller
tile, and for aligned rows.
"""

from collections.abc import Sequence
from math import log2, prod

from tritonc.backend.target.target import Target
from tritonc.records import NamedTuple
from tritonc.tune.model.choose import Binding
from tritonc.tune.model.form import Form
from tritonc.tune.model.launches import Candidate, launches_of
from tritonc.tune.model.loops import TYPICAL
from tritonc.tune.model.pingpong import ENDED, in_pingpong, together
from tritonc.tune.model.portfolio import slower
from tritonc.tune.model.times import UNIT
from tritonc.variants.choice import MOST_LENGTH, Cost

_DOUBT = 0.03  # as of other entries (`coarse`)
_WORTH = 0.01  # of the logarithm to 2 of the time that an entry saves, on average of launches
_WORTH_BODY = 0.08  # of the time of a large tile, in loops of typical lengths
_BESIDE = 0.01  # that it takes longer beside another body: GELU of 4096 in cube 197 and 199 us


class PingpongBody(NamedTuple):
    """Its tunables, and what arguments are at most where it runs: by their numbers."""

    binding: Binding
    longest: tuple[tuple[int, int], ...]


def _candidates(rows: Sequence[Candidate], target: Target) -> list[Candidate]:
    return [row._replace(cost=slower(cost, _DOUBT)) for row in rows
            if (cost := in_pingpong(row.profile, row.cost, target)) is not None]


def priced_together(row: Candidate, launched: Candidate | None = None) -> Candidate:
    """With the cost of what is behind the product, beside that in turns; and of blocks that end at
    once, if the tiles are those of the entry `launched`."""
    return _ending(row._replace(cost=together(row.profile, row.cost)), launched)


def _ending(row: Candidate, launched: Candidate | None) -> Candidate:
    more = prod(row.tile) // prod(launched.tile) - 1 if launched is not None else 0
    return _starting(row, UNIT * ENDED * more)


def _starting(row: Candidate, more: float) -> Candidate:
    return row._replace(cost=row.cost._replace(start=row.cost.start + round(more)))


def beside_pingpong(rows: Sequence[Candidate], launched: Candidate) -> list[Candidate]:
    """With what the first of them, a large tile, takes more than it has as its cost, and others by
    their results, so that they are to each other as they are."""
    whole = rows[0]
    more = (priced_together(whole, launched).cost.start - whole.cost.start) / prod(whole.tile)
    return [_starting(row, more * prod(row.tile) * max(row.cost.blocks, 1)) for row in rows]


def pingpong_entries(rows: Sequence[Candidate], form: Form, target: Target,
                     others: Sequence[Candidate]) -> list[Candidate]:
    """Those that save enough, beside `others`, which are priced so."""
    launches = [*launches_of(form)]
    least = [*map(min, zip(*(row.with_times(launches).times for row in others), strict=True))]

    def saved(row: Candidate) -> float:
        return sum(log2(max(1.0, old / new)) for old, new in zip(
            least, row.with_times(launches).times, strict=True))

    return [row._replace(binding={**row.binding, "pingpong": 2})
            for row in _candidates(rows, target) if saved(row) > _WORTH * len(launches)]


def pingpong_body(rows: Sequence[Candidate], whole: Candidate, small: Candidate, form: Form,
                  target: Target) -> PingpongBody | None:
    """One beside the bodies of a large and a small tile, if it saves enough where loops have
    typical lengths; for the lengths for which it saves something."""
    (around, *more), large = form.loops, priced_together(whole, small).cost
    for row in rows:
        cost = in_pingpong(row.profile, row.cost, target)
        if cost is None or more or len(around.arguments) != 1 or around.factor != 1:
            continue
        times = prod(whole.tile) // prod(row.tile)
        saved = large.start - times * _ending(row._replace(cost=cost), small).cost.start
        lost = times * rate(cost) - rate(large)
        if saved > lost * TYPICAL + _WORTH_BODY * (large.start + TYPICAL * rate(large)):
            lost -= _BESIDE * rate(large)
            longest = min(round(saved / max(lost, 1e-3)), MOST_LENGTH - 1)
            return PingpongBody(row.binding, ((around.arguments[0], longest),))
    return None


def rate(cost: Cost) -> float:
    """What a tile takes of a multiprocessor that is full, for a unit of the loop."""
    return max(cost.busy, cost.wait / cost.blocks) / (cost.depths[0] if cost.depths else 1)
