"""Windows: accesses whose mask says where an axis of a tensor begins, too.

A convolution reads `x[c * L + p]` with `p = l + t - pad` where `p >= 0 && p < L`.  The copy engine
gives zeros on both sides of an axis, and its boxes may start anywhere on it: so p itself is the
coordinate, of any sign and alignment, on an axis of L elements.  What is left of the offset moves
the base, or counts along other axes, as in any tensor.

An axis without a lower bound is one as well if its coordinate is known not to be negative.
"""

from __future__ import annotations

from typing import NamedTuple

from tritonc.analysis.affine import Affine, Affinity, Bound
from tritonc.analysis.linear import Linear, equal
from tritonc.ir.core import Op
from tritonc.ir.types import element, shape


class Window(NamedTuple):
    """A load of a tile with two axes, of which the contiguous one is axis 0 of the tensor.

    `axes[i]`: the tile's axis that is the tensor's axis i; `coordinates`: where the tile begins on
    the axes with a window, None for others; `extents`: of those axes; `form`: the address without
    these coordinates; `bounds`: those of the other axes; `below`: whether the mask has a lower one.
    """

    axes: tuple[int, int]
    coordinates: tuple[Linear | None, Linear | None]
    extents: tuple[Linear | None, Linear | None]
    form: Affine
    bounds: tuple[Bound, ...]
    below: bool

    @property
    def shifted(self) -> bool:
        """Whether rows may begin at any element."""
        return self.coordinates[0] is not None


def window(op: Op, affinity: Affinity) -> Window | None:
    """The window of a load, if its mask gives it one."""
    form, extents = affinity.of(op.operands[0]), shape(op.operands[0].type)
    if op.name != "load" or form is None or form.base is None or len(extents) != 2:
        return None
    inner = next((d for d in (1, 0) if form.strides[d].constant == 1), None)
    bounds, conditions, others = affinity.parts(op.guard, 2)
    if inner is None or conditions:
        return None
    lows: dict[int, tuple[Linear, Linear]] = {}
    for value, where in others:
        low = affinity.least(value, where)
        if low is None or low.axis in lows or element(low.test.operands[0].type).bits > 32:
            return None
        lows[low.axis] = low.start, low.limit
    axes, rest = (inner, 1 - inner), form.offset
    coordinates: list[Linear | None] = [None, None]
    limits: list[Linear | None] = [None, None]
    left: list[Bound] = []
    for i, axis in enumerate(axes):
        own = [bound for bound in bounds if bound.axis == axis]
        found = _coordinate(own, lows.get(axis), affinity)
        if found is None and axis in lows:
            return None
        if found is None or (axis not in lows and i == 1):
            left += own
            continue
        coordinates[i], limits[i] = found
        rest = rest - found[0] * form.strides[axis]
    if coordinates == [None, None]:
        return None
    return Window(axes, (coordinates[0], coordinates[1]), (limits[0], limits[1]),
                  form._replace(offset=rest), tuple(left), bool(lows))


def _coordinate(bounds: list[Bound], low: tuple[Linear, Linear] | None, affinity: Affinity
                ) -> tuple[Linear, Linear] | None:
    """Where the tile begins on its axis, and how long that is: the same for all programs."""
    if len(bounds) != 1 or element(bounds[0].test.operands[0].type).bits > 32:
        return None
    start, limit = bounds[0].start, bounds[0].limit
    needs = affinity.signs.of_polynomial(start) if low is None else None
    if needs is not None:
        affinity.assumed.update(needs)
        low = start, Linear()
    if low is None or not equal(low[0], start) or low[1].constant is None:
        return None
    extent = limit - low[1]
    return (start - low[1], extent) if all(v.op is None for v in extent.values()) else None
