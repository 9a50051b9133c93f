"""What would have to be a multiple so that a tile's runs begin at multiples.

`Multiples.needs(pointer, axis, run, n)` says of which scalars it must be known or tested that they
are multiples of what, so that each run of `run` neighbours along `axis` begins at a multiple of n:
none ({}) where it is proved, None where no test of scalars would prove it.

    a + row[:, newaxis] * K + k, runs of 8 f16 along axis 1    {a: 16 bytes, K: 8}

A product needs one factor: one that is needed already rather than another, and a parameter rather
than what is computed.  The rows of a gather may be anything: their stride is what counts."""

from collections.abc import Callable, Mapping

from tritonc.analysis.axis.axis_info import AxisInfo, Infos, low_bit
from tritonc.analysis.values import QUOTIENTS, REMAINDERS, axis_before, int_of
from tritonc.ir.core import Op, Value
from tritonc.ir.types import Pointer, element, is_int, shape

Multiples = dict[Value, int]

_BOTH = ("add", "sub", "or", "xor", "smin", "smax", "umin", "umax")
_MOVES = ("splat", "broadcast", "sext", "zext", "convert_layout", "assume_multiple")
_SHIFTS = ("add", "sub", *_MOVES, "reshape", "trans")  # keep a known distance
_MOST_DEPTH = 40
_MOST_STEPS = 4000  # of one question: terms may meet again and again


class MultiplesNeeded:
    """Answers for one kernel, whose axis information is `infos`.

    `testable`: whether a scalar could be tested before it is needed."""

    def __init__(self, infos: Infos, testable: Callable[[Value], bool]) -> None:
        self.infos, self.testable = infos, testable
        self.needed_before: Multiples = {}  # by what was asked before
        self._assumed: set[Op] = set()  # phis above
        self._depth = self._steps = 0
        self._shifted = False  # whether numbers that are added count for nothing

    def of_pointer(self, pointer: Value, axis: int | None, run: int, shifted: bool = False
                   ) -> Multiples | None:
        """For runs of `run` elements that begin at multiples of their size, or with `shifted` a
        known number of elements behind; for all elements, if there is no axis."""
        t = element(pointer.type)
        assert isinstance(t, Pointer)
        self._shifted = shifted
        return self._pointer(pointer, axis, run, t.element.bytes)

    def _pointer(self, value: Value, axis: int | None, run: int, size: int) -> Multiples | None:
        info, op = self.infos.get(value), value.op
        if info is not None and _begins(info, axis, run, size) % (run * size) == 0:
            return {}
        if op is None:
            return {value: run * size}
        if op.name == "addptr":
            first = self._pointer(op.operands[0], axis, run, size)
            return first if first is None else self._join(
                first, self.of_integer(op.operands[1], axis, run, run))
        if op.name in ("phi", "select"):
            self._shifted = False
            return self._all(op, lambda v: self._pointer(v, axis, run, size))
        if op.name in (*_MOVES, "reshape", "trans"):
            return self._pointer(op.operands[0], _axis_before(op, axis), run, size)
        return None

    def of_integer(self, value: Value, axis: int | None, run: int, n: int) -> Multiples | None:
        """For runs along `axis`, or where that is None for all elements, at multiples of n."""
        info, op = self.infos.get(value), value.op
        self._steps = self._steps + 1 if self._depth else 0
        if info is None or self._depth > _MOST_DEPTH or self._steps > _MOST_STEPS:
            return None
        if _begins(info, axis, run, 1) % n == 0:
            return {}
        if op is not None and op.name == "constant" and self._shifted:
            return {}
        self._depth, shifted = self._depth + 1, self._shifted
        self._shifted = shifted and op is not None and op.name in _SHIFTS
        found = self._rule(op, axis, run, n) if op is not None else None
        self._depth, self._shifted = self._depth - 1, shifted
        scalar = not shape(value.type) and is_int(value.type) and element(value.type).bits > 1
        return {value: n} if found is None and scalar and self.testable(value) else found

    def _rule(self, op: Op, axis: int | None, run: int, n: int) -> Multiples | None:
        name, operands = op.name, op.operands
        if name in _BOTH:
            first = self.of_integer(operands[0], axis, run, n)
            before = self.needed_before
            self.needed_before = joined(before, first or {})
            both = first if first is None else self._join(
                first, self.of_integer(operands[1], axis, run, n))
            self.needed_before = before
            return both
        if name == "mul":
            return self._factor(op, run, n)
        if name == "shl":
            by = int_of(operands[1])
            return None if by is None or not 0 <= by < 31 else self.of_integer(
                operands[0], axis, run, max(n >> by, 1))
        if name in REMAINDERS:
            return self._all(op, lambda v: self.of_integer(v, None, run, n))
        if name in ("phi", "select"):
            return self._all(op, lambda v: self.of_integer(v, axis, run, n))
        if name in (*_MOVES, "reshape", "trans"):
            return self.of_integer(op.operands[0], _axis_before(op, axis), run, n)
        return None

    def _factor(self, op: Op, run: int, n: int) -> Multiples | None:
        """Either factor may be the multiple; of what divides the other, nothing is asked.

        A product of parameters may be one without any of its factors being one."""
        a, b = op.operands
        options = []
        for value, other in ((b, a), (a, b)):
            info = self.infos.get(other)
            left = n // min(n, _begins(info, None, 1, 1)) if info is not None else n
            found = self.of_integer(value, None, run, left)
            if found is not None:
                options.append(found)
        best = min(options, key=self._price) if options else None
        if best and self._price(best)[0] and of_parameters(op.result) and self.testable(op.result):
            return {op.result: n}
        return best

    def _price(self, needs: Multiples) -> tuple[int, int]:
        more = [v for v, n in needs.items() if self.needed_before.get(v, 1) % n]
        return len(more), sum(v.op is not None for v in needs)

    def _join(self, a: Multiples, b: Multiples | None) -> Multiples | None:
        return None if b is None else joined(a, b)

    def _all(self, op: Op, ask: Callable[[Value], Multiples | None]) -> Multiples | None:
        """Of all operands that may become the result."""
        if op in self._assumed:
            return {}
        self._assumed.add(op)
        found: Multiples | None = {}
        for value in op.operands[1:] if op.name == "select" else op.operands:
            if found is not None:
                found = self._join(found, ask(value))
        self._assumed.discard(op)
        return found


def joined(a: Mapping[Value, int], b: Mapping[Value, int]) -> Multiples:
    """What fulfils both: all are powers of two.  Of a factor's, its products are."""
    found = dict(a)
    for value, n in b.items():
        found[value] = max(n, found.get(value, 1))
    return {v: n for v, n in found.items() if v.op is None or v.op.name != "mul"
            or all(found.get(factor, 1) < n for factor in v.op.operands)}


def of_parameters(value: Value) -> bool:
    """Whether it is a product of parameters and numbers."""
    return not shape(value.type) and (value.op is None or value.op.name == "constant" or (
        value.op.name == "mul" and all(map(of_parameters, value.op.operands))))


def implied(value: Value, multiples: Mapping[Value, int]) -> int:
    """What a value is a multiple of, also by what is said of its quotients: K is a multiple of 32
    if it is even and K / 2 a multiple of 16."""
    n = multiples.get(value, 1)
    for quotient, m in multiples.items():
        op = quotient.op
        by = int_of(op.operands[1]) if op is not None and op.name in QUOTIENTS else None
        if op is not None and op.operands[0] is value and by and n % by == 0:
            n = max(n, by * m)
    return n


def _begins(info: AxisInfo, axis: int | None, run: int, size: int) -> int:
    """What divides the beginnings of runs of elements of `size` bytes; of all, if no axis."""
    if axis is None:
        return info.every
    d = info.divisibility[axis]
    if info.contiguity[axis] > run:
        return low_bit(d | run * size) if d else run * size
    return d


def _axis_before(op: Op, axis: int | None) -> int | None:
    """The axis of the operand that becomes `axis`; None where it has none."""
    return axis if axis is None or op.name not in ("splat", "trans", "reshape") else (
        axis_before(op, axis))
