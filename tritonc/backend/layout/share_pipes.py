"""share_pipes: the lesser and the greater of two small numbers by sums, as far as that is faster.

Before:  %l = umin_halves %a, %b                After:  the same with `sums`, which is emitted as
         %g = umax_halves %a, %b                        d = max(b - a, 0), l = b - d, g = a + d

Integers from 0 to 2047 are the bits of f16 numbers (2**-24 each) whose sums and differences are
exact.  A multiprocessor starts four instructions a cycle, but minima, maxima, bits and permuted
bytes go at half of that rate, on one pipe; sums of f16 go on the other.  So three sums take the
place of two such instructions until both take as long: by whole levels of a network, for what lies
as deep is what neighbours of a thread share."""

from collections import defaultdict
from collections.abc import Set

from tritonc.backend.pipeline.staged_loop import words
from tritonc.ir.core import Kernel, Op, Value

SMALL = 2048  # below it, f16 has all whole numbers
# What an operation takes of the pipe of half rate and of all that starts, and by sums of f16: of an
# exchange a half of three.  A sum of three integers is one instruction, of f16 two.
COSTS = {"add": (0.5, 0.5), "sub": (0.5, 0.5), "mul": (0.0, 1.0)}


def share_pipes(kernel: Kernel, small: Set[Value]) -> None:
    """Take sums for what is `small`: sums, and pairs of a minimum and a maximum of the same two."""
    types = {v.type for v in small}
    for block in kernel.blocks:
        depth, half, every = defaultdict[Value, int](int), 0.0, 0.0
        levels = defaultdict[int, list[Op]](list)
        first: dict[frozenset[Value], Op] = {}
        for op in block.ops:
            if len(op.results) != 1 or op.result.type not in types:
                continue
            depth[op.result] = max((depth[v] for v in op.operands), default=0) + 1
            start, each = words(op.result), COSTS.get(op.name, (1.0, 1.0))
            half, every = half + start * each[0], every + start * each[1]
            if op.result in small and op.name == "add":
                levels[depth[op.result]].append(op)
            elif op.result in small:
                other = first.setdefault(frozenset(op.operands), op)
                if other.name != op.name:
                    op.operands[:] = other.operands
                    levels[depth[op.result]] += [other, op]
        for _, ops in sorted(levels.items()):
            if 2 * half <= every:
                break
            for op in ops:
                start, each = words(op.result), COSTS.get(op.name, (1.0, 1.0))
                half -= start * each[0]
                every += start * ((1.0 if op.name == "add" else 1.5) - each[1])
                if op.name == "add":
                    op.name = "add_halves"
                else:
                    op.attributes["sums"] = True
