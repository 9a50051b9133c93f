"""Tiles of indices that stay inside: what a program need not wrap, clamp or compare.

    (h + i + H) % H         is h + i        where H <= h + i + H < 2 H in the whole tile
    min(max(w + j, 0), n)   is w + j        where 0 <= w + j <= n
    2 * h - 1 >= 0          holds
    (i % W + 1) % W         is a remainder less W, if not below that
    i / W                   is a quotient of unsigned numbers of 32 bits
    i / (H * W) < B         is i < B * H * W, if that has 31 bits: a bound, also beside products

Sources take care of the edges of an image or of an array that wraps in every program, and few
programs are there.  The extremes of a tile are tested; the fast body does without.  A flat index `i
% W` is left: most programs have several rows."""

from collections.abc import Callable

from tritonc.analysis.affine import Affinity
from tritonc.analysis.extents import Extent, Extents
from tritonc.analysis.linear import Linear, number, symbol
from tritonc.analysis.quotients import dividend
from tritonc.analysis.signs import MOST, known_signs
from tritonc.analysis.values import defined_by, slice_of
from tritonc.backend.memory.versions.assumed import Plain, Text, is_number, testable_scalars
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I32, element, shape

MOST_TIMES = 3  # the divisor may be in the index
GREATEST = 3 << 61  # a sum that is tested
NONE, ONE = Linear(), number(1)


def suppose_inside(text: Text) -> tuple[Text, dict[Op, Plain]]:
    """A copy whose tiles are inside; what it supposes of which operations of the copy.  The text
    itself if there is nothing to gain."""
    if not _candidates(text.kernel):
        return text, {}
    copy = text.supposing({})
    supposed = _Supposed(copy.kernel)
    supposed.candidates = _candidates(copy.kernel)
    supposed.run()
    return (copy, supposed.found) if supposed.found else (text, {})


def _candidates(kernel: Kernel) -> set[Op]:
    """What may become plain: beside products, comparisons of quotients."""
    beside = any(op.name == "dot" for op in kernel.ops())
    return {op for op in _slice(kernel) if op.name in _RULES and (
        not beside or (op.name == "icmp" and any(dividend(v)[1] for v in op.operands)))}


def _slice(kernel: Kernel) -> set[Op]:
    """What decides on the addresses and masks of tiles that are loaded and stored."""
    tiles = {op for op in kernel.ops() if op.name not in ("load", "phi")
             and op.results and shape(op.results[0].type)}
    return slice_of((v for op in kernel.ops() if op.name in ("load", "store")
                     for v in (op.operands[0], op.guard) if v is not None), tiles)


class _Supposed:
    """A kernel whose operations become plain, one after the other."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.cfg = kernel, Cfg(kernel)
        self.affinity = Affinity(signs=known_signs(kernel, self.cfg, kernel.entry))
        self.extents = Extents(self.cfg, self.affinity)
        self.testable = testable_scalars(self.cfg)
        self.beside = any(op.name == "dot" for op in kernel.ops())
        self.candidates: set[Op] = set()
        self.found: dict[Op, Plain] = {}

    def run(self) -> None:
        for block in self.cfg.order:
            for op in list(block.ops):
                if op in self.candidates:
                    self.suppose(op)

    def suppose(self, op: Op) -> None:
        """The first form of which all tests can be made."""
        for plain, extent in _RULES[op.name](op, self.extents):
            tests = self.tests(plain, op) if plain.name == "product" or not self.beside else None
            if tests is not None:
                self.found[op] = plain._replace(tests=tests)
                new, block = plain.ops(op), self.cfg.block_of[op]
                at = block.ops.index(op) + 1
                block.ops[at:at] = new
                self.kernel.replace({op.result: new[-1].result})
                if extent is not None:
                    self.extents.known[new[-1].result] = extent
                return

    def tests(self, plain: Plain, op: Op) -> tuple[Extent, ...] | None:
        """The tests of scalars that are known at entry; those of numbers that hold left out."""
        found = []
        for a, b in plain.tests:
            total = self.extents.greatest(a - b, op)
            if total is None or not all(self.testable(v) or is_number(v) for v in total.values()):
                return None
            least, most = _bounds(total)
            if least > 0 or (max(-least, most) > GREATEST and not plain.fits):
                return None
            if most > 0:
                found.append((total, NONE))
        return tuple(found)


def _bounds(polynomial: Linear) -> tuple[int, int]:
    """What a sum may be, whatever its values are."""
    least = most = 0
    for values, n in polynomial.terms:
        low, high = n, n
        for v in values:
            size = 1 << element(v.type).bits - 1
            ends = [end * by for end in (low, high) for by in (0 if is_number(v) else -size, size)]
            low, high = min(ends), max(ends)
        least, most = least + low, most + high
    return least, most


# ---- the operations: forms, and the extent of the result where it is not that of an operand

Forms = list[tuple[Plain, Extent | None]]


def _moving(op: Op, extents: Extents) -> tuple[int, Linear, Linear, Linear] | None:
    """Which operand differs in the tile, its extremes, and the other operand."""
    forms = [extents.affinity.of(v) for v in op.operands]
    for at, other in enumerate(forms[::-1]):
        if other is not None and other.uniform and other.base is None and (
                at == 0 or not _uniform(extents.affinity, op.operands[0])):
            extent = extents.of(op.operands[at])
            return (at, *extent, other.offset) if extent is not None else None
    return None


def _uniform(affinity: Affinity, value: Value) -> bool:
    form = affinity.of(value)
    return form is not None and form.uniform


def _compared(op: Op, extents: Extents) -> Forms:
    """An index is no less than a number, and less than anything else."""
    predicate, found = op.attributes["predicate"], _moving(op, extents)
    if bound := _bound(op, extents):
        return bound
    if found is None or predicate[0] != "s" or extents.affinity.bound(op) is not None:
        return []
    at, low, high, limit = found
    rising = (predicate[1] == "g") == (at == 0)  # x > c, c < x
    one = number(predicate[1:] in ("lt", "gt"))
    if limit.constant is None:
        return [(Plain(((high + (ONE - one if rising else one), limit),), str(not rising)), None)]
    return [(Plain(((limit + (one if rising else ONE - one), low),), str(rising)), None)]


def _bound(op: Op, extents: Extents) -> Forms:
    """A quotient of a number that is not negative is less than another one, or is not: the number
    is less than a product of 31 bits."""
    at = next((at for at, v in enumerate(op.operands) if dividend(v)[1]), 0)
    value, divisors = dividend(op.operands[at])
    scalars = [spread.operands[0] for v in (op.operands[1 - at], *divisors)
               if (spread := defined_by(v, "splat")) is not None]
    if op.attributes["predicate"][1:] not in (("lt", "ge"), ("gt", "le"))[at] \
            or not 1 < len(scalars) == 1 + len(divisors) or element(value.type) != I32 \
            or not extents.affinity.signs.holds(value):
        return []
    total, tests, extent = ONE, list[tuple[Linear, Linear]](), extents.of(value)
    for factor in map(symbol, scalars):
        total *= factor
        tests += [(NONE, factor), (total, number(MOST))]
    inside = [Plain((*tests, (extent[1] + ONE, total)), str(op.attributes["predicate"][1:] in (
        "lt", "gt")), fits=True)] if extent is not None else []
    return [(plain, None) for plain in (*inside, Plain(tuple(tests), "product", at, fits=True))]


def _clamped(op: Op, extents: Extents) -> Forms:
    found = _moving(op, extents)
    if found is None or extents.affinity.of(op.operands[found[0]]) is None:
        return []
    at, low, high, limit = found
    return [(Plain(((high, limit),) if op.name == "smin" else ((limit, low),), "", at), None)]


def _divided(op: Op, extents: Extents) -> Forms:
    """Plain if the divisor is in the index, so that it is not below 0, or the index is shifted; a
    remainder of a number that is less than two divisors; one of unsigned numbers."""
    found = _moving(op, extents)
    if found is None or found[0] != 0 or len(found[3].terms) != 1 or found[3].constant is not None:
        return []
    _, low, high, divisor = found
    forms: Forms = []
    (monomial, n), = divisor.terms
    rest = NONE, divisor - ONE
    if op.name == "srem" and n == 1 and extents.affinity.of(op.operands[0]) is not None:
        times = next((m for values, m in low.terms if values == monomial), 0)
        if 0 < times <= MOST_TIMES or (times == 0 and any(not values for values, _ in low.terms)):
            inside = (divisor.scaled(times), low), (high + ONE, divisor.scaled(times + 1))
            forms.append((Plain(inside, "", 0, times), None))
    most = number(MOST)
    safe = (NONE, low), (high, most), (ONE, divisor), (divisor, most)
    if op.name == "srem":
        twice = high - divisor.scaled(2)
        if all(values == monomial or not values for values, _ in twice.terms):
            forms.append((Plain((*safe, (twice + ONE, NONE)), "once"), rest))
        forms.append((Plain(safe, "urem"), rest))
    else:
        forms.append((Plain(safe, "udiv"), (NONE, high)))
    return forms


_RULES: dict[str, Callable[[Op, Extents], Forms]] = {
    "icmp": _compared, "smin": _clamped, "smax": _clamped, "srem": _divided, "sdiv": _divided}


def begins_inside(kernel: Kernel) -> bool:
    """Whether masks of loads say where rows of memory begin: there are tiles at both ends."""
    affinity = Affinity()
    for op in kernel.ops():
        if op.name == "load" and (form := affinity.of(op.operands[0])) is not None:
            bounds, _, others = affinity.parts(op.guard, len(form.strides))
            lows = [affinity.least(value, where) for value, where in others]
            if lows and all(low is not None and form.strides[low.axis].constant == 1 and any(
                    low.axis == bound.axis for bound in bounds) for low in lows):
                return True
    return False
