"""Windows: accesses whose mask says where an axis of a tensor begins, too.

A causal convolution reads `x[(b * L + p) * C + c]` with `p = l - t * dilation` where `p >= 0` and
`p < L`.  TMA gives zeros on both sides of an axis, and its boxes may start outside: so
p itself is the coordinate, of any sign, on an axis of L rows.  What is left of the offset moves the
base, or counts along other axes, as in any tensor."""

from tritonc.analysis.affine import Affine, Affinity, Bound
from tritonc.analysis.linear import Linear, equal
from tritonc.ir.core import Op
from tritonc.ir.types import element, shape
from tritonc.records import NamedTuple


class Window(NamedTuple):
    """A load of a tile with two axes, of which the contiguous one is axis 0 of the tensor.

    `axes[i]`: the tile's axis that is the tensor's axis i; `coordinates`: where the tile begins on
    the axes with a window, None for others; `extents`: of those axes; `form`: the address without
    these coordinates; `bounds`: those of the other axes."""

    axes: tuple[int, int]
    coordinates: tuple[Linear | None, Linear | None]
    extents: tuple[Linear | None, Linear | None]
    form: Affine
    bounds: tuple[Bound, ...]


def window(op: Op, affinity: Affinity) -> Window | None:
    """The window of a load, if its mask gives it one."""
    form, extents = affinity.of(op.operands[0]), shape(op.operands[0].type)
    if op.name != "load" or form is None or form.base is None or len(extents) != 2:
        return None
    inner = next((d for d in (1, 0) if form.strides[d].constant == 1), None)
    bounds, conditions, others = affinity.parts(op.guard, 2)
    if inner is None or conditions:
        return None
    lows: dict[int, Bound] = {}
    for value, where in others:
        low = affinity.least(value, where)
        if low is None or low.axis in lows:
            return None
        lows[low.axis] = low
    axes, rest = (inner, 1 - inner), form.offset
    coordinates: list[Linear | None] = [None, None]
    limits: list[Linear | None] = [None, None]
    for i, axis in enumerate(axes):
        if axis not in lows:
            continue
        found = _coordinate([bound for bound in bounds if bound.axis == axis], lows[axis])
        if found is None:
            return None
        coordinates[i], limits[i] = found
        rest = rest - found[0] * form.strides[axis]
    return Window(axes, (coordinates[0], coordinates[1]), (limits[0], limits[1]),
                  form._replace(offset=rest),
                  tuple(bound for bound in bounds if bound.axis not in lows)) if lows else None


def _coordinate(bounds: list[Bound], low: Bound) -> tuple[Linear, Linear] | None:
    """Where the tile begins on its axis, and how long that is: the same for all programs."""
    if len(bounds) != 1 or not equal(bounds[0].start, low.start) or low.limit.constant is None \
            or any(element(b.test.operands[0].type).bits > 32 for b in (*bounds, low)):
        return None
    extent = bounds[0].limit - low.limit
    return (low.start - low.limit, extent) if all(v.op is None for v in extent.values()) else None
