"""fuse_logistic: x / (1 + exp(-x)), as SiLU has it, takes two of the hardware's approximations.

Before:  %e = exp (fneg %x)               After:  %e = exp2 %x * -log2(e)
         %q = fdiv %n, %e + 1                     %q = fdiv %n, %e + 1 {approximate}

Where what is made of the quotient, by products and sums of elements, goes into floats of at most 16
bits.  An exact exponential takes eight instructions and an exact quotient 28, most of them in case
that it is out of range; of 128 elements of a thread behind a product these do not fit into the
cache of instructions.  The quotient's error is at most 4 ulp and what the argument's rounding makes
of it, |x| 2^-22; it may be 0 where the divisor is beyond 2^126.  -ffp-contract=off forbids it, like
what fuse_exponents does.
"""

from __future__ import annotations

from tritonc.analysis.values import constant_of, defined_by
from tritonc.backend.dots.exponentials import LOG2_E, SUMS_OF_ELEMENTS, only_rounded
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.numeric.numbers import round_to
from tritonc.ir.types import F32, element


def fuse_logistic(kernel: Kernel, context: Context) -> bool:
    """Rewrite the quotients by 1 and an exponential."""
    if not context.contract or context.precise_math or context.fast_math:
        return False
    replaced: dict[Value, Value] = {}
    readers = uses(kernel)
    for block in kernel.blocks:
        for op in [op for op in block.ops if op.name == "fdiv"]:
            if (power := logistic(op, readers)) is None:
                continue
            (argument,) = power.operands
            b, t, factor = Builder(block, block.ops.index(op), op.span), op.result.type, LOG2_E
            if (negated := defined_by(argument, "fneg")) is not None:
                argument, factor = negated.operands[0], -factor
            scaled = b.value("fmul", argument, b.constant(float(round_to(F32, factor)), t))
            total = b.value("fadd", b.value("exp2", scaled), b.constant(1.0, t))
            replaced[op.result] = b.value("fdiv", op.operands[0], total, approximate=True)
    kernel.replace(replaced)
    return bool(replaced)


def logistic(op: Op, readers: dict[Value, list[Op]]) -> Op | None:
    """The exponential of a quotient by 1 and that, if both may be approximated."""
    total = defined_by(op.operands[1], "fadd")
    for value, other in (total.operands, total.operands[::-1]) if total is not None else ():
        power = defined_by(value, "exp")
        if power is not None and constant_of(other) == 1 and element(op.result.type) == F32:
            return power if only_rounded(op.result, readers, summed=False,
                                         through=SUMS_OF_ELEMENTS) else None
    return None
