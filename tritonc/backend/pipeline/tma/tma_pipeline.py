"""Pipelines whose operands TMA (the tensor memory accelerator) loads to shared memory.

One thread starts the load of a whole box of a tensor; TMA computes the addresses, applies the
swizzle, fills with zeros what lies outside, and counts the bytes at a barrier in shared memory on
which the consumers wait.  No registers, no address arithmetic, no masks: this keeps wgmma busy.

Used where the operands are accesses of tensors (`tma_access`), masked elements are zero, and the
buffer's layout is one that TMA writes.

Before:  as in pipeline.                 After:  preheader: claim_slot, tensor_map ...,
                                                            init_barriers, tma_load ... of the
                                                            first D iterations
                                                 body:      wait_full %full[i % S], %phase
                                                            tma_load %s[(i + D) % S], ...
"""

from collections.abc import Iterable, Sequence
from math import prod

from tritonc.analysis.aliases import pointer_roots, stores_may_reach
from tritonc.analysis.axis import axis_info
from tritonc.analysis.quotients import in_steps
from tritonc.backend.dots.together import back_to_back, chained, large
from tritonc.backend.dots.together import products as products_of
from tritonc.backend.launch.persist import counts_programs
from tritonc.backend.pipeline.channel import Boxes, Channel, Means
from tritonc.backend.pipeline.loop_products import beside_products, handed_over, products
from tritonc.backend.pipeline.loop_slice import find_slice
from tritonc.backend.pipeline.staged_loop import (
    StagedLoop,
    buffer_of,
    double_computed,
    source_load,
    stages_that_fit,
)
from tritonc.backend.pipeline.staged_loop import registers as staged_registers
from tritonc.backend.pipeline.stages import (
    LARGE_STAGE,
    RELEASED_STAGES,
    WARPGROUP,
    copied_stages,
    most_stages,
    others_beside,
    released_stages,
    shared_stages,
)
from tritonc.backend.pipeline.tma.boxes import (
    Hindered,
    channels_before,
    channels_behind,
    loop_channels,
)
from tritonc.backend.pipeline.tma.bring_up import bring_up
from tritonc.backend.pipeline.tma.map_slots import claim_place
from tritonc.backend.pipeline.tma.region_expander import (
    EXCHANGE,
    RegionExpander,
    needed_beside,
    region,
)
from tritonc.backend.pipeline.tma.roles import registers
from tritonc.backend.pipeline.tma.tma_expander import TmaExpander
from tritonc.backend.pipeline.tma.warm_start import all_quick, copyable
from tritonc.backend.pipeline.tma.warpgroup_stores import spread
from tritonc.backend.shared.shared_memory import LEFT, allocation, body_of
from tritonc.backend.target.matrix import LARGE
from tritonc.backend.target.register_limits import MOST_REGISTERS
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import shape

# Elements of a product from which on TMA serves one operand beside threads that compute where the
# rows of the other one are.  H200, NHWC by 128 x 128, 28 x 28: 24.3 us, 20.1 without; 56 x 56 27.5,
# 23.1; gradient of a filter 56.7, 50.9; by 128 x 256, 56 x 56 19.2, 20.1; 16 images 93, 101.  Where
# it has more elements than that one: by 64 x 256, 28 x 28, 20.2 us, 27.1 without.
BESIDE_ROWS = 2 * LARGE
PRODUCER_STAGES = 3  # with a producer, enough: more were no faster, and results want memory too


def tma_pipeline(kernel: Kernel, staged: StagedLoop, infos: axis_info.Infos,
                    context: Context, mixed: bool, others: Sequence[StagedLoop] = ()
                    ) -> tuple[list[StagedLoop], Hindered]:
    """Pipeline one loop with TMA loads of all its operands, and those of the `others` that its
    pipeline can serve; `mixed`: with copies of some operands, too.

    The loops for which that is done, and what hinders copies."""
    target: Target = context.target
    if not staged.asynchronous:
        return [], []
    # Where TMA rounds operands on their way, threads would have to load them to registers.
    if not context.meta.get("tma_load", _pays(staged) or any(
            store.attributes.get("round") for store in staged.stores)):
        return [], [] if "tma_load" in context.meta else _all(
            staged, "this product is so small that the threads' own copies are faster")
    place = claim_place(kernel, staged.preheader)
    if place is None:
        return [], _all(staged, "whether the loop is reached depends on computed data")
    channels, hindered = loop_channels(kernel, staged, infos, place)
    boxes = [one.boxes for one in channels if one.boxes is not None]
    held = [one.store.operands[1] for one in channels if one.means == Means.REGISTERS]
    if not boxes or (hindered and not mixed):
        return [], hindered
    computed = [one.load for one in channels if one.boxes is None and one.copied
                and one.load is not None and in_steps(one.load)]
    if "tma_load" not in context.meta and not _pays(staged, BESIDE_ROWS) and (
            _elements(one.load for one in boxes) <= _elements(computed)):
        return [], [*hindered, *((one.load, "threads, which compute the rows of the other operand, "
                                  "copy it as fast") for one in boxes)]
    moving = _moving(channels, staged, Cfg(kernel))
    inputs = [v for one in channels if one.copied and one.load is not None
              for v in one.load.inputs()]
    part = find_slice(staged.loop, [staged.condition, *moving, *inputs, *held], staged.always)
    if part is None:
        return [], hindered or _all(staged, "whether the loop is reached depends on computed data")
    loads = [one.load for one in channels if one.load is not None]
    if stores_may_reach(kernel, staged.loop.blocks, [*loads, *part.loads], pointer_roots(kernel)):
        return [], _all(staged, "a store in the loop may change what it loads")
    if held and staged_registers(kernel, staged, held) > MOST_REGISTERS:
        return [], hindered
    groups = products(kernel, staged) if not hindered else [list(range(len(channels)))]
    alone = not others_beside(kernel, staged, target)
    pingpong = kernel.attributes.get("pingpong", 1)
    warps = kernel.attributes["num_warps"] * pingpong
    separate = (not hindered and handed_over(kernel, staged)
                and (warps > WARPGROUP or (
                    len(groups) == 1 and (alone or context.meta.get("producer") == 1)))
                and registers(warps, target) is not None
                and bool(context.meta.get("producer", _pays(staged))))
    wide, single = None, list[int]()
    if separate and len(groups) == 1:
        _leave_out(channels)
    if separate and context.meta.get("continued", 1):
        if len(groups) > 1 and kernel.attributes.get("one_stage"):
            single = beside_products(kernel, staged)
        staged.single = [allocation(staged.stores[i].operands[0])[0] for i in single]
        parted = [[i for i in group if i not in single] for group in groups]
        parted += [single] if single else []
        wide = _region(kernel, staged, others, infos, parted, boxes, place, target,
                       bool(part.loads))
        groups, staged.single = (groups, ()) if wide is None else (parted, staged.single)
    staged.beside = staged.beside if wide is not None else 0
    # A producer warp starts once, and so does its pipeline, in which alone it loads numbers.
    separate &= wide is not None or (
        not part.loads and staged.preheader not in Cfg(kernel).innermost)
    most = max((groups, *(later.products for later in wide[0])), key=len) if wide else groups
    stages, least = _stages(kernel, staged, context, most, alone, separate, bool(hindered))
    if stages < least:
        for one in channels:
            allocation(one.store.operands[0])[0].attributes.pop("pitch", None)
        return [], _all(staged, f"{least} stages of the operands do not fit into shared memory, "
                           "or are more than num_stages")
    distance = max(1, stages - (1 if len(groups) > 1 else 2))  # chains release one by one
    cfg = Cfg(kernel)
    rewrite = TmaExpander(kernel, staged, part, channels, stages, distance)
    followers: list[RegionExpander] = []
    if wide is not None:
        followers, fixed, fixed_stages, behind = wide
        every = [*channels, *fixed, *behind]
        rewrite = whole = RegionExpander(kernel, staged, part, every, stages, 0)
        rewrite.followers, rewrite.fixed, rewrite.fixed_stages = followers, fixed, fixed_stages
        rewrite.behind = behind
        rewrite.shares, rewrite.products = range(len(groups)), groups
        whole.depths = {len(groups) - 1: 1} if staged.single else _late(
            (whole, *followers), stages, target.shared_per_block - LEFT)
        rewrite.outer = staged.loop.parent  # whose first iteration is known to come
    outer = rewrite.outer
    rewrite.place, rewrite.moving = place, moving
    rewrite.products, rewrite.separate = groups, separate
    rewrite.warm = separate and pingpong == 1 and (outer is None or (
        counts_programs(outer) and outer.latch is not None
        and cfg.dominates(staged.preheader, outer.latch))) and copyable(
            staged, [staged.stores[i] for i in groups[0]], infos)
    if rewrite.warm and all_quick(rewrite.fixed, infos):
        rewrite.warm_fixed = rewrite.fixed
    for later in followers:
        later.stages, later.place, later.separate = stages, place, True
        later.depths = whole.depths
        later.moving = _moving(later.channels, later.staged, cfg)
        context.remark("pipeline", "loop pipelined: TMA loads share the buffers of the loop "
                       "before", later.span)
    rewrite.run()
    context.remark("pipeline", "loop pipelined: TMA loads run "
                   f"{distance} iteration{'s' * (distance > 1)} ahead", boxes[0].load.span)
    for one in rewrite.behind:
        assert one.load is not None
        context.remark("pipeline", "loaded by the producer warp while the loop before it ends",
                       one.load.span)
    for one in (*rewrite.fixed, *channels):
        if one.load is not None and (one.boxes is None or one in rewrite.fixed):
            context.remark("pipeline", "loaded by the producer warp before the loop that reads it"
                           if one.boxes is not None else "operand copied asynchronously "
                           f"(cp.async), {distance} iteration{'s' * (distance > 1)} ahead",
                           one.load.span)
    return [staged, *(later.staged for later in followers)], hindered


def _leave_out(channels: Sequence[Channel]) -> None:
    """Let stages take no more memory than boxes bring of a tile whose mask leaves out the rest."""
    for one in channels:
        root = allocation(one.store.operands[0])[0]
        t = buffer_of(root.result)
        if one.boxes is not None and one.boxes.strip.cut and t.layout is not None \
                and one.boxes.bytes < t.stage_bytes and one.boxes.bytes % t.layout.alignment == 0:
            root.attributes["pitch"] = one.boxes.bytes


def _moving(channels: Iterable[Channel], staged: StagedLoop, cfg: Cfg) -> list[Value]:
    """What boxes of the loop begin at that is not there before it."""
    return [v for one in channels if one.boxes is not None
            for v in one.boxes.moving(staged.preheader, cfg)]


def _stages(kernel: Kernel, staged: StagedLoop, context: Context, groups: list[list[int]],
            alone: bool, separate: bool, mixed: bool) -> tuple[int, int]:
    """The stages of the loop's operands, and the fewest that are worth it; buffers of what threads
    compute and of results take their room before."""
    room = context.target.shared_per_block - LEFT
    double_computed(kernel, staged, room)
    if separate and len(groups) == 1:
        body = body_of(Cfg(kernel), [staged.loop.header])  # others have their own memory
        staged.pinned += spread(kernel, body, lambda more: stages_that_fit(
            staged, room - more) >= context.meta.get(
                "num_stages", PRODUCER_STAGES + staged.from_registers))
    least = 3 if len(groups) == 1 and alone and not (
        separate and staged.stage_bytes >= LARGE_STAGE) else 2
    if asked := context.meta.get("num_stages"):
        return asked, least
    stages = (copied_stages if mixed else most_stages)(
        kernel, staged, context.target, 1 if separate else kernel.attributes.get("pingpong", 1))
    if len(groups) > 1:
        stages = min(stages, released_stages(kernel, staged, context.target))
    elif not alone and not separate:
        stages = min(stages, shared_stages(kernel, staged, context.target))
    return stages, least


def _late(loops: Sequence[RegionExpander], stages: int, room: int) -> dict[int, int]:
    """A stage more, if there is room, for what the second of two chained products reads: the number
    of the group and its stages.  What is released when that product is waited for, behind all that
    threads compute beside it, has one iteration's time to come for the next but one, less what one
    warpgroup is behind the other.  Without any copies attention of heads of 128 takes 97 us where
    it takes 104 or 112, by forms that hardly differ (H200, 32 x 2048).  With the third stage, and
    one of queries, which are released early: no -ffast-math, 128 x 4096 1608 us to 1573, 16 x 8192
    789 to 774, 64 x 1024 62.9 to 58.1, 8 x 1024 17.4 to 17.8, causal 844 to 845 and 40.3 to 38.6;
    28 ways of 32 x 2048 1.00 on average, 0.92 (four_strides) to 1.07 (prefix): copies come late in
    some forms still."""
    for one in loops:
        if _second(one.staged, one.products):
            more = one.bytes(one.staged.stores[i] for i in one.products[1])
            if stages_that_fit(loops[0].staged, room - more) >= stages:
                return {one.shares[1]: stages + 1}
    return {}


def _second(staged: StagedLoop, groups: list[list[int]]) -> bool:
    """Whether the second of two chained products may have to wait for what it reads."""
    return len(groups) == 2 and staged.stage_bytes >= LARGE_STAGE and back_to_back(staged.body)


def _region(kernel: Kernel, staged: StagedLoop, others: Sequence[StagedLoop],
            infos: axis_info.Infos, groups: list[list[int]], boxes: list[Boxes], place: Block,
            target: Target, loads: bool
            ) -> tuple[list[RegionExpander], list[Channel], int, list[Channel]] | None:
    """If a pipeline can go on behind `place`, whose copies one thread makes, and it fits: the loops
    behind that it serves, what is fixed in all of them, with the stages of that, and what is read
    behind the loop."""
    cfg, room = Cfg(kernel), target.shared_per_block - LEFT
    again = staged.preheader in cfg.innermost
    followers, parts = _followers(kernel, staged, others, infos, groups, place)
    staged.beside = sum(buffer_of(v).stage_bytes for part in parts[len(groups):] for v in part)
    loops = [staged, *(later.staged for later in followers)]
    fixed = channels_before(kernel, staged, loops[1:], infos) if again else []
    behind = channels_behind(kernel, staged, infos) if again and not (fixed or followers) else []
    brought = (fixed, behind, *(later.channels for later in followers))
    every = [*boxes, *(one.boxes for some in brought for one in some if one.boxes is not None)]
    if not (again or followers or loads or len(groups) == 1 or not back_to_back(staged.body)) \
            or not bring_up([v for one in every for v in one.strip.map_values()], place, cfg):
        return None
    blocks = region(kernel, loops, place, every)
    buffers = {allocation(store.operands[0])[0] for store in (
        *(one.store for one in fixed), *(store for later in loops[1:] for store in later.stores))}
    most, less = (needed_beside(kernel, blocks, staged, buffers, part)
                  * kernel.attributes.get("pingpong", 1) for part in EXCHANGE)
    beside = less if len(parts) == 1 and stages_that_fit(staged, room - most) < (
        PRODUCER_STAGES) <= stages_that_fit(staged, room - less) else most
    wanted = (PRODUCER_STAGES if len(parts) == 1 and staged.stage_bytes < LARGE_STAGE
              else RELEASED_STAGES)
    if not blocks or stages_that_fit(staged, room - beside) < wanted:
        return None
    twice, late = TmaExpander.bytes(one.store for one in fixed), 0
    if fixed and not followers and _second(staged, groups):  # then what is fixed is released early
        late = TmaExpander.bytes(staged.stores[i] for i in groups[1])

    def fits(more: int) -> bool:
        return stages_that_fit(staged, room - beside - more) >= wanted

    if not fits(twice) or (late and fits(late) and not fits(twice + late)):
        twice = 0
    staged.exchange += beside + twice
    return followers, fixed, 2 if twice else 1, behind


def _followers(kernel: Kernel, staged: StagedLoop, others: Sequence[StagedLoop],
               infos: axis_info.Infos, groups: list[list[int]], place: Block
               ) -> tuple[list[RegionExpander], list[list[Value]]]:
    """The rewriting of the loops behind this one that have buffers in common with it, and the
    groups of all their buffers."""
    cfg, roots = Cfg(kernel), pointer_roots(kernel)
    parts = [[staged.stores[i].operands[0] for i in group] for group in groups]
    found = []
    for other in others:
        if other is staged or not cfg.dominates(staged.loop.header, other.preheader):
            continue
        own = products(kernel, other)
        more, shares = list(parts), list[int]()
        for group in own:
            shares.append(_group_for([other.stores[i].operands[0] for i in group], more, shares))
        if min(shares) >= len(groups):
            continue
        channels, hindered = loop_channels(kernel, other, infos, place)
        moving = _moving(channels, other, cfg)
        part = find_slice(other.loop, [other.condition, *moving], other.always)
        if hindered or part is None or not handed_over(kernel, other):
            continue
        loads = [one.load for one in channels if one.load is not None]
        if not stores_may_reach(kernel, other.loop.blocks, [*loads, *part.loads], roots):
            found.append(RegionExpander(kernel, other, part, channels, 0, 0))
            found[-1].products, found[-1].shares, parts = own, shares, more
    return found, parts


def _group_for(buffers: list[Value], parts: list[list[Value]], taken: list[int]) -> int:
    """The number of a group not `taken` that has such buffers, maybe a new one."""
    types = [v.type for v in buffers]
    for i, part in enumerate(parts):
        if i not in taken and [v.type for v in part] == types:
            return i
    parts.append(buffers)
    return len(parts) - 1


def _all(staged: StagedLoop, why: str) -> Hindered:
    """One reason for all operands of the loop, at the first."""
    return [(source_load(store) or store, why) for store in staged.stores[:1]]


def _elements(loads: Iterable[Op]) -> int:
    return sum(prod(shape(load.result.type)) for load in loads)


def _pays(staged: StagedLoop, least: int = LARGE) -> bool:
    """A small product alone does not: making maps takes longer than the threads' own copies."""
    blocks = [block for block in staged.loop.blocks if products_of(block.ops)]
    return len(blocks) > 1 or any(chained(block) or large(block, least) for block in blocks)
