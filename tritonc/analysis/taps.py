"""Loops over the taps of a filter: short ones, whose iterations read what lies side by side."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tritonc.analysis.affine import Affinity
from tritonc.analysis.counters import counter_of
from tritonc.analysis.windows import SMALL
from tritonc.ir.cfg import Loop
from tritonc.ir.core import Op
from tritonc.ir.rules import pointee
from tritonc.ir.types import scalar, shape

ACCESS_BYTES = 16
# Elements that all taps of a product load, if they run side by side: as halves they fill 64
# registers of 256 threads, beside as many sums; or each of them, of 128 x 128 x 16.  And how many
# taps there may be.
_MOST_NEAR, _MOST_EACH, MOST_TAPS = 1 << 15, 1 << 12, 9


def near(loop: Loop, ops: Iterable[Op]) -> bool:
    """Whether what a load reads in one iteration of a loop that counts lies less than an access
    from what it reads in the next, in elements so small that loads of single ones cost most."""
    affinity, counter = Affinity(), counter_of(loop)
    if counter is None:
        return False
    for op in ops:
        form = affinity.of(op.operands[0]) if op.name == "load" else None
        if form is None or form.base is None:
            continue
        moves = [(values, n) for values, n in form.offset.terms if counter.phi.result in values]
        size = scalar(pointee(op.operands[0].type)).bytes
        if size <= SMALL and len(moves) == 1 and len(moves[0][0]) == 1 \
                and abs(moves[0][1] * counter.step) * size < ACCESS_BYTES:
            return True
    return False


def few(taps: int, elements: int) -> bool:
    """Whether so many taps, which load so many elements together, may run side by side."""
    return taps <= MOST_TAPS and elements <= max(_MOST_NEAR, taps * _MOST_EACH)


def products(ops: Iterable[Op]) -> int:
    """How many taps one iteration has."""
    return sum(op.name == "dot" for op in ops)


def loaded(ops: Iterable[Op]) -> int:
    """How many elements one iteration loads."""
    return sum(prod(shape(op.result.type)) for op in ops if op.name == "load")
