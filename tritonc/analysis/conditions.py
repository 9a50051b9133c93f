"""Scalar conditions: their opposites, whether two say the same, and which hold at a place.

    opposite of  slt %a, %b     sge %a, %b
    the same     slt %k, %n     sgt %n, %k     not sge %k, %n
    in the next iteration       the same with the phis' next values in place of the phis

A comparison is of expressions, not of names: what two blocks compute alike is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tritonc.analysis.values import attributes_key, defined_by, int_of
from tritonc.ir.cfg import Cfg, Loop, incoming
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import element

OPPOSITE = {"eq": "ne", "ne": "eq", "slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt",
            "ult": "uge", "uge": "ult", "ugt": "ule", "ule": "ugt"}
SWAPPED = {"eq": "eq", "ne": "ne", "slt": "sgt", "sgt": "slt", "sle": "sge", "sge": "sle",
           "ult": "ugt", "ugt": "ult", "ule": "uge", "uge": "ule"}
_DEPTH = 8  # operations that a comparison of two expressions looks through


class Turn(NamedTuple):
    """A loop's header phis have the values that `phis` says; what else it computes follows."""

    phis: Mapping[Value, Value]
    inside: frozenset[Op]

    def varies(self, value: Value) -> bool:
        """Whether the value is made in the loop."""
        return value.op in self.inside


def first_turn(loop: Loop) -> Turn:
    """The values on entry to the loop."""
    assert loop.preheader is not None
    return _turn(loop, loop.preheader)


def next_turn(loop: Loop) -> Turn:
    """The values one iteration later."""
    assert loop.latch is not None
    return _turn(loop, loop.latch)


def _turn(loop: Loop, source: Block) -> Turn:
    return Turn({phi.result: incoming(phi, source) for phi in loop.header.phis()},
                frozenset(loop.ops()))


def stripped(value: Value) -> tuple[Value, bool]:
    """A condition without the `not`s around it, and whether their number is odd."""
    odd = False
    while (negation := defined_by(value, "xor")) is not None \
            and element(value.type).bits == 1 and int_of(negation.operands[1]) == 1:
        value, odd = negation.operands[0], not odd
    return value, odd


def same_value(a: Value, b: Value, turn: Turn | None = None,
               depth: int = _DEPTH) -> bool:
    """Whether `a`, as it is in `turn`, is computed as `b` is."""
    if turn is not None and a in turn.phis:
        a, turn = turn.phis[a], None
    if a is b and (turn is None or not turn.varies(a)):
        return True
    x, y = a.op, b.op
    if x is None or y is None or not depth or a.type != b.type:
        return False
    if x.name != y.name or x.name == "phi" or not x.pure or x.guard or y.guard:
        return False
    if x.name == "icmp" and element(a.type).bits == 1:
        return same_condition(a, b, turn, depth=depth)
    if attributes_key(x.attributes) != attributes_key(y.attributes) \
            or len(x.operands) != len(y.operands):
        return False
    orders = [x.operands, x.operands[::-1]] if x.info.commutative else [x.operands]
    return any(all(same_value(p, q, turn, depth - 1)
                   for p, q in zip(order, y.operands, strict=True)) for order in orders)


def same_condition(a: Value, b: Value, turn: Turn | None = None, *,
                   opposite: bool = False, depth: int = _DEPTH) -> bool:
    """Whether `a`, as it is in `turn`, is `b`; or the opposite of `b`."""
    (a, odd), (b, other) = stripped(a), stripped(b)
    opposite ^= odd ^ other
    if turn is not None and a in turn.phis:
        return same_condition(turn.phis[a], b, opposite=opposite, depth=depth)
    x, y = defined_by(a, "icmp"), defined_by(b, "icmp")
    if x is None or y is None:
        return not opposite and x is y is None and same_value(a, b, turn, depth)
    predicate: str = x.attributes["predicate"]
    if opposite:
        predicate = OPPOSITE[predicate]
    wanted = y.attributes["predicate"]
    return any(name == wanted and all(same_value(p, q, turn, depth - 1)
                                      for p, q in zip(order, y.operands, strict=True))
               for order, name in ((x.operands, predicate),
                                   (x.operands[::-1], SWAPPED[predicate])))


def passed(cfg: Cfg, block: Block) -> Iterator[tuple[Value, bool]]:
    """Conditions of branches that each way to `block` has passed, and which way they went.

    Of an `and` that holds both sides hold, of an `or` that does not neither.
    """
    above = cfg.immediate_dominator.get(block)
    while above is not None:
        test = above.terminator
        if test.name == "cond_br" and test.blocks[0] is not test.blocks[1]:
            for side, truth in zip(test.blocks, (True, False), strict=True):
                if cfg.predecessors[side] == [above] and cfg.dominates(side, block):
                    stack = [test.operands[0]]
                    while stack:
                        value = stack.pop()
                        yield value, truth
                        parts = defined_by(value, "and" if truth else "or")
                        stack += parts.operands if parts is not None else []
        above = cfg.immediate_dominator[above]


def holds(condition: Value, cfg: Cfg, block: Block, turn: Turn | None = None) -> bool:
    """Whether a condition, as it is in `turn`, is known to be true in `block`."""
    plain, odd = stripped(condition)
    if turn is not None and plain in turn.phis:
        plain, more = stripped(turn.phis[plain])
        turn, odd = None, odd ^ more
    number = int_of(plain)
    if number is not None:
        return bool(number) is not odd
    test = defined_by(plain, "icmp")
    if test is not None:
        sides = [int_of(turn.phis.get(v, v) if turn is not None else v) for v in test.operands]
        if sides[0] is not None and sides[1] is not None:
            return _compare(test.attributes["predicate"], sides[0], sides[1],
                            element(test.operands[0].type).bits) is not odd
    return any(same_condition(plain, known, turn, opposite=odd is truth)
               for known, truth in passed(cfg, block))


def _compare(predicate: str, a: int, b: int, bits: int) -> bool:
    if predicate[0] == "u":
        a, b = a % (1 << bits), b % (1 << bits)
    name = predicate[-2:]
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b,
            "ge": a >= b}[name]
