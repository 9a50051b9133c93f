"""What the cost model reads of a kernel, as numbers, and what follows from them."""

from math import prod

from tritonc.analysis.taps import few
from tritonc.backend.dots.swap_operands import LEAST_ROWS, MOST_ROWS
from tritonc.backend.layout.layout_choice import ACCESS_BYTES
from tritonc.backend.memory.masks.merged_axes import padded
from tritonc.backend.target.matrix import LARGE
from tritonc.backend.target.target import Target
from tritonc.ir.types import TF32
from tritonc.records import NamedTuple

SECTOR = 32  # bytes that the second-level cache delivers at least
# What a step takes where taps that lie side by side in memory run one after the other.  H200, three
# taps of stride 2 by 128 x 128: 217 us so, 127 side by side; seven of stride 1: 113 and 83.
APART = 1.6
SIDE, LINE = 128, 128  # rows or columns beside padded ones, bytes of a step
COMPUTED = 4  # operations with each result
PAIR = 64  # bytes that memory delivers at least: of words across K a tile of few columns has fewer


class Feature(NamedTuple):
    """What the model reads of one operation: `extents` is (..., M, N, K) of a dot, else the shape
    of its pointers, of what it reduces, of what loops around a dot carry beside its sums, or of
    what is computed there element by element; an "index" follows from nothing that is loaded."""

    # "kernel", which begins one's, "dot", "live", "reduce", "access", "work" or "index"; of a dot
    # with a batch, "run": how many elements of an operand are neighbours in memory; "behind" loops.
    kind: str
    extents: tuple[int, ...]
    bytes: int  # of an element; of what is computed behind loops: instructions for one
    axes: tuple[int, ...] = ()  # of a reduction
    element: str = ""  # of a dot's operands
    # Of a dot: whether each operand is loaded with the axis of K contiguous; asked if it matters.
    inner: tuple[bool, bool] = (True, True)
    beside: bool = False  # a dot with others in its block, of which none takes another's result
    place: tuple[int, int] = (0, 0)  # of a dot: numbers of its kernel and block
    form: str = ""  # of a kernel: a word of `_form_of`
    scaled: bool = False  # a dot from zero, of which something is computed before it is added
    fresh: bool = False  # one that is no part of a sum that a loop carries
    swapped: bool = False  # `swap_operands` swaps its operands, if wgmma computes it
    # Of a dot: the bytes of an element of each operand as memory has it, which copies bring; 0 for
    # those of its type.
    raw: tuple[float, float] = (0.0, 0.0)
    across: tuple[bool, bool] = (False, False)  # whether rows of these lie across the axis of K
    left: str = "fixed"  # of a dot in a chain: as `Chained` has it, and what follows
    again: bool = False
    # Or of what is computed behind loops: tiles that are loaded there; of an access: 1 of a store
    # in no loop.
    added: int = 0
    short: bool = False
    computed: bool = False  # of a dot: where an operand's rows are follows from quotients; of a
    # reduction: it reads what is made in its block
    sides: tuple[bool, bool] = (False, False)  # of a computed dot: which operands
    single: bool = False  # of a computed dot: a version loads them element by element
    lone: bool = False  # and every version
    bare: bool = False  # and every version both operands
    # Of a computed dot: rows of the left operand alone are, and lie one behind the other if extents
    # of images are those of results (`flatten_rows`).
    flat: bool = False
    alone: bool = False  # of a dot: `_alone`
    fixed: bool = False  # of a dot in no chain: its left operand is the same in all iterations
    parts: tuple[int, ...] = ()  # of a dot in a chain: depths of the products that make its sum
    # Of a dot: iterations of loops around it, from the inside, that read what lies side by side.
    taps: tuple[int, ...] = ()

    @property
    def is_swapped(self) -> bool:
        """Whether wgmma computes a dot the other way round (`swap_operands`)."""
        m, n = self.extents[-3:-1]
        return m < LEAST_ROWS or (
            self.element == str(TF32) and self.inner == (True, False)) or (
            bool(self.raw[1]) and n >= LEAST_ROWS) or (
            MOST_ROWS < m > n >= LEAST_ROWS and not any(self.raw) and not self.scaled)

    @property
    def side_by_side(self) -> int:
        """How many taps run side by side in a step: of all loops that do not load too much."""
        m, n, k = self.extents[-3:]
        found = 1
        for taps in self.taps:
            if not few(found * taps, found * taps * (m + n) * k):
                break
            found *= taps
        return found

    @property
    def steps(self) -> int:
        """The products that make its sum in an iteration, each with operands of its own."""
        return max(1, len(self.parts)) if self.left == "brought" else 1

    @property
    def places(self) -> int:
        """The accesses by which threads copy rows that they compute; 0 if they compute none."""
        m, n, k = self.extents[-3:]
        if not self.single:
            return m * k * self.bytes // ACCESS_BYTES if self.computed else 0
        return (m * self.sides[0] + n * self.sides[1]) * k

    @property
    def delivered(self) -> float:
        """Bytes that the second-level cache delivers for a step, of what is no padding: of words
        across K, of which a tile of few columns has few in a row, it has whole sectors."""
        found = float(self._bytes(self.extents)) - self.fixed_bytes
        for size, raw, across in zip(self.extents[-3:-1], self.raw, self.across):
            if across and any(self.raw):
                found += self.extents[-1] * max(0.0, PAIR - size * raw)
            elif across and size > SIDE:
                row = size * self.bytes  # comes as boxes of a line, which begin where tiles do
                boxes = -(-row // LINE) * (LINE + PAIR * (row % PAIR > 0))
                found += self.extents[-1] * (boxes - row)
        return found

    @property
    def register_extents(self) -> tuple[int, ...]:
        """The extents of a dot's tiles in registers and shared memory; those of joined dots, and of
        several steps of one, are sums."""
        return self.extents if self.beside else (*padded(self.extents[:-1]), self.extents[-1])

    @property
    def stage_bytes(self) -> int:
        """What a stage of both operands takes, as memory has them; of padding, too, where threads
        bring them (`tma_pipeline`)."""
        return self._bytes(self._held)

    @property
    def fixed_bytes(self) -> int:
        """What of that stays in shared memory while the loop runs, and is not brought."""
        *batch, m, _, k = self._held
        return prod(batch) * m * k * self.bytes if self.fixed else 0

    @property
    def _held(self) -> tuple[int, ...]:
        boxes = len(self.extents) == 3 and prod(self.extents[:2]) >= LARGE and not self.computed
        return self.extents if boxes else self.register_extents

    def _bytes(self, extents: tuple[int, ...]) -> int:
        *batch, m, n, k = extents
        left, right = (raw or self.bytes for raw in self.raw)
        return round(prod(batch) * k * (m * left + n * right))


Profile = tuple[Feature, ...]


def as_boxes(profile: Profile, target: Target) -> Profile:
    """The profile where TMA brings rows that lie one behind the other: extents that may be equal
    mostly are."""
    return tuple(f._replace(computed=False, sides=(False, False)) if f.flat
                 and "tensor_map" in target.features and f.extents[-3] >= LEAST_ROWS
                 and prod(f.extents[:-1]) >= LARGE and not f.is_swapped else f for f in profile)


def near_bytes(profile: Profile) -> int:
    """The bytes of a row of a box that TMA brings again for each tap; 0 where it brings none."""
    return max((f.extents[-1] * f.bytes for f in profile if f.flat and not f.computed), default=0)


def joined(dots: list[Feature]) -> list[Feature]:
    """Dots of one depth that run beside each other as one: they fill the registers together, and
    those of one operand are as much work for its bytes as one of all their columns."""
    if not dots or not all(dot.beside for dot in dots) or len(
            {(dot.extents[:-2], dot.extents[-1], dot.bytes, dot.element) for dot in dots}) != 1:
        return dots
    *rows, _, depth = dots[0].extents
    return [dots[0]._replace(extents=(*rows, sum(dot.extents[-2] for dot in dots), depth))]


def computes(profile: Profile) -> bool:
    """Whether threads compute with a product in each step that makes it, and more than scale it
    before it is added, which passes see to."""
    results = [f.extents[-3:-1] for f in profile if f.kind == "dot" and f.fresh]
    return sum(f.kind == "work" and f.extents[-2:] in results for f in profile) >= COMPUTED


def spread(profile: Profile) -> float:
    """How many bytes the second-level cache delivers for one that a product of batches reads."""
    return max((SECTOR / (f.extents[0] * f.bytes) for f in profile if f.kind == "run"), default=1.0)


def is_padded(profile: Profile) -> bool:
    """Whether a product's tile has a side of more than 128 that is no power of two."""
    return any(f.kind == "dot" and any(SIDE < n < held for n, held in zip(
        f.extents[-3:-1], f.register_extents[-3:-1])) for f in profile)


def between(profile: Profile) -> bool:
    """Whether that is so of one side of a tile that TMA brings; of the other, and of steps, what
    was measured."""
    return is_padded(profile) and all(
        f.kind != "dot" or (min(f.extents[-3:-1]) == SIDE and f.extents[-1] * f.bytes == LINE)
        for f in profile)
