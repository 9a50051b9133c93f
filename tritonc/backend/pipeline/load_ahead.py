"""load_ahead: what an iteration loads, besides the operands of products, is loaded one iteration
ahead.

    acc += scale[k] * dot(a, b)

Before:  loop: %p = phi ...               After:  first: %s0 = load %p0 if the loop is entered
         body: %s = load %p                       loop:  %p = phi ..., %s = phi [%s0], [%s1]
               start, wait: %x = product          body:  %s1 = load %p1 if there is a next iteration
               %y = fmul %s, %x                          start, wait: %x = product
                                                         %y = fmul %s, %x

A product of one stage takes less time than memory does, so the threads would wait for the load each
time.  The value waits for an iteration in registers: done for scalars, rows and columns, of which a
thread holds few.  Rows of a few bytes that make an operand are loaded two iterations ahead.

It is so too with what the addresses of asynchronous copies follow from, as from a table of shifts:
the copies of an iteration start at once, where they waited for the table first.

In kernels without products the same is done in loops of which a thread loads little in an iteration
and where other programs do not fill the time: recurrences, whose iterations wait for each other,
sums over columns, of which there are few programs, and loops that go from row to row, alone or
around the loop over a row: they are long, and so programs are few.  They load several iterations
ahead, through shared memory where copies can bring them (`copy_ahead`); one iteration ahead do
loops in which all pairs of elements meet, such as bodies that attract each other, and loops along a
row in which lanes tell each other a number that the next iteration needs.  Others along one row do
not: of short rows, programs are many and iterations few.

Needs a loop of a header and one more block, addresses that follow from its phis alone, and no store
in it that may change what is loaded.  After rotate_dots, which parts the loop's operations."""

from tritonc.analysis.aliases import pointer_roots, stores_may_reach
from tritonc.analysis.column_loops import sums_columns, walks_rows
from tritonc.analysis.row_loops import only_adds, waits_for_itself
from tritonc.analysis.values import needed, slice_of
from tritonc.backend.memory.versions.general import rare
from tritonc.backend.pipeline.copy_ahead import copy_ahead
from tritonc.backend.pipeline.loop_slice import Slice, advance, find_slice, initial_values
from tritonc.backend.pipeline.staged_loop import DOTS, Guards, elements_per_thread
from tritonc.backend.pipeline.tma.roles import has_producer
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop, make_phi
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import WRITE
from tritonc.ir.types import Tile, is_float, scalar, shape

# As far again where a thread loads little each time.  H200: the least of each of 6000 columns of
# 4000 halves 308 us by 7 rows ahead, 238 by 15; gated recurrences of 2048 steps 357 by 8, 309 by
# 16.
LITTLE = 8  # bytes
FEW = 8  # registers that may wait, of one load
# Bytes of a thread that may wait, of all loads of a loop without products, and iterations ahead: of
# a recurrence, and of sums over columns, for which there is but one block to a multiprocessor.
# bf16, 8192 x 4096, on an H200: 0.059 ms two ahead, 0.050 three, 0.046 four, 0.043 six.
ROOM, MOST_TIMES = 96, 3
COLUMNS_ROOM, COLUMNS_TIMES = 208, 5
# A recurrence of which each thread computes its own elements waits for memory alone: 64 x 512 steps
# of 2048 floats 0.196 ms three ahead, 0.156 eight.  Sums down columns, which lanes exchange: 0.167
# three, 0.176 eight.
STEPS_ROOM, STEPS_TIMES = 128, 8
# From row to row.  Batch norm of 64 x 3136 halves a channel: 0.207 ms, seven ahead 0.127.  Loops
# that only add the assembler unrolls by itself, which is better than three ahead.
ROWS_ROOM, ROWS_TIMES, FEWEST = 112, 7, 4
# Of one load of a general body, where elements have a register each: least and greatest of 333
# columns of halves 26.8 us, 18.8 so.
GENERAL_ROOM = 64
# Where lanes tell each other a number of a row, once: KL of 32000 0.140 ms, 0.132 so.  Two ahead
# are slower: cross-entropy of 50257 classes 0.214 ms, 0.231, attention by pages 0.294, 0.355.
# General bodies, whose elements take a register each, would spill.
LANES_ROOM = 128
EXCHANGES = frozenset("reduce reduce_with scan scan_with".split())
# A row that makes an operand is needed before the product, when one iteration has not passed yet.
# 4096 in cube, one ahead and two: bytes with groups of 128 0.200 and 0.195 ms, AWQ 0.199 and 0.192,
# columns of 8-bit floats 0.186 and 0.184.  What changes in each iteration, several of a row, is not
# loaded so (groups of 64 0.181 and 0.185, mxfp4 0.182 and 0.191), nor what scales results (1 %).
OPERANDS_ROOM = 16
# Where a block has no producer warp, its iterations are shorter than memory takes: MXFP8 weights,
# 64 x 2880 x 2880 by 64 x 64 x 64 14.8 us one ahead, 12.6 so.  By mma.sync it makes no difference.
SMALL_TIMES = 4
MANY = 8  # operations for each element loaded, where lines are loaded one iteration ahead


def load_ahead(kernel: Kernel, context: Context) -> bool:
    """Load ahead in the loops of products on wgmma, and in those that wait for memory."""
    changed, cfg = False, Cfg(kernel)
    products = any(op.name in (*DOTS, "dot") for op in kernel.ops())
    columns = not products and sums_columns(kernel, cfg)
    general = set(rare(cfg, cfg.order))
    waiting = columns or (not products and waits_for_itself(kernel, cfg))
    apart = has_producer(kernel)
    for loop in cfg.loops:
        latch = loop.body
        if latch is None:
            continue
        most = 4 * FEW
        changed |= not products and _load_once(kernel, loop, latch, most)
        beside = context.meta.get("num_stages") != 0 and any(
            op.name == "wgmma" for op in latch.ops)
        lead = set() if beside or waiting else _lead_copies(latch)
        producer = _lead_copies(latch, "tma_load") if apart else set()  # is ahead
        making = slice_of((v for op in latch.ops if op.name == "wgmma" for v in op.operands[:2]),
                          set(latch.ops))
        if beside or lead:
            rows = [op for op in making if op.name == "load"
                    and _may_wait(loop, op, most, products)]
            held = sum(_bytes(op.result, True) for op in rows)
            times = 2 if 0 < held <= OPERANDS_ROOM and all(
                len(shape(op.result.type)) == 1 for op in rows) else 1
            if held > 0 and not apart:
                times = max(times, min(SMALL_TIMES, OPERANDS_ROOM // held))
        elif not products and (waiting or loop.depth > 1 or walks_rows(loop)) and copy_ahead(
                kernel, loop, context):
            changed = True
            continue
        elif waiting:
            times = _times(loop, *(
                (COLUMNS_ROOM // (1 + (latch in general)), COLUMNS_TIMES) if columns else
                (ROOM, MOST_TIMES) if any(op.name in EXCHANGES for op in loop.ops()) else
                (STEPS_ROOM, STEPS_TIMES, 2 * STEPS_TIMES)))
        elif not products and (loop.depth > 1 or walks_rows(loop)):
            times = _times(loop, ROWS_ROOM, ROWS_TIMES, 2 * ROWS_TIMES)
            if latch in general and not any(op.name in EXCHANGES for op in loop.ops()):
                most = max(most, GENERAL_ROOM)
            if times < FEWEST and (loop.depth > 1 or only_adds(loop)):
                times = 0
        elif not products and _waits_for_lanes(loop):
            most = LANES_ROOM // 2 if latch in general else LANES_ROOM
            times = _times(loop, most, 1)
        elif not products and _meets_all(loop):
            times = _times(loop, ROOM, 1)
        else:
            times = 0
        # What leads other loads to their addresses is there an iteration before them.
        leaders = set() if products or not times else _lead_copies(latch, "load", 0)
        early = times + 1 if leaders else 0
        for done in range(early + times):
            loads = [op for op in latch.ops if op.name == "load"
                     and _may_wait(loop, op, most, products)
                     and (op in leaders if done < early else op not in leaders)
                     and (op in lead or not lead) and op not in producer
                     and (op in making or not (beside and done))]
            if stores_may_reach(kernel, loop.blocks, loads, pointer_roots(kernel)) or (
                    products and latch in general
                    and sum(_bytes(op.result) for op in loads) > 2 * LANES_ROOM):
                break
            part = _slice(loop, loads)
            if not loads or part is None:
                break
            if not done:
                context.remark("load_ahead", _said(times, lead, products), loads[0].span)
            moved = _rewrite(kernel, loop, loads, part)
            making = {new for old, new in zip(loads, moved, strict=True) if old in making}
            leaders = set(moved) if done < early else leaders
            changed = True
    return changed


def _said(times: int, lead: set[Op], products: bool) -> str:
    if lead:
        return "loaded one iteration before the copies whose addresses depend on it"
    return (f"loaded one {'or two iterations' if times > 1 else 'iteration'} ahead, while the "
            "products run" if products
            else f"loaded {times} iteration{'s' * (times > 1)} ahead")


def _lead_copies(body: Block, name: str = "async_copy", first: int = 1) -> set[Op]:
    """The loads from which addresses of asynchronous copies follow, by pure operations."""
    addresses = (v for op in body.ops if op.name == name for v in op.operands[first:])
    return {op for op in needed(body.ops, addresses) if op.name == "load"}


def _times(loop: Loop, room: int, most: int, of_little: int = 0) -> int:
    """How many iterations ahead a loop without products loads, as far as there are registers;
    `of_little`: at most so many, if more, where that is little."""
    held = sum(_bytes(op.result) for op in loop.ops() if op.name == "load")
    return min(max(most, of_little if held <= LITTLE else 0), room // held) if held else 0


def _meets_all(loop: Loop) -> bool:
    """Whether each element that is loaded meets many: of lines, tiles are computed at length."""
    loads = [elements_per_thread(op.result) for op in loop.ops() if op.name == "load"]
    floats = [elements_per_thread(op.result) for op in loop.ops()
              if op.pure and len(op.results) == 1 and is_float(op.result.type)]
    return bool(loads) and max(floats, default=0) > max(loads) and sum(floats) >= MANY * sum(loads)


def _waits_for_lanes(loop: Loop) -> bool:
    """Whether each iteration has the lanes tell each other a number that the next one needs."""
    made = {op.result for op in loop.ops() if op.name == "reduce" and not isinstance(
        op.result.type, Tile)}
    for op in loop.ops():
        if op.name != "phi" and not made.isdisjoint(op.operands):
            made.update(v for v in op.results if not isinstance(v.type, Tile))
    return any(loop.next(phi) in made for phi in loop.header.phis())


def _bytes(value: Value, packed: bool = False) -> int:
    """What a thread holds of a tile; what has no neighbour is in a register of its own."""
    alone = not packed and isinstance(value.type, Tile) and value.type.layout is not None and (
        1 not in value.type.layout.register)
    return elements_per_thread(value) * max(scalar(value.type).bytes, 4 if alone else 2)


def _slice(loop: Loop, loads: list[Op]) -> Slice | None:
    condition = loop.header.terminator.operands[0]
    values = [condition, *(v for op in loads for v in op.inputs())]
    for once in (False, True):
        part = find_slice(loop, values, set(loop.blocks), once=once)
        if part is not None and not part.loads:
            return part
    return None


def _may_wait(loop: Loop, load: Op, most: int, packed: bool) -> bool:
    """Whether a thread has room for the value of a load, whose address moves with the loop."""
    if _bytes(load.result, packed) > most:
        return False
    part = None if load.attributes.get("volatile") else _slice(loop, [load])
    return part is not None and bool(part.phis)


def _load_once(kernel: Kernel, loop: Loop, latch: Block, most: int) -> bool:
    """Load before the loop what each iteration loads from the same place, if that comes."""
    loads = [op for op in latch.ops if op.name == "load" and not op.attributes.get("volatile")
             and _bytes(op.result) <= most
             and (inputs := find_slice(loop, op.inputs(), set(loop.blocks))) is not None
             and not inputs.phis and not inputs.loads]
    part, before = _slice(loop, loads), loop.preheader
    if not loads or part is None or before is None or sum(_bytes(op.result) for op in loads) > (
            ROOM) or any(WRITE in op.effects and op.name != "store" for op in loop.ops()) or (
            stores_may_reach(kernel, loop.blocks, loads, pointer_roots(kernel))):
        return False
    first, values = _loads(loads, part, initial_values(part))
    before.ops[-1:-1] = first
    latch.ops = [op for op in latch.ops if op not in loads]
    kernel.replace({load.result: value for load, value in zip(loads, values, strict=True)})
    return True


def _rewrite(kernel: Kernel, loop: Loop, loads: list[Op], part: Slice) -> list[Op]:
    """Load an iteration ahead; returns the loads of the next one."""
    header, body, before = loop.header, loop.latch, loop.preheader
    assert body is not None and before is not None
    first, values = _loads(loads, part, initial_values(part))
    before.ops[-1:-1] = first
    steps, mapping = advance(part, {})
    following, later = _loads(loads, part, mapping)
    replaced: dict[Value, Value] = {}
    phis: list[Op] = []
    for load, now, then in zip(loads, values, later, strict=True):
        phis.append(make_phi([now, then], [before, body], load.result.name))
        replaced[load.result] = phis[-1].result
    body.ops = [op for op in body.ops if op not in loads]
    kernel.replace(replaced)
    header.ops[:0] = phis
    at = _store_first(kernel, body, [phi.result for phi in phis])
    if at is None:
        at = _behind(loop, body, {phi.result for phi in phis})
    body.ops[at:at] = [*steps, *following]
    return [value.op for value in later if value.op is not None]


def _store_first(kernel: Kernel, body: Block, values: list[Value]) -> int | None:
    """Where an operand that goes through registers is stored to its stage as it is: do so as soon
    as the stage is free, so that the next one comes to the same registers, and no move waits for
    it.  The place to load it, beside the product; None for others."""
    readers = uses(kernel)
    values = [v for v in values if v in readers]
    stores = [op for op in body.ops if op.name == "shared_store" and op.operands[1] in values]
    fences = [i for i, op in enumerate(body.ops) if op.name == "proxy_fence"]
    if len(stores) < len(values) or any(len(readers[v]) > 1 for v in values) or len(fences) != 1:
        return None
    views = [op.operands[0].op for op in stores]
    if not all(view is not None and view in body.ops and len(readers[view.result]) == 1
               and all(v.op not in body.ops for v in view.operands) for view in views):
        return None
    fence = body.ops[fences[0]]
    moved = [op for pair in zip(views, stores, strict=True) for op in pair if op is not None]
    body.ops = [op for op in body.ops if op not in moved]
    at = body.ops.index(fence) + 1
    body.ops[at:at] = moved
    starts = [i + 1 for i, op in enumerate(body.ops) if op.name == "wgmma"]
    return starts[0] if len(starts) == 1 else at + len(moved)


def _behind(loop: Loop, body: Block, values: set[Value]) -> int:
    """Where the next iteration's loads stand: behind the one product's start if its operands are
    made of the values that this one has, or the next one has of this one, else at the top.  The
    hardware counts a warp's loads in few counters, and to wait for one of the values would be to
    wait for the next one too.  Further ahead than registers alternate, threads move what they
    loaded when the iteration ends: it should be there."""
    starts = [i + 1 for i, op in enumerate(body.ops) if op.name == "wgmma"]
    at = starts[0] if len(starts) == 1 else 0
    made = {*values, *(phi.result for phi in loop.header.phis() if loop.next(phi) in values)}
    for op in body.ops[:at]:
        if not made.isdisjoint(op.inputs()):
            made.update(op.results)
    computed = at > 0 and body.ops[at - 1].operands[0] in made
    last = not any(values.intersection(op.inputs()) for op in body.ops[at:])
    return at if computed and last else 0


def _loads(loads: list[Op], part: Slice, mapping: dict[Value, Value]
           ) -> tuple[list[Op], list[Value]]:
    """The loads of an iteration if it comes, with what they need, and their results."""
    condition = part.loop.header.terminator.operands[0]
    ops = copy_ops(needed(part.ops, [condition, *(v for op in loads for v in op.inputs())]),
                   mapping)
    guards, values = Guards(mapping.get(condition, condition)), list[Value]()
    for load in loads:
        pointer = mapping.get(load.operands[0], load.operands[0])
        guard = load.guard and mapping.get(load.guard, load.guard)
        new, under = guards.under(guard, pointer.type)
        same = {name: value for name, value in load.attributes.items() if name != "moves"}
        ops += [*new, make_op("load", [pointer], load.result.type, guard=under, span=load.span,
                              **same)]
        values.append(ops[-1].result)
    return ops, values
