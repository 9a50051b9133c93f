"""What is computed of a product before it is stored, part by part.

Before:  %h = fadd %acc, %bias            After:  %a0 = tile_part %acc {index = 0}
         %y = tanh %h                             %h0 = fadd %a0, %bias0
         %z0 = tile_part %y {index = 0}           %y0 = tanh %h0
         shared_store %s, %z0                     shared_store %s, %y0
         %z1 = tile_part %y {index = 1}           %a1 = tile_part %acc {index = 1}
         shared_store %t, %z1                     ...

A thread holds a product's result, and beside it one part of what is made of it, never a whole tile
more.  Elementwise operations, constants, and rows or columns that are spread over the tile are
computed for each part; so are loads that nothing until the store can disturb.  What others read too
stays whole."""

from tritonc.analysis.aliases import may_alias, pointer_roots
from tritonc.backend.layout.lower_conversions import part_type
from tritonc.ir.build import make_op
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import SYNC, WRITE
from tritonc.ir.types import Tile, shape

Bits = tuple[int, ...]


def slices(kernel: Kernel, block: Block, store: Op, value: Value, bits: Bits,
           stored: bool) -> "Slices":
    """The parts of `value`, which `store` of the block stores, that `bits` of the index number.
    `stored`: each is stored before the next one is computed.  A phi behind the block may stand for
    the store."""
    readers = uses(kernel)
    before = block.ops[: block.ops.index(store) if store in block.ops else -1]
    found = {store}
    passed: list[Op] = []  # between an operation and the store
    for op in reversed(before):
        own = all(reader in found for r in op.results for reader in readers.get(r, ()))
        behind = [*passed, store] if stored else passed
        if op.results and own and (_computes(op) or _stays(kernel, op, behind)):
            found.add(op)
        passed.append(op)
    return Slices(found - {store}, value, bits)


def _computes(op: Op) -> bool:
    row = op.info
    return row.pure and op.name != "phi" and (row.elementwise or op.name in (
        "splat", "constant", "broadcast", "reshape", "convert_layout", "range"))


def _stays(kernel: Kernel, op: Op, passed: list[Op]) -> bool:
    """Whether it is a load that may be made behind all those, part by part."""
    if op.name != "load" or op.attributes.get("volatile"):
        return False
    roots = pointer_roots(kernel)
    return not any(SYNC in other.effects or (WRITE in other.effects and may_alias(
        kernel, op.operands[0], other.operands[0], roots)) for other in passed)


class Slices:
    """Parts of a value; `inside`: the operations that are computed for each part."""

    def __init__(self, inside: set[Op], value: Value, bits: Bits) -> None:
        self.inside, self.value, self.bits = inside, value, bits

    def part(self, ops: list[Op], index: int) -> Value:
        """One part of the value, by operations that join `ops`."""
        self.begin(ops, {})
        return self.of(self.value, index)

    def begin(self, ops: list[Op], known: dict[tuple[Value, Bits], Value]) -> None:
        """The next parts are those of one index; some are `known`."""
        self.ops, self.known = ops, dict(known)

    def of(self, value: Value, index: int) -> Value:
        """A part of a value of the same extents."""
        return self._part(value, self.bits, index)

    def _part(self, value: Value, bits: Bits, index: int) -> Value:
        t = value.type
        if not bits or not isinstance(t, Tile):
            return value
        if (value, bits) not in self.known:
            self.known.update(self._make(value, bits, index))
        return self.known[value, bits]

    def _make(self, value: Value, bits: Bits, index: int) -> dict[tuple[Value, Bits], Value]:
        op = value.op
        operands = self._operands(op, bits, index) if op in self.inside and op is not None else None
        if op is None or operands is None or not all(_in_registers(r, bits) for r in op.results):
            part = make_op("tile_part", [value], part_type(value.type, bits),
                           bits=bits, index=index)
            self.ops.append(part)
            return {(value, bits): part.result}
        guard = None if op.guard is None else self._part(op.guard, bits, index)
        new = Op(op.name, operands, dict(op.attributes),
                 tuple(part_type(r.type, bits) for r in op.results), guard, op.span)
        self.ops.append(new)
        for old, made in zip(op.results, new.results, strict=True):
            made.name = old.name
        return {(old, bits): made for old, made in zip(op.results, new.results, strict=True)}

    def _operands(self, op: Op, bits: Bits, index: int) -> list[Value] | None:
        """Of the operation on one part; None if it is not made on parts."""
        if op.name in ("splat", "constant"):
            return list(op.operands)
        if op.name == "broadcast":
            return [self._spread(op, bits, index)]
        if op.name == "reshape":
            extents = (shape(v.type) for v in (op.operands[0], op.result))
            if len({tuple(n for n in e if n != 1) for e in extents}) != 1:
                return None
        elif not (op.info.elementwise or op.name == "load"):
            return None
        if any(isinstance(v.type, Tile) and not _in_registers(v, bits) for v in op.inputs()):
            return None
        return [self._part(v, bits, index) for v in op.operands]

    def _spread(self, op: Op, bits: Bits, index: int) -> Value:
        """The part of what is broadcast: bits along the new axes number equal parts."""
        source, before, after = op.operands[0], shape(op.operands[0].type), shape(op.result.type)
        kept, number, to, stride = [], 0, 1, 1
        for old, new in reversed(list(zip(before, after, strict=True))):
            for bit in bits:
                if stride <= bit < stride * new and old == new:
                    kept.append((bit // stride * to, index >> bits.index(bit) & 1))
            stride, to = stride * new, to * old
        for place, (_, one) in enumerate(kept):
            number |= one << place
        return self._part(source, tuple(bit for bit, _ in kept), number)


def _in_registers(value: Value, bits: Bits) -> bool:
    t = value.type
    return isinstance(t, Tile) and t.layout is not None and all(
        bit in t.layout.register for bit in bits)
