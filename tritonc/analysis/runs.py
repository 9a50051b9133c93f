"""What runs of neighbours in a tile have in common: `Runs`, the forms that `windows` is made of."""

from math import gcd

from tritonc.analysis.affine import Affine, Affinity
from tritonc.analysis.axis.axis_info import Infos
from tritonc.analysis.axis.axis_rules import information
from tritonc.analysis.linear import Linear, number, symbol
from tritonc.analysis.signs import non_negative
from tritonc.analysis.values import axes_before
from tritonc.ir.core import Op, Value
from tritonc.ir.types import element, is_pointer, make, scalar, shape
from tritonc.records import NamedTuple

_LOOSE = {"sge": (True, False), "slt": (True, False), "sgt": (False, True), "sle": (False, True),
          "eq": (False, False), "ne": (False, False)}
_ABOVE, _BELOW = ("sgt", "sge", "ne"), ("slt", "sle", "ne")


class Ends(NamedTuple):
    """Elements of each run along an axis, at its begin or its end, that a form is not of."""

    axis: int
    run: int
    first: int = 0
    last: int = 0


class Runs(Affinity):
    """Forms of the runs of neighbours in a tile.  A tile without a form of its own is a symbol,
    which stands for the number that a run begins with; a term of `ends` is nothing but a mark."""

    def __init__(self, infos: Infos) -> None:
        super().__init__()
        self.infos = infos
        self.ends: dict[Value, Ends] = {}
        self.spread: dict[tuple[Value, tuple[int, ...], tuple[int | None, ...]], Value] = {}
        self.roots: dict[Value, tuple[Value, tuple[int | None, ...]]] = {}

    def _opaque(self, value: Value) -> Affine | None:
        info = self.infos.get(value)
        if not shape(value.type) or is_pointer(value.type) or info is None:
            return super()._opaque(value)
        return Affine(symbol(value), tuple(number(int(c > 1)) for c in info.contiguity))

    def _assume_multiple(self, op: Op) -> Affine | None:
        if shape(op.result.type):
            return super()._assume_multiple(op)
        if is_pointer(op.result.type):
            return Affine(Linear(), (), op.result)
        return Affine(symbol(op.result), ())

    def _splat(self, op: Op) -> Affine | None:
        """Axes of symbols are those of the whole tile: each has one for it."""
        found = super()._splat(op)
        own = [v for v in found.offset.values() if shape(v.type)] if found is not None else []
        if found is None or any(v in self.ends for v in own):
            return None
        spread = {}
        for v in own:
            root, before = self.roots.get(v, (v, tuple(range(len(shape(v.type))))))
            places = tuple(None if d is None else before[d] for d in axes_before(op) or ())
            key = root, shape(op.result.type), places
            if key not in self.spread:
                symbol = Value(make(element(v.type), shape(op.result.type)), v.name)
                self.spread[key], self.roots[symbol] = symbol, (root, places)
                self.infos[symbol] = information(op, symbol.type, [self.infos.get(v)], self.signs)
            spread[v] = self.spread[key]
        return found._replace(offset=found.offset.renamed(spread))

    _broadcast = _reshape = _trans = _splat

    def side(self, difference: Affine, loose: tuple[bool, bool], divisor: Affine | None = None,
             wraps: bool = False) -> tuple[bool, Ends] | None:
        """Whether u + e, or u + e - n, for a remainder u by n, is above 0 or below, and where in a
        run that is not known; `loose` allows for 0 above and below, n may be given.  `wraps`: an
        unsigned u of 2**31 or more does no harm."""
        for u in difference.offset.values():
            if u.op is None or u.op.name != "urem" or not shape(u.type) or not (
                    wraps or non_negative(u)):
                continue
            rest, info, n = difference - self.of_value(u), self.infos[u], u.op.operands[1]
            axis = max(range(len(info.contiguity)), key=lambda d: info.contiguity[d])
            run, by = info.contiguity[axis], self.of(n)
            if not rest.uniform or by is None or run < 2 or gcd(
                    info.divisibility[axis], self.infos[n].every) % run or (
                    divisor is not None and (by - divisor).offset.terms):
                continue
            if (e := rest.offset.constant) is not None:
                if e > 1 and not non_negative(u):
                    continue  # u + e may be 2**32
                ends = Ends(axis, run, first=max(0, (not loose[0]) - e))
            elif (e := (rest.offset + by.offset).constant) is not None and e >= 0:
                ends = Ends(axis, run, last=max(0, e - loose[1]))
            else:
                continue
            if ends.first + ends.last < run:
                return rest.offset.constant is not None, ends
        return None

    def of_value(self, value: Value) -> Affine:
        found = self.of(value)
        assert found is not None
        return found

    def compared(self, value: Value) -> tuple[bool, Ends] | None:
        """Whether a comparison holds, and where in a run that is not known."""
        op = value.op
        if op is not None and op.name == "cmpp":
            found = self.compared(op.operands[0])
            return found and (found[0] == (value is op.results[0]), found[1])
        if op is None or op.name != "icmp" or op.attributes["predicate"] not in _LOOSE:
            return None
        predicate, forms = op.attributes["predicate"], [self.of(v) for v in op.operands]
        if None in forms or scalar(op.operands[0].type).bits < 32:
            return None
        a, b = (form for form in forms if form is not None)
        found = self.side(a - b, _LOOSE[predicate], wraps=predicate in ("eq", "ne"))
        return found and (predicate in (_ABOVE if found[0] else _BELOW), found[1])

    def _select(self, op: Op) -> Affine | None:
        return self._one(op, self.compared(op.operands[0]), *op.operands[1:])

    def _psi(self, op: Op) -> Affine | None:
        if len(op.operands) != 4:
            return None
        return self._one(op, self.compared(op.operands[2]), op.operands[3], op.operands[1])

    def _one(self, op: Op, known: tuple[bool, Ends] | None, a: Value, b: Value) -> Affine | None:
        """The form of a where that is known to be the result, or of b."""
        form = None if known is None else self.of(a if known[0] else b)
        if form is None or known is None:
            return None
        self.ends[op.result] = known[1]
        return form._replace(offset=form.offset + symbol(op.result))

    def _extreme(self, op: Op) -> Affine | None:
        a, b = (self.of(v) for v in op.operands)
        if a is None or b is None or scalar(op.result.type).bits < 32:
            return None
        known = self.side(a - b, (True, True))
        return self._one(op, known and (known[0] == (op.name == "smax"), known[1]), *op.operands)

    _smin = _smax = _extreme

    def _umin(self, op: Op) -> Affine | None:
        """umin(a, a - n) of an a below 2 n: the remainder."""
        less = op.operands[1].op
        a, n = self.of(op.operands[0]), less and less.name == "sub" and self.of(less.operands[1])
        if less is None or a is None or not n or less.operands[0] is not op.operands[0]:
            return None
        known = self.side(a - n, _LOOSE["slt"], n, wraps=True)
        return self._one(op, known and (not known[0], known[1]), *op.operands)
