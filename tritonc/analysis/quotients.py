"""Addresses that follow from quotients of what a program computes.

The rows of an implicit product, a convolution's pixels, are numbered through: image, row and column
are quotients and remainders of the number of a row of the result.  Such a tile is no box in memory;
threads copy it, and find out in each step where from.  A remainder alone only keeps rows inside a
matrix, and vanishes where the tile is full.
"""

from __future__ import annotations

from collections.abc import Sequence

from tritonc.ir.core import Op, Value
from tritonc.ir.types import shape

_QUOTIENTS = ("sdiv", "udiv")
_NUMBERS = ("get_program_id", "get_global_range")


def of_program(load: Op) -> bool:
    """Whether where a load reads follows from quotients, by tiles, of which part of the result the
    program computes; and from nothing that is loaded, which takes registers until it is there."""
    address = slice_of(load.operands[:1], ("load",))
    return not any(op.name == "load" for op in address) and any(
        op.name in _QUOTIENTS and shape(op.result.type)
        and any(one.name in _NUMBERS for one in slice_of(op.operands[:1], ("load", "phi")))
        for op in address)


def slice_of(values: Sequence[Value], ends: Sequence[str]) -> set[Op]:
    """What the values are computed from, masks aside, up to operations of these names."""
    found: set[Op] = set()
    stack = [v.op for v in values]
    while stack:
        op = stack.pop()
        if op is not None and op not in found:
            found.add(op)
            if op.name not in ends:
                stack += [v.op for v in op.operands]
    return found
