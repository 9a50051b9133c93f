"""Which integers are known not to be negative.

The numbers of instances and what is made of them by sums, products and unsigned divisions.
Arithmetic is taken not to wrap, as for addresses.
"""

from __future__ import annotations

from tritonc.backend.linear import Linear
from tritonc.ir.core import Op, Value

_NUMBERS = ("get_program_id", "get_num_programs", "get_num_multiprocessors")
_ALL = ("add", "mul", "sext", "zext", "select", "phi", "smin", "splat", "broadcast", "reshape")
_ANY = ("smax", "umin", "and")  # one operand is enough


def positive(polynomial: Linear) -> bool:
    """Whether no value of the polynomial is negative."""
    return all(n > 0 and all(map(non_negative, values)) for values, n in polynomial.terms)


def non_negative(value: Value) -> bool:
    """Whether a value is known to be 0 or more."""
    return _known(value, set())


def _known(value: Value, assumed: set[Op]) -> bool:
    """`assumed`: phis above, of which it is to be shown: they begin and go on so."""
    op = value.op
    if op is None:
        return False
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
        return _known(operands[0], assumed)
    if op.name == "urem":  # below the divisor
        return _known(operands[1], assumed)
    if op.name in _ALL:
        return all(_known(v, assumed) for v in operands)
    return op.name in _ANY and any(_known(v, assumed) for v in operands)
