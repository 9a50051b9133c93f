"""limit_registers: how many blocks a multiprocessor shall hold at once.

Sets `min_blocks` of a kernel that multiplies on CUDA cores, or that reduces rows.  The assembler
takes as many registers as help one thread; it does not know that a product waits at a barrier in
each step of k, and a row for memory and for other warps, which only another block's warps can fill.
Told how many blocks must fit, it uses no more than that leaves.

The number follows from shared memory and from what the product needs: accumulators, two steps of
operands, what is on its way to shared memory, and some for addresses.  It is as large as helps
(ENOUGH warps; with them a thread still has 128 registers), and nothing is set where the
estimate leaves only one block.  Rows want half the threads that a multiprocessor can hold, many
bytes of memory in flight: a thread has 64 registers or more then.  If it keeps few numbers at once
(FEW_HELD) and no loop loads, they want three quarters, and 40 registers.  Loops that load must have
enough: the assembler saves registers by loading only when the load before has arrived, even if
nothing is set.  So where more than MOST_HELD numbers are kept, they get a quarter of the threads,
128 registers; without such a loop nothing is set then.

Of several products in a loop that are one warpgroup's, as attention's may be, all may be in flight
at once: as many blocks as have registers for that compute, one beside the products of another.  A
meta-parameter, `min_blocks`; 0 sets nothing.

Needs allocate_shared.
"""

from __future__ import annotations

from tritonc.analysis.pressure import MOST_HELD, most_held
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layout import LANE_BITS, axis_bases
from tritonc.ir.types import Tile, is_float, scalar

ENOUGH = 16  # warps of a multiprocessor, for products
WARPGROUP = 4  # warps
OTHERS = 40  # registers: addresses, counters, masks
FEW_HELD = 32  # registers of rows: so many, and a few for addresses, are 40


def limit_registers(kernel: Kernel, context: Context) -> bool:
    """Set `min_blocks`, if more than one block is to be resident."""
    blocks = context.meta.get("min_blocks")
    if blocks is None:
        blocks = _wanted(kernel, context.target)
    if blocks < 2:
        return False
    kernel.attributes["min_blocks"] = blocks
    return True


def _wanted(kernel: Kernel, target: Target) -> int:
    """How many blocks; 0 for neither rows nor products of which one block is not enough."""
    warps: int = kernel.attributes["num_warps"]
    loops = Cfg(kernel).loops
    needs = [_registers(kernel, loop) for loop in loops if _has(loop, "fma_dot", 1)]
    if warps == WARPGROUP:
        needs += [_in_flight(loop) for loop in loops if _has(loop, "wgmma", 2)]
    row_threads = _row_threads(kernel, target, loops)
    if not needs and not row_threads:
        return 0
    threads = warps << LANE_BITS
    enough = row_threads >> LANE_BITS or ENOUGH
    registers: int = -(-max(needs) // 8) * 8 if needs else (
        target.registers_per_multiprocessor // row_threads // 8 * 8)
    shared: int = kernel.attributes.get("shared_bytes", 0) + target.shared_reserved
    return min(target.registers_per_multiprocessor // (threads * registers), enough // warps,
               target.threads_per_multiprocessor // threads, target.blocks_per_multiprocessor,
               target.shared_per_multiprocessor // max(shared, 1))


def _row_threads(kernel: Kernel, target: Target, loops: list[Loop]) -> int:
    """How many threads of rows shall be resident; 0 for any number, and if there are no rows."""
    ops = list(kernel.ops())
    names = {op.name for op in ops}
    if "reduce" not in names or names & set(DOTS):
        return 0
    held, all_threads = most_held(kernel), target.threads_per_multiprocessor
    streaming = any(map(_loads_tiles, loops))
    if held <= FEW_HELD and not streaming and not any(
            op.attributes.get("piecewise") for op in ops):
        return all_threads * 3 // 4
    if held <= MOST_HELD:
        return all_threads // 2
    return all_threads // 4 if streaming else 0


def _has(loop: Loop, name: str, count: int) -> bool:
    """Whether so many operations of that name are in the loop."""
    return sum(op.name == name for block in loop.blocks for op in block.ops) >= count


def _loads_tiles(loop: Loop) -> bool:
    return any(op.name == "load" and isinstance(op.result.type, Tile)
               for block in loop.blocks for op in block.ops)


def _in_flight(loop: Loop) -> int:
    """An estimate for products of wgmma that run at once: results, and operands in registers."""
    ops = [op for block in loop.blocks for op in block.ops if op.name == "wgmma"]
    return round(sum(_size(v) for op in ops for v in (op.result, *op.operands[:2]))) + OTHERS


def _registers(kernel: Kernel, loop: Loop) -> int:
    """An estimate of what a thread holds at once in the loop: of products the largest, and all
    other tiles that the loop carries or loads, be it from shared memory, but in small pieces."""
    ops = [op for block in loop.blocks for op in block.ops]
    dots = [op for op in ops if op.name == "fma_dot"]
    held = sum(_size(op.result) for op in ops if op.name == "load" or (
        op.name == "shared_load" and not op.attributes.get("piecewise")) or (
        op.name == "phi" and op in loop.header.ops and not _fragment(op)))
    fresh = max((_size(op.result) for op in dots if not _carried(op, loop)), default=0)
    return round(held + fresh + max(map(_fragments, dots)) + OTHERS)


def _fragment(phi: Op) -> bool:
    """Whether it is a step's rows or columns, read in the iteration before."""
    return any(v.op is not None and v.op.name == "load_slice" for v in phi.operands)


def _carried(dot: Op, loop: Loop) -> bool:
    """Whether the accumulator is a tile that the loop carries, counted already."""
    total = dot.operands[2].op
    while total is not None and total.name == dot.name:
        total = total.operands[2].op
    return total is not None and total in loop.header.ops


def _size(value: Value) -> float:
    """The registers of 32 bits that hold a tile of numbers; scalars and indices are in OTHERS."""
    t = value.type
    if not isinstance(t, Tile) or t.layout is None or not is_float(t):
        return 0
    return t.layout.registers * max(scalar(t).bytes, 2) / 4


def _fragments(dot: Op) -> float:
    """Two steps' rows of A and columns of B."""
    t = dot.result.type
    assert isinstance(t, Tile) and t.layout is not None
    sides = [sum(basis in axis_bases(t.shape, axis) for basis in t.layout.register)
             for axis in (len(t.shape) - 2, len(t.shape) - 1)]
    return 2 * sum(1 << bits for bits in sides) * scalar(t).bytes / 4
