"""A load whose tile repeats elements along an axis becomes a load of each once.

Before:  %i = sdiv (k + 0 ... 64), 8              After:  %i = k / 8 + 0 ... 8
         %p = addptr (splat %b), %i[:, newaxis]           %p = addptr (splat %b), %i[:, newaxis]
         %w = load %p : i32<64, 256>                      %v = load %p : i32<8, 256>
                                                          %w = reshape (broadcast %v) : i32<64, 256>

Weights of four bits, eight to a word, are written so: every lane of K names its word.  Addresses
that are the same in runs are told by axis information; the slice of an expression that picks the
first of each run is the expression of slices, down to ranges, whose numbers then stand further
apart.  A division by which all terms divide goes into them, that of a loop's counter becomes a
counter: then it is known how far the loop moves the tile."""

from collections.abc import Callable
from math import gcd
from typing import Any

from tritonc.analysis.axis import axis_info
from tritonc.analysis.counters import add_counter, step_of
from tritonc.analysis.facts import Facts, scalar_of
from tritonc.analysis.multiples import Multiples, MultiplesNeeded, joined
from tritonc.analysis.signs import Needs, known_signs
from tritonc.analysis.values import QUOTIENTS, int_of, origin, slice_of
from tritonc.backend.dots.together import large
from tritonc.backend.target import matrix
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I32, Tile, Type, same_axes, scalar, shape

MOST_ASSUMED = 64  # of where masks end; other sizes than multiples of it are more common


class Runs:
    """How many neighbours of a tile are equal, by axis.

    Axis information tells it but for signed quotients, of which those of -1 and 1 are one.  Indices
    are taken not to wrap: what counts upwards from a natural number is natural.

    `assumable`: whether of a scalar it may be assumed that it is a multiple: groups are as long as
    a scalar says, rows of what is divided as a whole (`(n * K + k) / 2`) begin at its multiples,
    and masks end where one says.  `assumed`: what has been assumed, and `natural` of what it has
    been that it is not negative."""

    def __init__(self, kernel: Kernel, cfg: Cfg,
                 assumable: Callable[[Value], bool] = lambda v: False) -> None:
        self.infos, self.assumable = axis_info.analyze(kernel), assumable
        self.signs = known_signs(kernel, cfg, kernel.entry)
        self.signs.testable = assumable
        self.assumed: Multiples = {}
        self.natural: Needs = {}

    def of_load(self, load: Op, gathers: bool) -> tuple[int, int] | None:
        """The axis along which runs of the load's elements are one, and how long those are; of
        addresses that follow from loaded tiles, which are there late, only if `gathers`."""
        t = load.result.type
        if not isinstance(t, Tile) or load.attributes.get("volatile") or (not gathers and any(
                op.name == "load" and shape(op.result.type)
                for op in slice_of(load.operands[:1], None, ("load",), False))):
            return None
        for axis, extent in enumerate(t.shape):
            before = dict(self.assumed), dict(self.natural)
            run = self.of(load.operands[0], axis, extent)
            if load.guard is not None and run > 1:
                run = min(run, self.of(load.guard, axis, run))
            if run > 1 and extent % run == 0:
                return axis, run
            self.assumed, self.natural = before
        return None

    def of(self, value: Value, axis: int, most: int, assume: int = MOST_ASSUMED) -> int:
        """How many neighbours along an axis are equal, at most `most`; of where a mask ends it is
        assumed that it is a multiple of `assume` at most."""
        t, op, info = value.type, value.op, self.infos.get(value)
        if not isinstance(t, Tile) or t.shape[axis] == 1:
            return most
        least = min(most, info.constancy[axis] if info is not None else 1)
        if op is None or least == most:
            return least
        if op.name in ("broadcast", "reshape"):
            source = _source_axis(op, axis)
            return least if source is None else max(least, self.of(op.operands[0], source, most))
        if op.guard is not None:
            most = self.of(op.guard, axis, most)
        if op.name in ("sdiv", "udiv", "icmp"):
            (a, b), inner = op.operands, self.infos.get(op.operands[0])
            needs = self.signs.needs(a) if op.name == "sdiv" else {}
            if needs is None or not all(map(self.assumable, needs)):
                return least
            if inner is not None:
                run, by = gcd(inner.contiguity[axis], most), int_of(b)
                if op.name == "icmp" or by is None:
                    run = gcd(run, inner.divisibility[axis])
                    wanted = run if op.name != "icmp" else min(run, assume)
                    run = gcd(run, self.factor(b, wanted))
                else:
                    run = self.begins(a, axis, gcd(run, by))
                if run > least:
                    self.natural.update(needs)
                return max(least, run)
        if not op.info.elementwise and op.name != "cmpp":
            return least
        return max(least, min(self.of(v, axis, most) for v in op.operands))

    def begins(self, value: Value, axis: int, run: int) -> int:
        """How long runs are that begin at multiples of their length, or may be assumed to."""
        needs = MultiplesNeeded(self.infos, self.assumable).of_integer(value, axis, run, run)
        if needs is None:
            return gcd(run, self.infos[value].divisibility[axis])
        self.assumed = joined(self.assumed, needs)
        return run

    def factor(self, value: Value, wanted: int) -> int:
        """What divides a value that all elements have, or may be assumed to."""
        info = self.infos.get(value)
        known = info.every if info is not None else 1
        value = origin(value)
        if known % wanted == 0 or isinstance(value.type, Tile) or not self.assumable(value):
            return known
        self.assumed[value] = max(wanted, self.assumed.get(value, 1))
        return wanted


def share_repeats(kernel: Kernel) -> bool:
    """Load once what tiles repeat, in loops around products of computed operands, axis by axis."""
    done = set[Op]()
    while loads := [load for load in loads_of_products(kernel, Cfg(kernel)) if load not in done]:
        cfg, facts = Cfg(kernel), Facts(kernel)
        runs = Runs(kernel, cfg)
        replaced: dict[Value, Value] = {}
        for load in loads:
            found = runs.of_load(load, large(cfg.block_of[load]))
            new = SharedLoad(load, *found, cfg, facts).apply() if found is not None else None
            if new is not None:
                replaced[load.result] = new
        kernel.replace(replaced)
        if not replaced:
            break
        done.update(loads)  # those that were replaced, nobody reads any more
    return bool(done)


def loads_of_products(kernel: Kernel, cfg: Cfg) -> list[Op]:
    """Loads of tiles in innermost loops around products whose operands threads may compute in
    registers: on wgmma, or by mma.sync from 16 bits or fewer (`fragments`)."""
    loops = {cfg.innermost.get(cfg.block_of[op]) for op in kernel.ops() if op.name == "dot" and (
        row := matrix.BY_NAME.get(op.attributes.get("instruction", ""))) is not None
        and (row.kind == matrix.WGMMA or row.operand.bits <= 16)}
    return [op for block in cfg.order if (loop := cfg.innermost.get(block)) is not None
            and loop in loops for op in block.ops
            if op.name == "load" and isinstance(op.result.type, Tile)]


def _source_axis(op: Op, axis: int) -> int | None:
    """The axis of the operand that an axis of a broadcast's or reshape's result is."""
    before, after = shape(op.operands[0].type), shape(op.result.type)
    if op.name == "broadcast":
        return axis
    places = same_axes(before, after)
    return None if places is None else places[axis]


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
        at, whole = self.axis + 1, thin.result
        self.added.setdefault(load, []).append(thin)
        if few[self.axis] == 1:
            whole = self.add(load, "broadcast", [whole], Tile(e, extents))
        else:
            for name, wide in (("reshape", (*few[:at], 1, *few[at:])),
                               ("broadcast", (*few[:at], self.run, *few[at:])),
                               ("reshape", extents)):
                whole = self.add(load, name, [whole], Tile(e, wide))
        for op, new in self.added.items():
            block = self.cfg.block_of[op]
            last = max(block.ops.index(op), len(block.phis()) - 1)
            block.ops[last + 1 : last + 1] = new
            self.cfg.block_of.update((one, block) for one in new)
        return whole

    def thin(self, extents: tuple[int, ...], axis: int | None = None) -> tuple[int, ...]:
        axis = self.axis if axis is None else axis
        return tuple(n // self.run if d == axis else n for d, n in enumerate(extents))

    def add(self, after: Op, name: str, operands: list[Value], t: Type | None = None,
            **attributes: Any) -> Value:
        op = make_op(name, operands, t, span=after.span, **attributes)
        self.added.setdefault(after, []).append(op)
        return op.result

    def constant(self, after: Op, t: Type, number: int) -> Value:
        return self.add(after, "constant", [], t, value=number)

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
        info = op.info
        if not info.elementwise and op.name != "cmpp":
            return None
        parts = [self.narrow(v, axis) for v in op.operands]
        known = [part for part in parts if part is not None]
        guard = None if op.guard is None else self.narrow(op.guard, axis)
        if (op.guard is not None and guard is None) or len(known) != len(parts) or not info.pure:
            return None
        if op.name in QUOTIENTS:
            divisor = int_of(op.operands[1])
            exact = self.divided(op.operands[0], known[0], divisor, op) if divisor else None
            if exact is not None:
                return exact
        if op.name == "icmp" and self.runs_on(op, known):
            return self.constant(op, Tile(t.element, to.shape), True)
        if op.name == "icmp":  # of multiples: their quotients compare so too
            sides = [self.divided(old, part, self.run, op)
                     for old, part in zip(op.operands, known, strict=True)]
            if all(side is not None for side in sides):
                known = [side for side in sides if side is not None]
        new = Op(op.name, known, dict(op.attributes), tuple(
            Tile(scalar(r.type) if op.name == "cmpp" else t.element, to.shape)
            for r in op.results), guard, op.span)
        self.added.setdefault(op, []).append(new)
        return new.results[op.results.index(value)]

    def runs_on(self, compare: Op, operands: list[Value]) -> bool:
        """Whether a comparison of these is the test that the loop's body runs after."""
        if self.loop is None or len(self.loop.header.successors) != 2:
            return False
        test = self.loop.header.terminator.operands[0].op
        return test is not None and test.name == "icmp" and self.loop.header.successors[
            0] in self.loop and self.cfg.block_of[self.load] is not self.loop.header and (
            test.attributes["predicate"] == compare.attributes["predicate"]) and all(
            scalar_of(mine, self.facts) is other
            for mine, other in zip(operands, test.operands, strict=True))

    # divisions

    def divided(self, old: Value, new: Value, by: int, after: Op) -> Value | None:
        """new / by, term by term; `old` is what `new` is the slice of."""
        op, made = old.op, new.op
        if op is None or made is None:
            return None
        number = int_of(new)
        if number is not None:
            return self.constant(after, new.type, number // by) if number % by == 0 else None
        if made.name == "mul" and (factor := int_of(made.operands[1])) == by:
            return made.operands[0]
        if made.name == "mul" and op.name == "mul" and (factor is None or factor % by == 0):
            for i in (1, 0):
                part = self.divided(op.operands[i], made.operands[i], by, after)
                if part is not None:
                    return self.add(after, "mul", [made.operands[1 - i], part])
            return None
        if made.name in ("broadcast", "reshape") and op.name == made.name:
            part = self.divided(op.operands[0], made.operands[0], by, after)
            return None if part is None else self.add(after, made.name, [part], new.type)
        if made.name == "splat":
            part = self.counter(made.operands[0], by)
            return None if part is None else self.add(after, "splat", [part], new.type)
        if made.name == "add" and op.name == "add":  # indices do not wrap
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
            step = step_of(loop, phi) if phi in loop.header.phis() else None
            if step is None or step % by:
                return None
            found = add_counter(self.cfg, loop, self.quotient(loop.first(phi), by), step // by,
                                value.name)
        self.made[value, -by] = found
        return found

    def quotient(self, value: Value, by: int) -> Value:
        number, factor = int_of(value), None
        if value.op is not None and value.op.name == "mul":
            factor = int_of(value.op.operands[1])
        if factor is not None and factor % by == 0 and value.op is not None:
            divisor = make_op("constant", [], I32, value=factor // by)
            op = make_op("mul", [value.op.operands[0], divisor.result])
        else:
            divisor = make_op("constant", [], I32, value=by if number is None else number // by)
            op = make_op("sdiv", [value, divisor.result]) if number is None else divisor
        home = self.cfg.order[0] if value.op is None else self.cfg.block_of[value.op]
        at = len(home.phis()) if value.op is None else max(
            home.ops.index(value.op) + 1, len(home.phis()))
        home.ops[at:at] = dict.fromkeys([divisor, op])
        self.cfg.block_of.update({divisor: home, op: home})
        return op.result
