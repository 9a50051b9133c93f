"""How many registers a thread needs: live values by their layouts, where the most are live.

`pressure(kernel)` walks each block backwards from what is live at its end (`liveness`); what each
value takes is what `weights` says.  An elementwise operation is made register by register: its
operands and its result do not count together; a result that one reduction or elementwise operation
reads does not count at all where its operands are live until then.  To all of it come OTHERS."""

from collections.abc import Iterable
from dataclasses import field

from tritonc.analysis.kept import kept
from tritonc.analysis.registers.liveness import Liveness
from tritonc.analysis.registers.weights import Weights, by_register
from tritonc.analysis.values import MOVES, remembered
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Tile
from tritonc.records import NamedTuple
from tritonc.source import Span

OTHERS = 11  # registers: the thread's place, addresses in shared memory, what is on the way
_FEW = 2  # registers that may as well stay, for what can be computed of them anew
_BY_ELEMENT = ("reduce", "load", "store", "shared_store", "async_copy")


class Pressure(NamedTuple):
    """The most registers of a thread, where that is, and the values that are live there with the
    registers of each, the largest first."""

    registers: int = 0
    span: Span | None = None
    live: tuple[tuple[Value, float], ...] = field(default=(), repr=False)


def pressure(kernel: Kernel, blocks: Iterable[Block] | None = None) -> Pressure:
    """Of the kernel, or only while it runs some of its blocks.  Tiles have their layouts."""
    return estimated(kernel).pressure(blocks)


class Estimate(Weights):
    """What is live where, and how many registers each value takes: a snapshot of the kernel."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.cfg = Cfg(kernel)
        self.live = Liveness(self.cfg, self.root)

    def again(self) -> "Estimate":
        """The estimate where operations have moved within their blocks since, or others are to come
        piece by piece."""
        found = object.__new__(Estimate)
        found.readers, found.cfg, found.live = self.readers, self.cfg, self.live
        return found

    def registers(self, block: Block) -> int:
        return round(self.peak(block)[0]) + OTHERS

    def pressure(self, blocks: Iterable[Block] | None = None) -> Pressure:
        """Of the kernel, or only while it runs some of its blocks."""
        most, where, top = 0.0, None, list[tuple[Value, float]]()
        for block in self.cfg.order if blocks is None else blocks:
            found, op, live = self.peak(block)
            if found > most:
                most, where = found, op
                top = [(v, w) for v in live if (w := self.weight(v))]
        top.sort(key=lambda pair: (-pair[1], self.live.number(pair[0])))
        return Pressure(round(most) + OTHERS, where.span if where else None, tuple(top))

    def between_blocks(self) -> Pressure:
        """The most where one block ends: nothing that is live there can be put off, so that a
        thread has so many registers or spills."""
        most, where, top = 0.0, None, list[tuple[Value, float]]()
        for block in self.cfg.order:
            held = [(v, w) for v in self.live.at_end(block) if (w := self.weight(v)) > _FEW]
            if (total := sum(w for _, w in held)) > most:
                most, where, top = total, block, held
        top.sort(key=lambda pair: (-pair[1], self.live.number(pair[0])))
        span = next((v.op.span for v, _ in top if v.op is not None and v.op.span), None)
        if span is None and where is not None:
            span = next((op.span for op in where.ops if op.span is not None), None)
        return Pressure(round(most), span, tuple(top))

    @remembered()
    def peak(self, block: Block) -> tuple[float, Op | None, set[Value]]:
        """The peak in a block, at which operation, and what is live there."""
        live, weight = self.live.at_end(block), self.weight
        roots = self.live.roots.get  # of what reachable blocks read, all are there
        ops = [op for op in block.ops if op.name != "phi"]
        read = [[root for value in (op.operands if op.guard is None else op.inputs())
                 if (root := roots(value)) is not None] for op in ops]
        passing = self._passing(ops, read, live)
        total = sum(map(weight, live))
        cut: dict[Value, float] = {}  # of values of which only parts are read from here on
        most, where, top = total, ops[-1], set(live)
        for op, inputs in zip(reversed(ops), reversed(read), strict=True):
            made = 0.0
            for result in op.results:
                if cut:
                    total -= cut.pop(result, 0)
                if result in live:
                    live.discard(result)
                    total -= 0 if result in passing else weight(result)
                if result not in passing and result in self.readers and (
                        roots(result) is result):
                    made += weight(result)
            after = total
            if op.name == "wgmma_wait":
                inputs = [*inputs, *(root for value in _in_flight(op)
                                     if (root := roots(value)) is not None)]
            for root in inputs:
                if root in live:
                    continue
                if op.name == "tile_part":
                    more = min(weight(root) - cut.get(root, 0), weight(op.result))
                    cut[root] = cut.get(root, 0) + more
                    total += more
                    continue
                live.add(root)
                if root not in passing:
                    total += weight(root) - (cut.pop(root, 0) if cut else 0)
            here = max(total, after + made) + self.beside(op)
            if here > most:
                most, where, top = here, op, set(live)
        return most, where, top

    def _passing(self, ops: list[Op], read: list[list[Value]], at_end: set[Value]) -> set[Value]:
        """The values that are read once, in the block of these operations (and what each reads),
        while what they are made of is live."""
        place = {op: i for i, op in enumerate(ops)}
        last: dict[Value, int] = {}
        for i, inputs in enumerate(read):
            for root in inputs:
                last[root] = i
        last.update(dict.fromkeys(at_end, len(ops)))
        until: dict[Value, int] = {}  # the first place at which something of it may be dead
        for op, inputs in zip(ops, read, strict=True):
            if len(op.results) != 1 or not isinstance(op.results[0].type, Tile) or not (
                    by_register(op) or op.name == "shared_load") or op.results[0] in at_end:
                continue
            reader = self._reader(op.results[0])
            if reader is None or reader not in place:
                continue
            if op.name == "shared_load":  # a partial result is added as it comes
                between = ops[place[op] + 1 : place[reader]]
                if reader.name == "reduce" and all(one.pure for one in between):
                    until[op.result] = place[reader]
                continue
            end = min([until.get(root, last[root]) for root in inputs
                       if root in until or self.weight(root) > _FEW], default=len(ops))
            if end > place[reader]:
                until[op.result] = end
        return set(until)

    def _reader(self, value: Value) -> Op | None:
        """The one operation that reads the tile, if it takes it element by element."""
        found = self.readers.get(value, [])
        while len(found) == 1 and found[0].name in MOVES:
            found = self.readers.get(found[0].result, [])
        if len(found) != 1 or not (by_register(found[0]) or found[0].name in _BY_ELEMENT):
            return None
        return found[0]


def _in_flight(op: Op) -> list[Value]:
    """What products that are waited for have read from registers until then."""
    return [v for value in op.operands if value.op is not None and value.op.name == "wgmma"
            for v in value.op.operands[:2] if isinstance(v.type, Tile)]


@kept
def estimated(kernel: Kernel) -> Estimate:
    return Estimate(kernel)
