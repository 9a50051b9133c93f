"""count_quotients: the quotient of a loop's counter by a loop-invariant scalar becomes a counter
too.

Before:  header: %k = phi [%s], [%k + 64]       After:  header: %k = phi [%s], [%k + 64]
         body:   %q = sdiv %k, %G                               %r = phi [%s mod %G], [%r2]
                                                                %q = phi [%s / %G], [%q2]
                                                        body:   %r1 = %r + 64 mod %G
                                                                %over = %r1 >= %G
                                                                %r2 = %over ? %r1 - %G : %r1
                                                                %q2 = %q + 64 / %G + %over

A division by a number that is not known takes some forty instructions, one after the other.  Where
groups of weights are as long as a parameter says, each step of K begins with one.  What is divided
before the loop is the counter's start, if that is not 0, and its step, if it is not known to divide
%G: then the quotient grows by one at most.

Of counters that are not negative and rise; a divisor below 0, where there may be one, gives the
negative quotient.
"""

from __future__ import annotations

from tritonc.analysis.counters import step_of
from tritonc.analysis.facts import Facts, scalar_of
from tritonc.analysis.signs import known_signs
from tritonc.analysis.values import int_of
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop, add_incoming, make_phi
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Value
from tritonc.ir.types import I32, scalar, shape


def count_quotients(kernel: Kernel, context: Context) -> bool:
    """Do it for all quotients of counters, guarded ones as well."""
    cfg, facts = Cfg(kernel), Facts(kernel)
    made: dict[tuple[Value, Value], Value] = {}
    replaced: dict[Value, Value] = {}
    for block in cfg.order:
        loop = cfg.innermost.get(block)
        for op in list(block.ops):
            if op.name != "sdiv" or loop is None or scalar(op.result.type) != I32 \
                    or int_of(op.operands[1]) is not None:
                continue
            number, divisor = (scalar_of(v, facts) for v in op.operands)
            if number is None or divisor is None:
                continue
            key = number, divisor
            if key not in made:
                counted = _counted(cfg, loop, facts, number, divisor)
                if counted is None:
                    continue
                made[key] = counted
            if not shape(op.result.type):
                replaced[op.result] = made[key]
                continue
            splat = make_op("splat", [made[key]], op.result.type, span=op.span)
            block.ops.insert(block.ops.index(op), splat)
            replaced[op.result] = splat.result
    kernel.replace(replaced)
    return bool(replaced)


def _counted(cfg: Cfg, loop: Loop, facts: Facts, number: Value, divisor: Value) -> Value | None:
    """The quotient as a phi of the loop; None where the number is no counter that rises."""
    phi, home = number.op, cfg.block_of.get(divisor.op) if divisor.op is not None else None
    if phi is None or phi not in loop.header.phis() or loop.preheader is None \
            or loop.latch is None or (home is not None and home in loop):
        return None
    signs = known_signs(cfg.kernel, cfg, loop.preheader)
    step, start = step_of(loop, phi), loop.first(phi)
    if not step or step < 0 or not signs.holds(start):
        return None
    before = Builder(loop.preheader, len(loop.preheader.ops) - 1)
    zero, one = before.constant(0, I32), before.constant(1, I32)
    length, sign = divisor, None
    if not signs.holds(divisor):
        length = before.value("smax", divisor, before.value("sub", zero, divisor))
        sign = before.value("select", before.value("icmp", divisor, zero, predicate="slt"),
                            before.constant(-1, I32), one)

    def parts(value: Value) -> tuple[Value, Value]:
        """Quotient and remainder; a loop that never runs may have a divisor of 0."""
        quotient = before.value("udiv", value, before.value("umax", length, one))
        return quotient, before.value("sub", value, before.value("mul", quotient, length))

    def signed(value: Value) -> Value:
        return value if sign is None else before.value("mul", value, sign)

    first = (zero, zero) if int_of(start) == 0 else parts(start)
    by = before.constant(step, I32)
    whole, by = (zero, by) if facts.factor(divisor) % step == 0 else parts(by)
    rest = make_phi([first[1]], [loop.preheader], "rest")
    quotient = make_phi([signed(first[0])], [loop.preheader], "quotient")
    more_by = signed(before.value("add", whole, one))
    whole = signed(whole)
    loop.header.ops[:0] = [rest, quotient]
    after = Builder(loop.latch, len(loop.latch.ops) - 1)
    more = after.value("add", rest.result, by)
    over = after.value("icmp", more, length, predicate="uge")
    grown = quotient.result if int_of(whole) == 0 else after.value("add", quotient.result, whole)
    for new, value in (
            (rest, after.value("select", over, after.value("sub", more, length), more)),
            (quotient, after.value("select", over, after.value("add", quotient.result, more_by),
                                   grown))):
        add_incoming(new, value, loop.latch)
    return quotient.result
