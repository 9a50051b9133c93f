"""Which products of a staged loop read which of its operands."""

from tritonc.backend.dots.together import chained
from tritonc.backend.pipeline.staged_loop import StagedLoop
from tritonc.backend.shared.shared_memory import accesses, allocation, allocations
from tritonc.ir.core import Kernel, Op, uses
from tritonc.ir.types import shape


def products(kernel: Kernel, staged: StagedLoop) -> list[list[int]]:
    """The numbers of the stores that feed each product of the loop; all in one list unless the
    products are chained, and each, with the wait for its result, stands in the one block of the
    loop's body."""
    together = [list(range(len(staged.stores)))]
    readers = uses(kernel)
    if staged.loop.body is None or not chained(staged.body):
        return together
    found: dict[Op, list[int]] = {op: [] for op in staged.body.ops if op.name == "wgmma"}
    for product in found:
        ends = readers.get(product.result, [])
        if len(ends) != 1 or ends[0].name != "wgmma_wait" or ends[0] not in staged.body.ops:
            return together
    for i, store in enumerate(staged.stores):
        root = allocation(store.operands[0])[0]
        products = [op for op in found if root in allocations(op)]
        if not products:
            products = _read_behind(staged, root, list(found))
        if len(products) != 1:
            return together
        found[products[0]].append(i)
    groups = [group for group in found.values() if group]
    return groups if len(groups) > 1 else together


def _read_behind(staged: StagedLoop, root: Op, found: list[Op]) -> list[Op]:
    """The product behind which threads read a buffer that no product reads: both end together."""
    ops = staged.body.ops
    reads = [ops.index(op) for op in ops if op.name == "shared_load" and root in allocations(op)]
    before = [op for op in found if reads and ops.index(op) < min(reads)]
    return before[-1:] or found[:1] if reads else []


def beside_products(kernel: Kernel, staged: StagedLoop) -> list[int]:
    """The numbers of the stores of tiles that only threads read."""
    readers = uses(kernel)
    return [i for i, store in enumerate(staged.stores) if len(shape(store.operands[1].type)) > 1
            and all(op is store or op.name == "shared_load"
                    for op in readers[store.operands[0]])]


def handed_over(kernel: Kernel, staged: StagedLoop) -> bool:
    """Whether only the body's one block reads the operands: threads, and products it waits for."""
    readers, body = uses(kernel), staged.body
    roots = [allocation(store.operands[0])[0] for store in staged.stores]
    if staged.loop.body is None:
        return False
    for block in staged.loop.blocks:
        for op in block.ops:
            if op in staged.stores or not any(access.allocation in roots
                                              for access in accesses(op)):
                continue
            if op.name == "shared_load" and block is body:
                continue
            if op.name != "wgmma" or block is not body or not any(
                    end.name == "wgmma_wait" and end in body.ops
                    for end in readers.get(op.result, ())):
                return False
    return True
