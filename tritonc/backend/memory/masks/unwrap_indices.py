"""unwrap_indices: indices that wrap or clamp past an end become plain ones, under a mask.

Before:  %r = srem %i, %M               After:  %m = icmp %i < %M
         %a = load (p + %r * K)                 @%m %a = load (p + %i * K)
         @(%i < %M) store %q, (.. %a)           @(%i < %M) store %q, (.. %a)

A source that has no mask for its rows keeps them inside by `i % M`, by `min(i, M - 1)` or by
`i < M ? i : 0`, and throws away what it computes of the rows past the end: the store has the mask.
Elements of a load that no store needs may be anything, zeros too; of the others, the index is `i`
itself.  So the rows are again so many strides apart, as wide accesses and TMA want them.

Which elements of a tile anybody needs is found backwards from the stores' masks: through
elementwise operations, shapes and loops, a product's rows to those of its left operand, its columns
to those of the right one.  `i` must not be negative: that is proved, or assumed and tested by
`specialize`.

Needs affine indices; must come before specialize."""

from collections.abc import Hashable, Iterable

from tritonc.analysis import affine
from tritonc.analysis.affine import Affinity, Mask
from tritonc.analysis.linear import Linear, number
from tritonc.analysis.signs import Needs, Signs, known_signs
from tritonc.analysis.values import axes_before, origin
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import I1, element, is_float, is_int, make, shape

# Elements along an axis that are fewer than a polynomial.
Bound = tuple[int, Hashable]
Demand = frozenset[Bound]

_INSIDE = {"srem": "slt", "urem": "ult", "smin": "sle", "umin": "ule"}
_ARITHMETIC = ("addptr", "add", "sub", "mul", "sext", "zext", "truncate", "assume_multiple")
_SHAPES = ("reshape", "broadcast", "trans")


def unwrap_indices(kernel: Kernel, context: Context) -> bool:
    """Unwrap where no index is negative."""
    changed = False
    if wrapping(kernel):
        cfg = Cfg(kernel)
        for block in cfg.order:
            if any(op.name == "load" for op in block.ops):
                changed |= unwrap(kernel, known_signs(kernel, cfg, block), [block]) is not None
    return changed


def unwrap(kernel: Kernel, signs: Signs, blocks: list[Block]) -> Needs | None:
    """Unwrap the indices of loads in `blocks`, of a kernel where some may wrap.  What must not be
    negative for it to be right; None if there is nothing to unwrap."""
    affinity = Affinity(signs=signs)
    demand = demand_of(kernel, affinity)
    found: Needs | None = None
    for block in blocks:
        for op in list(block.ops):
            wanted = demand.get(op.result) if op.name == "load" else None
            if wanted:
                needs = _Unwrapping(kernel, block, op, wanted, affinity).run()
                if needs is not None:
                    found = {**(found or {}), **needs}
    return found


def wrapping(kernel: Kernel) -> bool:
    """Whether a tile of integers may be one of indices that wrap."""
    return any(op.name in (*_INSIDE, "select") and is_int(op.result.type) and shape(op.result.type)
               for op in kernel.ops())


# ---- which elements are needed


def _values(bound: Bound) -> set[Value]:
    """What a bound is computed of."""
    assert isinstance(bound[1], frozenset)
    return {value for values, _ in bound[1] for value, _ in values}


def bounds_of(mask: Mask | None) -> Demand:
    """The bounds of a mask, of which any are enough; conditions say nothing."""
    return _keys(mask.bounds if mask else ())


def _keys(bounds: Iterable[affine.Bound]) -> Demand:
    return frozenset((b.axis, (b.limit - b.start).key) for b in bounds)


def mark_unread(kernel: Kernel) -> None:
    """Note at loads of products' operands along which axis nobody reads what a mask leaves out."""
    affinity = Affinity()
    demand = demand_of(kernel, affinity)
    operands = [v for op in kernel.ops() if op.name == "dot" for v in op.operands[:2]]
    for load in {origin(v, ("trans", "convert_layout")).op for v in operands}:
        wanted = demand.get(load.result) if load is not None and load.name == "load" else None
        if load is None or not wanted:
            continue
        own = bounds_of(affinity.mask(load.guard, len(shape(load.result.type))))
        for axis in {axis for axis, _ in own & wanted}:
            if all(bound in wanted for bound in own if bound[0] == axis):
                load.attributes["unread"] = axis


def demand_of(kernel: Kernel, affinity: Affinity) -> dict[Value, Demand]:
    """Bounds of the elements of each tile that are needed: what holds of all uses.

    All start without a use; each round lowers what an operation asks, until none changes."""
    found: dict[Value, Demand] = {}
    inside = {loop.header: {v for op in loop.ops() for v in op.results}
              for loop in Cfg(kernel).loops}
    changes = {phi: inside[header] for header in inside for phi in header.phis()}
    pending = list(kernel.ops())
    waiting = set(pending)
    while pending:
        op = pending.pop()
        waiting.discard(op)
        for value, wanted in _asks(op, found, affinity):
            if not shape(value.type):
                wanted = frozenset()
            elif op in changes:  # the iteration before has other bounds
                wanted = frozenset(b for b in wanted if changes[op].isdisjoint(_values(b)))
            old = found.get(value)
            new = wanted if old is None else old & wanted
            if new != old:
                found[value] = new
                if value.op is not None and value.op not in waiting:
                    pending.append(value.op)
                    waiting.add(value.op)
    return found


def _asks(op: Op, found: dict[Value, Demand], affinity: Affinity) -> list[tuple[Value, Demand]]:
    """What an operation needs of each operand, and of its guard; nothing if nobody reads it."""
    nothing: Demand = frozenset()
    if op.name in ("store", "atomic_rmw") and len(op.operands) == 2:
        bounds = _keys(affinity.parts(op.guard, len(shape(op.operands[0].type)))[0])
        guards = [(op.guard, nothing)] if op.guard is not None else []
        unread = not op.results or op.result not in found
        return [(op.operands[0], nothing), (op.operands[1], bounds if unread else nothing), *guards]
    info = op.info
    read = [found[r] for r in op.results if r in found]
    if not read and info.pure:
        return []
    if len(op.results) != 1 or op.guard is not None or not read:
        return [(v, nothing) for v in op.inputs()]
    (wanted,) = read
    if op.name == "convert_layout":
        return [(op.operands[0], wanted)]
    if op.name == "dot" and len(shape(op.result.type)) == 2:
        rows = frozenset(b for b in wanted if b[0] == 0)
        columns = frozenset(b for b in wanted if b[0] == 1)
        return [(op.operands[0], rows), (op.operands[1], columns), (op.operands[2], wanted)]
    if op.name == "select" and shape(op.operands[0].type):  # where the condition holds
        mask = affinity.mask(op.operands[0], len(shape(op.result.type)))
        return [(op.operands[0], wanted), (op.operands[1], wanted | bounds_of(mask)),
                (op.operands[2], wanted)]
    if op.name in _SHAPES or op.name == "reduce":
        return [(op.operands[0], _mapped(op, wanted))]
    if op.name == "phi" or (info.elementwise and not info.may_trap):
        return [(v, wanted) for v in op.operands]
    return [(v, nothing) for v in op.inputs()]


def _mapped(op: Op, wanted: Demand) -> Demand:
    """Bounds of the result as bounds of the operand."""
    axes = {after: before for before, after in enumerate(axes_after(op)) if after is not None}
    return frozenset((axes[axis], key) for axis, key in wanted if axis in axes)


def axes_after(op: Op) -> list[int | None]:
    """For each axis of the operand of an operation that moves elements, the axis of the result."""
    before, after = shape(op.operands[0].type), shape(op.result.type)
    if op.name == "reduce":
        gone = op.attributes["axes"]
        if len(before) == len(after):
            return [None if axis in gone else axis for axis in range(len(before))]
        kept = [axis for axis in range(len(before)) if axis not in gone]
        return [kept.index(axis) if axis in kept else None for axis in range(len(before))]
    places = axes_before(op) or []
    return [places.index(axis) if axis in places else None for axis in range(len(before))]


# ---- unwrapping


class _Unwrapping:
    """The rewriting of one load's address."""

    def __init__(self, kernel: Kernel, block: Block, load: Op, wanted: Demand, affinity: Affinity
                 ) -> None:
        self.kernel, self.block, self.load, self.wanted = kernel, block, load, wanted
        self.affinity = affinity
        self.home = {op: b for b in kernel.blocks for op in b.ops}
        self.needs: Needs = {}
        self.masks: list[Value] = []

    def run(self) -> Needs | None:
        pointer = self.load.operands[0]
        axes: list[int | None] = list(range(len(shape(pointer.type))))
        new = self.address(pointer, axes)
        if new is pointer:
            return None
        at = self.block.ops.index(self.load)
        guard = self.load.guard
        for mask in self.masks:
            if guard is not None:
                both = make_op("and", [guard, mask], span=self.load.span)
                self.block.ops.insert(at, both)
                at, mask = at + 1, both.result
            guard = mask
        self.load.operands[0], self.load.guard = new, guard
        self.load.attributes.setdefault("other", 0.0 if is_float(self.load.result.type) else 0)
        return self.needs

    def address(self, value: Value, axes: list[int | None]) -> Value:
        """The value with plain indices; `axes`: which axis of the load each of its axes becomes."""
        op = value.op
        if op is None or not shape(value.type):
            return value
        index = self.unwrapped(op, axes)
        if index is not None:
            return index
        if op.name in _SHAPES:
            above = [axes[after] if after is not None else None for after in axes_after(op)]
            operands = [self.address(op.operands[0], above)]
        elif op.name in _ARITHMETIC and op.guard is None:
            operands = [self.address(v, axes) for v in op.operands]
        else:
            return value
        if all(a is b for a, b in zip(operands, op.operands, strict=True)):
            return value
        new = Op(op.name, operands, dict(op.attributes), (op.result.type,), None, op.span)
        new.result.name = op.result.name
        return self.behind(op, [new])

    def behind(self, op: Op, new: list[Op]) -> Value:
        """Put operations behind another one; the result of the last."""
        block = self.home[op]
        at = block.ops.index(op) + 1
        block.ops[at:at] = new
        self.home.update(dict.fromkeys(new, block))
        return new[-1].result

    def unwrapped(self, op: Op, axes: list[int | None]) -> Value | None:
        """The plain index, if it is the same where the load is needed, and not negative."""
        plain, limit = _plain(op, self.affinity)
        form = self.affinity.of(plain) if plain is not None else None
        if plain is None or limit is None or form is None:
            return None
        moving = [axis for axis, stride in enumerate(form.strides) if stride.terms]
        if len(moving) != 1 or form.strides[moving[0]].constant != 1:
            return None
        axis = axes[moving[0]]
        if axis is None or (axis, (limit - form.offset).key) not in self.wanted:
            return None
        needs = self.affinity.signs.needs(plain)
        if needs is None:
            return None
        self.needs.update(needs)
        self.masks.append(self.mask(op, plain, limit, axis))
        return plain

    def mask(self, op: Op, plain: Value, limit: Linear, axis: int) -> Value:
        """Whether the index is inside, in the shape of the load."""
        extents = shape(self.load.operands[0].type)
        new: list[Op] = []
        if op.name == "select":
            inside = op.operands[0]
        else:
            (end,) = [v for v in op.operands if v is not plain]
            predicate = _INSIDE[op.name]
            (value, n), *others = limit.terms or (((), 0),)
            if predicate == "sle" and not others and len(value) == n == 1 \
                    and value[0].type == element(end.type):
                new.append(make_op("splat", [value[0]], end.type, span=op.span))
                end, predicate = new[0].result, "slt"  # `i < M` says more than `i <= M - 1`
            new.append(make_op("icmp", [plain, end], span=op.span, predicate=predicate))
            inside = new[-1].result
        thin = tuple(n if d == axis else 1 for d, n in enumerate(extents))
        for name, t in (("reshape", thin), ("broadcast", extents)):
            if shape(inside.type) != t:
                new.append(make_op(name, [inside], make(I1, t), span=op.span))
                inside = new[-1].result
        return self.behind(op, new) if new else inside


def _plain(op: Op, affinity: Affinity) -> tuple[Value | None, Linear | None]:
    """The index that an operation wraps or clamps, and the limit below which it is the result."""
    if op.name in ("srem", "urem", "smin", "umin"):
        for plain, other in (op.operands, op.operands[::-1]):
            end = affinity.of(other)
            if end is not None and end.uniform:
                more = number(1) if op.name in ("smin", "umin") else number(0)
                return plain, end.offset + more
            if op.name in ("srem", "urem"):
                break
    if op.name == "select" and op.operands[0].op is not None and op.operands[0].op.name == "icmp":
        bound = affinity.bound(op.operands[0].op)
        if bound is not None:
            form = affinity.of(op.operands[1])
            if form is not None and form.base is None and not (form.offset - bound.start).terms:
                return op.operands[1], bound.limit
    return None, None
