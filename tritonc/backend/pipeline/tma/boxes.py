"""Which loads TMA can make as boxes of a tensor, of a loop, before and behind it; if not, why."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tritonc.analysis.affine import Affinity, Iteration
from tritonc.analysis.aliases import may_alias, pointer_roots
from tritonc.analysis.axis import axis_info
from tritonc.analysis.linear import equal, number
from tritonc.analysis.signs import Signs, known_signs, loop_order
from tritonc.analysis.values import fills_zeros
from tritonc.backend.launch.persist import counts_programs
from tritonc.backend.pipeline.channel import Boxes, Channel, Means, by_threads
from tritonc.backend.pipeline.loop_slice import find_slice
from tritonc.backend.pipeline.staged_loop import StagedLoop, buffer_of, buffer_users, source_load
from tritonc.backend.pipeline.tma.bring_up import computed_at
from tritonc.backend.pipeline.tma.parts import LEAST, Parts, ScalarOf, Scalars, parts_of, stand_in
from tritonc.backend.pipeline.tma.tma_access import (
    MOST_BOX,
    Strip,
    count_rows,
    forward,
    recognize,
    same_map,
)
from tritonc.backend.shared.shared_memory import allocation
from tritonc.ir.cfg import Cfg, reached
from tritonc.ir.core import Block, Kernel, Op
from tritonc.ir.layouts.shared_layout import ROW_ALIGNMENT, tensor_core, tensor_row
from tritonc.ir.ops import WRITE
from tritonc.ir.types import Buffer, Tile, is_pointer, shape

SHORT = 64  # rows of a box that is worth leaving some of them out
Hindered = list[tuple[Op, str]]  # loads that are not made by TMA, and why


def loop_channels(kernel: Kernel, staged: StagedLoop, infos: axis_info.Infos, place: Block
                  ) -> tuple[list[Channel], Hindered]:
    """The channels of the loop, by boxes where that can be; where not, why.  One map serves all
    programs of a persistent block, whose rows may end anywhere."""
    iteration = Iteration(staged.loop)
    cfg, users = Cfg(kernel), buffer_users(kernel)
    known = known_signs(kernel, cfg, staged.preheader, loop_order(staged.loop))
    affinity = Affinity(iteration, known)
    channels: list[Channel] = []
    hindered: Hindered = []
    scalars = Scalars(cfg)
    for store in staged.stores:
        found = _recognize(store, affinity, iteration, infos, users)
        if isinstance(found, str):
            found = _in_parts(store, affinity, iteration, infos, scalars) or found
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
            first, *below = (replace(strip, empty=may_be_empty(strip, staged, affinity))
                             for strip in found.strips)
            found = replace(found, strip=first, below=(*below,))
            found = replace(found, short=next(filter(partial(_short, found), (1, 0)), None))
            channels.append(Channel(store, Means.BOXES, found.load, found))
    return channels, hindered


def may_be_empty(strip: Strip, staged: StagedLoop, affinity: Affinity) -> bool:
    """Whether a box whose rows are counted may have none, though the loop's condition holds."""
    test, iteration = staged.condition.op, affinity.iteration
    if strip.inside is None or iteration is None:
        return False
    if test is None or test.name != "icmp" or test.attributes["predicate"] != "slt":
        return True
    counter, limits = affinity.of(test.operands[0]), [test.operands[1]]
    while counter is not None and limits:
        value = limits.pop()
        if value.op is not None and value.op.name == "smin":
            limits += value.op.operands
        limit = affinity.of(value)
        left = limit and (limit.offset - counter.offset).split(iteration.counter)
        if left and all(map(equal, left, strip.inside)):
            return False
    return True


def channels_before(kernel: Kernel, staged: StagedLoop, later: list[StagedLoop],
                    infos: axis_info.Infos) -> list[Channel]:
    """What the block before the loop loads by boxes and stores for its products alone, and those of
    the later loops, the last of which all iterations of the loop around them run."""
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


def channels_behind(kernel: Kernel, staged: StagedLoop, infos: axis_info.Infos) -> list[Channel]:
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
                          infos, cut=True)
        if isinstance(strip, str) or strip.moving(staged.preheader, cfg) \
                or _stored_before(kernel, cfg, staged, [load]):
            return []
        corner = divmod(sum(bit for i, bit in enumerate(part.attributes.get("bits", ()))
                            if part.attributes["index"] >> i & 1), shape(load.result.type)[1])
        first, second = (start + number(corner[axis])
                         for start, axis in zip(strip.starts, strip.axes, strict=True))
        boxes = _boxed(load, buffer_of(root.result),
                       replace(strip, starts=(first, second), cut=()))
        assert not isinstance(boxes, str)
        found.append(Channel(store, Means.BOXES, load, boxes))
    return found


def _hinders(kernel: Kernel, cfg: Cfg, staged: StagedLoop, boxes: Boxes, known: Signs) -> str:
    """Why TMA cannot bring what looks like boxes; "" if it can."""
    if _stored_before(kernel, cfg, staged, [boxes.load]):
        return "an earlier store, not by TMA, may have written what it loads"
    moving = boxes.moving(staged.preheader, cfg)
    if not all(cfg.available(v, staged.preheader) for v in boxes.strip.map_values()) \
            or find_slice(staged.loop, moving, staged.always) is None:
        return "its addresses depend on results of the loop"
    if not all(forward(strip, known) for strip in boxes.strips):
        return "its strides or its start may be negative"
    return ""


def _stored_before(kernel: Kernel, cfg: Cfg, staged: StagedLoop, loads: list[Op]) -> bool:
    """Whether a program's threads may have stored what it loads, before the loop or in an earlier
    iteration of a loop around it: TMA need not see that (PTX ISA, "Async proxy")."""
    starts = [loop.header for loop in cfg.loops if counts_programs(loop)]
    blocks = reached([staged.preheader], lambda b: [] if b in starts else cfg.predecessors[b])
    roots = pointer_roots(kernel)
    return any(WRITE in op.effects and op.operands and is_pointer(op.operands[0].type)
               and any(may_alias(kernel, op.operands[0], load.operands[0], roots)
                       for load in loads) for block in blocks for op in block.ops)


def _recognize(store: Op, affinity: Affinity, iteration: Iteration | None,
               infos: axis_info.Infos, users: Mapping[Op, list[Op]]) -> Boxes | str:
    """The load that the store stores, as boxes of a tensor; if it is not such, why."""
    load, buffer = source_load(store), store.operands[0].type
    if load is None:
        return "the loaded value is changed before the product uses it"
    if not fills_zeros(load):
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


def _in_parts(store: Op, affinity: Affinity, iteration: Iteration, infos: axis_info.Infos,
              scalars: Scalars) -> Boxes | None:
    """The load that the store stores as boxes of each part of its rows; None if it is not such."""
    load, buffer = source_load(store), store.operands[0].type
    if load is None or not fills_zeros(load):
        return None
    assert isinstance(buffer, Buffer)
    parts = parts_of(load, affinity, infos)
    if parts is None or isinstance(next(_strips(parts, buffer, iteration, stand_in)), str):
        return None
    first, *below = _strips(parts, buffer, iteration, scalars)
    boxes = first if isinstance(first, str) else _boxed(load, buffer, first)
    if isinstance(first, str) or isinstance(boxes, str):
        return None
    found = [strip for strip in below if not isinstance(strip, str) and same_map(strip, first)]
    return replace(boxes, below=(*found,)) if len(found) == len(below) else None


def _strips(parts: Parts, buffer: Buffer, iteration: Iteration, scalar: ScalarOf
            ) -> Iterator[Strip | str]:
    for affinity in parts.affinities(scalar):
        yield recognize(parts.op, buffer.element.bytes, affinity, iteration, parts.infos,
                        part=parts.shape)


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
    panels = -(-sizes[inner] // columns)
    parts = buffer.shape[outer] % sizes[outer] == 0 and sizes[outer] >= LEAST  # see `below`
    if panels > 1 and not parts:
        return "its mask leaves too few rows of the tile for TMA"
    return Boxes(load, buffer.element, strip, swizzle, (columns, sizes[outer]), panels)


def _short(boxes: Boxes, axis: int) -> bool:
    """Whether boxes may leave out what the tensor lacks of the tile along an axis."""
    strip = boxes.strip
    return (boxes.load.attributes.get("unread") == strip.axes[axis]
            and (boxes.box[1] >= SHORT if axis else boxes.panels > 1)
            and strip.extents[axis] is not None and strip.inside is None
            and axis not in strip.windows
            and not (strip.cut or strip.steps[axis].terms or boxes.below))
