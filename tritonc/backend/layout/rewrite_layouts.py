"""Carrying out a choice of layouts: each value in every layout that is wanted of it.

`assign_layouts` chooses; here anchored operations get their layouts, free ones are made anew for
each layout that a reader wants, and conversions stand where neither can be."""

from tritonc.backend.layout.assignment import Assignment
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.types import Tile, element, with_layout


def rewrite_layouts(kernel: Kernel, choice: Assignment) -> None:
    """Give every tile of the kernel its layout."""
    _Rewrite(kernel, choice).run()


class _Rewrite:
    """The rewritten program: what stands in place of each old operation, in order."""

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
        """Anchored operations stay, free ones are made anew for each layout wanted of them."""
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
