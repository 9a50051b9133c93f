"""addresses that a loop computes anew are split into a fixed tile and a scalar offset.

    body: %i = add %r, (splat %k)             pre:  %q = addptr %p, %r
          %a = addptr %p, %i            ->    body: %a = addptr %q, (splat (sext %k))

`strength_reduce` leaves pointers that the program moves in this form; here it is made of pointers
that the program computes from the loop's counter.  Each part of the address is written as

    a tile that does not change in the loop  +  one scalar for all elements

by the laws of a ring, which hold in integers that wrap:  (a + s) + (b + t) = (a + b) + (s + t),
(a + s) * c = a * c + s * c for an invariant uniform c;  reshapes and broadcasts move the tile only.

A widening ends the ring: sext (a + s) = sext a + sext s only if a + s does not leave the narrow
type, and the offset of an `addptr` is widened so.  `Facts.sum_fits` must prove it; it does for
`k + (0 ... 32)` in a loop by steps of 32.  Where there is no proof, and where an offset has no such
form at all (looked up in a table), it stays in the loop, *loose*; of the former, multiplications
go.  Offsets of a pointer may be added in any order, so that the fixed ones come first.

An address is changed only if the loop then computes fewer elements of tiles.  Masks are left alone.
Needs preheaders."""

from tritonc.analysis.facts import Facts
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import I64, Tile, Type, element, with_element
from tritonc.opt.addresses.moved_ops import MovedOps
from tritonc.records import NamedTuple


def hoist_addresses(kernel: Kernel, context: Context) -> bool:
    """Split the addresses of loads, stores and atomics in innermost loops."""
    cfg = Cfg(kernel)
    if not cfg.loops:
        return False
    facts, users = Facts(kernel), uses(kernel)
    mapping: dict[Value, Value] = {}
    for block in cfg.order:
        loop = cfg.innermost.get(block)
        if loop is None or loop.preheader is None:
            continue
        for op in list(block.ops):
            if op.name != "addptr" or not isinstance(op.result.type, Tile):
                continue
            if any(user.name != "addptr" for user in users.get(op.result, ())):
                split = _Split(cfg, facts, loop, loop.preheader, op)
                found = split.run()
                if found is not None:
                    mapping[op.result] = found
                    split.place(block)
    kernel.replace(mapping)
    return bool(mapping)


class _Parts(NamedTuple):
    """A tile of integers as tile + splat of scalar; what is missing is zero."""

    tile: Value | None
    scalar: Value | None


class _Address(NamedTuple):
    """A tile of pointers as fixed + sext of each loose offset + splat of scalar (i64)."""

    fixed: Value
    loose: tuple[Value, ...] = ()
    scalar: Value | None = None


_SHAPES = ("broadcast", "reshape", "trans")


class _Split(MovedOps):
    """The attempt to split one address."""

    def __init__(self, cfg: Cfg, facts: Facts, loop: Loop, preheader: Block, op: Op) -> None:
        super().__init__(cfg, loop, preheader, op)
        self.facts = facts

    def run(self) -> Value | None:
        """The new address; None if there is nothing to gain."""
        address = self.pointer(self.op.result)
        if address is None:
            return None
        found = address.fixed
        for offset in address.loose:
            found = self.make("addptr", found, offset)
        if address.scalar is not None:
            shaped = with_element(self.op.result.type, I64)
            found = self.make("addptr", found, self.make("splat", address.scalar, type=shaped))
        return found if self.gains() else None

    def moved(self, op: Op, operand: Value) -> Value:
        """A reshape, broadcast, transposition or splat of another operand."""
        type = with_element(op.result.type, element(operand.type))
        return self.make(op.name, operand, type=type, **op.attributes)

    # pointers

    def pointer(self, p: Value) -> _Address | None:
        """The form of a tile of pointers; None if no part of it is fixed."""
        if self.invariant(p):
            return _Address(p)
        op = p.op
        assert op is not None
        if op.name == "splat":
            return _Address(self.moved(op, op.operands[0])) if self.invariant(op.operands[0]) \
                else None
        if op.name in _SHAPES:
            inner = self.pointer(op.operands[0])
            if inner is None:
                return None
            fixed = self.moved(op, inner.fixed)
            return _Address(fixed, tuple(self.moved(op, v) for v in inner.loose), inner.scalar)
        if op.name != "addptr":
            return None
        base = self.pointer(op.operands[0])
        if base is None:
            return None
        self.replaces(op)
        return self.plus(base, op.operands[1])

    def plus(self, base: _Address, offset: Value) -> _Address:
        """base + offset."""
        before = dict(self.now), len(self.outside), len(self.inside)
        parts = self.integer(offset)
        if parts is None:
            return self.kept(base, offset, before)
        tile, scalar = parts
        if tile is None or scalar is None or element(offset.type) == I64 \
                or self.facts.sum_fits(tile, scalar):
            fixed = base.fixed if tile is None else self.make("addptr", base.fixed, tile)
            wide = scalar
            if scalar is not None and scalar.type != I64:
                wide = self.make("sext", scalar, type=I64)
            return _Address(fixed, base.loose, self.one("add", base.scalar, wide))
        if not any(op.name == "mul" for op in self.now if op not in before[0]):
            return self.kept(base, offset, before)
        total = self.make("add", tile, self.make("splat", scalar, type=offset.type))
        return base._replace(loose=(*base.loose, total))

    def kept(self, base: _Address, offset: Value,
             before: tuple[dict[Op, int], int, int]) -> _Address:
        """base + offset as it is; what was made for its parts since `before` is forgotten."""
        self.now, outside, inside = before
        del self.outside[outside:], self.inside[inside:]
        return base._replace(loose=(*base.loose, offset))

    # integers

    def integer(self, v: Value) -> _Parts | None:
        """tile + scalar of a tile of integers, in its own width."""
        op = v.op
        if op is not None and op.name == "splat":
            return _Parts(None, op.operands[0])
        if op is not None and op.name == "constant":
            number = op.attributes["value"]
            return _Parts(None, self.make("constant", type=element(v.type), value=number))
        if op is None or self.invariant(v):
            return _Parts(v, None)
        if op.name == "range":
            return _Parts(self.make("range", type=v.type, **op.attributes), None)
        if op.name in _SHAPES:
            parts = self.integer(op.operands[0])
            if parts is None or parts.tile is None:
                return parts
            return _Parts(self.moved(op, parts.tile), parts.scalar)
        if op.name not in ("add", "sub", "mul", "sext", "zext"):
            return None
        self.replaces(op)
        found = [self.integer(x) for x in op.operands]
        if None in found:
            return None
        operands = [parts for parts in found if parts is not None]
        if op.name == "mul":
            return self.product(operands[0], operands[1], v.type)
        if op.name in ("sext", "zext"):
            return self.widen(op, operands[0])
        a, b = operands
        return _Parts(self.one(op.name, a.tile, b.tile), self.one(op.name, a.scalar, b.scalar))

    def one(self, name: str, a: Value | None, b: Value | None) -> Value | None:
        """a + b or a - b, of tiles or of scalars, where a missing one is zero."""
        if b is None:
            return a
        if a is None:
            if name == "add":
                return b
            a = self.make("constant", type=b.type, value=0)
        return self.make(name, a, b)

    def product(self, a: _Parts, b: _Parts, type: Type) -> _Parts | None:
        """(a.tile + a.scalar) * b.scalar for an invariant b.scalar; or the operands exchanged."""
        if a.tile is None:
            a, b = b, a
        if a.tile is None or b.tile is not None or b.scalar is None:
            return None
        if b.scalar.op in self.inside or not self.invariant(b.scalar):
            return None
        factor = self.make("splat", b.scalar, type=type)
        scalar = self.make("mul", a.scalar, b.scalar) if a.scalar is not None else None
        return _Parts(self.make("mul", a.tile, factor), scalar)

    def widen(self, op: Op, parts: _Parts) -> _Parts | None:
        """ext (tile + scalar) = ext tile + ext scalar, if the sum fits the narrow type."""
        tile, scalar = parts
        fits = self.facts.sum_fits if op.name == "sext" else self.facts.unsigned_sum_fits
        if tile is not None and scalar is not None and not fits(tile, scalar):
            return None
        to = element(op.result.type)
        wide_tile = self.make(op.name, tile, type=op.result.type) if tile is not None else None
        wide = self.make(op.name, scalar, type=to) if scalar is not None else None
        return _Parts(wide_tile, wide)
