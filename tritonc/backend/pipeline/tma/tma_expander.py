"""The rewriting of a staged loop into a pipeline with TMA loads (see `tma_pipeline`)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tritonc.analysis.linear import Linear, emit
from tritonc.backend.pipeline.channel import Channel
from tritonc.backend.pipeline.staged_loop import buffer_of, widen
from tritonc.backend.pipeline.tma.map_slots import Claim, claim, make_map
from tritonc.backend.pipeline.tma.tma_access import BEFORE, ENDLESS, Strip
from tritonc.backend.pipeline.tma.tma_loop import TmaLoop
from tritonc.backend.pipeline.tma.warm_start import WarmStart, hoisted, taken_stores, warm_start
from tritonc.backend.pipeline.tma.warpgroup_stores import by_warpgroups
from tritonc.backend.shared.shared_memory import allocate
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop, reached
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.layouts.shared_layout import row_major
from tritonc.ir.types import I32, I64


class TmaExpander(TmaLoop):
    """The pipeline with TMA loads and barriers that count bytes.

    With several products in an iteration, each has full barriers of its own, and empty ones, on
    which the warps say that they have read a stage: what feeds a product is waited for just before
    it, and no warp waits for the others but the one that makes the copies.  So has a single product
    where a warp of its own shall make the copies (`separate`); then the threads may bring the first
    product's first operands themselves (`warm`)."""

    place: Block
    warm = False
    outer: Loop | None = None  # before which it begins
    coming: Value | None = None  # whether the iteration comes that is being copied
    here = 0  # products whose operands of the first iteration are there
    filled: Value  # whether they are
    fixed: Sequence[Channel] = ()  # of what all iterations read, at the end of `channels`
    fixed_stages = 1
    behind: Sequence[Channel] = ()  # of parts of what the block behind the loop reads, likewise
    beside: dict[Value, tuple[Value, Value]]  # the full and empty barriers of these buffers
    warm_fixed: Sequence[Channel] = ()  # as `fixed`, if a warm start brings it too

    def prologue(self) -> dict[Value, Value]:
        """Maps and barriers, then the first copies."""
        staged = self.staged
        own = staged.preheader
        stores = taken_stores(own) if self.home is own and self.place is own else []
        first = [self.channels[i] for i in self.products[0]] if self.warm else []
        warm = warm_start(self.kernel, staged, first, self.stages, self.outer, self.warm_fixed,
                          self.fixed_stages) if first else None
        claimed = claim(self.kernel, self.place)
        self.slot = claimed.slot.result
        depths = [self.depth(group) for group in range(self.group_count)]
        self.full = [self.new_barriers("full", depth) for depth in depths]
        self.empty = [self.new_barriers("empty", depth) for depth in depths if self.apart]
        if self.fixed:
            for barriers, name in ((self.full, "full"), (self.empty, "empty")):
                barriers.append(self.new_barriers(name, self.fixed_stages))
        self.beside = {buffer: (self.new_barriers("full", 1), self.new_barriers("empty", 1))
                       for buffer in dict.fromkeys(one.store.operands[0] for one in self.behind)}
        before = self.describe(claimed)
        at = len(staged.preheader.ops) - 1
        staged.preheader.ops[-1:-1] = before
        filled, free = zip(*self.beside.values()) if self.beside else ((), ())
        inits = [*(make_op("init_barriers", [barriers]) for barriers in (*self.full, *filled)),
                 *(make_op("init_barriers", [barriers], empty=True)
                   for barriers in (*self.empty, *free))]
        fence = make_op("proxy_fence", [])
        if self.separate:  # the barriers first: who computes may wait for them alone
            ops = self.place.ops
            ops.remove(claimed.slot)
            where = next(i for i, op in enumerate(ops) if op is claimed.publish or (
                op.name == "tensor_map" and op.operands[0] is claimed.scratch))
            ops[where:where] = [*inits, claimed.slot]
            begin = make_op("start_producer", [self.slot, claimed.publish.operands[2]],
                            indices=self.used_maps)
            self.begin, self.slot = begin, begin.result
            self.slot.name = "own_slot"
            by_warpgroups(self.kernel, self.home, claimed.slot.result, self.slot)
            self.place_barriers([fence, begin] if self.stores_before() else [begin])
            if warm is not None:
                self.start_warm(warm, begin, stores)
                stores = []
                at += len(warm.copies) if self.home is staged.preheader else 0
        else:
            self.place_barriers([fence, *inits])
        ahead = self.first_copies()
        self.hoist(at)
        if stores:  # products may read it
            staged.preheader.ops[-1:-1] = [*stores, make_op("proxy_fence", [])]
        if self.apart and (not self.separate or (self.stores_before() and not self.here)):
            # the loop has no barrier of its own, nor has a warm start made one
            staged.preheader.ops.insert(-1, make_op("barrier", []))
        return ahead

    def describe(self, claimed: Claim) -> list[Op]:
        """Make the maps.  Returns what computes where boxes begin."""
        before = Block("")
        b = Builder(before, span=self.span)
        cfg = Cfg(self.kernel)
        self.maps: dict[int, int] = {}
        self.short: dict[int, tuple[Value, Value]] = {}  # extents of tensors, rows of boxes
        self.nothing: dict[int, int] = {}  # the maps of boxes that may have no row
        self.outside: dict[tuple[int, int], Value] = {}
        self.starts: dict[tuple[int, int, int], Value] = {}  # by channel, part, axis
        self.later: dict[tuple[int, int, int], Linear] = {}  # what moves, but for its iteration
        empty: dict[object, int] = {}
        for i, one in enumerate(self.channels):
            access = one.boxes
            if access is None:
                continue
            once = all(cfg.available(v, self.place) for v in access.strip.map_values())
            same = next((j for j in self.maps if self.channels[j].load is one.load), None)
            if same is not None:  # another part
                number = self.maps[same]
                outside = {axis: self.outside[j, axis] for j, axis in self.outside if j == same}
                if same in self.short:
                    self.short[i] = self.short[same]
            else:
                made, outside = make_map(claimed, None if once else b, access.strip,
                                         access.element, access.box, access.swizzle,
                                         access.short == 1)
                number = made.attributes["index"]
                if access.short is not None:
                    self.short[i] = made.operands[2 + access.short], made.operands[-1]
            self.maps[i] = number
            if any(strip.empty for strip in access.strips):
                alike = (access.box, access.swizzle, access.element, len(access.strip.depth))
                if alike not in empty:  # TMA touches the base, though no element of the box
                    made, _ = make_map(
                        claimed, None if once else b, replace(access.strip, origin=Linear()),
                        access.element, access.box, access.swizzle)
                    empty[alike] = made.attributes["index"]
                self.nothing[i] = empty[alike]
            self.outside.update(((i, axis), value) for axis, value in outside.items())
            for part, strip in enumerate(access.strips):
                for axis, start in enumerate(strip.all_starts):
                    place = i, part, axis
                    fixed, self.later[place] = start.parted(lambda v: v in self.moving)
                    if fixed.terms:
                        self.starts[place] = emit(b, fixed, I32)
        return before.ops

    @property
    def used_maps(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys((*self.maps.values(), *self.nothing.values())))

    def start_warm(self, warm: WarmStart, begin: Op, stores: list[Op]) -> None:
        """The copies before all loads and stores of the block, or else before the first map; the
        stage, with `stores` of what products read beside it, when the producer begins."""
        ops = self.home.ops
        at = next(i for i, op in enumerate(ops)
                  if op.name in ("init_barriers", "claim_slot", "tensor_map") or op is begin)
        needed = {v for op in warm.copies for v in op.inputs()}
        at = max([at, *(i + 1 for i, op in enumerate(ops) if needed & set(op.results))])
        ops[:at] = hoisted(ops[:at], warm.copies)[0]
        stage = widen(self.full[0], self.stages, self.number(0), 0)
        ops[-1:-1] = [
            *stores, make_op("async_wait", [], pending=0),
            *(make_op(name, []) for name in ("proxy_fence", "barrier")),
            stage, make_op("arrive_full", [stage.result], guard=warm.runs)]
        if self.warm_fixed:
            stage = widen(self.full[-1], self.fixed_stages, self.number(0), 0)
            ops[-1:-1] = [stage, make_op("arrive_full", [stage.result])]
        self.here, self.filled = 1, warm.runs

    def stores_before(self) -> bool:
        """Whether threads may have written what the copies overwrite."""
        before = reached([self.home], Cfg(self.kernel).predecessors.__getitem__)
        return any(op.name == "shared_store" for block in before for op in block.ops)

    @property
    def group_count(self) -> int:
        return len(self.products)

    @property
    def home(self) -> Block:
        return self.staged.preheader

    def place_barriers(self, ops: list[Op]) -> None:
        self.home.ops[-1:-1] = ops

    def first_copies(self) -> dict[Value, Value]:
        """Start those before the loop.  Returns each phi's value `distance` iterations on."""
        return super().prologue()

    def hoist(self, at: int) -> None:
        """Move what the prologue has put at position `at` of the preheader before the loads and
        stores there: the first copies are under way while threads load what the loop needs too."""
        ops = self.staged.preheader.ops
        ops[:-1], passed = hoisted(ops[:at], ops[at:-1])
        if any(op.name == "shared_store" for op in passed):  # products may read it, as before
            ops.insert(-1, make_op("proxy_fence", []))

    def new_barriers(self, name: str, stages: int) -> Value:
        """Barriers for the stages, at the entry."""
        barriers = allocate(I64, row_major((1,)), stages, named=name, pinned=True)
        self.kernel.entry.ops.insert(0, barriers)
        return barriers.result

    def copies(self, mapping: dict[Value, Value], stage: Value, ahead: int) -> list[Op]:
        """One iteration's copies: the box of its iteration."""
        self.now = mapping
        if self.by_threads:
            ops = super().copies(mapping, stage, ahead)
            assert self.runs is not None
            self.coming = self.runs
        else:
            ops, self.coming = self.iteration(mapping)
        if self.apart and self.stage_phis:
            return ops  # the copies stand before the products
        there = self.here if ahead == 0 else 0
        return [*ops, *(op for i in range(there, len(self.products))
                        for op in self.fill(i, stage, ahead))]

    def fill(self, product: int, stage: Value, ahead: int) -> list[Op]:
        """The copies of what one product reads, once all warps have read what was there."""
        members = [i for i in self.products[product] if self.channels[i].boxes is not None]
        runs, stores = self.coming, [self.channels[i].store for i in members]
        block = Block("")
        b = Builder(block, span=self.span)
        iteration = self.copied.result if self.stage_phis else self.number(ahead)
        depth = self.depth(product)
        barrier = widen(self.full[product], depth, stage, ahead)
        views = [widen(store.operands[0], depth, stage, ahead) for store in stores]
        for op in (barrier, *views):
            b.insert(op)
        if self.separate or (self.apart and self.stage_phis):
            free = widen(self.empty[product], depth, stage, ahead)
            b.insert(free)
            phase = self.clock(product)[3].result if self.stage_phis else self.number(0)
            before = b.value("xor", phase, self.number(1))
            b.insert(make_op("wait_empty", [free.result, before, *(v.result for v in views)],
                             guard=runs))
        self.bring_boxes(b, members, [view.result for view in views], barrier.result, iteration,
                         runs)
        return block.ops

    def bring_boxes(self, b: Builder, channels: Sequence[int], views: Sequence[Value],
                    barrier: Value, iteration: Value, runs: Value | None) -> None:
        """The copies of operands in the loop's iteration `iteration`, and how many bytes these are.
        """
        loads, fixed, more = list[Op](), 0, list[Value]()
        for i, view in zip(channels, views, strict=True):
            access = self.channels[i].boxes
            assert access is not None
            fixed += access.bytes if access.short is None else 0
            for part, strip in enumerate(access.strips):
                starts = self.box_starts(b, (i, part), strip, access.box[1], iteration)
                load = make_op("tma_load", [view, barrier, self.slot, *starts], guard=runs,
                               span=access.load.span, index=self.maps[i], panels=access.panels,
                               box=access.box)
                loads.append(load)
                load.attributes |= {"row": part * access.box[1]} if access.below else {}
                load.attributes |= {"nothing": self.nothing[i]} if strip.empty else {}
                if access.short is not None:
                    pieces = self.halves if access.short else self.panels
                    loads[-1:], size = pieces(b, load, *self.short[i])
                    more.append(b.value("mul", size, self.number(
                        access.box[0] * access.element.bytes)))
        total = [b.joined("add", more)] if more else []
        b.insert(make_op("expect_full", [barrier, *total], guard=runs, bytes=fixed))
        for load in loads:
            b.insert(load)

    def halves(self, b: Builder, load: Op, extent: Value, short: Value) -> tuple[list[Op], Value]:
        """A tile's copy in two halves where boxes have half of its rows, but for the second one
        where it lies behind the tensor; and how many rows of boxes that brings."""
        (_, rows), panels = load.attributes["box"], load.attributes["panels"]
        below, here = self.piece(b, load, 4, rows // 2, extent)
        below.attributes["row"] = rows // 2
        comes = b.value("and", b.value("icmp", short, self.number(rows // 2), predicate="eq"), here)
        below.guard = comes if load.guard is None else b.value("and", load.guard, comes)
        load.attributes["row"] = 0
        count = b.value("select", comes, self.number(rows), short)
        return [load, below], b.value("mul", count, self.number(panels))

    def panels(self, b: Builder, load: Op, extent: Value, _: Value) -> tuple[list[Op], Value]:
        """A tile's copy by panels, but for those that lie behind the tensor; and how many rows of
        boxes that brings."""
        columns, rows = load.attributes["box"]
        found, count = [load], self.number(rows)
        for number in range(1, load.attributes["panels"]):
            beside, comes = self.piece(b, load, 3, number * columns, extent)
            beside.guard = comes if load.guard is None else b.value("and", load.guard, comes)
            beside.attributes |= {"row": number * rows, "panels": 1}
            found.append(beside)
            count = b.value("select", comes, self.number((number + 1) * rows), count)
        load.attributes |= {"row": 0, "panels": 1}
        return found, count

    def piece(self, b: Builder, load: Op, operand: int, ahead: int, extent: Value
              ) -> tuple[Op, Value]:
        """A copy that begins further on along an axis, and whether that lies in the tensor."""
        new = make_op("tma_load", [*load.operands], span=load.span, **load.attributes)
        new.operands[operand] = b.value("add", load.operands[operand], self.number(ahead))
        return new, b.value("icmp", new.operands[operand], extent, predicate="slt")

    def box_starts(self, b: Builder, place: tuple[int, int], strip: Strip, rows: int,
                   iteration: Value) -> list[Value]:
        """Where the box begins of a channel and part of its tile, on each axis of the tensor."""
        starts = []
        counted = self.inside(b, strip, rows, iteration)
        for axis in range(len(strip.all_starts)):
            outside = self.outside.get((place[0], axis))
            free = outside is not None and axis in strip.windows
            parts = [self.starts.get((*place, axis)), None if free else outside, counted.get(axis)]
            if axis < len(strip.steps) and strip.steps[axis].terms:
                step = emit(b, strip.steps[axis], I32)
                parts.insert(0, b.value("mul", iteration, step))
            if (later := self.later[(*place, axis)]).terms:
                parts.append(emit(b, later, I32, lambda v: self.now.get(v, v)))
            start, *others = [part for part in parts if part is not None] or [self.number(0)]
            for part in others:
                start = b.value("add", start, part)
            if free and outside is not None:  # whose start may be negative
                empty = b.value("icmp", outside, self.number(0), predicate="ne")
                start = b.value("select", empty, outside, start)
            if axis in strip.before:  # where strides are 0, too, it is in the tensor
                start = b.value("and", b.value("add", start, self.number(BEFORE)),
                                self.number(ENDLESS))
            starts.append(start)
        return starts

    def inside(self, b: Builder, strip: Strip, rows: int, iteration: Value) -> dict[int, Value]:
        """What the number of rows inside its mask adds to where a box of the iteration starts."""
        if strip.inside is None:
            return {}
        first, step = (emit(b, part, I32, lambda v: self.now.get(v, v)) for part in strip.inside)
        left = b.value("add", first, b.value("mul", iteration, step))
        some = b.value("smin", b.value("smax", left, self.number(0)), self.number(rows))
        return {1: b.value("sub", self.number(rows), some), 2: some}

    @staticmethod
    def bytes(stores: Iterable[Op]) -> int:
        return sum(buffer_of(store.operands[0]).stage_bytes for store in stores)
