"""How a product on wgmma runs best whose tile is too small for a producer warp, in the entry that
serves all launches: one warpgroup, with as few stages as let another block stand beside it.

The passes take as many stages as a block needs that is alone, which is what launches of few
programs want; those have entries of their own.
"""

from tritonc.analysis.values import slice_of
from tritonc.backend.dots.together import chained
from tritonc.backend.target.target import Target
from tritonc.ir.core import Kernel
from tritonc.ir.types import TF32, shape
from tritonc.tune.model.blocks import use
from tritonc.tune.model.features import features

# H200, products of halves, without it and with it: 4096 x 4096 x 1024 by 64 x 64 135 us and 97, by
# 64 x 128 96 and 82, by 128 x 64 104 and 83 (98 with all stages, 104 by two warpgroups); 8192 x
# 1024 x 4096 243 and 201, 176 and 160, 195 and 161; 2048 in cube 60 and 46, 43 and 38, 47 and 38.
STAGES, WARPS, LARGEST = 4, 4, 128 * 64


def beside(kernel: Kernel, target: Target) -> dict[str, int]:
    """The meta-parameters for it; none where the passes do as well."""
    dots = [f for f in features(kernel) if f.kind == "dot"]
    if len(dots) != 1 or any(map(chained, kernel.blocks)) or "wgmma" not in target.features:
        return {}
    products = [op for op in kernel.ops() if op.name == "dot"]
    loads = [op for op in slice_of([v for op in products for v in op.operands[:2]], masks=False)
             if op.name == "load" and shape(op.result.type)]
    if any(op.name == "load" for op in slice_of([op.operands[0] for op in loads], masks=False)):
        return {}  # rows that are gathered were not measured
    (dot,), (*batch, m, n, _) = dots, dots[0].extents
    one = use(dot, target)
    if (batch or one.kind != "wgmma" or m * n > LARGEST or min(m, n) < 64 or dot.computed
            or dot.scaled or dot.swapped or any(dot.raw) or dot.bytes != 2
            or dot.element == str(TF32)):
        return {}
    room = target.shared_per_multiprocessor // 2 - target.shared_reserved
    return {"num_warps": WARPS, "num_stages": STAGES} if (
        STAGES * dot.stage_bytes + STAGES * 64 <= room) else {}
