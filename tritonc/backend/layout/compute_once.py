"""compute_once: lanes that hold copies share the work of long functions, and of indices.

Before:  %c = cos %a : f32<8, 1, 32; #l>       After:  %b = convert_layout %a : f32<8, 1, 32; #once>
                                                       %d = cos %b : f32<8, 1, 32; #once>
                                                       %c = convert_layout %d : f32<8, 1, 32; #l>

A tile that is broadcast later, such as the angles of all heads, lies where its reader's elements
do: lanes that differ along the broadcast axis hold, and compute, the same elements.  In #once each
of these lanes has a part of the registers; shuffles bring the results to all.  Done where that
takes fewer instructions, by the plan of the conversions.  An index is not brought to #once but made
there, and a quotient of a quotient stays there: the image, row and column of each of 16 pixels of a
thread are 48 shuffles then, not 48 divisions.

Beside products it is a whole slice of indices, of which only the ends are brought:

Before:  %c = sdiv %k, 9 : i32<32; #l>         After:  %c = sdiv %k, 9 : i32<32; #once>
         %r = srem %k, 9 : i32<32; #l>                 %r = srem %k, 9 : i32<32; #once>
         %a = mul %c, %HW : i32<32; #l>                %a = mul %c, %HW : i32<32; #once>
         %b = add %a, %r : i32<32; #l>                 %s = add %a, %r : i32<32; #once>
                                                       %b = convert_layout %s : i32<32; #l>

Where lanes stand along the pixels of an image, each computes the place of the same channels and
taps; where they stand along channels, several compute that of the same pixel.  That is done in
loops; before and behind them shuffles come at the wrong time (79 x 341 floats by 128 x 32 x 32 766
and 837 us on an H200), but in general bodies, whose registers count more than their speed, and
before loops that are known to be short, beside which much is computed there.  What follows from
loads is left, and what a wide access reads, of which threads compute the first element alone; and
what a loop does not change, of which the assembler keeps or makes a few constants.

After the passes that read addresses and masks."""

from collections.abc import Container, Iterable, Mapping
from functools import cache
from math import inf

from tritonc.analysis.axis import axis_info
from tritonc.analysis.counters import iterations
from tritonc.analysis.values import defined_by, int_of, slice_of
from tritonc.backend.layout.conversion import Rename, layout_of, plan_conversion, shuffle_cost
from tritonc.backend.layout.shuffle import Shuffle
from tritonc.backend.memory.versions.general import general_blocks
from tritonc.backend.pipeline.safe_divisors import never_zero
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.ir.build import Builder, behind
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.ops import DIVISIONS
from tritonc.ir.types import F64, Tile, is_int, scalar, with_layout
from tritonc.records import cached_property

# Instructions on the shortest way through a function of an f32, by ptxas 13.0 for sm_90.
_INSTRUCTIONS = {"sin": 28, "cos": 28, "erf": 24, "tanh": 20, "log": 20, "log2": 20,
                 **dict.fromkeys(DIVISIONS, 12)}  # by what others divide too
_WIDE = 4  # times as many for an f64
_SHUFFLE = 2  # instructions that go out in the time of one
_INDEX = ("range", "splat", "constant", "add", "sub", "mul")
_VARIES = ("phi", "load")
FEWEST = 4  # quotients and indices of a thread: of two, `life` spilled 196 bytes, 68 without
SHORT = 16  # iterations
_BY_NUMBER = 3  # instructions of a quotient by a number
_ONCE = 0.5  # of the instructions that may be left in general bodies where they run once
Places = tuple[tuple[int, ...], ...]  # a layout but for the shape


def compute_once(kernel: Kernel, context: Context) -> bool:
    """Let lanes share indices in kernels with products, then long functions; where these are
    approximated by an instruction or two, quotients alone."""
    known = _Known(kernel)
    changed = _indices(kernel, known)
    if not any(op.name in _INSTRUCTIONS for op in kernel.ops()):
        return changed
    cfg = Cfg(kernel)
    for block in kernel.blocks:
        chosen, parts = list[Op](), set[tuple[Value, Layout]]()
        for op in block.ops:
            layout = _shared(op, context.fast_math, parts)
            if layout is not None:
                chosen.append(op)
                parts |= {(v, layout) for v in (op.result, *op.operands)}
        if chosen:
            changed, groups = True, dict[Places, _Group]()
            for op in chosen:
                _of(groups, op, cfg, block, known).ops[op] = None
            for group in groups.values():
                group.rewrite(group.read_outside(), general=True)
    return changed


def _shared(op: Op, fast: bool, parts: Container[tuple[Value, Layout]]) -> Layout | None:
    """The layout in which lanes share the work of a function; None where that does not pay."""
    t = op.results[0].type if op.results else None
    if op.name not in _INSTRUCTIONS or not isinstance(t, Tile) or t.layout is None:
        return None
    if is_int(t):
        divisor = op.operands[1]
        if scalar(t).bits != 32 or defined_by(divisor, "splat") is None \
                or elements(t.layout) < FEWEST or (
                    _may_be_zero(op) and not is_condition(op.guard)):
            return None
    elif fast:
        return None
    layout, bits = spread(t.layout), scalar(t).bits
    ready = (op.operands[0], layout) in parts or is_index(op.operands[0])
    there = 0 if ready else exchange_cost(t.layout, layout, bits)
    back = exchange_cost(layout, t.layout, bits)
    saved = (elements(t.layout) - elements(layout)) * _INSTRUCTIONS[op.name] * (
        _WIDE if scalar(t) == F64 else 1)
    return layout if there is not None and back is not None and saved > there + back else None


def _may_be_zero(op: Op) -> bool:
    """Whether only the guard keeps a divisor from being 0."""
    return op.guard is not None and op.name in DIVISIONS and not never_zero(op.operands[1])


def is_condition(value: Value | None) -> bool:
    """Whether a predicate is a truth value that all threads have."""
    return value is not None and value.op is not None and value.op.name == "cmpp" \
        and is_index(value.op.operands[0])


def _indices(kernel: Kernel, known: "_Known") -> bool:
    """Let lanes share indices in kernels with products."""
    cfg = Cfg(kernel)
    loops = {cfg.innermost[block] for block in cfg.innermost
             if any(op.name in DOTS for op in block.ops)}
    if not loops:
        return False
    general = set(general_blocks(cfg))
    short = {loop.preheader for loop in loops if iterations(loop, SHORT) is not None}
    indices = {block: [op for op in block.ops if _is_index(op)] for block in kernel.blocks
               if block in general | short or cfg.innermost.get(block) in loops}
    if not any(indices.values()):
        return False
    infos, changed = axis_info.analyze(kernel), False
    for block, ops in indices.items():
        groups: dict[Places, _Group] = {}
        for op in ops:
            if _takes_time(op, infos):
                group = _of(groups, op, cfg, block, known)
                if all(map(group.may_read, op.operands)):
                    group.ops[op] = None
        found = [(group, ends) for group in groups.values() if (ends := group.ends())]
        for group, ends in found:
            group.rewrite(ends, block in general)
        changed |= bool(found)
    return changed


def _is_index(op: Op) -> bool:
    """Whether an operation is one on indices of which lanes have copies."""
    t = op.results[0].type if len(op.results) == 1 else None
    return isinstance(t, Tile) and t.layout is not None and op.guard is None \
        and (op.info.elementwise or op.name == "reshape") and is_int(t) \
        and scalar(t).bits in (1, 32) and elements(t.layout) >= FEWEST \
        and spread(t.layout) != t.layout and not is_index(op.result)


def _takes_time(op: Op, infos: axis_info.Infos) -> bool:
    """Whether it may be part of a slice that lanes share: no two neighbours are alike."""
    info = infos.get(op.result)
    return 1 not in layout_of(op.result).register or (
        info is not None and max(*info.contiguity, *info.constancy) == 1)


class _Known:
    """Where operations stand, and what reads values."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    @cached_property
    def places(self) -> dict[Op, Block]:
        return {op: block for block in self.kernel.blocks for op in block.ops}

    @cached_property
    def readers(self) -> dict[Value, list[Op]]:
        return uses(self.kernel)

    def add(self, op: Op, block: Block) -> None:
        self.places[op] = block
        for value in op.inputs():
            self.readers.setdefault(value, []).append(op)

    def replace(self, mapping: Mapping[Value, Value]) -> None:
        """Read mapped values, which nothing reads yet, in place of the old ones."""
        for old, new in mapping.items():
            self.readers[new] = self.readers.pop(old, [])
            for op in self.readers[new]:
                op.replace_inputs({old: new})


class _Group:
    """Operations of a block whose results threads hold alike."""

    def __init__(self, cfg: Cfg, block: Block, known: _Known) -> None:
        self.cfg, self.block, self.known = cfg, block, known
        self.ops: dict[Op, None] = {}
        self.made: dict[Value, Value] = {}

    @cached_property
    def inside(self) -> set[Op]:
        return set(self.cfg.innermost[self.block].ops())

    def may_read(self, value: Value) -> bool:
        """Whether the value is there in the other layout, or comes there at no cost to the loop."""
        op = value.op
        if not isinstance(value.type, Tile) or op in self.ops or is_index(value):
            return True
        if op is None or op.name == "phi" or value.type.layout is None:
            return False
        home, loop = self.known.places[op], self.cfg.innermost.get(self.block)
        return loop is not None and home not in loop.blocks

    def ends(self) -> list[Op]:
        """The operations whose results are to be brought; the others of the group that they follow
        from are computed only where they are shared."""
        ends = [op for op in self.read_outside() if self.changes(op)]
        while ends:
            least, found = min(((self.cost(some), some) for some in (
                ends, *([one for one in ends if one is not op] for op in ends))),
                key=lambda each: each[0])
            if found is ends:
                most = self.cost([]) * (1 if self.block in self.cfg.innermost else _ONCE)
                return ends if least < most else []
            ends = found
        return ends

    def read_outside(self) -> list[Op]:
        return [op for op in self.ops if any(
            user not in self.ops for user in self.known.readers.get(op.result, ()))]

    def changes(self, op: Op) -> bool:
        """Whether the loop computes another value each time."""
        return self.block not in self.cfg.innermost or any(
            one.name in _VARIES for one in slice_of([op.result], self.inside, _VARIES))

    def cost(self, shared: list[Op]) -> float:
        """Instructions of a thread, where the slices of some results are shared."""
        rest = self.needed(op for op in self.read_outside() if op not in shared)
        found = float(sum(_work(op) * elements(layout_of(op.result)) for op in rest))
        for op in self.needed(shared):
            found += _work(op) * elements(spread(layout_of(op.result)))
        return found + sum(map(_brought, shared))

    def needed(self, ends: Iterable[Op]) -> set[Op]:
        """The operations of the group from which some follow."""
        return slice_of((op.result for op in ends), self.ops, masks=False)

    def rewrite(self, ends: list[Op], general: bool) -> None:
        shared = self.needed(ends)
        kept = self.needed(op for op in self.read_outside() if op not in ends).difference(ends)
        known = self.known.places  # before anything is new
        old, self.block.ops = self.block.ops, []
        build, mapping = Builder(self.block), dict[Value, Value]()
        for op in old:
            build.span = op.span
            if op not in shared or op in kept:
                build.insert(op)
            if op in shared:
                operands = [self.there(build, v) for v in op.operands]
                t = op.result.type
                assert isinstance(t, Tile) and t.layout is not None
                guard = op.guard if _may_be_zero(op) else None
                self.made[op.result] = build.value(
                    op.name, *operands, type=with_layout(t, spread(t.layout)),
                    guard=guard and self.there(build, guard), **op.attributes)
            if op in ends:
                back = build.emit("convert_layout", self.made[op.result], type=op.result.type)
                if not general:  # whose many conditions live on, and have few predicates
                    back.attributes["ballot"] = True
                mapping[op.result] = back.result
        for op in self.block.ops:
            if op not in known:
                self.known.add(op, self.block)
        self.known.replace(mapping)

    def there(self, build: Builder, value: Value) -> Value:
        """A value in the other layout."""
        t, op = value.type, value.op
        if not isinstance(t, Tile):
            return value
        if value not in self.made:
            assert op is not None and t.layout is not None
            own = with_layout(t, spread(t.layout))
            if is_index(value):
                operands = [self.there(build, v) for v in op.operands]
                self.made[value] = build.value(op.name, *operands, type=own, **op.attributes)
            elif is_condition(value):
                both = build.emit("cmpp", self.there(build, op.operands[0]))
                self.made[value] = both.results[op.results.index(value)]
            elif op.name == "convert_layout" and op.operands[0].type == own:
                self.made[value] = op.operands[0]
            else:
                home, loop = self.known.places[op], self.cfg.innermost.get(self.block)
                outside = loop is not None and home not in loop.blocks
                before = behind(home, value, op.span) if outside else build
                brought = before.emit("convert_layout", value, type=own)
                self.made[value] = brought.result
                if outside:
                    self.known.add(brought, home)
        return self.made[value]


def _of(groups: dict[Places, _Group], op: Op, cfg: Cfg, block: Block, known: _Known) -> _Group:
    """The group of an operation's layout."""
    layout = layout_of(op.result)
    key = layout.register, layout.lane, layout.warp
    return groups.setdefault(key, _Group(cfg, block, known))


def is_index(value: Value, depth: int = 4) -> bool:
    """Whether a few sums of what all threads have make a tile."""
    op = value.op
    if op is None or not isinstance(value.type, Tile):
        return True
    return op.name in _INDEX and depth > 0 and all(is_index(v, depth - 1) for v in op.operands)


def elements(layout: Layout) -> int:
    return 1 << sum(map(bool, layout.register))


@cache
def spread(layout: Layout) -> Layout:
    """Registers go to lanes that hold copies."""
    register, lane = list(layout.register), list(layout.lane)
    for bit, basis in enumerate(lane):
        if not basis and any(register):
            lane[bit] = register.pop(max(i for i, one in enumerate(register) if one))
    return Layout(layout.shape, tuple(register), tuple(lane), layout.warp)


@cache
def exchange_cost(source: Layout, to: Layout, bits: int) -> float | None:
    """In instructions; None if data would change warps."""
    plan = plan_conversion(source, to, bits)
    if isinstance(plan, Rename):
        return 0
    return shuffle_cost(plan, bits) * _SHUFFLE if isinstance(plan, Shuffle) else None


def _work(op: Op) -> int:
    """Instructions of an element."""
    if op.name in DIVISIONS:
        return _INSTRUCTIONS[op.name] if int_of(op.operands[1]) is None else _BY_NUMBER
    return int(op.name != "reshape")


def _brought(op: Op) -> float:
    """What it takes to bring a result to all lanes; conditions travel by fours."""
    t = op.result.type
    assert isinstance(t, Tile) and t.layout is not None
    bits = scalar(t).bits
    cost = exchange_cost(spread(t.layout), t.layout, bits)
    return inf if cost is None else cost and cost + (elements(t.layout) if bits < 32 else 0)
