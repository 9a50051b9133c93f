"""Loads that begin a known distance behind aligned addresses, as those of a pixel's neighbours do.

    x + row * W + (w - 1), where W is a multiple of 16 and x is aligned: runs of 16 bytes begin at
    byte 15 of aligned ones

Aligned accesses bring what such a load wants, and neighbouring loads want the same ones.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import gcd
from typing import NamedTuple

from tritonc.analysis.affine import Affine, Affinity
from tritonc.analysis.axis.axis_info import AxisInfo, Infos
from tritonc.analysis.linear import Linear, symbol
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import Tile, is_pointer, scalar, shape

ACCESS_BYTES = 16


class Window(NamedTuple):
    """Where a load begins: `begin` elements behind a place of which `info` says what is known of
    addresses, `aligned` if that is no less known of its own.  Loads of one `place` begin `begin`
    elements behind the same address."""

    place: Hashable
    begin: int
    aligned: bool
    info: AxisInfo


class _Known(Affinity):
    """Forms in values of which it is known what they are multiples of."""

    def _assume_multiple(self, op: Op) -> Affine | None:
        if shape(op.result.type):
            return super()._assume_multiple(op)
        if is_pointer(op.result.type):
            return Affine(Linear(), (), op.result)
        return Affine(symbol(op.result), ())


def windows(kernel: Kernel, infos: Infos) -> dict[Op, Window]:
    """The loads of tiles whose addresses go on along an axis from a known place."""
    affinity, found = _Known(), {}
    for op in kernel.ops():
        if op.name != "load" or not isinstance(op.result.type, Tile) or op.attributes.get(
                "volatile"):
            continue
        pointer = op.operands[0]
        info, form = infos.get(pointer), affinity.of(pointer)
        if info is None or form is None or form.base is None:
            continue
        size = scalar(pointee(pointer.type)).bytes
        axis = max(range(len(info.contiguity)), key=lambda d: (info.contiguity[d], d))
        if info.contiguity[axis] < 2 or form.strides[axis].constant != 1:
            continue
        run = gcd(ACCESS_BYTES, infos[form.base].every) // size
        rest = [form.offset, *(s for d, s in enumerate(form.strides) if d != axis)]
        for term in (term for polynomial in rest for term in polynomial.terms if term[0]):
            run = gcd(run, _divides(term, infos))
        for number in (n for s in rest[1:] for values, n in s.terms if not values):
            run = gcd(run, number)
        if run > 1:
            begin = sum(n for values, n in form.offset.terms if not values)
            terms = frozenset(term for term in form.offset.terms if term[0])
            aligned = list(info.divisibility)
            aligned[axis] = max(aligned[axis], run * size)
            found[op] = Window((form.base, terms, form.strides), begin, begin % run == 0,
                               info._replace(divisibility=tuple(aligned)))
    return found


def _divides(term: tuple[tuple[Value, ...], int], infos: Infos) -> int:
    """What divides a product of values."""
    values, n = term
    for value in values:
        n *= infos[value].every if value in infos else 1
    return n
