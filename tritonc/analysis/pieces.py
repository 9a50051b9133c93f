"""Where neighbours along an axis are equal piece by piece, in the same places of each run.

    3 * k / 32 of k = 0 ... 64: of each 32 neighbours the first eleven are equal, the next eleven,
    and the last ten

So lie numbers of three bits in words: three words of a row have the bits of 32 numbers.  What moves
with a loop is a sum of such a tile and a scalar by now (`split_quotients`)."""

from collections.abc import Sequence
from math import prod

from tritonc.analysis.elements import Elements
from tritonc.analysis.values import is_uniform
from tritonc.ir.core import Op, Value
from tritonc.ir.types import same_axes, shape


class Pieces:
    """What is known of the neighbours in runs of a length that begin at its multiples."""

    def __init__(self, run: int, elements: Elements) -> None:
        self.run, self.elements = run, elements
        self._along: dict[tuple[Value, int], Sequence[int]] = {}

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
        op = value.op
        if is_uniform(value) or shape(value.type)[axis] == 1:
            return (0,) * self.run
        if (known := self.offsets(value, axis)) is not None:
            return known
        if op is not None and (source := source_axis(op, axis)) is not None:
            return self.along(op.operands[0], source)
        if op is None or not (op.info.elementwise or op.name == "cmpp") or op.guard is not None:
            return range(self.run)
        first: dict[tuple[int, ...], int] = {}
        return [first.setdefault(each, i) for i, each in enumerate(zip(
            *(self.along(v, axis) for v in op.operands), strict=True))]

    def offsets(self, value: Value, axis: int) -> tuple[int, ...] | None:
        """How far each element of a run is from the first, of a line of known numbers of which all
        runs are alike."""
        extents = shape(value.type)
        n, found = extents[axis], list[int]()
        for i in range(n if prod(extents) == n and n % self.run == 0 else 0):
            number = self.elements.at(value, tuple(i * (d == axis) for d in range(len(extents))))
            if number is None:
                return None
            found.append(number)
        runs = {tuple(number - found[at] for number in found[at : at + self.run])
                for at in range(0, len(found), self.run)}
        return runs.pop() if len(runs) == 1 else None

    def apart(self, value: Value, axis: int) -> tuple[int, ...] | None:
        """How far each element of a run is from the first along an axis: of sums of lines of known
        numbers and of what is the same in all of it."""
        op = value.op
        if is_uniform(value) or shape(value.type)[axis] == 1:
            return (0,) * self.run
        if (known := self.offsets(value, axis)) is not None or op is None:
            return known
        if (source := source_axis(op, axis)) is not None:
            return self.apart(op.operands[0], source)
        parts = [self.apart(v, axis) for v in op.operands] if op.name in ("add", "addptr") else []
        found = [part for part in parts if part is not None]
        return tuple(map(sum, zip(*found, strict=True))) if found and len(found) == len(
            parts) else None


def source_axis(op: Op, axis: int) -> int | None:
    """The axis of the operand that an axis of a broadcast's or reshape's result is; None of other
    operations."""
    if op.name not in ("broadcast", "reshape"):
        return None
    before, after = shape(op.operands[0].type), shape(op.result.type)
    places = [*range(len(after))] if op.name == "broadcast" else same_axes(before, after)
    return None if places is None else places[axis]
