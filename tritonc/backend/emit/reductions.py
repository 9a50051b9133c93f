"""Reductions and scans within a warp.

First the registers of a thread fold, in a balanced tree over row-major order; then lanes exchange
their partial results, from the lowest lane bit of the axis on, so that all of them end with the
whole. The order is fixed.  Sums and products of floats narrower than f32 accumulate in f32.

`any` and `all` of a whole tile are votes: of the lanes, or of all threads at a barrier."""

from collections.abc import Callable, Sequence
from itertools import groupby
from math import prod

from tritonc.analysis.values import axes_before, constant_of, defined_by, int_of
from tritonc.backend.emit.elements.arithmetic import combine
from tritonc.backend.emit.elements.casts import convert_float
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import literal, llvm_type
from tritonc.backend.emit.registers import members, plan_reduction, reduced_registers, tree
from tritonc.backend.emit.warps import FULL_WARP, exchange, from_lane
from tritonc.backend.layout.split_reductions import by_vote, reduced_axes
from tritonc.ir import combiner
from tritonc.ir.combiner import Combiner
from tritonc.ir.core import Op, Value
from tritonc.ir.layouts.layout import LANE_BITS, Layout, axis_bases
from tritonc.ir.layouts.layout_ops import Reduction
from tritonc.ir.numeric.numbers import fit
from tritonc.ir.rules import neutral
from tritonc.ir.types import F32, I1, I32, Scalar, scalar, shape

COUNTERS = 4  # chains of additions beside each other, each of which waits for the one before
_REDUX = {"add": "add", "smin": "min", "smax": "max", "umin": "umin", "umax": "umax",
          "and": "and", "or": "or", "xor": "xor"}


def _accumulator(kind: str, e: Scalar) -> Scalar:
    return F32 if kind in ("fadd", "fmul") and e.bits < 32 else e


def _plan(layout: Layout, op: Op) -> Reduction:
    """What combines in a reduction or scan; no warp bits do."""
    plan = plan_reduction(layout, reduced_axes(op))
    assert not plan.warp, "a reduction across warps is split before it is emitted"
    return plan


def reduce(f: FunctionEmitter, op: Op) -> None:
    if by_vote(op):
        _vote(f, op)
        return
    kind, operand = op.attributes["kind"], op.operands[0]
    e, plan = scalar(operand.type), _plan(f.layout(operand), op)
    wide, lanes, groups = _accumulator(kind, e), plan.lane, plan.groups
    names, picked = f.values[operand], reduced_registers(op, f.warps)
    done: dict[int, str] = {}
    one = _picked(op)
    chosen = defined_by(operand, "select")  # a value or 0, for each element
    counts = chosen if kind == "add" and e == I32 and chosen is not None and int_of(
        chosen.operands[2]) == 0 else None
    for i in sorted({picked[r] for r in members(f.demanded(op.result))}):
        if one is not None:
            done[i] = _of_one(f, *one, f.layout(operand), lanes, groups[i])
            continue
        items = [convert_float(f, e, wide, names[r]) for r in groups[i]]
        if counts is not None and len(items) > COUNTERS:
            items = _counted(f, counts, items, groups[i])
        total = tree(items, lambda a, b: combine(f, kind, wide, a, b))
        done[i] = convert_float(f, wide, e, _across_lanes(f, kind, wide, total, lanes))
    found = f.blank(op.result.type)
    for r in members(f.demanded(op.result)):
        found[r] = done[picked[r]]
    f.values[op.result] = found


def _counted(f: FunctionEmitter, choice: Op, items: list[str], group: Sequence[int]) -> list[str]:
    """The sums of items that are 0 where a condition does not hold: there nothing is added, which
    takes one instruction for each, and no register for a choice."""
    conditions, values = f.values[choice.operands[0]], f.values[choice.operands[1]]
    sums = items[:COUNTERS]
    for at, r in enumerate(group[COUNTERS:]):
        sums[at % COUNTERS] = f.op(
            f'call i32 asm "@$2 add.s32 $0, $0, $3;", "=r,0,b,r"(i32 {sums[at % COUNTERS]}, '
            f"i1 {conditions[r]}, i32 {values[r]})")
    return sums


def _picked(op: Op) -> tuple[Op, int, int] | None:
    """The choice of one element along an axis, which is all that a reduction finds; that axis, and
    the element's place."""
    choice, axes = op.operands[0].op, op.attributes["axes"]
    if choice is None or choice.name != "select" or len(axes) > 1:
        return None
    other, kind, e = constant_of(choice.operands[2]), op.attributes["kind"], scalar(op.result.type)
    if other is None or repr(fit(e, other)) != repr(fit(e, neutral(kind, e))):  # -0.0 is not 0.0
        return None
    place = _place(choice.operands[0], *axes)
    return None if place is None else (choice, *axes, place)


def _place(mask: Value, axis: int) -> int | None:
    """The one place along an axis where a mask holds, whatever the places along others."""
    extent, at = shape(mask.type)[axis], -1
    while (op := mask.op) is not None and op.name != "range":
        if op.name == "icmp" and op.attributes["predicate"] == "eq" and at < 0:
            number = int_of(op.operands[1])
            at = extent if number is None else number
        elif op.name in ("broadcast", "reshape"):
            before = (axes_before(op) or [None] * (axis + 1))[axis]
            if before is None:
                return None
            axis = before
        else:
            return None
        mask = op.operands[0]
    return at if 0 <= at < extent and op is not None and op.attributes["start"] == 0 else None


def _of_one(f: FunctionEmitter, choice: Op, axis: int, at: int, layout: Layout,
            lanes: tuple[int, ...], group: Sequence[int]) -> str:
    """The element that is chosen, from the register and the lane that have it.  Of two lanes both
    give the other what they have, since a second choice may ask for that."""
    step = prod(layout.shape[axis + 1:])
    held = [basis // step for basis in layout.register if basis in axis_bases(layout.shape, axis)]
    r = next(r for r in group if not (layout.at(r) // step ^ at) & sum(held))
    e, own = scalar(choice.result.type), f.values[choice.operands[1]][r]
    if len(lanes) == 1:
        here, there = f.values[choice.operands[0]][r], exchange(f, e, own, 1 << lanes[0])
        return f.op(f"select i1 {here}, {llvm_type(e)} {own}, {llvm_type(e)} {there}")
    lane = sum(1 << bit for bit in lanes if layout.lane[bit] // step & at)
    return from_lane(f, e, own, sum(1 << bit for bit in lanes), lane) if lanes else own


def _vote(f: FunctionEmitter, op: Op) -> None:
    kind, operand = op.attributes["kind"], op.operands[0]
    layout, names = f.layout(operand), f.values[operand]
    groups = plan_reduction(layout, reduced_axes(op)).groups
    own = tree([names[r] for group in groups for r in group],
                lambda a, b: combine(f, kind, I1, a, b))
    if any(layout.warp):
        found = f.vote(kind, own)
    else:
        name = {"or": "any", "and": "all"}[kind]
        found = f.convergent(f"llvm.nvvm.vote.{name}.sync", "i1", FULL_WARP, f"i1 {own}")
    f.values[op.result] = [found]


def _warp_extreme(f: FunctionEmitter, op: Op) -> None:
    kind, e = op.attributes["kind"], scalar(op.result.type)
    own = tree(list(dict.fromkeys(f.values[op.operands[0]])),
               lambda a, b: combine(f, kind, e, a, b))
    f.values[op.result] = [_across_lanes(f, kind, e, own, tuple(range(LANE_BITS)))]


def _across_lanes(f: FunctionEmitter, kind: str, e: Scalar, name: str, lanes: tuple[int, ...]
                  ) -> str:
    whole = len(lanes) == LANE_BITS and e == I32 and kind in _REDUX
    if whole and "reduce_lanes" in f.target.features:
        return f.convergent(f"llvm.nvvm.redux.sync.{_REDUX[kind]}", "i32", f"i32 {name}", FULL_WARP)
    for bit in lanes:
        name = combine(f, kind, e, name, exchange(f, e, name, 1 << bit))
    return name


# ---- reductions by a function --------------------------------------------------------------------

Names = tuple[str, ...]  # of the values that are combined at once
Join = Callable[[Names, Names], Names]


def _joined(f: FunctionEmitter, function: Combiner) -> Join:
    """What combines two elements: the function's operations, emitted anew for each pair."""
    def join(before: Names, behind: Names) -> Names:
        for value, name in zip(function.parameters, (*before, *behind), strict=True):
            f.values[value] = [name]
        for op in function.ops:
            f.emit_one(op)
        return tuple(f.values[r][0] for r in function.results)

    return join


def reduce_with(f: FunctionEmitter, op: Op) -> None:
    """As `reduce`, if the function commutes; else from the lowest bit of the axis on, each in the
    order of the elements.  All lanes compute the same, and get the same bits."""
    function, layout = combiner.read(op.attributes["function"]), f.layout(op.operands[0])
    types, groups = [scalar(v.type) for v in op.operands], _plan(layout, op).groups
    join = _joined(f, function)
    names = [f.values[v] for v in op.operands]
    picked = reduced_registers(op, f.warps)
    found = [f.blank(r.type) for r in op.results]
    done: dict[int, Names] = {}
    demanded = 0
    for result in op.results:
        demanded |= f.demanded(result)
    for i in sorted({picked[r] for r in members(demanded)}):
        items = [tuple(column[r] for column in names) for r in groups[i]]
        done[i] = _in_order(f, layout, op.attributes["axis"], function.commutative, types, items,
                            join)
    for r in members(demanded):
        for column, name in zip(found, done[picked[r]], strict=True):
            column[r] = name
    for result, column in zip(op.results, found, strict=True):
        f.values[result] = column


def _in_order(f: FunctionEmitter, layout: Layout, axis: int, commutative: bool,
              types: Sequence[Scalar], items: list[Names], join: Join) -> Names:
    """The elements of a thread, in the order of the axis, and of the lanes beside it.

    Where lanes are to combine while a thread still holds several items, each of two lanes takes
    half of the items of both: a bit of the items moves to the lanes, where it waits for its turn.
    Where elements may change places each lane has its own first; the lowest lane's bits count."""
    bits = [basis for basis in axis_bases(layout.shape, axis)
            if basis in layout.register or basis in layout.lane]
    if commutative:  # what lies in registers first
        bits.sort(key=lambda basis: basis not in layout.register)
    waiting = [layout.lane.index(b) if b in layout.lane else None for b in bits]
    while waiting:
        bit = waiting.pop(0)
        if bit is None:  # neighbours differ in the lowest one that is left
            items = [join(items[i], items[i + 1]) for i in range(0, len(items), 2)]
            continue
        upper = f.thread_bit(bit)
        if None in waiting:
            half = len(items) // 2
            kept = [_select(f, upper, types, b, a) for a, b in zip(items, items[half:])]
            given = [_select(f, upper, types, a, b) for a, b in zip(items, items[half:])]
            waiting[len(waiting) - 1 - waiting[::-1].index(None)] = bit
        else:
            kept, given = items, items
        items = [join(*_ordered(f, types, own, other, upper)) if not commutative
                 else join(own, other) for own, other in zip(
                     kept, [_exchanged(f, types, sent, bit) for sent in given], strict=True)]
    (whole,) = items
    mask = sum(1 << layout.lane.index(b) for b in bits if b in layout.lane)
    if commutative and mask:  # a sum of products may have been rounded in another order
        whole = tuple(from_lane(f, e, name, mask) for e, name in zip(types, whole, strict=True))
    return whole


def _exchanged(f: FunctionEmitter, types: Sequence[Scalar], own: Names, bit: int) -> Names:
    """The values of the lane that differs in a bit."""
    return tuple(exchange(f, e, name, 1 << bit) for e, name in zip(types, own, strict=True))


def _ordered(f: FunctionEmitter, types: Sequence[Scalar], own: Names, other: Names, upper: str
             ) -> tuple[Names, Names]:
    """The values of two lanes, the lower lane's first."""
    return _select(f, upper, types, other, own), _select(f, upper, types, own, other)


def _select(f: FunctionEmitter, condition: str, types: Sequence[Scalar], a: Names, b: Names
            ) -> Names:
    return tuple(x if x == y else f.op(f"select i1 {condition}, {llvm_type(e)} {x}, "
                                       f"{llvm_type(e)} {y}")
                 for e, x, y in zip(types, a, b, strict=True))


# ---- scans ---------------------------------------------------------------------------------------


Part = tuple[Names, str]  # neighbours combined, and an i1: there are some; "" is always


def scan(f: FunctionEmitter, op: Op) -> None:
    kind, e = op.attributes["kind"], scalar(op.operands[0].type)
    wide = _accumulator(kind, e)
    items: list[Names] = [(convert_float(f, e, wide, name),) for name in f.values[op.operands[0]]]
    done = _Scan(f, [wide], lambda a, b: (combine(f, kind, wide, a[0], b[0]),),
                 (literal(wide, neutral(kind, wide)),)).run(op, items)
    f.values[op.result] = [convert_float(f, wide, e, name) for (name,) in done]


def scan_with(f: FunctionEmitter, op: Op) -> None:
    join = _joined(f, combiner.read(op.attributes["function"]))
    items = list(zip(*(f.values[v] for v in op.operands), strict=True))
    done = _Scan(f, [scalar(v.type) for v in op.operands], join, None).run(op, items)
    for at, result in enumerate(op.results):
        f.values[result] = [names[at] for names in done]


class _Scan:
    """An inclusive scan.  `nothing` changes no element that it is joined with, and what joins
    commutes then; without it, lanes that have none before them keep what they have.

    Runs of the axis's bits, from the lowest on, lie in registers or in lanes.  Of each register
    three things are known: what the elements up to it combine to, in its block of those that differ
    in the bits so far, but for what comes before in other lanes; that; and the whole block.  A scan
    from the end goes the other way."""

    def __init__(self, f: FunctionEmitter, types: Sequence[Scalar], join: Join,
                 nothing: Names | None) -> None:
        self.f, self.types, self.join, self.nothing = f, types, join, nothing
        self.known: dict[tuple[Part, Part], Part] = {}

    def run(self, op: Op, items: list[Names]) -> list[Names]:
        layout, self.reverse = self.f.layout(op.operands[0]), bool(op.attributes.get("reverse"))
        _plan(layout, op)
        self.prefix, self.whole = list(items), list(items)
        self.before: list[Part | None] = [None] * len(items)
        bases = axis_bases(layout.shape, op.attributes["axis"])
        for in_lanes, run in groupby(bases, lambda basis: basis in layout.lane):
            if in_lanes:
                self.across_lanes([layout.lane.index(basis) for basis in run])
            else:
                self.across_registers([1 << layout.register.index(basis) for basis in run])
        self.join_before()
        return self.prefix

    def join_before(self) -> None:
        self.prefix = [self.both(before, (own, ""))[0]
                       for before, own in zip(self.before, self.prefix, strict=True)]
        self.before = [None] * len(self.before)

    def both(self, first: Part | None, second: Part | None) -> Part:
        """Two parts, one behind the other."""
        if first is None or second is None:
            found = first or second
            assert found is not None
            return found
        if (first, second) not in self.known:
            (a, some), (b, others) = first, second
            joined = self.join(a, b)
            if others:
                joined = _select(self.f, others, self.types, joined, a)
            if some:
                joined = _select(self.f, some, self.types, joined, b)
            self.known[first, second] = joined, (
                self.f.op(f"or i1 {some}, {others}") if some and others else "")
        return self.known[first, second]

    def across_registers(self, bits: list[int]) -> None:
        places = [0]
        for bit in bits:
            places += [place | bit for place in places]
        for low in range(len(self.whole)):
            if low & sum(bits):
                continue
            sofar: Part | None = None
            for r in [low | place for place in (places[::-1] if self.reverse else places)]:
                if sofar is not None:
                    self.before[r] = self.both(sofar, self.before[r])
                sofar = self.both(sofar, (self.whole[r], ""))
            assert sofar is not None
            for place in places:
                self.whole[low | place] = sofar[0]
        self.join_before()

    def across_lanes(self, bits: list[int]) -> None:
        known: dict[Names, tuple[Part, Names]] = {}
        for r, own in enumerate(self.whole):
            if own not in known:
                known[own] = self.before_lane(own, bits)
            part, self.whole[r] = known[own]
            self.before[r] = self.both(part, self.before[r])

    def before_lane(self, own: Names, bits: list[int]) -> tuple[Part, Names]:
        """What the lanes before combine to, and all lanes."""
        f, whole = self.f, own
        part = (self.nothing, "") if self.nothing else None
        for bit in bits:
            upper = f.thread_bit(bit)
            behind = f.op(f"xor i1 {upper}, true") if self.reverse else upper
            other = _exchanged(f, self.types, whole, bit)
            longer, _ = self.both((other, ""), part)
            shorter, some = part or (other, "")
            if not self.nothing:
                some = f.op(f"or i1 {some}, {behind}") if some else behind
            part = _select(f, behind, self.types, longer, shorter), some
            low, high = (whole, other) if self.nothing else _ordered(
                f, self.types, whole, other, upper)
            whole = self.join(high, low) if self.reverse else self.join(low, high)
        assert part is not None
        return part, whole


EMITTERS: dict[str, Emitter] = {
    "warp_extreme": _warp_extreme,
    "reduce": reduce, "scan": scan, "reduce_with": reduce_with, "scan_with": scan_with}
