"""The matrix instructions, one row each: shape, operand and accumulator types, feature, intrinsic.

`layouts(row, ...)` gives the register layouts of a dot's result and operands under a row; they are
checked against each other when a dot is selected.  Sources: PTX ISA, "Warp Level Matrix
Instructions: mma" and "Asynchronous Warpgroup Level Matrix Instructions: wgmma"."""

from collections.abc import Collection
from math import prod
from typing import Any

from tritonc.ir.core import Op
from tritonc.ir.layouts import fragment
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    I32,
    TF32,
    Scalar,
    Type,
    element,
)
from tritonc.records import NamedTuple

MMA, WGMMA = "mma", "wgmma"
SPARE = 8  # of as many rows and columns one at least is not repeated


class MatrixInstruction(NamedTuple):
    """`rows` x `columns` x `depth`; for wgmma `columns` is the least, the dot chooses."""

    name: str
    kind: str
    operand: Scalar
    accumulator: Scalar
    rows: int
    columns: int
    depth: int
    feature: str  # of the target
    ptx: str  # the operand's name in the instruction or in the intrinsic
    transposes: bool = False  # wgmma: reads operands from shared memory in either order

    @property
    def warps(self) -> int:
        """How many warps execute one instruction together."""
        return 4 if self.kind == WGMMA else 1

    def is_filled(self, rows: int, columns: int, depth: int) -> bool:
        """Whether a product of these extents has as many elements as one instruction takes."""
        return self.rows <= rows and self.columns <= columns and self.depth <= depth

    def takes(self, rows: int, columns: int, depth: int) -> bool:
        """Whether it computes a product of these extents, of which mma.sync may repeat few rows or
        columns: with an eighth of them it still does more than CUDA cores (but of doubles)."""
        spare = 1 if self.kind == WGMMA or self.operand == F64 else SPARE
        return (self.is_filled(max(rows, self.rows), max(columns, self.columns), depth)
                and self.rows * self.columns <= spare * min(rows, self.rows) * min(
                    columns, self.columns))


def _mma(operand: Scalar, accumulator: Scalar, rows: int, depth: int, feature: str, ptx: str
         ) -> MatrixInstruction:
    return MatrixInstruction(f"mma.m{rows}n8k{depth}.{operand}", MMA, operand, accumulator, rows,
                             8, depth, feature, ptx)


def _wgmma(operand: Scalar, accumulator: Scalar, depth: int, ptx: str,
           transposes: bool = False) -> MatrixInstruction:
    return MatrixInstruction(f"wgmma.m64k{depth}.{operand}", WGMMA, operand, accumulator, 64, 8,
                             depth, "wgmma", ptx, transposes)


# Best first: the first that a target has and a dot fits is taken.
INSTRUCTIONS: tuple[MatrixInstruction, ...] = (
    _wgmma(F16, F32, 16, "f16", transposes=True),
    _wgmma(BF16, F32, 16, "bf16", transposes=True),
    _wgmma(TF32, F32, 8, "tf32"),
    _wgmma(F8E4M3, F32, 32, "e4m3"),
    _wgmma(F8E5M2, F32, 32, "e5m2"),
    _wgmma(I8, I32, 32, "s8"),
    _mma(F16, F32, 16, 16, "mma_f16", "f32.f32"),
    _mma(F16, F32, 16, 8, "mma_f16_k8", "f32.f32"),
    _mma(BF16, F32, 16, 16, "mma_bf16", "bf16"),
    _mma(TF32, F32, 16, 8, "mma_tf32", "tf32"),
    _mma(I8, I32, 16, 32, "mma_s8", "s8"),
    _mma(I8, I32, 8, 16, "mma_s8_k16", "s8"),
    _mma(F8E4M3, F32, 16, 32, "mma_f8", "f32.e4m3.e4m3.f32"),
    _mma(F8E5M2, F32, 16, 32, "mma_f8", "f32.e5m2.e5m2.f32"),
    _mma(F64, F64, 16, 16, "mma_f64_k16", "f64"),
    _mma(F64, F64, 16, 8, "mma_f64_k16", "f64"),
    _mma(F64, F64, 8, 4, "mma_f64", "f64"))

BY_NAME: dict[str, MatrixInstruction] = {row.name: row for row in INSTRUCTIONS}


def on_wgmma(op: Op) -> bool:
    """Whether an operation is a dot for which wgmma has been chosen."""
    row = BY_NAME.get(op.attributes.get("instruction", ""))
    return op.name == "dot" and row is not None and row.kind == WGMMA


def sign(dot: Op) -> dict[str, Any]:
    """The attribute of a dot whose products are taken away, for what computes them."""
    return {"minus": True} if dot.attributes.get("minus") else {}


def candidates(features: Collection[str], operand: Type, result: Type) -> list[MatrixInstruction]:
    """The instructions that a target with these features has for such a product, best first."""
    types = element(operand), element(result)
    return [row for row in INSTRUCTIONS
            if row.feature in features and (row.operand, row.accumulator) == types]


MOST_COLUMNS = 256  # of one wgmma
LARGE = 128 * 128  # elements of a product from which on TMA serves wgmma best
MOST_BATCH = 16  # products of a dot on tensor cores
ACCUMULATORS = 128  # registers of a thread that a dot's result may fill


def arrange(row: MatrixInstruction, shape: tuple[int, ...], warps: int) -> tuple[int, int]:
    """How many warps (for wgmma, warpgroups) stand along the rows and columns of a result.

    The part of each is as square as can be, so that operands are read least."""
    units = warps // row.warps
    rows, columns = 1, 1
    while rows * columns < units:
        tall = shape[0] // (row.rows * rows)
        wide = shape[1] // (max(row.columns, 8) * columns)
        taller = shape[0] / rows >= shape[1] / columns or row.kind == WGMMA
        if tall > 1 and (taller or wide <= 1):
            rows *= 2
        elif wide > 1:
            columns *= 2
        else:
            rows *= 2  # more warps than work: copies
    return rows, columns


def accumulator_layout(row: MatrixInstruction, shape: tuple[int, ...], warps: int,
                       held: bool = False) -> Layout:
    """The layout of a dot's result of `shape`.  A batch lies in warps, of wgmma in warpgroups;
    `held`: in registers."""
    *batch, rows, columns = shape
    arranged = arrange(row, (rows, columns), warps if held else warps // prod(batch))
    if row.kind == WGMMA:
        return fragment.batched(fragment.wgmma_accumulator(
            (rows, columns), arranged, min(MOST_COLUMNS, columns // arranged[1])), tuple(batch))
    part = (rows // arranged[0], columns // arranged[1])
    return fragment.batched(fragment.mma_accumulator(
        (rows, columns), arranged, row.rows, row.columns,
        (max(part[0], row.rows), max(part[1], row.columns))), tuple(batch), held)


def operand_layouts(row: MatrixInstruction, shape: tuple[int, ...], depth: int, warps: int,
                    contiguous: bool = False, held: bool = False) -> tuple[Layout, Layout | None]:
    """The layouts of A and B in registers; wgmma has none for B.

    `shape`: of the result; `depth`: K of the whole tile; `contiguous`: of mma.sync, lanes hold
    neighbours along K; `held`: threads hold the whole batch."""
    *batch, rows, columns = shape
    arranged = arrange(row, (rows, columns), warps if held else warps // prod(batch))
    bits = row.operand.bits
    if row.kind == WGMMA:
        return fragment.batched(fragment.wgmma_a((rows, depth), arranged, bits), tuple(batch)), None
    part = (rows // arranged[0], columns // arranged[1])
    a = fragment.mma_a((rows, depth), arranged, bits, row.depth, row.rows, max(part[0], row.rows))
    b = fragment.mma_b((depth, columns), arranged, bits, row.depth, max(part[1], row.columns))
    if contiguous:
        a, b = (fragment.contiguous_k(x, axis, bits) for x, axis in ((a, 1), (b, 0)))
    return fragment.batched(a, tuple(batch), held), fragment.batched(b, tuple(batch), held)
