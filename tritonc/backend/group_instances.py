"""group_instances: instances that run at the same time share rows and columns of their operands.

Before:  %m = get_program_id {axis = 0}      After:  the same two numbers, of another instance:
         %n = get_program_id {axis = 1}              i = n * rows + m, counted in bands of 8 rows:
                                                     band = i / (8 * columns), first = 8 * band,
                                                     high = min(rows - first, 8),
                                                     j = i % (8 * columns),
                                                     m' = first + j % high, n' = j / high

The hardware starts blocks in the order of i.  As the source numbers them, those that run together
fill whole columns of the result, so each reads its own rows of the left operand; in bands of 8 rows
they form a rectangle, and the L2 cache serves each operand to several.  The map is one to one
whatever the launch's size, and instances have no order that a program could see.

Products on wgmma are computed by persistent blocks (`persist`), in the same order.

Done for kernels with a matrix product that number their instances along two axes.  `group` is a
meta-parameter; 1 leaves the order alone.  Must come after specialize, which reads program ids.
"""

from __future__ import annotations

from tritonc.backend import persist
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Value
from tritonc.ir.types import I32

GROUP = 8  # rows of a band


def group_instances(kernel: Kernel, context: Context) -> bool:
    """Renumber the instances of matrix products in bands."""
    group = context.meta.get("group", GROUP)
    ids = [op for op in kernel.ops() if op.name == "get_program_id"]
    axes = {op.attributes["axis"] for op in ids}
    if not {0, 1} <= axes or not any(op.name == "dot" for op in kernel.ops()):
        return False
    persistent = persist.wanted(kernel, context)
    if group < 2 and not persistent:
        return False
    if not persistent:
        _renumber(kernel, kernel.blocks, kernel.entry, group, None)
        return True
    looping = persist.body(kernel)
    plain = [block for block in kernel.blocks[1:] if block not in looping]
    home, number = persist.add_loop(kernel, looping)
    _renumber(kernel, looping, home, group, number)
    if plain and group > 1:
        _renumber(kernel, plain, plain[0], group, None)
    return True


def _renumber(kernel: Kernel, blocks: list[Block], home: Block, group: int, number: Value | None
              ) -> None:
    """Other program ids for `blocks`, which come after `home`: of instance `number` in bands."""
    before = Block("")
    numbers = _banded(Builder(before), group, number)
    replaced: dict[Value, Value] = {}
    for block in blocks:
        kept = []
        for op in block.ops:
            if op.name == "get_program_id" and op.attributes["axis"] in (0, 1):
                replaced[op.result] = numbers[op.attributes["axis"]]
            else:
                kept.append(op)
        block.ops = kept
    kernel.replace(replaced)
    home.ops[:0] = before.ops


def _banded(b: Builder, group: int, number: Value | None) -> tuple[Value, Value]:
    """The numbers along axes 0 and 1 of an instance; `number` is None for this block's own."""
    rows, columns = (b.value("get_num_programs", axis=axis) for axis in (0, 1))
    if number is None:
        m, n = (b.value("get_program_id", axis=axis) for axis in (0, 1))
        number = b.value("add", b.value("mul", n, rows), m)
    band_rows = b.constant(group, I32)
    size = b.value("mul", columns, band_rows)
    first = b.value("mul", b.value("udiv", number, size), band_rows)
    high = b.value("umin", b.value("sub", rows, first), band_rows)
    j = b.value("urem", number, size)
    new_m = b.value("add", first, b.value("urem", j, high))
    new_n = b.value("udiv", j, high)
    new_m.name, new_n.name = "row", "column"
    return new_m, new_n
