"""delay_loads: large tiles are loaded piece by piece, right before they are read.

Before:  %v = load %p                           After:  ...
         ...                                            %v = load %p {late = true}
         shared_store %s, %v                            shared_store %s, %v

A thread holds a register for each element that an unaligned operand loads on its own; beside the
accumulators of the product there may be no room for all.  Such a load is made piece by piece, where
each piece is stored.  Pieces wait for each other, so a load is left alone where it fits.  Nor is
there room for the indices of all rows that the masks of such a load beside wgmma compare with a
limit, those of accesses behind such a product, which would be held over its loop, or those of
copies of single elements beside a product on CUDA cores: a thread compares the distance of its
first one with constants (`based`).  So it does in general bodies without products (running sums of
4095 columns 162 us, 142 so, on an H200).  Where the body for unaligned addresses needs all
registers, the assembler gives up choosing banks for those of the other body too.

Before:  %w = load %p                           After:  ...
         ...                                            %w = load %p {piecewise = true}
         %x = fmul %y, %w                               %x = fmul %y, %w

So it is with weights that a row is multiplied by, where a thread would hold too much: those are the
same for all rows, so that they come from a cache.

Must come after the passes that move loads and stores; insert_barriers treats a late load and its
store as one."""

from tritonc.analysis.registers.weights import chain_of
from tritonc.analysis.signs import non_negative
from tritonc.analysis.values import slice_of
from tritonc.backend.launch.register_budget import available, rows_hold_too_much
from tritonc.backend.memory.versions.general import rare
from tritonc.backend.pipeline.staged_loop import DOTS, elements_per_thread
from tritonc.backend.target.register_limits import BESIDE_CHAIN
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import READ
from tritonc.ir.types import I32, element, scalar

ENOUGH = 16  # registers of a tile that are worth it
SEVERAL = 4  # places that a distance serves, which takes three instructions
MANY = 8  # elements of an access of a thread: each has its place in a mask


def delay_loads(kernel: Kernel, context: Context) -> bool:
    """Mark the loads that are to be made where they are read, and move them there."""
    readers = uses(kernel)
    of_blocks = [{op.name for op in block.ops} for block in kernel.blocks]
    names = set[str]().union(*of_blocks)
    beside = any("load" in found and not found.isdisjoint(DOTS) for found in of_blocks)
    changed, room = False, available(kernel, context) - BESIDE_CHAIN if beside else 0
    if rows_hold_too_much(kernel, context.target):
        for block in kernel.blocks:
            for op in [op for op in block.ops if op.name == "load"]:
                changed |= _spread(block, op, readers)
    cfg = Cfg(kernel)
    for op in (op for block in rare(cfg, cfg.order) for op in block.ops):
        if op.name in ("load", "store") and op.attributes.get("vector", 1) == 1 and (
                elements_per_thread(op.operands[0]) >= MANY):
            changed |= _compare_distances(op.guard)
    for block in kernel.blocks:
        held = sum(elements_per_thread(op.result) * scalar(op.result.type).bytes / 4
                   for op in block.ops if op.name in DOTS and not _goes_on(op, block))
        multiplies = any(op.name in DOTS for op in block.ops)
        for op in block.ops:
            if op.name == "async_copy" and "fma_dot" in names and op.attributes.get(
                    "vector", 1) == 1 and elements_per_thread(op.operands[1]) >= MANY:
                changed |= _compare_distances(op.guard)
            if op.name in ("load", "store") and not multiplies and "wgmma" in names and (
                    elements_per_thread(op.operands[0]) >= MANY):
                changed |= _compare_distances(op.guard)
        for op in [op for op in block.ops if op.name == "load"]:
            # the elements, and addresses for some of them
            if held and held + 1.2 * elements_per_thread(op.result) > room and \
                    not op.attributes.get("volatile"):
                changed |= _delay(block, op, readers)
    return changed


def _goes_on(dot: Op, block: Block) -> bool:
    """Whether it adds to the result of the slice before, in the same registers."""
    before = dot.operands[2].op
    return before is not None and before.name in DOTS and before in block.ops


def _delay(block: Block, load: Op, readers: dict[Value, list[Op]]) -> bool:
    """Move the load to its one reader, if that stores it in this block with nothing between."""
    if len(readers.get(load.result, ())) != 1:
        return False
    (store,) = readers[load.result]
    first = block.ops.index(load)
    if store.name != "shared_store" or store not in block.ops[first:]:
        return False
    last = block.ops.index(store)
    if any(not op.pure for op in block.ops[first + 1 : last]):
        return False
    del block.ops[first]
    block.ops.insert(last - 1, load)
    load.attributes["late"] = True
    if any(op.name == "wgmma" for op in block.ops):
        _compare_distances(load.guard)
    return True


def _compare_distances(mask: Value | None) -> bool:
    """Mark the comparisons that make a mask, where no index is negative; whether there are new."""
    changed, stack = False, [mask]
    while stack:
        value = stack.pop()
        op = value.op if value is not None else None
        if op is None:
            continue
        if op.name == "icmp":
            if op.attributes["predicate"] == "slt" and element(op.operands[0].type) == I32 \
                    and elements_per_thread(op.result) >= SEVERAL and non_negative(op.operands[0]):
                changed |= not op.attributes.get("based", False)
                op.attributes["based"] = True
        elif op.name in ("and", "cmpp", "broadcast", "reshape", "convert_layout", "tile_part"):
            stack += op.operands
    return changed


def _spread(block: Block, load: Op, readers: dict[Value, list[Op]]) -> bool:
    """Move a load of what all programs read alike, with what is made of it alone, to its reader,
    if that is in this block, computes element by element, and only loads stand between."""
    if elements_per_thread(load.result) < ENOUGH or load.attributes.get("volatile") or any(
            op.name == "get_program_id" or not op.pure for op in slice_of(load.operands)):
        return False
    chain, found = chain_of(load, readers)
    if len(found) != 1 or found[0] not in block.ops or not found[0].info.elementwise or \
            len(found[0].results) != 1:
        return False
    first, last = block.ops.index(load), block.ops.index(found[0])
    if any(op.effects - {READ} for op in block.ops[first + 1 : last]):
        return False
    block.ops[:] = [op for op in block.ops if op not in chain]
    at = block.ops.index(found[0])
    block.ops[at:at] = chain
    load.attributes["piecewise"] = True
    return True
