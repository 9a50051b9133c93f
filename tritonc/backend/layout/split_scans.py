"""split_scans: the warps of a block share a scan that would otherwise run in one warp.

Before:  %y = scan %x {kind = fadd, axis = 0}      : f32<4096>            four warps
After:   %p = reshape %x                           : f32<4, 1024>         a part for each
         %q = scan %p {kind = fadd, axis = 1}      : f32<4, 1024>
         %t = reduce (select last, %q, -0.0)       : f32<4>                the last of each part
         %b = reduce (select part < own, %t, -0.0) : f32<4>                of the parts before
         %y = reshape (fadd %b, %q)                : f32<4096>

A scanned axis lies in lanes and registers of one warp, so that without other axes all warps would
do the same work, each with all elements in its registers.  A part's sum is its last element, and
the sum of the parts before is a reduction of a tile of parts by parts; the neutral element stands
for what does not count.  Floats of fewer than 32 bits are scanned as 32 bits, as one warp does.

A scan from the end (`reverse`) goes by the first element of each part, and the parts behind.  A
`scan_with` has no neutral element: the totals are scanned by the same function, each part takes the
one of its neighbour, and the first keeps what it has.

Needs `num_warps`, and extents that are powers of two.
"""

from __future__ import annotations

from typing import Any

from tritonc.backend.layout.layout_choice import columns_fill_lanes
from tritonc.backend.layout.split_scans_with import numbers_along, split_scans_with
from tritonc.ir.build import Builder, replace_each
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layout import WARP_SIZE
from tritonc.ir.rules import neutral
from tritonc.ir.types import F32, I32, Tile, make, scalar, shape


def split_scans(kernel: Kernel, context: Context) -> bool:
    """Split every scan of which several warps would do the same."""
    warps: int = kernel.attributes["num_warps"]

    def split(op: Op, build: Builder) -> Value | None:
        parts = _parts(op, warps)
        return _split(op, parts, build) if parts > 1 else None

    changed = replace_each(kernel, "scan", split)
    return split_scans_with(kernel, lambda op: _parts(op, warps)) or changed


def _parts(op: Op, warps: int) -> int:
    """How many warps would have no rows of their own, as far as each has an element for a lane; or
    no columns, where these are lanes."""
    t = op.results[0].type
    assert isinstance(t, Tile)
    axis: int = op.attributes["axis"]
    extent = t.shape[axis]
    others = t.size // extent
    if columns_fill_lanes(t.shape, axis):
        return max(1, min(warps // min(warps, others // WARP_SIZE), extent // 2))
    return max(1, min(warps // min(warps, others), extent // WARP_SIZE))


def _split(op: Op, parts: int, b: Builder) -> Value:
    (x,), kind, axis = op.operands, op.attributes["kind"], op.attributes["axis"]
    extents, e = shape(x.type), scalar(x.type)
    before, behind = extents[:axis], extents[axis + 1 :]
    if e.is_float and e.bits < F32.bits:
        x = b.value("fpcast", x, type=make(F32, extents))
    wide = scalar(x.type)

    def tile(*middle: int) -> Tile:
        t = make(wide, (*before, *middle, *behind))
        assert isinstance(t, Tile)
        return t

    reverse, inside = bool(op.attributes.get("reverse")), extents[axis] // parts
    extra: dict[str, Any] = {"reverse": True} if reverse else {}
    split, square = tile(parts, inside), tile(parts, parts)
    scanned = b.value("scan", b.value("reshape", x, type=split), kind=kind, axis=axis + 1,
                      **extra)
    last = b.value("icmp", numbers_along(b, axis + 1, split),
                   b.constant(0 if reverse else inside - 1, make(I32, split.shape)),
                   predicate="eq")
    totals = _some(b, last, scanned, kind, axis + 1)
    totals = b.value("broadcast", b.value("reshape", totals, type=tile(1, parts)), type=square)
    own, other = (numbers_along(b, axis + d, square) for d in range(2))
    earlier = b.value("icmp", other, own, predicate="sgt" if reverse else "slt")
    start = _some(b, earlier, totals, kind, axis + 1)
    start = b.value("reshape", start, type=tile(parts, 1))
    start = b.value("broadcast", start, type=split)
    found = b.value("reshape", b.value(kind, start, scanned), type=make(wide, extents))
    if wide is not e:
        found = b.value("fpcast", found, type=op.result.type)
    found.name = op.result.name
    return found


def _some(b: Builder, chosen: Value, x: Value, kind: str, axis: int) -> Value:
    """The reduction along an axis of those elements that are chosen."""
    nothing = b.constant(neutral(kind, scalar(x.type)), x.type)
    return b.value("reduce", b.value("select", chosen, x, nothing), kind=kind, axes=(axis,))
