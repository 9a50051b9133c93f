"""The entries beside the general one, where launches choose among entries.

Candidates are timed at the launches of a grid.  Chosen are those beside which the least is left of
what launches take longer than by the best of all: as logarithms, by a power, so that a launch which
loses much counts more.  Grids, powers and numbers of entries are those of a kind of kernel.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from math import inf, log2, prod

from tritonc.backend.launch.coarsen import AXES
from tritonc.backend.target.matrix import LARGE
from tritonc.backend.target.target import Target
from tritonc.tune.model import launches as grids
from tritonc.tune.model.blocks import LEAST
from tritonc.tune.model.cluster_times import LONG, clusters_meet, priced
from tritonc.tune.model.feature import LINE, Feature, Profile, joined, near_bytes
from tritonc.tune.model.form import Form
from tritonc.tune.model.launches import Candidate, Launch, launches_of
from tritonc.tune.model.measured import LEAST_WGMMA, MOST_SENT, is_measured
from tritonc.tune.model.pingpong import SHORT, in_pingpong
from tritonc.tune.model.pingpong_entries import priced_together, rate
from tritonc.tune.model.portfolio import DOUBT_SCALED, slower
from tritonc.tune.model.times import UNIT, WORD, doubtful
from tritonc.variants.choice import LARGEST

_DOUBT = 0.03  # that the model says others gain over the general entry, which is there already
_DOUBT_CORES = 0.2  # conv_nchw of 28 x 28 by 64 x 128 took 1.2 times as long as by two bodies
_MOST_THREADS = 256  # 32 x 256 by four warpgroups: 1.8 times as long as 64 x 128 (conv_nhwc_flat)
# Of products that are covered, by what computes and the axes of the range; of those that convert an
# operand.
_MOST = {("wgmma", 2): 6, ("wgmma", 3): 3, ("cores", 2): 6}
_NEARLY = {("wgmma", 2): 1.02}  # of the time of a tile's best depth in a long loop
_MOST_CONVERTING, _POWER_CONVERTING, _WORTH_CONVERTING = 9, 1.5, 0.005
# Of blocks of a cluster that convert: weights of 8 bits, 4096 x 4096, by 16 x 32 x 128 in pairs 8.5
# us, in fours 10.7; 2048 columns 6.7, 6.6; 40 x 2560 x 14336 by 64 x 64 x 128 27.3, 30.1.
_BLOCKS_CONVERTING = 2
_MEMORY = 2250  # bytes in a clock cycle that an H200's memory delivers
# What one must save of a launch: of clusters, one for few programs and, on tensor cores, one more
# of larger tiles; of others, at most so many, which lessen mostly the worst that a launch loses.
_WORTH_CLUSTERS = (0.1, 0.01)
_OTHERS, _POWER, _WORTH_OTHER = 2, 4, 0.001
_EXCHANGES = 2  # rounds
# Cycles of a cluster of sums that are long.  Gradients of filters in NCHW order, 28 x 28 pixels, by
# 64 x 64 in three rounds 62.4 us, 56 without, of 56 x 56 in one 66.3, 62.6.
_ROUND = 3500
# What one of long sums must save: of one product .48 to .83, of two that share an operand, whose
# code is twice as long, .35.
_WORTH_LONG = 0.4
# Of a covered product those for rows that are not aligned, too, beside that of long sums.  224 x 84
# x 6329 of bfloat16 took 46 us by 128 x 128 in clusters of four, 28 by 64 x 64 in such, 17 in
# clusters of eight, cuBLAS 14; 300 x 300 x 5001, which has too many for those, 35, 23, cuBLAS 24.
FREE = 2
# Of sums that a step holds, whose rows come element by element: a loop that loads ahead computes
# the addresses of three steps.  64 filters of 3 channels by 3 x 3, 16 x 224 x 224 pixels, 177 us by
# 128 x 32 x 32, 155 by 64 x 64 x 32, 78 by this without loads ahead; of one by 5 x 5 192, 166, 85;
# of 3 by 7 x 7, five steps, 228, 107 (H200).  What a block takes before its first step, of others,
# and a step, whose loads it awaits: of elements, and of copies.
_BEGINS, _AWAITS, _AWAITS_COPIES, _WARPGROUP = 0.25, 0.75, 2, 128


def fewest(known: Sequence[Candidate], own: Sequence[Candidate], power: float, most: int,
           worth: float = 0.0, rounds: int = _EXCHANGES, floors: Sequence[float] = ()
           ) -> list[Candidate]:
    """The candidates, at most `most`, beside which the least is left of a power of what `own` and
    they exceed the best of all by; one that leaves less by less than `worth` of a launch is none
    (of no launch, the first is one).  Each time what leaves the least; then, in so many rounds,
    each is exchanged for what leaves less.  Times below `floors` are no gain."""
    least = floors or [1.0] * len(own[0].times)
    times, having = ([[log2(max(time, floor)) for time, floor in zip(row.times, least, strict=True)]
                      for row in of] for of in (known, own))
    best = [min(column) for column in zip(*having, *times, strict=True)]
    lost, *excess = ([(time - least) ** power for time, least in zip(row, best, strict=True)]
                     for row in (map(min, zip(*having, strict=True)), *times))
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
        if gain < worth * len(best) or (best and not gain):
            break
        chosen.append(found)
    for place in [*range(len(chosen))] * rounds:
        chosen[place], _ = next_best((*chosen[:place], *chosen[place + 1:]))
    return [known[i] for i in dict.fromkeys(chosen)]


def _in_clusters(rows: Sequence[Candidate], target: Target, sizes: Sequence[int]
                 ) -> Iterator[tuple[int, Candidate]]:
    """Each by clusters of so many blocks, 1 for none."""
    for row in rows:
        for blocks in sizes:
            if (cost := priced(row.profile, row.cost.depths, target, blocks)) is not None:
                more = {"cluster_k": blocks} if blocks > 1 else {}
                yield blocks, row._replace(binding={**row.binding, **more}, cost=cost)


def _at_once(row: Candidate) -> Candidate:
    """Whose clusters run all at once."""
    return row._replace(cost=row.cost._replace(blocks=0))


def _in_rounds(row: Candidate) -> Candidate:
    """Whose clusters need not run all at once: the next ones wait for places beside each other."""
    return row._replace(cost=row.cost._replace(start=row.cost.start + UNIT * _ROUND))


# --- one product of 16-bit numbers, or of floats --------------------------------------------------


def are_covered(whole: Candidate, form: Form) -> bool:
    """Whether it is one product of 16-bit numbers on wgmma, as memory has them, or of floats on
    CUDA cores, or several that share an operand."""
    return (whole.kind, form.axes) in _MOST and _is_plain(whole) and all(
        dot.bytes > 1 for dot in _products(whole)) and whole.unlisted == whole.inside_step


def _is_plain(row: Candidate) -> bool:
    return len(_products(row)) == 1 and all(
        dot.alone and (dot.bytes <= 2 if row.kind == "wgmma" else dot.bytes == WORD)
        and not (any(dot.raw) or dot.computed or dot.scaled) for dot in _products(row))


def covering_entries(rows: Sequence[Candidate], general: Sequence[Candidate], form: Form,
                     target: Target, sizes: Sequence[int]) -> list[Candidate]:
    """Of all tiles, clusters and those in ping-pong, those to have beside the general bodies; where
    programs share clusters, one more for long sums of few programs.  us on an H200, by up to four
    blocks and by eight: 96 x 96 x 30000 30, 17; 224 x 84 x 6329 28, 17; floats 64 x 64 x 8192 48,
    26."""
    found = _covering(rows, general, form, target, sizes)
    if form.axes == AXES or len(sizes) < 2:
        return found
    launches = [*launches_of(form, grids.SUMS, general[0])]
    long = [row._replace(cost=slower(row.cost if row.kind == "cores" else priced_together(
        _at_once(row)).cost, _DOUBT)) for _, row in _in_clusters([
            row for row in rows if is_measured(row.profile, row.tile, 1)], target, [LONG])]
    found[FREE:FREE] = fewest([row.with_times(launches) for row in long], [
        row.with_times(launches) for row in (*general, *found)], 2, 1, _WORTH_LONG)
    return found


def _covering(rows: Sequence[Candidate], general: Sequence[Candidate], form: Form, target: Target,
              sizes: Sequence[int]) -> list[Candidate]:
    """Those of at most four blocks to a cluster, but for batches of long sums.  If rows that are
    not aligned are for few of them (`asks`), those are the first `FREE`."""
    of, fastest = (general[0].kind, form.axes), dict[tuple[int, ...], float]()
    many = LONG in sizes and form.axes == AXES
    launches = [*launches_of(form, grids.SUMS if many else grids.COVERED[of], general[0])]
    rows = [row for row in rows if is_measured(row.profile, row.tile, 1)]
    for row in rows:
        fastest[row.tile] = min(rate(row.cost), fastest.get(row.tile, inf))
    known = []
    for blocks, row in _in_clusters(
            [row for row in rows if rate(row.cost) <= _NEARLY.get(of, inf) * fastest[row.tile]],
            target, [n for n in sizes if n != LONG or many]):
        found = row if row.kind == "cores" else priced_together(
            row if blocks == 1 else _in_rounds(row) if many else _at_once(row))
        known.append(found._replace(cost=slower(found.cost, _DOUBT)))
        if blocks == 1 and (cost := in_pingpong(row.profile, row.cost, target)) is not None:
            known.append(row._replace(cost=slower(cost, _DOUBT),
                                      binding={**row.binding, "pingpong": 2}))
    count, most = len(known), _MOST[of] + many
    timed = [_with_legal_times(row, launches, True) for row in (*known, *general)]
    if not general[0].cost.slow:
        return fewest(timed[:count], timed[count:], 2, most)
    loose = [_with_legal_times(row, launches, False) for row in (*known, *general)]
    if asks(general[0], form):
        first = fewest(loose[:count], loose[count:], 2, 1)
        aside = [row for row in timed[:count] if any(row.binding == one.binding for one in first)]
        chosen = fewest(timed[:count], [*timed[count:], *aside], 2, most)
        # Of these, too, one is for all rows: the last to be left out.
        more = fewest([row for row in loose[:count] if any(
            row.binding == one.binding for one in chosen)], [*loose[count:], *first], 2, FREE - 1)
        chosen.sort(key=lambda row: all(row.binding != one.binding for one in more))
        return aside + chosen
    both = [row._replace(times=[*row.times, *other.times])
            for row, other in zip(timed, loose, strict=True)]
    return fewest(both[:count], both[count:], 2, most)


def asks(whole: Candidate, form: Form) -> bool:
    """Whether entries of a covered product are for rows that are aligned, all but `FREE`."""
    return whole.kind == "wgmma" and form.axes < AXES


def _with_legal_times(row: Candidate, launches: Sequence[Launch], aligned: bool) -> Candidate:
    """In ping-pong neither short loops nor rows that are not aligned are legal."""
    found = row.with_times(launches, aligned)
    return found._replace(times=[
        time if aligned and lengths[0] >= SHORT else LARGEST for time, (_, lengths) in zip(
            found.times, launches, strict=True)]) if "pingpong" in row.binding else found


# --- a product that converts an operand -----------------------------------------------------------


def are_converted(whole: Candidate, form: Form) -> bool:
    """Whether it is a product on wgmma of an operand that threads convert, or of 8-bit floats whose
    sums are scaled; or several that share the other operand."""
    dots = _products(whole)
    return whole.kind == "wgmma" and form.axes == 2 and len(dots) == 1 and all(
        not dot.computed and (any(dot.raw) or (dot.scaled and dot.bytes == 1)) for dot in dots)


def _products(row: Candidate) -> list[Feature]:
    return joined([feature for feature in row.profile if feature.kind == "dot"])


def are_bytes(whole: Candidate) -> bool:
    """Whether it is a product on wgmma of 8-bit numbers as memory has them, such as weights and
    rows that were rounded before: it has the entries of one that converts them beside two bodies.
    16 rows of 8-bit floats by 14336 x 4096 25 us on an H200, 18; int8 of 136 x 3072 x 1376 17.5,
    6.9."""
    dots = _products(whole)
    return whole.kind == "wgmma" and len(dots) == 1 and len(dots[0].extents) == 3 and all(
        dot.bytes == 1 and not (dot.computed or dot.scaled or any(dot.raw)) for dot in dots)


def converting_entries(rows: Sequence[Candidate], whole: Candidate, form: Form, target: Target,
                       sizes: Sequence[int], *beside: Candidate) -> list[Candidate]:
    """With and without clusters.  What memory takes to deliver the operands is no entry's gain."""
    (dot,) = _products(whole)
    launches = [launch for grid in grids.weights(dot) for launch in launches_of(form, grid)]
    # By mma.sync, 16 rows alone: weights of 4 bits, 28 x 4608 x 18944, by 32 x 32 x 128 244 us, 51.
    known = []
    for blocks, row in _in_clusters([
            row for row in rows if row.threads <= _MOST_THREADS
            and not (row.kind == "mma" and (dot.scaled or min(row.tile) > LEAST))], target, [
                blocks for blocks in sizes if dot.scaled or blocks <= _BLOCKS_CONVERTING]):
        if is_measured(row.profile, row.tile, blocks) and (
                blocks == 1 or any(dot.raw) or prod(row.tile) <= MOST_SENT):
            if blocks > 1 and not clusters_meet(row.profile, target):
                row = _at_once(row)
            known.append(row._replace(cost=slower(row.cost, _DOUBT)).with_times(launches))
    floors = [UNIT * length * sum(extent * (raw or dot.bytes) for extent, raw in zip(
        extents, dot.raw, strict=True)) / _MEMORY for extents, (length, *_) in launches]
    return fewest(known, [row.with_times(launches) for row in (whole, *beside)],
                  _POWER_CONVERTING, _MOST_CONVERTING, _WORTH_CONVERTING, floors=floors)


# --- others ---------------------------------------------------------------------------------------


def cluster_entries(rows: Sequence[Candidate], own: Sequence[Candidate], form: Form,
                    target: Target, sizes: Sequence[int]) -> list[Candidate]:
    """Those of clusters to have beside the bodies of the general entry, the large one first."""
    whole = own[0]
    if whole.kind == "mma" or not sizes:
        return []  # of mma none are measured
    if form.axes == 2 and are_bytes(whole):
        return converting_entries(rows, whole, form, target, (1, *sizes), *own[1:])
    # Where the range does not say how many results a program has, it may send more of them: 1024
    # rows of 256 columns and a layer norm by 64 rows 32 us, 22 by two blocks.
    each = whole.unlisted
    launches = [*launches_of(form, grids.numbered(grids.WORKING, whole.tile), whole)]
    doubt = DOUBT_SCALED if any(feature.scaled for feature in whole.profile) else _DOUBT
    known = [row._replace(cost=slower(row.cost, doubt)) for _, row in _in_clusters([
        row for row in rows if row.unlisted == each and row.threads <= _MOST_THREADS
        and ((each > 1 and _is_plain(row)) or row.results <= (
            LARGE if row.of_words or (LONG in sizes and row.kind == "wgmma") else MOST_SENT))
        and (not row.of_words or _is_square(row))
        and (not _gathers(row.profile) or min(row.tile) >= LEAST_WGMMA)], target, sizes)]
    if LONG in sizes and whole.kind == "wgmma":
        launches = [*launches_of(form, grids.FILTERS, whole)]
        return fewest([_in_rounds(row).with_times(launches) for row in known],
                      [row.with_times(launches) for row in own], 1, 3, _WORTH_CLUSTERS[1])
    # One for the fewest programs, whose clusters run all at once; then for more programs.
    few = [*launches_of(form, grids.SUMS, whole)] if LONG in sizes else launches
    chosen = fewest([_at_once(row).with_times(few) for row in known],
                    [row.with_times(few) for row in own], 1, 1, _WORTH_CLUSTERS[0])
    for first in chosen[:1]:
        more = [row if clusters_meet(whole.profile, target) else _at_once(row) for row in known
                if row.results >= first.results and row.binding != first.binding
                and row.cost.processors >= first.cost.processors]
        chosen += fewest([row.with_times(launches) for row in more],
                         [row.with_times(launches) for row in (*own, first)], 1,
                         1 + (LONG in sizes), _WORTH_CLUSTERS[1])
    return chosen


def other_entries(rows: Sequence[Candidate], own: Sequence[Candidate], form: Form
                  ) -> list[Candidate]:
    """Those without clusters to have beside the bodies of the general entry, the large one first,
    and the entries that there are.  None of products whose sums are computed, and none small of
    those whose operands are: by them int8_linear took 1.15 to 1.2 times as long, fp8_block 1.1 and
    0.93 times."""
    whole = own[0]
    if any(feature.scaled for feature in whole.profile) or (
            form.axes < AXES and are_bytes(whole)):
        return []
    each = whole.unlisted
    launches = [*launches_of(form, grids.other(whole.profile, len(form.loops)), whole)]
    own = [row.with_times(launches) for row in own]
    converted = any(any(feature.raw) for feature in whole.profile)
    doubt = doubtful(whole.profile, whole.cost)
    known = [row._replace(cost=slower(row.cost, _DOUBT + max(0.0, doubtful(
                row.profile, row.cost) - doubt))).with_times(launches)
             for row in rows if row.unlisted == each
             and row.threads <= _MOST_THREADS and _is_listed(row) and not (
                 0 < near_bytes(row.profile) < LINE) and (
                 not whole.of_words or (row.kind == whole.kind and _is_square(row))) and (
                 not converted or (prod(row.tile) >= LARGE
                                   and prod(row.cost.depths) >= prod(whole.cost.depths))) and (
                 row.kind == "cores" or _gathers_many(row))]
    # One more where rows may be boxes of a matrix, and one for many columns of these; one less
    # beside clusters of sums that are long.
    boxes = [row for row in known if near_bytes(row.profile)]
    most = _OTHERS - any(row.binding.get("cluster_k") == LONG for row in own)
    chosen = fewest(known, own, _POWER, most + bool(boxes), _WORTH_OTHER, rounds=0)
    chosen += fewest(boxes, [*own, *chosen], 1, 1, _WORTH_CLUSTERS[1])
    if len(form.loops) == 1 and any(
            dot.single and not all(dot.across) for dot in whole.profile):
        chosen += _of_one_step(known, [*own, *chosen], form)
    return [row._replace(cost=slower(row.cost, _DOUBT_CORES if whole.kind == "cores" else 0))
            for row in chosen]


def _of_one_step(known: Sequence[Candidate], own: Sequence[Candidate], form: Form
                 ) -> list[Candidate]:
    """One for sums that a step holds: it loads nothing ahead, and other blocks compute while it
    waits."""
    (loop,), (length,) = form.loops, grids.SHORT.lengths
    length = length if loop.arguments else loop.factor
    launches = [*launches_of(form, grids.SHORT._replace(lengths=(length,)))]
    short = [row._replace(
        binding={**row.binding, "num_stages": 0, "min_blocks": row.cost.blocks},
        cost=row.cost._replace(
            start=round(_BEGINS * row.cost.start), busy=_AWAITS_COPIES * row.cost.busy,
            wait=_AWAITS_COPIES * row.cost.wait, slow=round(_AWAITS * row.cost.slow)))
        for row in known if row.kind == "wgmma" and row.threads <= _WARPGROUP
        and row.cost.depths[0] >= length]
    return fewest([row.with_times(launches, False) for row in short], [
        row.with_times(launches, False) for row in own], 1, 1, _WORTH_CLUSTERS[1])


def _is_listed(row: Candidate) -> bool:
    """Whether its sides are powers of two.  Those between fill rounds of some launches, which have
    entries of their own; for all launches 64 x 144 and 208 x 64 were worse than 64 x 128: 16 x
    14336 x 4096 33.3 us for 26.7, 1024 in cube 1.1 times as long."""
    return not any(side & (side - 1) for side in row.tile)


def _is_square(row: Candidate) -> bool:
    """Whether its sides are those with which tf32 was measured.  Rows that a tensor lacks cost the
    most: 4096 x 128 x 4096 by 64 x 256 took 78 us, 26 by 128 x 64."""
    return min(row.tile[:2]) >= LEAST_WGMMA and max(row.tile[:2]) <= 128


def _gathers_many(row: Candidate) -> bool:
    """Whether a tile has many rows where rows are gathered.  Columns may be few: three filters of
    128 channels, 8 x 256 x 256 pixels, take 162 us by 128 x 32 on an H200, 244 by 64 x 64."""
    return all(side >= LEAST_WGMMA for axis, side in enumerate(row.tile[:2]) if any(
        dot.sides[axis] for dot in row.profile if dot.kind == "dot"))


def _gathers(profile: Profile) -> bool:
    return any(feature.computed for feature in profile)
