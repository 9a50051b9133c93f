"""Tiles that repeat their elements, kept as what they repeat.

    %1 = splat %k : i32<16>
    %2 = icmp %rk, %1 {predicate = slt} : i1<16>        reads %k: NumPy repeats it

An operation that NumPy broadcasts for reads what `splat` and `broadcast` repeat, if the shapes tell
the result's; what nothing reads then is not computed.  A step of a small tile costs what its call
does, so that a loop over such tiles takes half as long."""

from collections.abc import Sequence

import numpy as np

from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import shape

_REPEATING = ("splat", "broadcast")
_READERS = frozenset(
    "add sub mul and or xor smin smax umin umax icmp addptr "
    "fadd fsub fmul fdiv fcmp select".split())


class Spread:
    """What each operation of a kernel reads, and which operations nothing needs."""

    def __init__(self, kernel: Kernel) -> None:
        self._read: dict[Op, list[Value]] = {}
        needed: set[Value] = set()
        for op in kernel.ops():
            if op.name not in _REPEATING:
                needed.update(self.operands(op))
                if op.guard is not None:
                    needed.add(op.guard)
        for block in reversed(kernel.blocks):  # one that repeats another's result may need it
            for op in reversed(block.ops):
                if op.name in _REPEATING and op.result in needed:
                    needed.add(op.operands[0])
        self.needless = {op for block in kernel.blocks for op in block.ops
                         if op.name in _REPEATING and op.result not in needed}

    def operands(self, op: Op) -> Sequence[Value]:
        if op.name not in _READERS or not shape(op.result.type):
            return op.operands
        if op not in self._read:
            found = list(op.operands)
            for i, value in enumerate(op.operands):
                found[i] = _repeated(value)
                if np.broadcast_shapes(*(shape(v.type) for v in found)) != shape(op.result.type):
                    found[i] = value
            self._read[op] = found
        return self._read[op]


def _repeated(value: Value) -> Value:
    while value.op is not None and value.op.name in _REPEATING:
        value = value.op.operands[0]
    return value
