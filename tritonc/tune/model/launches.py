"""The launches for which entries beside each other are chosen, and how long they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from math import prod

from tritonc.records import NamedTuple
from tritonc.tune.model.choose import Binding
from tritonc.tune.model.feature import Profile
from tritonc.tune.model.portfolio import Form
from tritonc.variants import choice
from tritonc.variants.choice import Cost

# The launches that it is chosen for: extents along the first two axes, of further ones, lengths.
_EXTENTS = (16, 64, 256, 512, 1024, 2048, 4096, 12288)
_LENGTHS = (512, 4096)
# Those of other entries: narrow, short and large ones, and batches, too.
ALL_EXTENTS = (16, 32, 64, 128, 256, 1024, 4096, 16384, 131072)
# Rows that are gathered, such as pixels, are many, and columns beside them, such as filters, few.
PIXELS, FILTERS = (1024, 4096, 16384, 65536, 262144), (16, 32, 64, 128, 256, 512, 1024)
ALL_LENGTHS = (32, 192, 768, 2304, 9216)
BATCHES = (1, 64)
TAPS = 3  # iterations of loops around the innermost

Launch = tuple[tuple[int, ...], tuple[int, ...]]  # extents of the range, lengths of loops


class Candidate(NamedTuple):
    """A combination, what the model read of it, its tile, how it is computed and by how many
    threads, its cost; programs and times of the launches."""

    binding: Binding
    profile: Profile
    tile: tuple[int, ...]
    kind: str
    threads: int
    cost: Cost
    programs: Sequence[int] = ()
    times: Sequence[int] = ()


def with_times(row: Candidate, launches: Sequence[Launch]) -> Candidate:
    """The candidate with its programs and times of the launches."""
    divided = [_divided(extents, row.tile) for extents, _ in launches]
    steps = {lengths: choice.steps_of(row.cost.depths, lengths)
             for lengths in {lengths for _, lengths in launches}}
    cases = [(*found, steps[lengths]) for (_, *found), (_, lengths) in zip(
        divided, launches, strict=True)]
    times = {case: choice.time_of(row.cost, *case) for case in set(cases)}
    return row._replace(programs=[programs for programs, *_ in divided],
                        times=[times[case] for case in cases])


@cache
def _divided(extents: tuple[int, ...], tile: tuple[int, ...]) -> tuple[int, int, int, bool]:
    """How many tiles a range has, how many `choice` counts, and how they fit."""
    return count_tiles(extents, tile), choice.count(tile, extents), *choice.fit(tile, extents)


def count_tiles(extents: Sequence[int], tile: Sequence[int]) -> int:
    return prod(-(-extent // part) for extent, part in zip(extents, tile, strict=True))


def launches_of(form: Form, extents: Sequence[Sequence[int]] = (_EXTENTS, _EXTENTS),
              batches: Sequence[int] = (1,), lengths: Sequence[int] = _LENGTHS
              ) -> Iterator[Launch]:
    axes = [extents[axis] if axis < 2 else batches for axis in range(form.axes)]
    for *along, length in product(*axes, lengths):
        yield tuple(along), (length, *[TAPS] * (len(form.loops) - 1))
