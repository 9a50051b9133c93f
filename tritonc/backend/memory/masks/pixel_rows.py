"""The rows of a product's operand that are pixels: where each lies, and what a mask says of it.

`flatten_rows` has the whole story.  Rows are numbers x; where they lie and what is compared are
sums of their digits (`analysis/digits`).  A mask that keeps each digit inside of its extent, moved
by a tap, keeps the row inside of all images."""

from collections.abc import Container

from tritonc.analysis.affine import Affinity
from tritonc.analysis.digits import ONE, Digits, Sum
from tritonc.analysis.facts import Facts
from tritonc.analysis.linear import Linear, emit, equal, number
from tritonc.analysis.values import SPREADS, int_of
from tritonc.backend.memory.masks.drop_selections import whole
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.ops import SWAPPED
from tritonc.ir.types import I32, Tile, element, is_float, is_int, same_axes, shape
from tritonc.records import dataclass

_NONE = Linear()
Where = tuple[int | None, ...]  # the axes of a load that those of a tile are


@dataclass
class _Digit:
    """A digit that a tap moves by `moved`, and what a mask says of it then: that it is not
    negative, and less than a limit."""

    moved: Linear = _NONE
    least: bool = False
    limit: Linear | None = None


class Rows:
    """The rows of a load as sums of digits, and how a mask bounds them."""

    def __init__(self, load: Op, digits: Digits, loop: Loop) -> None:
        self.load, self.digits, self.loop, self.affinity = load, digits, loop, Affinity()
        self.leaves: list[Value] = []  # of what is added up to the address, what has rows
        self.axis, self.plain = 0, True  # whether what is added up counts once
        self.removed: dict[Value, Where] = {}  # conditions on rows, and what their axes are
        self.shift = self.count = self.factor = _NONE

    # ---- what there is

    def address(self) -> Sum | None:
        """The sum that each row's address is, beside what differs among columns; None for others.
        """
        parts = self._parts() if self._masks() is not None else None
        if parts is None:
            return None
        self.leaves = [v for v, axis, _ in parts if axis == self.axis]
        self.plain = all(equal(factor, ONE) for _, _, factor in parts)
        total = Sum()
        for value, axis, factor in parts:
            found = self.digits.of(value) if axis in (self.axis, -1) else Sum(
                (), self._uniform(value))
            if found is None:
                return None
            total = total.plus(found, factor)
        return total if total.parts else None

    def _parts(self) -> list[tuple[Value, int, Linear]] | None:
        """The integers that are added up to the address, those that differ along one axis alone, or
        along none (-1), with it, and how often each counts; None where there are others."""
        found: list[tuple[Value, int, Linear]] = []
        stack: list[tuple[Value, Where, Linear]] = [(self.load.operands[0], (0, 1), ONE)]
        while stack:
            value, where, factor = stack.pop()
            op, dims = value.op, shape(value.type)
            moving = [axis for n, axis in zip(dims, where, strict=True)
                      if n > 1 and axis is not None]
            inner = _axes(op, where) if (
                op is not None and op.name in SPREADS) else None
            by = self._along(op.operands[1], where) if op is not None and op.name == "mul" else None
            if is_int(value.type) and len(moving) < 2:
                found.append((value, moving[0] if moving else -1, factor))
            elif op is not None and op.name in ("add", "addptr", "sub"):
                last = factor.scaled(-1) if op.name == "sub" else factor
                stack += [(op.operands[0], where, factor), (op.operands[1], where, last)]
            elif op is not None and inner is not None:
                if is_int(value.type) or (dims[:1] != () and op.name != "splat"):
                    stack.append((op.operands[0], inner, factor))
            elif op is not None and by is not None and not by.parts:
                stack.append((op.operands[0], where, factor * by.offset))
            else:
                return None
        return found

    def _uniform(self, value: Value) -> Linear:
        """What all columns add to an address in common."""
        found, op = self.digits.of(value), value.op
        if found is not None and not found.parts:
            return found.offset
        if op is None or op.name not in ("add", "reshape", "broadcast"):
            return _NONE
        return self._uniform(op.operands[0]) + (
            self._uniform(op.operands[1]) if op.name == "add" else _NONE)

    def _masks(self) -> list[tuple[Op, Where, Sum, Sum]] | None:
        """The comparisons of what follows from quotients, all of one axis, with their two sides;
        None if there are others, or none."""
        others = self.affinity.parts(self.load.guard, 2)[2]
        for self.axis in (0, 1):
            found = []
            for value, where in others:
                sides = [self._along(v, where) for v in value.op.operands] if (
                    value.op is not None and value.op.name == "icmp") else [None]
                if sides[0] is not None and sides[1] is not None and value.op is not None:
                    found.append((value.op, where, sides[0], sides[1]))
            if found and len(found) == len(others) and any(a.parts or b.parts
                                                           for _, _, a, b in found):
                return found
        return None

    def _along(self, value: Value, where: Where) -> Sum | None:
        """The sum that a value is in each row; None if it differs among columns, or is none."""
        op, dims = value.op, shape(value.type)
        moving = [where[d] for d, n in enumerate(dims) if n > 1]
        if len(moving) < 2:
            found = self.digits.of(value)
            return found if found is None or moving == [self.axis] or not found.parts else None
        if op is None or op.name not in ("add", "sub", "broadcast", "reshape", "splat", "constant"):
            return None
        if (constant := int_of(value)) is not None:
            return Sum((), number(constant))
        if op.name in ("add", "sub"):
            a, b = (self._along(v, where) for v in op.operands)
            return None if a is None or b is None else a.plus(
                b, number(1 if op.name == "add" else -1))
        inner = _axes(op, where)
        return None if inner is None else self._along(op.operands[0], inner)

    def _narrow(self, b: Builder, value: Value, where: Where) -> Value:
        """Such a value of rows alone."""
        op, t = value.op, self.digits.base.type
        moving = [where[d] for d, n in enumerate(shape(value.type)) if n > 1]
        assert isinstance(t, Tile)
        if moving == [self.axis]:
            to = Tile(element(value.type), t.shape)
            return value if value.type == to else b.value("reshape", value, type=to)
        if len(moving) < 2 or op is None or op.name == "constant":
            found = self._along(value, where)
            assert found is not None
            return b.value("splat", emit(b, found.offset, I32), type=t)
        if op.name in ("add", "sub"):
            return b.value(op.name, *(self._narrow(b, v, where) for v in op.operands))
        inner = _axes(op, where)
        assert inner is not None
        return self._narrow(b, op.operands[0], inner)

    def understood(self) -> bool:
        """Whether all rows lie one behind the other, and the mask keeps them in as many."""
        total = self.address()
        if total is None or len(total.parts) != 1 or total.divides:
            return False
        self.factor = total.parts[0][1]
        for term in total.offset.terms:
            row = Linear((term,)).divided(self.factor)
            self.shift += row if row is not None else _NONE
        return self._bounded(self._digits())

    def _digits(self) -> dict[Linear, _Digit]:
        """The digits of which the mask says something, by what x is divided by."""
        compared: list[tuple[Linear, str, Linear, Linear]] = []
        found: dict[Linear, _Digit] = {ONE: _Digit()}
        for op, where, a, b in self._masks() or ():
            self.removed[op.result] = where
            predicate = op.attributes["predicate"]
            if not a.parts:
                a, b, predicate = b, a, SWAPPED[predicate]
            first = next((d for d, f in a.parts if equal(f, ONE)), None)
            if b.parts or first is None or len(a.parts) > 2 or any(
                    (first * f + d).terms for d, f in a.parts if d is not first):
                continue
            for divisor in (first, *(d for d, _ in a.parts)):
                if not any(equal(divisor, known) for known in found):
                    found[divisor] = _Digit()
            limit = b.offset + number(int(predicate in ("sgt", "sle")))
            compared.append((next(d for d in found if equal(d, first)), predicate, a.offset, limit))
        for divisor, predicate, offset, limit in compared:
            digit = found[divisor]
            if predicate in ("sgt", "sge", "ult"):
                digit.least = True
                digit.moved = offset if predicate == "ult" else offset - limit
            elif not digit.least:
                digit.moved = offset
        for divisor, predicate, offset, limit in compared:
            if predicate in ("slt", "sle", "ult"):
                found[divisor].limit = limit - offset + found[divisor].moved
        return found

    def _bounded(self, found: dict[Linear, _Digit]) -> bool:
        """Whether digits that taps move stay digits, and rows move by as much as they do."""
        own, end = self.affinity.of(self.digits.base), None
        for bound in self.affinity.parts(self.load.guard, 2)[0]:
            if bound.axis == self.axis:
                self.removed[bound.test.result] = (self.axis,) if len(shape(
                    bound.test.result.type)) == 1 else (0, 1)
                if own is not None and equal(bound.start, own.offset):
                    end = bound.limit
        divisors = sorted(found, key=lambda d: len(d.terms[0][0]))
        moved = _NONE
        for divisor, above in zip(divisors, [*divisors[1:], None], strict=True):
            digit = found[divisor]
            extent = digit.limit if above is None else above.divided(divisor)
            moved += divisor * digit.moved
            if above is None and extent is None and end is not None and not digit.moved.terms:
                if end.divided(divisor) is None:  # a part of an image
                    return False
                self.count = end
            elif extent is None or (digit.moved.terms and not (
                    digit.least and digit.limit is not None and self._same(digit.limit, extent))):
                return False
            elif above is None:
                self.count = divisor * extent
        return self._same(moved, self.shift)

    def _same(self, a: Linear, b: Linear) -> bool:
        """Whether polynomials are equal, those that scalars stand for in their place."""
        apart = a - b
        forms = {v: form.offset for v in apart.values()
                 if (form := self.affinity.of(v)) is not None}
        return not apart.substituted(forms).terms

    # ---- what is made of it

    def rewrite(self, kernel: Kernel, cfg: Cfg, zeros: Op) -> None:
        """Load the box; select what the mask wants of it."""
        assert self.loop.preheader is not None and isinstance(self.load.result.type, Tile)
        before, block = self.loop.preheader, cfg.block_of[self.load]
        early = Builder(before, len(before.ops) - 1, self.load.span)
        total = emit(early, self.count, I32)
        made = {self.leaves[0]: self._rows(cfg, self.leaves[0])}
        at = Builder(block, block.ops.index(self.load), self.load.span)
        for leaf in self.leaves[1:]:
            made[leaf] = at.constant(0, leaf.type)
        address = _again(at, self.load.operands[0], made)
        base = self.digits.base
        row = at.value("add", base, at.value("splat", emit(at, self.shift, I32), type=base.type))
        inside = at.value("and", *(at.value("icmp", row, at.value(
            "splat", limit, type=base.type), predicate=predicate) for predicate, limit in (
                ("sgt", at.constant(-1, I32)), ("slt", total))))
        box = at.along(inside, self.axis, shape(self.load.result.type))
        facts = Facts(kernel)
        always = {bound.test.result for bound in self.affinity.parts(self.load.guard, 2)[0]
                  if bound.axis != self.axis and whole(bound.test.result, self.loop, facts)}
        kept = _without(at, self.load.guard, {*self.removed, *always})
        box, rest = at.emit("cmpp", box if kept is None else at.value("and", box, kept)).results
        loaded = at.emit("load", address, type=self.load.result.type, guard=box,
                         **self.load.attributes).result
        t = self.load.result.type
        none = at.constant(0.0 if is_float(t) else 0, t)
        loaded = at.value("psi", box, loaded, rest, none)
        wanted = None
        for value, where in self.removed.items():
            assert value.op is not None
            flat = at.value("icmp", *(self._narrow(at, v, where) for v in value.op.operands),
                            **value.op.attributes)
            wanted = flat if wanted is None else at.value("and", wanted, flat)
        assert wanted is not None
        wide = at.along(wanted, self.axis, shape(self.load.result.type))
        result = at.value("select", wide, loaded, none)
        block.ops.remove(self.load)
        block.ops.remove(zeros)
        kernel.replace({zeros.result: result})

    def _rows(self, cfg: Cfg, leaf: Value) -> Value:
        """The part of the address that rows make, behind what made it before."""
        total = Sum()
        for value in self.leaves:
            found = self.digits.of(value)
            assert found is not None
            total = total.plus(found)
        block = cfg.block_of[self.load]
        at = block.ops.index(self.load)
        if len(self.leaves) == 1 and leaf.op is not None:
            block = cfg.block_of[leaf.op]
            at = block.ops.index(leaf.op) + 1
        b, t = Builder(block, at, self.load.span), self.digits.base.type
        rows = b.value("mul", self.digits.base, b.value(
            "splat", emit(b, total.parts[0][1], I32), type=t))
        if total.offset.terms:
            rows = b.value("add", rows, b.value("splat", emit(b, total.offset, I32), type=t))
        if element(leaf.type) != I32:
            rows = b.value("sext", rows, type=Tile(element(leaf.type), shape(t)))
        return rows if rows.type == leaf.type else b.value("reshape", rows, type=leaf.type)


def _axes(op: Op, where: Where) -> Where | None:
    """What the axes of the operand of a broadcast, reshape or splat are; None where axes merge."""
    before, after = shape(op.operands[0].type), shape(op.result.type)
    if op.name == "reshape":
        places = same_axes(after, before)
        return None if places is None else tuple(None if d is None else where[d] for d in places)
    return where[:len(before)]


def _again(b: Builder, value: Value, made: dict[Value, Value]) -> Value:
    """The value with others in place of some that it is made of."""
    op = value.op
    if value not in made:
        operands = [_again(b, v, made) for v in op.operands] if op is not None and op.name in (
            "add", "addptr", "broadcast", "reshape") else []
        made[value] = value if op is None or operands == op.operands[:len(operands)] else b.value(
            op.name, *operands, type=value.type)
    return made[value]


def _without(b: Builder, mask: Value | None, removed: Container[Value]) -> Value | None:
    """The mask without some conditions; None if nothing is left."""
    op = mask.op if mask is not None else None
    if mask is None or mask in removed:
        return None
    if op is None or (op.name not in ("and", "broadcast", "reshape", "splat") and not (
            op.name == "cmpp" and mask is op.results[0])):
        return mask
    left = [_without(b, v, removed) for v in op.operands]
    kept = [v for v in left if v is not None]
    if not kept or op.name == "cmpp" or (op.name == "and" and len(kept) == 1):
        return kept[0] if kept else None
    return mask if kept == op.operands else b.value(op.name, *kept, type=mask.type)
