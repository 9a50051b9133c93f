"""count_from_zero: counters of loops around products begin at 0, not below.

Before:  %r = phi [-1], [%r + 1]                   After:  %n = phi [0], [%n + 1]
         cond_br (%r < 2), ...                             %r = add %n, -1
                                                           cond_br (%n < 3), ...

Taps of a convolution are often counted from -1 to 1, and its filters by 1 more.  Of a sum of a
counter that is not negative it is known that it is none, as the start of a box of a tensor must be.
"""

from tritonc.analysis.counters import counter_of
from tritonc.analysis.values import int_of
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop, add_incoming, make_phi
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel


def count_from_zero(kernel: Kernel, context: Context) -> bool:
    """Do it where first number and limit are constants."""
    changed = False
    for loop in Cfg(kernel).loops:
        if loop.regular and any(op.name == "dot" for op in loop.ops()):
            changed |= _count(kernel, loop)
    return changed


def _count(kernel: Kernel, loop: Loop) -> bool:
    counter = counter_of(loop)
    if counter is None or counter.step < 1:
        return False
    start, limit = int_of(loop.first(counter.phi)), int_of(counter.limit)
    after, test = loop.next(counter.phi).op, loop.header.terminator.operands[0].op
    if start is None or start >= 0 or limit is None or after is None or test is None:
        return False
    assert loop.preheader is not None and loop.latch is not None
    t, header = counter.phi.result.type, loop.header
    zero, by, less, end = (make_op("constant", [], t, value=n)
                           for n in (0, counter.step, start, limit - start))
    loop.preheader.ops[-1:-1] = [zero, by, less, end]
    phi = make_phi([zero.result], [loop.preheader], counter.phi.result.name)
    following = make_op("add", [phi.result, by.result])
    add_incoming(phi, following.result, loop.latch)
    loop.latch.ops.insert(-1, following)
    value = make_op("add", [phi.result, less.result])
    test.operands = [phi.result if v is counter.phi.result else end.result for v in test.operands]
    header.ops[header.ops.index(counter.phi)] = phi
    header.ops.insert(len(header.phis()), value)
    kernel.replace({counter.phi.result: value.result})
    return True
