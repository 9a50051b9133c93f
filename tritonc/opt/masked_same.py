"""Whether a masked computation does what another one does, where a test says its masks are full.

    test:    k + 64 <= K
    ours:    dot(*pa, *pb)
    theirs:  dot(k + r < K ? *pa : 0, ...)

Tests and masks are compared as polynomials that are not negative just where they hold (`slack`):
a mask is full where its slack is at least that of the test.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tritonc.analysis.affine import Affinity
from tritonc.analysis.linear import Linear, number
from tritonc.analysis.values import attributes_key, defined_by
from tritonc.ir.context import Context
from tritonc.ir.core import Op, Value
from tritonc.ir.ops import READ
from tritonc.ir.types import shape

READS = frozenset({READ})
_MOVES = ("splat", "broadcast", "reshape")
_OPPOSITE = {"slt": "sge", "sle": "sgt", "sgt": "sle", "sge": "slt"}


def slack(condition: Value, pairs: dict[Value, Value], fails: bool = False) -> Linear | None:
    """A polynomial that is not negative just where a comparison holds for all elements; or `fails`.

    `pairs`: symbols to rename.
    """
    test = defined_by(condition, "icmp")
    if test is None or test.attributes["predicate"] not in _OPPOSITE:
        return None
    affinity = Affinity()
    less, more = (affinity.of(v) for v in test.operands)
    predicate = test.attributes["predicate"]
    predicate = _OPPOSITE[predicate] if fails else predicate
    if predicate in ("sgt", "sge"):
        less, more = more, less
    if less is None or more is None or less.base is not None or more.base is not None:
        return None
    found = more.offset - less.offset - number(predicate in ("slt", "sgt"))
    for extent, a, b in zip(shape(test.operands[0].type), less.strides, more.strides, strict=True):
        step = (b - a).constant
        if step is None:
            return None
        found = found + number(min(0, step * (extent - 1)))
    return Linear(tuple((tuple(pairs.get(v, v) for v in monomial), n)
                        for monomial, n in found.terms))


def at_least(difference: Linear, least: int) -> bool:
    constant = difference.constant
    return constant is not None and constant >= least


@dataclass
class Same:
    """Whether values of two loops are the same where phis of one are their partners (`pairs`), and
    `test`, of the second's phis, is not negative."""

    context: Context
    pairs: dict[Value, Value]
    test: Linear
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
        if not self.context.table[a.name].effects <= READS \
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
        choice = _choice(op)
        if choice and self._full(choice[0]):
            return self._plain(choice[1])
        if op is not None and op.name == "cmpp" and value is op.results[0]:
            return self._plain(op.operands[0])
        return value

    def _full(self, value: Value) -> bool:
        """Whether a mask holds in all elements."""
        op = value.op
        if op is None:
            return False
        if op.name in _MOVES or (op.name == "cmpp" and value is op.results[0]):
            return self._full(op.operands[0])
        if op.name == "and":
            return all(map(self._full, op.operands))
        room = slack(value, {})
        return room is not None and at_least(room - self.test, 0)


def _choice(op: Op | None) -> list[Value]:
    """Of a psi of two opposite predicates: the first, and both values."""
    if op is None or op.name != "psi" or len(op.operands) != 4:
        return []
    a, b = op.operands[0], op.operands[2]
    while a.op is not None and b.op is not None and a.op.name == b.op.name in _MOVES:
        a, b = a.op.operands[0], b.op.operands[0]
    if a.op is None or a.op.name != "cmpp" or [a, b] != a.op.results:
        return []
    return [op.operands[0], op.operands[1], op.operands[3]]
