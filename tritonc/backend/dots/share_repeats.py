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

from typing import Any

from tritonc.analysis.counters import add_counter, step_of
from tritonc.analysis.facts import Facts, scalar_of
from tritonc.analysis.pieces import source_axis
from tritonc.analysis.repeats import Repeats, Runs
from tritonc.analysis.values import QUOTIENTS, int_of
from tritonc.backend.dots.together import large
from tritonc.backend.target import matrix
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I1, I32, Tile, Type, element, scalar, shape


def share_repeats(kernel: Kernel) -> bool:
    """Load once what tiles repeat, in loops around products of computed operands, axis by axis."""
    done = set[Op]()
    while loads := [load for load in loads_of_products(kernel, Cfg(kernel)) if load not in done]:
        cfg, facts = Cfg(kernel), Facts(kernel)
        runs = Runs(kernel, cfg)
        replaced: dict[Value, Value] = {}
        for load in loads:
            found = runs.of_load(load, large(cfg.block_of[load]))
            new = SharedLoad(load, found, cfg, facts).apply() if found is not None else None
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


class SharedLoad:
    """The rewriting of one load.  `cfg` stays right: operations are added only."""

    def __init__(self, load: Op, repeats: Repeats, cfg: Cfg, facts: Facts) -> None:
        self.load, self.cfg, self.facts = load, cfg, facts
        self.axis, self.run, self.starts, self.pieces, self.inner, self.distinct = repeats
        self.place = 0  # in each run
        self.loop: Loop | None = cfg.innermost.get(cfg.block_of[load])
        self.added: dict[Op, list[Op]] = {}  # behind each operation
        self.made: dict[tuple[Value, int, int], Value] = {}

    def apply(self) -> Value | None:
        """Make the narrow load, of each piece of runs; gives what reads like the old one.  None if
        it cannot be."""
        load, whole = self.load, None
        for place in self.starts:
            self.place = place
            wide = self.wide()
            if wide is None:
                return None
            whole = wide if whole is None else self.add(
                load, "select", [self.from_place(place), wide, whole])
        for op, new in self.added.items():
            block = self.cfg.block_of[op]
            last = max(block.ops.index(op), len(block.phis()) - 1)
            block.ops[last + 1 : last + 1] = new
            self.cfg.block_of.update((one, block) for one in new)
        return whole

    def from_place(self, first: int) -> Value:
        """Where elements stand at this place of their run, or behind it."""
        extents = shape(self.load.result.type)
        n, load = extents[self.axis], self.load
        line = tuple(n if d == self.axis else 1 for d in range(len(extents)))
        t = Tile(I32, (n,))
        place = self.add(load, "and", [self.add(load, "range", [], t, start=0, stop=n),
                                       self.constant(load, t, self.run - 1)])
        behind = self.add(load, "icmp", [place, self.constant(load, t, first)], predicate="sge")
        return self.add(load, "broadcast", [self.add(load, "reshape", [behind], Tile(I1, line))],
                        Tile(I1, extents))

    def wide(self) -> Value | None:
        """A load of the element at a place of each run, for all of the run."""
        load = self.load
        pointer = self.narrow(load.operands[0], self.axis)
        guard = self.narrow(load.guard, self.axis) if load.guard is not None else None
        if pointer is None or (load.guard is not None and guard is None):
            return None
        extents = shape(load.result.type)
        e, few, run = scalar(load.result.type), self.thin(extents), self.run
        if self.distinct:
            few = tuple(self.distinct if d == self.axis else n for d, n in enumerate(extents))
            pointer, guard = self.beside(pointer, few), guard and self.add(
                load, "broadcast", [guard], Tile(I1, few))
            run //= self.distinct
        thin = Op("load", [pointer], dict(load.attributes), (Tile(e, few),), guard, load.span)
        thin.result.name = load.result.name
        whole = thin.result
        self.added.setdefault(load, []).append(thin)
        if few[self.axis] == 1:
            return self.add(load, "broadcast", [whole], Tile(e, extents))
        inner = (self.inner,) if self.inner > 1 else ()
        before, after = (*few[:self.axis], few[self.axis] // self.inner), (
            *inner, *few[self.axis + 1:])
        for name, wide in (("reshape", (*before, 1, *after)), ("broadcast", (*before, run, *after)),
                           ("reshape", extents)):
            whole = self.add(load, name, [whole], Tile(e, wide))
        return whole

    def beside(self, pointer: Value, extents: tuple[int, ...]) -> Value:
        """The addresses of neighbours, from that of the first."""
        load, n = self.load, self.distinct
        line = tuple(n if d == self.axis else 1 for d in range(len(extents)))
        numbers = self.add(load, "range", [], Tile(I32, (n,)), start=0, stop=n)
        wide = self.add(load, "broadcast", [self.add(load, "reshape", [numbers], Tile(I32, line))],
                        Tile(I32, extents))
        first = self.add(load, "broadcast", [pointer], Tile(element(pointer.type), extents))
        return self.add(load, "addptr", [first, wide])

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
        """The elements 0, run, 2 run, ... along an axis, each `place` behind."""
        t, op = value.type, value.op
        if not isinstance(t, Tile) or t.shape[axis] == 1:
            return value
        if t.shape[axis] % self.run or op is None:
            return None
        key = value, axis, self.place
        if key not in self.made:
            found = self._behind(op, value, axis) or self._narrow(op, value, t, axis)
            if found is None:
                return None
            self.made[key] = found
        return self.made[key]

    def _behind(self, op: Op, value: Value, axis: int) -> Value | None:
        """The first elements and how far they are, where that is known."""
        known = self.pieces.offsets(value, axis) if self.pieces and self.place else None
        if known is None:
            return None
        place, self.place = self.place, 0
        first = self.narrow(value, axis)
        self.place = place
        if first is None or not known[place]:
            return first
        return self.add(op, "add", [first, self.constant(op, first.type, known[place])])

    def _narrow(self, op: Op, value: Value, t: Tile, axis: int) -> Value | None:
        to = Tile(t.element, self.thin(t.shape, axis))
        first = self.pieces.elements.at(value, (0,) * len(to.shape)) if (
            self.pieces is not None and to.size == 1 and not self.place) else None
        if first is not None:
            return self.constant(op, to, first)
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
            source = source_axis(op, axis)
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
        if (value, -by, 0) in self.made:
            return self.made[value, -by, 0]
        if phi is None or self.cfg.block_of[phi] not in loop:
            found = self.quotient(value, by)
        else:
            step = step_of(loop, phi) if phi in loop.header.phis() else None
            if step is None or step % by:
                return None
            found = add_counter(self.cfg, loop, self.quotient(loop.first(phi), by), step // by,
                                value.name)
        self.made[value, -by, 0] = found
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
