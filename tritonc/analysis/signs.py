"""Which integers are known not to be negative.

The numbers of instances, parameters of which it is promised or tested, and what is made of them by
sums, products and unsigned divisions.  Arithmetic is taken not to wrap, as for addresses.
"""

from __future__ import annotations

from collections.abc import Set

from tritonc.analysis.linear import Linear
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op, Value

_NUMBERS = ("get_program_id", "get_num_programs", "get_num_multiprocessors")
_ALL = ("add", "mul", "sext", "zext", "select", "phi", "smin", "splat", "broadcast", "reshape",
        "assume_multiple")
_ANY = ("smax", "umin", "and")  # one operand is enough


def known_parameters(kernel: Kernel, cfg: Cfg, place: Block) -> set[Value]:
    """Parameters that are not negative where `place` runs, as their declaration or a hint says."""
    declared = {parameter for parameter, info in zip(kernel.parameters, kernel.info, strict=True)
                if info.least is not None and info.least >= 0}
    return declared | {op.operands[0] for op in kernel.ops() if _told(op)
                       and cfg.dominates(cfg.block_of[op], place)}


def positive(polynomial: Linear, known: Set[Value] = frozenset()) -> bool:
    """Whether no value of the polynomial is negative, if those of `known` are not."""
    return all(n > 0 and all(_known(v, known, frozenset()) for v in values)
               for values, n in polynomial.terms)


def non_negative(value: Value) -> bool:
    """Whether a value is known to be 0 or more."""
    return _known(value, frozenset(), frozenset())


def _told(op: Op) -> bool:
    return op.name == "assume_multiple" and op.attributes.get("least", -1) >= 0


def _known(value: Value, known: Set[Value], assumed: Set[Op]) -> bool:
    """`assumed`: phis above, of which it is to be shown: they begin and go on so."""
    op = value.op
    if op is None:
        return value in known
    if _told(op):
        return True
    if op in assumed or op.name in _NUMBERS:
        return True
    if op.name == "constant":
        return bool(op.attributes["value"] >= 0)
    if op.name == "range":
        return bool(op.attributes["start"] >= 0)
    if op.name == "phi":
        assumed = {*assumed, op}
    operands = op.operands[1:] if op.name == "select" else op.operands
    if op.name == "udiv":
        return _known(operands[0], known, assumed)
    if op.name == "urem":  # below the divisor
        return _known(operands[1], known, assumed)
    if op.name in _ALL:
        return all(_known(v, known, assumed) for v in operands)
    return op.name in _ANY and any(_known(v, known, assumed) for v in operands)
