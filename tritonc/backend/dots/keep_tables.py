"""keep_tables: a small table in which a product's loop looks numbers up lies in shared memory.

Before:  loop:                                      After:  preheader:
           %v = load (addptr (splat %t), %i)                  @runs %r = load %t ... %t + 15
                                                              shared_store %s, %r
                                                            loop:
                                                              %v = shared_gather %s, %i

A load from global memory takes several cycles of the one unit that a multiprocessor has for all
its warps, and each needs an address of 64 bits.  The table is read where the loop runs at all and
begins at a multiple of its size (`analysis/tables`), if nothing in the loop writes."""

from tritonc.analysis.axis import axis_info
from tritonc.analysis.facts import Facts
from tritonc.analysis.tables import Table, table_of
from tritonc.analysis.values import needed
from tritonc.backend.layout import layout_choice
from tritonc.backend.pipeline.loop_slice import find_slice, initial_values
from tritonc.backend.shared.shared_memory import allocate
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.shared_layout import row_major
from tritonc.ir.ops import WRITE
from tritonc.ir.rules import pointee
from tritonc.ir.types import I1, I32, Pointer, Scalar, Tile, element, scalar


def keep_tables(kernel: Kernel) -> None:
    """Look up numbers of small tables in shared memory, in the loops of products."""
    cfg, facts = Cfg(kernel), Facts(kernel)
    kept: list[tuple[Loop, Op, Table]] = []
    for loop in cfg.loops:
        ops = list(loop.ops())
        if loop.preheader is None or loop.latch is None or loop.header.ops[-1].name != "cond_br" \
                or not any(op.name in ("wgmma", "mma_dot") for op in loop.latch.ops) or any(
                    WRITE in op.effects for op in ops):
            continue
        kept += [(loop, op, table) for op in loop.latch.ops
                 if (table := table_of(op, facts)) is not None]
    infos = axis_info.analyze(kernel) if kept else {}
    buffers: dict[tuple[Loop, Value, int], Value | None] = {}
    for loop, op, table in kept:
        info = infos.get(table.base)
        if info is None or min(info.divisibility) < table.bytes:
            continue
        key = loop, table.base, table.places
        if key not in buffers:
            buffers[key] = _filled(kernel, loop, table)
        if (buffer := buffers[key]) is not None:
            op.name, op.operands, op.attributes = "shared_gather", [buffer, table.place], {}


def _filled(kernel: Kernel, loop: Loop, table: Table) -> Value | None:
    """A buffer that has the table before the loop; None if whether the loop runs is not known
    there."""
    condition, place, latch = loop.header.ops[-1].operands[0], loop.preheader, loop.latch
    assert place is not None and latch is not None
    part = find_slice(loop, [condition], {loop.header, latch}, comes=True)
    if part is None:
        return None
    mapping = initial_values(part)
    made = copy_ops(needed(part.ops, [condition]), mapping)
    layout = layout_choice.plain((table.places,), kernel.attributes["num_warps"])
    e = scalar(pointee(table.base.type))

    def tile(kind: Scalar | Pointer) -> Tile:
        return Tile(kind, (table.places,), layout)

    runs = make_op("splat", [mapping.get(condition, condition)], tile(I1))
    places = make_op("range", [], tile(I32), start=0, stop=table.places)
    start = make_op("splat", [table.base], tile(element(table.base.type)))
    pointers = make_op("addptr", [start.result, places.result], tile(element(table.base.type)))
    load = make_op("load", [pointers.result], tile(e), guard=runs.result)
    buffer = allocate(e, row_major((table.places,)), named="table")
    store = make_op("shared_store", [buffer.result, load.result])
    kernel.entry.ops.insert(0, buffer)
    place.ops[-1:-1] = [*made, runs, places, start, pointers, load, store]
    return buffer.result
