"""Which instances of a kernel have the longest loops, as far as their numbers tell.

    end = min(S, (get_program_id(0) + 1) * TM)        the work grows with the number along axis 0
    for (int n = 0; n < end; n += TN) ...

A launch takes as long as its last block: whoever has most to do should not come last (Graham 1969).
"""

from __future__ import annotations

from collections.abc import Set

from tritonc.analysis.signs import non_negative
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value

_FOLLOW = ("add", "smin", "smax", "umin", "umax", "sext", "zext", "trunc", "assume_multiple")
_LESS = ("slt", "sle", "ult", "ule")
_GREATER = ("sgt", "sge", "ugt", "uge")


def trend(kernel: Kernel) -> int:
    """1 if loops get longer with the number along axis 0, -1 if shorter; 0 if it makes no
    difference, or not one that is understood."""
    found = {_length(loop) for loop in Cfg(kernel).loops} - {0}
    only = found.pop() if len(found) == 1 else None
    return only or 0


def _length(loop: Loop) -> int | None:
    """How the number of a loop's turns changes with the number along axis 0; None if unknown."""
    test = loop.header.terminator
    if test.name != "cond_br" or loop.preheader is None:
        return 0
    compare = test.operands[0].op
    if compare is None or compare.name != "icmp":
        return None if _slope(test.operands[0], frozenset()) else 0
    left, right = (loop.first(v.op) if v.op in loop.header.phis() and v.op else v
                   for v in compare.operands)
    ends = _slope(right, frozenset()), _slope(left, frozenset())
    if ends == (0, 0):
        return 0
    if None in ends:
        return None
    more = _sum([ends[0], -(ends[1] or 0)])
    stays = 1 if test.blocks[0] in loop else -1
    predicate = compare.attributes["predicate"]
    if more is None or predicate not in (*_LESS, *_GREATER):
        return None
    return more * stays * (1 if predicate in _LESS else -1)


def _sum(slopes: list[int | None]) -> int | None:
    """What a sum does whose terms do these."""
    found = set(slopes) - {0}
    return 0 if not found else found.pop() if len(found) == 1 else None


def _slope(value: Value, seen: Set[Op]) -> int | None:
    """1 if the value never falls when the number along axis 0 rises, -1 if it never rises, 0 if
    the number is not in it; None if unknown.  `seen`: phis above."""
    op = value.op
    if op is None or op in seen or op.name == "constant":
        return 0
    if op.name == "get_program_id":
        return int(op.attributes["axis"] == 0)
    seen = {*seen, op} if op.name == "phi" else seen
    slopes = [_slope(v, seen) for v in op.inputs()]
    if not any(slopes) and None not in slopes:
        return 0
    if op.name in _FOLLOW:
        return _sum(slopes)
    if op.name == "sub":
        return None if slopes[1] is None else _sum([slopes[0], -slopes[1]])
    if op.name in ("mul", "shl", "udiv", "sdiv") and slopes[1] == 0 and non_negative(
            op.operands[1]):
        return slopes[0]
    if op.name == "mul" and slopes[0] == 0 and non_negative(op.operands[0]):
        return slopes[1]
    return None
