"""lower_conversions: elements that must leave their warp go through shared memory.

Before:  %y = convert_layout %x : f32<64, 64; #b>
After:   %s = alloc_shared : buffer<1 x f32<64, 64>>
         shared_store %s, %x
         %y = shared_load %s : f32<64, 64; #b>

         where the tile is too large for that, part by part: shared_store, shared_load for each,
         and %y = join_parts of what was loaded

         %y = gather %x, %i : f32<64>          likewise, and at last shared_gather %s, %i

Conversions that only rename registers or shuffle inside a warp stay as they are; which of the three
it is, and the swizzle of the buffer, is `plan_conversion`'s choice.  Pointers travel as integers,
since buffers hold numbers.  Needs layouts; leaves the place of the buffer to allocate_shared and
the barriers to insert_barriers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritonc.backend.conversion import Shared, part_layout, plan_conversion, plan_shared
from tritonc.backend.machine_ops import ALL_OPS
from tritonc.backend.target import Target
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layout import SharedLayout
from tritonc.ir.shared_layout import row_major
from tritonc.ir.types import I64, Buffer, Tile, Type, is_pointer, scalar, with_element


def lower_conversions(kernel: Kernel, context: Context) -> bool:
    """Replace conversions across warps, and gathers, by a store to and a load from a buffer."""
    target: Target = context.target
    replaced: dict[Value, Value] = {}
    for block in kernel.blocks:
        ops: list[Op] = []
        for op in block.ops:
            if op.name == "gather":
                source = op.operands[0].type
                assert isinstance(source, Tile)
                ops += _exchange(op, row_major(source.shape), ())
                replaced[op.result] = ops[-1].result
                continue
            if op.name != "convert_layout":
                ops.append(op)
                continue
            source, result = op.operands[0].type, op.result.type
            assert isinstance(source, Tile) and isinstance(result, Tile)
            assert source.layout is not None and result.layout is not None
            plan = plan_conversion(source.layout, result.layout, source.element.bits)
            if isinstance(plan, Shared):
                plan = plan_shared(source.layout, result.layout, plan.element_bits,
                                   target.shared_per_block // 2)
                ops += _exchange(op, plan.layout, plan.bits)
                replaced[op.result] = ops[-1].result
            else:
                ops.append(op)
        block.ops = ops
    kernel.replace(replaced)
    return bool(replaced)


def _exchange(op: Op, layout: SharedLayout, bits: tuple[int, ...]) -> list[Op]:
    """Operations that go through a buffer of that layout, one after the other for the parts that
    `bits` numbers; the last one's result is the op's."""
    value, target = op.operands[0], op.result.type
    ops: list[Op] = []

    def make(name: str, operands: list[Value], result: Type | None = None, **more: Any) -> Value:
        ops.append(make_op(name, operands, result, span=op.span, table=ALL_OPS, **more))
        return ops[-1].result if ops[-1].results else value

    if is_pointer(value.type):
        value = make("ptrtoint", [value], with_element(value.type, I64))
    e = scalar(value.type)
    whole = with_element(target, e)
    buffer = make("alloc_shared", [], Buffer(e, layout.shape, 1, layout))
    buffer.name = "exchange"
    if op.name == "gather":
        make("shared_store", [buffer, value])
        value = make("shared_gather", [buffer, *op.operands[1:]], whole)
    elif not bits:
        make("shared_store", [buffer, value])
        value = make("shared_load", [buffer], whole)
    else:
        loaded = []
        for index in range(1 << len(bits)):
            make("shared_store", [buffer, value], bits=bits, index=index)
            loaded.append(make("shared_load", [buffer], part_type(whole, bits)))
        value = make("join_parts", loaded, whole, bits=bits)
    if is_pointer(target):
        value = make("inttoptr", [value], target)
    value.name = op.result.name
    return ops


def part_type(t: Type, bits: Sequence[int]) -> Tile:
    """The type of each part of a tile that `bits` of the row-major index, in registers, number."""
    assert isinstance(t, Tile) and t.layout is not None
    layout = part_layout(t.layout, bits)
    return Tile(t.element, layout.shape, layout)
