"""Operands of mma.sync that threads compute where the instruction reads them, in registers.

Before:  %y = channel %x : i8<64, 128>        %b is stored to shared memory as halves, all threads
         %b = sitofp %y : f16<64, 128>        meet, and the dot reads its fragments
         %d = dot %a, %b, %c

After:   %d = dot %a, %b, %c {registers = [1], ...}       %b is computed in the fragments' layout

What is loaded crosses shared memory once, as it is, and no thread waits for another one's
conversions.  Fragments give a thread single elements here and there, of which a product does not
mind the order, if its operands agree about K, and its result about rows and columns:

    contiguous       a thread has neighbours along K, where memory has those, or a word holds them
    neighbours       so many rows (columns) of a thread are neighbours, as a power of two, where
                     memory has those side by side: two bytes, which ldmatrix moves together, or as
                     many as a word holds

Where several warps share an operand, each would compute it: so threads compute each element once
and store it (a `stored` channel).  H200, code for sm_80, 128 x 128 by four warps: weights of four
bits 523 us stored, 558 in fragments by steps of 64, 756 and 580 by steps of 32."""

from math import prod

from tritonc.analysis.axis import axis_info
from tritonc.analysis.values import computed_from, slice_of
from tritonc.backend.launch.choose_warps import product_warps
from tritonc.backend.target import matrix
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.layout import WARP_SIZE, log2
from tritonc.ir.types import bytes_of, scalar, shape

HELD = 176  # registers of a thread that sums, and what is loaded of an operand, may fill
TILE = 8  # rows or columns of lanes
WORD = 4


def place(kernel: Kernel, block: Block, dot: Op, number: int, raw: list[Op], ops: list[Op],
          infos: axis_info.Infos, context: Context) -> bool:
    """Set the attributes of a dot that reads this operand from registers; False if threads had
    better store it.  `raw`, `ops`: the loads and operations that make the operand."""
    row, operand = matrix.BY_NAME[dot.attributes["instruction"]], dot.operands[number]
    *batch, rows, columns = shape(dot.result.type)
    warps = product_warps(kernel, block, context)
    if row.kind != matrix.MMA or row.operand.bits > 16 or warps % prod(batch) \
            or "inside" in dot.attributes or any(op.name == "reduce" for op in ops):
        return False
    arranged = matrix.arrange(row, (rows, columns), warps // prod(batch))
    large = [load for load in raw if len(shape(load.result.type)) == 2]
    held = sum(bytes_of(load.result.type) for load in large)
    if not large or arranged[1 - number] > 1 or (
            prod(batch) * rows * columns + held // WORD > HELD * warps * WARP_SIZE):
        return False
    # What has as many bits as the operand lies in memory as fragments want it, or transposed.
    found = {_neighbours(load, operand, number, ops, infos) for load in large
             if scalar(load.result.type).bits != row.operand.bits}
    if len(found) > 1 or None in found:
        return False
    if 0 in found:
        if computed_from(dot.operands[0], "dot"):
            return False  # its K lies in registers already
        dot.attributes["contiguous"] = True
    for bits in found - {0, None}:
        most = (min(2, rows // arranged[0] // TILE), columns // arranged[1] // TILE)[number]
        if most < 2:
            return False
        together = [*dot.attributes.get("neighbours", (0, 0))]
        together[number] = min(bits or 0, log2(most))
        dot.attributes["neighbours"] = tuple(together)
    dot.attributes["registers"] = (*dot.attributes.get("registers", ()), number)
    return True


def _neighbours(load: Op, operand: Value, number: int, ops: list[Op], infos: axis_info.Infos
                ) -> int | None:
    """How many of the operand's rows or columns come together, as a power of two; 0 for those along
    K; None for neither."""
    size, flat, transposed = scalar(load.result.type).bytes, operand, False
    while len(shape(flat.type)) == 3 and flat.op is not None and flat.op.name in ("reshape",
                                                                                   "trans"):
        flat = flat.op.operands[0]  # a slice of K for each warp
    if len(shape(flat.type)) != 2 or size not in (1, WORD):
        return None
    op, inside = flat.op, {*ops, load}
    while op is not load:
        if op is None:
            return None
        transposed ^= op.name == "trans" and tuple(op.attributes["permutation"]) == (1, 0)
        op = next((v.op for v in op.operands if load in slice_of([v], inside)), None)
    extents, whole = shape(load.result.type), shape(flat.type)
    extents = extents[::-1] if transposed else extents
    inner = 1 - number
    if size == WORD:
        packed = [axis for axis in (0, 1) if extents[axis] < whole[axis]]
        if len(packed) != 1 or whole[packed[0]] % extents[packed[0]]:
            return None
        return 0 if packed[0] == inner else log2(whole[packed[0]] // extents[packed[0]])
    contiguity = infos[load.operands[0]].contiguity
    axis = max((0, 1), key=lambda d: contiguity[d])
    return 0 if (axis ^ transposed) == inner else 1
