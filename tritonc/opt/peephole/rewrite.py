"""The tool that rules write with: it makes the operations that take the place of one."""

from collections.abc import Callable
from typing import Any

from tritonc.analysis.facts import Facts
from tritonc.analysis.values import Number, constant_of
from tritonc.ir.build import make_op
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.numeric.numbers import fit
from tritonc.ir.ops import OpInfo
from tritonc.ir.types import Tile, Type


class Rewriter:
    """State of one sweep.  A rule makes operations through it, which come before the old one."""

    def __init__(self, kernel: Kernel) -> None:
        self.facts = Facts(kernel)
        self.op: Op = kernel.entry.terminator  # the one looked at now
        self.made: list[Op] = []  # by the rule at work
        self.here: set[Op] = set()  # that stand earlier in this block
        self.dropped = False  # an operation without results was removed
        self.use_counts: dict[Value, int] = {}
        for op in kernel.ops():
            self._count(op, 1)

    def emit(self, name: str, *operands: Value, type: Type | None = None,
             guard: Value | None = None, **attributes: Any) -> Op:
        """Make an operation; it has the source position of the one replaced."""
        op = make_op(name, list(operands), type, guard=guard, span=self.op.span, **attributes)
        self._count(op, 1)
        self.made.append(op)
        return op

    def _count(self, op: Op, by: int) -> None:
        counts = self.use_counts
        for value in op.inputs():
            counts[value] = counts.get(value, 0) + by

    def discard(self) -> None:
        """Forget what a rule made that did not apply in the end."""
        for op in self.made:
            self._count(op, -1)
        self.made = []

    def retire(self, op: Op) -> None:
        """The operation was replaced and reads nothing any more."""
        self._count(op, -1)
        self.dropped |= not op.results

    def value(self, name: str, *operands: Value, type: Type | None = None,
              guard: Value | None = None, **attributes: Any) -> Value:
        return self.emit(name, *operands, type=type, guard=guard, **attributes).result

    def constant(self, number: Number, type: Type) -> Value:
        """A constant, the same in all elements of a tile."""
        return self.value("constant", type=type, value=fit(type, number))

    def again(self, op: Op, *operands: Value, guard: Value | None = None) -> Op:
        """The same operation of other operands, with the same result type."""
        stated = op.results[0].type if op.results else None
        return self.emit(op.name, *operands, type=stated, guard=guard, **op.attributes)

    def used_once(self, value: Value) -> bool:
        return self.use_counts.get(value, 0) == 1

    def element_of(self, value: Value) -> Value:
        """The scalar that is in all elements of a uniform tile; a scalar itself."""
        op = value.op
        if op is not None and op.name == "splat":
            return op.operands[0]
        number = constant_of(value)
        if number is None or not isinstance(value.type, Tile):
            return value
        return self.constant(number, value.type.element)


# A rule gives what stands for the operation's result (or results); None where it does not apply.
# The empty list stands for an operation with no result that is to go.
Rule = Callable[[Op, Rewriter], Value | list[Value] | None]
General = tuple[Callable[[OpInfo], bool], Rule]  # of which operations a rule may hold, and the rule
