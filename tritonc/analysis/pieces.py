"""Where neighbours along an axis are equal piece by piece, in the same places of each run.

    3 * k / 32 of k = 0 ... 64: of each 32 neighbours the first eleven are equal, the next eleven,
    and the last ten

So lie numbers of three bits in words: three words of a row have the bits of 32 numbers."""

from collections.abc import Sequence
from math import gcd

from tritonc.analysis.facts import Facts
from tritonc.analysis.values import QUOTIENTS, int_of, origin, slice_of
from tritonc.ir.core import Op, Value
from tritonc.ir.types import Tile, same_axes, scalar, shape

_WHOLE = (*QUOTIENTS, "lshr")  # by a constant
_REST = ("srem", "urem", "and")


def has_quotient(value: Value) -> bool:
    """Whether it may be in pieces."""
    return any(op.name in _WHOLE for op in slice_of([value], ends=("load", "phi"), masks=False))


class Pieces:
    """What is known of the neighbours in runs of a length, a power of two, that begin at its
    multiples.  Indices are taken not to wrap, and to be natural where they are divided."""

    def __init__(self, facts: Facts, run: int) -> None:
        self.facts, self.run = facts, run
        self._along: dict[tuple[Value, int], Sequence[int]] = {}
        self._offsets: dict[tuple[Value, int], tuple[tuple[int, ...], int] | None] = {}

    def starts(self, value: Value, axis: int) -> list[int]:
        """The places in each run at which an element may be another than the one before."""
        known = self.along(value, axis)
        return [i for i in range(self.run) if not i or known[i] != known[i - 1]]

    def along(self, value: Value, axis: int) -> Sequence[int]:
        """Of each place in a run a number that is the same where the elements are."""
        key = value, axis
        if key not in self._along:
            self._along[key] = self._numbers(value, axis)
        return self._along[key]

    def _numbers(self, value: Value, axis: int) -> Sequence[int]:
        op, t = value.op, value.type
        if not isinstance(t, Tile) or t.shape[axis] == 1 or (
                op is not None and op.name in ("splat", "constant")):
            return (0,) * self.run
        if (known := self.offsets(value, axis)) is not None:
            return known[0]
        if op is not None and (source := source_axis(op, axis)) is not None:
            return self.along(op.operands[0], source)
        if op is None or not (op.info.elementwise or op.name == "cmpp") or op.guard is not None:
            return range(self.run)
        first: dict[tuple[int, ...], int] = {}
        return [first.setdefault(each, i) for i, each in enumerate(zip(
            *(self.along(v, axis) for v in op.operands), strict=True))]

    def offsets(self, value: Value, axis: int) -> tuple[tuple[int, ...], int] | None:
        """How far each element of a run is from the first, and a multiple of what that one is;
        None if it is not known."""
        key = value, axis
        if key not in self._offsets:
            self._offsets[key] = self._of(value, axis)
        return self._offsets[key]

    def _of(self, value: Value, axis: int) -> tuple[tuple[int, ...], int] | None:
        op, t = value.op, value.type
        if op is None or not isinstance(t, Tile) or t.shape[axis] % self.run:
            same = not isinstance(t, Tile) or t.shape[axis] == 1
            return ((0,) * self.run, self.facts.factor(value)) if same else None
        if op.name in ("splat", "constant"):
            return (0,) * self.run, self.facts.factor(value)
        if op.name == "range":
            return tuple(range(self.run)), gcd(self.run, op.attributes["start"])
        if (source := source_axis(op, axis)) is not None:
            return self.offsets(op.operands[0], source)
        if op.name in ("sext", "zext"):
            return self.offsets(op.operands[0], axis)
        if op.name in ("add", "sub"):
            a, b = (self.offsets(v, axis) for v in op.operands)
            sign = 1 if op.name == "add" else -1
            return None if a is None or b is None else (tuple(
                x + sign * y for x, y in zip(a[0], b[0], strict=True)), gcd(a[1], b[1]))
        return self._by_constant(op, axis)

    def _by_constant(self, op: Op, axis: int) -> tuple[tuple[int, ...], int] | None:
        by = int_of(origin(op.operands[1])) if len(op.operands) == 2 else None
        known = self.offsets(op.operands[0], axis) if by is not None and by > 0 else None
        if known is None or by is None:
            return None
        (each, multiple), bits = known, scalar(op.result.type).bits
        if op.name == "mul":
            return tuple(n * by for n in each), multiple * by
        by = 1 << min(by, bits) if op.name == "lshr" else by + (op.name == "and")
        if op.name not in (*_WHOLE, *_REST) or multiple % by or min(each) < 0 or (
                op.name == "and" and by & (by - 1)):
            return None
        return (tuple(n // by for n in each), multiple // by) if op.name in _WHOLE else (
            tuple(n % by for n in each), 0)


def source_axis(op: Op, axis: int) -> int | None:
    """The axis of the operand that an axis of a broadcast's or reshape's result is; None of other
    operations."""
    if op.name not in ("broadcast", "reshape"):
        return None
    before, after = shape(op.operands[0].type), shape(op.result.type)
    places = [*range(len(after))] if op.name == "broadcast" else same_axes(before, after)
    return None if places is None else places[axis]
