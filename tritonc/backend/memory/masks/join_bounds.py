"""join_bounds: 0 <= i && i < n becomes one unsigned comparison.

Before:  %a = and %m, (icmp %h > -1)          After:  entry: %end = smax %H, 0
         %b = and %a, (icmp %h < (splat %H))          %b = and %m, (icmp %h <u (splat %end))

As an unsigned number, what is negative is more than any end that is not.  An index that a shift or
a tap has moved is compared with both ends for each element of an operand, or for each row in each
iteration, beside a product that wants the same instructions.  Masks of rows outside of loops are
left: they are few, and an end takes a register.  Without products, registers are worth more: a
depthwise convolution of 56 x 56 takes 0.240 ms with both comparisons, and 0.255 with one.

Last of what looks at masks as bounds; ends are scalars."""

from tritonc.analysis.values import defined_by, int_of
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.ir.build import Builder, behind, replace_each
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import shape


def join_bounds(kernel: Kernel, context: Context) -> bool:
    """Join all pairs that stand beside each other in a conjunction, in kernels with products."""
    if not any(op.name in DOTS for op in kernel.ops()):
        return False
    loops, ends = Cfg(kernel).innermost, dict[Value, Value]()

    def joined(op: Op, build: Builder) -> Value | None:
        """`and(and(m, x >= 0), x < n)`, or without m, with the comparisons in any order."""
        if len(shape(op.result.type)) <= (build.block not in loops):
            return None
        for rest, last in (op.operands, op.operands[::-1]):
            inner = defined_by(rest, "and")
            others = [inner.operands, inner.operands[::-1]] if inner is not None else [[rest]]
            for *mask, first in others:
                test = _compared(kernel, build, ends, first, last)
                if test is not None:
                    return build.value("and", *mask, test) if mask else test
        return None

    return replace_each(kernel, "and", joined)


def _compared(kernel: Kernel, build: Builder, ends: dict[Value, Value], a: Value, b: Value
              ) -> Value | None:
    """One comparison for both."""
    for low, high in ((a, b), (b, a)):
        x, end = _from_zero(low), _limit(high)
        if x is not None and end is not None and end[0] is x:
            limit = build.value("splat", _not_negative(kernel, end[1], ends), type=x.type)
            return build.value("icmp", x, limit, predicate="ult")
    return None


def _not_negative(kernel: Kernel, end: Value, ends: dict[Value, Value]) -> Value:
    """The greater of a scalar and 0, behind it."""
    if (int_of(end) or 0) > 0 or int_of(end) == 0:
        return end
    if end not in ends:
        at = behind(next((b for b in kernel.blocks if end.op in b.ops), kernel.entry), end)
        ends[end] = at.value("smax", end, at.constant(0, end.type))
    return ends[end]


def _from_zero(test: Value) -> Value | None:
    """x, where the test is x >= 0."""
    op = defined_by(test, "icmp")
    if op is not None and (op.attributes["predicate"], int_of(op.operands[1])) in (
            ("sgt", -1), ("sge", 0)):
        return op.operands[0]
    return None


def _limit(test: Value) -> tuple[Value, Value] | None:
    """x and a scalar n, where the test is x < n."""
    op = defined_by(test, "icmp")
    end = defined_by(op.operands[1], "splat") if op is not None else None
    if op is None or end is None or op.attributes["predicate"] != "slt":
        return None
    return op.operands[0], end.operands[0]
