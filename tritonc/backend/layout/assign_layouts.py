"""assign_layouts: every tile gets a layout; conversions stand where two choices meet.

Anchors are the operations whose speed depends on the layout: memory accesses (coalesced), dots (as
the instruction wants), and, where nothing else decides, a plain blocked layout.  From the anchors,

1. *Primary* layouts flow forward: an elementwise operation takes the layout of its operands (a
   dot's before a load's), a reduction the sliced layout of its source, a phi that of its operands.
   What depends on no anchor, that is index arithmetic, ranges, constants and their broadcasts, has
   none.
2. *Demands* flow backward: an operation wants its operands in the layouts that its own implies.  An
   operand without a primary layout is computed anew in the layout that is wanted, once for each;
   one with another primary layout is converted.  A load whose result, or what is made of it alone,
   is wanted in one other layout only is itself moved to that layout when it is small, since reading
   it there costs less than converting.

Before:                                  After (layouts in brackets):
    %v = load %p : f32<64>                   %v = load %p.1 : f32<64> [slice of dot]
    %b = broadcast %v' : f32<64, 64>         %b = broadcast %v'.1 : f32<64, 64> [dot]
    %c = fadd %acc, %b                       %c = fadd %acc, %b : f32<64, 64> [dot]

Needs: extents that are powers of two, `num_warps`.  Leaves to lower_conversions how
each conversion is done, and to vectorize the width of each access.
"""

from __future__ import annotations

from functools import cached_property

from tritonc.analysis import axis_info, ragged
from tritonc.analysis.values import int_of
from tritonc.analysis.windows import windows
from tritonc.backend.layout import layout_choice
from tritonc.backend.layout.likely_axis import likely_axes
from tritonc.backend.layout.rewrite_layouts import rewrite_layouts
from tritonc.backend.target import matrix
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir import combiner, layout_ops
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.layout import Layout, blocked
from tritonc.ir.rules import pointee
from tritonc.ir.shared_layout import BANK_BYTES
from tritonc.ir.types import Tile, Type, same_axes, scalar, shape

DIVISIONS = ("sdiv", "udiv", "srem", "urem")
# Registers that a row may take beside products; more are shared out to lanes: of what is combined
# with a result, which waits for the shuffles, and of what an operand is made of.
FEW, FEW_OF_OPERAND = 8, 3
POINTER = 8  # bytes
REGISTER = 4  # bytes
# Whose layout an operation takes: that of the strongest operand.
STRENGTH = {"dot": 3, "load": 2, "atomic_rmw": 2, "atomic_cas": 2}


def assign_layouts(kernel: Kernel, context: Context) -> bool:
    """Give every tile of the kernel a layout."""
    nesting = layout_choice.nesting_of(context.meta)
    if nesting is None:
        context.remark("assign_layouts", "the default micro- and nano-tiles are used: those given "
                       "do not fit the 32 threads of a warp", kernel.span, missed=True)
    choice = _Assignment(kernel, nesting or layout_choice.DEFAULT)
    choice.run()
    rewrite_layouts(kernel, choice)
    return True


SHARED = 4  # neighbours of one address, that a load may follow others into their layout


class _Assignment:
    """The layouts that are chosen; `rewrite_layouts` carries them out."""

    def __init__(self, kernel: Kernel, nesting: layout_choice.Nesting) -> None:
        self.kernel = kernel
        self.nesting = nesting
        self.warps: int = kernel.attributes["num_warps"]
        self.infos, self.ragged = axis_info.analyze(kernel), ragged.may_be_ragged(kernel)
        for load, window in windows(kernel, self.infos).items():
            if not window.aligned:  # aligned accesses bring it
                self.infos[load.operands[0]] = window.info
        self.cfg = Cfg(kernel)
        self.primary: dict[Value, tuple[int, Layout]] = {}  # strength and layout
        self.moved: dict[Op, Layout] = {}  # loads that run in the layout of their reader
        self.staged = _staged_loads(kernel)
        self.accumulators = [layout_choice.dot_layout(op, self.warps) for op in kernel.ops()
                             if op.name == "dot" and _on_wgmma(op)]

    def run(self) -> None:
        self.flow_forward()
        if self.looked_up:
            wanted = self.demands()
            self.moved.update((op, next(iter(wanted.get(op.result) or [self.default(
                op.result.type)]))) for op in self.looked_up)
            self.primary.clear()
            self.flow_forward()
        self.move_loads()

    # ---- primary layouts

    def flow_forward(self) -> None:
        """Primary layouts, to a fixed point around loops."""
        changed = True
        while changed:
            changed = False
            for block in self.cfg.order:
                for op in block.ops:
                    for result in op.results:
                        if isinstance(result.type, Tile):
                            new = self.primary_of(op, result)
                            if new is not None and self.primary.get(result) != new:
                                old = self.primary.get(result)
                                if old is None or new[0] > old[0] or op.name != "phi":
                                    self.primary[result] = new
                                    changed = True

    def primary_of(self, op: Op, result: Value) -> tuple[int, Layout] | None:
        name, t = op.name, result.type
        assert isinstance(t, Tile)
        if name == "dot":
            return STRENGTH[name], layout_choice.dot_layout(op, self.warps, self.nesting)
        if op in self.looked_up and op not in self.moved:
            return None
        if name in STRENGTH:
            return STRENGTH[name], self.access_layout(op)
        if name == "channel":  # else it is read in any layout
            return self.primary.get(op.operands[0]) if op.attributes.get("stored") else None
        if name == "reshape" and op.operands[0] in self.primary:
            if not isinstance(op.operands[0].type, Tile) or self.inserts_axes(op):
                return None  # small and soon broadcast: whoever reads it decides
            strength, source = self.primary[op.operands[0]]
            return strength, layout_ops.reshape(source, t.shape)
        if name == "trans" and op.operands[0] in self.primary:
            strength, source = self.primary[op.operands[0]]
            return strength, layout_ops.transpose(source, op.attributes["permutation"])
        if name == "reduce":
            return 1, layout_ops.slice_axes(self.reduced_layout(op), op.attributes["axes"])
        if name in ("gather", "histogram"):
            return 1, self.default(t)
        if name == "broadcast":
            return self.unreduced(op)
        if name == "cluster_reduce":
            return self.primary.get(op.operands[0])
        if name == "reduce_with":
            return 1, layout_ops.slice_axes(self.reduced_layout(op), (op.attributes["axis"],))
        if name in ("scan", "scan_with"):
            return 2, self.scan_layout(op)
        if name in DIVISIONS and self.handed_around(op):
            return 0, layout_choice.in_each_warp(t.shape, self.warps)
        if name == "phi" or ALL_OPS[name].elementwise:
            known = [self.primary[v] for v in op.operands
                     if v in self.primary and isinstance(v.type, Tile)]
            return max(known, key=lambda entry: entry[0]) if known else None
        return None

    def unreduced(self, op: Op) -> tuple[int, Layout] | None:
        """What is made of reductions alone, and spread over their axes again, as where the halves
        of an axis are split and joined: as their operand lay."""
        before, after = shape(op.operands[0].type), shape(op.result.type)
        value, axes = op.operands[0], tuple(d for d, n in enumerate(after) if before[d] != n)
        while (source := value.op) is not None:
            if source.name == "reduce":
                same = tuple(source.attributes["axes"]) == axes and value in self.primary
                whole = same and shape(source.operands[0].type) == after
                return (1, self.reduced_layout(source)) if whole else None
            known = [v for v in source.operands if shape(v.type) and v in self.primary]
            inserts = source.name == "reshape" and self.inserts_axes(source)
            if not known or not (source.info.elementwise or inserts):
                return None
            value = known[0]
        return None

    def handed_around(self, op: Op) -> bool:
        """Whether a quotient of indices beside a product costs more than to send it from the lanes
        that have it to the others: by no constant, and another for each element."""
        loop, info = self.cfg.innermost.get(self.cfg.block_of[op]), self.infos.get(op.result)
        return loop is not None and int_of(op.operands[1]) is None \
            and len(shape(op.result.type)) == 1 and info is not None \
            and max(*info.contiguity, *info.constancy) == 1 and loop in self.product_loops

    @cached_property
    def reductions(self) -> list[Op]:
        """Of tiles, in kernels without products and scans."""
        ops = list(self.kernel.ops())
        if any(op.name in ("dot", "scan", "scan_with") for op in ops):
            return []
        return [op for op in ops if op.name in ("reduce", "reduce_with")]

    def is_reduced(self, op: Op, axis: int) -> bool:
        """Whether tiles of a load's shape are reduced along this axis, and each time it runs."""
        loop = self.cfg.innermost.get(self.cfg.block_of[op])
        return any(
            shape(other.operands[0].type) == shape(op.result.type)
            and (axis,) == tuple(other.attributes.get("axes") or (other.attributes["axis"],))
            and (loop is None or self.cfg.block_of[other] in loop) for other in self.reductions)

    @cached_property
    def copied(self) -> set[Op]:
        """The loads that channels take."""
        return {op.operands[0].op for op in self.kernel.ops()
                if op.name == "channel" and op.operands[0].op is not None}

    @cached_property
    def looked_up(self) -> list[Op]:
        """The loads from tables, at indices that a channel brings: where their readers are."""
        made: set[Op] = set()
        for block in self.cfg.order:
            for op in block.ops:
                if (op.name == "channel" and "stored" not in op.attributes) or any(
                        v.op in made for v in op.inputs() if op.name != "phi"):
                    made.add(op)
        return [op for op in self.kernel.ops() if op.name == "load" and op in made]

    @cached_property
    def product_loops(self) -> list[Loop]:
        """The innermost loops that have products themselves."""
        return [loop for block, loop in self.cfg.innermost.items()
                if any(op.name == "dot" for op in block.ops)]

    @staticmethod
    def inserts_axes(op: Op) -> bool:
        """A reshape that only adds axes of extent 1."""
        before, after = op.operands[0].type, op.result.type
        assert isinstance(before, Tile) and isinstance(after, Tile)
        return len(after.shape) > len(before.shape) and (
            same_axes(before.shape, after.shape) is not None)

    def access_layout(self, op: Op) -> Layout:
        """The layout in which a load, store or atomic of a tile of pointers runs best."""
        pointer = op.operands[0]
        assert isinstance(pointer.type, Tile)
        if op in self.moved:
            return self.moved[op]
        info = self.infos.get(pointer)
        guard = ragged.edge(op, self.infos, self.ragged)
        gathered = info is None or max(info.contiguity) == 1
        best = layout_choice.coalesced(pointer.type.shape, info, guard,
                                       scalar(pointee(pointer.type)).bytes, self.warps,
                                       self.likely(op) if gathered else None,
                                       op in self.copied)
        axis = layout_choice.fastest_axis(info, len(pointer.type.shape))
        if op.name == "load" and self.is_reduced(op, axis):
            best = layout_choice.folded(best, axis, scalar(pointee(pointer.type)).bytes)
        if op in self.staged:
            best = layout_choice.turned(pointer.type.shape, info, guard,
                                        scalar(pointee(pointer.type)).bytes, self.warps,
                                        self.staged[op]) or best
        if gathered and pointer in self.primary:
            return self.primary[pointer][1]  # addresses come from memory: go where they are
        if gathered and info is not None and max(info.constancy) >= SHARED:
            return self.wide_layout(op, pointer.type) or best
        return best

    def wide_layout(self, op: Op, t: Tile) -> Layout | None:
        """The layout of a wide access of a tile of that shape in the same block: of addresses that
        neighbours share, a thread loads each once, wherever it is."""
        for other in self.cfg.block_of[op].ops:
            if other.name in ("load", "store") and shape(other.operands[0].type) == t.shape \
                    and other not in self.moved and other not in self.staged:
                info = self.infos.get(other.operands[0])
                if info is not None and max(info.contiguity) > 1:
                    return self.access_layout(other)
        return None

    def likely(self, op: Op) -> int | None:
        """The axis along which the addresses are likely to go on; of several, the one that shared
        memory will have contiguous, or the last."""
        axes = likely_axes(op.operands[0], self.infos)
        if not axes:
            return None
        return self.staged[op] if self.staged.get(op) in axes else max(axes)

    def default(self, t: Type) -> Layout:
        """A layout for a tile about which nothing is known."""
        assert isinstance(t, Tile)
        per_thread = max(1, t.size // (32 * self.warps))
        return layout_choice.spread(t.shape, tuple(reversed(range(len(t.shape)))),
                                    min(4, per_thread), self.warps)

    def scan_layout(self, op: Op) -> Layout:
        """The scanned axis inside one warp: in lanes and registers, in this order; of columns that
        fill the lanes, in registers alone."""
        t, axis = op.operands[0].type, op.attributes["axis"]
        assert isinstance(t, Tile)
        order = (axis, *[d for d in reversed(range(len(t.shape))) if d != axis])
        extent, rank = t.shape[axis], len(t.shape)
        size, lanes, across = [1] * rank, [1] * rank, [1] * rank
        lanes[axis] = 1 if layout_choice.columns_fill_lanes(t.shape, axis) else min(32, extent)
        size[axis] = extent // lanes[axis]
        left = 32 // lanes[axis]
        warps = self.warps
        for d in order[1:]:
            lanes[d] = min(left, t.shape[d])
            left //= lanes[d]
            across[d] = min(warps, max(1, t.shape[d] // lanes[d]))
            warps //= across[d]
        lanes[order[-1]] *= left
        across[order[-1]] *= warps
        return blocked(t.shape, size, lanes, across, order)

    # ---- what each operation wants of its operands

    def layout_of(self, op: Op) -> Layout | None:
        """The layout in which an operation that cannot be computed anew runs."""
        for result in op.results:
            if result in self.primary:
                return self.primary[result][1]
        if op.name in ("store", "atomic_rmw", "atomic_cas"):
            return self.store_layout(op)
        for value in op.operands:
            if isinstance(value.type, Tile):
                return self.own_layout(value)
        return None

    def store_layout(self, op: Op) -> Layout | None:
        """The value's own layout if that uses memory well, else the coalesced one."""
        pointer = op.operands[0]
        if not isinstance(pointer.type, Tile):
            return None
        best = self.access_layout(op)
        entry = self.primary.get(op.operands[-1])
        if entry is None:
            return best
        return entry[1] if self.share(op, entry[1]) >= self.share(op, best) else best

    def share(self, op: Op, layout: Layout) -> float:
        """The part of each memory sector that the access `op` would use in `layout`."""
        pointer = op.operands[0]
        assert isinstance(pointer.type, Tile)
        info = self.infos.get(pointer)
        guard = ragged.edge(op, self.infos, self.ragged)
        axis = layout_choice.fastest_axis(info, len(pointer.type.shape))
        size = scalar(pointee(pointer.type)).bytes
        reach = axis_info.vector_length(info, guard, axis, size) if info else 1
        width = layout_ops.vector_width(layout, size * 8, reach, axis)
        return layout_choice.sector_share(layout, axis, size, width)

    def operand_layouts(self, op: Op, layout: Layout) -> list[Layout | None]:
        """For each operand, the layout that `op`, itself in `layout`, wants; None leaves it."""
        if op.name in ("reduce", "reduce_with"):
            return [self.reduced_layout(op)] * len(op.operands)
        if op.name == "gather":
            return [self.own_layout(op.operands[0]), layout]
        if op.name == "dot":
            a, b, _ = op.operands
            left, right = layout_choice.operands_in_registers(op, self.warps)
            return [left or self.own_layout(a), right or self.own_layout(b), layout]
        if op.name in ("channel", "histogram"):
            return [self.own_layout(op.operands[0])]
        if op.name == "reshape":
            t = op.operands[0].type
            return [layout_ops.reshape(layout, t.shape) if isinstance(t, Tile) else None]
        if op.name == "trans":
            order = op.attributes["permutation"]
            inverse = sorted(range(len(order)), key=lambda d: order[d])
            return [layout_ops.transpose(layout, inverse)]
        if op.name == "broadcast":
            t = op.operands[0].type
            assert isinstance(t, Tile)
            axes = [d for d, n in enumerate(t.shape) if n != layout.shape[d]]
            sliced = layout_ops.slice_axes(layout, axes)
            return [layout_ops.reshape(sliced, t.shape)]
        return [None if not isinstance(v.type, Tile) else
                layout if v.type.shape == layout.shape else self.own_layout(v)
                for v in op.operands]

    def own_layout(self, value: Value) -> Layout:
        """The primary layout, or a default one."""
        entry = self.primary.get(value)
        return entry[1] if entry else self.default(value.type)

    def reduced_layout(self, op: Op) -> Layout:
        """The layout in which a reduction reads its operand."""
        own = self.own_layout(max(op.operands, key=lambda v: self.primary.get(v, (0, None))[0]))
        if op.name == "reduce_with":
            commutes = combiner.read(op.attributes["function"]).commutative
            return own if commutes else layout_choice.warps_last(own, op.attributes["axis"])
        return layout_choice.gathered(own, op.attributes["axes"]) or own

    # ---- small loads go to their readers

    def move_loads(self) -> None:
        """Re-anchor each load that is wanted in one other layout only, where that costs nothing."""
        loads = [op for op in self.kernel.ops() if op.name == "load" and op.result in self.primary]
        if not loads:
            return
        wanted, readers = self.demands(), uses(self.kernel)
        for op in loads:
            layouts = [layout_ops.reshape(layout, shape(op.result.type))
                       for layout in wanted.get(_made_alone(op.result, readers), {})]
            current = self.primary[op.result][1]
            if len(layouts) == 1 and layouts[0] != current and self.reads_well(op, layouts[0]):
                self.moved[op] = (layout_choice.lanes_apart(layouts[0])
                                  if self.held_long(op, layouts[0], readers) else layouts[0])
        self.join_stores()
        if self.moved:
            self.primary.clear()
            self.flow_forward()

    def held_long(self, op: Op, layout: Layout, readers: dict[Value, list[Op]]) -> bool:
        """Whether a row takes many registers of a thread beside products on wgmma in a loop, where
        it is loaded an iteration ahead: in few, and lanes ask each other for it."""
        loop = self.cfg.innermost.get(self.cfg.block_of[op])
        info, operand = self.infos.get(op.operands[0]), _makes_operand(op.result, readers)
        apart = info is None or max(info.contiguity) == 1  # each element has an address of its own
        held = max(scalar(op.result.type).bytes, 2) + (operand and apart) * POINTER
        used = layout.registers * held // REGISTER
        copies = 1 << layout.lane.count(0)
        few = FEW_OF_OPERAND if operand else FEW
        return used > few and copies >= 4 and loop is not None and any(
            other.name == "dot" and _on_wgmma(other) for other in loop.ops())

    def join_stores(self) -> None:
        """Loads take the layout of a store that they feed element by element, if none reads worse.

        A store whose guard depends on data wants single elements side by side where loads took
        words; they can do the same, and nothing is converted.
        """
        for op in self.kernel.ops():
            if op.name != "store" or not isinstance(op.operands[0].type, Tile):
                continue
            wanted, best = self.layout_of(op), self.access_layout(op)
            feeding = self.feeding_loads(op)
            if feeding is not None and wanted == best and all(
                    load in self.moved or self.reads_well(load, best) for load in feeding):
                self.moved.update((load, best) for load in feeding if load not in self.moved)

    def feeding_loads(self, store: Op) -> list[Op] | None:
        """The loads that alone, through elementwise operations, decide the layouts of what a store
        reads; None if there is anything else."""
        found: dict[Op, None] = {}
        seen: set[Op] = set()
        stack = [v for v in (*store.operands, store.guard) if v is not None]
        while stack:
            value = stack.pop()
            op = value.op
            if value not in self.primary or op is None or op in seen:
                continue
            seen.add(op)
            if op.name == "load":
                found[op] = None
            elif op.info.elementwise:
                stack += [v for v in op.inputs() if isinstance(v.type, Tile)]
            else:
                return None
        return list(found)

    def reads_well(self, op: Op, layout: Layout) -> bool:
        """Whether the load uses memory in `layout` as it does in its own, or only repeats a row.

        Beside a product on wgmma, instructions that read a sector in parts, one after the other,
        cost less than a detour through shared memory, which the ring of operands fills and at which
        all warps meet.
        """
        threads = 32 * self.warps
        if layout.registers * threads >= 4 * layout.size or layout in self.accumulators:
            return True
        return self.share(op, layout) >= self.share(op, self.access_layout(op))

    def demands(self) -> dict[Value, dict[Layout, None]]:
        """The layouts in which each value is wanted, in the order found."""
        wanted: dict[Value, dict[Layout, None]] = {}
        for op in self.kernel.ops():
            layout = None if self.is_free(op) else self.layout_of(op)
            if layout is None:
                continue
            stack = self.inputs(op, layout)
            while stack:
                value, want = stack.pop()
                if want in wanted.setdefault(value, {}):
                    continue
                wanted[value][want] = None
                if value.op is not None and self.is_free(value.op):
                    stack.extend(self.inputs(value.op, want))
        return wanted

    def inputs(self, op: Op, layout: Layout) -> list[tuple[Value, Layout]]:
        """The tiles that `op` in `layout` reads, each with the layout wanted."""
        found = [(v, want) for v, want in zip(op.operands, self.operand_layouts(op, layout),
                                              strict=True) if want is not None]
        if op.guard is not None and isinstance(op.guard.type, Tile):
            found.append((op.guard, layout))
        return found

    def is_free(self, op: Op) -> bool:
        """Whether the operation has no layout of its own and is computed wherever it is read."""
        return (bool(op.results) and all(isinstance(r.type, Tile) for r in op.results)
                and not any(r in self.primary for r in op.results) and op.pure)


def _made_alone(value: Value, readers: dict[Value, list[Op]]) -> Value:
    """What is made of a tile, element by element and of scalars beside it, or in another shape, if
    nothing else reads it."""
    while len(readers.get(value, ())) == 1:
        (op,) = readers[value]
        alone = op.info.elementwise or op.name == "reshape"
        if not alone or len(op.results) != 1 or any(
                v is not value and (v.op is None or v.op.name not in ("splat", "constant"))
                for v in op.inputs()):
            break
        value = op.result
    return value


def _makes_operand(value: Value, readers: dict[Value, list[Op]]) -> bool:
    """Whether a product multiplies what is made of a tile."""
    return any(value in op.operands[:2] if op.name == "dot" else op.name != "phi" and any(
        _makes_operand(result, readers) for result in op.results) for op in readers.get(value, ()))


def _on_wgmma(dot: Op) -> bool:
    name = dot.attributes.get("instruction")
    return name is not None and matrix.BY_NAME[name].kind == matrix.WGMMA


def _staged_loads(kernel: Kernel) -> dict[Op, int]:
    """Loads that a dot on CUDA cores alone reads, and that are turned if K is contiguous.

    With each, the axis that will be contiguous there: the one that the dot does not reduce.
    """
    readers = uses(kernel)
    found = {}
    for op in kernel.ops():
        if op.name != "load" or not isinstance(op.result.type, Tile):
            continue
        value, axes = op.result, list(range(len(op.result.type.shape)))
        while len(readers.get(value, ())) == 1 and readers[value][0].name in ("trans", "reshape"):
            (turn,) = readers[value]
            if turn.name == "trans":
                axes = [axes[d] for d in turn.attributes["permutation"]]
            else:
                axes = _split_axes(value.type, turn.result.type, axes)
            value = turn.result
        if len(readers.get(value, ())) == 1:
            (dot,) = readers[value]
            if dot.name == "dot" and "instruction" not in dot.attributes and (
                    len(shape(value.type)) == 2 or scalar(value.type).bytes < BANK_BYTES):
                axis = axes[-2 if value is dot.operands[0] else -1]
                if axis >= 0:
                    found[op] = axis
    return found


def _split_axes(before: Type, after: Type, axes: list[int]) -> list[int]:
    """What `axes`, a number for each axis before a reshape, are after it; -1 where axes merge."""
    left, found = list(zip(shape(before), axes, strict=True)), []
    for extent in shape(after):
        while left and left[0][0] == 1:
            left.pop(0)
        if extent == 1 or not left:
            found.append(-1)
            continue
        n, axis = left.pop(0)
        found.append(axis if n % extent == 0 else -1)
        if n % extent == 0:
            left.insert(0, (n // extent, axis))
        else:
            return [-1] * len(shape(after))
    return found
