"""lower_conversions: elements that must leave their warp go through shared memory.

Before:  %y = convert_layout %x : f32<64, 64; #b>
After:   %s = alloc_shared : buffer<1 x f32<64, 64>>
         shared_store %s, %x
         %y = shared_load %s : f32<64, 64; #b>

         %y = gather %x, %i : f32<64>          likewise, and at last shared_gather %s, %i

Conversions that only rename registers or shuffle inside a warp stay as they are; which of the three
it is, and the swizzle of the buffer, is `plan_conversion`'s choice.  Pointers travel as integers,
since buffers hold numbers.  Needs layouts; leaves the place of the buffer to allocate_shared and
the barriers to insert_barriers.
"""

from __future__ import annotations

from tritonc.backend.conversion import Shared, plan_conversion
from tritonc.backend.machine_ops import ALL_OPS
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layout import SharedLayout
from tritonc.ir.shared_layout import row_major
from tritonc.ir.types import I64, Buffer, Tile, is_pointer, scalar, with_element


def lower_conversions(kernel: Kernel, context: Context) -> bool:
    """Replace conversions across warps, and gathers, by a store to and a load from a buffer."""
    replaced: dict[Value, Value] = {}
    for block in kernel.blocks:
        ops: list[Op] = []
        for op in block.ops:
            if op.name == "gather":
                source = op.operands[0].type
                assert isinstance(source, Tile)
                ops += _exchange(op, row_major(source.shape))
                replaced[op.result] = ops[-1].result
                continue
            if op.name != "convert_layout":
                ops.append(op)
                continue
            source, target = op.operands[0].type, op.result.type
            assert isinstance(source, Tile) and isinstance(target, Tile)
            assert source.layout is not None and target.layout is not None
            plan = plan_conversion(source.layout, target.layout, source.element.bits)
            if isinstance(plan, Shared):
                ops += _exchange(op, plan.layout)
                replaced[op.result] = ops[-1].result
            else:
                ops.append(op)
        block.ops = ops
    kernel.replace(replaced)
    return bool(replaced)


def _exchange(op: Op, layout: SharedLayout) -> list[Op]:
    """Operations that go through a buffer of that layout; the last one's result is the op's."""
    value, target = op.operands[0], op.result.type
    ops: list[Op] = []
    if is_pointer(value.type):
        ops.append(make_op("ptrtoint", [value], with_element(value.type, I64), span=op.span))
        value = ops[-1].result
    e = scalar(value.type)
    buffer = make_op("alloc_shared", [], Buffer(e, layout.shape, 1, layout), span=op.span,
                     table=ALL_OPS)
    buffer.result.name = "exchange"
    store = make_op("shared_store", [buffer.result, value], span=op.span, table=ALL_OPS)
    reader = "shared_load" if op.name == "convert_layout" else "shared_gather"
    load = make_op(reader, [buffer.result, *op.operands[1:]], with_element(target, e),
                   span=op.span, table=ALL_OPS)
    ops += [buffer, store, load]
    if is_pointer(target):
        ops.append(make_op("inttoptr", [load.result], target, span=op.span))
    ops[-1].result.name = op.result.name
    return ops
