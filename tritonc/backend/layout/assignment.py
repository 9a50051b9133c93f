"""Which layouts the values of a kernel have, and which each operation wants of its operands.

*Primary* layouts flow forward from anchors, *demands* backward: see `assign_layouts`."""

from tritonc.analysis.values import int_of, slice_of
from tritonc.backend.layout import dot_layouts, layout_choice
from tritonc.backend.layout.accesses import Accesses
from tritonc.backend.layout.conversion import Shared, plan_conversion
from tritonc.backend.layout.split_reductions import reduced_axes
from tritonc.backend.target import matrix
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir import combiner
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts import layout_ops
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.ops import DIVISIONS
from tritonc.ir.types import Tile, Type, same_axes, scalar, shape
from tritonc.records import cached_property

# Registers that a row may take beside products; more are shared out to lanes: of what is combined
# with a result, which waits for the shuffles, and of what an operand is made of.
FEW, FEW_OF_OPERAND = 8, 3
POINTER = 8  # bytes
REGISTER = 4  # bytes
# Whose layout an operation takes: that of the strongest operand.
STRENGTH = {"dot": 3, "load": 2, "atomic_rmw": 2, "atomic_cas": 2}


class Assignment:
    """The layouts that are chosen; `assign_layouts` carries them out."""

    def __init__(self, kernel: Kernel, nesting: dot_layouts.Nesting) -> None:
        self.kernel = kernel
        self.nesting = nesting
        self.warps: int = kernel.attributes["num_warps"]
        self.cfg = Cfg(kernel)
        self.accesses = Accesses(kernel, self.cfg, self.warps)
        self.primary: dict[Value, tuple[int, Layout]] = {}  # strength and layout
        self.moved: dict[Op, Layout] = {}  # loads and reductions in the layout of their reader
        self.accumulators = [dot_layouts.dot_layout(op, self.warps) for op in kernel.ops()
                             if matrix.on_wgmma(op)]

    # ---- primary layouts

    def flow_forward(self) -> None:
        """Primary layouts, to a fixed point around loops: those of anchors first, since a phi keeps
        what it gets, and then what nothing else decides."""
        self.anchored = False
        tiles = [(op, result, result.type, op.name == "phi" or ALL_OPS[op.name].elementwise)
                 for block in self.cfg.order for op in block.ops
                 for result in op.results if isinstance(result.type, Tile)]
        before: set[Value] | None = None  # what changed in the round before
        while before is None or before or not self.anchored:
            self.anchored |= before is not None and not before
            now = set[Value]()
            for op, result, t, follows in tiles:
                if follows and before is not None and before.isdisjoint(op.operands) \
                        and now.isdisjoint(op.operands):
                    continue
                old, new = self.primary.get(result), self.primary_of(op, t)
                if new is not None and new != old and (
                        old is None or new[0] > old[0] or op.name != "phi"):
                    self.primary[result] = new
                    now.add(result)
            before = now

    def primary_of(self, op: Op, t: Type) -> tuple[int, Layout] | None:
        """The layout of a result, with its strength; None if whoever reads it decides."""
        name, extents = op.name, shape(t)
        if name == "dot":
            return STRENGTH[name], dot_layouts.dot_layout(op, self.warps, self.nesting)
        if op in self.looked_up and op not in self.moved:
            return None
        if name in STRENGTH:
            return STRENGTH[name], self.access_layout(op)
        if name == "channel":  # else it is read in any layout
            entry = self.primary.get(op.operands[0]) if op.attributes.get("stored") else None
            axis = op.attributes.get("transposed")
            return entry if entry is None or axis is None else (entry[0], (
                layout_choice.transposing(extents, axis, scalar(t).bytes, self.warps)))
        if name in ("reshape", "trans") and op.operands[0] in self.primary:
            strength, source = self.primary[op.operands[0]]
            if name == "trans":
                return strength, layout_ops.transpose(source, op.attributes["permutation"])
            # Small, and soon broadcast, but for what is stored with repeats.
            return None if self.inserts_axes(op) and not self.is_stored(op.operands[0]) else (
                strength, layout_ops.reshape(source, extents))
        if name in ("reduce", "reduce_with"):
            if not self.anchored and not any(v in self.primary for v in op.operands):
                return None
            return 1, layout_ops.slice_axes(self.reduced_layout(op), reduced_axes(op))
        if name == "gather":  # where its indices are, or else what they choose from
            asked = op.operands[:1] if "shift" in op.attributes else op.operands[::-1]
            known = [self.primary[v] for v in asked
                     if v in self.primary and shape(v.type) == extents]
            return (1, known[0][1] if known else layout_choice.plain(extents, self.warps))
        if name == "histogram":
            return 1, layout_choice.plain(extents, self.warps)
        if name == "broadcast":
            return self.repeated(op) or self.unreduced(op)
        if name == "cluster_reduce":
            return self.primary.get(op.operands[0])
        if name in ("scan", "scan_with"):
            return 2, self.accesses.scan_layout(op)
        if name in DIVISIONS and self.handed_around(op):
            return 0, layout_choice.in_each_warp(extents, self.warps)
        if name == "phi" or ALL_OPS[name].elementwise:
            known = [self.entering(op, v) for v in op.operands if v in self.primary]
            return max(known, key=lambda entry: entry[0]) if known else None
        return None

    def entering(self, op: Op, value: Value) -> tuple[int, Layout]:
        """The layout of an operand.  What a loop of products begins with, such as the greatest
        scores so far, is weaker than what each iteration makes of it, unless a product made it."""
        strength, layout = self.primary[value]
        if op.name == "phi" and strength < STRENGTH["dot"]:
            block = self.cfg.block_of[op]
            loop = self.cfg.innermost.get(block)
            if loop in self.product_loops and block is loop.header and loop.preheader is not None \
                    and value is loop.first(op):
                return 0, layout
        return strength, layout

    def is_stored(self, value: Value) -> bool:
        """Whether a channel brings it to threads that store what they compute of it for a product
        that reads its transpose: a default layout has neighbours along the other axis."""
        return value.op is not None and value.op.name == "channel" and bool(
            value.op.attributes.get("stored")) and value.op in self.transposed

    @cached_property
    def transposed(self) -> set[Op]:
        """What leads to transposes."""
        return slice_of((op.operands[0] for op in self.kernel.ops() if op.name == "trans"), None,
                        ("load", "phi", "dot"), False)

    def repeated(self, op: Op) -> tuple[int, Layout] | None:
        """What is loaded once for several elements and stored for each: where it was loaded."""
        (value,), made = op.operands, op.operands[0].op
        if made is None or made.name != "reshape" or not self.is_stored(made.operands[0]) \
                or value not in self.primary:
            return None
        strength, layout = self.primary[value]
        (axis,) = [d for d, n in enumerate(shape(value.type)) if shape(op.result.type)[d] != n]
        return strength, layout_ops.repeat(layout, axis, shape(op.result.type)[axis])

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
        info = self.accesses.infos.get(op.result)
        return int_of(op.operands[1]) is None and len(shape(op.result.type)) == 1 \
            and info is not None and max(*info.contiguity, *info.constancy) == 1 \
            and self.cfg.innermost.get(self.cfg.block_of[op]) in self.product_loops

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
        return [loop for block, loop in self.cfg.innermost.items()
                if any(op.name == "dot" for op in block.ops)]

    @staticmethod
    def inserts_axes(op: Op) -> bool:
        """A reshape that only adds axes of extent 1."""
        before, after = shape(op.operands[0].type), shape(op.result.type)
        return len(after) > len(before) and same_axes(before, after) is not None

    def access_layout(self, op: Op) -> Layout:
        """The layout in which a load, store or atomic of a tile of pointers runs best."""
        pointer = op.operands[0]
        if op in self.moved:
            return self.moved[op]
        if pointer in self.primary and self.accesses.is_gathered(pointer):
            return self.primary[pointer][1]  # addresses come from memory: go where they are
        return self.accesses.layout(op, self.moved)

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
        if not isinstance(op.operands[0].type, Tile):
            return None
        best, access = self.access_layout(op), self.accesses.of(op)
        entry = self.primary.get(op.operands[-1])
        if entry is None:
            return best
        return entry[1] if access.share(entry[1]) >= access.share(best) else best

    def operand_layouts(self, op: Op, layout: Layout) -> list[Layout | None]:
        """For each operand, the layout that `op`, itself in `layout`, wants; None leaves it."""
        if op.name in ("reduce", "reduce_with"):
            return [self.reduced_layout(op)] * len(op.operands)
        if op.name == "gather":
            shifts = "shift" in op.attributes
            return [layout if shifts else self.own_layout(op.operands[0]), layout]
        if op.name == "dot":
            a, b, _ = op.operands
            left, right = dot_layouts.operands_in_registers(op, self.warps)
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
            extents = shape(op.operands[0].type)
            axes = [d for d, n in enumerate(extents) if n != layout.shape[d]]
            return [layout_ops.reshape(layout_ops.slice_axes(layout, axes), extents)]
        return [None if not isinstance(v.type, Tile) else
                layout if v.type.shape == layout.shape else self.own_layout(v)
                for v in op.operands]

    def own_layout(self, value: Value) -> Layout:
        """The primary layout, or a default one."""
        entry, extents = self.primary.get(value), shape(value.type)
        return entry[1] if entry else layout_choice.plain(
            extents, self.warps, 1 if self.strided(extents) else layout_choice.NEIGHBOURS)

    def strided(self, extents: tuple[int, ...]) -> bool:
        """Whether lines along the last axis are loaded, and no two of their elements lie beside
        each other: then lanes had better have neighbours, whose accesses share lines of the cache.
        Accelerations of 16384 bodies of four doubles on an H200: 935 us by four neighbours of a
        thread, 572 by two, 454 by one."""
        return len(extents) > 1 and self.runs.get(extents[-1]) == 1

    @cached_property
    def runs(self) -> dict[int, int]:
        """How many elements of the lines that are loaded lie beside each other, by extents."""
        found: dict[int, int] = {}
        for op in self.kernel.ops():
            info = self.accesses.infos.get(op.operands[0]) if op.name == "load" else None
            if info is not None and len(extents := shape(op.result.type)) == 1:
                found[extents[0]] = max(found.get(extents[0], 1), info.contiguity[0])
        return found

    def reduced_layout(self, op: Op) -> Layout:
        """The layout in which a reduction reads its operand."""
        if op in self.moved:
            return self.moved[op]
        value = max(op.operands, key=lambda v: self.primary.get(v, (0, None))[0])
        if self.is_computed(op):
            return layout_choice.computed(shape(value.type), op.attributes["axes"], self.warps)
        own = self.own_layout(value)
        if op.name == "reduce_with":
            commutes = combiner.read(op.attributes["function"]).commutative
            return own if commutes else layout_choice.warps_last(own, op.attributes["axis"])
        return layout_choice.gathered(own, op.attributes["axes"]) or own

    def is_computed(self, op: Op) -> bool:
        """Whether what an operation reduces lies nowhere yet."""
        made = op.operands[0].op if op.name == "reduce" else None
        return made is not None and op.operands[0] not in self.primary \
            and made.name != "phi"  # which a loop adds up: it reads rows more often

    def repeats(self, op: Op, layout: Layout) -> bool:
        """Whether a row is loaded once more where another layout is wanted: in a loop of one
        product on wgmma, where threads of other warps would have to meet for it."""
        loop = self.cfg.innermost.get(self.cfg.block_of[op])
        if op.name != "load" or op.attributes.get("volatile") or len(layout.shape) != 1 \
                or layout.registers * POINTER > FEW * REGISTER or loop is None:
            return False
        moves = plan_conversion(self.primary[op.result][1], layout, scalar(op.result.type).bits)
        return isinstance(moves, Shared) and sum(map(matrix.on_wgmma, loop.ops())) == 1

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
        return bool(op.results) and op.pure and all(
            isinstance(r.type, Tile) and r not in self.primary for r in op.results)
