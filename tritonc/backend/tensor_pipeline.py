"""Pipelines whose operands the tensor copy engine (TMA) brings to shared memory.

One thread asks for a whole box of a tensor; the engine computes the addresses, applies the swizzle,
fills with zeros what lies outside, and counts the bytes at a barrier in shared memory that the
readers wait for.  No registers, no address arithmetic, no masks: this is what feeds wgmma at full
speed.

It needs a tensor map for each operand: base, extents and the stride of a two-dimensional tensor,
with the box and the swizzle.  A kernel has plain pointers, so the maps are made by the kernel
itself, in a slot of global memory that the block claims and releases (`claim_slot`).  The base is
the parameter, and the offset of the first tile is split into columns and rows, so that one map
serves all the instances that a persistent block computes; iterations move the start of the box.  A
mask `index + i < limit` gives the extent; an axis without one extends as far as coordinates can.

Used where affine analysis proves that it is legal: the pointer tile is base + i * 1 + j * stride,
moves by a multiple of either per iteration, its mask is a box of the same axes; every row begins at
a multiple of 16 bytes (axis information; specialize makes a body in which it is known); masked
elements are zero; the buffer's layout is one that the engine writes.  A tile that begins past its
mask must load nothing although an extent of 0 is no tensor: its boxes start outside an extent of 1.

Before:  as in pipeline.                 After:  preheader: claim_slot, tensor_map ..., ring_init
                                                            tensor_copy ... for the first D
                                                            iterations
                                                 body:      ring_wait %ring[i % S], %phase
                                                            tensor_copy %s[(i + D) % S], ...
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonc.backend import axis_info
from tritonc.backend.affine import Affine, Affinity, Bound, Iteration, Mask
from tritonc.backend.aliases import pointer_roots, stores_may_reach
from tritonc.backend.linear import Linear, emit, equal, number
from tritonc.backend.loop_slice import find_slice
from tritonc.backend.machine_ops import ALL_OPS
from tritonc.backend.ring import Rewrite, most_stages
from tritonc.backend.staged_loop import StagedLoop, source_load, widen
from tritonc.backend.target import Target
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.shared_layout import row_major, tensor_core
from tritonc.ir.types import I8, I32, I64, Buffer, Pointer, Scalar, Tile

ALIGNMENT = 16  # bytes, of bases, strides and box starts
MOST_BOX = 256  # elements along one axis of a box
ENDLESS = (1 << 31) - 1  # the extent of an axis without a mask
OUTSIDE = 64  # a start outside an extent of 1, a multiple of 16 bytes for all elements


@dataclass
class TensorAccess:
    """A load as boxes of a tensor.  Axis 0 of the tensor is the contiguous one.

    `axes[i]`: the tile's axis that is the tensor's axis i; `extents`: from the tensor's own
    start, None where unmasked; `steps`: how far the box moves in each iteration.
    """

    load: Op
    element: Scalar  # of the buffer
    form: Affine
    starts: tuple[Linear, Linear]  # of the first iteration's box
    axes: tuple[int, int]
    stride: Linear  # of axis 1, in elements
    extents: tuple[Linear | None, Linear | None]
    steps: tuple[int, int]
    swizzle: int
    box: tuple[int, int]
    panels: int

    def values(self) -> list[Value]:
        """What the map is computed from."""
        return [*self.map_values(), *(v for start in self.starts for v in start.values())]

    def map_values(self) -> list[Value]:
        """What the tensor's map is computed from."""
        polynomials = [self.stride, *(e for e in self.extents if e is not None)]
        return [v for p in polynomials for v in p.values()]


def tensor_pipeline(kernel: Kernel, staged: StagedLoop, infos: axis_info.Infos,
                    context: Context) -> bool:
    """Pipeline one loop with tensor copies, if all its operands allow it."""
    target: Target = context.target
    if not ({"tensor_map", "tensor_copy"} <= target.features and staged.asynchronous
            and context.meta.get("tensor_copy", 1)):
        return False
    iteration = Iteration(staged.loop)
    affinity = Affinity(iteration)
    accesses = []
    for store in staged.stores:
        access = _recognize(store, affinity, iteration, infos)
        if access is None:
            return False
        accesses.append(access)
    loads = [a.load for a in accesses]
    part = find_slice(staged.loop, [staged.condition], ALL_OPS, staged.always)
    place = _claim_place(kernel, staged)
    if part is None or place is None or stores_may_reach(
            kernel, staged.loop.blocks, [*loads, *part.loads], pointer_roots(kernel)):
        return False
    cfg = Cfg(kernel)
    if not all(_available(v, staged.preheader, cfg) for a in accesses for v in a.values()):
        return False
    stages = context.meta.get("num_stages") or most_stages(staged, target)
    if stages < 3:
        return False
    rewrite = TensorRewrite(kernel, staged, part, loads, stages, stages - 2)
    rewrite.accesses, rewrite.place = accesses, place
    rewrite.run()
    context.remark("pipeline", f"loop pipelined: tensor copies {stages - 2} iterations ahead",
                   loads[0].span)
    return True


def _recognize(store: Op, affinity: Affinity, iteration: Iteration,
               infos: axis_info.Infos) -> TensorAccess | None:
    """The load that the store stores, as boxes of a tensor; None if it is not such."""
    load, buffer = source_load(store), store.operands[0].type
    if load is None or load.attributes.get("other", 0) != 0:
        return None
    pointer = load.operands[0]
    t, info, form = pointer.type, infos.get(pointer), affinity.of(pointer)
    assert isinstance(buffer, Buffer)
    if not isinstance(t, Tile) or len(t.shape) != 2 or info is None or form is None \
            or form.base is None or iteration.counter.op is not None:
        return None
    size = buffer.element.bytes
    inner = next((d for d in (1, 0) if form.strides[d].constant == 1), None)
    if inner is None or info.contiguity[inner] < t.shape[inner] \
            or info.divisibility[inner] % ALIGNMENT:
        return None
    outer = 1 - inner
    swizzle = next((s for s in (128, 64, 32) if t.shape[inner] * size >= s), None)
    if swizzle is None or buffer.layout != tensor_core(t.shape, (inner, outer), size, swizzle):
        return None
    mask = affinity.mask(load.guard, 2)
    split = form.offset.split(iteration.counter)
    if split is None or mask is None or mask.conditions or t.shape[outer] > MOST_BOX:
        return None
    first, step = split
    starts = _split_start(first, form.strides[outer])
    for steps in _steps(step, form.strides[outer]):
        extents = _extents(mask, inner, starts, steps, iteration)
        if extents is not None and steps[0] * size % ALIGNMENT == 0:
            break
    else:
        return None
    columns = swizzle // size
    return TensorAccess(load, buffer.element, form, starts, (inner, outer),
                        form.strides[outer], extents, steps, swizzle, (columns, t.shape[outer]),
                        t.shape[inner] // columns)


def _steps(step: Linear, stride: Linear) -> list[tuple[int, int]]:
    """How far the box may be said to move on both axes; two ways where the stride is a number."""
    rows = step.divided(stride)
    found = [] if rows is None or rows.constant is None else [(0, rows.constant)]
    if step.constant is not None:
        found.append((step.constant, 0))
    return found


def _extents(mask: Mask, inner: int, starts: tuple[Linear, Linear], steps: tuple[int, int],
             iteration: Iteration) -> tuple[Linear | None, Linear | None] | None:
    """The extents that the mask's bounds give both axes; None if they do not move with the box."""
    extents: list[Linear | None] = [None, None]
    for bound in mask.bounds:
        axis = 0 if bound.axis == inner else 1
        extent = _extent(bound, steps[axis], iteration)
        if extent is None or extents[axis] is not None:
            return None
        extents[axis] = extent + starts[axis]
    return extents[0], extents[1]


def _split_start(first: Linear, stride: Linear) -> tuple[Linear, Linear]:
    """The offset as columns and rows: terms with the stride in them count rows."""
    columns, rows = Linear(), Linear()
    for term in first.terms:
        part = Linear((term,))
        row = part.divided(stride)
        if row is None:
            columns = columns + part
        else:
            rows = rows + row
    return columns, rows


def _extent(bound: Bound, step: int, iteration: Iteration) -> Linear | None:
    """How many elements from the first tile's start are inside the bound."""
    left = (bound.limit - bound.start).split(iteration.counter)
    if left is None or not equal(left[1], number(-step)):
        return None
    return left[0]


def _available(value: Value, place: Block, cfg: Cfg) -> bool:
    """Whether the value can be read at the end of a block."""
    if value.op is None:
        return True
    home = cfg.block_of.get(value.op)
    return home is not None and cfg.dominates(home, place)


def _claim_place(kernel: Kernel, staged: StagedLoop) -> Block | None:
    """A block outside all loops that runs before the loop, on every path to each return behind it.

    None if a return could be reached both with and without it.
    """
    cfg = Cfg(kernel)
    place: Block | None = staged.preheader
    while place is not None and place in cfg.innermost:
        place = cfg.immediate_dominator[place]
    if place is None:
        return None
    after = {place}
    stack = [place]
    while stack:
        for successor in stack.pop().successors:
            if successor not in after:
                after.add(successor)
                stack.append(successor)
    for block in after:
        if block.terminator.name == "ret" and not cfg.dominates(place, block):
            return None
    return place


class TensorRewrite(Rewrite):
    """The pipeline with tensor copies and a ring of barriers that count bytes."""

    accesses: list[TensorAccess]
    place: Block

    def prologue(self) -> dict[Value, Value]:
        """Maps and barriers, then the first copies."""
        staged = self.staged
        claim = make_op("claim_slot", [], Pointer(I8), table=ALL_OPS, maps=len(self.accesses))
        claim.result.name = "slot"
        self.slot = claim.result
        self.place.ops.insert(-1, claim)
        for block in Cfg(self.kernel).order:
            if block.terminator.name == "ret" and Cfg(self.kernel).dominates(self.place, block):
                block.ops.insert(-1, make_op("release_slot", [self.slot], table=ALL_OPS))
        self.ring_buffer = make_op("alloc_shared", [], Buffer(I64, (1,), self.stages,
                                                              row_major((1,))), table=ALL_OPS,
                                   pinned=True)
        self.ring_buffer.result.name = "ring"
        scratch = make_op("alloc_shared", [], Buffer(I8, (128,), 1, row_major((128,))),
                          table=ALL_OPS, pinned=True)
        scratch.result.name = "scratch"
        self.kernel.entry.ops[:0] = [self.ring_buffer, scratch]
        before, early = Block(""), Block("")
        b, at_place = Builder(before, span=self.span), Builder(early)
        cfg = Cfg(self.kernel)
        self.outside: dict[tuple[int, int], Value] = {}
        self.starts: dict[tuple[int, int], Value] = {}
        for i, access in enumerate(self.accesses):
            once = all(_available(v, self.place, cfg) for v in access.map_values())
            self.make_map(at_place if once else b, i, access, scratch.result)
            for axis, start in enumerate(access.starts):
                if start.terms:
                    self.starts[i, axis] = emit(b, start, I32)
        self.place.ops[-1:-1] = early.ops
        b.insert(make_op("proxy_fence", [], table=ALL_OPS))
        b.insert(make_op("ring_init", [self.ring_buffer.result], table=ALL_OPS))
        staged.preheader.ops[-1:-1] = before.ops
        return super().prologue()

    def make_map(self, b: Builder, index: int, access: TensorAccess, scratch: Value) -> None:
        """The tensor map of one operand."""
        form, size = access.form, access.element.bytes
        assert form.base is not None
        extents = []
        for axis, extent in enumerate(access.extents):
            if extent is None:
                extents.append(b.constant(ENDLESS, I32))
                continue
            found = emit(b, extent, I32)
            one = b.constant(1, I32)
            inside = b.value("icmp", found, one, predicate="sge")
            extents.append(b.value("smax", found, one))
            self.outside[index, axis] = b.value("select", inside, b.constant(0, I32),
                                                b.constant(OUTSIDE, I32))
        stride = emit(b, access.stride.scaled(size), I64)
        b.insert(make_op("tensor_map", [self.slot, scratch, form.base, *extents, stride],
                         span=access.load.span, table=ALL_OPS, index=index,
                         element=str(access.element), box=access.box,
                         swizzle=access.swizzle))

    def copies(self, mapping: dict[Value, Value], stage: Value, ahead: int) -> list[Op]:
        """One iteration's copies: the box of its turn."""
        ops, runs = self.iteration(mapping)
        block = Block("")
        b = Builder(block, span=self.span)
        turn = self.leading_turn(ahead)
        barrier = widen(self.ring_buffer.result, self.stages, stage, ahead)
        b.insert(barrier)
        b.insert(make_op("ring_expect", [barrier.result], guard=runs, table=ALL_OPS,
                         bytes=sum(self.bytes(s) for s in self.staged.stores)))
        for i, (access, store) in enumerate(zip(self.accesses, self.staged.stores, strict=True)):
            view = widen(store.operands[0], self.stages, stage, ahead)
            b.insert(view)
            starts = []
            for axis in (0, 1):
                start = b.value("mul", turn, b.constant(access.steps[axis], I32))
                if (i, axis) in self.starts:
                    start = b.value("add", start, self.starts[i, axis])
                if (i, axis) in self.outside:
                    start = b.value("add", start, self.outside[i, axis])
                starts.append(start)
            b.insert(make_op("tensor_copy", [view.result, barrier.result, self.slot, *starts],
                             guard=runs, span=access.load.span, table=ALL_OPS, index=i,
                             panels=access.panels, box=access.box))
        return [*ops, *block.ops]

    @staticmethod
    def bytes(store: Op) -> int:
        """The bytes of one operand of one iteration."""
        t = store.operands[0].type
        assert isinstance(t, Buffer)
        return t.stage_bytes

    def leading_turn(self, ahead: int) -> Value:
        """The number of the iteration whose operands are copied."""
        return self.turns.result if self.ring else self.number(ahead)

    def phis(self, ahead: dict[Value, Value]) -> dict[Value, Value]:
        lead = super().phis(ahead)
        header, preheader = self.staged.loop.header, self.staged.preheader
        self.phase = Op("phi", [self.number(0)], {}, (I32,), blocks=[preheader])
        self.turns = Op("phi", [self.number(self.distance)], {}, (I32,), blocks=[preheader])
        self.phase.result.name, self.turns.result.name = "phase", "turn_ahead"
        header.ops[:0] = [self.phase, self.turns]
        return lead

    def wait(self) -> list[Op]:
        view = widen(self.ring_buffer.result, self.stages, self.ring[0].result, 0)
        return [view, make_op("ring_wait", [view.result, self.phase.result], table=ALL_OPS)]

    def body(self, lead: dict[Value, Value]) -> None:
        super().body(lead)
        latch = self.staged.latch
        step = make_op("add", [self.turns.result, self.number(1)])
        # the phase turns when the stage to read returns to 0
        after = self.ring[0].operands[-1]
        wraps = make_op("icmp", [after, self.number(0)], predicate="eq")
        other = make_op("xor", [self.phase.result, self.number(1)])
        phase = make_op("select", [wraps.result, other.result, self.phase.result])
        latch.ops[-1:-1] = [step, wraps, other, phase]
        for phi, value in ((self.turns, step.result), (self.phase, phase.result)):
            phi.operands.append(value)
            phi.blocks.append(latch)

    def end(self) -> None:
        """Each copy that was started is waited for: its iteration runs."""
