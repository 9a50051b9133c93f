"""Where the assembler may lose the sign of a negated number."""

from collections.abc import Collection, Iterable

from tritonc.analysis.values import closure, origin
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I16, I32, element

_EXTREMES = ("smin", "smax", "umin", "umax")
_CHOICES = ("select", "psi")
_SAME = frozenset(["splat", "broadcast", "reshape", "trans", "convert_layout", "truncate", "sext",
                   "zext", "cmpp"])
# What hands on an element, or its low bits, in a register of the same thread.
_MOVES = _SAME - {"cmpp"} | {*_CHOICES}


def compared_negations(kernel: Kernel) -> frozenset[Op]:
    """The operations of 16 and 32 bits that may be a negation, -x, -1 * x or ~x + 1, and that
    go into a minimum or maximum of three, also by way of comparisons and choices.
    `arithmetic.negation` says why."""
    several = {op for op in kernel.ops() if op.attributes.get("kind") in _EXTREMES}
    tests = {op: _comparisons(op) for op in kernel.ops() if op.name in _CHOICES}
    extremes = {op for op in kernel.ops() if op.name in _EXTREMES or tests.get(op)}
    for op in extremes:
        before = [other for other in _origins([op], {*_MOVES, "phi"}) if other in extremes and (
            other.name == op.name or tests.keys() & {op, other})]
        if before:
            several.update([op, *before])
    several.update([test for op in [*several] for test in tests.get(op, ())])
    return frozenset(op for op in _origins(several, {*_MOVES, "add"})
                     if op.name in ("sub", "mul", "xor") and element(op.result.type) in (I16, I32))


def _comparisons(choice: Op) -> list[Op]:
    """The comparisons of the numbers that are chosen from, of which LLVM makes a minimum or a
    maximum; constants may differ by one."""
    every = 2 if choice.name == "psi" else 3
    chosen = _variables([v for i, v in enumerate(choice.operands) if i % every])
    tests = [origin(v, _SAME).op for v in choice.operands[::every]]
    return [op for op in tests if op is not None and op.name == "icmp" and (
        found := _variables(op.operands)) <= chosen and (found == chosen or len(tests) > 2)]


def _variables(values: Iterable[Value]) -> set[Value]:
    origins = (origin(v, _SAME) for v in values)
    return {v for v in origins if v.op is None or v.op.name != "constant"}


def _origins(ops: Iterable[Op], through: Collection[str]) -> Iterable[Op]:
    """What computes the operands of operations, and theirs where `through` names it."""
    def made_of(op: Op) -> list[Op]:
        return [v.op for v in op.operands if v.op is not None]

    return closure((one for op in ops for one in made_of(op)),
                   lambda op: made_of(op) if op.name in through else ())
