"""Accesses that follow from quotients of what a program computes.

The rows of an implicit product, a convolution's pixels, are numbered through: image, row and column
are quotients and remainders of the number of a row of the result; or a tile has an axis for each,
and the product one for all.  Such a tile is no box in memory, or its mask is none; threads copy it,
and find out in each step where from.  A remainder alone only keeps rows inside a matrix, and
vanishes where the tile is full."""

from __future__ import annotations

from tritonc.analysis.values import QUOTIENTS, int_of, slice_of
from tritonc.ir.core import Op, Value
from tritonc.ir.types import same_axes, shape

_NUMBERS = ("get_program_id", "get_global_range")


def of_program(load: Op) -> bool:
    """Whether where a load reads, or its mask, follows from quotients, by tiles, of which part of
    the result the program computes; and from nothing that is loaded, which takes registers until
    it is there."""
    found = slice_of(load.inputs(), ends=("load",), masks=False)
    return not any(op.name == "load" for op in found) and any(
        is_of_program(op) or (_merges(op) and _is_numbered(op)) for op in found)


def is_of_program(op: Op) -> bool:
    """Whether it is a quotient, of a tile, of what numbers a part of the result."""
    return op.name in QUOTIENTS and bool(shape(op.result.type)) and _is_numbered(op)


def _is_numbered(op: Op) -> bool:
    return any(one.name in _NUMBERS
               for one in slice_of(op.operands[:1], ends=("load", "phi"), masks=False))


def _merges(op: Op) -> bool:
    """Whether axes come together here."""
    return op.name == "reshape" and same_axes(
        shape(op.operands[0].type), shape(op.result.type)) is None


def in_steps(load: Op) -> bool:
    """Whether that follows from quotients, by tiles, of numbers that are not known: then a thread
    computes it anew for each row that it copies, be it in each step of a loop."""
    return of_program(load) or any(
        op.name in QUOTIENTS and shape(op.result.type) and int_of(op.operands[1]) is None
        for op in slice_of(load.inputs(), ends=("load",), masks=False))


def gathered(dot: Op) -> list[Op]:
    """The loads of a product's operands of which that holds.  Words, each of which becomes a row's
    neighbours, have two axes."""
    loaded = slice_of(dot.operands[:2], None, ("dot", "phi", "load"), False)
    merged = slice_of([v for op in loaded if _merges(op) for v in op.operands], loaded)
    return [op for op in loaded if op.name == "load" and (
        of_program(op) or (op in merged and sum(n > 1 for n in shape(op.result.type)) > 2))]


def dividend(value: Value) -> tuple[Value, list[Value]]:
    """What a quotient divides, and by what, one after the other; nothing if it is no quotient."""
    op = value.op
    if op is None or op.name not in QUOTIENTS:
        return value, []
    first, divisors = dividend(op.operands[0])
    return first, [*divisors, op.operands[1]]
