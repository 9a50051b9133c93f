"""The least and the greatest element of tiles of indices, as polynomials of scalars.

    h + i           [64 * pid + i, 64 * pid + i + 63]
    i % W           [0, W - 1], where i is known not to be negative

Counters of loops are between their first and their last value while the loop runs.  Integers are
taken as unbounded: what is concluded of a type's numbers needs that the extremes fit."""

from tritonc.analysis.affine import Affinity
from tritonc.analysis.counters import counter_of
from tritonc.analysis.linear import Linear, number
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Op, Value
from tritonc.ir.types import shape

Extent = tuple[Linear, Linear]
_MOVES = ("reshape", "broadcast", "trans", "splat", "sext", "assume_multiple")
_DEPTH = 4  # counters that begin or end at others


class Extents:
    """Those of a kernel's values; `known` holds what else has been found."""

    def __init__(self, cfg: Cfg, affinity: Affinity) -> None:
        self.cfg, self.affinity = cfg, affinity
        self.known: dict[Value, Extent | None] = {}

    def of(self, value: Value) -> Extent | None:
        """The least and the greatest element; None if that is not known."""
        if value not in self.known:
            self.known[value] = self._extent(value)
        return self.known[value]

    def _extent(self, value: Value) -> Extent | None:
        form, op = self.affinity.of(value), value.op
        if form is not None:
            return form.extremes(shape(value.type))
        if op is None or op.name not in (*_MOVES, "add", "sub"):
            return None
        found = [self.of(v) for v in op.operands]
        first, last = found[0], found[-1]
        if first is None or last is None:
            return None
        if op.name in _MOVES:
            return first
        if op.name == "add":
            return first[0] + last[0], first[1] + last[1]
        return first[0] - last[1], first[1] - last[0]

    def greatest(self, polynomial: Linear, op: Op) -> Linear | None:
        """The greatest value of a sum where `op` stands, in all iterations of the loops around."""
        loops: dict[Op, Loop] = {}
        loop = self.cfg.innermost.get(self.cfg.block_of[op])
        while loop is not None:
            if self.cfg.block_of[op] is not loop.header:  # which runs once more than the others
                loops.update((phi, loop) for phi in loop.header.phis())
            loop = loop.parent
        return self._greatest(polynomial, loops, _DEPTH)

    def _greatest(self, polynomial: Linear, loops: dict[Op, Loop], depth: int) -> Linear | None:
        total = Linear()
        for values, n in polynomial.terms:
            moved = [v for v in values if v.op in loops]
            if not moved:
                total += Linear(((values, n),))
                continue
            ends = self._ends(moved[0], loops) if values == (moved[0],) and depth else None
            end = self._greatest(ends[n > 0].scaled(n), loops, depth - 1) if ends else None
            if end is None:
                return None
            total += end
        return total

    def _ends(self, counter: Value, loops: dict[Op, Loop]) -> Extent | None:
        """The least and the greatest value of a counter while its loop runs."""
        phi = counter.op
        assert phi is not None
        found = counter_of(loops[phi])
        first = self.affinity.of(loops[phi].first(phi)) if found is not None else None
        limit = self.affinity.of(found.limit) if found is not None else None
        if found is None or found.phi is not phi or first is None or limit is None:
            return None
        if found.step > 0 and found.predicate in ("slt", "sle"):
            return first.offset, limit.offset - number(found.predicate == "slt")
        if found.step < 0 and found.predicate in ("sgt", "sge"):
            return limit.offset + number(found.predicate == "sgt"), first.offset
        return None
