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

A scan from the end (`reverse`) goes by the first element of each part, and the parts behind.

A function of the program's own has no neutral element.  So the totals are scanned by it, each part
takes the one of its neighbour, and the first keeps what it has:

Before:  %y = scan_with %x {function = f, axis = 0}           : f32<4096>          four warps
After:   %q = scan_with (reshape %x) {function = f, axis = 1} : f32<4, 1024>   a part for each
         %t = the last element of each part                   : f32<4>
         %s = scan_with %t {function = f, axis = 0}           : f32<4>
         %b = %s of the part before                           : f32<4>
         %y = reshape (select first part, %q, f(%b, %q))      : f32<4096>

An element is picked as bits: all others are 0, and the bits are joined by `or`.

A sum of what was scanned before it, `total += x[+]`, is that of the parts, which have exchanged
theirs already:

After:   %s = reduce (reshape %t)                                 : f32

Needs `num_warps`, and extents that are powers of two."""

from tritonc.backend.layout.layout_choice import columns_fill_lanes
from tritonc.ir import combiner
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.layout import WARP_SIZE
from tritonc.ir.rules import neutral
from tritonc.ir.types import F32, I32, SCALARS, Tile, element, make, scalar, shape


def split_scans(kernel: Kernel, context: Context) -> bool:
    """Split every scan of which several warps would do the same."""
    warps: int = kernel.attributes["num_warps"]
    replaced: dict[Value, Value] = {}
    for block in kernel.blocks:
        old, block.ops = block.ops, []
        build = Builder(block)
        of_parts: dict[tuple[Value, str, int], Value] = {}
        for op in old:
            parts = _parts(op, warps) if op.name in ("scan", "scan_with") else 1
            if op.name == "reduce" and len(axes := op.attributes["axes"]) == 1 and (
                    known := of_parts.get((op.operands[0], op.attributes["kind"], axes[0]))):
                replaced[op.result] = build.value(
                    "reduce", known, kind=op.attributes["kind"], axes=(axes[0], axes[0] + 1))
                continue
            if parts == 1:
                build.insert(op)
                continue
            build.span = op.span
            split = _Split(op, parts, build)
            made = [split.by_kind()] if op.name == "scan" else split.by_function()
            if op.name == "scan" and split.totals is not None:
                of_parts[op.operands[0], op.attributes["kind"], split.axis] = split.totals
            for result, found in zip(op.results, made, strict=True):
                found.name = result.name
                replaced[result] = found
    kernel.replace(replaced)
    return bool(replaced)


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


class _Split:
    """One scan.  `extents` of its tiles; in parts (`cut`); of a part by a part (`square`); `totals`
    of the parts, of the scanned type."""

    def __init__(self, op: Op, parts: int, b: Builder) -> None:
        self.op, self.b, self.parts = op, b, parts
        self.axis, self.reverse = op.attributes["axis"], bool(op.attributes.get("reverse"))
        self.extents = shape(op.operands[0].type)
        self.inside = self.extents[self.axis] // parts
        self.cut, self.square = self.middle(parts, self.inside), self.middle(parts, parts)
        self.totals: Value | None = None

    def middle(self, *extents: int) -> tuple[int, ...]:
        """The extents of a tile that has these in place of the axis."""
        return (*self.extents[:self.axis], *extents, *self.extents[self.axis + 1:])

    def by_kind(self) -> Value:
        (x,), kind, b, t = self.op.operands, self.op.attributes["kind"], self.b, self.op.result.type
        e = scalar(x.type)
        if e.is_float and e.bits < F32.bits:
            x = b.value("fpcast", x, type=make(F32, self.extents))
        (own,) = self.scanned([self.reshaped(x, self.cut)], self.axis + 1)
        of_parts = self.reshaped(self.some(self.last(), own, kind), self.middle(1, self.parts))
        self.totals = of_parts if scalar(of_parts.type) == e else None
        totals = b.value("broadcast", of_parts, type=make(scalar(of_parts.type), self.square))
        here, there = (self.b.numbers(self.axis + d, self.square) for d in range(2))
        earlier = b.value("icmp", there, here, predicate="sgt" if self.reverse else "slt")
        start = self.along(self.some(earlier, totals, kind))
        found = self.reshaped(b.value(kind, start, own), self.extents)
        return found if scalar(found.type) == e else b.value("fpcast", found, type=t)

    def by_function(self) -> list[Value]:
        b, axis = self.b, self.axis
        own = self.scanned([self.reshaped(v, self.cut) for v in self.op.operands], axis + 1)
        last = self.last()
        totals = [self.picked(last, v) for v in own]
        here, there = (self.b.numbers(axis + d, self.square) for d in range(2))
        wanted = b.value("add", here, b.constant(1 if self.reverse else -1, here.type))
        neighbour = b.value("icmp", there, wanted, predicate="eq")
        starts = [self.along(self.picked(neighbour, self.across(total)))
                  for total in self.scanned(totals, axis)]
        first = self.equal(axis, self.cut, self.parts - 1 if self.reverse else 0)
        joined = _applied(b, combiner.read(self.op.attributes["function"]), starts, own)
        return [self.reshaped(b.value("select", first, alone, both), self.extents)
                for alone, both in zip(own, joined, strict=True)]

    def scanned(self, values: list[Value], along: int) -> list[Value]:
        return list(self.b.emit(self.op.name, *values, **{**self.op.attributes, "axis": along}
                                ).results)

    def reshaped(self, value: Value, extents: tuple[int, ...]) -> Value:
        return self.b.value("reshape", value, type=make(element(value.type), extents))

    def across(self, totals: Value) -> Value:
        """One number for each part, for all of the parts."""
        return self.b.spread(totals, self.middle(1, self.parts), self.square)

    def along(self, starts: Value) -> Value:
        """One number for each part, for all that is in it."""
        return self.b.spread(starts, self.middle(self.parts, 1), self.cut)

    def last(self) -> Value:
        """Where the last element of a part is."""
        return self.equal(self.axis + 1, self.cut, 0 if self.reverse else self.inside - 1)

    def equal(self, axis: int, extents: tuple[int, ...], number: int) -> Value:
        """Where the index along the axis is that number."""
        return self.b.value("icmp", self.b.numbers(axis, extents), self.b.constant(
            number, make(I32, extents)), predicate="eq")

    def some(self, chosen: Value, x: Value, kind: str) -> Value:
        """The reduction along a part of those elements that are chosen."""
        nothing = self.b.constant(neutral(kind, scalar(x.type)), x.type)
        return self.b.value("reduce", self.b.value("select", chosen, x, nothing), kind=kind,
                            axes=(self.axis + 1,))

    def picked(self, chosen: Value, x: Value) -> Value:
        """The one element along a part that is chosen; 0 if none is."""
        e = scalar(x.type)
        bits = SCALARS[f"i{e.bits}"]
        if e != bits:
            x = self.b.value("bitcast", x, type=make(bits, shape(x.type)))
        found = self.some(chosen, x, "or")
        return found if e == bits else self.b.value("bitcast", found, type=make(
            e, shape(found.type)))


def _applied(b: Builder, function: combiner.Combiner, before: list[Value], behind: list[Value]
             ) -> list[Value]:
    """The function on tiles, element by element."""
    extents = shape(before[0].type)
    values: dict[Value, Value] = dict(zip(function.parameters, [*before, *behind], strict=True))
    for op in function.ops:
        new = b.emit(op.name, *(values[v] for v in op.operands), **op.attributes,
                     type=make(element(op.results[0].type), extents))
        values.update(zip(op.results, new.results, strict=True))
    return [values[r] for r in function.results]
