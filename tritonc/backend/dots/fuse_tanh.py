"""fuse_tanh: 1 + tanh(x), as GELU has it, is 2 / (1 + e^-2x).

Before:  %t = tanh %x                     After:  %e = exp2 %x * (-2 log2(e))
         %s = fadd %t, 1                          %s = fdiv 2, %e + 1 {approximate}

The half of a number times that is a quotient of the number itself.

An element takes two of the hardware's approximations where tanh takes a polynomial near 0 besides,
which a sum with 1 has no use for.  The quotient's error is relative to it, at most 2.5 ulp and what
the argument's rounding makes of it, |x| 2^-22; that of the sum is relative to 1, and all of it
where x is below -9.  -ffp-contract=off forbids it, like what fuse_exponents does; -ffast-math has
one instruction for tanh.
"""

from __future__ import annotations

from tritonc.analysis.values import constant_of, defined_by
from tritonc.backend.dots.exponentials import LOG2_E
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.numeric.numbers import round_to
from tritonc.ir.types import F32, element

_LARGEST = 2.0**100  # a factor: twice its product with log2(e) is finite, too

def fuse_tanh(kernel: Kernel, context: Context) -> bool:
    """Rewrite the sums of 1 and a tanh."""
    if not context.contract or context.precise_math or context.fast_math:
        return False
    replaced: dict[Value, Value] = {}
    readers = uses(kernel)
    for block in kernel.blocks:
        for op in [op for op in block.ops if op.name == "fadd"]:
            argument = _argument(op)
            if argument is None or element(op.result.type) != F32:
                continue
            b, t, factor = Builder(block, block.ops.index(op), op.span), op.result.type, -2 * LOG2_E
            scale = defined_by(argument, "fmul")
            number = None if scale is None else constant_of(scale.operands[1])
            if scale is not None and number is not None and abs(float(number)) < _LARGEST:
                argument, factor = scale.operands[0], factor * float(number)
            power = b.value("exp2", b.value("fmul", argument, b.constant(
                float(round_to(F32, factor)), t)))
            total = b.value("fadd", power, b.constant(1.0, t))
            product, halved = _halved(op, block, readers)
            if product is not None:
                b = Builder(block, block.ops.index(product), product.span)
            result = b.value("fdiv", halved or b.constant(2.0, t), total, approximate=True)
            replaced[product.result if product is not None else op.result] = result
    kernel.replace(replaced)
    return bool(replaced)


def _halved(total: Op, block: Block,
            readers: dict[Value, list[Op]]) -> tuple[Op | None, Value | None]:
    """The product of half a number and the sum, if that alone reads the sum, in the same block;
    and the number."""
    product, *others = readers.get(total.result, [total])
    if product.name == "fmul" and not others and product in block.ops:
        for value in product.operands:
            half = defined_by(value, "fmul")
            if half is not None and constant_of(half.operands[1]) == 0.5:
                return product, half.operands[0]
    return None, None


def _argument(op: Op) -> Value | None:
    for value, other in (op.operands, op.operands[::-1]):
        tanh = defined_by(value, "tanh")
        if tanh is not None and constant_of(other) == 1:
            return tanh.operands[0]
    return None
