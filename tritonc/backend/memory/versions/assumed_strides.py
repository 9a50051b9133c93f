"""Strides that accesses need to be 1, so that an axis of their tile is contiguous: `r * stride`.
Divisors that they need to be multiples, so that what a remainder makes goes on.

The channels of `i % C + i / C % S * C + ...` are contiguous as far as C is a multiple: an access of
16 bytes needs that of C.  Whether it then is wide is seen on a copy of the kernel that supposes it.
`assumed_facts` has all of it tested."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod

from tritonc.analysis.affine import Affine, Affinity, is_counter
from tritonc.analysis.axis.axis_info import AxisInfo, Infos
from tritonc.analysis.linear import Linear
from tritonc.analysis.multiples import Multiples, MultiplesNeeded
from tritonc.analysis.runs import Runs
from tritonc.analysis.signs import Signs
from tritonc.analysis.values import QUOTIENTS, REMAINDERS, closure, int_of, origin
from tritonc.analysis.windows import strided
from tritonc.backend.layout import layout_choice
from tritonc.ir.build import make_op
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import scalar, shape
from tritonc.records import NamedTuple

ACCESS = layout_choice.ACCESS_BYTES
# Taps that a step loads of one array side by side: rows of pixels are multiples of four more often
# than of eight, and each access serves several of them.
TAPS = 3
BESIDE = 16  # a tile of so much less than the largest one does not decide
# Bytes between what the numbers of a table name: of so much memory has fewer than 2^30, so that TMA
# takes numbers of any sign.
BETWEEN = 1 << 10
SUMS = ("add", "addptr")
_TERMS = (*SUMS, "sub", "broadcast", "reshape", "trans", "sext", "zext", "assume_multiple")


class Divisors(NamedTuple):
    """The divisors of one text of a kernel.  An access comes with whether it is outside of loops.
    `testable`: whether a scalar is known before all loops; `products`: whether there are any, in
    whose loops no quotient is asked for."""

    infos: Infos
    multiples: MultiplesNeeded
    testable: Callable[[Value], bool]
    products: bool = True

    def asked(self, accesses: Sequence[tuple[Op, bool]]) -> list[Multiples]:
        """For each access, the scalars that would have to be multiples so that an index that is
        divided by them goes on with its remainder, or that neighbours share its quotient, where no
        axis of the tile is contiguous but by that: the channels of `i % C + i / C % S * C + ...`.
        In loops: one access is not worth that the others lose the body; or of the flat index of
        what is stored, of as many accesses."""
        found: list[Multiples] = []
        stored = {v for op, _ in accesses if op.name == "store" for v in _sums(op.operands[0])}
        largest = max((prod(shape(op.operands[0].type)) for op, _ in accesses), default=0)
        bases = Counter(_base(op) for op, outside in accesses if op.name == "load" and not outside)
        for op, outside in accesses:
            pointer = op.operands[0]
            info, reach = self.infos.get(pointer), reach_of(op)
            most = reach // 2 if self.products and not outside and bases[
                _base(op)] >= TAPS else reach
            asked = info is not None and reach > 1 \
                and max(info.contiguity) == 1 and prod(shape(pointer.type)) * BESIDE > largest
            divisors = self.remainders(
                pointer, reach, outside or not self.products) if asked else []
            found.append({divisor: min(run, most) for divided, divisor, run in divisors
                          if not outside or divided in stored})
        return found

    def helped(self, accesses: Sequence[tuple[Op, bool]], asked: Sequence[Multiples]
               ) -> list[Multiples]:
        """What of it makes its access wide, if all of it holds."""
        known = Runs(self.infos)
        return [some if some and (self.wide(op, min(some.values())) or (
                    (outside or not self.products) and self.alike(op)) or (
                    self.products and not outside and op.name == "load"
                    and (form := known.of(op.operands[0])) is not None and strided(form))) else {}
                for (op, outside), some in zip(accesses, asked, strict=True)]

    def alike(self, op: Op) -> bool:
        """Whether as many neighbours as an access has go to one address."""
        info = self.infos.get(op.operands[0])
        return info is not None and max(info.constancy) >= reach_of(op)

    def wide(self, op: Op, run: int) -> bool:
        """Whether all that an access of a run still lacks are multiples that can be tested."""
        return self.needs(op, run) is not None

    def needs(self, op: Op, run: int = ACCESS) -> Multiples | None:
        """What must be multiples so that an access is wide, or of a run; None if that is not all.
        """
        pointer, reach = op.operands[0], min(reach_of(op), run)
        info = self.infos.get(pointer)
        if info is None:
            return None
        axis = layout_choice.fastest_axis(info, len(shape(pointer.type)))
        guard = self.infos.get(op.guard) if op.guard is not None else None
        if info.contiguity[axis] < reach or (
                guard is not None and guard.constancy[axis] < reach and op.name == "store"):
            return None
        return self.multiples.of_pointer(pointer, axis, reach)

    def remainders(self, pointer: Value, reach: int, quotients: bool = False
                   ) -> list[tuple[Value, Value, int]]:
        """The dividends and divisors of terms of an address that are remainders of an index that
        goes on for `reach`, or for so many less as each counts for more, and how long that is; or
        that its `quotients` make, which neighbours share."""
        found, stack = [], [(pointer, reach)]
        seen: set[tuple[Value, int]] = set()
        while stack:
            value, run = stack.pop()
            op = value.op
            if op is None or (value, run) in seen:
                continue
            seen.add((value, run))
            if op.name in _TERMS:
                stack += [(v, run) for v in op.operands]
            elif op.name == "mul" and self.products and not quotients and run % (
                    step := int_of(origin(op.operands[1])) or reach) == 0 and run > step:
                stack.append((op.operands[0], run // step))
            elif op.name in REMAINDERS or (quotients and op.name in QUOTIENTS):
                if quotients:
                    stack.append((op.operands[0], run))
                info, divisor = self.infos.get(op.operands[0]), origin(op.operands[1])
                if info is not None and max(info.contiguity) >= run and not shape(
                        divisor.type) and self.testable(divisor):
                    found.append((op.operands[0], divisor, run))
        return found


def _base(op: Op) -> Value:
    """What an access adds its offset to."""
    return origin(op.operands[0], (*_TERMS, "splat"))


def has_remainder(pointer: Value) -> bool:
    """Whether a term of an address is a remainder."""
    terms = closure([pointer.op], lambda op: [
        v.op for v in op.operands] if op is not None and op.name in _TERMS else ())
    return any(op is not None and op.name in REMAINDERS for op in terms)


def multiples_of(values: Multiples) -> dict[Value, Op]:
    """Hints that values are multiples."""
    return {v: make_op("assume_multiple", [v], n=n) for v, n in values.items()}


def _sums(pointer: Value) -> list[Value]:
    """The tiles that are added up to an address, of any width, sums of them included."""
    found = [pointer]
    for value in found:
        if value.op is not None and value.op.name in (*SUMS, "sext", "zext"):
            found += value.op.operands
    return found


def reach_of(op: Op) -> int:
    """The elements of the widest access."""
    return ACCESS // scalar(pointee(op.operands[0].type)).bytes


class Units(NamedTuple):
    """The strides of one text of a kernel.  An access comes with the forms of values where it
    stands.  `testable`: whether a scalar is known before all loops.  `not_one`: strides that are
    not asked to be 1, but those of another axis of their tiles, where either is as likely."""

    infos: Mapping[Value, AxisInfo]
    testable: Callable[[Value], bool]
    not_one: Collection[Value] = ()
    limits: Collection[Value] = ()

    def asked(self, accesses: Sequence[tuple[Op, Affinity]]) -> dict[Value, None]:
        """The strides that would make an axis of each tile contiguous that has none.

        Not what is the stride of rows elsewhere, a bound, or a quotient, as a number of groups is:
        such a value is hardly ever 1.  Nor of a row or column beside large tiles: what it gains is
        not worth that others lose the body."""
        largest = max((prod(shape(op.operands[0].type)) for op, _ in accesses), default=0)
        others = {*self.not_one, *self.limits}
        for op, affinity in accesses:
            mask = affinity.mask(op.guard, len(shape(op.operands[0].type)))
            for bound in mask.bounds if mask else ():
                others.update(bound.limit.values())
            form, info = affinity.of(op.operands[0]), self.infos.get(op.operands[0])
            if form is not None and info is not None and max(info.contiguity) > 1:
                others.update(v for stride in form.strides for v in stride.values())
        found: dict[Value, None] = {}
        for op, affinity in accesses:
            if prod(shape(op.operands[0].type)) * BESIDE <= largest:
                continue
            options = self.strides(op.operands[0], affinity)
            if any(v in self.not_one and whole for v, (whole, _) in options):
                continue
            usable = [option for option in options if option[0] not in others]
            if usable and not any(v in found for v, _ in options):
                unit = max(usable, key=lambda option: option[1])[0]
                found[unit] = None
                others.update(v for v, _ in options if v is not unit)
        return found

    def strides(self, pointer: Value, affinity: Affinity) -> list[tuple[Value, tuple[bool, int]]]:
        """The scalars that are the stride of an axis, ordered by how likely each of them is 1: of
        an axis that no loop and no program id moves, then of the last."""
        info, extents = self.infos.get(pointer), shape(pointer.type)
        if info is None or any(c > 1 for c in info.contiguity):
            return []
        terms = [(term, affinity.of(term)) for term in _terms(pointer)]
        forms = [form for _, form in terms if form is not None]
        found = []
        for axis, extent in enumerate(extents):
            if extent == 1 or not all(form is not None or self.constant(term, axis)
                                      for term, form in terms):
                continue
            stride = sum((form.strides[axis] for form in forms if form.strides), Linear())
            if 0 < abs(stride.constant or 0) * scalar(pointee(pointer.type)).bytes < 2 * ACCESS:
                return []  # this axis lies along memory, though not densely
            value = stride.terms[0][0] if len(stride.terms) == 1 else ()
            if len(value) != 1 or stride.terms[0][1] != 1 or not self.testable(value[0]) \
                    or self.infos[value[0]].every > 1 or _is_quotient(value[0]):
                continue
            whole = not any(value[0] in form.offset.values() for form in forms)
            found.append((value[0], (whole, axis)))
        return found

    def constant(self, term: Value, axis: int) -> bool:
        """Whether a term of an address is the same all along an axis."""
        info = self.infos.get(term)
        return info is not None and len(info.constancy) > axis and (
            info.constancy[axis] % shape(term.type)[axis] == 0 if shape(term.type) else True)


def limits_of(kernel: Kernel) -> set[Value]:
    """What numbers are compared with, by which is less: the extents of arrays, as the taps of a
    filter are, whose stride they are too."""
    return {origin(v) for op in kernel.ops() if op.name == "icmp" and op.attributes[
        "predicate"] not in ("eq", "ne") for v in op.operands}


def _is_quotient(value: Value) -> bool:
    return value.op is not None and value.op.name in ("sdiv", "udiv", "ashr", "lshr")


def _terms(pointer: Value) -> list[Value]:
    """The tiles of which the address is the sum, all of the pointer's shape."""
    found, stack = [], [pointer]
    while stack:
        value = stack.pop()
        op = value.op
        if op is not None and op.name in SUMS and shape(op.operands[1].type) == shape(pointer.type):
            stack += op.operands
        else:
            found.append(value)
    return found


def fixed(polynomial: Linear) -> Linear:
    """What it is before the first iteration."""
    return Linear(tuple((values, n) for values, n in polynomial.terms
                        if not any(map(is_counter, values))))


def signs_of(form: Affine, signs: Signs) -> dict[Value, None] | None:
    """What makes offset and strides of an access 0 or more; None if nothing that can be tested.

    A part of the offset that parameters alone make moves the base, by as much as they say.  Numbers
    of a table may have any sign."""
    found: dict[Value, None] = {}
    size = scalar(pointee(form.base.type)).bytes if form.base is not None else 0
    moving = Linear(tuple((m, n) for m, n in form.offset.terms if any(v.op is not None for v in m)
                          or any(map(is_counter, m)) or not m))
    for polynomial in (moving, *form.strides):
        values = tuple((tuple(v for v in m if not is_counter(v) and (
            n * size < BETWEEN or polynomial is not moving or signs.needs(v) is not None)), n)
            for m, n in polynomial.terms)
        needs = signs.of_polynomial(Linear(values))
        if needs is None:
            return None
        found.update(needs)
    numbers = [v for v in form.offset.values() if v.op is not None and not is_counter(v)]
    found.update((v, None) for v in numbers if not signs.fits(v) and signs.testable(v))
    return found
