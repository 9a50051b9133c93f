"""Slots for the maps of tensor accesses: where a kernel claims one, and the maps it makes there.

A slot lies in global memory; a block claims it before its loops and releases it when it returns."""

from tritonc.analysis.linear import Linear, emit, equal, number, symbol
from tritonc.backend.pipeline.tma.tma_access import ENDLESS, Strip
from tritonc.backend.shared.shared_memory import allocate
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, reached
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.shared_layout import row_major
from tritonc.ir.types import I8, I32, I64, Buffer, Pointer, Scalar, scalar
from tritonc.records import dataclass

MAP = 128  # bytes of a tensor map
OUTSIDE = 64  # a start outside an extent of 1, a multiple of 16 bytes for all elements


def claim_place(kernel: Kernel, user: Block) -> Block | None:
    """A block outside all loops that runs before `user`, on every path to each return behind it.

    None if a return could be reached both with and without it."""
    cfg = Cfg(kernel)
    place: Block | None = user
    while place is not None and place in cfg.innermost:
        place = cfg.immediate_dominator[place]
    if place is None:
        return None
    for block in reached([place]):
        if block.terminator.name == "ret" and not cfg.dominates(place, block):
            return None
    return place


@dataclass
class Claim:
    """A slot for maps, and what publishes those that are made where it is claimed."""

    place: Block
    slot: Op
    publish: Op
    scratch: Value


def claim(kernel: Kernel, place: Block) -> Claim:
    """The claim of a slot at the end of `place`, made if there is none."""
    for op in place.ops:
        if op.name == "publish_maps":
            slot = op.operands[0].op
            assert slot is not None
            return Claim(place, slot, op, op.operands[1])
    buffers = [allocate(e, row_major((extent,)), named=name, pinned=True)
               for e, extent, name in ((I8, MAP, "scratch"), (I64, 1, "cell"))]
    kernel.entry.ops[:0] = buffers
    scratch, cell = (buffer.result for buffer in buffers)
    slot = make_op("claim_slot", [cell], Pointer(I8), maps=0, named="slot")
    publish = make_op("publish_maps", [slot.result, scratch, cell], indices=())
    place.ops[-1:-1] = [slot, publish]
    cfg = Cfg(kernel)
    for block in cfg.order:
        if block.terminator.name == "ret" and cfg.dominates(place, block):
            block.ops.insert(-1, make_op("release_slot", [slot.result]))
    return Claim(place, slot, publish, scratch)


def _narrowed(b: Builder, extent: Linear) -> Value:
    """An extent in 32 bits; no box begins past the greatest that they hold."""
    values = extent.values()
    if equal(extent, symbol(values[0]) if len(values) == 1 else number(0)) and all(
            scalar(v.type).bits <= 32 for v in values):
        return emit(b, extent, I32)
    wide = b.value("smin", emit(b, extent, I64), b.constant(ENDLESS, I64))
    return b.value("truncate", b.value("smax", wide, b.constant(0, I64)), type=I32)


def short_box(b: Builder, extent: Value, rows: int) -> Value:
    """How many of a tile's rows a box has, so that boxes lie in a tensor of so many: all that it
    has, if those are fewer; half of them, where the last of few tiles needs no more; or all.  (An
    H200 takes 3 cycles to bring 128 bytes of a tensor, and 6 to fill as many beside it.)"""
    whole, half, last, many = (b.constant(n, I32) for n in (rows, rows // 2, rows - 1, rows * 8))
    rest = b.value("and", b.value("sub", extent, b.constant(1, I32)), last)  # of the last, less 1
    helps = b.value("and", b.value("icmp", rest, half, predicate="slt"),
                    b.value("icmp", extent, many, predicate="slt"))
    some = b.value("select", helps, half, whole)
    few = b.value("icmp", extent, whole, predicate="slt")
    return b.value("select", few, extent, some)


def make_map(claimed: Claim, builder: Builder | None, strip: Strip, element: Scalar,
             box: tuple[int, int], swizzle: int, short: bool = False
             ) -> tuple[Op, dict[int, Value]]:
    """The tensor map of an access, and where its axes have a mask what to add to their starts.

    `builder`: where it is made, if that is not where the slot is claimed.  `short`: whether boxes
    may have fewer rows (`short_box`)."""
    form, index = strip.form, claimed.slot.attributes["maps"]
    assert form.base is not None
    claimed.slot.attributes["maps"] += 1
    claimed.scratch.type = Buffer(I8, (MAP,), index + 1, row_major((MAP,)))
    b = builder or Builder(claimed.place, claimed.place.ops.index(claimed.slot))
    extents, outside = [], {}
    for axis, extent in enumerate(strip.extents):
        if extent is None:
            extents.append(b.constant(ENDLESS, I32))
            continue
        found = _narrowed(b, extent)
        one = b.constant(1, I32)
        inside = b.value("icmp", found, one, predicate="sge")
        extents.append(b.value("smax", found, one))
        outside[axis] = b.value("select", inside, b.constant(0, I32), b.constant(OUTSIDE, I32))
    stride = emit(b, strip.stride.scaled(element.bytes), I64)
    strides = [stride]
    strides += [emit(b, step.scaled(element.bytes), I64) for _, step in strip.depth]
    base = form.base
    if strip.origin.terms:
        base = b.value("addptr", base, emit(b, strip.origin, I64))
    made = make_op("tensor_map", [claimed.scratch, base, *extents, *strides], span=strip.op.span,
                   index=index, element=str(element), box=box, swizzle=swizzle)
    if short:
        made.operands.append(short_box(b, extents[1], box[1]))
        made.attributes["short"] = True
    b.insert(made)
    if builder is None:
        claimed.publish.attributes["indices"] += (index,)
    else:
        b.insert(make_op("publish_maps", claimed.publish.operands, indices=(index,)))
    return made, outside
