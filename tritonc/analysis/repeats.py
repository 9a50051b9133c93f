"""What tiles repeat: the loads in which neighbours along an axis are equal, in runs, or piece by
piece."""

from collections.abc import Callable
from functools import cache
from math import gcd

from tritonc.analysis.axis import axis_info
from tritonc.analysis.elements import Elements
from tritonc.analysis.multiples import Multiples, MultiplesNeeded, joined
from tritonc.analysis.pieces import Pieces, source_axis
from tritonc.analysis.signs import Needs, known_signs
from tritonc.analysis.values import QUOTIENTS, int_of, origin, slice_of
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import Tile, shape
from tritonc.records import NamedTuple

RUNS, PIECE = (8, 16, 32), 4  # neighbours of which pieces are loaded, each of so many or more
_STARTS = ("slt", "sge", "ult", "uge")  # comparisons that change at a multiple of what divides it
MOST_ASSUMED = 64  # of where masks end; other sizes than multiples of it are more common


class Repeats(NamedTuple):
    """The axis along which elements of a load are one, in each run of so many neighbours; or in
    pieces of it, which begin at `starts`; or of which each `inner` neighbours are repeated as a
    whole, `distinct` of the run being neighbours in memory."""

    axis: int
    run: int
    starts: tuple[int, ...] = (0,)
    pieces: Pieces | None = None
    inner: int = 1
    distinct: int = 0


def share_of(repeats: Repeats | None) -> float:
    """How much of a tile is loaded."""
    return 1.0 if repeats is None else (repeats.distinct or len(repeats.starts)) / repeats.run


class Runs:
    """How many neighbours of a tile are equal, by axis.

    Axis information tells it but for signed quotients, of which those of -1 and 1 are one.  Indices
    are taken not to wrap: what counts upwards from a natural number is natural.

    `assumable`: whether of a scalar it may be assumed that it is a multiple: groups are as long as
    a scalar says, rows of what is divided as a whole (`(n * K + k) / 2`) begin at its multiples,
    and masks end where one says.  `assumed`: what has been assumed, and `natural` of what it has
    been that it is not negative."""

    def __init__(self, kernel: Kernel, cfg: Cfg,
                 assumable: Callable[[Value], bool] = lambda v: False) -> None:
        self.infos, self.assumable = axis_info.analyze(kernel), assumable
        self.signs = known_signs(kernel, cfg, kernel.entry)
        self.signs.testable = assumable
        self.assumed: Multiples = {}
        self.natural: Needs = {}
        elements = Elements()
        self.pieces = cache(lambda run: Pieces(run, elements))

    def of_load(self, load: Op, gathers: bool) -> Repeats | None:
        """What a load repeats; of addresses that follow from loaded tiles, which are there late,
        only if `gathers`."""
        t = load.result.type
        if not isinstance(t, Tile) or load.attributes.get("volatile") or (not gathers and any(
                op.name == "load" and shape(op.result.type)
                for op in slice_of(load.operands[:1], None, ("load",), False))):
            return None
        for axis, extent in enumerate(t.shape):
            before = dict(self.assumed), dict(self.natural)
            run = self.of(load.operands[0], axis, extent)
            if load.guard is not None and run > 1:
                run = min(run, self.of(load.guard, axis, run))
            if run > 1 and extent % run == 0:
                return Repeats(axis, run)
            self.assumed, self.natural = before
        return self._of_blocks(load) or self._in_pieces(load)

    def _of_blocks(self, load: Op) -> Repeats | None:
        """Blocks of neighbours that are repeated, as bytes whose halves are weights 16 apart."""
        for axis, extent in enumerate(shape(load.result.type)):
            pieces = self.pieces(extent)
            places = pieces.apart(load.operands[0], axis) if extent > 1 else None
            distinct = 0 if places is None else max(places) + 1
            if places is None or extent % distinct or not 1 < distinct < extent:
                continue
            for inner in range(2, distinct + 1):
                whole = inner * extent // distinct
                if all(p == i // whole * inner + i % inner for i, p in enumerate(places)):
                    before = dict(self.assumed)
                    if load.guard is None or self.of(load.guard, axis, extent) == extent:
                        return Repeats(axis, extent, (0,), pieces, inner, distinct)
                    self.assumed = before
        return None

    def _in_pieces(self, load: Op) -> Repeats | None:
        before = dict(self.assumed)
        quotient = any(op.name in QUOTIENTS for op in slice_of(
            load.operands[:1], ends=("load", "phi"), masks=False))
        for axis, extent in enumerate(shape(load.result.type) if quotient else ()):
            for run in RUNS:
                pieces = self.pieces(run)
                if extent % run == 0 and PIECE * len(
                        starts := pieces.starts(load.operands[0], axis)) <= run:
                    if load.guard is None or self.of(load.guard, axis, run) == run:
                        return Repeats(axis, run, tuple(starts), pieces)
                    self.assumed = before
        return None

    def of(self, value: Value, axis: int, most: int, assume: int = MOST_ASSUMED) -> int:
        """How many neighbours along an axis are equal, at most `most`; of where a mask ends it is
        assumed that it is a multiple of `assume` at most."""
        t, op, info = value.type, value.op, self.infos.get(value)
        if not isinstance(t, Tile) or t.shape[axis] == 1:
            return most
        least = min(most, info.constancy[axis] if info is not None else 1)
        if op is None or least == most:
            return least
        if op.name in ("broadcast", "reshape"):
            source = source_axis(op, axis)
            return least if source is None else max(least, self.of(op.operands[0], source, most))
        if op.guard is not None:
            most = self.of(op.guard, axis, most)
        if op.name in ("sdiv", "udiv") or (
                op.name == "icmp" and op.attributes["predicate"] in _STARTS):
            (a, b), inner = op.operands, self.infos.get(op.operands[0])
            needs = self.signs.needs(a) if op.name == "sdiv" else {}
            if needs is None or not all(map(self.assumable, needs)):
                return least
            if inner is not None:
                run, by = gcd(inner.contiguity[axis], self.of(b, axis, most)), int_of(b)
                if op.name == "icmp" or by is None:
                    run = gcd(run, inner.divisibility[axis])
                    wanted = run if op.name != "icmp" else min(run, assume)
                    run = gcd(run, self.factor(b, wanted))
                else:
                    run = self.begins(a, axis, gcd(run, by))
                if run > least:
                    self.natural.update(needs)
                return max(least, run)
        if not op.info.elementwise and op.name != "cmpp":
            return least
        return max(least, min(self.of(v, axis, most) for v in op.operands))

    def begins(self, value: Value, axis: int, run: int) -> int:
        """How long runs are that begin at multiples of their length, or may be assumed to."""
        needs = MultiplesNeeded(self.infos, self.assumable).of_integer(value, axis, run, run)
        if needs is None:
            return gcd(run, self.infos[value].divisibility[axis])
        self.assumed = joined(self.assumed, needs)
        return run

    def factor(self, value: Value, wanted: int) -> int:
        """What divides a value that all elements have, or may be assumed to."""
        info = self.infos.get(value)
        known = info.every if info is not None else 1
        value = origin(value)
        if known % wanted == 0 or isinstance(value.type, Tile) or not self.assumable(value):
            return known
        self.assumed[value] = max(wanted, self.assumed.get(value, 1))
        return wanted
