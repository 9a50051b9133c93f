"""separate_axes: an address in a loop becomes a sum of the parts that rows, columns and counters
add.

Before:  body: %h = add (broadcast %p), (broadcast %r)     rows x columns; %p is fixed, %r is not
               %i = mul %h, (splat %W)
               %a = addptr (splat %x), %i
After:   pre:  %q = addptr (splat %x), (sext %p * %W)      rows
         body: %j = sext %r * %W                           columns
               %a = addptr (broadcast %q), (broadcast %j)

An element's address is a polynomial of its indices; where each term depends on one axis only, the
terms of an axis are summed for that axis alone, those that the loop does not change before it, and
an element costs one addition.  What is the same for all elements joins the columns, or is a scalar.

An index that a mask compares is such a sum in its own width, in which all of this holds always.

An address's sums are of 64 bits.  A sum or product of fewer bits that is an offset of an address is
taken not to wrap, as the language says; widened first, its terms add up to the same in any order.
What is no sum, product or widening is a term: a quotient, a number that is looked up.

After hoist_addresses, which does the same for what rests on proofs alone, in loops of all kinds.
Here only loops with products are served.  Of operands below 32 bits a thread has more than it can
hold addresses of 64 bits for: their offsets of 32 bits are such sums, in their own width; not those
that follow from what is loaded, of which more would change threads.  Needs preheaders."""

from __future__ import annotations

from dataclasses import field
from math import prod

from tritonc.analysis.affine import Affinity
from tritonc.analysis.digits import undivided
from tritonc.analysis.values import computed_from, int_of, origin
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import (
    I32,
    I64,
    Scalar,
    Tile,
    element,
    is_int,
    make,
    same_axes,
    scalar,
    shape,
    with_element,
)
from tritonc.opt.addresses.moved_ops import MovedOps
from tritonc.records import dataclass

Shape = tuple[int, ...]
LEAST_BITS = 32  # of an element: of narrower ones a thread has more than it can hold 64 bits for
LESS = 1.33  # so much less work must be left: 64 bits take twice the registers
_ENOUGH = 12  # terms of one address


def separate_axes(kernel: Kernel, context: Context) -> bool:
    """Separate the addresses of accesses in innermost loops with products."""
    cfg = Cfg(kernel)
    users = uses(kernel)
    mapping: dict[Value, Value] = {}
    for loop in cfg.loops:
        dots = [op for op in loop.ops() if op.name == "dot"]
        if loop.preheader is None or not dots:
            continue
        narrow = any(scalar(op.operands[0].type).bits < LEAST_BITS for op in dots)
        for block in loop.blocks:
            if cfg.innermost[block] is not loop:
                continue
            for op in list(block.ops):
                if op.name == "addptr" and isinstance(op.result.type, Tile) and any(
                        user.name == "load" or (narrow and user.name == "addptr")
                        for user in users.get(op.result, ())):
                    value = op.operands[1] if narrow else op.result
                    if value in mapping or (narrow and element(value.type) != I32):
                        continue
                elif op.name == "icmp" and len(shape(op.result.type)) > 1 \
                        and op.operands[0] not in mapping and is_int(op.operands[0].type):
                    value = op.operands[0]
                else:
                    continue
                if narrow and computed_from(value, "load"):
                    continue
                separation = _Separation(cfg, loop, loop.preheader, op, value)
                found = separation.run()
                if found is not None:
                    mapping[value] = found
                    separation.place(block)
    kernel.replace(mapping)
    return bool(mapping)


@dataclass
class _Sum:
    """Terms by the shape on which they depend, the fixed ones apart; those of the shape () are
    scalars.  A term may still have the shape before axes of extent 1 came in."""

    fixed: dict[Shape, Value] = field(default_factory=dict)
    moving: dict[Shape, Value] = field(default_factory=dict)


class _NoSum(Exception):
    """The address has no such form."""


class _Separation(MovedOps):
    """The attempt for one address."""

    def __init__(self, cfg: Cfg, loop: Loop, preheader: Block, op: Op, value: Value) -> None:
        super().__init__(cfg, loop, preheader, op)
        self.value = value
        self.rank = len(shape(value.type))
        e = element(value.type)
        self.width = e if isinstance(e, Scalar) else I64  # of the terms
        self.made: dict[Value, Value] = {}  # a value in that width

    def run(self) -> Value | None:
        """The new address; None if there is nothing to gain."""
        if is_int(self.value.type):
            found = self.index(self.integer(self.value))
        else:
            try:
                base, total = self.pointer(self.value)
            except _NoSum:
                return None
            found = self.address(base, total)
        return found if self.gains(LESS) else None

    # ---- the sum put together

    def address(self, base: Value, total: _Sum) -> Value:
        """The pointer, from a scalar or a tile and the terms."""
        whole, own = shape(self.op.result.type), shape(base.type)
        rows = max((s for s in total.fixed if s and all(a in (1, b) for a, b in zip(own, s))),
                   key=prod, default=(1,) * self.rank)
        pointer = self.shaped(base, rows) if prod(shape(base.type)) < prod(rows) else base
        rows = shape(pointer.type)
        for s in ((), rows):
            if s in total.fixed:
                term = self.shaped(total.fixed.pop(s), rows, s)
                pointer = self.make("addptr", pointer, term)
        scalar = total.moving.pop((), None)
        if not total.moving and Affinity().of(pointer) is not None:  # `step_addresses` steps it
            pointer = self.shaped(pointer, whole)
            for s, value in total.fixed.items():
                pointer = self.make("addptr", pointer, self.shaped(value, whole, s))
            return pointer if scalar is None else self.make(
                "addptr", pointer, self.shaped(scalar, whole))
        others = self.added(_Sum({}, total.moving), _Sum({}, total.fixed), "add").moving
        if scalar is not None:
            at = min(others, key=prod, default=whole)
            others = self.added(_Sum({}, others), _Sum({}, {at: self.shaped(
                scalar, shape(others[at].type) if at in others else at)}), "add").moving
        pointer = self.shaped(pointer, whole)
        for s, value in others.items():
            pointer = self.make("addptr", pointer, self.shaped(value, whole, s))
        return pointer

    def index(self, total: _Sum) -> Value:
        """The terms of an index, added."""
        whole, found = shape(self.value.type), None
        for parts in (total.fixed, total.moving):  # a scalar joins the thinnest term of its kind
            others = [s for s in parts if s]
            if () in parts and others:
                at = min(others, key=prod)
                scalar = self.shaped(parts.pop(()), shape(parts[at].type))
                parts[at] = self.make("add", parts[at], scalar)
        for s in dict.fromkeys([*total.fixed, *total.moving]):
            both = [parts[s] for parts in (total.fixed, total.moving) if s in parts]
            term = both[0] if len(both) == 1 else self.make("add", *(
                self.shaped(v, s, s) for v in both))
            term = self.shaped(term, whole, s)
            found = term if found is None else self.make("add", found, term)
        return found if found is not None else self.shaped(self.number(0, ()), whole)

    def shaped(self, value: Value, extents: Shape, key: Shape | None = None) -> Value:
        """The value in a larger shape; `key`: what its own becomes first."""
        if key and shape(value.type) != key:
            value = self.make("reshape", value, type=make(element(value.type), key))
        if shape(value.type) == extents:
            return value
        name = "broadcast" if shape(value.type) else "splat"
        return self.make(name, value, type=make(element(value.type), extents))

    # ---- pointers

    def pointer(self, p: Value) -> tuple[Value, _Sum]:
        """A pointer, of one shape or of none, and the terms to add."""
        op = p.op
        if op is not None and op.name == "broadcast":
            return self.pointer(op.operands[0])
        if op is not None and op.name == "splat" and self.invariant(op.operands[0]):
            return op.operands[0], _Sum()
        if self.invariant(p):
            return p, _Sum()
        if op is None or op.name != "addptr" or op.guard is not None:
            raise _NoSum
        base, total = self.pointer(op.operands[0])
        self.replaces(op)
        found = self.added(total, self.integer(op.operands[1]), "add")
        if len(found.fixed) + len(found.moving) > _ENOUGH:
            raise _NoSum
        return base, found

    def added(self, a: _Sum, b: _Sum, name: str) -> _Sum:
        """a + b or a - b."""
        def both(x: dict[Shape, Value], y: dict[Shape, Value]) -> dict[Shape, Value]:
            found = dict(x)
            for s, value in y.items():
                first = found.get(s)
                if first is None and name == "add":
                    found[s] = value
                    continue
                if first is None:
                    first = self.number(0, shape(value.type))
                if shape(first.type) != shape(value.type):
                    first, value = (self.shaped(v, s, s) for v in (first, value))
                pixel = undivided(first, value) if name == "add" else None
                found[s] = self.make(name, first, value) if pixel is None else (
                    self.shaped(self.wide(pixel), s, s))
            return found

        return _Sum(both(a.fixed, b.fixed), both(a.moving, b.moving))

    def number(self, value: int, s: Shape) -> Value:
        return self.make("constant", type=make(self.width, s), value=value)

    # ---- integers

    def integer(self, v: Value) -> _Sum:
        """The terms of a scalar or a tile of integers."""
        op, s = v.op, shape(v.type)
        number = int_of(v)
        if number is not None:
            return _Sum({(): self.number(number, ())})
        if op is None or op.guard is not None:
            return self.term(v, s)
        if op.name in ("splat", "broadcast"):
            return self.integer(op.operands[0])
        if op.name == "reshape":
            return self.reshaped(op)
        if self.invariant(v):
            return self.term(v, s)
        if op.name in ("add", "sub"):
            a, b = map(self.integer, op.operands)
            self.replaces(op)
            return self.added(a, b, op.name)
        if op.name == "sext" and element(op.operands[0].type).bits > 1 and self.op.name == "addptr":
            self.replaces(op)
            return self.integer(op.operands[0])
        if op.name == "mul":
            for one, other in (op.operands, op.operands[::-1]):
                factor = self.uniform(other)
                if factor is not None:
                    self.replaces(op)
                    return self.scaled(self.integer(one), factor)
        return self.term(v, s)

    def uniform(self, v: Value) -> Value | None:
        """The scalar that is in all elements and that the loop does not change, as 64 bits."""
        v = origin(v)
        number = int_of(v)
        if number is not None:
            return self.number(number, ())
        return self.wide(v) if not shape(v.type) and self.invariant(v) else None

    def scaled(self, a: _Sum, factor: Value) -> _Sum:
        def each(parts: dict[Shape, Value]) -> dict[Shape, Value]:
            return {s: self.make("mul", value, self.shaped(factor, shape(value.type)) if s
                                 else factor) for s, value in parts.items()}

        return _Sum(each(a.fixed), each(a.moving))

    def reshaped(self, op: Op) -> _Sum:
        """Terms with further axes of extent 1, or without such."""
        before, after = shape(op.operands[0].type), shape(op.result.type)
        places = same_axes(before, after)
        if places is None:
            return self.term(op.result, after)
        inner = self.integer(op.operands[0])

        def moved(parts: dict[Shape, Value]) -> dict[Shape, Value]:
            found: dict[Shape, Value] = {}
            for s, value in parts.items():
                t = tuple(1 if d is None else s[d] for d in places) if s else ()
                found[t] = value
            return found

        return _Sum(moved(inner.fixed), moved(inner.moving))

    def term(self, v: Value, s: Shape) -> _Sum:
        wide = self.wide(v)
        return _Sum({s: wide}) if self.invariant(v) else _Sum({}, {s: wide})

    def wide(self, v: Value) -> Value:
        """The value in the width of the terms."""
        if element(v.type) == self.width:
            return v
        if v not in self.made:
            self.made[v] = self.make("sext", v, type=with_element(v.type, I64))
        return self.made[v]
