"""Tiles in parts: rows of which only runs lie behind each other, as those of pages in a table do.

    row = (table[j / 16] * 16 + j % 16) * heads + head      with j = 0 ... 128

has no affine form, but each part of 16 rows has: what the load brings is one number there, and
`j % 16` the row of the part.  So TMA brings such a tile by a box for each part, whose number the
loop loads by itself, a scalar."""

from collections.abc import Callable, Iterator

from tritonc.analysis.affine import Affine, Affinity
from tritonc.analysis.axis import axis_info
from tritonc.analysis.elements import index_before
from tritonc.analysis.linear import Linear, equal, number, symbol
from tritonc.analysis.values import MOVES, axes_before, int_of
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Op, Value
from tritonc.ir.types import Tile, element, shape

LEAST = 8  # rows of a part: as many as the pattern of a swizzle has
MOST_PARTS = 16

_SAME = ("convert_layout", "sext", "zext", "assume_multiple")
_SUMS = ("add", "sub", "mul", "addptr")
_ELEMENTWISE = frozenset((*_SAME, *_SUMS, "and", "or", "xor", "shl", "lshr", "ashr", "udiv", "sdiv",
                          "urem", "srem", "icmp", "select", "smin", "smax", "umin", "umax",
                          "truncate", "load", "constant"))
ScalarOf = Callable[[Value, tuple[int, ...]], Value | None]  # the element of a tile at an index


def parts_of(op: Op, affinity: Affinity, infos: axis_info.Infos) -> "Parts | None":
    """The parts of a load's rows that have affine forms, of tiles with two axes."""
    info, extents = infos.get(op.operands[0]), shape(op.operands[0].type)
    if info is None or len(extents) != 2:
        return None
    inner = next((d for d in (1, 0) if info.contiguity[d] == extents[d] > 1), None)
    found = Parts(op, 1 - inner, affinity, infos) if inner is not None else None
    return found if found is not None and LEAST <= found.rows < found.extent <= (
        found.rows * MOST_PARTS) else None


def first_part(op: Op, affinity: Affinity, infos: axis_info.Infos) -> Affine | None:
    """The form of the first part, with the loop's counter for what is loaded for it, which may be
    of any sign."""
    parts, iteration = parts_of(op, affinity, infos), affinity.iteration
    if parts is None or iteration is None:
        return None
    form = next(parts.affinities(stand_in)).of(op.operands[0])
    return form and form._replace(offset=Linear(tuple((tuple(
        v if v.op is None or v in v.op.results else iteration.counter for v in values), n)
        for values, n in form.offset.terms)))


class Parts:
    """The parts of a load's tile along `axis`, of `rows` each, the most with an affine form."""

    def __init__(self, op: Op, axis: int, affinity: Affinity, infos: axis_info.Infos) -> None:
        self.op, self.affinity, self.infos = op, affinity, infos
        self.axis, self.axes = axis, dict[Value, int]()
        self.rows = self.extent = shape(op.operands[0].type)[axis]
        for value in (op.operands[0], *([op.guard] if op.guard is not None else [])):
            self._mark(value, axis)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.rows if d == self.axis else n
                     for d, n in enumerate(shape(self.op.operands[0].type)))

    def _mark(self, value: Value, axis: int) -> None:
        """Note of all that `value` is computed from which axis it is, and how long runs are."""
        op = value.op
        if self.axes.setdefault(value, axis) != axis:
            self.rows = 0
        if op is None or self.affinity.of(value) is not None:
            return
        places = axes_before(op) if op.name in MOVES else None
        if places is not None:
            before = places[axis]
            if before is not None:
                self._mark(op.operands[0], before)
        elif op.name in (*_SUMS, *_SAME, "icmp", "cmpp") or (
                op.name == "and" and element(value.type).bits == 1):
            for operand in op.operands:
                self._mark(operand, axis)
        elif (chosen := self.chosen(op)) is not None:
            self._mark(chosen, axis)
        else:
            whole = op.name == "load" and self._covers(op.guard, op)
            info = self.infos.get(op.operands[0] if whole else value)
            run = 0 if info is None else info.constancy[axis] if whole else max(
                info.constancy[axis], info.contiguity[axis])
            self.rows = min(self.rows, run)

    def chosen(self, op: Op) -> Value | None:
        """Of what predicates choose from the value that it is in all rows that are asked for."""
        return next((value for predicate, value in zip(op.operands[::2], op.operands[1::2],
                                                       strict=True)
                     if self._covers(predicate, op)), None) if op.name == "psi" else None

    def _covers(self, guard: Value | None, op: Op) -> bool:
        """Whether the guard of `op` leaves out no row that is asked for."""
        own = self.affinity.mask(guard, len(shape(op.operands[0].type)))
        every = self.affinity.mask(self.op.guard, len(self.shape))
        return own is not None and every is not None and not own.conditions and all(any(
            bound.axis == self.axis and equal(bound.start, one.start)
            and equal(bound.limit, one.limit) for bound in every.bounds) for one in own.bounds)

    def affinities(self, scalar: ScalarOf) -> Iterator[Affinity]:
        """The affine forms of each part."""
        for row in range(0, self.extent, self.rows):
            yield _PartAffinity(self, row, scalar)


class _PartAffinity(Affinity):
    """Affine forms in the rows of a part, which begins at `row`."""

    def __init__(self, tile: Parts, row: int, scalar: ScalarOf) -> None:
        whole = tile.affinity
        super().__init__(whole.iteration, whole.signs)
        self.tile, self.row, self.scalar, self.inside = tile, row, scalar, {*whole.inside}
        self.assumed = whole.assumed

    def _form(self, value: Value) -> Affine | None:
        whole, axis, op = self.tile.affinity.of(value), self.tile.axes.get(value), value.op
        if axis is None or op is None:
            return whole
        if whole is not None:
            return whole._replace(offset=whole.offset + whole.strides[axis].scaled(self.row))
        chosen = op.operands[0] if op.name == "convert_layout" else self.tile.chosen(op)
        if chosen is not None:
            return self.of(chosen)
        if op.name in (*_SUMS, *_SAME) or (op.name in MOVES and axes_before(op) is not None):
            rule: Callable[[Op], Affine | None] = getattr(self, f"_{op.name}")
            return rule(op)
        return self._run(value, axis)

    def _run(self, value: Value, axis: int) -> Affine | None:
        """The form of what is the same in all rows of the part, or rises by one."""
        info, rank = self.tile.infos.get(value), len(shape(value.type))
        if info is None or rank != 1:
            return None
        whole = value.op is not None and value.op.name == "load"  # see `_mark`
        rises = not whole and info.constancy[axis] < self.tile.rows
        if rises and info.contiguity[axis] < self.tile.rows:
            return None
        start = self._first(value)
        return None if start is None else Affine(start, (number(int(rises)),))

    def _first(self, value: Value) -> Linear | None:
        """What it is in the first row: a remainder is 0 there where a multiple begins."""
        op = value.op
        assert op is not None
        by = int_of(op.operands[1]) if op.name in ("srem", "urem", "and") else None
        form = self.of(op.operands[0]) if by else None
        if by and form is not None and all(
                n % (by + (op.name == "and")) == 0 for _, n in form.offset.terms):
            return Linear()
        found = self.scalar(value, (self.row,))
        if found is None:
            return None
        if value in self.inside:
            self.inside.add(found)
        return symbol(found)


def stand_in(value: Value, index: tuple[int, ...]) -> Value:
    """Who only asks what must be known of a launch needs a name for the element, not the number."""
    return Value(element(value.type), "element", value.op)


class Scalars:
    """Elements of tiles, computed as scalars beside the operations that compute the tiles."""

    def __init__(self, cfg: Cfg) -> None:
        self.cfg = cfg
        self.made: dict[tuple[Value, tuple[int, ...]], Value] = {}

    def __call__(self, value: Value, index: tuple[int, ...]) -> Value | None:
        op = value.op
        if not isinstance(value.type, Tile):
            return value
        if op is None or (value, index) in self.made:
            return self.made.get((value, index))
        if op.name in MOVES or op.name == "convert_layout":
            moved = index if op.name == "convert_layout" else index_before(op, index)
            return self(op.operands[0], moved)
        if op.name == "cmpp":
            return self(op.operands[0], index) if value is op.results[0] else None
        inputs = [self(v, index) for v in op.inputs()]
        if op.name == "range":
            new = make_op("constant", [], element(value.type),
                          value=op.attributes["start"] + index[0])
        elif op.name in _ELEMENTWISE and None not in inputs:
            known = [v for v in inputs if v is not None]
            guard = known.pop() if op.guard is not None else None
            new = make_op(op.name, known, element(value.type), guard=guard, span=op.span,
                          **op.attributes)
        else:
            return None
        ops = self.cfg.block_of[op].ops
        ops.insert(ops.index(op), new)
        self.made[value, index] = new.result
        return new.result
