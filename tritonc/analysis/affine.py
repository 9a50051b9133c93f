"""Affine accesses: what a tile of pointers and its mask say about memory.

A pointer tile is *affine* if element (i0, i1, ...) points to

    base + offset + i0 * stride0 + i1 * stride1 + ...        (in elements)

with a parameter `base` and polynomials of scalars `offset`, `stride`.  Its mask is *rectangular* if
it is a conjunction of tests `start_d + i_d < bound_d`, one axis each, and of scalar conditions.
Together they describe a box of a strided tensor: what TMA wants (ISA, "Tensors"), and
what says how an access moves from one iteration of a loop to the next.

Inside a loop, the counter of its iterations is the symbol `Iteration.counter`: a phi `p = [p0],
[p + step]` with a uniform invariant step is p0 + counter * step.  What does not fit has no form:
table lookups, divisions, masks across two axes."""

from collections.abc import Sequence
from dataclasses import field

from tritonc.analysis.linear import LIMIT, Linear, number, symbol
from tritonc.analysis.signs import Needs, Signs
from tritonc.analysis.values import axes_before
from tritonc.ir.cfg import Loop
from tritonc.ir.core import Op, Value
from tritonc.ir.types import I32, element, is_pointer, same_axes, shape
from tritonc.records import NamedTuple, dataclass


class Affine(NamedTuple):
    """offset + sum of i_d * strides[d]; `base` is the pointer parameter, None for integers."""

    offset: Linear
    strides: tuple[Linear, ...]
    base: Value | None = None

    @property
    def uniform(self) -> bool:
        return not any(s.terms for s in self.strides)

    def __sub__(self, other: "Affine") -> "Affine":
        return Affine(self.offset - other.offset, tuple(
            s - t for s, t in zip(self.strides, other.strides, strict=True)), self.base)

    def extremes(self, extents: tuple[int, ...]) -> tuple[Linear, Linear] | None:
        """The least and the greatest element; None if a stride is not a number."""
        steps = [s.constant for s in self.strides]
        far = [s * (n - 1) for s, n in zip(steps, extents, strict=True) if s is not None]
        if len(far) < len(steps):
            return None
        return (self.offset + number(sum(min(0, d) for d in far)),
                self.offset + number(sum(max(0, d) for d in far)))


class Bound(NamedTuple):
    """Elements with start + i_axis < limit take part; `test` is the comparison that says so."""

    axis: int
    start: Linear
    limit: Linear
    test: Op


class Mask(NamedTuple):
    """A conjunction: bounds of axes, and scalar conditions that hold for all elements or none."""

    bounds: tuple[Bound, ...] = ()
    conditions: tuple[Value, ...] = ()


class Counter(Value):
    """The symbol for how many iterations of a loop have ended; no operation makes it."""

    __slots__ = ()


@dataclass
class Iteration:
    """The counter of a loop's iterations, as a symbol: 0 in the first."""

    loop: Loop
    counter: Value = field(default_factory=lambda: Counter(I32, "iteration"))


def is_counter(value: Value) -> bool:
    """Whether the value is the symbol of some loop's iterations."""
    return isinstance(value, Counter)


class Affinity:
    """Affine forms of a kernel's values, as seen inside `iteration`'s loop (or outside of any).

    Of unsigned numbers there are forms where `signs` knows that they are not negative as signed
    ones, or could be told: `assumed` holds the values of which that is taken for granted."""

    def __init__(self, iteration: Iteration | None = None, signs: Signs | None = None) -> None:
        self.iteration = iteration
        self.signs = signs or Signs()
        self.assumed: Needs = {}
        self.known: dict[Value, Affine | None] = {}
        self.inside: set[Value] = set()
        if iteration is not None:
            self.inside = {r for op in iteration.loop.ops() for r in op.results}

    def of(self, value: Value) -> Affine | None:
        """The affine form of an integer or pointer value; None if it has none."""
        if value not in self.known:
            self.known[value] = None  # a cycle has no form but that of its phi
            found = self._form(value)
            if found is not None and len(found.offset.terms) > LIMIT:
                found = self._opaque(value)
            self.known[value] = found
        return self.known[value]

    def _opaque(self, value: Value) -> Affine | None:
        return None if shape(value.type) or is_pointer(value.type) else Affine(symbol(value), ())

    def _form(self, value: Value) -> Affine | None:
        op = value.op
        if op is None:
            if is_pointer(value.type):
                return Affine(Linear(), (), value)
            return Affine(symbol(value), ())
        rule = getattr(self, f"_{op.name}", None)
        found: Affine | None = rule(op) if rule is not None else None
        return found if found is not None else self._opaque(value)

    # one method for each operation that keeps the form; its name is the operation's

    def _constant(self, op: Op) -> Affine | None:
        value = op.attributes["value"]
        if not isinstance(value, int):
            return None
        return Affine(number(int(value)), (Linear(),) * len(shape(op.result.type)))

    def _range(self, op: Op) -> Affine:
        return Affine(number(op.attributes["start"]), (number(1),))

    def _get_global_range(self, op: Op) -> Affine:
        """Before `expand_range`: the first index is known by no other name than the tile's."""
        return Affine(symbol(op.result), (number(1),))

    def _splat(self, op: Op) -> Affine | None:
        a, places = self.of(op.operands[0]), axes_before(op)
        return None if a is None or places is None else Affine(
            a.offset, tuple(Linear() if d is None else a.strides[d] for d in places), a.base)

    _broadcast = _reshape = _trans = _splat

    def _add(self, op: Op) -> Affine | None:
        a, b = self.of(op.operands[0]), self.of(op.operands[1])
        if a is None or b is None:
            return None
        sign = -1 if op.name == "sub" else 1
        return Affine(a.offset + b.offset.scaled(sign),
                      tuple(s + t.scaled(sign) for s, t in zip(a.strides, b.strides, strict=True)),
                      a.base)

    _sub = _addptr = _add

    def _mul(self, op: Op) -> Affine | None:
        a, b = self.of(op.operands[0]), self.of(op.operands[1])
        if a is None or b is None:
            return None
        if not b.uniform:
            a, b = b, a
        if not b.uniform:
            return None
        return Affine(a.offset * b.offset, tuple(s * b.offset for s in a.strides))

    def _sext(self, op: Op) -> Affine | None:
        return self.of(op.operands[0])

    def _zext(self, op: Op) -> Affine | None:
        a = self.of(op.operands[0]) if element(op.operands[0].type).bits > 1 else None
        return a if a is not None and self._not_negative(op.operands[0]) else None

    _assume_multiple = _sext

    def _not_negative(self, *values: Value) -> bool:
        """Whether none of the values is negative, or could be assumed not to be."""
        found: Needs = {}
        for value in values:
            needs = self.signs.needs(value)
            if needs is None:
                return False
            found.update(needs)
        self.assumed.update(found)
        return True

    def _phi(self, op: Op) -> Affine | None:
        """A phi of the loop's header that advances by a uniform invariant step."""
        iteration = self.iteration
        if iteration is None or op not in iteration.loop.header.ops:
            return None
        loop = iteration.loop
        if loop.latch is None or loop.preheader is None or len(op.operands) != 2:
            return None
        start = self.of(loop.first(op))
        step = self._step(op.result, loop.next(op), iteration.counter)
        if start is None or step is None:
            return None
        return Affine(start.offset + step * symbol(iteration.counter), start.strides, start.base)

    def _step(self, phi: Value, after: Value, counter: Value) -> Linear | None:
        """How much `after` is beyond `phi`, if that is the same in all elements and iterations."""
        total = Linear()
        while after is not phi:
            op = after.op
            if op is None or op.name not in ("add", "sub", "addptr"):
                return None
            a, b = op.operands
            if op.name == "add" and self._leads_to(b, phi):
                a, b = b, a
            step = self.of(b)
            if step is None or not step.uniform or any(
                    v in self.inside or v is counter for v in step.offset.values()):
                return None
            total = total + step.offset.scaled(-1 if op.name == "sub" else 1)
            after = a
        return total

    def _leads_to(self, value: Value, phi: Value) -> bool:
        while value is not phi:
            op = value.op
            if op is None or op.name not in ("add", "sub", "addptr") or value not in self.inside:
                return False
            value = op.operands[0]
        return True

    def seen(self, polynomial: Linear) -> Linear:
        """A polynomial of an inner loop, its values replaced by their forms in this one."""
        return polynomial.substituted({
            value: form.offset for value in polynomial.values()
            if value in self.inside and (form := self.of(value)) is not None})

    # masks

    def mask(self, guard: Value | None, rank: int) -> Mask | None:
        """The mask as bounds and conditions; None if it is not rectangular."""
        bounds, conditions, others = self.parts(guard, rank)
        return None if others else Mask(tuple(bounds), tuple(conditions))

    def parts(self, guard: Value | None, rank: int, steps: Sequence[int] = ()) -> tuple[
            list[Bound], list[Value], list[tuple[Value, tuple[int | None, ...]]]]:
        """What the mask is a conjunction of: bounds, scalar conditions, and others, each with the
        axes of the tile that its own are.  The indices of bounds rise by 1 or, along each axis, by
        one of `steps`."""
        bounds: list[Bound] = []
        conditions: list[Value] = []
        others: list[tuple[Value, tuple[int | None, ...]]] = []
        axes = tuple(range(rank))
        stack: list[tuple[Value, tuple[int | None, ...]]] = [(guard, axes)] if guard else []
        while stack:
            value, where = stack.pop()
            op = value.op
            if not shape(value.type):
                conditions.append(value)
            elif op is None:
                others.append((value, where))
            elif op.name == "and":
                stack += [(v, where) for v in reversed(op.operands)]
            elif (op.name == "cmpp" and value is op.results[0]) or op.name in (
                    "splat", "broadcast"):
                stack.append((op.operands[0], where))
            elif op.name == "reshape" and (moved := _axes_before(op, where)) is not None:
                stack.append((op.operands[0], moved))
            elif op.name == "constant" and op.attributes["value"]:
                continue
            elif op.name == "icmp" and (bound := self.bound(op, where, steps)) is not None:
                bounds.append(bound)
            else:
                others.append((value, where))
        return bounds, conditions, others

    def bound(self, op: Op, where: tuple[int | None, ...] | None = None,
              steps: Sequence[int] = ()) -> Bound | None:
        """`x < n`, x rising by 1 along one axis and n uniform; if unsigned, neither is negative."""
        a, b = self.of(op.operands[0]), self.of(op.operands[1])
        if a is None or b is None:
            return None
        predicate = op.attributes["predicate"]
        if predicate in ("sgt", "sge", "ugt", "uge"):
            a, b = b, a
        if predicate in ("eq", "ne") or not b.uniform:
            return None
        if predicate[0] == "u" and not self._not_negative(*op.operands):  # one of signed numbers
            return None
        axis = _rising_axis(a, where, steps)
        if axis is None:
            return None
        limit = b.offset + number(1) if predicate[1:] in ("le", "ge") else b.offset
        return Bound(axis, a.offset, limit, op)

    def least(self, value: Value, where: tuple[int | None, ...], steps: Sequence[int] = ()
              ) -> Bound | None:
        """`x >= n`, of signed numbers, with x rising by 1 along one axis and n uniform: elements
        with start + i_axis >= limit."""
        op = value.op
        if op is None or op.name != "icmp" or op.attributes["predicate"] not in (
                "sgt", "sge", "slt", "sle"):
            return None
        strict = op.attributes["predicate"] in ("sgt", "slt")
        index, limit = (self.of(v) for v in op.operands[::(
            1 if op.attributes["predicate"][1] == "g" else -1)])
        if index is None or limit is None or not limit.uniform:
            return None
        axis = _rising_axis(index, where, steps)
        return None if axis is None else Bound(
            axis, index.offset, limit.offset + number(int(strict)), op)


def _rising_axis(form: Affine, where: tuple[int | None, ...] | None, steps: Sequence[int]
                 ) -> int | None:
    """The axis of the whole tile, by those of `where`, along which alone an index rises: by its
    step, or by 1."""
    moving = [d for d, s in enumerate(form.strides) if s.terms]
    axis = None if len(moving) != 1 else moving[0] if where is None else where[moving[0]]
    right = axis is not None and form.strides[moving[0]].constant == (steps[axis] if steps else 1)
    return axis if right else None


def _axes_before(op: Op, where: tuple[int | None, ...]) -> tuple[int | None, ...] | None:
    """For each axis of the operand of a reshape, the axis of the whole tile that it becomes."""
    before, after = shape(op.operands[0].type), shape(op.result.type)
    if not before:
        return ()
    places = same_axes(after, before)
    return None if places is None else tuple(None if d is None else where[d] for d in places)
