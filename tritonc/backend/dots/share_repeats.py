"""A load whose tile repeats elements along an axis becomes a load of each once.

Before:  %i = sdiv (k + 0 ... 64), 8              After:  %i = k / 8 + 0 ... 8
         %p = addptr (splat %b), %i[:, newaxis]           %p = addptr (splat %b), %i[:, newaxis]
         %w = load %p : i32<64, 256>                      %v = load %p : i32<8, 256>
                                                          %w = reshape (broadcast %v) : i32<64, 256>

Weights of four bits, eight to a word, are written so: every lane of K names its word.  Addresses
that are the same in runs are told by axis information; the slice of an expression that picks the
first of each run is the expression of slices, down to ranges, whose numbers then stand further
apart.  A division by which all terms divide goes into them, that of a loop's counter becomes a
counter: then it is known how far the loop moves the tile.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from tritonc.analysis.axis_info import Infos
from tritonc.analysis.facts import Facts
from tritonc.analysis.values import int_of
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop, incoming
from tritonc.ir.core import Op, Value
from tritonc.ir.types import I32, Tile, Type, scalar, shape


def repeats(load: Op, infos: Infos, loop: Loop) -> tuple[int, int] | None:
    """The axis along which runs of the load's elements are one, and how long those are."""
    t = load.result.type
    if not isinstance(t, Tile) or load.attributes.get("volatile"):
        return None
    for axis, extent in enumerate(t.shape):
        run = _run(load.operands[0], axis, infos, loop)
        if load.guard is not None:
            run = min(run, _run(load.guard, axis, infos, loop))
        if 1 < run < extent:
            return axis, run
    return None


def _run(value: Value, axis: int, infos: Infos, loop: Loop) -> int:
    """How many neighbours along an axis are equal.

    Axis information tells it but for signed quotients, of which those of -1 and 1 are one.  Indices
    are taken not to wrap: what counts upwards from a natural number is natural.
    """
    t, op, info = value.type, value.op, infos.get(value)
    if not isinstance(t, Tile) or t.shape[axis] == 1:
        return 1 << 30
    least = info.constancy[axis] if info is not None else 1
    if op is None or least == t.shape[axis]:
        return least
    if op.name in ("broadcast", "reshape"):
        source = _source_axis(op, axis)
        return least if source is None else max(least, _run(op.operands[0], source, infos, loop))
    if op.name == "sdiv" and (by := int_of(op.operands[1])) and by & by - 1 == 0:
        inner = infos.get(op.operands[0])
        if inner is not None and _natural(op.operands[0], loop):
            return max(least, gcd(inner.contiguity[axis], inner.divisibility[axis], by))
        return least
    if not ALL_OPS[op.name].elementwise and op.name != "cmpp":
        return least
    return max(least, min(_run(v, axis, infos, loop) for v in op.operands))


def _natural(value: Value, loop: Loop) -> bool:
    """Whether the number is not negative, if no sum wraps."""
    op = value.op
    if op is None:
        return False
    number = int_of(value)
    if number is not None:
        return number >= 0
    if op.name in ("splat", "broadcast", "reshape"):
        return _natural(op.operands[0], loop)
    if op.name == "range":
        return bool(op.attributes["start"] >= 0)
    if op.name in ("add", "mul"):
        return all(_natural(v, loop) for v in op.operands)
    if op.name == "phi" and op in loop.header.ops and loop.preheader is not None \
            and loop.latch is not None:
        step = incoming(op, loop.latch).op
        return step is not None and step.name == "add" and step.operands[0] is value and (
            (int_of(step.operands[1]) or 0) > 0) and _natural(incoming(op, loop.preheader), loop)
    return False


def _source_axis(op: Op, axis: int) -> int | None:
    """The axis of the operand that an axis of a broadcast's or reshape's result is."""
    before, after = shape(op.operands[0].type), shape(op.result.type)
    if op.name == "broadcast":
        return axis
    places = [d for d, n in enumerate(before) if n > 1]
    if [n for n in before if n > 1] != [n for n in after if n > 1]:
        return None
    return places[sum(n > 1 for n in after[:axis])]


class SharedLoad:
    """The rewriting of one load.  `cfg` stays right: operations are added only."""

    def __init__(self, load: Op, axis: int, run: int, cfg: Cfg, facts: Facts) -> None:
        self.load, self.axis, self.run, self.cfg, self.facts = load, axis, run, cfg, facts
        self.loop: Loop | None = cfg.innermost.get(cfg.block_of[load])
        self.added: dict[Op, list[Op]] = {}  # behind each operation
        self.made: dict[tuple[Value, int], Value] = {}

    def apply(self) -> Value | None:
        """Make the narrow load; gives what reads like the old one.  None if it cannot be."""
        load = self.load
        pointer = self.narrow(load.operands[0], self.axis)
        guard = self.narrow(load.guard, self.axis) if load.guard is not None else None
        if pointer is None or (load.guard is not None and guard is None):
            return None
        extents = shape(load.result.type)
        e, few = scalar(load.result.type), self.thin(extents)
        thin = Op("load", [pointer], dict(load.attributes), (Tile(e, few),), guard, load.span)
        thin.result.name = load.result.name
        at = self.axis + 1
        apart = make_op("reshape", [thin.result], Tile(e, (*few[:at], 1, *few[at:])))
        wide = make_op("broadcast", [apart.result], Tile(e, (*few[:at], self.run, *few[at:])))
        whole = make_op("reshape", [wide.result], Tile(e, extents))
        self.added.setdefault(load, []).extend([thin, apart, wide, whole])
        for op, new in self.added.items():
            block = self.cfg.block_of[op]
            last = max(block.ops.index(op), len(block.phis()) - 1)
            block.ops[last + 1 : last + 1] = new
            self.cfg.block_of.update((one, block) for one in new)
        return whole.result

    def thin(self, extents: tuple[int, ...], axis: int | None = None) -> tuple[int, ...]:
        axis = self.axis if axis is None else axis
        return tuple(n // self.run if d == axis else n for d, n in enumerate(extents))

    def add(self, after: Op, name: str, operands: list[Value], t: Type | None = None,
            **attributes: Any) -> Value:
        op = make_op(name, operands, t, span=after.span, table=ALL_OPS, **attributes)
        self.added.setdefault(after, []).append(op)
        return op.result

    def constant(self, after: Op, t: Type, number: int) -> Value:
        op = make_op("constant", [], t, value=number)
        self.added.setdefault(after, []).append(op)
        return op.result

    # slices

    def narrow(self, value: Value, axis: int) -> Value | None:
        """The elements 0, run, 2 run, ... along an axis."""
        t, op = value.type, value.op
        if not isinstance(t, Tile) or t.shape[axis] == 1:
            return value
        if t.shape[axis] % self.run or op is None:
            return None
        if (value, axis) not in self.made:
            found = self._narrow(op, value, t, axis)
            if found is None:
                return None
            self.made[value, axis] = found
        return self.made[value, axis]

    def _narrow(self, op: Op, value: Value, t: Tile, axis: int) -> Value | None:
        to = Tile(t.element, self.thin(t.shape, axis))
        if op.name == "constant":
            return self.constant(op, to, op.attributes["value"])
        if op.name == "splat":
            return self.add(op, "splat", op.operands, to)
        if op.name == "range":
            plain = self.add(op, "range", [], to, start=0, stop=to.shape[0])
            found = self.add(op, "mul", [plain, self.constant(op, to, self.run)])
            if op.attributes["start"]:
                found = self.add(op, "add", [found, self.constant(op, to, op.attributes["start"])])
            return found
        if op.name in ("broadcast", "reshape"):
            source = _source_axis(op, axis)
            part = None if source is None else self.narrow(op.operands[0], source)
            return None if part is None else self.add(op, op.name, [part], to)
        info = ALL_OPS[op.name]
        if not info.elementwise and op.name != "cmpp":
            return None
        parts = [self.narrow(v, axis) for v in op.operands]
        known = [part for part in parts if part is not None]
        if op.guard is not None or len(known) != len(parts) or not info.pure:
            return None
        if op.name == "sdiv":
            divisor = int_of(op.operands[1])
            exact = self.divided(op.operands[0], known[0], divisor, op) if divisor else None
            if exact is not None:
                return exact
        if op.name == "icmp":  # of multiples: their quotients compare so too
            sides = [self.divided(old, part, self.run, op)
                     for old, part in zip(op.operands, known, strict=True)]
            if all(side is not None for side in sides):
                known = [side for side in sides if side is not None]
        new = Op(op.name, known, dict(op.attributes), tuple(
            Tile(scalar(r.type) if op.name == "cmpp" else t.element, to.shape)
            for r in op.results), None, op.span)
        self.added.setdefault(op, []).append(new)
        return new.results[op.results.index(value)]

    # divisions

    def divided(self, old: Value, new: Value, by: int, after: Op) -> Value | None:
        """new / by, term by term; `old` is what `new` is the slice of."""
        op, made = old.op, new.op
        if op is None or made is None:
            return None
        number = int_of(new)
        if number is not None:
            return self.constant(after, new.type, number // by) if number % by == 0 else None
        if made.name == "mul" and (factor := int_of(made.operands[1])) is not None:
            if factor % by:
                return None
            if factor == by:
                return made.operands[0]
            return self.add(after, "mul", [made.operands[0],
                                           self.constant(after, new.type, factor // by)])
        if made.name == "splat":
            part = self.counter(made.operands[0], by)
            return None if part is None else self.add(after, "splat", [part], new.type)
        if made.name == "add" and op.name == "add" and self.facts.sum_fits(*op.operands):
            parts = [self.divided(a, b, by, after)
                     for a, b in zip(op.operands, made.operands, strict=True)]
            if all(part is not None for part in parts):
                return self.add(after, "add", [part for part in parts if part is not None])
        return None

    def counter(self, value: Value, by: int) -> Value | None:
        """A number by which `by` divides, or a counter of the loop in such steps: divided by it."""
        phi, loop = value.op, self.loop
        if loop is None or loop.preheader is None or loop.latch is None \
                or self.facts.factor(value) % by or scalar(value.type) != I32:
            return None
        if (value, -by) in self.made:
            return self.made[value, -by]
        if phi is None or self.cfg.block_of[phi] not in loop:
            found = self.quotient(value, by)
        else:
            step = incoming(phi, loop.latch).op if phi in loop.header.phis() else None
            if step is None or step.name not in ("add", "sub") or step.operands[0] is not value \
                    or (length := int_of(step.operands[1])) is None or length % by:
                return None
            new = Op("phi", [self.quotient(incoming(phi, loop.preheader), by)], {}, (I32,),
                     blocks=[loop.preheader])
            new.result.name = value.name
            by_one = make_op("constant", [], I32, value=length // by)
            following = make_op(step.name, [new.result, by_one.result])
            new.operands.append(following.result)
            new.blocks.append(loop.latch)
            loop.header.ops.insert(0, new)
            loop.latch.ops[-1:-1] = [by_one, following]
            self.cfg.block_of.update({new: loop.header, by_one: loop.latch, following: loop.latch})
            found = new.result
        self.made[value, -by] = found
        return found

    def quotient(self, value: Value, by: int) -> Value:
        """value / by, before the loop."""
        assert self.loop is not None and self.loop.preheader is not None
        number = int_of(value)
        divisor = make_op("constant", [], I32, value=by if number is None else number // by)
        op = make_op("sdiv", [value, divisor.result]) if number is None else divisor
        self.loop.preheader.ops[-1:-1] = dict.fromkeys([divisor, op])
        self.cfg.block_of.update({divisor: self.loop.preheader, op: self.loop.preheader})
        return op.result
