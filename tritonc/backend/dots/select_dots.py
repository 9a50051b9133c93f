"""select_dots: each dot gets the best matrix instruction that the target has for it.

Before:  %d = dot %a, %b, %c : f32<128, 256>
After:   %d = dot %a, %b, %c {instruction = "wgmma.m64k16.bf16"} : f32<128, 256>

A dot takes an instruction of its operands' type whose rows, columns and depth it fills.  wgmma
reads its operands from shared memory; only 16-bit ones may lie there with the inner axis not
contiguous.  Words that are loaded otherwise are brought so by threads (`raw_operands`); a dot of
bytes takes wgmma only if its operands are loaded that way.  A product with too few rows for it, and
columns enough, swaps its operands (`swap_operands`).  Dots with no instruction (fp32 is exact IEEE,
so it has none) are left to the CUDA cores.  Tensor cores of wgmma add 8-bit floats with fewer bits
than a float has: results are promoted every 128 products (see emit)."""

from math import prod

from tritonc.analysis.axis import axis_info
from tritonc.analysis.values import computed_from
from tritonc.backend.dots.inner_axis import inner_first, reads
from tritonc.backend.dots.swap_operands import swap_operands
from tritonc.backend.memory.masks.merged_axes import padded
from tritonc.backend.target.matrix import MOST_BATCH, WGMMA, MatrixInstruction, candidates
from tritonc.backend.target.target import Target
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import F8E4M3, F8E5M2, F16, element, shape, with_element
from tritonc.source import Span


def select_dots(kernel: Kernel, context: Context) -> bool:
    """Set `instruction` on the dots that a matrix instruction computes."""
    dots = [op for op in kernel.ops() if op.name == "dot"]
    if not dots:
        return False
    target: Target = context.target
    warps = context.meta.get("num_warps", kernel.attributes.get("num_warps", MOST_BATCH))
    wide = WGMMA in target.features and bool(context.meta.get("wgmma", 1)) and warps % 4 == 0
    batches = any(len(shape(op.result.type)) == 3 for op in dots)
    infos = axis_info.analyze(kernel) if wide or batches else {}  # nothing else asks
    if wide:
        for op in dots:
            if _as_halves(kernel, op, target, infos):
                context.remark("select_dots", "this float8 product is computed in half precision: "
                               "its right operand is not contiguous along the inner axis, as wgmma "
                               "needs it for float8", op.span)
    if wide and swap_operands(kernel, target, infos):
        context.remark("select_dots", "this product is computed with swapped operands (c^T = b^T "
                       "a^T): its rows are too few for wgmma", dots[-1].span)
        dots = [op for op in kernel.ops() if op.name == "dot"]
        infos = axis_info.analyze(kernel)
    choices = [_choose(op, target, infos, wide, warps) for op in dots]
    if any(c is None or c.kind != WGMMA for c in choices):  # one number of warps serves all dots
        choices = [_choose(op, target, infos, False, warps) for op in dots]
    for op, row in zip(dots, choices, strict=True):
        op.attributes.pop("instruction", None)
        if row is not None:
            op.attributes["instruction"] = row.name
            if _batch_inside(op, infos):
                op.attributes["inside"] = True
        if not any(n & (n - 1) for v in op.operands for n in shape(v.type)):  # see `pad_tiles`
            context.remark("select_dots", *_reason(op, row, target), missed=row is None)
    return any(row is not None for row in choices)


def _as_halves(kernel: Kernel, op: Op, target: Target, infos: axis_info.Infos) -> bool:
    """Make a product of 8-bit floats one of halves, which hold them all exactly, if wgmma then
    computes it and else not: where its left operand is made of another product's result, as in
    attention.  That is in registers in any case, and the right one is converted on its way."""
    if not wants_halves(op, infos):
        return False
    a, b, _ = op.operands
    block = next(block for block in kernel.blocks if op in block.ops)
    wide = [make_op("fpcast", [v], with_element(v.type, F16), span=op.span) for v in (a, b)]
    product = make_op("dot", [*(v.result for v in wide), op.operands[2]], span=op.span)
    row = _choose(product, target, infos, True)
    if row is None or row.kind != WGMMA:
        return False
    at = block.ops.index(op)
    block.ops[at:at] = wide
    op.operands[:2] = [v.result for v in wide]
    return True


def wants_halves(op: Op, infos: axis_info.Infos) -> bool:
    """Whether a product of 8-bit floats is better one of halves, if there is wgmma."""
    a = op.operands[0]
    return (element(a.type) in (F8E4M3, F8E5M2) and not all(inner_first(op, infos))
            and computed_from(a, "dot"))


def _choose(op: Op, target: Target, infos: axis_info.Infos, wide: bool, warps: int = MOST_BATCH
            ) -> MatrixInstruction | None:
    a = op.operands[0]
    (*batch, rows, columns), depth = padded(shape(op.result.type)), padded(shape(a.type))[-1]
    if prod(batch) > (MOST_BATCH if _batch_inside(op, infos) else warps):
        return None
    wide = wide and not batch
    return next((row for row in candidates(target.features, a.type, op.result.type)
                 if row.takes(rows, columns, depth) and (row.kind != WGMMA or (
                     wide and reads(row, *inner_first(op, infos))))), None)


def _batch_inside(op: Op, infos: axis_info.Infos) -> bool:
    """Whether neighbours of an operand in memory are of different products of a batch."""
    return len(shape(op.result.type)) == 3 and any(
        _longest_run(v, 0, infos) for v in op.operands[:2])


def _longest_run(operand: Value, axis: int, infos: axis_info.Infos) -> bool:
    """Whether an operand is loaded with more neighbours along the axis than along others."""
    op = operand.op
    if op is None:
        return False
    if op.name == "load":
        info = infos.get(op.operands[0])
        return info is not None and info.contiguity[axis] > max(
            n for d, n in enumerate(info.contiguity) if d != axis)
    if op.name == "trans":
        return _longest_run(op.operands[0], op.attributes["permutation"][axis], infos)
    data = op.operands[1:] if op.name in ("psi", "select") else op.operands
    return op.info.elementwise and op.pure and any(
        _longest_run(v, axis, infos) for v in data if v.type == op.result.type)


def _reason(op: Op, row: MatrixInstruction | None, target: Target) -> tuple[str, Span | None]:
    """What computes the product and, if that is not the target's best, why."""
    t, span = op.operands[0].type, op.span
    rows = candidates(target.features, t, op.result.type)
    if row is not None and row.name == rows[0].name:
        return f"this product uses {row.name}", span
    extents = (*shape(op.result.type), shape(t)[-1])
    text = f"this product uses {row.name}" if row is not None else "this product runs on CUDA cores"
    if not rows:
        return f"{text}: {target.name} has no matrix instruction for {element(t)}", span
    best, (*batch, _, _, _) = rows[0], extents
    if prod(batch) > MOST_BATCH:
        return f"{text}: matrix instructions compute at most {MOST_BATCH} products of a batch", span
    if batch and best.kind == WGMMA:
        if row is not None:
            return f"{text}: {best.name} computes no product with a batch axis", span
        best = rows[-1]
    for n, least, what in zip(extents[-3:], (best.rows, best.columns, best.depth),
                              ("rows", "columns", "elements along the inner axis"), strict=True):
        if n < least:
            return f"{text}: {best.name} needs at least {least} {what}, and the tile has {n}", span
    if best.kind == WGMMA and not reads(best, False, False):
        return f"{text}: {best.name} needs both operands contiguous along the inner axis", span
    return (f"{text}: another product of the kernel, or the number of warps, rules out a better "
            "instruction", span)
