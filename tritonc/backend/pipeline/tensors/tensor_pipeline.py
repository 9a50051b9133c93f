"""Pipelines whose operands TMA (the tensor memory accelerator) loads to shared memory.

One thread starts the load of a whole box of a tensor; TMA computes the addresses, applies the
swizzle, fills with zeros what lies outside, and counts the bytes at a barrier in shared memory on
which the consumers wait.  No registers, no address arithmetic, no masks: this keeps wgmma busy.

Used where the operands are accesses of tensors (`tensor_access`), masked elements are zero, and the
buffer's layout is one that TMA writes.

Before:  as in pipeline.                 After:  preheader: claim_slot, tensor_map ...,
                                                            init_barriers, tensor_copy ... of the
                                                            first D iterations
                                                 body:      wait_full %ring[i % S], %phase
                                                            tensor_copy %s[(i + D) % S], ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from tritonc.analysis.affine import Affinity, Iteration
from tritonc.analysis.aliases import may_alias, pointer_roots, stores_may_reach
from tritonc.analysis.axis import axis_info
from tritonc.analysis.linear import number
from tritonc.analysis.quotients import in_steps
from tritonc.analysis.signs import Signs, known_signs, loop_order
from tritonc.backend.dots.together import chained, fed, large
from tritonc.backend.dots.together import products as products_of
from tritonc.backend.launch.persist import counts_programs
from tritonc.backend.pipeline.channel import Boxes, Channel, Means, by_threads
from tritonc.backend.pipeline.loop_products import beside_products, handed_over, products
from tritonc.backend.pipeline.loop_slice import find_slice
from tritonc.backend.pipeline.staged_loop import (
    StagedLoop,
    buffer_of,
    buffer_users,
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
    shared_stages,
)
from tritonc.backend.pipeline.tensors.bring_up import bring_up, computed_at
from tritonc.backend.pipeline.tensors.region_ring import RegionRewrite, needed_beside, region
from tritonc.backend.pipeline.tensors.roles import registers
from tritonc.backend.pipeline.tensors.tensor_access import (
    MOST_BOX,
    Strip,
    count_rows,
    forward,
    recognize,
)
from tritonc.backend.pipeline.tensors.tensor_ring import TensorRewrite
from tritonc.backend.pipeline.tensors.tensor_slots import claim_place
from tritonc.backend.pipeline.tensors.warm_start import all_quick, copyable
from tritonc.backend.pipeline.tensors.warpgroup_stores import spread
from tritonc.backend.shared.shared_memory import LEFT, allocation, body_of
from tritonc.backend.target.matrix import LARGE
from tritonc.backend.target.register_limits import MOST_REGISTERS
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg, reached
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.shared_layout import ROW_ALIGNMENT, tensor_core, tensor_row
from tritonc.ir.ops import WRITE
from tritonc.ir.types import Buffer, Tile, is_pointer, shape

Hindered = list[tuple[Op, str]]  # loads that are not made by TMA, and why
# Elements of a product from which on TMA serves one operand beside threads that compute where the
# rows of the other one are.  H200, NHWC by 128 x 128, 28 x 28: 24.3 us, 20.1 without; 56 x 56 27.5,
# 23.1; gradient of a filter 56.7, 50.9; by 128 x 256, 56 x 56 19.2, 20.1; 16 images 93, 101.  Where
# it has more elements than that one: by 64 x 256, 28 x 28, 20.2 us, 27.1 without.
BESIDE_ROWS = 2 * LARGE
PRODUCER_STAGES = 3  # with a producer, enough: more were no faster, and results want memory too


def tensor_pipeline(kernel: Kernel, staged: StagedLoop, infos: axis_info.Infos,
                    context: Context, mixed: bool, others: Sequence[StagedLoop] = ()
                    ) -> tuple[list[StagedLoop], Hindered]:
    """Pipeline one loop with tensor copies of all its operands, and those of the `others` that its
    ring can serve; `mixed`: with copies of some operands, too.

    The loops for which that is done, and what hinders copies.
    """
    target: Target = context.target
    if not staged.asynchronous:
        return [], []
    if not context.meta.get("tensor_copy", _pays(staged) or _rounds(staged)):
        return [], [] if "tensor_copy" in context.meta else _all(
            staged, "this product is so small that the threads' own copies are faster")
    place = claim_place(kernel, staged.preheader)
    if place is None:
        return [], _all(staged, "whether the loop is reached depends on computed data")
    channels, hindered = _channels(kernel, staged, infos, place)
    boxes = [one.boxes for one in channels if one.boxes is not None]
    held = [one.store.operands[1] for one in channels if one.means == Means.REGISTERS]
    if not boxes or (hindered and not mixed):
        return [], hindered
    computed = [one.load for one in channels if one.boxes is None and one.copied
                and one.load is not None and in_steps(one.load)]
    if "tensor_copy" not in context.meta and not _pays(staged, BESIDE_ROWS) and (
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
    separate = (not hindered and handed_over(kernel, staged)
                and (kernel.attributes["num_warps"] > WARPGROUP or (
                    len(groups) == 1 and (alone or context.meta.get("copier") == 1)))
                and registers(kernel.attributes["num_warps"], target) is not None
                and bool(context.meta.get("copier", _pays(staged))))
    ring, single = None, list[int]()
    if separate and context.meta.get("continued", 1):
        if len(groups) > 1 and kernel.attributes.get("one_stage"):
            single = beside_products(kernel, staged)
        staged.single = [allocation(staged.stores[i].operands[0])[0] for i in single]
        parted = [[i for i in group if i not in single] for group in groups]
        parted += [single] if single else []
        ring = _region(kernel, staged, others, infos, parted, boxes, place, target,
                       bool(part.loads))
        groups, staged.single = (groups, ()) if ring is None else (parted, staged.single)
    staged.beside = staged.beside if ring is not None else 0
    # A producer warp starts once, and so does its ring, in which alone it loads numbers.
    separate &= ring is not None or (
        not part.loads and staged.preheader not in Cfg(kernel).innermost)
    most = max((groups, *(later.products for later in ring[0])), key=len) if ring else groups
    stages, least = _stages(kernel, staged, context, most, alone, separate, bool(hindered))
    if stages < least:
        return [], _all(staged, f"{least} stages of the operands do not fit into shared memory, "
                           "or are more than num_stages")
    distance = max(1, stages - 2)
    cfg = Cfg(kernel)
    rewrite = TensorRewrite(kernel, staged, part, channels, stages, distance)
    followers: list[RegionRewrite] = []
    if ring is not None:
        followers, fixed, fixed_stages, behind = ring
        every = [*channels, *fixed, *behind]
        rewrite = whole = RegionRewrite(kernel, staged, part, every, stages, 0)
        rewrite.followers, rewrite.fixed, rewrite.fixed_stages = followers, fixed, fixed_stages
        rewrite.behind = behind
        rewrite.shares = range(len(groups))
        whole.single = [len(groups) - 1] if staged.single else ()
        rewrite.outer = staged.loop.parent  # whose first turn is known to come
    outer = rewrite.outer
    rewrite.place, rewrite.moving = place, moving
    rewrite.products, rewrite.separate = groups, separate
    rewrite.warm = separate and (outer is None or (
        counts_programs(outer) and outer.latch is not None
        and cfg.dominates(staged.preheader, outer.latch))) and copyable(
            staged, [staged.stores[i] for i in groups[0]], infos)
    if rewrite.warm and all_quick(rewrite.fixed, infos):
        rewrite.warm_fixed = rewrite.fixed
    for later in followers:
        later.stages, later.place, later.separate = stages, place, True
        later.single = whole.single
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


def _moving(channels: Iterable[Channel], staged: StagedLoop, cfg: Cfg) -> list[Value]:
    """What boxes of the loop begin at that is not there before it."""
    return [v for one in channels if one.boxes is not None
            for v in one.boxes.strip.moving(staged.preheader, cfg)]


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
    stages = (copied_stages if mixed else most_stages)(kernel, staged, context.target)
    if len(groups) > 1:
        stages = min(stages, RELEASED_STAGES)
    elif not alone and not separate:
        stages = min(stages, shared_stages(kernel, staged, context.target))
    return stages, least


def _region(kernel: Kernel, staged: StagedLoop, others: Sequence[StagedLoop],
            infos: axis_info.Infos, groups: list[list[int]], boxes: list[Boxes], place: Block,
            target: Target, loads: bool
            ) -> tuple[list[RegionRewrite], list[Channel], int, list[Channel]] | None:
    """If a ring can go on behind `place`, whose copies one thread makes, and it fits: the loops
    behind that it serves, what is fixed in all of them, with the stages of that, and what is read
    behind the loop."""
    cfg, room = Cfg(kernel), target.shared_per_block - LEFT
    again = staged.preheader in cfg.innermost
    followers, rings = _followers(kernel, staged, others, infos, groups, place)
    staged.beside = sum(buffer_of(v).stage_bytes for ring in rings[len(groups):] for v in ring)
    loops = [staged, *(later.staged for later in followers)]
    fixed = _fixed(kernel, staged, loops[1:], infos) if again else []
    behind = _behind(kernel, staged, infos) if again and not (fixed or followers) else []
    brought = (fixed, behind, *(later.channels for later in followers))
    every = [*boxes, *(one.boxes for some in brought for one in some if one.boxes is not None)]
    if not (again or followers or loads or len(groups) == 1 or not fed(staged.body)) \
            or not bring_up([v for one in every for v in one.strip.map_values()], place, cfg):
        return None
    blocks = region(kernel, loops, place, every)
    buffers = {allocation(store.operands[0])[0] for store in (
        *(one.store for one in fixed), *(store for later in loops[1:] for store in later.stores))}
    beside = needed_beside(kernel, blocks, staged, buffers)
    wanted = (PRODUCER_STAGES if len(rings) == 1 and staged.stage_bytes < LARGE_STAGE
              else RELEASED_STAGES)
    if not blocks or stages_that_fit(staged, room - beside) < wanted:
        return None
    twice = TensorRewrite.bytes(one.store for one in fixed)
    if stages_that_fit(staged, room - beside - twice) < wanted:
        twice = 0
    staged.exchange += beside + twice
    return followers, fixed, 2 if twice else 1, behind


def _channels(kernel: Kernel, staged: StagedLoop, infos: axis_info.Infos, place: Block
              ) -> tuple[list[Channel], Hindered]:
    """The channels of the loop, by boxes where that can be; where not, why.  One map serves all
    programs of a persistent block, whose rows may end anywhere."""
    iteration = Iteration(staged.loop)
    cfg, users = Cfg(kernel), buffer_users(kernel)
    known = known_signs(kernel, cfg, staged.preheader, loop_order(staged.loop))
    affinity = Affinity(iteration, known)
    channels: list[Channel] = []
    hindered: Hindered = []
    for store in staged.stores:
        found = _recognize(store, affinity, iteration, infos, users)
        if not isinstance(found, str):
            found = _hinders(kernel, cfg, staged, found, known) or found
        if isinstance(found, str):
            hindered.append((source_load(store) or store, found))
            channels.append(by_threads(store, staged, infos))
        else:
            extent = found.strip.extents[1]
            if staged.preheader in cfg.innermost and extent is not None \
                    and not computed_at(extent.values(), place, cfg):
                found = replace(found, strip=count_rows(found.strip) or found.strip)
            channels.append(Channel(store, Means.BOXES, found.load, found))
    return channels, hindered


def _followers(kernel: Kernel, staged: StagedLoop, others: Sequence[StagedLoop],
               infos: axis_info.Infos, groups: list[list[int]], place: Block
               ) -> tuple[list[RegionRewrite], list[list[Value]]]:
    """The rewriting of the loops behind this one that have a ring in common with it, and the
    buffers of all their rings."""
    cfg, roots = Cfg(kernel), pointer_roots(kernel)
    rings = [[staged.stores[i].operands[0] for i in group] for group in groups]
    found = []
    for other in others:
        if other is staged or not cfg.dominates(staged.loop.header, other.preheader):
            continue
        own = products(kernel, other)
        more, shares = list(rings), list[int]()
        for group in own:
            shares.append(_ring_for([other.stores[i].operands[0] for i in group], more, shares))
        if min(shares) >= len(groups):
            continue
        channels, hindered = _channels(kernel, other, infos, place)
        moving = _moving(channels, other, cfg)
        part = find_slice(other.loop, [other.condition, *moving], other.always)
        loads = [one.load for one in channels if one.load is not None]
        if not hindered and part is not None and not part.loads and handed_over(kernel, other) \
                and not stores_may_reach(kernel, other.loop.blocks, loads, roots):
            found.append(RegionRewrite(kernel, other, part, channels, 0, 0))
            found[-1].products, found[-1].shares, rings = own, shares, more
    return found, rings


def _ring_for(buffers: list[Value], rings: list[list[Value]], taken: list[int]) -> int:
    """The number of a ring not `taken` that has such buffers, maybe a new one."""
    types = [v.type for v in buffers]
    for i, ring in enumerate(rings):
        if i not in taken and [v.type for v in ring] == types:
            return i
    rings.append(buffers)
    return len(rings) - 1


def _fixed(kernel: Kernel, staged: StagedLoop, later: list[StagedLoop], infos: axis_info.Infos
           ) -> list[Channel]:
    """What the block before the loop loads by boxes and stores for its products alone, and those of
    the later loops, the last of which all turns of the loop around them run."""
    cfg, users = Cfg(kernel), buffer_users(kernel)
    outer = staged.loop.parent
    if later and (outer is None or outer.latch is None
                  or not cfg.dominates(later[-1].exit, outer.latch)):
        return []
    products = {op for one in (staged, *later) for op in one.body.ops if op.name == "wgmma"}
    known = known_signs(kernel, cfg, staged.preheader)
    found = []
    for store in [op for op in staged.preheader.ops if op.name == "shared_store"]:
        root = allocation(store.operands[0])[0]
        if store.operands[0] is not root.result or root.attributes.get("pinned") or any(
                op is not store and op not in products for op in users[root]):
            continue
        one = _recognize(store, Affinity(signs=known), None, infos, users)
        if not isinstance(one, str) and forward(one.strip, known) \
                and not one.strip.moving(staged.preheader, cfg) \
                and not _stored_before(kernel, cfg, staged, [one.load]):
            found.append(Channel(store, Means.BOXES, one.load, one))
    return found


def _behind(kernel: Kernel, staged: StagedLoop, infos: axis_info.Infos) -> list[Channel]:
    """The parts of what the block behind the loop loads to read it from shared memory."""
    cfg, known = Cfg(kernel), known_signs(kernel, Cfg(kernel), staged.exit)
    found = []
    for store in [op for op in staged.exit.ops if op.name == "shared_store"]:
        part, root = store.operands[1].op, allocation(store.operands[0])[0]
        if not root.attributes.get("behind") or part is None:
            continue
        load = part.operands[0].op if part.name == "tile_part" else part
        assert load is not None and load.name == "load"
        strip = recognize(load, buffer_of(root.result).element.bytes, Affinity(signs=known), None,
                          infos)
        if isinstance(strip, str) or strip.moving(staged.preheader, cfg) \
                or _stored_before(kernel, cfg, staged, [load]):
            return []
        corner = divmod(sum(bit for i, bit in enumerate(part.attributes.get("bits", ()))
                            if part.attributes["index"] >> i & 1), shape(load.result.type)[1])
        first, second = (start + number(corner[axis])
                         for start, axis in zip(strip.starts, strip.axes, strict=True))
        boxes = _boxed(load, buffer_of(root.result), replace(strip, starts=(first, second)))
        assert not isinstance(boxes, str)
        found.append(Channel(store, Means.BOXES, load, boxes))
    return found


def _hinders(kernel: Kernel, cfg: Cfg, staged: StagedLoop, boxes: Boxes, known: Signs) -> str:
    """Why TMA cannot bring what looks like boxes; "" if it can."""
    if _stored_before(kernel, cfg, staged, [boxes.load]):
        return "an earlier store, not by TMA, may have written what it loads"
    moving = boxes.strip.moving(staged.preheader, cfg)
    if not all(cfg.available(v, staged.preheader) for v in boxes.strip.map_values()) \
            or find_slice(staged.loop, moving, staged.always) is None:
        return "its addresses depend on results of the loop"
    if not forward(boxes.strip, known):
        return "its strides or its start may be negative"
    return ""


def _stored_before(kernel: Kernel, cfg: Cfg, staged: StagedLoop, loads: list[Op]) -> bool:
    """Whether a program's threads may have stored what it loads, before the loop or in an earlier
    turn of a loop around it: TMA need not see that (PTX ISA, "Async proxy")."""
    starts = [loop.header for loop in cfg.loops if counts_programs(loop)]
    blocks = reached([staged.preheader], lambda b: [] if b in starts else cfg.predecessors[b])
    roots = pointer_roots(kernel)
    return any(WRITE in op.effects and op.operands and is_pointer(op.operands[0].type)
               and any(may_alias(kernel, op.operands[0], load.operands[0], roots)
                       for load in loads) for block in blocks for op in block.ops)


def _all(staged: StagedLoop, why: str) -> Hindered:
    """One reason for all operands of the loop, at the first."""
    return [(source_load(store) or store, why) for store in staged.stores[:1]]


def _elements(loads: Iterable[Op]) -> int:
    return sum(prod(shape(load.result.type)) for load in loads)


def _pays(staged: StagedLoop, least: int = LARGE) -> bool:
    """A small product alone does not: making maps takes longer than the threads' own copies."""
    blocks = [block for block in staged.loop.blocks if products_of(block.ops)]
    return len(blocks) > 1 or any(chained(block) or large(block, least) for block in blocks)


def _rounds(staged: StagedLoop) -> bool:
    """Whether operands are rounded on their way, as TMA does it: threads would have to load them to
    registers."""
    return any(store.attributes.get("round") for store in staged.stores)


def _recognize(store: Op, affinity: Affinity, iteration: Iteration | None,
               infos: axis_info.Infos, users: Mapping[Op, list[Op]]) -> Boxes | str:
    """The load that the store stores, as boxes of a tensor; if it is not such, why."""
    load, buffer = source_load(store), store.operands[0].type
    if load is None:
        return "the loaded value is changed before the product uses it"
    if load.attributes.get("other", 0) != 0:
        return "masked elements are not zero"
    assert isinstance(buffer, Buffer)
    size, t = buffer.element.bytes, load.operands[0].type
    strip = recognize(load, size, affinity, iteration, infos, cut=True)
    if isinstance(strip, str):
        return strip
    assert isinstance(t, Tile)
    if strip.cut and not _unread(store, strip.cut, users):
        return "the product reads what its mask leaves out"
    if len(t.shape) == 1:
        if t.size > MOST_BOX or t.size * size % ROW_ALIGNMENT \
                or buffer.layout != tensor_row(t.size):
            return "TMA does not support rows of this extent"
        return Boxes(load, buffer.element, strip, 0, (t.size, 1), 1)
    return _boxed(load, buffer, strip)


def _unread(store: Op, cut: Sequence[int], users: Mapping[Op, list[Op]]) -> bool:
    """Whether products take the buffer as their right operand, and of their columns only those for
    which a box brings something."""
    root = allocation(store.operands[0])[0]
    whole = buffer_of(root.result).shape
    for op in users[root]:
        if op is store:
            continue
        left, right = op.operands[:2] if op.name == "wgmma" else (root.result, root.result)
        view = right.op if right is not root.result else None
        columns = 1 if view is None else 0
        known = view is None or (view.name == "buffer_trans" and view.operands[0] is root.result)
        if not known or (isinstance(left.type, Buffer) and allocation(left)[0] is root) \
                or cut[1 - columns] < whole[1 - columns] \
                or op.attributes.get("asked", whole[columns]) > cut[columns]:
            return False
    return True


def _boxed(load: Op, buffer: Buffer, strip: Strip) -> Boxes | str:
    """The boxes that fill a buffer of two axes; if there are none, why."""
    (inner, outer), size = strip.axes, buffer.element.bytes
    swizzle = next((s for s in (128, 64, 32) if buffer.shape[inner] * size >= s), None)
    if swizzle is None or buffer.shape[outer] > MOST_BOX or buffer.layout != tensor_core(
            buffer.shape, (inner, outer), size, swizzle):
        return "TMA does not support tiles of these extents in the layout that the product reads"
    columns, sizes = swizzle // size, strip.cut or buffer.shape
    panels = sizes[inner] // columns
    if sizes[inner] % columns or (panels > 1 and sizes[outer] < buffer.shape[outer]):
        return "TMA does not support so few of a tile's elements"
    return Boxes(load, buffer.element, strip, swizzle, (columns, sizes[outer]), panels)
