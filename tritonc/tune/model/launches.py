"""The launches for which entries beside each other are chosen, and how long they take."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product, takewhile
from math import inf, prod

from tritonc.ir.types import TF32
from tritonc.records import NamedTuple
from tritonc.tune.model.choose import Binding
from tritonc.tune.model.feature import Feature, Profile
from tritonc.tune.model.form import Form
from tritonc.tune.model.loops import Around
from tritonc.variants import choice
from tritonc.variants.choice import Cost

TAPS = 3  # iterations of loops around the innermost
_MOST_TAPS = 32  # iterations of one that is known to be short

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

    def with_times(self, launches: Sequence[Launch], aligned: bool = True) -> "Candidate":
        """With its programs and times of the launches, whose rows are aligned or not."""
        cost = choice.stepping(self.cost, aligned)
        divided = [_divided(extents, self.tile) for extents, _ in launches]
        steps = {lengths: choice.steps_of(self.cost.depths, lengths)
                 for lengths in {lengths for _, lengths in launches}}
        cases = [(*found, steps[lengths]) for (_, *found), (_, lengths) in zip(
            divided, launches, strict=True)]
        times = {case: choice.time_of(cost, *case) for case in set(cases)}
        return self._replace(programs=[programs for programs, *_ in divided],
                            times=[times[case] for case in cases])

    @property
    def of_words(self) -> bool:
        """Whether wgmma computes a product of tf32."""
        return self.kind == "wgmma" and any(
            one.kind == "dot" and one.element == str(TF32) for one in self.profile)

    @property
    def results(self) -> int:
        """Those of a program's largest product."""
        return max(prod(dot.extents[:-1]) for dot in self.profile if dot.kind == "dot")

    @property
    def unlisted(self) -> int:
        """Multiply-adds of a program for each element of its tile and of its loops: more than one
        where a range numbers programs, or rows alone.  Combinations in which they differ are no
        entries of one kernel: a launch of one has another number of programs."""
        return max(1, prod(self._largest) // prod((*self.tile, *self.cost.depths)))

    @property
    def inside_step(self) -> int:
        """Those along the inner axis for each element of its loops: more than one where a loop
        numbers steps, such as heads of 64."""
        return max(1, self._largest[-1] // prod(self.cost.depths))

    @property
    def _largest(self) -> tuple[int, ...]:
        return max((dot.extents for dot in self.profile if dot.kind == "dot"), key=prod)


@cache
def _divided(extents: tuple[int, ...], tile: tuple[int, ...]) -> tuple[int, int, int, bool]:
    """How many tiles a range has, how many `choice` counts, and how they fit."""
    return count_tiles(extents, tile), choice.count(tile, extents), *choice.fit(tile, extents)


def count_tiles(extents: Sequence[int], tile: Sequence[int]) -> int:
    return prod(-(-extent // part) for extent, part in zip(extents, tile, strict=True))


class Grid(NamedTuple):
    """Extents of a range along its first two axes and along further ones, lengths of the innermost
    loop; multiply-adds of a launch, or else elements of an operand, at least and at most."""

    extents: Sequence[Sequence[int]]
    lengths: Sequence[int]
    batches: Sequence[int] = (1,)
    work: tuple[float, float] = (0, inf)
    most: float = inf


# Bodies, and what shall save time of launches that are worth it: clusters.
PLAIN = Grid(((16, 64, 256, 512, 1024, 2048, 4096, 12288),) * 2, (512, 4096))
WORKING = PLAIN._replace(work=(1 << 27, inf))
# Along an axis of a range that numbers programs: as many as of 128 there.
_NUMBERED = 1, 2, 4, 8, 16, 32, 64, 256, 1024
# One product of 16-bit numbers; of batches, which are short loops; of floats.
COVERED = {
    ("wgmma", 2): Grid(((64, 128, 512, 1536, 2304), (64, 768, 1152, 2304, 4608, 6144, 12288)),
                       (768, 1536, 3072), work=(1 << 25, inf)),
    ("wgmma", 3): Grid(((56, 240, 1000),) * 2, (32, 128, 384), (32,), (1 << 25, inf)),
    ("cores", 2): Grid(((32, 64, 128, 256, 512, 1100, 2100, 4500),) * 2, (512, 1500, 4096),
                       work=(1 << 27, 1 << 35))}
# Sums over many rows, as the gradients of filters: of three axes a program for each tap.
SUMS = Grid(((64, 128, 256),) * 2, (4096, 32768), (1, 9, 27))
# Of gradients whose columns are taps and channels.
FILTERS = SUMS._replace(extents=((64, 128, 256, 512), (64, 128, 256, 576, 1152, 2304, 4608)))
# Narrow, short and large ones, and batches.
_ALL = Grid(((16, 32, 64, 128, 256, 1024, 4096, 16384, 131072),) * 2, (32, 192, 768, 2304, 9216),
            (1, 64), (1 << 27, 1 << 40))
# Rows that are gathered, such as pixels, are many, and columns beside them, such as filters, few.
_PIXELS, _FILTERS = (1024, 4096, 16384, 65536, 262144), (16, 32, 64, 128, 256, 512, 1024)
SHORT = Grid((_PIXELS[3:], _FILTERS[1:3]), (27,))  # of first layers: 3 channels by 3 x 3
# Rows beside each number of columns, which are the weights' where one operand is converted.
_ROWS, _COLUMNS = (1, 20, 40, 64, 80, 128, 200, 300, 350, 560, 1200), (
    2304, 4096, 5120, 7168, 9728, 13824, 20480)
_WEIGHTS = Grid((_ROWS, _COLUMNS), (2048, 5120, 14336), most=130_000_000)


def numbered(grid: Grid, tile: Sequence[int]) -> Grid:
    """The same where a range numbers programs along the axes of which a tile has one element."""
    return grid._replace(extents=[_NUMBERED if n == 1 else extents for n, extents in zip(
        (*tile, 0), grid.extents, strict=False)])


def weights(dot: Feature) -> list[Grid]:
    """Of a product that converts an operand; the rows are those of the other one."""
    sides = _WEIGHTS, _WEIGHTS._replace(extents=(_COLUMNS, _ROWS))
    return [*(sides[:1] if dot.raw[1] else sides[1:] if dot.raw[0] else sides)]


def other(profile: Profile, loops: int) -> Grid:
    """Of whatever has so many loops."""
    dots = [feature for feature in profile if feature.kind == "dot"]
    far = [any(dot.sides[axis] for dot in dots) for axis in (0, 1)]
    return _ALL._replace(
        lengths=[length // TAPS ** (loops - 1) for length in _ALL.lengths],
        extents=[_PIXELS if side else _FILTERS for side in far] if any(far) else _ALL.extents)


def _is_of_taps(loop: Around) -> bool:
    """Whether a loop around a product is known to be short: the one around it is that of a sum."""
    return not loop.arguments and loop.factor <= _MOST_TAPS


def launches_of(form: Form, grid: Grid = PLAIN, whole: Candidate | None = None
                ) -> Iterator[Launch]:
    """`whole` says what extents and lengths do not (`unlisted`)."""
    each, inside = (whole.unlisted, whole.inside_step) if whole else (1, 1)
    axes = [grid.extents[axis] if axis < 2 else grid.batches for axis in range(form.axes)]
    known = [loop.factor for loop in takewhile(_is_of_taps, form.loops[:-1])]
    others = [TAPS] * (len(form.loops) - len(known) - 1)
    for *along, length in product(*axes, grid.lengths):
        lengths = (*known, max(1, length // inside), *others)
        if grid.work[0] <= each * prod((*along, *lengths)) <= grid.work[1] \
                and max(along) * length < grid.most:
            yield tuple(along), lengths
