"""bound_conversions: conversions of integers to 16-bit floats are told how large the integers are.

Before:  %n = and %w, %fifteen : i32<64, 8>       After:  %x = sitofp %n {bounds = (0, 15)} : bf16
         %x = sitofp %n : bf16<64, 8>

What an f32 holds exactly is rounded once on its way through one.  Integers of seven bits and their
sign need no conversion at all: they are fractions of a 16-bit float whose exponent is known (see
`emit/packed`).  Weights of four bits are such.
"""

from __future__ import annotations

from tritonc.analysis.facts import Facts
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel
from tritonc.ir.types import BF16, F16, Tile, scalar

EXACT = 1 << 24  # all integers below are numbers of f32


def bound_conversions(kernel: Kernel, context: Context) -> bool:
    """Set `bounds` on conversions of tiles where that helps."""
    facts, changed = Facts(kernel), False
    for op in kernel.ops():
        if op.name not in ("sitofp", "uitofp") or not isinstance(op.result.type, Tile) \
                or scalar(op.result.type) not in (F16, BF16):
            continue
        least, most = facts.interval(op.operands[0])
        if least >= -EXACT and most <= EXACT and (least >= 0 or op.name == "sitofp") \
                and scalar(op.operands[0].type).bits >= 16:
            op.attributes["bounds"] = (least, most)
            changed = True
    return changed
