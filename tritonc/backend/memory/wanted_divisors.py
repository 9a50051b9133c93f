"""Divisors that accesses want to be multiples, so that what a remainder makes goes on.

The channels of `i % C + i / C % S * C + ...` are contiguous as far as C is a multiple: an access of
16 bytes wants that of C, which `wanted_facts` has tested.  Whether it then is wide is seen on a
copy of the kernel that supposes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from tritonc.analysis.axis_info import AxisInfo
from tritonc.analysis.multiples import Multiples, MultiplesNeeded
from tritonc.analysis.values import origin
from tritonc.backend.layout import layout_choice
from tritonc.ir.build import make_op
from tritonc.ir.core import Op, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import scalar, shape

ACCESS = layout_choice.ACCESS_BYTES
BESIDE = 16  # a tile of so much less than the largest one does not decide
SUMS = ("add", "addptr")
_TERMS = (*SUMS, "sub", "broadcast", "reshape", "trans", "sext", "zext", "assume_multiple")


class Divisors(NamedTuple):
    """The divisors of one text of a kernel.  An access comes with whether it is outside of loops.
    `testable`: whether a scalar is known before all loops; `products`: whether there are any, whose
    quotients in loops are left to `count_quotients`."""

    infos: Mapping[Value, AxisInfo]
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
        for op, outside in accesses:
            pointer = op.operands[0]
            info, reach = self.infos.get(pointer), reach_of(op)
            wanted = info is not None and reach > 1 \
                and max(info.contiguity) == 1 and prod(shape(pointer.type)) * BESIDE > largest
            divisors = self.remainders(
                pointer, reach, outside or not self.products) if wanted else []
            found.append({divisor: reach for divided, divisor in divisors
                          if not outside or divided in stored})
        return found

    def helped(self, accesses: Sequence[tuple[Op, bool]], asked: Sequence[Multiples]
               ) -> list[Multiples]:
        """What of it makes its access wide, if all of it holds."""
        return [some if some and (self.wide(op) or (
                    (outside or not self.products) and self.alike(op))) else {}
                for (op, outside), some in zip(accesses, asked, strict=True)]

    def alike(self, op: Op) -> bool:
        """Whether as many neighbours as an access has go to one address."""
        info = self.infos.get(op.operands[0])
        return info is not None and max(info.constancy) >= reach_of(op)

    def wide(self, op: Op) -> bool:
        """Whether all that the access still lacks are multiples that can be tested."""
        return self.needs(op) is not None

    def needs(self, op: Op) -> Multiples | None:
        """What must be multiples so that an access is wide; None if that is not all."""
        pointer, reach = op.operands[0], reach_of(op)
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
                   ) -> list[tuple[Value, Value]]:
        """The dividends and divisors of terms of an address that are remainders of an index that
        goes on for `reach`; or that its `quotients` make, which neighbours share."""
        found, stack = [], [pointer]
        while stack:
            op = stack.pop().op
            if op is None:
                continue
            if op.name in _TERMS:
                stack += op.operands
            elif op.name in ("srem", "urem") or (quotients and op.name in ("sdiv", "udiv")):
                if quotients:
                    stack.append(op.operands[0])
                info, divisor = self.infos.get(op.operands[0]), origin(op.operands[1])
                if info is not None and max(info.contiguity) >= reach and not shape(
                        divisor.type) and self.testable(divisor):
                    found.append((op.operands[0], divisor))
        return found


def multiples_of(values: Multiples) -> dict[Value, Op]:
    """Hints that values are multiples."""
    return {v: make_op("assume_multiple", [v], n=n) for v, n in values.items()}


def _sums(pointer: Value) -> list[Value]:
    """The tiles that are added up to an address, sums of them included."""
    found = [pointer]
    for value in found:
        if value.op is not None and value.op.name in SUMS:
            found += value.op.operands
    return found


def reach_of(op: Op) -> int:
    """The elements of the widest access."""
    return ACCESS // scalar(pointee(op.operands[0].type)).bytes
