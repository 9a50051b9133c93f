"""Loops that end by tests of tiles of indices end by tests of scalars.

    head: %k = phi [%k0, pre], [%k1, body]         head: %o = phi [0, pre], [%o1, body]
          %m = reduce %k {smin}                          %m = %o
          %c = icmp slt %m, %K               ->          %c = icmp slt %m, %K
    body: %k1 = add %k, 64                         body: %o1 = add %o, 64

So does `while (any(k < K))`.  What a loop moves becomes a start and a scalar, as strength reduction
does later for all tiles; a rule of `peephole` then says what the least index is.
"""

from __future__ import annotations

from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Value
from tritonc.ir.types import Tile
from tritonc.opt.addresses.strength_reduce import Reduction, Shared, moves
from tritonc.opt.peephole import sweep
from tritonc.opt.peephole.shapes import reduce_of_run


def scalar_tests(kernel: Kernel, context: Context) -> bool:
    """Rewrite the tests of all loops."""
    cfg, shared, changed = Cfg(kernel), Shared(), False
    for loop in cfg.loops:
        if loop.preheader is None or loop.latch is None or not (read := _reduced(loop)):
            continue
        for phi in loop.header.phis():
            chain = moves(cfg, loop, phi)
            if chain is not None and any(op.result in read for op in chain):
                Reduction(kernel, cfg, loop, phi, chain, shared).run()
                changed = True
    return changed and (sweep(kernel, reduce_of_run) or True)


def _reduced(loop: Loop) -> set[Value]:
    """What reductions to a scalar read, or comparisons that they read."""
    found: set[Value] = set()
    for op in loop.ops():
        if op.name == "reduce" and not isinstance(op.result.type, Tile):
            x = op.operands[0]
            found |= {x, *(x.op.operands if x.op is not None and x.op.name == "icmp" else ())}
    return found
