"""Chained products of few rows: each warp keeps the second one's sums over columns of its own.

Before:  header: %o = phi [0], [%o1]           After:  header: %o = phi [0], [%o1] : <S, M, N>
         body:   %s = dot %q, %k : f32<M, K>           body:   %s = dot %q, %k
                 %p = ... %s ...                               %p = ... %s ...
                 %t = fmul %o, %f                              %t = fmul %o, (%f for each part)
                 %o1 = dot %p, %v, %t                          %o1 = dot (parts of %p, %v), %t
         exit:   ... %o                                exit:   %r = reduce %o {axes = [0]}

The warps share the columns of the first product, which are the inner axis of the second.  That
one, as it was, would have each warp read all of %p, which they would exchange in each step, with a
barrier.  So a warp multiplies the columns that it has, and the warps add up their sums once, behind
the loop.  Done where rows are few: one fragment has them all, and the sums fit a thread.
"""

from __future__ import annotations

from tritonc.analysis.loop_totals import place_behind
from tritonc.analysis.values import computed_from, constant_of
from tritonc.backend.launch.choose_warps import product_warps
from tritonc.backend.target import matrix
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, make_phi
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import WARP_SIZE
from tritonc.ir.types import F32, Tile, scalar, shape
from tritonc.records import NamedTuple

SUMS = 64  # registers of a thread


class Chain(NamedTuple):
    """A product whose left operand is made of another one's result, the phi of its sums and what
    scales those."""

    loop: Loop
    block: Block
    dot: Op
    phi: Op
    scaled: Op | None


def split_chains(kernel: Kernel, context: Context) -> bool:
    """Split such products among the warps, if all products of the kernel's loops are such."""
    cfg, readers = Cfg(kernel), uses(kernel)
    found = [chain for loop in cfg.loops if loop.regular for block in loop.blocks
             if cfg.innermost.get(block) is loop for dot in block.ops
             if (chain := _chain(loop, block, dot, readers)) is not None]
    warps = {product_warps(kernel, one.block, context) for one in found}
    if len(warps) != 1 or min(warps) < 2:
        return False
    (count,) = warps
    if not all(shape(one.dot.operands[0].type)[1] // count >= _row(one.dot).depth for one in found):
        return False
    for one in found:
        _split(kernel, cfg, one, count)
    kernel.attributes["num_warps"] = count
    return True


def _row(dot: Op) -> matrix.MatrixInstruction:
    return matrix.BY_NAME[dot.attributes["instruction"]]


def _chain(loop: Loop, block: Block, dot: Op, readers: dict[Value, list[Op]]) -> Chain | None:
    if dot.name != "dot" or "instruction" not in dot.attributes or len(shape(
            dot.result.type)) != 2 or not computed_from(dot.operands[0], "dot"):
        return None
    (rows, columns), row, sums = shape(dot.result.type), _row(dot), dot.operands[2]
    if row.kind != matrix.MMA or scalar(dot.result.type) != F32 or rows > row.rows \
            or row.rows * columns > SUMS * WARP_SIZE:
        return None
    scaled = sums.op if sums.op is not None and sums.op.name == "fmul" else None
    before = [sums] if scaled is None else scaled.operands
    phi = next((v.op for v in before if v.op in loop.header.phis()), None)
    if phi is None or loop.next(phi) is not dot.result or constant_of(loop.first(phi)) != 0:
        return None
    inside = set(loop.ops())
    if readers[dot.result] != [phi] or [op for op in readers[phi.result] if op in inside] != [
            scaled or dot]:
        return None
    if scaled is not None and (readers[scaled.result] != [dot] or _factor(scaled, phi) is None):
        return None
    return Chain(loop, block, dot, phi, scaled)


def _factor(scaled: Op, phi: Op) -> Value | None:
    """A factor of each row, as a column."""
    factor = next((v.op for v in scaled.operands if v is not phi.result), None)
    if factor is None or factor.name != "broadcast" or shape(factor.operands[0].type)[1] != 1:
        return None
    return factor.operands[0]


def _split(kernel: Kernel, cfg: Cfg, one: Chain, count: int) -> None:
    dot, phi, loop = one.dot, one.phi, one.loop
    assert loop.preheader is not None and loop.latch is not None
    x, y = dot.operands[:2]
    (rows, depth), columns = shape(x.type), shape(y.type)[1]
    wide = Tile(F32, (count, rows, columns))
    zero = Builder(loop.preheader, len(loop.preheader.ops) - 1, dot.span).constant(0.0, wide)
    sums = make_phi([zero, zero], [loop.preheader, loop.latch], phi.result.name, phi.span)
    b = Builder(one.block, one.block.ops.index(dot), dot.span)
    before = sums.result
    if one.scaled is not None:
        factor = _factor(one.scaled, phi)
        assert factor is not None
        column = b.value("reshape", factor, type=Tile(F32, (1, rows, 1)))
        before = b.value("fmul", before, b.value("broadcast", column, type=wide),
                         **one.scaled.attributes)
    left = b.value("reshape", x, type=Tile(scalar(x.type), (rows, count, depth // count)))
    left = b.value("trans", left, permutation=(1, 0, 2))
    right = b.value("reshape", y, type=Tile(scalar(y.type), (count, depth // count, columns)))
    left.name, right.name = x.name, y.name
    sums.operands[1] = b.value("dot", left, right, before, **dot.attributes)
    one.block.ops = [op for op in one.block.ops if op not in (dot, one.scaled)]
    loop.header.ops[loop.header.ops.index(phi)] = sums
    behind = Builder(place_behind(kernel, cfg, loop), 0, dot.span)
    kernel.replace({phi.result: behind.value("reduce", sums.result, kind="fadd", axes=(0,))})
