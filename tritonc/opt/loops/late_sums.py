"""late_sums: a loop adds up elements, and what they come to is added up behind it.

Before:  head: %s = phi [%s0], [%s1]           After:  head: %p = phi [-0.0], [%p1]
         body: %r = reduce %t {kind = fadd}            body: %p1 = fadd %p, %t
               %s1 = fadd %s, %r                       exit: %r = reduce %p {kind = fadd}
         exit: ... %s                                        %s = fadd %s0, %r

A reduction asks other lanes and warps what they have; elementwise additions ask nobody.  So the
loop keeps a sum for each element of the tile, if nothing in it reads the sum so far.  Least and
greatest elements likewise, and bits.  The additions of floats get another order, which is the
compiler's; a product that the same expression adds up may be rounded with its sum.

Not in loops with matrix products, which need the registers.  Needs loops that end at their headers.
"""

from __future__ import annotations

from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop, make_phi, split_edge
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.rules import REDUCTIONS, neutral
from tritonc.ir.types import Tile, Type, element, scalar
from tritonc.opt.loops.late_merges import merge_late

_LARGEST = 8192  # elements: a thread of 256 keeps 32 of them


def late_sums(kernel: Kernel, context: Context) -> bool:
    """Do it for all loops, the innermost first: what they come to, outer loops may add up."""
    changed, again = False, True
    while again:
        again, cfg = False, Cfg(kernel)
        for loop in sorted(cfg.loops, key=lambda loop: -loop.depth):
            if loop.preheader is None or loop.latch is None or not loop.one_exit:
                continue
            again |= _loop(kernel, cfg, loop, context) or merge_late(kernel, cfg, loop, _LARGEST)
            if again:
                break  # the graph may have a block more
        changed |= again
    return changed


def _loop(kernel: Kernel, cfg: Cfg, loop: Loop, context: Context) -> bool:
    if any(op.name == "dot" for op in loop.ops()):
        return False
    readers = uses(kernel)
    inside = set(loop.ops())
    found = [(phi, total) for phi in loop.header.phis()
             if (total := _total(phi, loop, inside, readers)) is not None]
    if not found:
        return False
    outside = loop.exits[0][1]
    if cfg.predecessors[outside] != [loop.header] or outside.phis():
        outside = split_edge(kernel, loop.header, outside)
    for phi, total in found:
        _move(kernel, loop, outside, phi, total, readers, context)
    return True


def _total(phi: Op, loop: Loop, inside: set[Op], readers: dict[Value, list[Op]]) -> Op | None:
    """The operation that makes the phi's next value of it and of a reduction, if nothing else in
    the loop reads either."""
    total = loop.next(phi).op
    if total is None or total not in inside or total.guard is not None \
            or not _may_move(total.name, total.result.type) \
            or phi.result not in total.operands or readers.get(total.result) != [phi] \
            or [op for op in readers.get(phi.result, []) if op in inside] != [total]:
        return None
    part = _part(phi, total).op
    if part is None or part not in inside or part.name != "reduce" or part.guard is not None \
            or part.attributes["kind"] != total.name or readers.get(part.result) != [total]:
        return None
    t = part.operands[0].type
    return total if isinstance(t, Tile) and t.size <= _LARGEST else None


def _part(phi: Op, total: Op) -> Value:
    """What is combined with the phi."""
    first, second = total.operands
    return second if first is phi.result else first


def _may_move(kind: str, t: Type) -> bool:
    """Whether elements may be combined later: halves would round each partial sum."""
    bits = element(t).bits
    return kind in REDUCTIONS and kind != "fmul" and bits > (16 if kind == "fadd" else 1)


def _move(kernel: Kernel, loop: Loop, outside: Block, phi: Op, total: Op,
          readers: dict[Value, list[Op]], context: Context) -> None:
    assert loop.preheader is not None and loop.latch is not None
    start, part = loop.first(phi), _part(phi, total).op
    assert part is not None
    tile, span = part.operands[0], total.span
    before = Builder(loop.preheader, len(loop.preheader.ops) - 1, span)
    zero = before.constant(neutral(total.name, scalar(tile.type)), tile.type)
    block = next(b for b in loop.blocks if total in b.ops)
    partial = make_phi([zero, zero], [loop.preheader, loop.latch], phi.result.name, phi.span)
    more = make_op(total.name, [partial.result, tile], span=span)
    partial.operands[1] = more.result
    if context.contract and _same_expression(tile.op, part) and readers.get(tile) == [part]:
        assert tile.op is not None
        tile.op.attributes["contract"] = more.attributes["contract"] = True
    block.ops[block.ops.index(total)] = more
    for other in loop.blocks:
        if part in other.ops:
            other.ops.remove(part)
    at = loop.header.ops.index(phi)
    loop.header.ops[at] = partial
    behind = Builder(outside, 0, span)
    whole = behind.value("reduce", partial.result, kind=total.name, axes=part.attributes["axes"])
    result = behind.value(total.name, start, whole)
    result.name = phi.result.name
    kernel.replace({phi.result: result})


def _same_expression(product: Op | None, part: Op) -> bool:
    """Whether one expression computes the product and adds up its elements."""
    a, b = None if product is None else product.span, part.span
    return product is not None and product.name == "fmul" and a is not None and b is not None \
        and a.file is b.file and b.start <= a.start and a.end <= b.end
