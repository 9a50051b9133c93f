"""What else reads the tile of an operand reads it where the product does.

Before:  %x = load %p                     After:  %x = load %p
         shared_store %s, %x                      shared_store %s, %x
         %d = wgmma %a, %s, %c                    %d = wgmma %a, %s, %c
         %f = fpext %x                            %y = shared_load %s
                                                  %f = fpext %y

Copies that run ahead bring the operand then, and no thread waits for memory: so are sums of its
rows or columns beside the product.  Done for loads that copies can move."""

from tritonc.analysis.axis import axis_info
from tritonc.analysis.values import fills_zeros
from tritonc.backend.dots.raw_operands import copyable
from tritonc.ir.build import make_op
from tritonc.ir.core import Kernel, Op, uses


def read_operands(kernel: Kernel) -> None:
    """Let the other readers of operands' loads, in their block, read the operands' buffers."""
    readers = uses(kernel)
    found: list[tuple[list[Op], Op, list[Op]]] = []
    for block in kernel.blocks:
        for store in block.ops:
            if store.name != "shared_store" or store.attributes:
                continue
            load = store.operands[1].op
            if load is None or load.name != "load" or load not in block.ops or not fills_zeros(
                    load):
                continue
            others = [op for op in readers[load.result] if op.name != "shared_store"
                      and any(map(readers.get, op.results))]
            staged = any(op.name in ("wgmma", "mma_dot") for op in block.ops)
            if staged and others and all(op in block.ops and op.name != "phi" for op in others):
                found.append((block.ops, store, others))
    infos = axis_info.analyze(kernel) if found else {}
    for ops, store, others in found:
        load = store.operands[1].op
        assert load is not None
        if not copyable(load, infos):
            continue
        again = make_op("shared_load", [store.operands[0]], load.result.type, span=load.span)
        ops.insert(min(map(ops.index, others)), again)
        for op in others:
            op.replace_inputs({load.result: again.result})
