"""merge_axes: tiles of several axes that products take as rows are loaded and stored as rows.

Before:  %a = addptr ..                          After:  %b = reshape %rows : i32<128, 1>
         %x = load %a : f16<8, 16, 64>                   %a = addptr .. (broadcast %b) ..
         %y = reshape %x : f16<128, 64>                  %y = load %a : f16<128, 64>
         %d = dot %y, %w, %c                             %d = dot %y, %w, %c

A program that computes a patch of an image has rows and columns of pixels, and a product of all of
them.  Copies that run ahead of a product bring a tile as the product reads it; so the reshape goes
from what was loaded to the addresses and masks, up to where rows and columns have come together:
what else is added is added to merged axes.  A store of a reshaped result becomes one of the result.

Before dce, which removes what was replaced, and licm, which takes out of loops what they do not
change."""

from collections.abc import Iterator
from math import prod

from tritonc.analysis.values import defined_by, is_zero, origin
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import Tile, merged_axes, shape

Groups = tuple[tuple[int, ...], ...]  # for each new axis, the axes that it is made of


def merge_axes(kernel: Kernel, context: Context) -> bool:
    """Move reshapes in front of loads of products' operands and behind stores of results."""
    ops = list(kernel.ops())
    merger, changed = Merger(kernel), False
    for op in ops if any(op.name == "dot" for op in ops) else ():
        if op.name == "reshape":
            changed |= merger.operand(op)
        elif op.name == "store":
            changed |= merger.stored(op)
    return changed


class Merger:
    """Makes values anew, of merged axes, each where it is needed."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.readers = kernel, uses(kernel)
        self.block_of = {op: block for block in kernel.blocks for op in block.ops}
        self.known: dict[tuple[Op, Value, tuple[int, ...]], Value] = {}

    def operand(self, op: Op) -> bool:
        """Load what a product reads as it reads it."""
        groups = merged_axes(shape(op.operands[0].type), shape(op.result.type))
        if groups is None or not self._loaded(op.operands[0]) or not all(
                reader.name == "dot" for reader in self._behind(op)):
            return False
        self.kernel.replace({op.result: self.moved(op.operands[0], groups, op)})
        return True

    def _behind(self, op: Op) -> Iterator[Op]:
        for reader in self.readers.get(op.result, []):
            if reader.name == "trans":
                yield from self._behind(reader)
            else:
                yield reader

    def _loaded(self, value: Value) -> bool:
        """Whether it is a load that nothing else reads, zero where masked."""
        op = value.op
        if op is None or len(self.readers[value]) > 1:
            return False
        if op.name == "psi":
            data = [v for v in op.operands[1::2] if not is_zero(origin(v, ("splat", "broadcast")))]
            return len(data) == 1 and self._loaded(data[0])
        return op.name == "load" and not op.attributes.get("volatile")

    def stored(self, op: Op) -> bool:
        """Store a result that was reshaped for it as it was."""
        stack, groups = [op.operands[1]], None
        while stack:
            made = stack.pop().op
            if made is not None and made.name == "reshape":
                groups = groups or merged_axes(
                    shape(op.operands[1].type), shape(made.operands[0].type))
            elif made is not None and made.info.elementwise and made.pure:
                stack += [v for v in made.operands if shape(v.type) == shape(op.operands[1].type)]
        if groups is None:
            return False
        op.operands = [self.moved(v, groups, op) for v in op.operands]
        if op.guard is not None:
            op.guard = self.moved(op.guard, groups, op)
        return True

    def moved(self, value: Value, groups: Groups, at: Op) -> Value:
        """The value with merged axes, in front of `at`; it is made of smaller ones if they are of
        axes that are merged, or of others."""
        t, op = value.type, value.op
        if not isinstance(t, Tile):
            return value
        merged = tuple(prod(t.shape[axis] for axis in group) for group in groups)
        key = at, value, merged
        if key not in self.known:
            self.known[key] = self._moved(value, op, t, groups, merged, at)
        return self.known[key]

    def _moved(self, value: Value, op: Op | None, t: Tile, groups: Groups,
               merged: tuple[int, ...], at: Op) -> Value:
        to = Tile(t.element, merged)
        if (before := defined_by(value, "reshape")) is not None:
            value = before.operands[0]
            return value if value.type == to else self._emit(at, "reshape", [value], to)
        own = [[t.shape[axis] for axis in group] for group in groups if len(group) > 1]
        rest = [t.shape[group[0]] for group in groups if len(group) == 1]
        if op is not None and op.name == "load" and self._loaded(value):
            guard = None if op.guard is None else self.moved(op.guard, groups, op)
            new = Op("load", [self.moved(v, groups, op) for v in op.operands],
                     dict(op.attributes), (to,), guard, op.span)
            self._place(op, new)
            return new.result
        if op is None or (op.name not in ("splat", "constant") and (
                all(n == 1 for n in rest) or all(n == 1 for e in own for n in e))):
            return self._emit(at, "reshape", [value], to)
        if op.name in ("splat", "constant"):
            return self._emit(at, op.name, op.operands, to, **op.attributes)
        if op.name == "broadcast":
            source = shape(op.operands[0].type)
            if all([source[axis] for axis in group] == [t.shape[axis] for axis in group]
                   or all(source[axis] == 1 for axis in group) for group in groups):
                return self._emit(at, "broadcast", [self.moved(op.operands[0], groups, at)], to)
        elif op.info.elementwise and op.pure and op.guard is None:
            operands = [self.moved(v, groups, at) for v in op.operands]
            new = Op(op.name, operands, dict(op.attributes), tuple(
                Tile(r.type.element, merged) for r in op.results if isinstance(r.type, Tile)),
                None, op.span)
            self._place(at, new)
            for old, made in zip(op.results, new.results, strict=True):
                self.known[at, old, merged] = made
            return new.results[op.results.index(value)]
        return self._emit(at, "reshape", [value], to)

    def _emit(self, at: Op, name: str, operands: list[Value], to: Tile, **attributes: object
              ) -> Value:
        new = Op(name, list(operands), dict(attributes), (to,), None, at.span)
        self._place(at, new)
        return new.result

    def _place(self, at: Op, new: Op) -> None:
        block = self.block_of[at]
        block.ops.insert(block.ops.index(at), new)
        self.block_of[new] = block
