"""Counters of loops that have become one, as digits of an iteration's number.

    %s' = select %more, %s + 1, %s0     %more = %s + 1 < %S      as `coalesce_loops` makes them
    %r' = select %more, %r, %r + 1

The iteration's number is (%r - r0) * n + %s - s0, where n = S - s0.  To go on k iterations adds k's
digits, k % n and k / n, which are computed before the loop, and carries at most once: it takes a
comparison, a minimum, a selection and additions, however large k is."""

from collections.abc import Sequence

from tritonc.analysis.values import conditions, defined_by, int_of
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Loop
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import I32
from tritonc.records import NamedTuple


class Digit(NamedTuple):
    """A phi that begins at `first`, moves by `step` and stays below `limit`; the last has none."""

    phi: Op
    first: Value
    step: Value
    limit: Value | None


def share_digits(digits: Sequence[Digit], before: Builder, last: Block, rank: Value, blocks: int
                 ) -> None:
    """Let the counters go on `rank` iterations at first, and `blocks` then, in the latch `last`."""
    latch = Builder(last, len(last.ops) - 1, before.span)
    start, by, carry = rank, before.constant(blocks, I32), None
    least = before.constant(1, I32)
    for phi, first, step, limit in digits:
        value, here, more = phi.result, start, by
        if limit is not None:
            up = before.value("sub", before.value("add", limit, step), first)
            parts = before.value("udiv", before.value("sub", up, least), before.value(
                "umax", step, least))
            size = before.value("umax", parts, least)
            here, more = (before.value("urem", v, size) for v in (start, by))
            start, by = (before.value("udiv", v, size) for v in (start, by))
        here, more = (before.value("mul", v, step) for v in (here, more))
        if carry is not None:
            none = before.constant(0, I32)
            value = latch.value("add", value, latch.value("select", carry, step, none))
        after = latch.value("add", value, more)
        if limit is not None:
            whole, natural = before.value("mul", size, step), int_of(first) == 0
            gone = after if natural else latch.value("sub", after, first)
            carry = latch.value("icmp", gone, whole, predicate="uge")
            less = latch.value("sub", after, whole)
            after = latch.value("umin", after, less) if natural else latch.value(
                "select", carry, less, after)  # a minimum is known not to be negative
        begin = before.value("add", first, here)
        begin.name = after.name = phi.result.name
        phi.operands = [after if source is last else begin for source in phi.blocks]


def digits_of(loop: Loop, phis: Sequence[Op]) -> list[Digit] | None:
    """Those of a number that the phis are, the lowest first; None if they are none."""
    parts = {phi: _parts(loop, phi) for phi in phis}
    ordered = sorted(parts, key=lambda phi: -len(parts[phi][1]))
    tests = parts[ordered[0]][1] if ordered else []  # the lowest one's, the outer one's first
    always, inside = {*conditions(loop.header.terminator.operands[0])}, {*loop.ops()}
    found = []
    for at, phi in enumerate(ordered):
        value, above = parts[phi]
        core = value
        if above != tests[:len(tests) - at] or at > len(tests) or phi.result.type != I32:
            return None
        if at:  # the next value where those below begin anew
            chosen = defined_by(value, "select")
            if chosen is None or chosen.operands[:2] != [tests[-at], phi.result]:
                return None
            core = chosen.operands[2]
        following, limit = defined_by(core, "add"), None
        if following is None or following.operands[0] is not phi.result \
                or following.operands[1].op in inside:
            return None
        if above:
            ends = [c for c in conditions(above[-1]) if c not in always]
            test = defined_by(ends[0], "icmp") if len(ends) == 1 else None
            if test is None or test.attributes["predicate"] != "slt" \
                    or test.operands[0] is not value or test.operands[1].op in inside:
                return None
            limit = test.operands[1]
        found.append(Digit(phi, loop.first(phi), following.operands[1], limit))
    return found if len(tests) == max(0, len(found) - 1) else None


def _parts(loop: Loop, phi: Op) -> tuple[Value, list[Value]]:
    """What a phi goes on with, but for where it begins anew, and the tests that decide that."""
    value, first = loop.next(phi), loop.first(phi)
    tests: list[Value] = []
    while (op := defined_by(value, "select")) is not None and op.operands[2] is first:
        tests.append(op.operands[0])
        value = op.operands[1]
    return value, tests
