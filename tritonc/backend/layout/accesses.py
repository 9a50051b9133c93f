"""The accesses of a kernel to memory, and in which layout each runs best."""

from collections.abc import Collection, Container, Hashable
from functools import cache
from math import gcd, prod

from tritonc.analysis import ragged
from tritonc.analysis.affine import Affinity
from tritonc.analysis.axis import axis_info
from tritonc.analysis.linear import Linear, number
from tritonc.analysis.records import places
from tritonc.analysis.values import closure, int_of, origin
from tritonc.backend.layout import layout_choice
from tritonc.backend.layout.split_reductions import reduced_axes
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import WARP_SIZE, Layout
from tritonc.ir.layouts.layout_ops import reshape
from tritonc.ir.layouts.shared_layout import BANK_BYTES
from tritonc.ir.rules import pointee
from tritonc.ir.types import Type, element, same_axes, scalar, shape
from tritonc.records import cached_property

_SUMS = ("addptr", "add", "sub", "sext", "zext", "assume_multiple", "broadcast")
_MOST = 200  # values looked at
LONG = 8  # neighbours in memory, than which it matters little how many more there are
SHARED = 4  # neighbours of one address, that a load may follow others into their layout


class Accesses:
    """What is known of the loads, stores and atomics of tiles of pointers; in some `blocks`, if
    they are given."""

    def __init__(self, kernel: Kernel, cfg: Cfg, warps: int,
                 blocks: Collection[Block] | None = None) -> None:
        self.cfg, self.warps, ops = cfg, warps, list(kernel.ops())
        self.infos, self.ragged = axis_info.analyze(kernel), ragged.may_be_ragged(kernel)
        self.masks: dict[Op, axis_info.AxisInfo | None] = {}
        self.windows, self.records = places(kernel, self.infos, blocks)
        for load, window in self.windows.items():
            if not window.aligned:  # aligned accesses bring it
                self.infos[load.operands[0]], self.masks[load] = window.info, window.guard
        self.operands, self.multiplied = _operand_loads(ops, True), _operand_loads(ops, False)
        self.copied = {op.operands[0].op for op in ops if op.name == "channel"}
        reductions = [op for op in ops if op.name in ("reduce", "reduce_with")]
        scans = [op for op in ops if op.name in ("scan", "scan_with")]
        self.reductions = [] if scans or any(op.name == "dot" for op in ops) else reductions
        self.widest = _widest(ops)
        self.scanned = {layout.size: layout for op in scans for layout in [self.scan_layout(op)]}
        self.of = cache(self._of)  # asked again and again, while layouts find their fixed point
        self.alone = cache(self._alone)

    @cached_property
    def staged(self) -> dict[Op, int]:
        """See `_staged_loads`."""
        return _staged_loads(self.cfg.kernel)

    @cached_property
    def overlapping(self) -> dict[Op, int]:
        """See `overlapping_loads`."""
        return overlapping_loads(self.cfg.kernel)

    def _of(self, op: Op) -> layout_choice.Access:
        """What is known of an operation's addresses and guard."""
        pointer = op.operands[0]
        guard = self.masks[op] if op in self.masks else ragged.edge(
            op, self.infos, self.ragged or ragged.too_fine(op, self.infos))
        one = op.name in ("atomic_rmw", "atomic_cas") and "wide" not in op.attributes
        size = scalar(pointee(pointer.type)).bytes
        return layout_choice.Access(shape(pointer.type), self.infos.get(pointer), guard, size,
                                    size if one else layout_choice.ACCESS_BYTES)

    def is_gathered(self, pointer: Value) -> bool:
        """Whether no two neighbours are known to be neighbours in memory."""
        info = self.infos.get(pointer)
        return info is None or max(info.contiguity) == 1

    def layout(self, op: Op, moved: Container[Op]) -> Layout:
        """The layout in which an access runs best; those that are `moved` have others."""
        info = self.infos.get(op.operands[0])
        if info is not None and max(info.contiguity) == 1 and max(info.constancy) >= SHARED and (
                wide := self.wide_layout(op, moved)) is not None:
            return wide
        return self.alone(op)

    def _alone(self, op: Op) -> Layout:
        """The same by what is known of the access alone."""
        access, gathered = self.of(op), self.is_gathered(op.operands[0])
        info, record = access.pointer, self.records.get(op)
        record = None if record is not None and record.axis < 0 else record
        first = record.axis if record else self.likely(op) if gathered else None
        run = record.run if record else self.packed(op, access)
        best = layout_choice.coalesced(access, self.warps, first, op in self.copied, run)
        if op.name == "load" and self.is_reduced(op, access.axis):
            best = layout_choice.folded(best, access.axis, access.element_bytes)
        if op in self.multiplied and info is not None and (
                info.contiguity[access.axis] >= access.shape[access.axis]):
            best = layout_choice.along_lines(best, access.axis, access.element_bytes)
        if op in self.overlapping:
            best = layout_choice.stacked(best, self.overlapping[op])
        if op in self.staged:
            best = layout_choice.transposed(access, self.warps, self.staged[op]) or best
        if best.size in self.scanned and op not in self.copied:  # nothing is exchanged then
            other = reshape(self.scanned[best.size], access.shape)
            best = other if access.share(other) >= access.share(best) else best
        return best

    def scan_layout(self, op: Op) -> Layout:
        """The layout in which a scan runs.  Neighbours that one access brings are a thread's, as of
        bytes whose runs are counted by integers."""
        t = op.results[0].type
        size = element(t).bytes
        return layout_choice.scanned(shape(t), op.attributes["axis"], self.warps,
                                     min(size, self.widest.get(prod(shape(t)), size)))

    def packed(self, op: Op, access: layout_choice.Access) -> int:
        """How many neighbours of an operand a thread loads by themselves, which begin anywhere in
        memory, so that it writes whole words to shared memory."""
        info = access.pointer
        if op not in self.operands or info is None or access.vector(access.axis) > 1:
            return 1
        return gcd(info.contiguity[access.axis], max(1, BANK_BYTES // access.element_bytes))

    def is_reduced(self, op: Op, axis: int) -> bool:
        """Whether tiles of a load's shape are reduced along this axis, and each time it runs."""
        loop = self.cfg.innermost.get(self.cfg.block_of[op])
        return any(
            shape(other.operands[0].type) == shape(op.result.type)
            and reduced_axes(other) == (axis,)
            and (loop is None or self.cfg.block_of[other] in loop) for other in self.reductions)

    def wide_layout(self, op: Op, moved: Container[Op]) -> Layout | None:
        """The layout of a wide access of a tile of that shape in the same block: of addresses that
        neighbours share, a thread loads each once, wherever it is."""
        for other in self.cfg.block_of[op].ops:
            if other.name in ("load", "store") and other not in moved \
                    and other not in self.staged and not self.is_gathered(other.operands[0]) \
                    and shape(other.operands[0].type) == shape(op.operands[0].type):
                return self.layout(other, moved)
        return None

    def likely(self, op: Op) -> int | None:
        """The axis along which the addresses are likely to go on for long; of several, the one that
        shared memory will have contiguous, or the last."""
        runs = _likely_runs(op.operands[0], self.infos)
        axes = [axis for axis, run in runs.items() if run >= min(LONG, max(runs.values()))]
        if not axes:
            return None
        return self.staged[op] if self.staged.get(op) in axes else max(axes)


def overlapping_loads(kernel: Kernel) -> dict[Op, int]:
    """Loads of rows of which another one in their block loads some too, rows of its tile or of the
    next; with the axis of the rows.  So it is with the taps of a filter."""
    affinity, found = Affinity(), dict[Op, int]()
    for block in kernel.blocks:
        before: dict[Hashable, list[tuple[Op, Linear]]] = {}
        for op in block.ops:
            form = affinity.of(op.operands[0]) if op.name == "load" else None
            if form is None or len(form.strides) < 2 or form.base is None:
                continue
            group = before.setdefault((form.base, form.strides, shape(op.result.type)), [])
            for other, offset in group:
                for axis, stride in enumerate(form.strides[:-1]):
                    rows = _multiple(form.offset - offset, stride)
                    if rows and abs(rows) < shape(op.result.type)[axis]:
                        found[op] = found[other] = axis
            group.append((op, form.offset))
    return found


def _multiple(distance: Linear, stride: Linear) -> int | None:
    """How often a distance has a stride in it, but for a number of elements."""
    rest = distance.constant_term
    if stride.constant is not None:
        return round(rest / stride.constant) if len(distance.terms) == (rest != 0) \
            and stride.constant else None
    times = (distance - number(rest)).divided(stride)
    return None if times is None else times.constant


def _widest(ops: list[Op]) -> dict[int, int]:
    """The bytes of the widest elements of memory that tiles of each size have."""
    found: dict[int, int] = {}
    for op in ops:
        if op.name in ("load", "store") and shape(op.operands[0].type):
            size, e = prod(shape(op.operands[0].type)), scalar(pointee(op.operands[0].type))
            found[size] = max(found.get(size, 0), e.bytes)
    return found


def _staged_loads(kernel: Kernel) -> dict[Op, int]:
    """Loads that a dot on CUDA cores alone reads, and that are transposed if K is contiguous.

    With each, the axis that will be contiguous there: the one that the dot does not reduce."""
    readers = uses(kernel)
    found = {}
    for op in kernel.ops():
        if op.name != "load" or not shape(op.result.type):
            continue
        value, axes = op.result, list(range(len(shape(op.result.type))))
        while len(readers.get(value, ())) == 1 and readers[value][0].name in ("trans", "reshape"):
            (moved,) = readers[value]
            if moved.name == "trans":
                axes = [axes[d] for d in moved.attributes["permutation"]]
            else:
                axes = _split_axes(value.type, moved.result.type, axes)
            value = moved.result
        if len(readers.get(value, ())) == 1:
            (dot,) = readers[value]
            if dot.name == "dot" and "instruction" not in dot.attributes and (
                    len(shape(value.type)) == 2 or scalar(value.type).bytes < BANK_BYTES):
                axis = axes[-2 if value is dot.operands[0] else -1]
                if axis >= 0:
                    found[op] = axis
    return found


def _operand_loads(ops: list[Op], tensor_cores: bool) -> set[Op]:
    """Loads of operands of products on tensor cores or on CUDA cores, which go to shared memory as
    they are."""
    return {load for dot in ops
            if dot.name == "dot" and ("instruction" in dot.attributes) is tensor_cores
            for value in dot.operands[:2]
            if (load := origin(value, ("trans", "reshape")).op) is not None and load.name == "load"}


def _split_axes(before: Type, after: Type, axes: list[int]) -> list[int]:
    """What `axes`, a number for each axis before a reshape, are after it; -1 where axes merge."""
    left, found = list(zip(shape(before), axes, strict=True)), []
    for extent in shape(after):
        while left and left[0][0] == 1:
            left.pop(0)
        if extent == 1 or not left:
            found.append(-1)
            continue
        n, axis = left.pop(0)
        found.append(axis if n % extent == 0 else -1)
        if n % extent == 0:
            left.insert(0, (n // extent, axis))
        else:
            return [-1] * len(shape(after))
    return found


def _likely_runs(pointer: Value, infos: axis_info.Infos) -> dict[int, int]:
    """The axes along which addresses are likely to go on, where along none they are known to, and
    for how many elements.

        b * K * P * Q + p * Q + q    with q = pixel % Q, p = pixel / Q % P, of neighbouring pixels

    mostly goes on by 1 from pixel to pixel, though no two are known to be neighbours in memory.
    This proves nothing: it chooses which elements neighbouring lanes get, where any choice is
    right.  A remainder by something that is not known goes on with its dividend, one by a number
    ends there; what goes on by a number has so many times fewer elements beside each other, as
    pixels of a convolution with stride 2 or weights whose taps are last, a quotient by a number so
    many times more; anything else that is no sum or move does not."""
    found: dict[int, int] = {}
    rank = len(shape(pointer.type))
    stack = [(pointer, tuple(range(rank)), WARP_SIZE, False)]
    for value, axes, most, rest in stack:  # which grows
        op, info = value.op, infos.get(value)
        if rest and info is not None and max(info.contiguity) > 1:
            for a, n in zip(axes, info.contiguity, strict=True):
                if n > 1 and a >= 0:
                    found[a] = max(found.get(a, 0), min(n, most))
            continue
        if op is None or len(stack) > _MOST:
            break
        if op.name in _SUMS:
            stack += [(v, axes, most, rest) for v in op.operands]
        elif op.name == "reshape":
            before, after = shape(op.operands[0].type), shape(op.result.type)
            if (places := same_axes(after, before)) is not None:
                stack.append((op.operands[0], tuple(-1 if d is None else axes[d] for d in places),
                              most, rest))
        elif op.name in ("mul", "shl", "sdiv", "udiv", "ashr", "lshr") and (
                step := int_of(origin(op.operands[1]))) is not None:
            step = step if op.name in ("mul", "sdiv", "udiv") else 1 << step
            if op.name not in ("mul", "shl"):  # where the rest goes on beside it
                stack.append((op.operands[0], axes, min(WARP_SIZE, most * step), rest))
            elif 0 < step <= most:
                stack.append((op.operands[0], axes, most // step, True))
        elif op.name in ("srem", "urem"):
            number = int_of(origin(op.operands[1]))
            stack.append((op.operands[0], axes, min(most, number or most), True))
    return found


def makes_operand(value: Value, readers: dict[Value, list[Op]]) -> bool:
    """Whether a product multiplies what is made of a tile."""
    made = closure([value], lambda v: [result for op in readers.get(v, ())
                                       if op.name not in ("dot", "phi") for result in op.results])
    return any(op.name == "dot" and v in op.operands[:2]
               for v in made for op in readers.get(v, ()))
