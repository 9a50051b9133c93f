"""share_indices: lanes that hold copies share the work of indices beside products.

Before:  %c = sdiv %k, 9 : i32<32; #l>             After:  %c = sdiv %k, 9 : i32<32; #once>
         %r = srem %k, 9 : i32<32; #l>                     %r = srem %k, 9 : i32<32; #once>
         %a = mul %c, %HW : i32<32; #l>                    %a = mul %c, %HW : i32<32; #once>
         %b = add %a, %r : i32<32; #l>                     %s = add %a, %r : i32<32; #once>
                                                           %b = convert_layout %s : i32<32; #l>

Where lanes stand along the pixels of an image, each computes the place of the same channels and
taps; where they stand along channels, several compute that of the same pixel.  In #once each of
them computes that of a part, and shuffles bring what others read to all.  `compute_once` does so
with one quotient; here it is a whole slice, of which only the ends are brought, where that takes
fewer instructions.

Done in loops; before and behind them shuffles come at the wrong time (79 x 341 floats by 128 x 32
x 32 766 and 837 us on an H200), but in general bodies, whose registers count more than their speed,
and before loops that are known to be short, beside which much is computed there.
What follows from loads is left, and what a wide access reads, of which threads compute the first
element alone.  After the passes that read addresses and masks.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from tritonc.analysis.axis import axis_info
from tritonc.analysis.counters import iterations
from tritonc.analysis.values import int_of, slice_of
from tritonc.backend.layout.compute_once import elements, exchange_cost, is_index, spread
from tritonc.backend.layout.conversion import layout_of
from tritonc.backend.memory.versions.general import general_blocks
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import DIVISIONS
from tritonc.ir.types import Tile, is_int, scalar, with_layout
from tritonc.records import NamedTuple

FEWEST = 4  # elements of a thread
SHORT = 16  # iterations
_QUOTIENT, _BY_NUMBER = 12, 3  # instructions of one
_ONCE = 0.5  # of the instructions that may be left in general bodies where they run once
Places = tuple[tuple[int, ...], ...]  # a layout but for the shape


def share_indices(kernel: Kernel, context: Context) -> bool:
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
    infos, changed, known = axis_info.analyze(kernel), False, _Known.of(kernel)
    for block, ops in indices.items():
        groups: dict[Places, _Group] = {}
        for op in ops:
            if _takes_time(op, infos):
                layout = layout_of(op.result)
                key = layout.register, layout.lane, layout.warp
                group = groups.setdefault(key, _Group(cfg, block, known))
                if all(map(group.may_read, op.operands)):
                    group.ops[op] = None
        found = [(group, ends) for group in groups.values() if (ends := group.ends())]
        for group, ends in found:
            group.rewrite(kernel, ends, block in general)
        if found:
            changed, known = True, _Known.of(kernel)
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


class _Known(NamedTuple):
    """Where operations stand, and what reads values."""

    places: dict[Op, Block]
    readers: dict[Value, list[Op]]

    @classmethod
    def of(cls, kernel: Kernel) -> _Known:
        return cls({op: block for block in kernel.blocks for op in block.ops}, uses(kernel))


class _Group:
    """Operations of a block whose results threads hold alike."""

    def __init__(self, cfg: Cfg, block: Block, known: _Known) -> None:
        self.cfg, self.block, (self.places, self.readers) = cfg, block, known
        self.ops: dict[Op, None] = {}
        self.made: dict[Value, Value] = {}

    def may_read(self, value: Value) -> bool:
        """Whether the value is there in the other layout, or is made or brought there at no cost
        to the loop."""
        op = value.op
        if not isinstance(value.type, Tile) or op in self.ops or is_index(value):
            return True
        if op is None or op.name == "phi" or value.type.layout is None:
            return False
        home, loop = self.places[op], self.cfg.innermost.get(self.block)
        return loop is not None and home not in loop.blocks

    def ends(self) -> list[Op]:
        """The operations whose results are to be brought; the others of the group that they follow
        from are computed only where they are shared."""
        ends = self.read_outside()
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
            user not in self.ops for user in self.readers.get(op.result, ()))]

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

    def rewrite(self, kernel: Kernel, ends: list[Op], general: bool) -> None:
        shared = self.needed(ends)
        kept = self.needed(op for op in self.read_outside() if op not in ends).difference(ends)
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
                self.made[op.result] = build.value(
                    op.name, *operands, type=with_layout(t, spread(t.layout)), **op.attributes)
            if op in ends:
                back = build.emit("convert_layout", self.made[op.result], type=op.result.type)
                if not general:  # whose many conditions live on, and have few predicates
                    back.attributes["ballot"] = True
                mapping[op.result] = back.result
        kernel.replace(mapping)

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
            elif op.name == "convert_layout" and op.operands[0].type == own:
                self.made[value] = op.operands[0]
            else:
                home = self.places[op]
                before = Builder(home, home.ops.index(op) + 1, op.span)
                self.made[value] = before.value("convert_layout", value, type=own)
        return self.made[value]


def _work(op: Op) -> int:
    """Instructions of an element."""
    if op.name in DIVISIONS:
        return _QUOTIENT if int_of(op.operands[1]) is None else _BY_NUMBER
    return int(op.name != "reshape")


def _brought(op: Op) -> float:
    """What it takes to bring a result to all lanes; conditions travel by fours."""
    t = op.result.type
    assert isinstance(t, Tile) and t.layout is not None
    bits = scalar(t).bits
    cost = exchange_cost(spread(t.layout), t.layout, bits)
    return inf if cost is None else cost and cost + (elements(t.layout) if bits < 32 else 0)
