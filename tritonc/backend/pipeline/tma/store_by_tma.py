"""store_by_tma: TMA stores the result of a product, while the threads go on.

Before:  %x = convert_layout %y             After:  for each part of the tile, in turn two buffers:
         @%m store %p, %x                              store_wait {pending = 1}
                                                       %z = tile_part %y
                                                       shared_store %s, %z
                                                       proxy_fence
                                                       tma_store %s, %slot, %column, %row

A result lies in the threads as the matrix instruction left it, in pairs of elements, so it goes
through shared memory anyway.  From there TMA brings it to global memory on its own, with
whole rows and the mask at no cost: the next program's products need not wait for it.  The parts
are small, so that their buffers fit beside the loop's operands.  What is computed between product
and store is computed for each part where it is stored (`slices`).  Where that reads another tile
right behind the product's loop, such as a residual, its parts go through buffers, too, which
`pipeline` lets the producer warp fill while the loop ends: threads would wait for each part.

Done for large products, in persistent blocks for those of two warpgroups, which would wait for each
other where threads store.  The store must be an access of a tensor (`tma_access`) that begins
inside of it, with a mask that is exactly its box.  TMA's writes have an order only where
threads wait for them: so nothing else that a program does may touch the same memory before or
after, but for loads that have ended because the stored value, or shared memory, depends on them;
and the kernel has no atomics, which other programs could take for a sign that the result is there.

Needs layouts; must come before pipeline, which gives the rest of shared memory to its stages."""

from operator import lt

from tritonc.analysis.affine import Affinity
from tritonc.analysis.axis import axis_info
from tritonc.analysis.axis.axis_info import low_bit
from tritonc.analysis.linear import emit
from tritonc.analysis.signs import known_signs
from tritonc.backend.launch.persist import ROWS, counts_programs, rare_programs
from tritonc.backend.layout.conversion import Shared, plan_of
from tritonc.backend.layout.lower_conversions import part_type
from tritonc.backend.pipeline.slices import Slices, slices
from tritonc.backend.pipeline.staged_loop import buffer_of
from tritonc.backend.pipeline.tma.map_slots import claim, claim_place, make_map
from tritonc.backend.pipeline.tma.specialize_warps import copied_by_threads
from tritonc.backend.pipeline.tma.store_order import alone, apart, comes_again
from tritonc.backend.pipeline.tma.tma_access import MOST_BOX, Strip, forward, recognize, same_place
from tritonc.backend.pipeline.tma.warpgroup_stores import send_together
from tritonc.backend.shared.allocate_shared import fits
from tritonc.backend.shared.shared_memory import LEFT, allocation
from tritonc.backend.target.matrix import LARGE
from tritonc.backend.target.register_limits import MOST_REGISTERS
from tritonc.backend.target.target import Target
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, incoming, split_returns
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.layout import Layout, axis_bases, log2
from tritonc.ir.layouts.layout_ops import transpose
from tritonc.ir.layouts.shared_layout import tensor_core
from tritonc.ir.types import I32, Buffer, Tile, scalar, shape
from tritonc.source import Span

PART = 16 * 1024  # bytes of a part, where the layout allows
BUFFERS = 2
LEAST_STAGES = 3  # of operands: with fewer, their copies are late at each step
FEW = 16  # registers of a part that the threads store themselves
# Operations for an element beside which a thread has registers for what is read early.  By 128 x
# 256 a residual takes 68 us to 58 of a product of 4096 x 4096 x 1024; with dropout 169 to 293.
FEW_STEPS = 24


def store_by_tma(kernel: Kernel, context: Context) -> bool:
    """Let TMA make the stores of kernels whose products run on wgmma."""
    target: Target = context.target
    if not ({"tensor_map", "tma_load"} <= target.features
            and any(op.name == "wgmma" for op in kernel.ops())):
        return False
    changed = split_returns(kernel)
    infos = axis_info.analyze(kernel)
    changed |= _passed_on(kernel)
    hindered: dict[Span | None, str] = {}  # the body made for aligned addresses comes last
    served: set[Span | None] = set()  # places where TMA stores in one of the bodies
    plain = {*rare_programs(kernel), *copied_by_threads(kernel, infos)}
    for block in kernel.blocks:
        for op in list(block.ops):
            if op.name == "store":
                why = "" if block in plain else _store(kernel, block, op, infos, context)
                if why is None:
                    served.add(op.span)
                    continue
                if why:
                    hindered[op.span] = why
                changed |= _in_parts(kernel, block, op, _source(kernel, op))
    for span, reason in hindered.items():
        if span not in served:
            context.remark("store_by_tma", f"not stored by TMA: {reason}", span, missed=True)
    return changed or bool(served)


def _store(kernel: Kernel, block: Block, op: Op, infos: axis_info.Infos, context: Context
           ) -> str | None:
    """Let TMA make one store; if it cannot, why, "" where it is of no use."""
    value = _source(kernel, op)
    t = value.type if value is not None else None
    if value is None or not isinstance(t, Tile) or t.layout is None or len(t.shape) != 2:
        return ""
    cfg = Cfg(kernel)
    # A block goes on to another program, whose products run beside the store.
    persistent = any(map(counts_programs, cfg.loops))
    least = ROWS * ROWS // 2 if persistent else LARGE + 1
    if not context.meta.get("tma_store", t.size >= least and "pingpong" not in kernel.attributes
                            and not (persistent and kernel.attributes.get("plain_stores"))):
        return ""
    e = scalar(t)
    known = known_signs(kernel, cfg, block)
    strip = recognize(op, e.bytes, Affinity(signs=known), None, infos, cut=True)
    if isinstance(strip, str):
        return strip
    if not forward(strip, known):
        return "its stride or its start may be negative"
    place = _place(kernel, cfg, block, strip)
    if place is None:
        return "its mask or its addresses depend on computed data"
    inner, outer = strip.axes
    whole = strip.cut or t.shape
    bits, extents = _parts(t.layout, inner, e.bytes, whole)
    swizzle = next((s for s in (128, 64, 32) if extents[inner] * e.bytes >= s), None)
    size = e.bytes * extents[0] * extents[1]
    if swizzle is None or extents[outer] > MOST_BOX or size > 2 * PART:
        return "TMA does not support tiles of these extents"
    if any(n % part for n, part in zip(whole, extents, strict=True)):
        return "its mask cuts a box that TMA would store"
    again = comes_again(cfg, block)
    if (again and not apart(strip, whole)) or not alone(kernel, cfg, block, op):
        return "other accesses of the program may overlap it"
    room = context.target.shared_per_block - LEFT
    sliced = slices(kernel, block, op, value, bits, stored=True)
    together = slices(kernel, block, op, value, bits, stored=False)
    strips = {}
    if persistent:
        strips = _read_behind(kernel, cfg, block, together, bits, infos, strip.cut)
    beside = {load: _buffers(load, bits, found.axes) for load, found in strips.items()}
    if not fits(kernel, room, sum(buffer_of(v).bytes for some in beside.values() for v in some)
                + min(BUFFERS, 1 << len(bits)) * size + _stage_bytes(kernel)):
        beside = {}
    # They may read what the first part overwrites, unless it is what each part overwrites itself.
    before = any(load not in sliced.inside and not same_place(strips[load], strip)
                 for load in beside)
    held = t.layout.registers * (1 + before * sum(
        scalar(load.result.type).bytes for load in beside) / 4)
    steps = sum(made.info.elementwise and shape(made.results[0].type) == t.shape
                for made in together.inside)
    if held > (MOST_REGISTERS if steps <= FEW_STEPS else MOST_REGISTERS // 2):
        beside = {}
    at_once = not beside and len(together.inside) > len(sliced.inside)
    corners = [divmod(sum(bit for i, bit in enumerate(bits) if number >> i & 1), t.shape[1])
               for number in range(1 << len(bits))]
    kept = [number for number, corner in enumerate(corners) if all(map(lt, corner, whole))]
    count = len(kept) if at_once else min(BUFFERS, len(kept))
    sliced = together if at_once else sliced
    loads = at_once and any(made.name == "load" for made in sliced.inside)
    if not fits(kernel, room, count * size + (at_once and _stage_bytes(kernel))):
        return "its buffers do not fit into shared memory"
    claimed = claim(kernel, place)
    columns = swizzle // e.bytes
    box = (columns, extents[outer])
    described, outside = make_map(claimed, None, strip, e, box, swizzle)
    index = described.attributes["index"]
    layout = tensor_core(extents, strip.axes, e.bytes, swizzle)
    allocations = [make_op("alloc_shared", [], Buffer(e, extents, 1, layout), span=op.span,
                           pinned=True) for _ in range(count)]
    kernel.entry.ops[:0] = [*allocations, *(
        v.op for some in beside.values() for v in some if v.op is not None)]
    buffers = [allocation.result for allocation in allocations]
    for buffer in buffers:
        buffer.name = "leaving"
    made = Block("")
    b = Builder(made, span=op.span)
    starts = [emit(b, start, I32) for start in strip.starts]
    starts = [b.value("add", v, outside[i]) if i in outside else v for i, v in enumerate(starts)]
    writes: list[Op] = []
    sends: list[Op] = []

    def bring(number: int) -> dict[tuple[Value, tuple[int, ...]], Value]:
        return {(load.result, bits): _through_memory(
            made, load, some[number % len(some)], bits, number) for load, some in beside.items()}

    read = {number: bring(number) for number in kept} if before else {}
    for turn, number in enumerate(kept):
        buffer = buffers[turn % len(buffers)]
        if not (at_once and turn):
            # Parts behind the last one that left by this buffer, the program's before included.
            later = turn + (len(kept) - 1 - turn) % len(buffers)
            b.insert(make_op("store_wait", [], pending=0 if at_once else min(
                later, len(buffers) - 1)))
            if again:
                made.ops[-1].attributes["written"] = True
        sliced.begin(made.ops, read[number] if before else bring(number))
        part = sliced.of(value, number)
        writes.append(make_op("shared_store", [buffer, part], span=op.span))
        b.insert(writes[-1])
        if loads:  # or the assembler loads all parts before it computes the first one
            b.insert(make_op("group_barrier", []))
        b.insert(make_op("proxy_fence", []))
        corner = corners[number]
        here = [b.value("add", v, b.constant(corner[axis], I32)) if corner[axis] else v
                for v, axis in zip(starts, strip.axes, strict=True)]
        here += [emit(b, start, I32) for start, _ in strip.depth]
        sends.append(make_op("tma_store", [buffer, claimed.slot.result, *here],
                             span=op.span, index=index, panels=extents[inner] // columns, box=box))
        b.insert(sends[-1])
    if at_once:  # all loads before the first store
        send_together(made, writes, sends)
    at = block.ops.index(op)
    block.ops[at : at + 1] = made.ops
    _wait_at_end(kernel, claimed.slot.result)
    context.remark("store_by_tma", "stored by TMA, while the block goes on", op.span)
    return None


def _read_behind(kernel: Kernel, cfg: Cfg, block: Block, together: Slices, bits: tuple[int, ...],
                 infos: axis_info.Infos, cut: tuple[int, ...]) -> dict[Op, Strip]:
    """The tiles that the stored one is computed from and that the block loads, right behind the
    product's loop: TMA can bring their parts while the loop ends."""
    t, known, found = together.value.type, known_signs(kernel, cfg, block), {}
    assert isinstance(t, Tile)
    if not bits or all(block not in (to for _, to in loop.exits) or not any(
            op.name == "wgmma" for op in loop.ops()) for loop in cfg.loops):
        return {}
    for load in [op for op in block.ops if op in together.inside and op.name == "load"]:
        own, e = load.result.type, scalar(load.result.type)
        if not isinstance(own, Tile) or own.layout != t.layout:
            continue
        strip = recognize(load, e.bytes, Affinity(signs=known), None, infos, cut=True)
        if isinstance(strip, str) or not forward(strip, known) or strip.cut != cut:
            continue
        extents = part_type(own, bits).shape
        swizzle = next((s for s in (128, 64, 32) if extents[strip.axes[0]] * e.bytes >= s), None)
        if swizzle is not None and extents[strip.axes[1]] <= MOST_BOX:
            found[load] = strip
    return found


def _buffers(load: Op, bits: tuple[int, ...], axes: tuple[int, int]) -> list[Value]:
    """Those of parts of what is loaded, not placed yet."""
    t = part_type(load.result.type, bits)
    e = scalar(t)
    swizzle = next(s for s in (128, 64, 32) if t.shape[axes[0]] * e.bytes >= s)
    layout = tensor_core(t.shape, axes, e.bytes, swizzle)
    found = [make_op("alloc_shared", [], Buffer(e, t.shape, 1, layout), span=load.span,
                     pinned=True, behind=True).result for _ in range(BUFFERS)]
    for buffer in found:
        buffer.name = "beside"
    return found


def _through_memory(made: Block, load: Op, buffer: Value, bits: tuple[int, ...], index: int
                    ) -> Value:
    """A part of what is loaded, by way of a buffer."""
    t = part_type(load.result.type, bits)
    part = make_op("tile_part", [load.result], t, bits=bits, index=index)
    back = make_op("shared_load", [buffer], t, span=load.span)
    back.result.name = load.result.name
    made.ops += [part, make_op("shared_store", [buffer, part.result], span=load.span), back]
    return back.result


def _stage_bytes(kernel: Kernel) -> int:
    """Bytes that further stages of a loop's operands need."""
    stages = [{allocation(v)[0] for op in block.ops if op.name == "wgmma"
               for v in op.operands if isinstance(v.type, Buffer)} for block in kernel.blocks]
    return (LEAST_STAGES - 1) * max(sum(buffer_of(op.result).bytes for op in one) for one in stages)


def _place(kernel: Kernel, cfg: Cfg, block: Block, strip: Strip) -> Block | None:
    """Where the map is made: before the loop of the product, so that the maps of its operands are
    made there too, or else before the block."""
    loops = [loop.header for loop in cfg.loops if block not in loop and cfg.dominates(
        loop.header, block) and any(op.name == "wgmma" for op in loop.ops())]
    for later in (*loops, block):
        before = cfg.immediate_dominator.get(later)
        place = claim_place(kernel, before) if before is not None else None
        if place is not None and all(cfg.available(v, place) for v in strip.map_values()):
            return place
    return None


def _in_parts(kernel: Kernel, block: Block, op: Op, value: Value | None) -> bool:
    """Let what the threads store themselves, or pass on to a phi behind the block, be computed in
    parts too, as far as it lies as the product left it."""
    t = value.type if value is not None else None
    if value is None or not isinstance(t, Tile) or t.layout is None:
        return False
    bits = _columns(t.layout)
    sliced = slices(kernel, block, op, value, bits, stored=False)
    loads = any(made.name == "load" for made in sliced.inside)
    if not bits or value.op not in sliced.inside or not (loads or op.name == "store"):
        return False
    ops: list[Op] = []
    parts: list[Value] = []
    for number in range(1 << len(bits)):
        parts.append(sliced.part(ops, number))
        if loads:  # or the assembler loads all parts before it computes the first one
            ops.append(make_op("group_barrier", []))
    ops.append(make_op("join_parts", parts, t, span=op.span, bits=bits))
    ops[-1].result.name = value.name
    at = block.ops.index(value.op) + 1
    block.ops[at:at] = ops
    for other in [*block.ops[at + len(ops) :], op]:
        other.replace_inputs({value: ops[-1].result})
    return True


def _passed_on(kernel: Kernel) -> bool:
    """What blocks pass on to phis, of products and tiles that they load, in parts."""
    products = {r.type for op in kernel.ops() if op.name == "wgmma" for r in op.results}
    loops, changed = {loop.header for loop in Cfg(kernel).loops}, False
    for block in kernel.blocks:
        if block not in loops and len(block.successors) == 1:
            (after,) = block.successors
            for phi in after.phis() if after not in loops else ():
                value = incoming(phi, block)
                if value.type in products and value.op in block.ops:
                    changed |= _in_parts(kernel, block, phi, value)
    return changed


def _source(kernel: Kernel, op: Op) -> Value | None:
    """What a store stores, if it lies as a product left it or came through shared memory; as it
    was before that."""
    value, t = op.operands[1], op.operands[1].type
    if op.attributes.get("cache") or not isinstance(t, Tile) or len(t.shape) != 2 \
            or t.layout is None or scalar(t).bits < 8:
        return None
    made = value.op
    if made is not None and made.name == "convert_layout":
        return made.operands[0] if isinstance(plan_of(made), Shared) else None
    products = [r.type.layout for other in kernel.ops() if other.name == "wgmma"
                for r in other.results if isinstance(r.type, Tile) and len(r.type.shape) == 2]
    return value if any(layout is not None and t.layout in (layout, transpose(layout, (1, 0)))
                        for layout in products) else None


def _columns(layout: Layout) -> tuple[int, ...]:
    """The bits that number parts of FEW registers, of columns that stand side by side."""
    columns = [basis for basis in axis_bases(layout.shape, 1) if basis in layout.register]
    return tuple(columns[len(columns) - max(0, log2(layout.registers // FEW)) :])


def _parts(layout: Layout, inner: int, size: int, whole: tuple[int, ...]
           ) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The bits of the index that number the parts, and the extents of a part; what is stored of
    the tile, `whole`, is whole parts.

    Rows of 128 bytes are enough; then fewer rows.  A part is what threads hold of each other's
    neighbours: its number must be in the registers.

    >>> from tritonc.ir.layouts.fragment import wgmma_accumulator
    >>> _parts(wgmma_accumulator((128, 256), (2, 1), 256), 1, 2, (128, 256))
    ((64, 128), (128, 64))
    >>> _parts(wgmma_accumulator((128, 256), (2, 1), 256), 1, 2, (128, 160))
    ((32, 64, 128), (128, 32))
    """
    extents = list(layout.shape)
    bits: list[int] = []
    line = min(128, low_bit(whole[inner] * size))
    for axis in (inner, 1 - inner):
        bases = axis_bases(layout.shape, axis)
        while extents[axis] > 1 and (size * extents[0] * extents[1] > PART
                                     or whole[axis] % extents[axis]):
            top = bases[log2(extents[axis]) - 1]
            if top not in layout.register or (axis == inner and extents[axis] * size <= line):
                break
            bits.insert(0, top)
            extents[axis] //= 2
    return tuple(bits), tuple(extents)


def _wait_at_end(kernel: Kernel, slot: Value) -> None:
    """Shared memory and maps stay until all has been read."""
    for block in kernel.blocks:
        for at, op in enumerate(block.ops):
            if op.name == "release_slot" and op.operands[0] is slot and (
                    at == 0 or block.ops[at - 1].name != "store_wait"):
                block.ops.insert(at, make_op("store_wait", [], pending=0))
                break
