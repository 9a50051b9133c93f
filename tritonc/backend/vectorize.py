"""vectorize: how many elements each access of global memory moves at once.

Before:  %v = load %p : f32<1024; #l>
After:   %v = load %p {vector = 4, vector_axis = 0} : f32<1024; #l>

The width is what addresses, guard and layout all allow: the addresses of the run are contiguous and
aligned, the guard is the same over it, and one thread holds it.  Needs layouts; no attribute means
one element at a time.
"""

from __future__ import annotations

from tritonc.backend import axis_info, layout_choice
from tritonc.backend.pipeline import copy_width
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel
from tritonc.ir.layout_ops import vector_width
from tritonc.ir.rules import pointee
from tritonc.ir.types import Tile, scalar


def vectorize(kernel: Kernel, context: Context) -> bool:
    """Set `vector` and `vector_axis` on loads, stores and asynchronous copies of tiles."""
    accesses = [op for op in kernel.ops() if op.name in ("load", "store")
                and isinstance(op.operands[0].type, Tile)]
    copies = [op for op in kernel.ops() if op.name == "async_copy"]
    if not accesses and not copies:
        return False
    infos = axis_info.analyze(kernel)
    for op in copies:
        buffer, pointer = op.operands
        width = copy_width(pointer, op.guard, buffer, infos)
        assert width >= 4, "cp.async moves 4 bytes at the least"
        op.attributes["vector"] = width // scalar(buffer.type).bytes
    for op in accesses:
        pointer = op.operands[0]
        assert isinstance(pointer.type, Tile) and pointer.type.layout is not None
        info = infos.get(pointer)
        if info is None:
            continue
        size = scalar(pointee(pointer.type)).bytes
        guard = infos.get(op.guard) if op.guard is not None else None
        axis = layout_choice.fastest_axis(info, len(pointer.type.shape))
        reach = axis_info.vector_length(info, guard, axis, size, layout_choice.ACCESS_BYTES)
        width = vector_width(pointer.type.layout, size * 8, reach, axis)
        if width > 1:
            op.attributes.update(vector=width, vector_axis=axis)
    return True
