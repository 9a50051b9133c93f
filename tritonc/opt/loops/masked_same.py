"""Whether a masked computation does what another one does, where a test says its masks are full.

    test:    k + 64 <= K
    ours:    dot(*pa, *pb)
    theirs:  dot(k + r < K ? *pa : 0, ...)

Tests and masks are compared as polynomials that are not negative just where they hold (`slacks`):
a mask is full where its slack is at least that of the test."""

from dataclasses import field
from itertools import product

from tritonc.analysis.affine import Affinity
from tritonc.analysis.linear import Linear, number
from tritonc.analysis.signs import Signs
from tritonc.analysis.values import SPREADS, attributes_key, conditions, defined_by, int_of, sides
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.ops import OPPOSITE, READ
from tritonc.ir.types import shape
from tritonc.records import dataclass

READS = frozenset({READ})


def slacks(condition: Value, pairs: dict[Value, Value], fails: bool = False,
           some: bool = False) -> list[Linear]:
    """Polynomials that are not negative just where a comparison holds for all elements; or `fails`;
    or holds for `some`.  None if they are not known.

    `pairs`: symbols to rename."""
    test = defined_by(condition, "icmp")
    if test is None or test.attributes["predicate"][0] != "s":
        return []
    affinity = Affinity()
    less, more = test.operands
    predicate = test.attributes["predicate"]
    predicate = OPPOSITE[predicate] if fails else predicate
    if predicate in ("sgt", "sge"):
        less, more = more, less
    found = []
    for low, high in product(sides(less, "smax"), sides(more, "smin")):
        a, b = affinity.of(low), affinity.of(high)
        if a is None or b is None or a.base is not None or b.base is not None:
            return []
        rooms = (b - a).extremes(shape(test.operands[0].type))
        if rooms is None:
            return []
        room = rooms[some] - number(predicate in ("slt", "sgt"))
        found.append(room.renamed(pairs))
    return found if len(found) == 1 or not fails else []


def seen(kernel: Kernel, cfg: Cfg) -> list[Linear]:
    """Polynomials that are not negative in programs of which anything can be seen: those whose
    masks let one element of each store through.  What others compute is of no account.

    Of values that no loop changes: a store has the last one, and an iteration has its own."""
    found: list[list[Linear]] = []
    for op in kernel.ops():
        if op.effects <= READS or op.name in ("br", "cond_br", "ret"):
            continue
        if op.guard is None or cfg.block_of[op] in cfg.innermost:
            return []
        found.append([room for mask in conditions(op.guard, SPREADS)
                      for room in slacks(mask, {}, some=True)])
    return [room for room in found[0] if all(room in other for other in found)
            and not any(v.op is not None and cfg.block_of[v.op] in cfg.innermost
                        for monomial, _ in room.terms for v in monomial)] if found else []


@dataclass
class Known:
    """Polynomials that are not negative: one of `tests`, and one of `others`, is looked at."""

    tests: list[Linear]
    others: list[Linear] = field(default_factory=list)

    def follows(self, polynomial: Linear) -> bool:
        """Whether it is known not to be negative either."""
        return any(_not_negative(polynomial - test - other)
                   for test in self.tests for other in (number(0), *self.others))


def _not_negative(polynomial: Linear) -> bool:
    """Whether a polynomial is 0 or more, with quotients of numbers that are not negative put at
    what they are at most or at least."""
    total, affinity, signs = number(0), Affinity(), Signs()
    for monomial, n in polynomial.terms:
        term = Linear(((monomial, n),))
        quotient = defined_by(monomial[0], "sdiv") if len(monomial) == 1 else None
        divisor = int_of(quotient.operands[1]) if quotient is not None else None
        if quotient is not None and divisor and divisor > 0 and n % divisor == 0 \
                and signs.holds(quotient.operands[0]):
            form = affinity.of(quotient.operands[0])
            if form is not None:
                least = form.offset - number(divisor - 1 if n > 0 else 0)
                term = least.scaled(n // divisor)
        total = total + term
    return total.constant is not None and total.constant >= 0


@dataclass
class Same:
    """Whether values of two loops are the same where phis of one are their partners (`pairs`), and
    what is known of the second's phis holds (`facts`)."""

    pairs: dict[Value, Value]
    facts: Known
    known: dict[tuple[Value, Value], bool] = field(default_factory=dict)

    def values(self, ours: Value, theirs: Value) -> bool:
        key = ours, theirs
        if key not in self.known:
            self.known[key] = self._values(ours, self._plain(theirs))
        return self.known[key]

    def _values(self, ours: Value, theirs: Value) -> bool:
        ours = self._plain(ours)
        if ours in self.pairs:
            return self.pairs[ours] is theirs
        a, b = ours.op, theirs.op
        if ours is theirs and (a is None or a.name == "phi" or not self.pairs):
            return True
        first, second = _choice(a), _choice(b)
        if first and second:
            return all(map(self.values, first, second))
        if a is None or b is None or a.name != b.name or a.name == "phi" \
                or ours.type != theirs.type or a.results.index(ours) != b.results.index(theirs):
            return False
        left, right = dict(a.attributes), dict(b.attributes)
        guard = b.guard if b.guard is None or not self._full(b.guard) else None
        if a.guard is None or guard is None:
            if a.guard is not guard:
                return False
            left.pop("other", None)
            right.pop("other", None)
        elif not self.values(a.guard, guard):
            return False
        if not a.effects <= READS \
                or attributes_key(left) != attributes_key(right) \
                or len(a.operands) != len(b.operands):
            return False
        return all(self.values(x, y) for x, y in zip(a.operands, b.operands, strict=True))

    def _plain(self, value: Value) -> Value:
        """What is left of a value where full masks are true."""
        op = value.op
        if op is not None and op.name == "and":
            for side, other in (op.operands, op.operands[::-1]):
                if self._full(side):
                    return self._plain(other)
        choice = op.operands if op is not None and op.name == "select" else _choice(op)
        if choice and self._full(choice[0]):
            return self._plain(choice[1])
        if op is not None and op.name == "cmpp" and value is op.results[0]:
            return self._plain(op.operands[0])
        return value

    def _full(self, value: Value) -> bool:
        """Whether a mask holds in all elements."""
        known = (slacks(condition, {}) for condition in conditions(value, SPREADS))
        return all(rooms and all(map(self.facts.follows, rooms)) for rooms in known)


def _choice(op: Op | None) -> list[Value]:
    """Of a psi of two opposite predicates: the first, and both values."""
    if op is None or op.name != "psi" or len(op.operands) != 4:
        return []
    a, b = op.operands[0], op.operands[2]
    while a.op is not None and b.op is not None and a.op.name == b.op.name in SPREADS:
        a, b = a.op.operands[0], b.op.operands[0]
    if a.op is None or a.op.name != "cmpp" or [a, b] != a.op.results:
        return []
    return [op.operands[0], op.operands[1], op.operands[3]]
