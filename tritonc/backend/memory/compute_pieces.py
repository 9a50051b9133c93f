"""compute_pieces: where a thread would hold too much, it computes a few registers at a time.

Before:  %a = fneg %x                           After:  %a = fneg %x {piecewise = true}
         %b = exp %a                                    %b = exp %a {piecewise = true}
         %y = fmul %x, %b                               %y = fmul %x, %b

Operations are emitted one after the other, each for all registers of its tile, so that a thread
holds every tile that is on its way between two of them: of SiLU behind a product two results of it.
Those marked are emitted where the last one, `%y`, needs them: for each few of its registers all
that leads to those.

Of two readers of such a tile, one of which reduces it, that one comes first: `max(abs(o))` beside
`*p = o`.

Done behind products, whose results fill most of the registers, in blocks whose estimate exceeds
what a thread can have (in general bodies, GENERAL of that); beside a product, for what a loop adds
to a sum of what is made of it.  Where there are no products, in loops of general bodies alone,
where the estimate exceeds the registers that fast bodies need; of others, the assembler finds a
better order (GELU of 4095 columns took 1.1 times as long so).  What others read too stays whole.
Loads of many registers come along if no global memory is written between them and the last
operation, those of shared memory if nothing is written there, too.  All of that moves to that
operation, so that the order of accesses is the one that stands in the block.

The assembler moves loads up as far as it can, beside what fills the registers already.  In general
bodies that nearly fill them it is kept from that outside of loops: accesses are marked `fenced`,
and a barrier of the warp stands before each PIECE of them.

A left operand of wgmma is computed for each instruction, while those before it run, where that
takes less time than they do.

Behind products, the addresses of a store, which nothing else reads, are computed beside each access
where all of them do not fit beside what is live.  (The assembler leaves them where they stand: 64
floats of a thread that are stored one by one have 128 registers of addresses.)

Must come after all passes that move or copy operations."""

from collections.abc import Set
from itertools import pairwise

from tritonc.analysis.registers.pressure import Estimate, estimated
from tritonc.analysis.registers.weights import is_rename, made_alone
from tritonc.analysis.values import MOVES, slice_of
from tritonc.backend.dots.together import chained
from tritonc.backend.launch.register_budget import (
    FENCED,
    GENERAL,
    SLACK,
    available,
    registers_of,
    resident_blocks,
)
from tritonc.backend.memory.versions.general import general_blocks, rare
from tritonc.backend.pipeline.spread_late import spreads
from tritonc.backend.pipeline.staged_loop import DOTS, elements_per_thread
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import LANE_BITS
from tritonc.ir.ops import READ, SHARED_READ, SHARED_WRITE, WRITE
from tritonc.ir.types import Tile, element, is_float, shape

ENOUGH = 16  # registers of a tile that are worth it
STEP = 32  # bytes of K of an instruction, which takes a cycle for each sum that a thread has
# Of an operation of a register beside products.  H200, 128 x 128 of 4096 in cube: e4m3 (one
# operation of an element) 226 to 206 us, int8 [K, N] in groups (one) 245 to 235, int8 with a factor
# (three) 262 to 279, words of 4 bits (eight) 247 to 251, MXFP8 (24) 313 to 327.
CYCLES = 4
_WHOLE = {"volatile", "ragged", "record", "release"}  # how such are made is decided for all of it


def compute_pieces(kernel: Kernel, context: Context) -> bool:
    """Mark what is to be computed piece by piece; whether there is any."""
    if not any(op.name in DOTS for op in kernel.ops()):
        return any(block.terminator.attributes.get("facts") for block in kernel.blocks) and (
            _without_products(kernel, context, estimated(kernel)))
    estimate = estimated(kernel)
    room, readers = available(kernel, context, estimate=estimate), uses(kernel)
    general, changed = general_blocks(estimate.cfg, DOTS), _addresses(estimate, readers, room)
    for block in kernel.blocks:
        changed |= _fragments(block, readers)
        ends = [*_sums(block), *(op for op in block.ops if op.name == "shared_store")] if any(
            op.name in DOTS for op in block.ops) else block.ops
        found, limit = estimate.pressure([block]), room * (GENERAL if block in general else SLACK)
        if not ends or found.registers <= limit:
            continue
        apart = _pieces(block)
        if found.registers > SLACK * room:
            _reduce_early(block, readers)
            changed |= _mark(block, ends, readers, estimate)
        else:
            while found.registers > limit and _mark(
                    block, ends, readers, estimate, {value for value, _ in found.live}):
                estimate, changed = estimate.again(), True
                found = estimate.pressure([block])
        if ends is block.ops:
            loads, ops = [op for op in _pieces(block) if op not in apart], [*block.ops]
            _load_ahead(loads, block)
            if estimate.again().registers(block) > GENERAL * room:
                block.ops[:] = ops
                for op in loads:
                    op.attributes["piecewise"] = True
    return _fence(kernel, room) or changed


def _fence(kernel: Kernel, room: int) -> bool:
    """Mark the accesses of general bodies, where they nearly fill the registers, but for those of
    loops: products of odd sizes take twice as long so."""
    estimate, changed = estimated(kernel), False
    general = rare(estimate.cfg, estimate.cfg.order)
    if not general or estimate.pressure(general).registers <= FENCED * room:
        return False
    straight = [block for block in general if block not in estimate.cfg.innermost]
    for op in (op for block in straight for op in block.ops):
        if op.name in ("load", "store") and elements_per_thread(op.operands[0]) >= ENOUGH and not (
                op.attributes.keys() & _WHOLE):
            op.attributes["fenced"] = changed = True
    return changed


def _fragments(block: Block, readers: dict[Value, list[Op]]) -> bool:
    """Mark what computes left operands of products on wgmma from shared memory: what one
    instruction multiplies is computed while those before it run, if that takes less time, but not
    so little that the product before hides it.  Where threads copy, they meet in each step, and
    what starts late keeps others waiting (int8, 128 rows by 128 x 64 15.8 us, 16.7 so)."""
    marked = False
    alone = not any(op.name == "async_copy" for op in block.ops)
    for product in [op for op in block.ops if op.name == "wgmma" and alone]:
        made, found = product.operands[0], set[Op]()
        beside = [op for op in readers[made] if op.name == "pack"]
        leading = _leading(block, [product, *beside], readers)
        for op in reversed(block.ops):
            if op in leading and op.name != "load" and (
                    op.result is made or found.issuperset(readers[op.result])):
                found.add(op)
        computed = sum(elements_per_thread(op.result) for op in found if op.name not in (
            "shared_load", "convert_layout", *MOVES))
        steps = shape(made.type)[-1] * element(made.type).bits // (8 * STEP)
        takes = steps * elements_per_thread(product.result)
        if any(op.name == "shared_load" for op in found) and (
                takes <= 2 * CYCLES * computed < 2 * takes):
            marked |= _move(block, found, product)
    return marked


def _addresses(estimate: Estimate, readers: dict[Value, list[Op]], room: int) -> bool:
    """Mark the addresses of stores that do not fit as a whole; whether there are any."""
    marked = []
    for block in estimate.cfg.order:
        for op in block.ops:
            made = op.operands[0].op if op.name == "store" else None
            if made is not None and made.name == "addptr" and readers[made.result] == [op] and not (
                    op.attributes.keys() & _WHOLE) and (
                    elements_per_thread(made.result) >= ENOUGH) and (
                    estimate.registers(block) + estimate.weight(made.result) > room):
                marked.append(made)
    for made in marked:
        made.attributes["piecewise"] = True
    return bool(marked)


def _pieces(block: Block) -> list[Op]:
    """The loads of tiles that come piece by piece; those of rows are not in the way."""
    return [op for op in block.ops if op.name == "load" and op.attributes.get("piecewise")
            and len(shape(op.result.type)) > 1]


def _load_ahead(loads: list[Op], block: Block) -> None:
    """Let the loads of all parts go out before the first one is computed: if they came with the
    registers that read them, a thread would wait for memory as often.  What comes at once is too
    large for that.  On an H200, squares and a residual of 4096 x 4096 halves behind a product 82
    us, 70 so (one part ahead 86); with random numbers, which leave no registers, 163 and 171."""
    if len(loads) < 2:
        return
    for before, load in pairwise(loads):
        start, end = block.ops.index(before), block.ops.index(load)
        between = block.ops[start + 1:end]
        if any(WRITE in op.effects for op in between):
            continue
        needed = slice_of(load.inputs(), set(between), ())
        if not all(op.pure for op in needed):
            continue
        moved = [*(op for op in between if op in needed), load]
        rest = [op for op in between if op not in needed]
        block.ops[start + 1:end + 1] = [*moved, *rest]
    for load in loads:
        del load.attributes["piecewise"]


def _without_products(kernel: Kernel, context: Context, estimate: Estimate) -> bool:
    """In loops of general bodies, whose elements take a register each as they come from memory."""
    blocks = resident_blocks(kernel, context.target, estimate)
    if not blocks:
        return False
    room = registers_of(blocks * kernel.attributes["num_warps"] << LANE_BITS, context.target)
    readers, changed = uses(kernel), False
    for block in rare(estimate.cfg, estimate.cfg.order):
        if block in estimate.cfg.innermost and (
                estimate.registers(block) > room):
            floats = [op for op in block.ops if op.results and is_float(op.results[0].type)]
            changed |= _mark(block, floats, readers, estimate)
    return changed


def _sums(block: Block) -> list[Op]:
    """What adds to sums what is computed from a product of the block on wgmma, unless products
    follow from each other: `order_products` has placed what stands between those."""
    made: set[Op] = set()
    if chained(block):
        return []
    for op in block.ops:
        if op.name == "wgmma_wait" or any(v.op in made for v in op.inputs()):
            made.add(op)
    return [op for op in block.ops if op.name == "fadd" and op in made and not any(
        other.name == "fadd" and op in {v.op for v in other.inputs()} for other in block.ops)]


def _reduce_early(block: Block, readers: dict[Value, list[Op]]) -> None:
    """Move each reduction, and what leads to it alone, behind what it reads: what else reads that
    need not be held beside it."""
    for last in [op for op in block.ops if op.name == "reduce" and op.pure]:
        moved = {last}
        for op in reversed(block.ops[: block.ops.index(last)]):
            if op.pure and op.results and all(
                    readers.get(v) and moved.issuperset(readers[v]) for v in op.results):
                moved.add(op)
        read = {v.op for op in moved for v in op.inputs()} - moved
        at = 1 + max((i for i, op in enumerate(block.ops) if op in read or op.name == "phi"),
                     default=-1)
        before, behind = ([op for op in part if op not in moved]
                          for part in (block.ops[:at], block.ops[at:]))
        block.ops[:] = [*before, *(op for op in block.ops if op in moved), *behind]


def _mark(block: Block, ends: list[Op], readers: dict[Value, list[Op]], estimate: Estimate,
          peak: Set[Value] | None = None) -> bool:
    """Mark what leads to one operation of `ends` alone, for each of them; only where some of it is
    live at the peak, if that is given."""
    marked: set[Op] = set()
    for last in reversed(list(ends)):
        made = last.operands[1] if last.name == "shared_store" else last.result if (
            not made_alone(last) and _by_register(last)) else None
        if last in marked or made is None or estimate.weight(made) < ENOUGH:
            continue
        parts = _parts(block, last)
        if last is not parts[0]:
            continue
        found = _leading(block, parts, readers)
        if not any(estimate.weight(op.result) >= ENOUGH and "piecewise" not in op.attributes and (
                peak is None or op.result in peak) for op in found):
            continue
        marked |= found
        _move(block, found, last)
        rest = block.ops[: block.ops.index(last) + 1]
        later = [op for op in rest if op.name == "alloc_shared" and {
            *rest}.isdisjoint(readers.get(op.result, ()))]  # may take another's place
        block.ops[:] = [*(op for op in rest if op not in later), *later, *block.ops[len(rest):]]
    return bool(marked)


def _move(block: Block, found: Set[Op], last: Op) -> bool:
    """Mark operations, which move to the one that reads them."""
    moved = [op for op in block.ops if op in found]
    block.ops[:] = [op for op in block.ops if op not in found]
    at = block.ops.index(last)
    block.ops[at:at] = moved
    for op in moved:
        op.attributes["piecewise"] = True
    return bool(moved)


def _parts(block: Block, last: Op) -> list[Op]:
    """The operation, with those that store other parts of the same tile, if no memory is written
    between."""
    if last.name != "shared_store" or "bits" not in last.attributes:
        return [last]
    found = [op for op in block.ops if op.name == last.name and op.operands[1] is last.operands[1]]
    between = block.ops[block.ops.index(found[0]) : block.ops.index(found[-1])]
    return [last] if any(WRITE in op.effects for op in between) else found


def _leading(block: Block, parts: list[Op], readers: dict[Value, list[Op]]) -> set[Op]:
    """The operations before the last one that compute for it alone; addresses are whole.  None
    where that would read a buffer while it writes another, which may take its place."""
    last = parts[0]
    found, computed, quiet, still = {last}, {*parts}, True, True
    for op in reversed(block.ops[: block.ops.index(last)]):
        own = len(op.results) == 1 and bool(readers.get(op.result)) and computed.issuperset(
            readers[op.result])
        if own and _by_register(op):
            found.add(op)
            computed.add(op)
        elif own and quiet and op.name == "load" and not op.attributes.get("volatile") and (
                elements_per_thread(op.result) >= ENOUGH):
            found.add(op)
        elif own and still and op.name == "shared_load" and "late" not in op.attributes and (
                last.name == "wgmma" or "ldmatrix" not in op.attributes) and (
                elements_per_thread(op.result) >= ENOUGH):
            if last.name == "shared_store":
                return set()
            found.add(op)
        elif op.name != "alloc_shared":
            quiet &= not op.effects - {READ, SHARED_READ, SHARED_WRITE}
            still &= SHARED_WRITE not in op.effects
    return found - {last}


def _by_register(op: Op) -> bool:
    return len(op.results) == 1 and isinstance(op.result.type, Tile) and op.guard is None and (
        op.info.elementwise or made_alone(op) or op.name == "tile_part" or is_rename(op)
        or spreads(op)) and op.pure
