"""Making operations: types inferred and checked by the typing rules as they are appended."""

from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any

from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import ROWS
from tritonc.ir.types import Tile, Type, element
from tritonc.source import Span


def make_op(name: str, operands: list[Value], type: Type | None = None, *,
            guard: Value | None = None, span: Span | None = None,
            blocks: list[Block] | None = None, named: str = "", **attributes: Any) -> Op:
    """An operation with its result types inferred; `type` states what the rule cannot infer.
    `named`: the name of its one result.

    Raises rules.TypeMismatch if the operands do not fit."""
    result_types = ROWS[name].rule([v.type for v in operands], attributes, type)
    op = Op(name, operands, attributes, result_types, guard, span, blocks)
    if named:
        op.result.name = named
    return op


class Builder:
    """Appends operations to a block, or inserts them at a position of it."""

    def __init__(self, block: Block, at: int | None = None, span: Span | None = None) -> None:
        self.block = block
        self.at = at  # None appends
        self.span = span  # of the operations to come

    def emit(self, name: str, *operands: Value, type: Type | None = None,
             guard: Value | None = None, blocks: list[Block] | None = None,
             **attributes: Any) -> Op:
        """Make an operation and place it.  Raises rules.TypeMismatch."""
        op = make_op(name, list(operands), type, guard=guard, span=self.span, blocks=blocks,
                     **attributes)
        self.insert(op)
        return op

    def insert(self, op: Op) -> None:
        if self.at is None:
            self.block.ops.append(op)
        else:
            self.block.ops.insert(self.at, op)
            self.at += 1

    def value(self, name: str, *operands: Value, type: Type | None = None,
              guard: Value | None = None, **attributes: Any) -> Value:
        """The one result of a new operation."""
        return self.emit(name, *operands, type=type, guard=guard, **attributes).result

    def constant(self, value: int | float | bool, type: Type) -> Value:
        return self.value("constant", type=type, value=value)

    def spread(self, value: Value, thin: tuple[int, ...], whole: tuple[int, ...]) -> Value:
        """A tile in the shape `thin`, then repeated along axes of which that has an extent of 1."""
        e = element(value.type)
        return self.value("broadcast", self.value("reshape", value, type=Tile(e, thin)),
                          type=Tile(e, whole))

    def along(self, value: Value, axis: int, whole: tuple[int, ...]) -> Value:
        """A tile of one axis along that axis of a larger tile."""
        thin = tuple(n if d == axis else 1 for d, n in enumerate(whole))
        return value if len(whole) == 1 else self.spread(value, thin, whole)

    def numbers(self, axis: int, whole: tuple[int, ...]) -> Value:
        """The index along an axis of a tile."""
        return self.along(self.value("range", start=0, stop=whole[axis]), axis, whole)

    def joined(self, name: str, values: Iterable[Value]) -> Value:
        """What an operation makes of values, at least one: of the first two, then of that and the
        next one.  Each is asked for when it is joined, so what makes it may be placed then."""
        return reduce(partial(self.value, name), values)


def until_unchanged(change: Callable[[], bool]) -> bool:
    """Change something as long as there is something to change; whether there was."""
    changed = False
    while change():
        changed = True
    return changed


def behind(block: Block, value: Value, span: Span | None = None) -> Builder:
    """Where a block has made a value: behind what makes it, and behind the phis."""
    at = block.ops.index(value.op) + 1 if value.op in block.ops else 0
    return Builder(block, max(at, len(block.phis())), span)


def replace_each(kernel: Kernel, name: str, make: Callable[[Op, Builder], Value | None]) -> bool:
    """Replace operations of one name: `make` emits what comes in place of each, with its span,
    and gives the value that its result becomes, or None to leave it.  Whether one was replaced."""
    mapping: dict[Value, Value] = {}
    for block in kernel.blocks:
        if not any(op.name == name for op in block.ops):
            continue
        old, block.ops = block.ops, []
        build = Builder(block)
        for op in old:
            build.span = op.span
            made = make(op, build) if op.name == name else None
            if made is None:
                build.insert(op)
            else:
                mapping[op.result] = made
    kernel.replace(mapping)
    return bool(mapping)


def follow_each(kernel: Kernel, blocks: Iterable[Block], make: Callable[[Op], list[Op]]) -> bool:
    """Put behind each operation of the blocks what `make` makes of it, whose last result all others
    read then.  Whether there is any."""
    mapping: dict[Value, Value] = {}
    added: set[Op] = set()
    for block in blocks:
        made = [(op, make(op)) for op in block.ops]
        block.ops = [one for op, new in made for one in (op, *new)]
        for op, new in made:
            if new:
                mapping[op.result] = new[-1].result
                added.update(new)
    for op in kernel.ops():
        if op not in added:
            op.replace_inputs(mapping)
    return bool(mapping)
