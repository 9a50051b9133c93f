"""An operand that several products read in one layout lies in shared memory once.

Before:  shared_store %s, %a              After:  shared_store %s, %a
         shared_store %t, %a                      %p = wgmma %s, %u, ...
         %p = wgmma %s, %u, ...                   %q = wgmma %s, %v, ...
         %q = wgmma %t, %v, ...

`stage_dots` gives each operand of each product a buffer, and stores right behind what they store;
so the stores of one value stand beside each other.  Not in a chain of two: the first product of
that runs an iteration ahead of the second (`rotate_dots`), and each has stages of its own."""

from collections.abc import Callable

from tritonc.backend.dots.together import chained, products
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import Type

PAIR = 2  # products that may be rotated


def share_operands(kernel: Kernel) -> Callable[[], None]:
    """Let buffers of one type that hold the same value be one.  Returns what undoes it."""
    readers = uses(kernel)
    stores = {op.operands[0]: op for op in kernel.ops() if op.name == "shared_store"}
    count = {buffer: sum(op.name == "shared_store" and op.operands[0] is buffer
                         for op in readers[buffer]) for buffer in stores}
    first: dict[tuple[Block, Value, Type, bool], Value] = {}
    shared: dict[Value, Value] = {}
    dropped: set[Op] = set()
    for block in kernel.blocks:
        if len(products(block.ops)) == PAIR and chained(block):
            continue
        for op in block.ops:
            if op.name != "shared_store" or {*op.attributes} - {"round"} \
                    or count[op.operands[0]] != 1:
                continue
            buffer, value = op.operands
            other = first.setdefault((block, value, buffer.type, "round" in op.attributes), buffer)
            if other is not buffer and buffer.op is not None:
                shared[buffer] = other
                dropped |= {op, buffer.op}
    before = [(block, block.ops) for block in kernel.blocks]
    operands = [(op, op.operands) for buffer in shared for op in readers[buffer]]
    for block in kernel.blocks:
        block.ops = [op for op in block.ops if op not in dropped]
    for op, _ in operands:
        op.replace_inputs(shared)

    def undo() -> None:
        for block, ops in before:
            block.ops = ops
        for op, old in operands:
            op.operands = old

    return undo
