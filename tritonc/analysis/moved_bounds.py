"""Whether a mask may end where an aligned access ends, and not before: see `windows`.

    row[w - 1] where 0 < w < W, by accesses of four: w = W may take part, row[W - 1], as far as the
    other elements of its access have one among them that takes part anyway

What is below says so of any row, also of one without elements, and of a tile that begins, or ends,
amid an access or a row."""

from collections.abc import Iterable

from tritonc.analysis.affine import Bound
from tritonc.ir.types import scalar


def may_move(bound: Bound, by: int, run: int, first: int, extent: int, lows: Iterable[Bound]
             ) -> bool:
    """Whether the bound may be moved by less than `run`, to a multiple of it in memory.  The tile
    begins `first` elements behind an access.  All of limits but their constants are multiples of
    `run`, and the other bounds of the axis lie at multiples in memory."""
    adjusted = bound.test.attributes["predicate"][1:] in ("le", "ge")
    if by > 0:  # the tile begins in another access, or no later than the row
        begins = any((n := (low.limit - low.start).constant) is not None and n >= 0
                     for low in lows if low.axis == bound.axis)
        held = bound.limit.constant_term - adjusted
        return held % run + by < run and (first % run + by < run or begins)  # n bits: 2**n - 1
    last, lowest = (first + extent) % run, -(1 << scalar(bound.test.operands[0].type).bits - 1)
    return (n := bound.limit.constant) is not None and n - 1 + by >= lowest and (
        last == 0 or last > -by)
