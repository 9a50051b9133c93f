"""The entries beside the general one of a product on wgmma that converts an operand: with and
without clusters, the few that leave least of what launches take too long by.

Launches are those of a grid: from one row to thousands, of matrices that are no powers of two.
What memory takes to deliver the operands is no entry's gain (`entries.fewest`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import log2, prod

from tritonc.backend.target.matrix import LARGE
from tritonc.backend.target.target import Target
from tritonc.tune.model.cluster_times import clusters_meet, priced
from tritonc.tune.model.entries import fewest
from tritonc.tune.model.feature import Feature
from tritonc.tune.model.launches import TAPS, Candidate, Launch, with_times
from tritonc.tune.model.measured import MOST_SENT, is_measured
from tritonc.tune.model.portfolio import Form, slower
from tritonc.tune.model.times import UNIT

# Rows beside each number of columns, which are the weights' where one operand is converted.
_ROWS = (1, 20, 40, 64, 80, 128, 200, 350, 560, 1200)
_COLUMNS = (2304, 4096, 5120, 7168, 9728, 13824, 20480)
_LENGTHS = (2048, 5120, 14336)
_LARGEST = 130_000_000  # elements of an operand
_POWER = 1.5
_MOST, _WORTH, _DOUBT = 8, 0.005, 0.03  # of entries, and what each is worth of a launch
# Of blocks of a cluster that convert: weights of 8 bits, 4096 x 4096, by 16 x 32 x 128 in pairs 8.5
# us, in fours 10.7; 2048 columns 6.7, 6.6; 40 x 2560 x 14336 by 64 x 64 x 128 27.3, 30.1.
_MOST_CONVERTED = 2
_MEMORY = 2250  # bytes in a clock cycle that an H200's memory delivers


def are_converted(whole: Candidate, form: Form) -> bool:
    """Whether entries are chosen so: of one product on wgmma of an operand that threads convert, or
    of 8-bit floats whose sums are scaled."""
    dots = [feature for feature in whole.profile if feature.kind == "dot"]
    return whole.kind == "wgmma" and form.axes == 2 and len(dots) == 1 and all(
        not dot.computed and (dot.bytes == 1 if dot.scaled else any(dot.raw)) for dot in dots)


def entries(rows: Sequence[Candidate], general: Sequence[Candidate], form: Form,
            target: Target, clusters: Sequence[int]) -> list[Candidate]:
    """The entries beside the bodies of the `general` one, in `clusters` of so many blocks (1 for
    none)."""
    (dot,) = (feature for feature in general[0].profile if feature.kind == "dot")
    launches = _launches(form, dot)
    known = []
    for row in rows:
        if dot.scaled and row.kind != "wgmma":  # those were not measured
            continue
        for blocks in clusters:
            cost = priced(row.profile, row.cost.depths, target, blocks)
            if cost is None or not is_measured(row.profile, row.tile, blocks) or (
                    any(dot.raw) and blocks > _MOST_CONVERTED) or (
                    blocks > 1 and prod(row.tile) > (LARGE if any(dot.raw) else MOST_SENT)):
                continue
            if blocks > 1 and not clusters_meet(row.profile, target):
                cost = cost._replace(blocks=0)  # they run all at once
            more = {"cluster_k": blocks} if blocks > 1 else {}
            known.append(with_times(row._replace(binding={**row.binding, **more},
                                                 cost=slower(cost, _DOUBT)), launches))
    least = [UNIT * _brought(dot, launch) / _MEMORY for launch in launches]

    def of(row: Candidate) -> list[float]:
        return [log2(max(time, floor)) for time, floor in zip(row.times, least, strict=True)]

    own = map(min, *(of(with_times(row, launches)) for row in (*general, *general[:1])))
    chosen = fewest([*map(of, known)], [*own], _POWER, _MOST, _WORTH)
    return [known[i] for i in chosen]


def _launches(form: Form, dot: Feature) -> list[Launch]:
    """Launches of many sizes; of converted operands, the rows are those of the other one."""
    sides = [(_ROWS, _COLUMNS), (_COLUMNS, _ROWS)]
    if any(dot.raw):
        sides = sides[:1] if dot.raw[1] else sides[1:]
    return [((*extents, *[1] * (form.axes - 2)), (length, *[TAPS] * (len(form.loops) - 1)))
            for side in sides for *extents, length in product(*side, _LENGTHS)
            if max(extents) * length < _LARGEST]


def _brought(dot: Feature, launch: Launch) -> float:
    """The bytes of both operands."""
    return launch[1][0] * sum(extent * (raw or dot.bytes)
                              for extent, raw in zip(launch[0][:2], dot.raw, strict=False))
