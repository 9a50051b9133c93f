"""swap_operands: products of few rows and many columns are computed the other way round.

Before:                                    After:
  header: %c = phi [%start], [%d]            header: %t = phi [%swapped], [%e] : f32<64, 32>
  body:   %d = dot %a, %b, %c : f32<32, 64>  body:   %e = dot (trans %b), (trans %a), %t
  exit:   uses of %c                         exit:   %r = trans %t; uses of %r

An instruction of wgmma multiplies 64 rows by 8 columns or more.  A product of fewer rows may have
64 columns, which are rows of its transpose.  Operands stay as they are: views of shared memory
are transposed, and the sum is transposed back behind the loop, which is another name for the same
registers.  With 32 rows and 64 columns more multiprocessors have a tile than with 64, and they
bring whole lines of memory, which 32 columns of 16 bits are not.

A product of more than 128 rows, and of fewer columns, that only adds up is swapped, too: a tile of
256 x 128 has four warpgroups as it is, and no registers for a producer warp (3072 in cube 184 us on
an H200), and two as 128 x 256 (100 us).

A product whose right operand the loop computes, and whose left one it does not, is swapped too:
wgmma takes the left one from registers, where threads compute it (`raw_operands`).

Products that make one sum are swapped together, as those of the halves of bytes whose columns lie
apart; of fewer than 128 rows deep ones alone, since each waits for what threads compute: four of 64
by 16 x 64 took 71 us on an H200 so, and 38 by mma.sync.

So is one of the fewest rows of mma.sync, of too few columns for wgmma, whose right operand the loop
computes: fragments of a left one may be in any registers, and those of a right one are two that are
neighbours in shared memory; else each product takes four moves (weights of 8 bits by 16 x 32 x 128
139 instructions of a step, 112).

So is one of words (tf32) whose left operand alone is loaded with K contiguous: the other one has to
come by registers.

So is what a loop computes of a product, element by element, before it adds that: factors of rows
become factors of columns.  Factors of columns alone are a reason to swap: a thread has elements of
two rows and of up to 128 columns.  Done where wgmma can read both operands so."""

from collections.abc import Mapping, Sequence

from tritonc.analysis.axis import axis_info
from tritonc.backend.dots.inner_axis import TRANSPOSED, inner_first, reads
from tritonc.backend.dots.raw_operands import computed_operand, is_plain
from tritonc.backend.dots.summed_dots import SummedDot, summed_dots
from tritonc.backend.target.matrix import WGMMA, MatrixInstruction, candidates
from tritonc.backend.target.target import Target
from tritonc.ir.build import Builder
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import Tile, element, shape

LEAST_ROWS = 64  # with which wgmma takes a product as it is
MOST_ROWS = 128  # of two warpgroups
DEEP = 128  # of fewer rows, of each of several products, which wait for their operands one by one


def swap_operands(kernel: Kernel, target: Target, infos: axis_info.Infos) -> bool:
    """Turn the products of a kernel whose only products are sums of one size, if wgmma gains."""
    found = summed_dots(kernel, alone=False)
    if not all(_fits(kernel, one, target, infos) for one in found):
        return False
    for one in found:
        _swap(kernel, one)
    return bool(found)


def _fits(kernel: Kernel, one: SummedDot, target: Target, infos: axis_info.Infos) -> bool:
    """Whether tensor cores take the product swapped, and not, or not as well, as it is."""
    (rows, columns), depth = shape(one.dot.result.type), shape(one.dot.operands[0].type)[1]
    readers, inside = uses(kernel), set(one.loop.ops())
    inner = [inner_first(dot, infos) for dot in one.dots]
    computed = all(_computed_right(dot, inside) for dot in one.dots)

    def takes(row: MatrixInstruction) -> bool:
        if row.kind != WGMMA:
            return rows == row.rows < columns < LEAST_ROWS and computed
        return (row.is_filled(columns, rows, depth)
                and (rows >= MOST_ROWS or depth >= DEEP or len(one.dots) == 1)
                and (rows < row.rows or computed
                     or all(factors_of_columns(dot, readers) for dot in one.dots)
                     or (MOST_ROWS < rows > columns
                         and all(_adds_plainly(dot, readers) for dot in one.dots))
                     or (not row.transposes and {*inner} == {(True, False)}))
                and all(reads(row, *axes[::-1]) for axes in inner))

    rows_of_table = candidates(target.features, one.dot.operands[0].type, one.dot.result.type)
    extents = (columns, depth) if rows > MOST_ROWS else (rows, columns, depth)
    return not any(n & (n - 1) for n in extents) and any(map(takes, rows_of_table))


def _adds_plainly(dot: Op, readers: Mapping[Value, Sequence[Op]]) -> bool:
    """Whether both operands are loaded, or both computed, and nothing is computed of the product
    before it is added."""
    plain = {is_plain(v, True) for v in dot.operands[:2]}
    return len(plain) == 1 and not any(op.name == "fmul" for op in readers.get(dot.result, ()))


def _computed_right(dot: Op, inside: set[Op]) -> bool:
    """Whether the loop computes the right operand alone: swapped, it goes through registers."""
    left, right = dot.operands[:2]
    return is_plain(left, True) and not is_plain(right, True) and computed_operand(
        right, inside) is not None


def factors_of_columns(dot: Op, readers: Mapping[Value, Sequence[Op]]) -> bool:
    """Whether a product is multiplied by a number of each column, and none of each row: a thread
    has elements of many columns, and of few rows."""
    axes, made = set[int](), [dot.result]
    for value in made:
        for op in [op for op in readers.get(value, ()) if op.name == "fmul"]:
            axes.update(axis for v in op.operands if v not in made for axis in _axes(v))
            made.append(op.result)
    return axes == {1} and is_plain(dot.operands[0], True)


def _axes(value: Value) -> set[int]:
    """The axes of a tile along which its elements may differ, as the operations say it."""
    op = value.op
    if op is not None and op.name in ("constant", "splat"):
        return set()
    if op is not None and op.name == "broadcast":
        return {i for i, n in enumerate(shape(op.operands[0].type)) if n > 1}
    if op is not None and op.info.elementwise:
        return {axis for v in op.operands for axis in _axes(v)}
    return {0, 1}


def _swap(kernel: Kernel, one: SummedDot) -> None:
    """Give each member the transposed shape, and its reads; behind the loop, transpose back."""
    swapped = shape(one.dot.result.type)[0] >= LEAST_ROWS
    made = {op.result for op in one.members}
    for block in one.loop.blocks:
        for op in [op for op in block.ops if op in one.members]:
            if op is one.phi:
                for i, (value, source) in enumerate(zip(op.operands, op.blocks, strict=True)):
                    if value not in made:
                        op.operands[i] = _transposed(Builder(source, len(source.ops) - 1, op.span),
                                                 value)
                continue
            b = Builder(block, block.ops.index(op), op.span)
            operands = [v if v in made else _transposed(b, v) for v in op.operands]
            if op in one.dots:  # for what is computed, not for its rows
                operands = [operands[1], operands[0], operands[2]]
                op.attributes.pop("asked", None)  # its columns are rows now
                if swapped:
                    op.attributes["swapped"] = True
            op.operands[:] = operands
    after = Builder(one.exit, len(one.exit.phis()), one.dot.span)
    inside = set(one.loop.ops())
    for op in one.members:
        t = op.result.type
        op.result.type = Tile(element(t), shape(t)[::-1])
    back = after.value("trans", one.phi.result, named=one.phi.result.name, permutation=TRANSPOSED)
    for op in list(kernel.ops()):
        if op not in inside and op is not back.op:
            op.replace_inputs({one.phi.result: back})


def _transposed(b: Builder, value: Value) -> Value:
    """A tile that is transposed: rows and columns that are spread stay those."""
    op, t = value.op, value.type
    swapped = Tile(element(t), shape(t)[::-1])
    if op is not None and op.name == "constant":
        return b.constant(op.attributes["value"], swapped)
    if op is not None and op.name == "splat":
        return b.value("splat", op.operands[0], type=swapped)
    if op is not None and op.name == "broadcast" and len(shape(op.operands[0].type)) == 2:
        return b.value("broadcast", _transposed(b, op.operands[0]), type=swapped)
    if op is not None and op.name == "reshape" and len(shape(op.operands[0].type)) == 1:
        return b.value("reshape", op.operands[0], type=swapped)
    if op is not None and op.name in ("fmul", "fadd", "fsub") and op in b.block.ops:
        return b.value(op.name, *(_transposed(b, v) for v in op.operands), **op.attributes)
    return b.value("trans", value, named=value.name, permutation=TRANSPOSED)
