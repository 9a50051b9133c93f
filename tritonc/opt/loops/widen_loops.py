"""widen_loops: a loop from row to row that adds up short tiles takes several rows in an iteration.

    acc += x[r * C + c]                             acc of [128] floats

Before:  head: %r = phi [0], [%r + 1]           After:  head: %r = phi [0], [%r + 32]
               %s = phi [%s0], [%s1]                          %p = phi [-0.0], [%p1]
               %r < %n                                        %r < %n
         body: %t = load <128> of row %r                body: %rows = %r + 0 ... 32
               %s1 = fadd %s, %t                              %t = load <32, 128> where %rows < %n
         exit: ... %s                                         %p1 = fadd %p, %t
                                                        exit: %q = reduce %p {axes = 0}
                                                              %s = fadd %s0, %q

What is in flight is what one iteration loads, and a short row is too little to keep memory busy.
So all tiles of the loop get one more axis, in front, of as many iterations: threads have something
to load, warps share the iterations, and the loop ends so much earlier.  Sums get another order,
which is the compiler's, as those of `late_sums`; least and greatest elements and bits have none.

Legal if iterations depend on each other by counters and by sums that the loop does not read, and if
nothing else leaves the loop.  Loads beyond the last iteration are masked; elements there are chosen
away unless they add nothing.  A counter addresses memory: such indices do not wrap."""

from tritonc.analysis.column_loops import walks_rows
from tritonc.analysis.counters import Counter, counter_of, iterations
from tritonc.analysis.loop_totals import may_reorder, place_behind
from tritonc.analysis.row_loops import same_for_all
from tritonc.analysis.values import constant_of, slice_of, speculatable, tile_loads
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, make_phi
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.rules import neutral
from tritonc.ir.types import I32, I64, Tile, Type, element, scalar, shape
from tritonc.opt.loops.picks import Pick, first_of, picks_of
from tritonc.records import NamedTuple

# Elements of a tile that keep memory busy.  Mean and variance of columns from sums, H200, sources
# with tiles of columns row by row and by rows and columns: 8192 x 8192 floats 680 us; 32 x 128 75,
# 32 x 64 74, 8 x 128 143 (torch 118); 65536 x 1024 5167; 310, 275, 975 (torch 188).
ELEMENTS, MOST, LEAST = 4096, 64, 4
_TESTS = {1: ("slt", "sle", "ult", "ule"), -1: ("sgt", "sge")}
_SHAPES = frozenset("splat broadcast reshape trans reduce".split())
_KEEPS_ZERO = frozenset("fneg fabs sqrt trunc floor ceil rint round sext zext truncate sitofp "
                        "uitofp fptosi fptoui fpcast".split())
_ZERO_OF_ZEROS = frozenset("fadd fsub fmul add sub mul and or xor".split())


class _Sum(NamedTuple):
    """A phi, what makes its next value step by step, and how."""

    phi: Op
    steps: list[Op]
    kind: str


class _Wide(NamedTuple):
    """A loop whose iterations may run together: how it counts, what else moves, its sums."""

    counter: Counter
    moving: list[Op]
    sums: list[_Sum]
    picks: list[Pick]


def widen_loops(kernel: Kernel, context: Context) -> bool:
    """Widen the loops from row to row that load little in an iteration."""
    changed = False
    for loop in Cfg(kernel).loops:
        times = _times(loop)
        found = _legal(kernel, loop) if times >= LEAST else None
        if found is not None:
            context.remark("widen_loops", f"{times} iterations run as one, on larger tiles",
                           loop.header.terminator.span)
            _widen(kernel, loop, found, times)
            changed = True
    return changed


def _times(loop: Loop) -> int:
    """How many iterations together load enough; 1 for a loop that is no row's."""
    if loop.parent is not None or loop.body is None:
        return 1
    if not same_for_all(loop) or not walks_rows(loop, False) or _gathers(loop) or (
            iterations(loop, 2 * MOST) is not None):  # such as the taps of a filter
        return 1
    largest = max(v.type.size for op in loop.ops() for v in op.results if isinstance(v.type, Tile))
    times = min(MOST, ELEMENTS // largest)
    return 1 << times.bit_length() - 1 if times > 1 else 1


def _gathers(loop: Loop) -> bool:
    """Whether what an iteration loads says where it loads more, as of a sparse matrix: threads hide
    that, of which there are fewer by several rows.  2^20 rows of 32 numbers by columns on an H200:
    199 us by 512 threads, 32 rows at once, 149 by 128."""
    inside = set(loop.ops())
    return any(made.name == "load" for op in tile_loads(inside)
               for made in slice_of(op.operands[:1], inside))


# ---- legality


def _legal(kernel: Kernel, loop: Loop) -> _Wide | None:
    """The loop as one whose iterations may run together, or None."""
    counter, readers, inside = counter_of(loop), uses(kernel), set(loop.ops())
    if counter is None or counter.predicate not in _TESTS[1 if counter.step > 0 else -1] \
            or counter.limit.op in inside or scalar(counter.limit.type) not in (I32, I64):
        return None
    moving: list[Op] = []
    sums: list[_Sum] = []
    picks = picks_of(loop, counter, readers)
    picked = {phi for pick in picks for phi in pick.phis}
    for phi in loop.header.phis():
        if phi in picked:
            continue
        total = _sum(phi, loop, inside, readers)
        if total is not None:
            sums.append(total)
        elif _moves(phi, loop, inside):
            moving.append(phi)
        else:
            return None
    left = {total.phi for total in sums} | picked
    if not left or any(reader not in inside for op in inside - left for result in op.results
                       for reader in readers.get(result, ())):
        return None
    if not all(_may_widen(op) for op in inside if op.name != "phi" and not op.info.terminator):
        return None
    return _Wide(counter, moving, sums, picks)


def _sum(phi: Op, loop: Loop, inside: set[Op], readers: dict[Value, list[Op]]) -> _Sum | None:
    """The phi as a sum that the loop adds to and does not read."""
    value, last, steps = phi.result, loop.next(phi), list[Op]()
    while value is not last:
        found = [op for op in readers.get(value, ()) if op in inside]
        if len(found) != 1 or (steps and readers[value] != found):
            return None
        (op,) = found
        if op.guard is not None or list(op.operands).count(value) != 1 \
                or not may_reorder(op.name, op.result.type) or (steps and op.name != steps[0].name):
            return None
        steps.append(op)
        value = op.result
    return _Sum(phi, steps, steps[0].name) if steps and readers.get(last) == [phi] else None


def _moves(phi: Op, loop: Loop, inside: set[Op]) -> bool:
    """Whether the phi moves by the same step each time."""
    after = loop.next(phi).op
    return after is not None and after.name in ("add", "sub", "addptr") \
        and after.operands[0] is phi.result and after.operands[1].op not in inside \
        and element(after.operands[1].type) in (I32, I64)


def _may_widen(op: Op) -> bool:
    if op.guard is not None and op.name != "load":
        return False
    if op.name == "load":
        given = op.guard.op if op.guard is not None else None
        return not op.attributes.get("volatile") and (op.guard is None or (
            given is not None and given.name == "cmpp" and op.guard is given.results[0]))
    return (op.info.elementwise or op.name in _SHAPES or not op.operands) and speculatable(op)


# ---- the rewrite


class _Widener:
    """Makes operations of `times` iterations from those of one."""

    def __init__(self, kernel: Kernel, loop: Loop, times: int) -> None:
        assert loop.preheader is not None and loop.latch is not None
        self.times = times
        self.inside = set(loop.ops())
        span = loop.header.terminator.span
        self.before = Builder(loop.preheader, len(loop.preheader.ops) - 1, span)
        self.body = Builder(Block("body"), None, span)
        self.wide: dict[Value, Value] = {}
        self.masked: dict[tuple[Op | None, tuple[int, ...]], Op] = {}
        self.zeros: set[Value] = set()  # 0 in iterations that do not come
        self.lane: Value | None = None

    def type(self, t: Type) -> Tile:
        return Tile(element(t), (self.times, *shape(t)))

    def of(self, value: Value) -> Value:
        """The value in all iterations; one from outside of the loop is the same in each."""
        if value not in self.wide:
            op = value.op
            assert op is None or op not in self.inside, value
            self.wide[value] = self.same(value) if op is None or op.name != "cmpp" else (
                self.predicates(op, shape(value.type)).results[op.results.index(value)])
        return self.wide[value]

    def same(self, value: Value) -> Value:
        number = constant_of(value)
        if number is not None:
            return self.before.constant(number, self.type(value.type))
        if not isinstance(value.type, Tile):
            return self.before.value("splat", value, type=self.type(value.type))
        return self.before.spread(value, (1, *value.type.shape), (self.times, *value.type.shape))

    def nothing(self, kind: str, value: Value) -> Value:
        """What changes no sum of the kind, in all iterations of a value."""
        t = self.type(value.type)
        return self.before.constant(neutral(kind, scalar(t)), t)

    def carry(self, loop: Loop, phi: Op, start: Value) -> Op:
        """A phi of what so many iterations each have in place of the one that all have."""
        assert loop.preheader is not None and loop.latch is not None
        new = make_phi([start, start], [loop.preheader, loop.latch], phi.result.name, phi.span)
        self.wide[phi.result] = new.result
        return new

    def spread(self, value: Value, extents: tuple[int, ...]) -> Value:
        """What each iteration has, a scalar, in every element of its tile."""
        if len(shape(value.type)) > 1 or not extents:
            return value
        return self.body.spread(value, (self.times, *[1] * len(extents)), (self.times, *extents))

    def predicates(self, given: Op | None, extents: tuple[int, ...]) -> Op:
        """The predicates of a condition, the first one only in iterations that come."""
        if (given, extents) not in self.masked:
            assert self.lane is not None
            condition = self.spread(self.lane, extents)
            if given is not None:
                own = self.spread(self.of(given.operands[0]), extents)
                condition = self.body.value("and", own, condition)
            self.masked[given, extents] = self.body.emit("cmpp", condition)
        return self.masked[given, extents]

    def operation(self, op: Op) -> None:
        """Put the operation of all iterations into the body."""
        self.body.span = op.span
        if op.name == "load":
            self.load(op)
            return
        if not op.operands:  # the same in each iteration
            copies = dict[Value, Value]()
            self.before.insert(*copy_ops([op], copies))
            new = [self.same(copies[op.result])]
        elif op.name == "cmpp":
            new = list(self.predicates(op, shape(op.operands[0].type)).results)
        else:
            attributes, values = dict(op.attributes), [self.of(v) for v in op.operands]
            if op.name == "splat":
                new = [self.spread(values[0], shape(op.result.type))]
            else:
                if op.name == "trans":
                    order = attributes["permutation"]
                    attributes["permutation"] = (0, *(axis + 1 for axis in order))
                elif op.name == "reduce":
                    attributes["axes"] = tuple(axis + 1 for axis in attributes["axes"])
                new = [self.body.value(op.name, *values, type=self.type(op.result.type),
                                       **attributes)]
            self.note_zero(op, new[0])
        for old, value in zip(op.results, new, strict=True):
            value.name = value.name or old.name
            self.wide[old] = value

    def load(self, op: Op) -> None:
        given = op.guard.op if op.guard is not None else None
        yes, no = self.predicates(given, shape(op.result.type)).results
        place = self.of(op.operands[0])
        value = self.body.value("load", place, guard=yes, **op.attributes)
        if op.guard is None:
            zero = self.before.constant(0, value.type)
            value = self.body.value("psi", yes, value, no, zero)
            self.zeros.add(value)
        self.wide[op.result] = value

    def note_zero(self, op: Op, new: Value) -> None:
        """Remember whether the result is 0 in iterations that do not come."""
        def zero(value: Value) -> bool:
            return self.wide.get(value) in self.zeros or constant_of(value) == 0

        if op.name == "psi":
            first = op.operands[0].op  # its first predicate holds in those that come alone
            found = len(op.operands) == 4 and first is not None and first.name == "cmpp" \
                and list(first.results) == list(op.operands[0::2]) and zero(op.operands[3])
        elif op.name in _ZERO_OF_ZEROS:
            found = all(map(zero, op.operands)) or (op.name == "and" and any(
                map(zero, op.operands)))
        else:
            found = op.name in _KEEPS_ZERO | _SHAPES - {"reduce"} and zero(op.operands[0])
        if found:
            self.zeros.add(new)


def _widen(kernel: Kernel, loop: Loop, found: _Wide, times: int) -> None:
    header, latch, before = loop.header, loop.latch, loop.preheader
    assert latch is not None and before is not None
    make = _Widener(kernel, loop, times)
    numbers = make.before.value("range", start=0, stop=times)
    steps = [(phi, _move(make, loop, phi, numbers)) for phi in found.moving]
    counter = found.counter
    make.lane = make.body.value("icmp", make.of(counter.phi.result), make.of(counter.limit),
                                predicate=counter.predicate)
    partial = {total.phi: make.carry(loop, total.phi, make.nothing(total.kind, total.phi.result))
               for total in found.sums}
    shares = {phi: make.carry(loop, phi, make.same(loop.first(phi)))  # all begin alike
              for pick in found.picks for phi in pick.phis}
    made = {step: total for total in found.sums for step in total.steps}
    tests = {pick.test for pick in found.picks}
    for op in (op for block in loop.blocks for op in block.ops):
        if op in made:
            _add(make, op, made[op])
        elif op.name != "phi" and not op.info.terminator:
            make.operation(op)
        if op in tests:
            comes = make.spread(make.lane, shape(op.result.type))
            make.wide[op.result] = make.body.value("and", make.wide[op.result], comes)
    for phi, value in steps:
        phi.operands = [value if source is latch else old
                        for old, source in zip(phi.operands, phi.blocks, strict=True)]
    for total in found.sums:
        partial[total.phi].operands[1] = make.wide[total.steps[-1].result]
    for phi, share in shares.items():
        share.operands[1] = make.wide[loop.next(phi)]
    latch.ops = [*make.body.block.ops, latch.terminator]
    outside = place_behind(kernel, Cfg(kernel), loop)
    behind, replaced = Builder(outside, 0, header.terminator.span), dict[Value, Value]()
    for total in found.sums:
        start = loop.first(total.phi)
        whole = behind.value("reduce", partial[total.phi].result, kind=total.kind, axes=(0,))
        replaced[total.phi.result] = result = behind.value(total.kind, start, whole)
        result.name = total.phi.result.name
    for pick in found.picks:
        all_shares = [shares[phi].result for phi in pick.phis]
        function = first_of(pick, counter.step)
        combined = behind.emit("reduce_with", *all_shares, axis=0, function=function)
        for phi, result in zip(pick.phis, combined.results, strict=True):
            replaced[phi.result] = result
            result.name = phi.result.name
    partial |= shares
    header.ops = [partial.get(op, op) for op in header.ops]
    kernel.replace(replaced)


def _move(make: _Widener, loop: Loop, phi: Op, numbers: Value) -> Value:
    """Give the phi's values in all iterations; what it is after them."""
    after = loop.next(phi).op
    assert after is not None
    name, (value, step) = after.name, after.operands
    e, extents = element(step.type), shape(step.type)
    index = numbers if e == I32 else make.before.value("sext", numbers, type=Tile(I64, (
        make.times,)))
    if extents:
        index = make.before.spread(index, (make.times, *[1] * len(extents)), (make.times, *extents))
    offsets = index if constant_of(step) == 1 else make.before.value("mul", index, make.same(step))
    b = make.body
    if isinstance(value.type, Tile):
        own = b.spread(value, (1, *extents), (make.times, *extents))
    else:
        own = b.value("splat", value, type=make.type(value.type))
    make.wide[value] = b.value(name, own, offsets)
    whole = make.before.value("mul", step, make.before.constant(make.times, step.type))
    return b.value(name, value, whole)


def _add(make: _Widener, op: Op, total: _Sum) -> None:
    """Add what iterations give; those that do not come give nothing."""
    chain = {total.phi.result, *(step.result for step in total.steps)}
    sum_place = 0 if op.operands[0] in chain else 1
    value = op.operands[1 - sum_place]
    given, b = make.of(value), make.body
    b.span = op.span
    if total.kind not in ("fadd", "add", "or", "xor") or given not in make.zeros:
        assert make.lane is not None
        given = b.value("select", make.spread(make.lane, shape(value.type)), given,
                        make.nothing(total.kind, value))
    new = b.value(op.name, make.of(op.operands[sum_place]), given, **op.attributes)
    new.name = op.result.name
    make.wide[op.result] = new

