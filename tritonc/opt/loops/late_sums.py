"""late_sums: a loop adds up elements, and what they come to is added up behind it.

Before:  head: %s = phi [%s0], [%s1]           After:  head: %p = phi [-0.0], [%p1]
         body: %r = reduce %t {kind = fadd}            body: %p1 = fadd %p, %t
               %s1 = fadd %s, %r                       exit: %r = reduce %p {kind = fadd}
         exit: ... %s                                        %s = fadd %s0, %r

A reduction asks other lanes and warps what they have; elementwise additions ask nobody.  So the
loop keeps a sum for each element of the tile, if nothing in it reads the sum so far.  Least and
greatest elements likewise, and bits.  The additions of floats get another order, which is the
compiler's; a product that the same expression adds up may be rounded with its sum.

Not in loops with matrix products, which need the registers, or where the sums are so many that they
fill them: `exchange_late` serves those.  Needs loops that end at their headers."""

from tritonc.analysis.loop_totals import LoopTotal, each_until_none, place_behind, totals_of
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Tile

_LARGEST = 8192  # elements: a thread of 256 keeps 32 of them
_TOGETHER = 2 * _LARGEST  # those of all sums of a loop


def late_sums(kernel: Kernel, context: Context) -> bool:
    """Do it for all loops, the innermost first: what they come to, outer loops may add up."""
    return each_until_none(kernel, lambda cfg, loop, readers: _loop(
        kernel, cfg, loop, readers, context))


def _loop(kernel: Kernel, cfg: Cfg, loop: Loop, readers: dict[Value, list[Op]], context: Context
          ) -> bool:
    if any(op.name == "dot" for op in loop.ops()):
        return False
    found = [(one, t.size) for one in totals_of(loop, readers)
             if isinstance(t := one.part.operands[0].type, Tile) and t.size <= _LARGEST]
    if not found or sum(size for _, size in found) > _TOGETHER:
        return False
    outside = place_behind(kernel, cfg, loop)
    for one, _ in found:
        _move(kernel, loop, outside, one, readers, context)
    return True


def _move(kernel: Kernel, loop: Loop, outside: Block, one: LoopTotal,
          readers: dict[Value, list[Op]], context: Context) -> None:
    start, tile, kind = loop.first(one.phi), one.part.operands[0], one.total.name
    partial = one.partial(loop, tile.type)
    more = make_op(kind, [partial.result, tile], span=one.total.span)
    partial.operands[1] = more.result
    if context.contract and _same_expression(tile.op, one.part) and readers.get(tile) == [one.part]:
        assert tile.op is not None
        tile.op.attributes["contract"] = more.attributes["contract"] = True
    block = next(b for b in loop.blocks if one.total in b.ops)
    block.ops[block.ops.index(one.total)] = more
    one.replace(kernel, loop, partial)
    behind = Builder(outside, 0, one.total.span)
    whole = behind.value("reduce", partial.result, kind=kind, axes=one.part.attributes["axes"])
    result = behind.value(kind, start, whole)
    result.name = one.phi.result.name
    kernel.replace({one.phi.result: result})


def _same_expression(product: Op | None, part: Op) -> bool:
    """Whether one expression computes the product and adds up its elements."""
    a, b = None if product is None else product.span, part.span
    return product is not None and product.name == "fmul" and a is not None and b is not None \
        and a.file is b.file and b.start <= a.start and a.end <= b.end
