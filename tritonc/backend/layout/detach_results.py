"""detach_results: the accumulators of a product may lie in other registers than its store needs.

Before:                                        After:
  header: %c = phi ..., [%d]                     header: %c = phi ..., [%d]
  body:   %d = fma_dot %a, %b, %c                body:   %d = fma_dot %a, %b, %c
  exit:   store %p, %c {vector = 4}              exit:   %e = detach %c
                                                         store %p, %e {vector = 4}

A multiply-add reads three registers, at full speed only if the bank of the odd and the bank of the
even registers give one each, and the last operand comes from the instruction before.  The assembler
chooses the registers of the accumulators so, unless they leave by wide stores, which want four
neighbours: then it takes neighbours from the start, and a quarter of the multiply-adds wait.  A
`detach` is an instruction for each element behind the loop, which the assembler does not see
through.

One such store in one of several bodies is enough: the registers of all bodies are chosen together.
The same holds for exchanges through shared memory, and for what a cluster adds up.

Needs vectorize, which says what is wide."""

from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import F32, element

# What may take registers four at a time, and which operand that is.
_WIDE = {"store": 1, "shared_store": 1, "cluster_reduce": 0}


def detach_results(kernel: Kernel, context: Context) -> bool:
    """Detach the accumulators of products on CUDA cores from the wide stores behind their loops."""
    sums = {op.result for loop in Cfg(kernel).loops for op in _sums(loop)}
    changed = False
    for block in kernel.blocks:
        ops: list[Op] = []
        for op in block.ops:
            at = _WIDE.get(op.name)
            if at is not None and (value := op.operands[at]) in sums and (
                    op.name != "store" or op.attributes.get("vector", 1) > 1):
                ops.append(make_op("detach", [value], span=op.span, named=value.name))
                op.operands[at] = ops[-1].result
                changed = True
            ops.append(op)
        block.ops = ops
    return changed


def _sums(loop: Loop) -> list[Op]:
    """The phis of the loop to which products on CUDA cores add."""
    dots = {op.result: op for op in loop.ops()
            if op.name == "fma_dot" and element(op.result.type) == F32}

    def start(value: Value) -> Value:
        while value in dots:
            value = dots[value].operands[2]
        return value

    return [phi for phi in loop.header.phis()
            if any(value in dots and start(value) is phi.result for value in phi.operands)]
