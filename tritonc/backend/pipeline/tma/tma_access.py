"""Tensor accesses: loads and stores as boxes of tensors, and the maps that describe those.

A tensor map gives base, extents and the stride of a two-dimensional tensor, with the box and the
swizzle.  A kernel has plain pointers, so the maps are made by the kernel itself, in a slot of
global memory that a block claims and releases (`map_slots`).  The base is the parameter, and
the offset of the first tile is split into columns and rows, so that one map serves all programs
that a persistent block computes; iterations move the start of the box.  A mask `index + i < limit`
gives the extent; an axis without one extends as far as coordinates can.

Affine analysis proves what is legal: the pointer tile is base + i * 1 + j * stride, moves by a
multiple of either per iteration, its mask is a box of the same axes; every row begins at a multiple
of 16 bytes (axis information), and neither where boxes begin nor a stride is negative (`forward`);
specialize makes a body in which that is known.  A tile that begins past its mask must touch nothing
although an extent of 0 is no tensor: its boxes start outside an extent of 1.

A batch of tensors, `base + number * stride + ...` with the number from the program's ids or loaded,
is one tensor with further axes, of boxes of extent 1.  A number that the loop loads, as from a
table of pages, may be negative: its axis begins BEFORE numbers earlier, and so does the base.

Where the mask does not move as the tile does (rows of a page, of a sequence that ends at S), axis 1
counts the tile's rows alone and a further one, of the same stride, where the tile begins: a box
that starts `rows - inside` rows down axis 1, whose extent is `rows`, has as many rows inside.

Where the mask also says where an axis begins, boxes of it may begin anywhere (`windows`)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from math import prod

from tritonc.analysis.affine import Affine, Affinity, Bound, Counter, Iteration
from tritonc.analysis.axis import axis_info
from tritonc.analysis.axis.axis_info import TOP, low_bit
from tritonc.analysis.linear import Linear, equal, number, symbol
from tritonc.analysis.signs import Signs
from tritonc.backend.memory.versions.assumed_strides import BETWEEN
from tritonc.backend.pipeline.tma.windows import Window, window
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import I32, Tile, shape
from tritonc.records import dataclass

ALIGNMENT = 16  # bytes, of bases, strides and box starts
MOST_BOX = 256  # elements along one axis of a box
ENDLESS = (1 << 31) - 1  # the extent of an axis without a mask
MOST_DEPTH = 3  # axes of a tensor beyond two
BEFORE = 1 << 30  # numbers of a table that may be negative: no fewer than its tensors have


@dataclass
class Strip:
    """A load or a store as a strip of a tensor.  Axis 0 of the tensor is the contiguous one.

    `axes[i]`: the tile's axis that is the tensor's axis i; `starts`: of the tile, in the first
    iteration; `extents`: from the tensor's own start, None where unmasked; `steps`: how far the
    tile moves in each iteration.  `inside`: where the mask does not move with the tile, how many
    rows it leaves in the first iteration, and how many more in each; the first of `depth` then is
    where the tile begins.  `before`: the axes whose numbers may be negative.  `windows`: the axes
    on which boxes begin anywhere, of any sign.  `cut`: of the tile's axes how many elements take
    part, where the mask leaves out the last ones whatever the program.  `empty`: whether the mask
    may leave no row at all, in an iteration that comes."""

    op: Op
    form: Affine
    axes: tuple[int, int]
    starts: tuple[Linear, Linear]
    stride: Linear  # of axis 1, in elements
    extents: tuple[Linear | None, Linear | None]
    steps: tuple[Linear, ...]
    depth: tuple[tuple[Linear, Linear], ...] = ()  # of each further axis the start and the stride
    origin: Linear = field(default_factory=Linear)  # from the base, in elements
    inside: tuple[Linear, Linear] | None = None
    before: frozenset[int] = frozenset()
    windows: frozenset[int] = frozenset()
    cut: tuple[int, ...] = ()
    empty: bool = False

    @property
    def all_starts(self) -> list[Linear]:
        """Where the first box begins, on each axis of the tensor."""
        return [*self.starts, *(start for start, _ in self.depth)]

    @property
    def places(self) -> list[Linear]:
        """What the places of boxes are computed from, but for the iteration of the loop."""
        return [*self.all_starts, *(self.inside or ())]

    def values(self) -> list[Value]:
        """What the map, the starts and the steps are computed from."""
        return [*self.map_values(), *(v for p in (*self.places, *self.steps) for v in p.values())]

    def moving(self, place: Block, cfg: Cfg) -> list[Value]:
        """What the starts are computed from that is not there before the loop behind `place`."""
        return [v for start in self.places for v in start.values() if not cfg.available(v, place)]

    @property
    def strides(self) -> list[Linear]:
        return [self.stride, *(stride for _, stride in self.depth)]

    @property
    def map_parts(self) -> list[Linear]:
        return [*(e for e in self.extents if e is not None), self.origin, *self.strides]

    def map_values(self) -> list[Value]:
        """What the tensor's map is computed from."""
        return [v for part in self.map_parts for v in part.values()]


def same_place(a: Strip, b: Strip) -> bool:
    """Whether two tiles have the same elements of one tensor."""
    return _same(a, b, lambda one: [*one.all_starts, one.origin, *one.strides])


def same_map(a: Strip, b: Strip) -> bool:
    """Whether one map serves both."""
    return a.before == b.before and [e is None for e in a.extents] == [
        e is None for e in b.extents] and _same(a, b, lambda one: one.map_parts)


def _same(a: Strip, b: Strip, parts: Callable[[Strip], list[Linear]]) -> bool:
    return a.form.base is b.form.base and a.axes == b.axes and len(a.depth) == len(b.depth) \
        and all(map(equal, parts(a), parts(b)))


def recognize(op: Op, size: int, affinity: Affinity, iteration: Iteration | None,
              infos: axis_info.Infos, cut: bool = False, part: tuple[int, ...] = ()) -> Strip | str:
    """The access of `size`-byte elements as a strip of a tensor; if it is not such, why.

    `iteration`: of the loop around it that moves it, as in `affinity`.  `cut`: whether the box may
    be less than the tile.  `part`: the extents of the part of it that the affinity is about."""
    found = _plain(op, size, affinity, iteration, infos, cut, part)
    seen = window(op, affinity) if isinstance(found, str) and not part else None
    strip = _windowed(op, size, affinity, iteration, infos, seen) if seen is not None else None
    return strip or found


def _plain(op: Op, size: int, affinity: Affinity, iteration: Iteration | None,
           infos: axis_info.Infos, cut: bool, part: tuple[int, ...]) -> Strip | str:
    pointer = op.operands[0]
    t, info, form = pointer.type, infos.get(pointer), affinity.of(pointer)
    if not isinstance(t, Tile) or len(t.shape) not in (1, 2):
        return "its tile does not have one or two axes"
    if info is None or form is None or form.base is None or (
            iteration is not None and iteration.counter.op is not None):
        return "its addresses may not be of the form base + row * stride + column"
    inner = next((d for d in (1, 0)[-len(t.shape):] if form.strides[d].constant == 1), None)
    if inner is None or info.contiguity[inner] < t.shape[inner]:
        return "neighbours in the tile may not be neighbours in memory"
    if info.divisibility[inner] % ALIGNMENT:
        return f"its rows may not be aligned to {ALIGNMENT} bytes"
    mask = affinity.mask(op.guard, len(t.shape))
    if mask is None or mask.conditions:
        return "its mask is not a bound on each axis"
    bounds, sizes = _cut(mask.bounds, t.shape) if cut and not part else (mask.bounds, part)
    row = len(t.shape) == 1  # a tensor whose other axis has one element
    stride = number(ALIGNMENT // size) if row else form.strides[1 - inner]
    split = form.offset.split(iteration.counter) if iteration else (form.offset, Linear())
    if split is None:
        return "its step differs between iterations"
    first, step = split
    starts = (first, Linear()) if row else split_start(first, stride)
    for steps in _steps(step, Linear() if row else stride, affinity.signs):
        if _divisor(steps[0], affinity.signs) * size % ALIGNMENT:
            continue
        strip = Strip(op, form, (inner, 1 - inner), starts, stride, (None, None), steps, cut=sizes)
        extents = _extents(bounds, inner, starts, steps, iteration)
        if extents is not None:
            deep = _deepened(replace(strip, extents=extents), size, affinity)
            if isinstance(deep, str) or deep.extents[1] is None or affinity.inside.isdisjoint(
                    deep.extents[1].values()):
                return deep
            return count_rows(deep) or deep  # a number that the loop loads has an axis of its own
        found = None if row or (sizes and not part) else _counted(
            strip, bounds, iteration, size, affinity)
        if found is not None:
            return found
    return "its step is not along its mask, by whole rows, or by multiples of 16 bytes"


def _windowed(op: Op, size: int, affinity: Affinity, iteration: Iteration | None,
              infos: axis_info.Infos, seen: Window) -> Strip | None:
    """The load as a strip some of whose axes begin where its mask says."""
    (inner, outer), form, signs = seen.axes, seen.form, affinity.signs
    info, stride = infos.get(op.operands[0]), form.strides[outer]
    counter = iteration.counter if iteration is not None else Counter(I32)
    parts = [part.split(counter) if part is not None else (Linear(), Linear())
             for part in (form.offset, *seen.coordinates)]
    if counter.op is not None or info is None or form.base is None \
            or info.contiguity[inner] < shape(op.operands[0].type)[inner] or None in parts \
            or info.divisibility[inner] % ALIGNMENT:
        return None
    (first, step), *own = [part for part in parts if part is not None]
    windows = frozenset(i for i in (0, 1) if seen.coordinates[i] is not None)
    starts = split_start(first, stride)
    for steps in _steps(step, stride, signs):
        if any(steps[i].terms for i in windows) \
                or _divisor(steps[0], signs) * size % ALIGNMENT \
                or not _small([moves for _, moves in own], signs):
            continue
        extents = _extents(seen.bounds, inner, starts, steps, iteration)
        if extents is None:
            continue
        strip = Strip(op, form, seen.axes, starts, stride, extents, steps, windows=windows)
        found = _deepened(strip, size, affinity)
        if isinstance(found, str) or any(n < 0 for _, n in found.origin.terms):
            continue  # boxes that lie partly beside the tensor touch its base
        (a, b), (c, d), (e, f) = found.starts, found.extents, steps
        return replace(
            found, starts=(a + own[0][0], b + own[1][0]), steps=(e + own[0][1], f + own[1][1]),
            extents=(seen.extents[0] if 0 in windows else c,
                     seen.extents[1] if 1 in windows else d))
    return None


def _counted(strip: Strip, bounds: Sequence[Bound], iteration: Iteration | None, size: int,
             affinity: Affinity) -> Strip | str | None:
    """The strip where one bound of its rows does not move with them; None if that is not all."""
    inner, outer = strip.axes
    own = [bound for bound in bounds if bound.axis == outer]
    extents = _extents([bound for bound in bounds if bound.axis == inner], inner, strip.starts,
                       strip.steps, iteration)
    if iteration is None or len(own) != 1 or extents is None:
        return None
    inside = (own[0].limit - own[0].start).split(iteration.counter)
    found = _deepened(replace(strip, extents=extents), size, affinity)
    return None if inside is None or isinstance(found, str) else count_rows(found, inside)


def count_rows(strip: Strip, inside: tuple[Linear, Linear] | None = None) -> Strip | None:
    """The strip with an axis for the rows of its tile alone, of which `inside`, or as many as its
    extent says, are loaded; None if that is an axis too many."""
    rows = (strip.cut or shape(strip.op.operands[0].type))[strip.axes[1]]
    extent = strip.extents[1]
    if inside is None:
        assert extent is not None
        inside = extent - strip.starts[1], strip.steps[1].scaled(-1)
    return None if len(strip.depth) == MOST_DEPTH or strip.windows else replace(
        strip, starts=(strip.starts[0], Linear()), extents=(strip.extents[0], number(rows)),
        steps=(strip.steps[0], Linear(), strip.steps[1]), inside=inside,
        depth=((strip.starts[1], strip.stride), *strip.depth),
        origin=strip.origin - strip.stride.scaled(rows),
        before=frozenset(axis + 1 for axis in strip.before))


def forward(strip: Strip, signs: Signs) -> bool:
    """Whether strides and all that boxes begin with are not negative: before the base of a tensor
    there is nothing, and it has no negative strides.

    A value that is an extent is as good as known: where it is negative, nothing is accessed."""
    starts = [None if i in strip.windows else start for i, start in enumerate(strip.all_starts)]
    steps = [step for i, step in enumerate(strip.steps) if i not in strip.windows]
    known = _bounded(starts[:2], strip.extents, signs)
    return all(known.positive(polynomial) for polynomial in (
        *steps, *strip.strides, *(start for axis, start in enumerate(starts)
                                  if start is not None and axis not in strip.before)))


def _bounded(starts: Sequence[Linear | None], extents: Sequence[Linear | None], signs: Signs
             ) -> Signs:
    """The signs with those of values that are extents: where one is negative, nothing is accessed.
    """
    found = {monomial[0] for start, extent in zip(starts, extents, strict=True)
             if extent is not None and len(extent.terms) == 1 and (
                 start is None or signs.positive(start))
             for monomial, n in extent.terms if len(monomial) == 1 and n > 0}
    return Signs(signs.known | found, below=signs.below,
                 multiples=signs.multiples) if found else signs


def _deepened(strip: Strip, size: int, affinity: Affinity, alike: bool = True) -> Strip | str:
    """The strip with starts that are coordinates, which have 32 bits: numbers of a row, a column or
    a tensor.  Offsets that are the same for all programs move the base; what a number of the
    program adds, times parameters, counts along a further axis.

    So the extent of the rows is the same for all programs, too; `alike`: and that of columns which
    end where a program's do, as those of one head."""
    depth: list[tuple[Linear, Linear]] = []
    before: set[int] = set()
    origin, signs = Linear(), affinity.signs
    starts, extents = list(strip.starts), list(strip.extents)
    bounded = _bounded(starts, extents, signs)
    for axis, unit in ((1, strip.stride), (0, number(1))):
        for monomial, n in starts[axis].terms:
            numbers = [v for v in monomial if v.op is not None]
            others = tuple(v for v in monomial if v.op is None)
            term = Linear(((monomial, n),))
            anywhere = axis in strip.windows
            small = not anywhere and all(map(signs.fits, monomial)) and (len(monomial) < 2 or (
                axis == 1 and extents[axis] is None and len(others) < 2))
            earlier = _from_table(term * unit, numbers, size, affinity, bounded)
            limit = extents[axis]
            ends = alike and limit is not None and (monomial, n) in limit.terms and n > 0 \
                and all(map(signs.holds, numbers)) and (axis == 1 or n * size % ALIGNMENT == 0)
            if not (monomial or anywhere) or (small and numbers and not earlier.terms and not ends):
                continue
            if not numbers:
                if _divisor(term * unit, signs) * size % ALIGNMENT:
                    if small:
                        continue
                    return "its first offset may not be a multiple of 16 bytes"
                origin = origin + term * unit
            else:
                step = earlier if earlier.terms else Linear(
                    ((tuple(v for v in monomial if v is not numbers[0]), n),)) * unit
                if n < 0 or not (earlier.terms or signs.holds(numbers[0])) \
                        or not signs.fits(numbers[0]) or _divisor(step, signs) * size % ALIGNMENT:
                    return "its first offset may not be a row and a column"
                depth.append((symbol(numbers[0]), step))
                if earlier.terms:
                    before.add(1 + len(depth))
                    origin = origin - step.scaled(BEFORE)
            starts[axis] = starts[axis] - term
            extents[axis] = limit - term if limit is not None else None
    if alike and len(depth) > MOST_DEPTH - 1:  # one more may count a tile's rows
        return _deepened(strip, size, affinity, False)
    if len(depth) > MOST_DEPTH:
        return f"its first offset is a sum of more than {MOST_DEPTH} products"
    return replace(strip, starts=(starts[0], starts[1]), extents=(extents[0], extents[1]),
                   depth=tuple(depth), origin=origin, before=frozenset(before))


def _from_table(offset: Linear, numbers: list[Value], size: int, affinity: Affinity, signs: Signs
                ) -> Linear:
    """The stride of an offset that is one number from the loop, of any sign, times what is so
    large that memory holds fewer than BEFORE of it, or 0; no stride if it is not that."""
    if len(offset.terms) != 1 or len(numbers) != 1:
        return Linear()
    (monomial, n), = offset.terms
    others = tuple(v for v in monomial if v is not numbers[0])
    unsure = numbers[0] in affinity.inside and not signs.holds(numbers[0])
    least = n * prod(signs.multiples.get(v, 1) for v in others)  # where it is 0, all is masked
    known = least * size >= BETWEEN and all(map(signs.holds, others))
    return Linear(((others, n),)) if unsure and known else Linear()


def _divisor(polynomial: Linear, signs: Signs) -> int:
    """A power of two that divides the polynomial."""
    return min([TOP, *(low_bit(n) * prod(signs.multiples.get(v, 1) for v in values)
                       for values, n in polynomial.terms)])


def _steps(step: Linear, stride: Linear, signs: Signs) -> list[tuple[Linear, Linear]]:
    """How far the box may be said to move on both axes; two ways where the stride is a number.
    Steps are numbers of 32 bits times constants, as coordinates are."""
    rows, none = step.divided(stride), Linear()
    return [steps for steps in ([(none, rows)] if rows is not None else []) + [(step, none)]
            if _small(steps, signs)]


def _small(steps: Iterable[Linear], signs: Signs) -> bool:
    return all(len(values) < 2 and all(map(signs.fits, values))
               for step in steps for values, _ in step.terms)


def _cut(bounds: Sequence[Bound], extents: Sequence[int]
         ) -> tuple[tuple[Bound, ...], tuple[int, ...]]:
    """The bounds without those that leave out a tile's last elements in every program, as those of
    padding, beside others of the axis; how many are left along each axis, if those are fewer."""
    sizes, others = [*extents], list[Bound]()
    for bound in bounds:
        inside = (bound.limit - bound.start).constant
        if inside is not None and 0 < inside < extents[bound.axis] and any(
                one.axis == bound.axis and one is not bound for one in bounds):
            sizes[bound.axis] = min(sizes[bound.axis], inside)
        else:
            others.append(bound)
    return tuple(others), tuple(sizes) if sizes != [*extents] else ()


def _extents(bounds: Sequence[Bound], inner: int, starts: tuple[Linear, Linear],
             steps: Sequence[Linear], iteration: Iteration | None
             ) -> tuple[Linear | None, Linear | None] | None:
    """The extents that the mask's bounds give both axes; None if they do not move with the box."""
    extents: list[Linear | None] = [None, None]
    for bound in bounds:
        axis = 0 if bound.axis == inner else 1
        inside = bound.limit - bound.start
        left = inside.split(iteration.counter) if iteration is not None else (inside, Linear())
        if left is None or extents[axis] is not None or (
                iteration is not None and not equal(left[1], steps[axis].scaled(-1))):
            return None
        extents[axis] = left[0] + starts[axis]
    return extents[0], extents[1]


def split_start(first: Linear, stride: Linear) -> tuple[Linear, Linear]:
    """The offset as columns and rows: terms with the stride in them count rows."""
    columns, rows = Linear(), Linear()
    for term in first.terms:
        part = Linear((term,))
        row = part.divided(stride)
        if row is None:
            columns = columns + part
        else:
            rows = rows + row
    return columns, rows
