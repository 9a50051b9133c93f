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

from tritonc.backend.layout import dot_layouts
from tritonc.backend.layout.moves import MovedAssignment
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.types import Tile, element, with_layout


def assign_layouts(kernel: Kernel, context: Context) -> bool:
    """Give every tile of the kernel a layout."""
    nesting = dot_layouts.nesting_of(context.meta)
    if nesting is None:
        context.remark("assign_layouts", "the default micro- and nano-tiles are used: those given "
                       "do not fit the 32 threads of a warp", kernel.span, missed=True)
    choice = MovedAssignment(kernel, nesting or dot_layouts.DEFAULT)
    choice.run()  # `assignment` and `moves`: what flows where; here it is carried out
    _Rewrite(kernel, choice).run()
    return True


class _Rewrite:
    """Carrying out the choice: what stands in place of each old operation, in order.  Anchored
    operations get their layouts, free ones are made anew for each layout that a reader wants, and
    conversions stand where neither can be."""

    def __init__(self, kernel: Kernel, choice: MovedAssignment) -> None:
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
