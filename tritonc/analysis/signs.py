"""Which integers are not negative, and what would have to hold for others not to be.

`Signs.needs(value)` says of which values it must be known or tested that they are not negative, so
that `value` is not: none ({}) where it is proved, None where no test of such values would prove it.

    pid * TM + k            {}           program ids and counters that rise
    z * M * K               {M, K}       what `specialize` tests once, at entry
    expert * K * N          {expert, ..} a loaded scalar: tested where it is known

Arithmetic is taken not to wrap, as for addresses; so the rules are those of unbounded integers.  An
unsigned number counts as the signed number of the same bits: of one above 2**31 the answer is no.
"""

from collections.abc import Callable, Iterable, Mapping, Set

from tritonc.analysis.linear import Linear
from tritonc.analysis.values import int_of, origin
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import element, is_int, shape

MOST = (1 << 31) - 1  # of a coordinate of 32 bits
Needs = dict[Value, None]  # in the order in which they were found

_NUMBERS = ("get_program_id", "get_global_range", "get_num_programs", "get_num_multiprocessors",
            "get_cluster_rank")
_ALL = ("add", "mul", "sext", "phi", "smin", "umax", "splat", "broadcast", "reshape", "trans",
        "assume_multiple", "convert_layout", "sdiv")
_FIRST = ("udiv", "lshr", "ashr", "shl", "srem")  # the result has the sign of the first operand
_ANY = ("smax", "umin", "and", "urem")  # one operand is enough
_MOST_DEPTH = 40


class Signs:
    """Answers about values where `known` are not negative.

    `testable`: whether a value could be tested before it is needed; `below`: pairs of values of
    which the second is known not to be less than the first; `multiples`: powers of two that are
    known to divide values; `narrow`: values of 64 bits that 32 bits hold; `cfg` says where values
    are known: what only a branch computes is tested where it joins."""

    def __init__(self, known: Set[Value] = frozenset(),
                 testable: Callable[[Value], bool] = lambda value: False,
                 below: Iterable[tuple[Value, Value]] = (),
                 multiples: Mapping[Value, int] | None = None,
                 narrow: Set[Value] = frozenset(), cfg: Cfg | None = None) -> None:
        self.known, self.testable, self.below = known, testable, set(below)
        self.multiples, self.narrow, self.cfg = multiples or {}, narrow, cfg
        self._memo: dict[Value, Needs | None] = {}
        # Phis above, which begin and go on so, as is to be shown; of each, the values whose answers
        # rest on it and on those above alone.
        self._assumed: dict[Op, list[Value]] = {}
        self._rests: dict[Value, int] = {}  # on which of these, by its number
        self._lowest = 0  # of what was asked last
        self._depth = 0

    def holds(self, value: Value) -> bool:
        return self.needs(value) == {}

    def positive(self, polynomial: Linear) -> bool:
        return self.of_polynomial(polynomial) == {}

    def of_polynomial(self, polynomial: Linear) -> Needs | None:
        """What would make every term of the polynomial 0 or more."""
        if any(n < 0 for _, n in polynomial.terms):
            return None
        return self._all(value for values, _ in polynomial.terms for value in values)

    def needs(self, value: Value) -> Needs | None:
        """What would make the value 0 or more; None if nothing that can be tested."""
        if value in self._memo:
            self._lowest = min(self._lowest, self._rests.get(value, self._lowest))
            return self._memo[value]
        if self._depth > _MOST_DEPTH:
            return None
        outer, self._lowest = self._lowest, len(self._assumed)
        self._depth += 1
        found = self._rule(value)
        self._depth -= 1
        if found is None and not shape(value.type) and is_int(value.type) \
                and element(value.type).bits > 1 and self.testable(value):
            found = {value: None}
        self._memo[value] = found
        if found is not None and self._lowest < len(self._assumed):
            self._rests[value] = self._lowest
            [*self._assumed.values()][self._lowest].append(value)
            outer = min(outer, self._lowest)
        self._lowest = outer
        return found

    def _rule(self, value: Value) -> Needs | None:
        op = value.op
        if value in self.known:
            return {}
        if op is None or len(op.results) != 1:
            return None
        name, operands = op.name, op.operands
        if name in _NUMBERS or _is_promised(op) or name == "zext":
            return {}
        if op in self._assumed:
            self._lowest = min(self._lowest, [*self._assumed].index(op))
            return {}
        if name == "constant":
            return {} if (int_of(value) or 0) >= 0 else None
        if name == "range":
            return {} if op.attributes["start"] >= 0 else None
        if name == "phi":
            return self._phi(op)
        if name == "select":
            return self._all(operands[1:])
        if name == "sub":
            return self._all(operands) if tuple(operands[::-1]) in self.below else None
        if name in _FIRST:
            return self.needs(operands[0])
        if name in _ANY:
            found = [needs for v in operands if (needs := self.needs(v)) is not None]
            return min(found, key=len) if found else None
        return self._all(operands) if name in _ALL else None

    def fits(self, value: Value) -> bool:
        """Whether 32 bits hold the value, which is not negative."""
        op = value.op
        if element(value.type).bits <= 32 or value in self.narrow:
            return True
        if op is None:
            return False
        if op.name in ("sdiv", "udiv", "srem", "lshr", "ashr", "assume_multiple"):  # no more than
            return self.holds(op.operands[0]) and self.fits(op.operands[0])
        if op.name in ("smin", "umin"):
            return any(self.holds(v) and self.fits(v) for v in op.operands)
        return op.name == "sext" and self.fits(op.operands[0])

    def _all(self, values: Iterable[Value]) -> Needs | None:
        found: Needs = {}
        for value in values:
            needs = self.needs(value)
            if needs is None:
                return None
            found.update(needs)
        return found

    def _phi(self, op: Op) -> Needs | None:
        self._assumed[op] = []
        found = self._all(op.operands)
        for value in self._assumed.pop(op):
            del self._memo[value], self._rests[value]
        return found if found is None or all(self._before(v, op) for v in found) else None

    def _before(self, value: Value, op: Op) -> bool:
        """Whether a value is known wherever the operation runs."""
        home = value.op and self.cfg and self.cfg.block_of.get(value.op)
        return not self.cfg or not home or self.cfg.dominates(home, self.cfg.block_of[op])


def known_signs(kernel: Kernel, cfg: Cfg, place: Block,
                below: Iterable[tuple[Value, Value]] = ()) -> Signs:
    """What is known where `place` runs: parameters by their declaration, values by hints."""
    known: set[Value] = set()
    narrow: set[Value] = set()
    multiples: dict[Value, int] = {}
    for parameter, info in zip(kernel.parameters, kernel.info, strict=True):
        multiples[parameter] = info.multiple_of & -info.multiple_of
        if info.least is not None and info.least >= 0:
            known.add(parameter)
            if info.greatest is not None and info.greatest <= MOST:
                narrow.add(parameter)
    for op in kernel.ops():
        if op.name == "assume_multiple" and cfg.dominates(cfg.block_of[op], place):
            value, n = origin(op.operands[0], ("assume_multiple", "sext")), op.attributes["n"]
            multiples[value] = max(multiples.get(value, 1), n & -n)
            if _is_promised(op):
                known.add(value)
                if op.attributes.get("greatest", MOST + 1) <= MOST:
                    narrow.add(value)
    return Signs(known, below=below, multiples=multiples, narrow=narrow, cfg=cfg)


def loop_order(loop: Loop | None) -> list[tuple[Value, Value]]:
    """Pairs of which the second is not less than the first inside of the loops, which test it."""
    found = []
    while loop is not None:
        test = loop.header.terminator
        compare = test.operands[0].op if test.name == "cond_br" else None
        if compare is not None and compare.name == "icmp" and test.blocks[0] in loop \
                and test.blocks[1] not in loop:
            a, b = compare.operands
            kind = compare.attributes["predicate"][1:]
            if kind in ("lt", "le", "gt", "ge"):
                found.append((a, b) if kind[0] == "l" else (b, a))
        loop = loop.parent
    return found


def non_negative(value: Value) -> bool:
    """Whether a value is known to be 0 or more, by what it is made of."""
    return Signs().holds(value)


def _is_promised(op: Op) -> bool:
    return op.name == "assume_multiple" and op.attributes.get("least", -1) >= 0
