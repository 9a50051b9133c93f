"""Counters of loops that have become one, as digits of an iteration's number.

    %s' = select %more, %s + 1, %s0     %more = %s + 1 < %S      as `coalesce_loops` makes them
    %r' = select %more, %r, %r + 1

The iteration's number is (%r - r0) * n + %s - s0, where n = S - s0.  To go on k iterations adds k's
digits, k % n and k / n, which are computed before the loop, and carries at most once: it takes a
comparison, selections and additions, however large k is."""

from tritonc.analysis.values import conditions, defined_by, int_of
from tritonc.backend.launch.shared_loops import SharedLoop
from tritonc.ir.build import Builder
from tritonc.ir.cfg import incoming
from tritonc.ir.core import Op, Value
from tritonc.ir.types import I32
from tritonc.records import NamedTuple


class _Digit(NamedTuple):
    """A phi that begins at `first`, moves by `step` and stays below `limit`; the last has none."""

    phi: Op
    first: Value
    step: int
    limit: Value | None


def share_digits(one: SharedLoop, before: Builder, rank: Value, blocks: int) -> bool:
    """Let the counters go on `rank` iterations at first, and `blocks` then, if they are digits."""
    digits = _digits(one)
    latch = Builder(one.latch, len(one.latch.ops) - 1, before.span)
    start, by, carry = rank, before.constant(blocks, I32), None
    for phi, first, number, limit in digits or ():
        step, value = before.constant(number, I32), phi.result
        here, more = start, by
        if limit is not None:
            span = before.value("sub", limit, first)
            up = before.value("add", span, before.constant(number - 1, I32))
            size = before.value("umax", before.value("udiv", up, step), before.constant(1, I32))
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
        phi.operands = [begin if source is one.preheader else after for source in phi.blocks]
    return digits is not None


def _digits(one: SharedLoop) -> list[_Digit] | None:
    """The lowest first; None if the scalars of a loop are no such number."""
    parts = {phi: _parts(one, phi) for phi in one.others}
    ordered = sorted(parts, key=lambda phi: -len(parts[phi][1]))
    tests = parts[ordered[0]][1] if ordered else []  # the lowest one's, the outer one's first
    always = {*conditions(one.loop.header.terminator.operands[0])}
    found = []
    for at, phi in enumerate(ordered):
        core, above = parts[phi]
        below = tests[len(tests) - at] if 0 < at <= len(tests) else None
        if core is None or above != tests[:len(tests) - at] or (at > 0) != (below is not None):
            return None
        if below is not None:  # the next value where those below begin anew
            chosen = defined_by(core, "select")
            if chosen is None or chosen.operands[:2] != [below, phi.result]:
                return None
            value, core = core, chosen.operands[2]
        else:
            value = core
        following = defined_by(core, "add")
        number = int_of(following.operands[1]) if following is not None else None
        if following is None or following.operands[0] is not phi.result or not number \
                or number < 0 or phi.result.type != I32:
            return None
        limit = None
        if above:
            ends = [c for c in conditions(above[-1]) if c not in always]
            test = defined_by(ends[0], "icmp") if len(ends) == 1 else None
            if test is None or test.attributes["predicate"] != "slt" \
                    or test.operands[0] is not value or test.operands[1].op in one.loop.ops():
                return None
            limit = test.operands[1]
        found.append(_Digit(phi, incoming(phi, one.preheader), number, limit))
    return found if found and len(tests) == len(found) - 1 else None


def _parts(one: SharedLoop, phi: Op) -> tuple[Value | None, list[Value]]:
    """What a phi goes on with, but for where it begins anew, and the tests that decide that."""
    value, first = incoming(phi, one.latch), incoming(phi, one.preheader)
    tests: list[Value] = []
    while (op := defined_by(value, "select")) is not None and op.operands[2] is first:
        tests.append(op.operands[0])
        value = op.operands[1]
    return value, tests
