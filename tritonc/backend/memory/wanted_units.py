"""Strides that accesses want to be 1, so that an axis of their tile is contiguous: `r * stride`.

`wanted_facts` has them tested.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import NamedTuple

from tritonc.analysis.affine import Affinity
from tritonc.analysis.axis_info import AxisInfo
from tritonc.analysis.linear import Linear
from tritonc.backend.memory.wanted_divisors import BESIDE, SUMS
from tritonc.ir.core import Op, Value
from tritonc.ir.types import shape


class Units(NamedTuple):
    """The strides of one text of a kernel.  An access comes with the forms of values where it
    stands.  `testable`: whether a scalar is known before all loops.  `not_one`: strides that are
    not asked to be 1, but those of another axis of their tiles, where either is as likely."""

    infos: Mapping[Value, AxisInfo]
    testable: Callable[[Value], bool]
    not_one: Collection[Value] = ()

    def asked(self, accesses: Sequence[tuple[Op, Affinity]]) -> dict[Value, None]:
        """The strides that would make an axis of each tile contiguous that has none.

        Not what is the stride of rows elsewhere, a bound, or a quotient, as a number of groups is:
        such a value is hardly ever 1.  Nor of a row or column beside large tiles: what it gains is
        not worth that others lose the body.
        """
        largest = max((prod(shape(op.operands[0].type)) for op, _ in accesses), default=0)
        others = set(self.not_one)
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


def _is_quotient(value: Value) -> bool:
    return value.op is not None and value.op.name in ("sdiv", "udiv", "ashr", "lshr")


def _terms(pointer: Value) -> list[Value]:
    """The tiles of which the address is the sum, all of the pointer's shape."""
    found, stack = [], [pointer]
    while stack:
        value = stack.pop()
        op = value.op
        if op is not None and op.name in SUMS and shape(op.operands[1].type) == shape(
                pointer.type):
            stack += op.operands
        else:
            found.append(value)
    return found
