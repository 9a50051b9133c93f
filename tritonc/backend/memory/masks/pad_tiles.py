"""pad_tiles: tiles of any extents become tiles whose extents are powers of two.

Before:  %r = range {start = 0, stop = 48} : i32<48>       After:  %r = range {0, 64} : i32<64>
         %v = load %p : f32<48>                                    %in = icmp slt %r', 48 : i1<64>
         %s = reduce %v {kind = fadd} : f32                        @%in %v = load %p : f32<64>
                                                                   %z = select %in, %v, -0.0
                                                                   %s = reduce %z {kind = fadd}

Layouts are bits, so that everything from here on needs extents that are powers of two.  The
elements that are added, the *padding*, stand behind the others along each axis.  They are computed
with like the others, and no program can tell:

- what has an effect or may trap is guarded by `inside`, besides its own guard;
- a reduction reads its neutral element in the padding of the reduced axes, and a dot reads zero
  along k: for addition -0.0, since -0.0 + 0.0 would be 0.0; for fmin and fmax a NaN, which loses
  to every number, and is the result if there are only NaNs;
- a scan runs from the front, where the padding is not; one from the end is as a reduction;
- a function of the program has no neutral element: what it combines is combined with a bool that
  says whether there is an element;
- a promise (`assume_multiple`) about padded tiles is dropped: it was made of the others only.

A reshape keeps the row-major number of each element.  Where all axes but the first of each side are
powers of two, numbers stay what they are; axes that both sides begin or end with stay too:

    (6, 8) -> (3, 16)        padded (8, 8) -> (4, 16)         element 47 is the last on both sides
    (48,)  -> (16, 3)        padded (64,)  -> (16, 4)         element 3 is (1, 0), number 4

The second kind becomes a `gather`, unless a later one takes the axis apart again (`merged_axes`).
Loads say what padding holds: products need no `select` then."""

from collections.abc import Sequence
from math import prod

from tritonc.analysis.values import constant_of
from tritonc.backend.memory.masks.merged_axes import Shape, groups, merged_axes, padded, plain
from tritonc.ir import combiner, types
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import OUTPUT, READ, WRITE
from tritonc.ir.rules import neutral
from tritonc.records import NamedTuple
from tritonc.source import fail

MOST_ELEMENTS = 1 << 22  # of a padded tile; no GPU's registers hold so many


def pad_tiles(kernel: Kernel, context: Context) -> bool:
    """Pad every tile of the kernel.  Raises CompileError where a tile gets too large."""
    if all(legal(kernel, op) is None for op in kernel.ops()):
        return False
    _Padding(kernel).run()
    return True


def legal(kernel: Kernel, op: Op) -> str | None:
    """What holds afterwards, for the verifier: extents are powers of two."""
    found = {padded(types.shape(r.type)) == types.shape(r.type): r.type for r in op.results}
    return f"an extent of {found[False]} is not a power of two" if False in found else None


class _Filled(NamedTuple):
    """The padding along `axes` is known to hold `number`."""

    number: int | float
    axes: frozenset[int]


class _Padding:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.before = {r: types.shape(r.type) for op in kernel.ops() for r in op.results}
        self.merged = merged_axes(kernel)
        self.before |= self.merged
        self.first = Builder(Block("masks"))  # masks, for the start of the kernel
        self.masks: dict[tuple[Shape, Shape], Value] = {}
        self.filled: dict[Value, _Filled] = {}
        self.replaced: dict[Value, Value] = {}

    def run(self) -> None:
        for block in self.kernel.blocks:
            old, block.ops = block.ops, []
            build = Builder(block)
            for op in old:
                build.span = op.span
                self.pad(op, build)
        self.kernel.entry.ops[:0] = self.first.block.ops
        self.kernel.replace(self.replaced)

    def pad(self, op: Op, build: Builder) -> None:
        """The operation on padded tiles; it and what it needs go to the end of the block."""
        for result in op.results:
            self.enlarge(op, result)
        if op.name == "reshape":
            self.reshape(op, build)
            return
        if op.name == "assume_multiple" and self.is_padded(op.result):
            self.replaced[op.result] = op.operands[0]
            return
        if op.name == "range":
            start, last = op.attributes["start"], op.attributes["stop"] - 1
            op.attributes["stop"] = start + types.shape(op.result.type)[0]
            if op.attributes["stop"] > 1 << 31:  # the padding repeats the last number
                t = op.result.type
                numbers = build.value("range", start=0, stop=types.shape(t)[0])
                numbers = build.value("smin", numbers, build.constant(last - start, t))
                self.replaced[op.result] = build.value("add", numbers, build.constant(start, t))
                return
        elif op.name == "reduce":
            number = neutral(op.attributes["kind"], types.scalar(op.operands[0].type))
            op.operands[0] = self.fill(op.operands[0], op.attributes["axes"], number, build)
        elif op.name == "scan" and op.attributes.get("reverse"):
            axis, (x,) = op.attributes["axis"], op.operands
            number = neutral(op.attributes["kind"], types.scalar(x.type))
            op.operands[0] = self.fill(x, (axis,), number, build)
        elif op.name == "reduce_with" or (op.name == "scan_with" and op.attributes.get("reverse")):
            if self.with_presence(op, build):
                return
        elif op.name == "dot":
            rank = len(types.shape(op.result.type))
            depth = self.before[op.operands[0]][rank - 1]
            if depth != types.shape(op.operands[0].type)[rank - 1]:
                op.attributes["inner"] = (0, depth)  # the others add nothing
            if rank == 2 and self.is_padded(op.result):
                op.attributes["asked"] = self.before[op.result][1]  # nobody asks for others
            op.operands[0] = self.fill(op.operands[0], (rank - 1,), 0, build, any_zero=True)
            op.operands[1] = self.fill(op.operands[1], (rank - 2,), 0, build, any_zero=True)
            start = constant_of(op.operands[2])
            if op.result in self.merged and start is not None:
                op.operands[2] = build.constant(start, op.result.type)
        elif op.name == "take":  # an index of an element there
            axes = range(len(types.shape(op.result.type)))
            op.operands[1] = self.fill(op.operands[1], axes, 0, build)
        elif op.name == "histogram":
            axes = range(len(types.shape(op.operands[0].type)))
            op.operands[0] = self.fill(op.operands[0], axes, -1, build)
        elif self.needs_guard(op):
            self.guard(op, build)
            if op.name == "load" and not types.is_pointer(types.scalar(op.result.type)):
                op.attributes.setdefault("other", 0.0 if types.is_float(op.result.type) else 0)
        build.insert(op)
        self.propagate(op)

    def with_presence(self, op: Op, build: Builder) -> bool:
        """Combine whether there are elements, too, if the axis is padded: a function has no neutral
        element.  Whether it was done."""
        axis = op.attributes["axis"]
        extents = self.before[op.operands[0]]
        if padded(extents)[axis] == extents[axis]:
            return False
        there = self.inside(extents, (axis,))
        text = combiner.with_presence(op.attributes["function"])
        new = build.emit(op.name, there, *op.operands, **op.attributes | {"function": text})
        for old, result in zip(op.results, new.results[1:], strict=True):
            result.name = old.name
            self.before[result] = self.before[old]
            self.replaced[old] = result
        return True

    def enlarge(self, op: Op, result: Value) -> None:
        t = result.type
        if not isinstance(t, types.Tile):
            return
        extents = padded(self.before[result])
        if prod(extents) > MOST_ELEMENTS:
            raise fail("tile-too-large", op.span, f"a tile of {t} is padded to {extents}, which is "
                       f"more than {MOST_ELEMENTS} elements")
        result.type = types.Tile(t.element, extents, t.layout)

    def is_padded(self, value: Value) -> bool:
        return self.before.get(value, ()) != types.shape(value.type)

    # ---- masks

    def inside(self, extents: Shape, axes: Sequence[int] | None = None) -> Value:
        """The elements of a padded tile that are not padding along `axes` (None: all)."""
        whole = padded(extents)
        chosen = range(len(extents)) if axes is None else sorted(axes)
        wanted = tuple(axis for axis in chosen if whole[axis] != extents[axis])
        if (extents, wanted) not in self.masks:
            self.masks[extents, wanted] = self.first.joined("and", (
                self.inside_axis(extents[axis], axis, whole) for axis in wanted))
        return self.masks[extents, wanted]

    def inside_axis(self, extent: int, axis: int, whole: Shape) -> Value:
        b, n = self.first, whole[axis]
        test = b.value("icmp", b.value("range", start=0, stop=n),
                       b.constant(extent, types.make(types.I32, (n,))), predicate="slt")
        return b.along(test, axis, whole)

    def fill(self, value: Value, axes: Sequence[int], number: int | float, build: Builder,
             any_zero: bool = False) -> Value:
        """The value with `number` in the padding of `axes`; -0.0 may stand for 0 if `any_zero`."""
        extents = self.before.get(value, ())
        here = [axis for axis in axes if padded(extents)[axis] != extents[axis]]
        known = self.filled.get(value)
        if not here:
            return value
        if known is not None and known.axes.issuperset(here) and (
                repr(known.number) == repr(number) or (any_zero and known.number == 0)):
            return value
        rest = build.constant(number, value.type)
        return build.value("select", self.inside(extents, here), value, rest)

    def needs_guard(self, op: Op) -> bool:
        """It has an effect, or may trap; and it has padding."""
        info = op.info
        if not info.guardable or not any(self.is_padded(v) for v in op.operands):
            return False
        if info.may_trap:  # a guard of its own may have no value in the padding
            return op.guard is not None or not _uniform(op.operands[-1])
        return bool(info.effects & {READ, WRITE, OUTPUT})

    def guard(self, op: Op, build: Builder) -> None:
        """Let the operation take effect inside only."""
        largest = max(op.operands, key=lambda v: prod(types.shape(v.type)))
        inside = self.inside(self.before[largest])
        if op.guard is not None:
            own = _everywhere(build, op.guard, types.shape(largest.type))
            inside = build.value("and", own, inside)
        op.guard = inside

    # ---- what the padding is known to hold

    def propagate(self, op: Op) -> None:
        """Note it for the results of an operation."""
        source = self.filled.get(op.operands[0]) if op.operands else None
        if op.name == "load" and "other" in op.attributes and self.is_padded(op.result):
            axes = frozenset(range(len(types.shape(op.result.type))))
            self.filled[op.result] = _Filled(op.attributes["other"], axes)
        elif source is None:
            return
        elif op.name == "trans":
            order = op.attributes["permutation"]
            self.filled[op.result] = _Filled(source.number, frozenset(
                d for d, axis in enumerate(order) if axis in source.axes))
        elif op.name == "broadcast":
            ends = (types.shape(v.type) for v in (op.operands[0], op.result))
            same = frozenset(d for d, (a, b) in enumerate(zip(*ends, strict=True)) if a == b)
            self.filled[op.result] = _Filled(source.number, source.axes & same)
        elif op.name == "fpcast" and source.number == 0:
            self.filled[op.result] = source

    # ---- operations that change

    def reshape(self, op: Op, build: Builder) -> None:
        source, result = op.operands[0], op.result
        if source in self.merged or result in self.merged:
            build.insert(op)
            return
        before, after = self.before.get(source, ()), self.before[result]
        if keeps_numbers(before, after):
            build.insert(op)
            known = self.filled.get(source)
            axes = types.same_axes(before, after)
            if known is not None and axes is not None:
                self.filled[result] = _Filled(known.number, frozenset(
                    d for d, axis in enumerate(axes) if axis is None or axis in known.axes))
            return
        index = _padded_numbers(build, before, after)
        found = build.value("gather", source, index, named=result.name)
        self.before[found] = after
        self.replaced[result] = found


def _everywhere(build: Builder, guard: Value, whole: Shape) -> Value:
    """A guard in the shape of the operation's largest operand."""
    if types.shape(guard.type) == whole:
        return guard
    if not types.shape(guard.type):
        return build.value("splat", guard, type=types.make(types.I1, whole))
    aligned = (1,) * (len(whole) - len(types.shape(guard.type))) + types.shape(guard.type)
    return build.spread(guard, aligned, whole)


def _uniform(value: Value) -> bool:
    """One number in all elements, the padding's too."""
    op = value.op
    while op is not None and op.name in ("broadcast", "reshape") and prod(
            types.shape(op.operands[0].type)) == 1:
        op = op.operands[0].op
    return op is not None and op.name in ("constant", "splat")


# ---- reshapes


def keeps_numbers(before: Shape, after: Shape) -> bool:
    """Whether elements keep their row-major numbers, as far as axes are not the same, if padded.

    >>> keeps_numbers((6, 8), (3, 16)), keeps_numbers((48,), (16, 3)), keeps_numbers((48,), (1, 48))
    (True, False, True)
    >>> keeps_numbers((3, 5, 8), (3, 5, 2, 4)), keeps_numbers((3, 5), (15,))
    (True, False)
    """
    return all((plain(a) and plain(b)) or a == b for a, b in groups(before, after))


def _padded_numbers(build: Builder, before: Shape, after: Shape) -> Value:
    """For each element of the padded `after`: the row-major number, in the padded `before`, of the
    element of that number.  Padding takes any number that exists."""
    whole = padded(after)
    t = types.make(types.I32, whole)

    def times(value: Value, factor: int) -> Value:
        return build.value("mul", value, build.constant(factor, t)) if factor != 1 else value

    number = build.joined("add", (
        times(build.numbers(axis, whole), prod(after[axis + 1 :]))
        for axis, n in enumerate(whole) if n > 1))
    number = build.value("umin", number, build.constant(prod(after) - 1, t))

    def along(axis: int, n: int) -> Value:
        place = build.value("udiv", number, build.constant(prod(before[axis + 1 :]), t))
        if axis:
            place = build.value("urem", place, build.constant(n, t))
        return times(place, prod(padded(before[axis + 1 :])))

    return build.joined("add", (along(axis, n) for axis, n in enumerate(before) if n > 1))
