"""Small loads and reductions go to their readers: anchors that a layout choice moves.

What costs no more in the layout of the one that reads it than in its own is computed there, so that
nothing is converted (see `assign_layouts`, which carries the choice out)."""

from tritonc.backend.layout import layout_choice
from tritonc.backend.layout.accesses import makes_operand
from tritonc.backend.layout.assignment import FEW, FEW_OF_OPERAND, POINTER, REGISTER, Assignment
from tritonc.backend.layout.split_reductions import reduced_axes
from tritonc.backend.target import matrix
from tritonc.ir.core import Op, Value, uses
from tritonc.ir.layouts import layout_ops
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.types import I1, Tile, element, scalar, shape


class MovedAssignment(Assignment):
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
