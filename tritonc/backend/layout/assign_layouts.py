"""assign_layouts: every tile gets a layout; conversions stand where two choices meet.

Anchors are the operations whose speed depends on the layout: memory accesses (coalesced), dots (as
the instruction wants), and, where nothing else decides, a plain blocked layout, or for what is
reduced one in which threads have most of each slice (`computed`).  From the anchors,

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
each conversion is done, and to vectorize the width of each access."""

from tritonc.backend.layout import dot_layouts, layout_choice
from tritonc.backend.layout.accesses import makes_operand
from tritonc.backend.layout.assignment import FEW, FEW_OF_OPERAND, POINTER, REGISTER, Assignment
from tritonc.backend.layout.split_reductions import reduced_axes
from tritonc.backend.target import matrix
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts import layout_ops
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.types import I1, Tile, element, scalar, shape, with_layout


def assign_layouts(kernel: Kernel, context: Context) -> bool:
    """Give every tile of the kernel a layout."""
    nesting = dot_layouts.nesting_of(context.meta)
    if nesting is None:
        context.remark("assign_layouts", "the default micro- and nano-tiles are used: those given "
                       "do not fit the 32 threads of a warp", kernel.span, missed=True)
    choice = _WithMoves(kernel, nesting or dot_layouts.DEFAULT)
    choice.run()
    _Rewrite(kernel, choice).run()
    return True


class _WithMoves(Assignment):
    """An assignment in which small loads go to their readers."""

    def run(self) -> None:
        self.flow_forward()
        if self.looked_up:
            wanted = self.demands()
            self.moved.update((op, next(iter(wanted.get(op.result) or [layout_choice.plain(
                shape(op.result.type), self.warps)]))) for op in self.looked_up)
            self.primary.clear()
            self.flow_forward()
        if self.move_sums():
            self.primary.clear()
            self.flow_forward()
        self.move_loads()

    def move_sums(self) -> bool:
        """Reduce what is computed where the result is wanted, if threads there have no more of its
        elements, and of each line: as what warps have before them in a scan.  What lies along lines
        alone would be loaded for more of them."""
        computed = [op for op in self.kernel.ops()
                    if self.is_computed(op) and op.result in self.primary]
        wanted = self.demands() if computed else {}
        for op in computed:
            layouts, (value,) = [*wanted.get(op.result, ())], op.operands
            if len(layouts) == 1 and layouts[0] != self.primary[op.result][1]:
                axes, here = reduced_axes(op), self.reduced_layout(op)
                there = layout_choice.unsliced(shape(value.type), axes, layouts[0])
                lines = [one.registers // layout_ops.slice_axes(one, axes).registers
                         for one in (there, here)]
                if there.registers <= here.registers and lines[0] <= lines[1]:
                    self.moved[op] = there
        return any(op in self.moved for op in computed)

    def move_loads(self) -> None:
        """Re-anchor loads wanted in one layout more, not repeated, where that costs nothing."""
        loads = [op for op in self.kernel.ops() if op.name == "load" and op.result in self.primary
                 and op not in self.moved]
        if not loads:
            return
        before, wanted, readers = len(self.moved), self.demands(), uses(self.kernel)
        for op in loads:
            layouts = [layout_ops.reshape(layout, shape(op.result.type))
                       for layout in wanted.get(self.made_alone(op.result, readers), {})]
            only = [one for one in layouts if not (layouts[1:] and self.repeats(op, one))]
            if len(only) == 1 and only[0] != self.primary[op.result][1] and self.reads_well(
                    op, only[0]):
                self.moved[op] = (layout_choice.lanes_apart(only[0])
                                  if self.lives_long(op, only[0], readers) else only[0])
        self.join_stores()
        self.join_loads()
        if len(self.moved) > before:
            self.primary.clear()
            self.flow_forward()
            if self.accumulators:  # others may meet them now
                self.move_loads()

    def made_alone(self, value: Value, readers: dict[Value, list[Op]]) -> Value:
        """What is made of a tile, element by element and of scalars beside it, or in another shape,
        if nothing else reads it; of a mask, also with masks that are computed anywhere."""
        while len(readers.get(value, ())) == 1:
            (op,) = readers[value]
            alone = op.info.elementwise or op.name == "reshape"
            if not alone or len(op.results) != 1 or any(
                    v is not value and (v.op is None or v.op.name not in ("splat", "constant"))
                    and not (element(v.type) == I1 and v not in self.primary and op.pure)
                    for v in op.inputs()):
                break
            value = op.result
        return value

    def lives_long(self, op: Op, layout: Layout, readers: dict[Value, list[Op]]) -> bool:
        """Whether a row takes many registers of a thread beside products on wgmma in a loop, where
        it is loaded an iteration ahead: in few, and lanes ask each other for it."""
        loop = self.cfg.innermost.get(self.cfg.block_of[op])
        info, operand = self.accesses.infos.get(op.operands[0]), makes_operand(op.result, readers)
        apart = info is None or max(info.contiguity) == 1  # each element has an address of its own
        held = max(scalar(op.result.type).bytes, 2) + (operand and apart) * POINTER
        used = layout.registers * held // REGISTER
        copies = 1 << layout.lane.count(0)
        few = FEW_OF_OPERAND if operand else FEW
        return used > few and copies >= 4 and loop is not None and any(
            matrix.on_wgmma(other) for other in loop.ops())

    def join_stores(self) -> None:
        """Loads take the layout of a store that they feed element by element, if none reads worse.

        A store whose guard depends on data wants single elements side by side where loads took
        words; they can do the same, and nothing is converted."""
        for op in self.kernel.ops():
            if op.name != "store" or not isinstance(op.operands[0].type, Tile):
                continue
            wanted, best = self.layout_of(op), self.access_layout(op)
            feeding = self.feeding_loads(*op.operands, op.guard)
            if feeding is not None and wanted == best and all(
                    load in self.moved or self.reads_well(load, best) for load in feeding):
                self.moved.update((load, best) for load in feeding if load not in self.moved)

    def join_loads(self) -> None:
        """Loads whose elements meet, one by one or as a mask, take the layout of one that all read
        well: of bytes a thread has as many as of the larger elements beside them."""
        for op in self.kernel.ops():
            own = self.primary.get(op.results[0]) if op.results else None
            if own is None or not (op.name == "load" or op.info.elementwise):
                continue
            values = [v for v in op.inputs() if v in self.primary and element(v.type).bits < 64]
            layouts = [own[1]] if op.name == "load" else dict.fromkeys(
                self.primary[v][1] for v in values)
            for layout in layouts if any(self.primary[v][1] != own[1] for v in values) else ():
                feeding = [self.feeding_loads(v) for v in values if self.primary[v][1] != layout]
                if all(loads is not None and all(load in self.moved or self.reads_well(
                        load, layout) for load in loads) for loads in feeding):
                    self.moved.update((load, layout) for loads in feeding for load in loads or ()
                                      if load not in self.moved)
                    break

    def feeding_loads(self, *values: Value | None) -> list[Op] | None:
        """The loads that alone, through elementwise operations, decide the layouts of values; None
        if there is anything else."""
        found: dict[Op, None] = {}
        seen: set[Op] = set()
        stack = [v for v in values if v is not None]
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
        cost less than a detour through shared memory, which stages of operands fill and at which
        all warps meet."""
        threads = 32 * self.warps
        if layout.registers * threads >= 4 * layout.size or layout in self.accumulators or any(
                layout == layout_ops.reshape(layout_ops.slice_axes(layout_ops.reshape(
                    whole, (*layout.shape, whole.size // layout.size)), [len(layout.shape)]),
                    layout.shape) for whole in self.accumulators if whole.size > layout.size):
            return True
        access = self.accesses.of(op)
        return access.share(layout) >= access.share(self.access_layout(op))


class _Rewrite:
    """Carrying out the choice: what stands in place of each old operation, in order.  Anchored
    operations get their layouts, free ones are made anew for each layout that a reader wants, and
    conversions stand where neither can be."""

    def __init__(self, kernel: Kernel, choice: Assignment) -> None:
        self.choice = choice
        self.order = Cfg(kernel).order
        self.home = {result: block for block in kernel.blocks for op in block.ops
                     for result in op.results}
        self.placed: dict[Op, list[Op]] = {}
        self.sources: dict[Op, list[Value]] = {}  # what anchored operations read before
        self.guards: dict[Op, Value | None] = {}
        self.block_start: dict[Block, list[Op]] = {}
        self.versions: dict[tuple[Value, Layout], Value] = {}
        self.converted: dict[tuple[Value, Layout, Block], Value] = {}
        self.pending: list[tuple[Op, Op, Layout]] = []  # phis whose operands are not yet made

    def run(self) -> None:
        for block in self.order:
            for op in block.ops:
                if not self.choice.is_free(op):
                    self.anchor(op, block)
        while self.pending:
            old, new, layout = self.pending.pop()
            new.operands = [self.version(v, layout, source)
                            for v, source in zip(old.operands, old.blocks, strict=True)]
        for block in self.order:
            phis: list[Op] = []
            rest = list(self.block_start.get(block, []))
            for op in block.ops:
                for new in self.placed.get(op, []):
                    (phis if new.name == "phi" else rest).append(new)
            block.ops = phis + rest

    def anchor(self, op: Op, block: Block) -> None:
        """Give the operation its layout and its operands in the layouts that it wants."""
        layout = self.choice.layout_of(op)
        self.placed[op] = [op]
        self.sources[op] = list(op.operands)
        self.guards[op] = op.guard
        for result in op.results:
            if isinstance(result.type, Tile):
                assert layout is not None
                result.type = with_layout(result.type, layout)
                self.versions[result, layout] = result
        if layout is not None:
            self.read(op, op, layout, block)

    def read(self, old: Op, new: Op, layout: Layout, block: Block) -> None:
        """Give `new`, which does in `layout` what `old` did, the operands that it wants."""
        if old.name == "phi":
            self.pending.append((Op("phi", old.operands, blocks=[*old.blocks]), new, layout))
            return
        new.operands = [v if want is None else self.version(v, want, block) for v, want in zip(
            old.operands, self.choice.operand_layouts(old, layout), strict=True)]
        if old.guard is not None and isinstance(old.guard.type, Tile):
            new.guard = self.version(old.guard, layout, block)

    def version(self, value: Value, layout: Layout, reader: Block) -> Value:
        """`value` in `layout`, for a reader in a block."""
        found = self.versions.get((value, layout))
        if found is not None:
            return found
        assert value.op is not None, "no parameter is a tile"
        if self.choice.is_free(value.op) or self.follows(value.op) \
                or self.choice.repeats(value.op, layout):
            self.recompute(value.op, layout)
            return self.versions[value, layout]
        return self.convert(value, layout, reader)

    def follows(self, op: Op) -> bool:
        """Whether to convert what an operation reads instead: for others may read it converted too,
        of another shape, or since it is narrower, such as halves of which floats are made."""
        if op.name == "reshape":
            return True
        fixed = [element(v.type).bits for v in self.sources.get(op, op.operands)
                 if isinstance(v.type, Tile) and not (v.op and self.choice.is_free(v.op))]
        return op.pure and op.info.elementwise and len(op.results) == 1 and fixed in (
            [16], [32]) and element(op.result.type).bits > fixed[0]

    def recompute(self, op: Op, layout: Layout) -> None:
        """An operation anew, in another layout, at its own place."""
        types = tuple(with_layout(r.type, layout) for r in op.results)
        sources = self.sources.get(op, op.operands)
        guard = self.guards.get(op, op.guard)
        new = Op(op.name, list(sources), dict(op.attributes), types, guard, op.span, op.blocks)
        for old_result, result in zip(op.results, new.results, strict=True):
            result.name = old_result.name
            self.versions[old_result, layout] = result
        self.read(new, new, layout, self.home[op.results[0]])
        self.placed.setdefault(op, []).append(new)

    def convert(self, value: Value, layout: Layout, reader: Block) -> Value:
        """A conversion in the reader's block: after the definition, or at the block's start."""
        key = (value, layout, reader)
        if key not in self.converted:
            assert value.op is not None
            new = Op("convert_layout", [value], {}, (with_layout(value.type, layout),),
                     span=value.op.span)
            new.result.name = value.name
            if self.home[value] is reader and value.op.name != "phi":
                self.placed[value.op].append(new)
            else:
                self.block_start.setdefault(reader, []).append(new)
            self.converted[key] = new.result
        return self.converted[key]
