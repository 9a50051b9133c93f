"""Where the assembler may lose the sign of a negated number."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tritonc.ir.core import Kernel, Op
from tritonc.ir.types import I16, I32, element

_EXTREMES = ("smin", "smax", "umin", "umax")
# What hands on an element, or its low bits, in a register of the same thread.
_MOVES = frozenset(["splat", "broadcast", "reshape", "trans", "convert_layout", "select", "psi",
                    "truncate", "sext", "zext"])


def compared_negations(kernel: Kernel) -> frozenset[Op]:
    """The operations of 16 and 32 bits that may be a negation, -x, -1 * x or ~x + 1, and that
    go into a minimum or maximum of three.  `arithmetic.negation` says why."""
    several = {op for op in kernel.ops() if op.attributes.get("kind") in _EXTREMES}
    for op in kernel.ops():
        if op.name in _EXTREMES:
            before = [other for other in _origins([op], {*_MOVES, "phi"}) if other.name == op.name]
            if before:
                several.update([op, *before])
    return frozenset(op for op in _origins(several, {*_MOVES, "add"})
                     if op.name in ("sub", "mul", "xor") and element(op.result.type) in (I16, I32))


def _origins(ops: Iterable[Op], through: Collection[str]) -> Iterator[Op]:
    """What computes the operands of operations, and theirs where `through` names it."""
    seen: set[Op] = set()
    waiting = [*ops]
    while waiting:
        for value in waiting.pop().operands:
            op = value.op
            if op is not None and op not in seen:
                seen.add(op)
                yield op
                if op.name in through:
                    waiting.append(op)
