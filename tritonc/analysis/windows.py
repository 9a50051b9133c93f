"""Loads that begin a known distance behind aligned addresses, as those of a pixel's neighbours do.

    x + row * W + (w - 1), where W is a multiple of 16 and x is aligned: runs of 16 bytes begin at
    byte 15 of aligned ones

Aligned accesses bring what such a load wants, and neighbouring loads want the same ones.  Of a flat
index i, where w is `i % W`, no run of neighbours crosses the end of a row: what wraps, is clamped
or masked there is the first element of a run, or the last one, and has an access of its own.

    x + i / W * W + (w + W - 1) % W: each run but its first element lies one element behind w's

A mask that says where a row of memory begins and ends, at multiples of accesses, says of each
aligned access whether all of it takes part, wherever in it a load begins:

    x + row * W + (w - 1) where 0 <= w - 1 < W: the first element of w = 0 has an access of its own

Loads that take every n-th element only take them of the same aligned accesses, if elements are so
small that loads of single ones cost more: taps of a filter that moves by 2, or that lie side by
side in memory:

    x + row * W + 2 * i - 1, x + row * W + 2 * i: of eight halves the first of these takes every
    other one from the last before a place on, the second one from that place on
"""

from collections.abc import Hashable, Iterable, Mapping
from math import gcd, prod

from tritonc.analysis.affine import Affine, Affinity, Bound
from tritonc.analysis.axis.axis_info import AxisInfo, Infos
from tritonc.analysis.linear import Linear, number
from tritonc.analysis.moved_bounds import may_move
from tritonc.analysis.ragged import may_be_ragged
from tritonc.analysis.runs import Ends, Runs
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import Tile, scalar, shape
from tritonc.records import NamedTuple

ACCESS_BYTES = 16
# One element of so many may have an access of its own, by its address or by its mask: heat flow on
# a grid by a flat index took 0.213 ms with two of four floats masked so, 0.205 without.
_MOVED, _MASKED = 2, 4
# How many elements from one to the next that a load takes, for each load that takes others of the
# same ones but for the first, at most, and their bytes.
STEP, SHARED, SMALL = 4, 2, 2
_Conjuncts = frozenset[tuple[Value, bool]]


class Window(NamedTuple):
    """Where a load begins: `begin` elements behind a place of which `info` says what is known of
    addresses, `aligned` if that is no less known of its own.  Loads of one `place` begin `begin`
    elements behind the same address, under the same mask of which `guard` is known.  `ends`: so
    many elements at the begin and at the end of each run have other addresses or another mask.
    `near`: the place with a mask of whole accesses, if its own is another, and how far away bounds
    of that are."""

    place: Hashable
    begin: int
    aligned: bool
    info: AxisInfo
    guard: AxisInfo | None
    ends: tuple[int, int]
    rows: bool = False
    near: tuple[Hashable, Mapping[Op, int]] | None = None
    step: int = 1


def windows(kernel: Kernel, known: Runs, blocks: Iterable[Block]) -> dict[Op, Window]:
    """The loads of tiles whose addresses go on along an axis from a known place, and the stores
    whose mask differs at the ends of runs alone, in some blocks of a kernel."""
    find = {"load": _window}
    if may_be_ragged(kernel):
        find["store"] = _ragged
    found: dict[Op, Window] = {}
    for block in blocks:
        alike: dict[Hashable, list[Op]] = {}
        for op in block.ops:
            if op.name in find and isinstance(op.operands[0].type, Tile) \
                    and not op.attributes.get("volatile") \
                    and (window := find[op.name](op, known)) is not None:
                found[op] = window
                alike.setdefault(window.place, []).append(op)
        for ops in alike.values():
            if found[ops[0]].step > max(STEP, SHARED * len(ops)):
                for op in ops:
                    del found[op]
    return found


def _ragged(op: Op, known: Runs) -> Window | None:
    info, (conjuncts, ends) = known.infos.get(op.operands[0]), _conjuncts(op, known)
    if info is None or not ends or scalar(pointee(op.operands[0].type)).bits < 8:
        return None
    axis = max(range(len(info.contiguity)), key=lambda d: (info.contiguity[d], d))
    run = gcd(ACCESS_BYTES // scalar(pointee(op.operands[0].type)).bytes, *(e.run for e in ends))
    if any(end.axis != axis for end in ends) or run < _MASKED * sum(_most(ends)):
        return None
    return Window(op, 0, False, info, _masked(op, known, axis, conjuncts, ends), _most(ends))


def _most(ends: list[Ends]) -> tuple[int, int]:
    return (max((end.first for end in ends), default=0), max((end.last for end in ends), default=0))


def _masked(op: Op, known: Runs, axis: int, conjuncts: _Conjuncts, ends: list[Ends]
            ) -> AxisInfo | None:
    """What is known of a mask but for the ends of runs."""
    guard = None if op.guard is None else known.infos.get(op.guard)
    if guard is None or not ends:
        return guard
    same = gcd(*(known.infos[v].constancy[axis] for v, _ in conjuncts), *(end.run for end in ends))
    return guard._replace(constancy=tuple(
        same if d == axis else k for d, k in enumerate(guard.constancy)))


def _window(op: Op, known: Runs) -> Window | None:
    pointer, infos = op.operands[0], known.infos
    info, form = infos.get(pointer), known.of(pointer)
    if info is None or form is None or form.base is None:
        return None
    size = scalar(pointee(pointer.type)).bytes
    axis = max(range(len(form.strides)), key=lambda d: (
        form.strides[d].constant == 1, info.contiguity[d], d))
    step = 1
    if form.strides[axis].constant != 1:
        apart = strided(form)
        if apart is None:
            return None
        axis, step = apart
    marks = [term for term in form.offset.terms if any(v in known.ends for v in term[0])]
    conjuncts, ends = _conjuncts(op, known)
    share = _MASKED if ends else _MOVED
    for values, n in marks:
        if len(values) > 1 or n != 1:
            return None
        ends.append(known.ends[values[0]])
    if any(end.axis != axis for end in ends) or (
            not marks and step < 2 and info.contiguity[axis] < 2) or (step > 1 and ends):
        return None
    terms = frozenset(term for term in form.offset.terms if term[0] and term not in marks)
    run = gcd(ACCESS_BYTES, infos[form.base].every) // size
    others = [s for d, s in enumerate(form.strides) if d != axis]
    for values, n in (*terms, *(term for s in others for term in s.terms)):
        run = gcd(run, _divides(values, n, axis, infos))
    run = gcd(run, *(end.run for end in ends))
    first, last = _most(ends)
    if run < max(2, 1 + step if step <= STEP else 0, share * (first + last)):
        return None
    begin = form.offset.constant_term
    guard, rows, near = _masked(op, known, axis, conjuncts, ends), None, None
    if guard is not None and not ends and (
            found := _rows(op, form, axis, run, step, known)) is not None:
        rows, moved = found
        if moved:
            near = ((form.base, terms, form.strides, rows), moved) if step == 1 else None
            rows = None
    shifted = step > 1 or begin % run != 0 or (
        rows is not None and guard is not None and guard.constancy[axis] % run != 0)
    wide = [list(entry) for entry in (info.contiguity, info.divisibility)]
    wide[0][axis], wide[1][axis] = max(wide[0][axis], run), max(wide[1][axis], run * size)
    if rows is not None and guard is not None:
        guard = guard._replace(constancy=tuple(
            max(run, k) if d == axis else k for d, k in enumerate(guard.constancy)))
    return Window((form.base, terms, form.strides, conjuncts if rows is None else rows), begin,
                  not shifted and not first + last,
                  info._replace(contiguity=tuple(wide[0]), divisibility=tuple(wide[1])),
                  guard, (first, last), rows is not None and shifted, near, step)


def strided(form: Affine) -> tuple[int, int] | None:
    """The axis along which a load takes every n-th element, and n, if whole accesses may bring
    several of them, or some for other loads."""
    size = 0 if form.base is None else scalar(pointee(form.base.type)).bytes
    steps = {s.constant: d for d, s in enumerate(form.strides) if s.constant}
    step = min(steps, default=0)
    return (steps[step], step) if 2 <= step <= ACCESS_BYTES and 0 < size <= SMALL else None


def takes_apart(loads: Iterable[Op]) -> bool:
    """Whether loads of half of the elements or more take every n-th one."""
    affinity, apart, whole = Affinity(), 0, 0
    for load in loads:
        size, form = prod(shape(load.result.type)), affinity.of(load.operands[0])
        whole += size
        apart += size if form is not None and strided(form) is not None else 0
    return 2 * apart >= whole > 0


def steps_of(form: Affine, axis: int, step: int) -> list[int]:
    """The steps of indices along each axis, as bounds of a mask have them, that such loads have."""
    return [step if d == axis else 1 for d in range(len(form.strides))]


def _rows(op: Op, form: Affine, axis: int, run: int, step: int, known: Runs
          ) -> tuple[Hashable, dict[Op, int]] | None:
    """What says which aligned accesses of `run` elements a mask lets through, if it takes each as a
    whole: bounds of the rows of memory, at multiples of accesses, of other axes, and conditions
    that are the same in an access.  With it, how far bounds are from where that is so."""
    steps = steps_of(form, axis, step)
    bounds, conditions, others = known.parts(op.guard, len(form.strides), steps)
    alike: set[Value] = set()
    if op.guard is not None and known.infos[op.guard].constancy[axis] % run:
        alike = {v for v, where in [*others, *((b.test.result, (b.axis,)) for b in bounds)]
                 if axis in where and len(shape(v.type)) == len(where) and v in known.infos
                 and known.infos[v].constancy[where.index(axis)] % run == 0}
    lows = [known.least(value, where, steps) for value, where in others if value not in alike]
    found = [low for low in lows if low is not None]
    if len(found) < len(lows):
        return None
    conditions += [value for value, _ in others if value in alike]
    same = [bound for bound in bounds if bound.test.result in alike]
    return _bounded(op, form, axis, run, known, bounds, found, conditions) or (
        _bounded(op, form, axis, run, known, [b for b in bounds if b not in same], found,
                 [*conditions, *(b.test.result for b in same)]) if same else None)


def _bounded(op: Op, form: Affine, axis: int, run: int, known: Runs, bounds: list[Bound],
             lows: list[Bound], conditions: list[Value]) -> tuple[Hashable, dict[Op, int]] | None:
    """The same of these bounds and conditions."""
    tests = [bound.test for bound in (*bounds, *lows)]
    implied = [bound._replace(limit=Linear()) for bound in bounds
               if bound.test.attributes["predicate"][0] == "u"]

    def multiple(polynomial: Linear) -> bool:
        return not any(shape(v.type) and (v not in known.infos or len(shape(v.type)) <= axis
                                          or known.infos[v].constancy[axis] % run)
                       for values, _ in polynomial.terms for v in values) and all(
            _divides(values, n, axis, known.infos) % run == 0 for values, n in polynomial.terms)

    found, moved = set(), dict[Op, int]()
    if axis not in {low.axis for low in (*lows, *implied)}:  # no access of the row is below 0
        implied += [bound._replace(limit=Linear()) for bound in bounds
                    if bound.axis == axis and known.signs.positive(bound.start)]
    for kind, bound in [*(("less", b) for b in bounds), *(("least", b) for b in (*lows, *implied))]:
        start, limit = bound.start, bound.limit
        if bound.axis == axis:  # up to which place in memory, or from which
            place = tuple(0 if d == axis else None for d in range(len(form.strides)))
            start = form.offset - start.renamed({
                v: known.spread.get((v, shape(op.result.type), place), v) for v in start.values()})
            by = start.constant_term
            start, limit = start - number(by), limit + number(by)
            if by := (-1 if kind == "less" else 1) * limit.constant_term % run * (
                    1 if kind == "less" else -1):
                # by one comparison, which nothing else rests on: what is implied has none
                if moved or bound in implied or tests.count(bound.test) > 1 or not may_move(
                        bound, by, run, form.offset.constant_term, shape(op.result.type)[axis],
                        [*lows, *implied]):
                    return None
                moved[bound.test], limit = by, limit + number(by)
            if not (multiple(start) and multiple(limit)):
                return None
        found.add((kind, bound.axis, frozenset(start.terms), frozenset(limit.terms)))
    return (frozenset(found), tuple(conditions)), moved


def _conjuncts(op: Op, known: Runs) -> tuple[_Conjuncts, list[Ends]]:
    """What a load's mask is a conjunction of, each with whether it holds or fails, but for what
    does so everywhere in a run except at an end; and these ends."""
    stack, found, ends = [(op.guard, True)] if op.guard is not None else [], set(), []
    for value, holds in stack:  # which grows
        made = value.op
        if made is not None and made.name == ("and" if holds else "or"):
            stack += [(v, holds) for v in made.operands]
        elif made is not None and made.name == "cmpp":
            stack.append((made.operands[0], holds == (value is made.results[0])))
        elif (truth := known.compared(value)) is not None and truth[0] == holds:
            ends.append(truth[1])
        else:
            found.add((value, holds))
    return frozenset(found), ends


def _divides(values: tuple[Value, ...], n: int, axis: int, infos: Infos) -> int:
    """What divides a product of values, and how far they stay the same or go on."""
    run = 0
    for value in values:
        info = infos.get(value)
        if info is None:
            run = gcd(run, 1) if shape(value.type) else run
            continue
        if shape(value.type):
            reach = max(info.contiguity[axis], info.constancy[axis])
            run, n = gcd(run, reach), n * info.start_divisibility(axis, info.contiguity[axis])
        else:
            n *= info.every
    return gcd(run, n)
