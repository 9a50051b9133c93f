"""pingpong_chains: warpgroups of chained products run in ping-pong, each to compute beside the
products of the next, and not beside its own.

Before:  start %s = product ...                  After:  order_barrier {step = wait}
         start %t = product ...                          start %s = product ...
         wait for %s                                     start %t = product ...
         ...                                             order_barrier {step = arrive}
                                                         wait for %s
                                                         ...

Products of two warpgroups that start at once are done at once; then both compute, and the tensor
cores rest.  Where nothing keeps them apart they fall into step, the sooner the more instructions
stand between the starts of products: so biases and masks cost more than what they compute.

What takes longer is done in turn: the starts of products, or, where there are as many exponentials
as tensor cores have work, the exponentials (`LONG`), behind whose last one a warpgroup's turn ends.
The first turn is opened once, at entry, and what is given at the end is left: all warpgroups run
the same iterations, whatever the loops.

Done for rotated loops (`rotate_dots`) whose operands a producer warp brings, and in which threads
have more to do than a softmax: they load something else, such as a bias, or add to scores (H200, 32
heads of 128: key_bias 0.1326 to 0.1188 ms, ALiBi 0.0728 to 0.0672); others are 7 % faster to 7 %
slower.  Where heads are short, exponentials are always done in turn (heads of 64 by rows of 128:
1.00 to 1.30 times as fast).  No barrier of the block may stand in the loop: who waits there in its
turn would keep the others from it.

Must come after insert_barriers and specialize_warps."""

from tritonc.analysis.values import slice_of
from tritonc.backend.pipeline.tma.warpgroup_stores import GROUP_BITS
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op
from tritonc.ir.types import shape

# Multiply-adds for an element of the first product, from which on products take longer than the
# exponentials of it (H200: heads of 128 and 64).
LONG = 256
SHORT = 128  # up to which exponentials are always done in turn
_POWERS = ("exp", "exp2")
_SUMS = ("fadd", "fsub", "fma")  # one of them is the exponent of a softmax


def pingpong_chains(kernel: Kernel, context: Context) -> bool:
    """Let the warpgroups take turns in the loops with two products in flight."""
    groups = kernel.attributes["num_warps"] >> GROUP_BITS
    if groups < 2 or not kernel.attributes.get("producer_warps"):
        return False
    cfg = Cfg(kernel)
    loops = [loop for loop in cfg.loops
             if not any(other is not loop and other.header in loop for other in cfg.loops)]
    found = [bounds for loop in loops if (bounds := _turn(cfg, loop)) is not None]
    for first, last in found:
        for at, step in ((first, "wait"), (last, "arrive")):
            block = cfg.block_of[at]
            block.ops.insert(block.ops.index(at), make_op("order_barrier", [], step=step))
    if found:
        kernel.entry.ops.insert(-1, make_op("order_barrier", [], step="open"))
        context.remark("pingpong_chains", "the warpgroups take turns (ping-pong)", found[0][0].span)
    return bool(found)


def _turn(cfg: Cfg, loop: Loop) -> tuple[Op, Op] | None:
    """The operations before which a turn begins and ends; None if there shall be none."""
    ops = list(loop.ops())
    waits = [op for op in ops if op.name == "wgmma_wait"]
    names = {op.name for op in ops}
    if loop.latch is None or names & {"barrier", "memory_barrier"} \
            or [wait.attributes["pending"] for wait in waits[-2:]] != [1, 0]:
        return None
    one, two = (wait.operands[0].op for wait in waits[-2:])
    if one is None or two is None or one not in ops or two not in ops \
            or not _feeds(loop, waits[-2], two):
        return None
    after = cfg.block_of[two].ops
    first, last = one, after[after.index(two) + 1]
    behind = [op for op in ops[ops.index(waits[-2]):] if len(op.results) == 1
              and op.result.type == one.result.type]
    powers = [op for op in behind if op.name in _POWERS]
    work = _work(ops, one)
    if not names & {"load", "shared_load"} and sum(op.name in _SUMS for op in behind) < 2 \
            and not (powers and work <= SHORT):
        return None
    if powers and work < LONG:
        first, last = powers[0], waits[-1]
    return (first, last) if all(cfg.dominates(cfg.block_of[op], loop.latch)
                                for op in (first, last)) else None


def _feeds(loop: Loop, wait: Op, product: Op) -> bool:
    """Whether the left operand of a product is made of a result of the iteration before."""
    inside = set(loop.ops())
    carried = slice_of(product.operands[:1], inside) & set(loop.header.phis())
    return any(wait in slice_of([loop.next(phi)], inside) for phi in carried)


def _work(ops: list[Op], scores: Op) -> float:
    """Multiply-adds of all products for an element of the first."""
    products = [op for op in ops if op.name == "wgmma"]
    return sum(shape(op.operands[0].type)[1] * shape(op.result.type)[1]
               for op in products) / shape(scores.result.type)[1]
