"""Integers of a kernel at one point of a launch: for given parameters, program and iterations.

    x + (pid * 64 + i) * N, with N = 1000, pid = 3, i = 1        byte 772000 of x

Loaded integers are any number, another one for each element: addresses that follow from them lie
apart.  Floats, and what follows from them, are not known.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial

from tritonc.analysis.elements import Index, index_before
from tritonc.analysis.values import MOVES, axes_before, int_of, slice_of
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.numeric.numbers import NotFoldable, evaluate
from tritonc.ir.rules import pointee
from tritonc.ir.types import is_int, is_pointer, scalar, shape

_APART = 40  # bits of an address: parameters are so far from each other
_LOADED = 1_000_003  # loaded integers are below it
_SPREAD = 2654435761  # Knuth's multiplicative hash
_MANY = 64  # programs along an axis of which nothing is known
_LAST = 1 << 40  # iterations
_LARGE = 1 << 64  # what is larger is not known: products of products grow without end
_STEPS = 4_000  # of loops' numbers: more where many depend on each other

# Integers as if they had no width: those of addresses do not wrap.
_PLAIN = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_COMPARED = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
             "gt": operator.gt, "ge": operator.ge}

Way = Callable[[Index], int | None]


class Numbers:
    """`parameters` by name; `programs` along each axis of the grid.  What is asked raises
    RecursionError where numbers depend on each other more than can be followed."""

    def __init__(self, kernel: Kernel, parameters: Mapping[str, int], programs: Mapping[int, int]
                 ) -> None:
        self.kernel, self.cfg = kernel, Cfg(kernel)
        self.loops = {loop.header: loop for loop in self.cfg.loops}
        self.parameters, self.programs = parameters, programs
        self._places = {value: i for i, value in enumerate(kernel.parameters)}
        self._ways: dict[Value, Way] = {}
        self._scalars: dict[Value, int | None] = {}
        self._elements: dict[tuple[Value, Index], int | None] = {}
        self._shared = {value for value, readers in uses(kernel).items() if len(readers) > 1}
        self._forced: dict[Value, int] = {}  # phis of which the next value is asked
        self._steps = 0
        self.program: Mapping[int, int] = {}
        self.iterations: Mapping[Block, int] = {}

    def move(self, program: Mapping[int, int], iterations: Mapping[Block, int]) -> None:
        """Go to a program, by the axes of its number, and iterations, by their loops' headers."""
        self.program, self.iterations = program, iterations
        self._scalars, self._elements = {}, {}

    def at(self, value: Value, index: Index = ()) -> int | None:
        """The element at an index, of an address in bytes; None if it is not known."""
        return self._way(value)(index)

    def _way(self, value: Value) -> Way:
        """How to compute an element; of a scalar, which is remembered until the next move."""
        if value not in self._ways:
            self._ways[value] = lambda index: self._way(value)(index)  # on a cycle
            way = self._made(value)
            self._ways[value] = partial(self._scalar, value, way) if not shape(value.type) else (
                partial(self._element, value, way) if value in self._shared else way)
        return self._ways[value]

    def _scalar(self, value: Value, way: Way, index: Index) -> int | None:
        if value not in self._scalars:
            self._scalars[value] = None
            self._scalars[value] = way(())
        return self._scalars[value]

    def _element(self, value: Value, way: Way, index: Index) -> int | None:
        key = value, index
        if key not in self._elements:
            self._elements[key] = way(index)
        return self._elements[key]

    def _made(self, value: Value) -> Way:
        op = value.op
        if op is None:
            number = self._places[value] << _APART if is_pointer(value.type) else (
                self.parameters.get(value.name))
            return lambda index: number
        if not (is_int(value.type) or is_pointer(value.type)):
            return lambda index: None
        rule = getattr(self, f"_{op.name}", None)
        if rule is not None:
            way: Way = rule(op, value)
            return way
        if op.name in MOVES:
            return self._moved(op)
        if not op.info.elementwise or not is_int(value.type):
            return lambda index: None
        ways, row = [self._way(v) for v in op.operands], op.info
        if op.name in _PLAIN:
            plain, (left, right) = _PLAIN[op.name], ways

            def both(index: Index) -> int | None:
                a, b = left(index), right(index)
                return None if a is None or b is None else _small(plain(a, b))

            return both

        def by_meaning(index: Index) -> int | None:
            found = [way(index) for way in ways]
            numbers = [number for number in found if number is not None]
            if len(numbers) < len(found):
                return None
            try:
                return int(evaluate(row, op, numbers)[0])
            except NotFoldable:
                return None

        return by_meaning

    def _moved(self, op: Op) -> Way:
        way, axes = self._way(op.operands[0]), axes_before(op)
        before = shape(op.operands[0].type)
        if not before:
            return lambda index: way(())
        if axes is None:
            return lambda index: way(index_before(op, index))
        places = [axes.index(d) if d in axes else -1 for d in range(len(before))]
        return lambda index: way(tuple([index[d] if d >= 0 else 0 for d in places]))

    # one method for each operation that arithmetic does not say; its name is the operation's

    def _constant(self, op: Op, value: Value) -> Way:
        number = int_of(value)
        return lambda index: number

    def _range(self, op: Op, value: Value) -> Way:
        start: int = op.attributes["start"]
        return lambda index: start + index[0]

    def _get_program_id(self, op: Op, value: Value) -> Way:
        axis: int = op.attributes["axis"]
        return lambda index: self.program.get(axis, 0)

    def _get_num_programs(self, op: Op, value: Value) -> Way:
        number = self.programs.get(op.attributes["axis"], _MANY)
        return lambda index: number

    def _get_global_range(self, op: Op, value: Value) -> Way:
        axis, extent = op.attributes["axis"], op.attributes["extent"]
        return lambda index: self.program.get(axis, 0) * extent + index[0]

    def _load(self, op: Op, value: Value) -> Way:
        number = len(self._ways)

        def loaded(index: Index) -> int:
            return (hash((number, index, *self.program.values(), *self.iterations.values()))
                    * _SPREAD >> 7) % _LOADED

        return loaded

    def _addptr(self, op: Op, value: Value) -> Way:
        (base, offset), size = map(self._way, op.operands), scalar(pointee(value.type)).bytes

        def address(index: Index) -> int | None:
            a, b = base(index), offset(index)
            return None if a is None or b is None else a + b * size

        return address

    def _cmpp(self, op: Op, value: Value) -> Way:
        way, first = self._way(op.operands[0]), value is op.results[0]
        return lambda index: None if (found := way(index)) is None else int((found != 0) == first)

    def _icmp(self, op: Op, value: Value) -> Way:
        """Of numbers that are not negative, or signed."""
        left, right = map(self._way, op.operands)
        compare = _COMPARED[op.attributes["predicate"][-2:]]

        def compared(index: Index) -> int | None:
            a, b = left(index), right(index)
            return None if a is None or b is None else int(compare(a, b))

        return compared

    def _and(self, op: Op, value: Value) -> Way:
        """Of conditions that are not known, as if they held."""
        left, right = map(self._way, op.operands)

        def both(index: Index) -> int | None:
            a, b = left(index), right(index)
            return b if a is None else a if b is None else a & b

        return both

    def _select(self, op: Op, value: Value) -> Way:
        condition, yes, no = map(self._way, op.operands)
        return lambda index: no(index) if condition(index) == 0 else yes(index)

    def _psi(self, op: Op, value: Value) -> Way:
        """The first of its numbers that is known."""
        ways = [self._way(v) for v in op.operands if v.type == value.type]
        return lambda index: next(
            (found for way in ways if (found := way(index)) is not None), None)

    def _phi(self, op: Op, value: Value) -> Way:
        """Of a loop, by what its first iteration adds to it; else as `_psi`."""
        block = self.cfg.block_of[op]
        if block not in self.loops:
            return self._psi(op, value)
        inside = [source in self.loops[block] for source in op.blocks]
        first = self._way(op.operands[inside.index(False)])
        after = self._way(op.operands[inside.index(True)])

        def counted(index: Index) -> int | None:
            if value in self._forced:
                return self._forced[value]
            start, count = first(index), self.iterations.get(block, 0)
            if start is None or not count:
                return start
            self._steps += 1
            if self._steps > _STEPS:
                raise RecursionError("numbers of loops that depend on each other")
            outside = self._scalars, self._elements
            self._scalars, self._elements = {}, {}
            self._forced[value] = start
            found = after(index)
            del self._forced[value]
            self._scalars, self._elements = outside
            return None if found is None else _small(start + count * (found - start))

        return counted

    def trips(self, loop: Loop, around: Mapping[Block, int]) -> tuple[int | None, bool]:
        """How often the loop runs at most, in these iterations of those around it, None if that is
        not known; and whether nothing that is computed ends it before."""
        most, sure = None, True
        for source, _ in loop.exits:
            end = source.terminator
            stays = end.blocks[0] in loop

            def runs(count: int, end: Op = end, stays: bool = stays) -> bool | None:
                self.move(self.program, {**around, loop.header: count})
                found = self.at(end.operands[0])
                return None if found is None else bool(found) == stays

            sure = sure and not any(op.name == "load" or op.name.startswith("reduce")
                                    for op in slice_of(end.operands, set(loop.ops())))
            if end.name == "cond_br" and (found := _last(runs)) is not None:
                found += source is not loop.header
                most = found if most is None else min(most, found)
        return most, sure


def _last(holds: Callable[[int], bool | None]) -> int | None:
    """The least number for which a monotone condition fails; None if it always holds, or is not
    known."""
    low, high = -1, 0
    while (found := holds(high)) and high < _LAST:
        low, high = high, max(1, 2 * high)
    if found or found is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


def _small(number: int) -> int | None:
    return number if -_LARGE < number < _LARGE else None
