"""What a value is at one element of its tile: a polynomial of sizes, indices and counters.

`Terms.at(value, index)` answers for the element `index`, polynomials themselves.  The value is
congruent to the polynomial modulo 2**bits; it *is* the polynomial where that fits the type.  Steps
that depend on more than congruence (a wider type, an address) state *needs*: bounds that have to be
proved before the term counts.

What has no polynomial is a `Symbol`, and `rules` has what is known of it: lists of branches, of
which one holds.  A phi of a loop's header that advances by a step that stays the same is start +
counter * step, as in `analysis.affine`; the counter is a symbol of the loop."""

from collections.abc import Sequence
from dataclasses import field, replace

from tritonc.analysis.aliases import pointer_roots
from tritonc.analysis.linear import Linear, number, symbol
from tritonc.analysis.values import MOVES, axes_before, int_of
from tritonc.ir.cfg import incoming
from tritonc.ir.core import Op, Value
from tritonc.ir.ops import OPPOSITE
from tritonc.ir.types import element, is_int, is_pointer, shape
from tritonc.prove.claims import (
    ONE,
    Branch,
    Claim,
    Index,
    Need,
    Rule,
    Term,
    fits,
    least,
    needs_of,
    sure,
)
from tritonc.prove.model import Symbol
from tritonc.prove.symbols import Symbols
from tritonc.records import dataclass

_MOST_TERMS = 24  # of a polynomial; a longer one is a symbol
_DEPTH = 5  # of phis within phis


@dataclass
class Terms(Symbols):
    known: dict[tuple[Value, Index], Term] = field(default_factory=dict)
    depth: int = 0  # of phis that are looked through

    def __post_init__(self) -> None:
        super().__post_init__()
        roots = pointer_roots(self.kernel)
        self.stored = {roots.get(op.operands[0]) for op in self.kernel.ops()  # None: not known
                       if op.name in ("store", "atomic_rmw", "atomic_cas")}

    def at(self, value: Value, index: Index) -> Term:
        place = value, index
        if place not in self.known:
            found = self._term(value, index)
            if found is None or len(found.poly.terms) > _MOST_TERMS:
                found = self.opaque(value)
            self.known[place] = found
        return self.known[place]

    # one rule for each operation

    def _term(self, value: Value, index: Index) -> Term | None:
        op = value.op
        if op is None:
            if is_pointer(value.type):
                return Term(Linear(), (), value)
            found = self.model.numbers.get(value)
            return Term(found) if found is not None else None
        if not is_int(value.type) and not is_pointer(value.type):
            return None
        method = getattr(self, f"_{op.name}", None)
        return method(op, index) if method is not None else None

    def _constant(self, op: Op, index: Index) -> Term | None:
        found = int_of(op.result)
        return Term(number(found)) if found is not None else None

    def _range(self, op: Op, index: Index) -> Term:
        return Term(number(op.attributes["start"]) + index[0])

    def _get_program_id(self, op: Op, index: Index) -> Term:
        return Term(self.program(op.attributes["axis"]))

    def _get_global_range(self, op: Op, index: Index) -> Term:
        return Term(self.program(op.attributes["axis"]).scaled(op.attributes["extent"]) + index[0])

    def _get_num_programs(self, op: Op, index: Index) -> Term | None:
        axis = op.attributes["axis"]
        extent = self.model.range[axis] if axis < len(self.model.range) else ONE
        if extent is None:
            return None
        count, new = self.derived("programs", op, (), axis)
        if new:
            (v,) = count.values()
            assert isinstance(v, Symbol)
            v.own = False
            self.origins[v] = None, ()
            tile = self.kernel.tile.get(axis, 1)
            self.rule(count, sure(count.scaled(tile) - extent, count - ONE,
                                   extent - ONE - (count - ONE).scaled(tile)))
        return Term(count)

    def _constant_table(self, op: Op, index: Index) -> Term:
        return Term(Linear(), (), op.result)

    def _broadcast(self, op: Op, index: Index) -> Term | None:
        moved = moved_index(op, index)
        return self.at(op.operands[0], moved) if moved is not None else None

    _splat = _reshape = _trans = _broadcast

    def _add(self, op: Op, index: Index) -> Term:
        a, b = (self.at(v, index) for v in op.operands)
        return Term(a.poly + b.poly if op.name == "add" else a.poly - b.poly, needs_of(a, b))

    _sub = _add

    def _mul(self, op: Op, index: Index) -> Term:
        a, b = (self.at(v, index) for v in op.operands)
        named = self.model.named
        if a.poly.constant is not None or b.poly.constant is not None:
            return Term(a.poly * b.poly, needs_of(a, b))
        return Term(named(a.poly) * named(b.poly), needs_of(a, b))

    def _addptr(self, op: Op, index: Index) -> Term:
        p, offset = (self.at(v, index) for v in op.operands)
        e = element(op.operands[1].type)
        needs = (fits(offset.poly, e.bits, op.operands[1]),) if e.bits < 64 else ()
        return Term(p.poly + offset.poly, needs_of(p, offset) + needs, p.base)

    def _sext(self, op: Op, index: Index) -> Term | None:
        bits = element(op.operands[0].type).bits
        if bits == 1:
            return None
        a = self.at(op.operands[0], index)
        need = fits(a.poly, bits, op.operands[0])
        if op.name == "zext":
            need = replace(need, low=0, high=(1 << bits) - 1)
        return Term(a.poly, (*a.needs, need))

    _zext = _sext

    def _truncate(self, op: Op, index: Index) -> Term | None:
        return self.at(op.operands[0], index) if element(op.result.type).bits > 1 else None

    def _assume_multiple(self, op: Op, index: Index) -> Term:
        return self.at(op.operands[0], index)

    def _shl(self, op: Op, index: Index) -> Term | None:
        a, by = self.at(op.operands[0], index), int_of(op.operands[1])
        if by is None or not 0 <= by < element(op.result.type).bits:
            return None
        return Term(a.poly.scaled(1 << by), a.needs)

    def _sdiv(self, op: Op, index: Index) -> Term | None:
        return self._quotient(op, index)[0]

    _udiv = _sdiv

    def _srem(self, op: Op, index: Index) -> Term | None:
        quotient, a, b = self._quotient(op, index)
        if b.poly.constant is not None or a.poly.divided(b.poly) is not None:
            return Term(a.poly - quotient.poly * b.poly, quotient.needs)
        bits = element(op.result.type).bits
        rest, new = self.derived("rest", op, (a.poly, b.poly), op.name[0], bits)
        if new:
            by = self.model.named(b.poly)
            exact = a.poly - quotient.poly * by - rest
            self.rule(rest, (tuple(Claim(p, self._natural(op, a, b)) for p in (
                rest, by - ONE - rest, exact, exact.scaled(-1))),))
        return Term(rest, quotient.needs)

    _urem = _srem

    def _lshr(self, op: Op, index: Index) -> Term | None:
        by = int_of(op.operands[1])
        if by is None or not 0 <= by < element(op.result.type).bits - 1:
            return None
        a = self.at(op.operands[0], index)
        return self._divided(op, a, Term(number(1 << by)))

    _ashr = _lshr

    def _and(self, op: Op, index: Index) -> Term | None:
        mask = int_of(op.operands[1])
        if mask is None or mask < 0 or mask & (mask + 1) or element(op.result.type).bits == 1:
            return None
        a = self.at(op.operands[0], index)
        by = number(mask + 1)  # the low bits depend on the operand modulo 2**bits alone
        quotient, new = self.derived("quotient", op, (a.poly, by))
        if new:
            rest = a.poly - quotient * by
            self.rule(quotient, sure(rest, by - ONE - rest),
                      ((Claim(quotient, (least(a.poly, 0, op),)),),))
        return Term(a.poly - quotient * by, a.needs)

    def _quotient(self, op: Op, index: Index) -> tuple[Term, Term, Term]:
        a, b = (self.at(v, index) for v in op.operands)
        return self._divided(op, a, b), a, b

    def _divided(self, op: Op, a: Term, b: Term) -> Term:
        """a / b: of numbers that are not negative, whether signed or not; a symbol otherwise."""
        needs = needs_of(a, b)
        bits = element(op.result.type).bits
        natural = self._natural(op, a, b)
        exact = a.poly.divided(b.poly)
        if exact is not None:
            return Term(exact, (*needs, *natural))
        quotient, new = self.derived("quotient", op, (a.poly, b.poly), op.name[0], bits)
        if new:
            by = self.model.named(b.poly)
            rest = a.poly - quotient * by
            self.rule(quotient, (tuple(Claim(p, natural) for p in (
                quotient, rest, by - ONE - rest, a.poly - quotient)),),
                sure(quotient + number(1 << (bits - 1)), number((1 << (bits - 1)) - 1) - quotient))
        return Term(quotient, needs)

    def _natural(self, op: Op, a: Term, b: Term) -> tuple[Need, Need]:
        """A dividend that is not negative, and a positive divisor."""
        most = (1 << (element(op.result.type).bits - 1)) - 1
        return Need(a.poly, 0, most, op.operands[0]), Need(b.poly, 1, most, op.operands[1])

    def _smin(self, op: Op, index: Index) -> Term:
        sign = 1 if op.name == "smin" else -1
        a, b = (self.at(v, index) for v in op.operands)
        bits = element(op.result.type).bits
        found, new = self.derived(op.name, op, (a.poly, b.poly), bits)
        if new:
            needs = tuple(fits(t.poly, bits, v) for t, v in zip((a, b), op.operands, strict=True))
            less = [Claim((t.poly - found).scaled(sign), needs) for t in (a, b)]
            same = [Claim((found - t.poly).scaled(sign), needs) for t in (a, b)]
            self.rule(found, (tuple(less),), ((same[0],), (same[1],)))
        return Term(found, needs_of(a, b))

    _smax = _smin

    def _select(self, op: Op, index: Index) -> Term | None:
        condition, *values = op.operands
        return self._choice(op, [(condition, True, values[0]), (condition, False, values[1])],
                            index)

    def _psi(self, op: Op, index: Index) -> Term | None:
        """Of two opposite predicates; others may leave the value undefined."""
        pairs = list(zip(op.operands[0::2], op.operands[1::2], strict=True))
        first, second = (p for p, _ in pairs) if len(pairs) == 2 else (None, None)
        if (first is None or second is None or first is second or first.op is not second.op
                or first.op is None or first.op.name != "cmpp"):
            return None
        return self._choice(op, [(p, True, v) for p, v in pairs], index)

    def _choice(self, op: Op, ways: Sequence[tuple[Value | None, bool, Value]], index: Index
                ) -> Term | None:
        """One of several values, each where its condition holds, if that is known."""
        if is_pointer(op.result.type):
            return None
        found = self.known[op.result, index] = self.opaque(op.result)
        branches: list[Branch] = []
        for condition, holds, value in ways:
            term = self.at(value, index)
            needs = (*term.needs, fits(term.poly, element(op.result.type).bits, value))
            same = (Claim(found.poly - term.poly, needs), Claim(term.poly - found.poly, needs))
            wheres: Rule = ((),) if condition is None else self.holds(
                condition, index if shape(condition.type) else (), holds)
            branches += [(*where, *same) for where in wheres]
        self.rule(found.poly, tuple(branches))
        return found

    def _load(self, op: Op, index: Index) -> Term | None:
        """A number of a table that nothing changes, within the bounds of its expression."""
        if not is_int(op.result.type) or element(op.result.type).bits == 1:
            return None
        pointer = self.at(op.operands[0], index)
        array = self.model.arrays.get(pointer.base) if pointer.base is not None else None
        found = self.opaque(op.result)
        if (array is None or array.low is None or array.high is None or array.pad
                or pointer.base in self.stored or None in self.stored
                or array.element_bytes != element(op.result.type).bytes):
            return found
        self.rules[found.poly.values()[0]] = []
        bounds = (Claim(found.poly - array.low), Claim(array.high - found.poly))
        masked = self.holds(op.guard, index, False) if op.guard is not None else ()
        self.rule(found.poly, (bounds, *masked))
        return found

    # phis

    def _phi(self, op: Op, index: Index) -> Term | None:
        loop = self.loops.get(self.blocks[op])
        if loop is None or loop.latch is None or loop.preheader is None or len(op.operands) != 2:
            return self._choice(op, [(None, True, v) for v in op.operands], index) if (
                loop is None) else None
        if self.depth > _DEPTH:
            return None
        start = self.at(incoming(op, loop.preheader), index)
        last = Symbol("before", own=True)
        self.origins[last] = op, ()
        kept = dict(self.known)
        self.known[op.result, index] = Term(symbol(last), (), start.base)
        self.depth += 1
        after = self.at(incoming(op, loop.latch), index)
        self.depth -= 1
        self.known = kept
        step = after.poly - symbol(last)
        if after.base is not start.base or any(
                self.varies(p, loop) for p in (step, *(n.poly for n in after.needs))):
            return None
        iteration = symbol(self.loop_counters[loop])
        needs = tuple(replace(n, under=(*n.under, iteration - ONE)) for n in after.needs)
        return Term(start.poly + iteration * step, start.needs + needs, start.base)

    # conditions

    def holds(self, value: Value, index: Index, truth: bool) -> Rule:
        """What follows if a boolean's element is `truth`; ((),) if nothing does."""
        op = value.op
        if op is None:
            return ((),)
        if op.name == "cmpp":
            return self.holds(op.operands[0], index, truth == (value is op.results[0]))
        if op.name in MOVES:
            moved = moved_index(op, index)
            return self.holds(op.operands[0], moved, truth) if moved is not None else ((),)
        if op.name == "constant":
            return ((),) if bool(op.attributes["value"]) == truth else ()
        if op.name in ("and", "or"):
            a, b = (self.holds(v, index, truth) for v in op.operands)
            if (op.name == "and") == truth:
                both = tuple(x + y for x in a for y in b)
                return both if len(both) <= 4 else ((),)
            return a + b
        if op.name == "xor" and int_of(op.operands[1]) is not None:
            return self.holds(op.operands[0], index, truth != bool(int_of(op.operands[1])))
        return self._compared(op, index, truth) if op.name == "icmp" else ((),)

    def _compared(self, op: Op, index: Index, truth: bool) -> Rule:
        predicate = op.attributes["predicate"] if truth else OPPOSITE[op.attributes["predicate"]]
        a, b = (self.at(v, index) for v in op.operands)
        bits = element(op.operands[0].type).bits
        if is_pointer(op.operands[0].type) or bits == 1:
            return ((),)
        needs = (*a.needs, *b.needs, fits(a.poly, bits, op.operands[0]),
                 fits(b.poly, bits, op.operands[1]))
        low, high = a.poly, b.poly
        if predicate[1:] in ("gt", "ge"):
            low, high = high, low
        strict = number(int(predicate[1:] in ("lt", "gt")))
        if predicate == "eq":
            return ((Claim(low - high, needs), Claim(high - low, needs)),)
        if predicate == "ne":
            return ((Claim(high - low - ONE, needs),), (Claim(low - high - ONE, needs),))
        if predicate[0] == "u":  # below a number that is not negative as a signed one
            needs = (*needs, Need(high, 0, (1 << (bits - 1)) - 1))
            return ((Claim(low, needs), Claim(high - low - strict, needs)),)
        return ((Claim(high - low - strict, needs),),)


def moved_index(op: Op, index: Index) -> Index | None:
    """The operand's index for a result's of one of `MOVES`; None where a reshape does more than
    add and drop axes of extent 1."""
    axes = axes_before(op)
    return None if axes is None else tuple(
        index[axes.index(d)] if d in axes else Linear()
        for d in range(len(shape(op.operands[0].type))))
