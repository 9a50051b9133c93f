"""split_dots: the warps of a small product share its inner axis.

Before:                                    After, with S slices of the inner axis:
  header: %c = phi [%zero], [%d]             header: %c = phi [%zeros], [%d] : f32<S, M, N>
  body:   %d = dot %a, %b, %c : f32<M, N>    body:   %as = ... reshape %a ... : f32<S, M, K/S>
  exit:   uses of %c                                 %bs = ... reshape %b ... : f32<S, K/S, N>
                                                     %d = dot %as, %bs, %c : f32<S, M, N>
                                             exit:   %r = reduce %c {kind = fadd, axes = [0]}
                                                     uses of %r

A tile of few elements keeps few threads busy, and where M and N are small there are few tiles.  The
paper lost such products to cuBLAS.  With S slices S times as many threads multiply, each on its own
part of every step of k; no launch changes, and the sums are added in one order, in one block.

Done for loops that only add products to a tile, on CUDA cores, where a product would have fewer
than FEW warps.  Meta-parameter `slices`; 1 splits nothing.  Slices keep LEAST numbers of each step,
and their sums must fit shared memory.  Needs extents that are powers of two; sets `num_warps`.  The
batch becomes warps in `layout_choice.fma_layout`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonc.backend.choose_warps import ACCUMULATORS
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, incoming
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layout import WARP_SIZE
from tritonc.ir.types import Tile, element, is_float, scalar, shape

FEW = 4  # warps; a product that has as many is not split
WARPS = 8  # of a block whose product is split
LEAST = 4  # numbers of a step of k that each slice multiplies: one access reads them
SUMS = 1 << 16  # bytes of shared memory for the sums of all slices


@dataclass
class _Sum:
    """A product that a loop adds to `phi`, which nothing else in the loop reads."""

    dot: Op
    phi: Op
    loop: Loop
    exit: Block


def split_dots(kernel: Kernel, context: Context) -> bool:
    """Split the products of a kernel whose only products are small sums of one size."""
    dots = [op for op in kernel.ops() if op.name == "dot"]
    if not dots or "num_warps" in kernel.attributes:
        return False
    cfg, readers = Cfg(kernel), uses(kernel)
    sums = [_sum(dot, cfg, readers) for dot in dots]
    sizes = {(shape(dot.operands[0].type), shape(dot.operands[1].type)) for dot in dots}
    found = [s for s in sums if s is not None]
    if len(found) < len(dots) or len(sizes) > 1 or len({s.loop for s in found}) < len(found):
        return False
    warps, slices = _slices(found[0].dot, context)
    if slices < 2:
        return False
    for one in found:
        _split(kernel, one, slices)
    kernel.attributes["num_warps"] = warps * slices
    context.remark("split_dots", f"{slices} groups of {warps} warps share the inner axis of this "
                   "product", dots[-1].span)
    return True


def _slices(dot: Op, context: Context) -> tuple[int, int]:
    """The warps of one slice, and how many slices."""
    results = shape(dot.result.type)
    depth, size = shape(dot.operands[0].type)[-1], results[0] * results[1]
    warps = max(1, size // (ACCUMULATORS * WARP_SIZE))
    most = min(depth // LEAST, SUMS // (size * scalar(dot.result.type).bytes))
    given = context.meta.get("num_warps")
    wanted = (given or (WARPS if warps < FEW else warps)) // warps
    slices = min(context.meta.get("slices", wanted), most)
    slices = 1 << (slices.bit_length() - 1) if slices > 0 else 1
    return warps, slices if given in (None, warps * slices) else 1


def _sum(dot: Op, cfg: Cfg, readers: dict[Value, list[Op]]) -> _Sum | None:
    """The loop that only adds this product up, if there is one."""
    phi, loop = dot.operands[2].op, cfg.innermost.get(cfg.block_of[dot])
    if "instruction" in dot.attributes or len(shape(dot.result.type)) != 2 or loop is None \
            or loop.parent is not None or loop.latch is None or loop.preheader is None:
        return None
    if phi is None or phi.name != "phi" or phi not in loop.header.ops or len(loop.exits) != 1:
        return None
    (inside, leave), = loop.exits
    if inside is not loop.header or cfg.predecessors[leave] != [inside]:
        return None
    if incoming(phi, loop.latch) is not dot.result or readers.get(dot.result) != [phi]:
        return None
    if sum(cfg.block_of[op] in loop for op in readers[phi.result]) != 1:
        return None
    if any(op.name == "phi" and op in leave.ops for op in readers[phi.result]):
        return None
    if not cfg.dominates(cfg.block_of[dot], loop.latch):
        return None
    return _Sum(dot, phi, loop, leave)


def _split(kernel: Kernel, one: _Sum, slices: int) -> None:
    dot, phi, loop = one.dot, one.phi, one.loop
    (rows, depth), columns = shape(dot.operands[0].type), shape(dot.operands[1].type)[1]
    wide = Tile(element(dot.result.type), (slices, rows, columns))
    assert loop.preheader is not None and loop.latch is not None
    home = next(block for block in loop.blocks if dot in block.ops)
    before = Builder(loop.preheader, len(loop.preheader.ops) - 1, dot.span)
    zero = before.constant(0.0 if is_float(wide) else 0, wide)
    body = Builder(home, home.ops.index(dot), dot.span)
    a, b = dot.operands[:2]
    e = element(a.type)
    left = body.value("reshape", a, type=Tile(e, (rows, slices, depth // slices)))
    left = body.value("trans", left, permutation=(1, 0, 2))
    right = body.value("reshape", b, type=Tile(e, (slices, depth // slices, columns)))
    left.name, right.name = a.name, b.name
    start = incoming(phi, loop.preheader)
    sums = Op("phi", [zero], {}, (wide,), blocks=[loop.preheader])
    sums.result.name = phi.result.name
    product = body.value("dot", left, right, sums.result)
    sums.operands.append(product)
    sums.blocks.append(loop.latch)
    home.ops.remove(dot)
    loop.header.ops[loop.header.ops.index(phi)] = sums
    after = Builder(one.exit, len(one.exit.phis()), dot.span)
    total = after.value("reduce", sums.result, kind="fadd" if is_float(wide) else "add", axes=(0,))
    if start.op is None or start.op.name != "constant" or start.op.attributes["value"] != 0:
        total = after.value("fadd" if is_float(wide) else "add", start, total)
    total.name = phi.result.name
    kernel.replace({phi.result: total})
