"""join_bounds: 0 <= i && i < n becomes one unsigned comparison.

Before:  %a = and %m, (icmp %h > -1)          After:  entry: %end = smax %H, 0
         %b = and %a, (icmp %h < (splat %H))          %b = and %m, (icmp %h <u (splat %end))

As an unsigned number, what is negative is more than any end that is not.  An index that a shift or
a tap has moved is compared with both ends for each element of an operand, or for each row in each
iteration, beside a product that wants the same instructions.  Masks of rows outside of loops are
left: they are few, and an end takes a register.

Last of what looks at masks as bounds; ends are scalars.
"""

from __future__ import annotations

from tritonc.analysis.values import int_of
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import shape


def join_bounds(kernel: Kernel, context: Context) -> bool:
    """Join all pairs that stand beside each other in a conjunction."""
    joiner, loops = _Joiner(kernel), Cfg(kernel).innermost
    for block in kernel.blocks:
        for op in list(block.ops):
            if op.name == "and" and len(shape(op.result.type)) > (block not in loops):
                joiner.join(block, op)
    kernel.replace(joiner.replaced)
    return bool(joiner.replaced)


class _Joiner:
    """What has been replaced, and the ends that were made."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.home = {op: block for block in kernel.blocks for op in block.ops}
        self.replaced: dict[Value, Value] = {}
        self.ends: dict[Value, Value] = {}

    def join(self, block: Block, op: Op) -> None:
        """`and(and(m, x >= 0), x < n)`, or without m, with the comparisons in any order."""
        for rest, last in (op.operands, op.operands[::-1]):
            inner = rest.op
            others = [(None, rest)] if inner is None or inner.name != "and" else [
                (inner.operands[0], inner.operands[1]), (inner.operands[1], inner.operands[0])]
            for mask, first in others:
                joined = self.compared(block, op, first, last)
                if joined is not None:
                    if mask is not None:
                        both = make_op("and", [mask, joined], span=op.span)
                        block.ops.insert(block.ops.index(op), both)
                        self.home[both] = block
                        joined = both.result
                    self.replaced[op.result] = joined
                    return

    def compared(self, block: Block, op: Op, a: Value, b: Value) -> Value | None:
        """One comparison for both, before `op`."""
        for low, high in ((a, b), (b, a)):
            x, end = _from_zero(low), _limit(high)
            if x is None or end is None or end[0] is not x:
                continue
            least = self.not_negative(end[1])
            if least is None:
                return None
            limit = make_op("splat", [least], x.type, span=op.span)
            test = make_op("icmp", [x, limit.result], span=op.span, predicate="ult")
            at = block.ops.index(op)
            block.ops[at:at] = [limit, test]
            return test.result
        return None

    def not_negative(self, end: Value) -> Value | None:
        """The greater of a scalar and 0, behind it."""
        number = int_of(end)
        if number is not None and number >= 0:
            return end
        if end not in self.ends:
            zero = make_op("constant", [], end.type, value=0)
            largest = make_op("smax", [end, zero.result])
            block = self.kernel.entry if end.op is None else self.home.get(end.op)
            if block is None:
                return None
            at = len(block.phis())
            if end.op is not None and end.op.name != "phi":
                at = block.ops.index(end.op) + 1
            block.ops[at:at] = [zero, largest]
            self.home.update({zero: block, largest: block})
            self.ends[end] = largest.result
        return self.ends[end]


def _from_zero(test: Value) -> Value | None:
    """x, where the test is x >= 0."""
    op = test.op
    if op is None or op.name != "icmp":
        return None
    number = int_of(op.operands[1])
    if (op.attributes["predicate"], number) in (("sgt", -1), ("sge", 0)):
        return op.operands[0]
    return None


def _limit(test: Value) -> tuple[Value, Value] | None:
    """x and a scalar n, where the test is x < n."""
    op = test.op
    if op is None or op.name != "icmp" or op.attributes["predicate"] != "slt":
        return None
    end = op.operands[1].op
    if end is None or end.name != "splat":
        return None
    return op.operands[0], end.operands[0]
