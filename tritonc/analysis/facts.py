"""What is known of an integer's value: bounds, and the power of two that divides it.

`Facts(kernel)` answers for scalars and tiles (then of every element):

    interval(v)  (least, greatest), as signed numbers; the type's whole range when nothing is known
    factor(v)    the greatest power of two known to divide v, at most TOP (as a zero has)

Integers wrap, so that a bound holds only where no step on its way can leave the type's range: of
`k + r` with k anywhere below n nothing follows.  Divisibility by a power of two survives wrapping.
A sum of a multiple of 2**p and a number in [0, 2**p) carries into no bit of the former: it cannot
wrap, wherever the multiple lies.  This is what proves `k + (0 ... 32)` safe in a loop by steps of
32.

Facts stay true while passes rewrite, as a value never changes; new values are analysed when met."""

from collections.abc import Callable

from tritonc.analysis.axis import axis_info
from tritonc.analysis.counters import counter_of
from tritonc.analysis.values import defined_by, int_of, sides
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Kernel, Op, ParameterInfo, Value
from tritonc.ir.types import element, is_int, shape
from tritonc.records import cached_property

Interval = tuple[int, int]
_MAX_DEPTH = 60  # operations that an answer looks through
_PROGRAMS = (1 << 31) - 1  # the most programs along an axis (CUDA: gridDim.x)

# Operations whose result's elements are elements of their first operand.
_MOVES = frozenset({"splat", "broadcast", "reshape", "trans", "assume_multiple", "convert_layout"})


def full(bits: int) -> Interval:
    """All numbers of a width, signed; an i1 is 0 or 1.

    >>> full(8), full(1)
    ((-128, 127), (0, 1))
    """
    return (0, 1) if bits == 1 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


class Facts:
    """Remembers what was asked.  The kernel's graph is read when a loop is first met."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._intervals: dict[Value, Interval] = {}
        self._depth = 0  # of the recursion through operands
        self._parameters: dict[Value, ParameterInfo] = dict(
            zip(kernel.parameters, kernel.info, strict=False))

    # bounds

    def interval(self, value: Value) -> Interval:
        """The least and the greatest element that the value can have, as signed numbers."""
        found = self._intervals.get(value)
        if found is None:
            found = whole = full(element(value.type).bits)
            if is_int(value.type) and self._depth < _MAX_DEPTH:
                self._intervals[value] = whole  # what a cycle through phis may assume
                self._depth += 1
                found = self._interval(value, whole)
                self._depth -= 1
                self._intervals[value] = found
        return found

    def interval_where(self, guard: Value | None, value: Value) -> Interval:
        """The bounds of the elements for which a guard holds, by its comparisons of the value with
        numbers, or of what it is computed from element by element."""
        bounds: dict[Value, Interval] = {}
        for condition in sides(guard, "and") if guard is not None else ():
            test = defined_by(condition, "icmp")
            number = int_of(test.operands[1]) if test is not None else None
            if test is not None and number is not None:
                one = test.operands[0]
                low, high = before = bounds.get(one) or self.interval(one)
                least, greatest = bounds_of(test.attributes["predicate"], number, before)
                low, high = max(low, least), min(high, greatest)
                bounds[one] = (low, high) if low <= high else before
        return _Under(self, bounds).interval(value) if bounds else self.interval(value)

    def not_negative(self, value: Value) -> bool:
        return self.interval(value)[0] >= 0

    def _interval(self, value: Value, whole: Interval) -> Interval:
        op = value.op
        if op is None:
            info = self._parameters.get(value)
            return _promised(info, whole) if info is not None else whole
        number = int_of(value)
        if number is not None:
            return number, number
        name, a = op.name, op.operands
        if name in _MOVES:
            return self.interval(a[0])
        if name == "sext":
            low, high = self.interval(a[0])
            return (low, high) if element(a[0].type).bits > 1 else (-high, -low)
        if name == "range":
            return _fit(op.attributes["start"], op.attributes["stop"] - 1, whole)
        if name == "get_program_id":
            return 0, _PROGRAMS - 1
        if name == "get_num_programs":
            return 1, _PROGRAMS
        if name == "get_global_range":
            return whole  # the last program may wrap past the end
        if name == "phi":
            return self._counter(op, whole) or hull(*map(self.interval, a))
        if name == "reduce" and op.attributes["kind"] in ("smin", "smax"):
            return self.interval(a[0])
        if name in ("select", "psi"):
            return hull(*map(self.interval, a[1:] if name == "select" else a[1::2]))
        if name == "zext":
            low, high = self.interval(a[0])
            return (low, high) if low >= 0 else (0, (1 << element(a[0].type).bits) - 1)
        if name == "truncate":
            return _fit(*self.interval(a[0]), whole)
        if name in _BOUNDS:
            low, high = _BOUNDS[name](self.interval(a[0]), self.interval(a[1]), whole)
            return _fit(low, high, whole)
        return whole

    def _counter(self, phi: Op, whole: Interval) -> Interval | None:
        """Bounds of a loop's counter: phi [start, preheader], [phi + step, latch], tested first.

        While `phi < n` holds in the loop, the next value is at most n - 1 + step, if that cannot
        wrap; and so for the other direction.  A counter by steps of 2**p from a multiple of that
        would meet each multiple if it wrapped, and a loop that only it can leave would not end."""
        loop = self._loops.get(self._blocks.get(phi)) if len(phi.operands) == 2 else None
        counter = counter_of(loop) if loop is not None else None
        if loop is None or counter is None or counter.phi is not phi:
            return None
        step, predicate = counter.step, counter.predicate
        low, high = self.interval(loop.first(phi))
        bound_low, bound_high = self.interval(counter.limit)
        if step > 0 and predicate in ("slt", "sle"):
            last = bound_high - (predicate == "slt") + step
            if last > whole[1] and predicate == "slt" and len(loop.exits) == 1 \
                    and step & step - 1 == 0 and (
                        low % step == 0 if low == high else self.factor(phi.result) % step == 0):
                last = whole[1]
            return (low, max(high, last)) if last <= whole[1] else None
        if step < 0 and predicate in ("sgt", "sge"):
            last = bound_low + (predicate == "sgt") + step
            return (min(low, last), high) if last >= whole[0] else None
        return None

    @cached_property
    def _blocks(self) -> dict[Op, Block]:
        return {op: block for block in self.kernel.blocks for op in block.phis()}

    @cached_property
    def _loops(self) -> dict[Block | None, Loop]:
        return {loop.header: loop for loop in Cfg(self.kernel).loops}

    # divisibility

    def factor(self, value: Value) -> int:
        """The greatest power of two known to divide every element, as `axis_info` has it."""
        return axis_info.known(self._infos, value).every

    @cached_property
    def _infos(self) -> axis_info.Infos:
        return axis_info.analyze(self.kernel)

    # sums

    def sum_fits(self, a: Value, b: Value) -> bool:
        least, greatest = full(element(a.type).bits)
        (al, ah), (bl, bh) = self.interval(a), self.interval(b)
        return (least <= al + bl and ah + bh <= greatest) or self._no_carry(a, b)

    def unsigned_sum_fits(self, a: Value, b: Value) -> bool:
        return (self.not_negative(a) and self.not_negative(b)) or self._no_carry(a, b)

    def _no_carry(self, a: Value, b: Value) -> bool:
        """One is below the other's factor, so that the sum joins their bits (see the top)."""
        (al, ah), (bl, bh) = self.interval(a), self.interval(b)
        return (bl >= 0 and bh < self.factor(a)) or (al >= 0 and ah < self.factor(b))


class _Under(Facts):
    """Where some values have bounds of their own, in the elements in question."""

    def __init__(self, facts: Facts, bounds: dict[Value, Interval]) -> None:
        super().__init__(facts.kernel)
        self._facts = facts
        self._intervals = bounds

    def interval(self, value: Value) -> Interval:
        same = value.op is not None and value.op.info.elementwise  # other elements have others
        return super().interval(value) if same or value in self._intervals else (
            self._facts.interval(value))


def bounds_of(predicate: str, number: int, whole: Interval) -> Interval:
    """What a comparison with a number says of its left side; unsigned ones only below 2**(n-1)."""
    if predicate in ("ult", "ule") and number < (predicate == "ult"):
        return whole
    return {"slt": (whole[0], number - 1), "sle": (whole[0], number), "sgt": (number + 1, whole[1]),
            "sge": (number, whole[1]), "ult": (0, number - 1), "ule": (0, number),
            "eq": (number, number)}.get(predicate, whole)


def _promised(info: ParameterInfo, whole: Interval) -> Interval:
    """The bounds of a parameter; a contradiction tells nothing."""
    low = whole[0] if info.least is None else max(whole[0], info.least)
    high = whole[1] if info.greatest is None else min(whole[1], info.greatest)
    return (low, high) if low <= high else whole


def hull(*parts: Interval) -> Interval:
    return min(low for low, _ in parts), max(high for _, high in parts)


def _fit(low: int, high: int, whole: Interval) -> Interval:
    """The bounds, or no bounds where the computation may have wrapped."""
    return (low, high) if whole[0] <= low and high <= whole[1] else whole


def _product(a: Interval, b: Interval, whole: Interval) -> Interval:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _quotient(a: Interval, b: Interval, whole: Interval) -> Interval:
    """Of numbers that are not negative, by a positive one; signed and unsigned agree there."""
    return (a[0] // b[1], a[1] // b[0]) if a[0] >= 0 and b[0] > 0 else whole


def _signed_quotient(a: Interval, b: Interval, whole: Interval) -> Interval:
    """By a positive divisor, towards zero."""
    if b[0] <= 0:
        return whole
    corners = [abs(x) // y * (1 if x > 0 else -1) for x in a for y in b]
    return min(corners), max(corners)


def _remainder(a: Interval, b: Interval, whole: Interval) -> Interval:
    """Below a positive divisor, with the sign of the dividend."""
    if b[0] <= 0:
        return whole
    return max(min(a[0], 0), 1 - b[1]), min(max(a[1], 0), b[1] - 1)


def _unsigned_remainder(a: Interval, b: Interval, whole: Interval) -> Interval:
    """Below a positive divisor, whatever the dividend."""
    return (0, min(a[1], b[1] - 1) if a[0] >= 0 else b[1] - 1) if b[0] > 0 else whole


def _and(a: Interval, b: Interval, whole: Interval) -> Interval:
    """At most each operand that is not negative."""
    tops = [top for low, top in (a, b) if low >= 0]
    return (0, min(tops)) if tops else whole


def _or(a: Interval, b: Interval, whole: Interval) -> Interval:
    return (0, (1 << max(a[1], b[1]).bit_length()) - 1) if _same_signs(a, b) else whole


def _right_shift(a: Interval, b: Interval, whole: Interval) -> Interval:
    bits = max(whole[1].bit_length() + 1, 1)
    return (a[0] >> b[1], a[1] >> b[0]) if _same_signs(a, b) and b[1] < bits else whole


def _signed_shift(a: Interval, b: Interval, whole: Interval) -> Interval:
    if b[0] < 0 or b[1] > whole[1].bit_length():
        return whole
    corners = [x >> count for x in a for count in b]
    return min(corners), max(corners)


def _minimum(a: Interval, b: Interval, whole: Interval) -> Interval:
    return min(a[0], b[0]), min(a[1], b[1])


def _maximum(a: Interval, b: Interval, whole: Interval) -> Interval:
    return max(a[0], b[0]), max(a[1], b[1])


def _same_signs(a: Interval, b: Interval) -> bool:
    return a[0] >= 0 and b[0] >= 0


_BOUNDS: dict[str, Callable[[Interval, Interval, Interval], Interval]] = {
    "add": lambda a, b, whole: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b, whole: (a[0] - b[1], a[1] - b[0]),
    "mul": _product,
    "sdiv": _signed_quotient, "udiv": _quotient, "srem": _remainder, "urem": _unsigned_remainder,
    "and": _and, "or": _or, "xor": _or, "lshr": _right_shift, "ashr": _signed_shift,
    "smin": _minimum, "smax": _maximum,
    "umin": lambda a, b, whole: _minimum(a, b, whole) if _same_signs(a, b) else whole,
    "umax": lambda a, b, whole: _maximum(a, b, whole) if _same_signs(a, b) else whole}


def scalar_of(value: Value, facts: Facts) -> Value | None:
    """The scalar that all elements of a tile are; None if that is not known."""
    while shape(value.type):
        op = value.op
        if op is None:
            return None
        if op.name == "add":
            rest = [v for v in op.operands if facts.interval(v) != (0, 0)]
            if len(rest) != 1:
                return None
            value = rest[0]
        elif op.name in ("splat", "broadcast", "reshape"):
            value = op.operands[0]
        else:
            return None
    return value
