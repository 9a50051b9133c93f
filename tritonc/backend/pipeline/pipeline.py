"""pipeline: dot operands are copied to shared memory several iterations before they are used.

Before:                                  After, with S stages, copies D iterations ahead:
  header: %p = phi [%p0], [%p1]            preheader: async_copy %s[0], %p0      if it will be used
          cond_br %c, body, exit                      async_commit                     ... D times
  body:   %a = load %p                     header: %p = phi ..., %q = phi: %p, D iterations ahead
          shared_store %s, %a              body:   async_wait {pending = D - 1}
          %d = fma_dot %s, ...                     async_copy %s[(i + D) % S], %q
          %p1 = addptr %p, %step                   async_commit
                                                   %d = fma_dot %s[i % S], ...

The copies (cp.async) need no registers and no thread waits for them until their data is due.  What
the addresses and the loop's condition depend on runs ahead in phis of its own.  With D = S - 1 the
stage that a copy overwrites was read in the iteration before, and the one barrier after the wait,
which makes the data visible to all threads, says too that all have read it.  With wgmma, D = S - 2:
the product stays in flight across the back edge (`wgmma_wait` leaves one pending), so the stage was
read two iterations ago, by products that have ended.  Chained products end in it: D = S - 1.
So do those whose threads compute in each iteration where from they copy: blocks share a
multiprocessor then (`blocks_beside`), and products of the others run meanwhile.

After the loop nothing may be in flight, since the stages' bytes may serve another buffer.

Needs a loop with one exit, at its header, and one latch; operands that come from loads by pure
operations, addresses that follow from the loop's phis alone, and no store in the loop that may
reach what is loaded.  And copies that the hardware can do: operands stored as loaded, in pieces of
4, 8 or 16 bytes that are contiguous in both memories, zeros where a mask does not hold.  Where an
operand is transposed on its way, pieces would be single elements while loads are wide.  One
iteration ahead, such an operand is copied as it is to a buffer where each thread finds its own
elements, and transposes them from there when the iteration ends: no register waits for memory.
Otherwise it goes through registers, in the same pipeline.  Where no operand is copied, S is 2: the
paper's prefetch (listing 7) and double buffering (section 5.3) in one."""

from math import prod
from typing import TYPE_CHECKING

from tritonc.analysis.aliases import pointer_roots, stores_may_reach
from tritonc.analysis.axis import axis_info
from tritonc.analysis.quotients import in_steps
from tritonc.analysis.windows import takes_apart
from tritonc.backend.dots.together import chained, waits
from tritonc.backend.launch.persist import rare_programs
from tritonc.backend.layout.access import VECTOR_BITS
from tritonc.backend.pipeline.channel import TRANSPOSED, Channel, Means, by_threads, copy_width
from tritonc.backend.pipeline.expander import Expander
from tritonc.backend.pipeline.loop_slice import find_slice
from tritonc.backend.pipeline.staged_loop import (
    StagedLoop,
    buffer_of,
    registers,
    source_load,
    staged_loops,
    stages_that_fit,
)
from tritonc.backend.pipeline.stages import (
    RELEASED_STAGES,
    blocks_beside,
    computing_beside,
    copied_stages,
    others_beside,
    stages_beside,
)
from tritonc.backend.pipeline.tma.roles import has_producer
from tritonc.backend.shared.shared_memory import LEFT, own_buffer
from tritonc.backend.target.register_limits import MOST_REGISTERS
from tritonc.backend.target.target import Target
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import Tile, shape
from tritonc.later import Later
from tritonc.source import Span

if TYPE_CHECKING:
    from tritonc.backend.pipeline.tma.tma_pipeline import tma_pipeline
else:  # targets without TMA do without what it is made of
    tma_pipeline = Later("tritonc.backend.pipeline.tma.tma_pipeline", "tma_pipeline")


_ALTERNATING = 2  # blocks that wait for memory while the other one multiplies


def pipeline(kernel: Kernel, context: Context) -> bool:
    """Pipeline the loops whose operands can be copied asynchronously, then those that are left."""
    if context.meta.get("num_stages") == 0:
        return False
    changed = "async_copy" in context.target.features and _copy_ahead(kernel, context)
    for staged in staged_loops(kernel):
        changed |= _load_ahead(kernel, staged, context)
    return changed


def _copy_ahead(kernel: Kernel, context: Context) -> bool:
    infos = axis_info.analyze(kernel)
    changed = False
    hindered: dict[Span | None, str] = {}  # the body made for aligned addresses comes last
    served: set[Span | None] = set()  # places whose loads TMA makes in one of the bodies
    rare = rare_programs(kernel)  # the others shall have the memory
    left = [staged for staged in staged_loops(kernel) if staged.body not in rare]
    tensors = {"tensor_map", "tma_load"} <= context.target.features
    for mixed in (False, True):  # a warp that makes copies in one body makes none in another
        if not tensors or (mixed and has_producer(kernel)):
            break
        for staged in list(left):
            if staged not in left:
                continue
            done, why = tma_pipeline(kernel, staged, infos, context, mixed, left)
            hindered.update((load.span, reason) for load, reason in why)
            missed = [load for load, _ in why]
            for one in done:
                served.update(load.span for load in map(source_load, one.stores)
                              if load is not None and load not in missed)
                left.remove(one)
                changed = True
    _read_directly(kernel)
    for staged in left:
        changed |= _pipeline(kernel, staged, infos, context)
    for span, reason in hindered.items():
        if span not in served:
            context.remark("pipeline", f"operand not loaded by TMA: {reason}", span, missed=True)
    return changed


def _read_directly(kernel: Kernel) -> None:
    """Leave shared memory out where no channel brings what is read behind a loop."""
    left = {op.result for op in kernel.entry.ops
            if op.attributes.get("behind") and not op.attributes.get("continues")}
    parts: dict[Value, Value] = {}
    for block in kernel.blocks if left else ():
        for op in [op for op in block.ops if not left.isdisjoint(op.operands)]:
            if op.name == "shared_store":
                parts[op.operands[0]] = op.operands[1]
            else:
                kernel.replace({op.result: parts[op.operands[0]]})
            block.ops.remove(op)
    kernel.entry.ops = [op for op in kernel.entry.ops if left.isdisjoint(op.results)]


def _pipeline(kernel: Kernel, staged: StagedLoop, infos: axis_info.Infos, context: Context) -> bool:
    target: Target = context.target
    beside = _beside(kernel, staged, target)
    fit = stages_beside(staged.stage_bytes, beside, target)
    stages = context.meta.get("num_stages") or (
        fit if beside > 1 else RELEASED_STAGES
        if chained(staged.body) and others_beside(kernel, staged, target) else copied_stages(
            kernel, staged, target, kernel.attributes.get("pingpong", 1)))
    if stages > fit:
        beside = 1
    computing = computing_beside(kernel, staged, target)
    # Where other blocks' products run meanwhile, none need stay in flight across the back edge.
    flies = staged.asynchronous and not waits(staged.body) and beside < 2
    distance = max(stages - 1 - flies, min(stages - 1, 1))
    if distance < 1:
        return False
    channels = [by_threads(store, staged, infos) for store in staged.stores]
    transposed = _transposed_buffers(channels, infos) if distance == 1 else {}
    room = context.target.shared_per_block - LEFT
    if stages_that_fit(staged, room - sum(
            buffer_of(one.result).bytes for one in transposed.values())) >= stages:
        channels = [Channel(one.store, Means.TRANSPOSED, source_load(one.store),
                            transposed=transposed[one.store])
                    if one.store in transposed else one for one in channels]
    for one in channels:
        if one.means == Means.REGISTERS:
            made = one.store.operands[1].op
            context.remark("pipeline", f"operand not copied asynchronously: {one.why}",
                           made.span if made is not None else one.store.span, missed=True)
    copied = [one.load for one in channels if one.load is not None]
    held = [one.store.operands[1] for one in channels if one.means == Means.REGISTERS]
    inputs = [v for load in copied for v in load.inputs()]
    part = find_slice(staged.loop, [staged.condition, *inputs, *held], staged.always)
    if part is None or not copied or registers(kernel, staged, held) > MOST_REGISTERS:
        return False
    if stores_may_reach(kernel, staged.loop.blocks, [*copied, *part.loads], pointer_roots(kernel)):
        return False
    kernel.entry.ops[:0] = [one.transposed for one in channels if one.transposed is not None]
    expander = Expander(kernel, staged, part, channels, stages, distance)
    expander.alone = max(beside, computing) < 2
    expander.run()
    if not expander.alone:
        kernel.attributes["min_blocks"] = max(beside, computing)
    context.remark("pipeline", f"loop pipelined: operands are copied (cp.async) {distance} "
                   f"iteration{'s' * (distance > 1)} ahead", copied[0].span)
    return True


def _load_ahead(kernel: Kernel, staged: StagedLoop, context: Context) -> bool:
    """Load the next iteration's operands to registers, and store them when this one has ended: two
    stages leave one barrier per iteration."""
    stored = [store.operands[1] for store in staged.stores]
    part = find_slice(staged.loop, [staged.condition, *stored], staged.always)
    loads = part.loads if part else []
    if part is None or not loads:
        why = "an operand is not loaded from addresses that the loop's counters determine"
    elif (needs := registers(kernel, staged, stored)) > MOST_REGISTERS:
        why = "the next operands do not fit into registers beside this product"
    elif stages_that_fit(staged, context.target.shared_per_block) < 2:
        why = "2 stages of the operands do not fit into shared memory"
    elif stores_may_reach(kernel, staged.loop.blocks, loads, pointer_roots(kernel)):
        why = "a store in the loop may change what it loads"
    else:
        channels = [Channel(store, Means.REGISTERS) for store in staged.stores]
        if _two_wait(kernel, staged, loads, needs, context.target):
            kernel.attributes["min_blocks"] = _ALTERNATING
        Expander(kernel, staged, part, channels, 2, 1).run()
        context.remark("pipeline", f"loop pipelined: {len(loads)} loads run one iteration ahead",
                       loads[0].span)
        return True
    context.remark("pipeline", f"loop not pipelined: {why}", (loads or staged.stores)[0].span,
                   missed=True)
    return False


def _two_wait(kernel: Kernel, staged: StagedLoop, loads: list[Op], needs: int, target: Target
              ) -> bool:
    """Whether two blocks shall be resident, of which one waits for what threads bring while the
    other one multiplies, where a thread needs so many registers.  Three taps of stride 2 along time
    by 128 x 128 x 32 on an H200: 147 us by blocks that persist, 127 by two to a multiprocessor.
    Not where TMA brings a part in another body, which has one block's registers: five taps 46 and
    56 us."""
    threads = kernel.attributes["num_warps"] * target.warp_size
    return takes_apart(loads) and staged.asynchronous \
        and not any(op.name == "tma_load" for op in kernel.ops()) \
        and needs * threads * _ALTERNATING <= target.registers_per_multiprocessor \
        and _ALTERNATING * (2 * staged.stage_bytes + LEFT) <= target.shared_per_multiprocessor


def _beside(kernel: Kernel, staged: StagedLoop, target: Target) -> int:
    """How many blocks shall be resident, by what this loop copies."""
    loads = [load for load in map(source_load, staged.stores) if load is not None]
    if not staged.asynchronous or "cluster" in kernel.attributes or not any(map(in_steps, loads)):
        return 1
    warps: int = kernel.attributes["num_warps"]
    sums = max(prod(shape(op.result.type)) for op in staged.loop.ops() if op.name == "wgmma")
    return blocks_beside(staged.stage_bytes, warps, sums // (warps * target.warp_size), target)


def _transposed_buffers(channels: list[Channel], infos: axis_info.Infos) -> dict[Op, Op]:
    """For stores of what is transposed, a buffer for it as it is loaded: the elements of a thread
    side by side, so that it can copy what it will transpose itself, 16 bytes at once."""
    raw = {}
    for one in channels:
        store = one.store
        value, load = store.operands[1], store.operands[1].op
        t = value.type
        if one.why != TRANSPOSED or load is None or load.name != "load" \
                or not isinstance(t, Tile):
            continue
        buffer = own_buffer(t, span=store.span, named=f"{value.name}_raw" if value.name else "raw")
        if buffer.attributes.get("private") and copy_width(
                load.operands[0], load.guard, buffer.result, infos) == VECTOR_BITS // 8:
            raw[store] = buffer
    return raw
