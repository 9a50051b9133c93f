"""Elements of tiles that are known: those that only ranges and constants make.

    (0 ... 64) % 8 * 4          0, 4, 8, 12, 16, 20, 24, 28, 0, 4, ...
"""

from tritonc.analysis.values import MOVES, axes_before
from tritonc.ir.core import Op, Value
from tritonc.ir.layouts.layout import coordinates
from tritonc.ir.numeric.numbers import NotFoldable, evaluate
from tritonc.ir.ops import OPS
from tritonc.ir.types import is_int, shape

Index = tuple[int, ...]


def index_before(op: Op, index: Index) -> Index:
    """Where the element of a result is in the operand, of an operation that moves elements."""
    axes, before = axes_before(op), shape(op.operands[0].type)
    if axes is not None:
        return tuple(index[axes.index(d)] if d in axes else 0 for d in range(len(before)))
    place = 0
    for i, n in zip(index, shape(op.result.type), strict=True):
        place = place * n + i
    return coordinates(before, place)


class Elements:
    """The integers of tiles, one at a time; what was asked for once is remembered."""

    def __init__(self) -> None:
        self._known: dict[tuple[Value, Index], int | None] = {}

    def at(self, value: Value, index: Index) -> int | None:
        """The element at an index; None if it is not known."""
        key = value, index
        if key not in self._known:
            self._known[key] = self._element(value.op, index) if value.op is not None and is_int(
                value.type) else None
        return self._known[key]

    def _element(self, op: Op, index: Index) -> int | None:
        if op.name == "constant":
            return int(op.attributes["value"])
        if op.name == "range":
            return int(op.attributes["start"]) + index[0]
        if op.name == "again":  # the same, for all but LLVM
            return self.at(op.operands[0], index)
        if op.name not in OPS or op.guard is not None:
            return None
        if op.name in MOVES:
            return self.at(op.operands[0], index_before(op, index))
        row = op.info
        if not row.elementwise:
            return None
        found = [self.at(v, index) for v in op.operands]
        numbers = [number for number in found if number is not None]
        if len(numbers) < len(op.operands):
            return None
        try:
            return int(evaluate(row, op, numbers)[0])
        except NotFoldable:
            return None
