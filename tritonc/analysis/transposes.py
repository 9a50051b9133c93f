"""Tiles that are transposed on their way."""

from tritonc.analysis.axis import axis_info
from tritonc.ir.core import Kernel
from tritonc.ir.types import shape


def transposes(kernel: Kernel) -> bool:
    """Whether tiles are read along one axis of memory and written along another.  A row beside a
    column is none."""
    if any(op.name == "trans" for op in kernel.ops()):
        return True
    accesses = [op.operands[0] for op in kernel.ops() if op.name in ("load", "store")
                and sum(extent > 1 for extent in shape(op.operands[0].type)) > 1]
    infos = axis_info.analyze(kernel) if accesses else {}
    runs = [info.contiguity for pointer in accesses if (info := infos.get(pointer)) is not None]
    return len({run.index(max(run)) - len(run) for run in runs if max(run) > 1}) > 1
