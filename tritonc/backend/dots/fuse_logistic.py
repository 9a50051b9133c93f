"""fuse_logistic: GELU's 1 + tanh(x) and SiLU's x / (1 + exp(-x)) take two approximations each.

Before:  %t = tanh %x                     After:  %e = exp2 %x * (-2 log2(e))
         %s = fadd %t, 1                          %s = fdiv 2, %e + 1 {approximate}

         %e = exp (fneg %x)                       %e = exp2 %x * -log2(e)
         %q = fdiv %n, %e + 1                     %q = fdiv %n, %e + 1 {approximate}

tanh takes a polynomial near 0 besides, which a sum with 1 has no use for; the half of a number
times that sum is a quotient of the number itself.  The quotient's error is relative to it, at most
2.5 ulp and what the argument's rounding makes of it, |x| 2^-22; that of the sum is relative to 1,
and all of it where x is below -9.  -ffast-math has one instruction for tanh.

A quotient by 1 and an exponential becomes one where what is made of it, by products and sums of
elements, goes into floats of at most 16 bits.  An exact exponential takes eight instructions and an
exact quotient 28, most of them in case that it is out of range; of 128 elements of a thread behind
a product these do not fit into the cache of instructions.  The error is at most 4 ulp and that of
the argument; it may be 0 where the divisor is beyond 2^126.

-ffp-contract=off forbids both, like what fuse_exponents does."""

from tritonc.analysis.values import constant_of, defined_by
from tritonc.backend.dots.exponentials import LOG2_E, SUMS_OF_ELEMENTS, only_rounded
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.numeric.numbers import round_to
from tritonc.ir.types import F32, element

_LARGEST = 2.0**100  # a factor: twice its product with log2(e) is finite, too


def fuse_logistic(kernel: Kernel, context: Context) -> bool:
    """Rewrite the sums of 1 and a tanh, and the quotients by 1 and an exponential."""
    if not context.contract or context.precise_math or context.fast_math:
        return False
    replaced: dict[Value, Value] = {}
    readers = uses(kernel)
    above: Value | None
    for block in kernel.blocks:
        for op in [op for op in block.ops if op.name in ("fadd", "fdiv")]:
            if op.name == "fdiv" and (power := logistic(op, readers)) is not None:
                argument, factor, end, above = power.operands[0], LOG2_E, op, op.operands[0]
                if (negated := defined_by(argument, "fneg")) is not None:
                    argument, factor = negated.operands[0], -factor
            elif element(op.result.type) == F32 and (tanh := _beside_one(op, "tanh")) is not None:
                argument, factor, (end, above) = tanh.operands[0], -2 * LOG2_E, _halved(
                    op, block, readers)
                scale = defined_by(argument, "fmul")
                number = None if scale is None else constant_of(scale.operands[1])
                if scale is not None and number is not None and abs(float(number)) < _LARGEST:
                    argument, factor = scale.operands[0], factor * float(number)
            else:
                continue
            b, t = Builder(block, block.ops.index(op), op.span), op.result.type
            scaled = b.value("fmul", argument, b.constant(float(round_to(F32, factor)), t))
            total = b.value("fadd", b.value("exp2", scaled), b.constant(1.0, t))
            if end is not op:
                b = Builder(block, block.ops.index(end), end.span)
            replaced[end.result] = b.value("fdiv", above or b.constant(2.0, t), total,
                                           approximate=True)
    kernel.replace(replaced)
    return bool(replaced)


def logistic(op: Op, readers: dict[Value, list[Op]]) -> Op | None:
    """The exponential of a quotient by 1 and that, if both may be approximated."""
    total = defined_by(op.operands[1], "fadd")
    power = _beside_one(total, "exp") if total is not None else None
    return power if power is not None and element(op.result.type) == F32 and only_rounded(
        op.result, readers, summed=False, through=SUMS_OF_ELEMENTS) else None


def _beside_one(total: Op, name: str) -> Op | None:
    """The operation of that name to which a sum adds 1."""
    if total.name != "fadd":
        return None
    return next((op for value, other in (total.operands, total.operands[::-1])
                 if (op := defined_by(value, name)) is not None and constant_of(other) == 1), None)


def _halved(total: Op, block: Block, readers: dict[Value, list[Op]]) -> tuple[Op, Value | None]:
    """The product of half a number and the sum, if that alone reads the sum, in the same block,
    and the number; else the sum."""
    product, *others = readers.get(total.result, [total])
    if product.name == "fmul" and not others and product in block.ops:
        for value in product.operands:
            half = defined_by(value, "fmul")
            if half is not None and constant_of(half.operands[1]) == 0.5:
                return product, half.operands[0]
    return total, None
