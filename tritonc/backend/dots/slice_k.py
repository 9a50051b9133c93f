"""slice_k: split-K within a block: the warps of a small product share its inner axis.

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

Done for loops that only add products to a tile, on CUDA cores or by mma.sync, where a product would
have fewer than FEW warps; with wgmma, where one warpgroup has all rows and computes the left
operand (`raw_operands`): the time of such a loop is that of its threads.  Meta-parameter `slices`;
1 splits nothing.  Slices keep LEAST numbers of each step, or the depth of an instruction, and their
sums must fit shared memory.  Needs extents that are powers of two; sets `num_warps`.  The batch
becomes warps in `layout_choice.dot_layout`."""

from math import prod

from tritonc.analysis.values import is_zero, slice_of
from tritonc.backend.dots.raw_operands import is_plain
from tritonc.backend.dots.summed_dots import SummedDot, summed_dots
from tritonc.backend.launch.product_threads import ACCUMULATORS, dot_threads
from tritonc.backend.target.matrix import BY_NAME, WGMMA, MatrixInstruction
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.layout import WARP_SIZE
from tritonc.ir.types import Tile, element, is_float, scalar, shape

FEW = 4  # warps; a product that has as many is not split
WARPS = 8  # of a block whose product is split, on CUDA cores
GROUP = 4  # of a warpgroup
COMPUTED = 2  # warpgroups, each of which computes its slice of a product's operand
MATRIX_WARPS = 4  # with mma.sync
LEAST = 4  # numbers of a step of k that each slice multiplies: one access reads them
SUMS = 1 << 16  # bytes of shared memory for the sums of all slices


def slice_k(kernel: Kernel, context: Context) -> bool:
    """Split the products of a kernel whose only products are small sums of one size."""
    found = summed_dots(kernel)
    if not found or "num_warps" in kernel.attributes:
        return False
    warps, slices = _slices(found[0].dot, context)
    if slices < 2:
        return False
    for one in found:
        _split(kernel, one, slices)
    kernel.attributes["num_warps"] = warps * slices
    context.remark("slice_k", f"the inner axis of this product is split among {slices} groups "
                   f"of {warps} warps", found[-1].dot.span)
    return True


def _slices(dot: Op, context: Context) -> tuple[int, int]:
    """The warps of one slice, and how many slices."""
    name, depth = dot.attributes.get("instruction"), shape(dot.operands[0].type)[-1]
    row = BY_NAME[name] if name is not None else None
    if row is not None and row.kind == WGMMA:
        return GROUP, _warpgroups(dot, row, context)
    size = prod(shape(dot.result.type))
    most = min(depth // (row.depth if row else LEAST),
               SUMS // (size * scalar(dot.result.type).bytes))
    warps = max(1, size // (ACCUMULATORS * WARP_SIZE))
    given, wanted = context.meta.get("num_warps"), context.meta.get("slices")
    if wanted is not None:
        warps = max(1, given // wanted) if given is not None else warps
    elif dot_threads(dot) >= FEW * WARP_SIZE and (row or given is None):
        wanted = 1
    else:
        wanted = (given or (MATRIX_WARPS if row else WARPS)) // warps
    slices = min(wanted, most)
    slices = 1 << (slices.bit_length() - 1) if slices > 0 else 1
    return warps, slices if given in (None, warps * slices) else 1


def _warpgroups(dot: Op, row: MatrixInstruction, context: Context) -> int:
    """How many warpgroups share K of a product that has rows for one."""
    rows, columns = shape(dot.result.type)
    depth = shape(dot.operands[0].type)[-1]
    if rows != row.rows or not row.transposes:
        return 1
    given = context.meta.get("num_warps")
    made = not is_plain(dot.operands[0], True) and any(  # of what the step itself loads
        op.name == "load" for op in slice_of(dot.operands[:1], ends=("dot", "phi")))
    wanted = context.meta.get("slices", COMPUTED if made else 1)
    most = min(depth // row.depth, SUMS // (rows * columns * scalar(dot.result.type).bytes), 4)
    slices = 1 << (min(wanted, most).bit_length() - 1) if most > 0 else 1
    return slices if given in (None, GROUP * slices) else 1


def _split(kernel: Kernel, one: SummedDot, slices: int) -> None:
    dot, start = one.dot, one.start
    (rows, depth), columns = shape(dot.operands[0].type), shape(dot.operands[1].type)[1]
    wide = Tile(element(dot.result.type), (slices, rows, columns))
    zero = one.before().constant(0.0 if is_float(wide) else 0, wide)

    def product(b: Builder, sums: Value) -> Value:
        x, y = dot.operands[:2]
        e = element(x.type)
        left = b.value("reshape", x, type=Tile(e, (rows, slices, depth // slices)))
        left = b.value("trans", left, named=x.name, permutation=(1, 0, 2))
        right = b.value("reshape", y, named=y.name,
                        type=Tile(e, (slices, depth // slices, columns)))
        return b.value("dot", left, right, sums, **dot.attributes)

    def result(b: Builder, sums: Value) -> Value:
        total = b.value("reduce", sums, kind="fadd" if is_float(wide) else "add", axes=(0,))
        if is_zero(start):
            return total
        return b.value("fadd" if is_float(wide) else "add", start, total)

    one.replace(kernel, zero, product, result)
