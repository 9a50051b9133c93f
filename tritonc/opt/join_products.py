"""join_products: products of every n-th element of rows, one for each remainder, are one product.

Before:  %e = load x + 2 * p : f16<64, 32>         After:  %x = load x + q : f16<64, 64>
         %o = load x + 2 * p + 1 : f16<64, 32>             %w = lo and hi by turns : f16<64, 128>
         %d = dot %e, %lo, %c                              %s = dot %x, %w, %c
         %s = dot %o, %hi, %d

Weights of four bits, two to a byte, are multiplied so, the low ones with the even columns and the
high ones with the odd ones.  Copies that run ahead of a product cannot bring every other element,
and each line of memory would be fetched twice; rows as memory has them they bring.  What the other
operands have in common is computed of both together.

Where addresses are made of a range times n, which becomes one of n times the length.
"""

from __future__ import annotations

from tritonc.analysis.affine import Affinity
from tritonc.analysis.facts import Facts, full
from tritonc.analysis.linear import number
from tritonc.analysis.pieces import source_axis
from tritonc.analysis.values import defined_by, int_of, is_uniform, is_zero, origin
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import READ
from tritonc.ir.types import I1, I32, Tile, element, is_float, shape

COUNTS = (2, 4, 8)  # of products
_TURNED = (1, 0)
_BELOW = ("slt", "sge", "ult", "uge")  # q / n < m where q < n m


def join_products(kernel: Kernel, context: Context) -> bool:
    """Join the products of each block that are added up."""
    changed, readers = False, uses(kernel)
    for block in kernel.blocks:
        for chain in _chains(block, readers):
            changed |= any(_join(kernel, block, chain, side, readers) for side in (0, 1))
    return changed


def _chains(block: Block, readers: dict[Value, list[Op]]) -> list[list[Op]]:
    """Products each of which nothing but the next one reads, which adds to it."""
    chains: list[list[Op]] = []
    for op in block.ops:
        if op.name == "dot" and len(shape(op.result.type)) == 2:
            before = [c for c in chains if c[-1].result is op.operands[2]
                      and readers[c[-1].result] == [op] and c[-1].attributes == op.attributes]
            if before:
                before[0].append(op)
            else:
                chains.append([op])
    return [chain for chain in chains if len(chain) in COUNTS]


def _join(kernel: Kernel, block: Block, chain: list[Op], side: int,
          readers: dict[Value, list[Op]]) -> bool:
    """Make one product of a chain whose operands on one side are every n-th element of rows, which
    nothing else reads."""
    n, turned = len(chain), [defined_by(dot.operands[side], "trans") is not None for dot in chain]
    loads = [load for dot in chain
             if (load := _load(dot.operands[side], block, readers)) is not None]
    if len(loads) < n or len(set(turned)) > 1 or len({(one.guard, one.result.type)
                                                      for one in loads}) > 1:
        return False
    axis = 1 - side if not turned[0] else side
    affinity = Affinity()
    forms = [form for one in loads if (form := affinity.of(one.operands[0])) is not None]
    if len(forms) < n or forms[0].strides[axis] != number(n) or any(
            (form - forms[0]).strides != (number(0),) * 2 or form.base is not forms[0].base
            for form in forms):
        return False
    begins = [(form - forms[0]).offset.constant for form in forms]
    known = sorted(begin for begin in begins if begin is not None)
    if known != [*range(known[0], known[0] + n)] or any(op.effects - {READ} for op in block.ops[
            min(map(block.ops.index, loads)):block.ops.index(chain[-1])]):
        return False
    order = [begins.index(begin) for begin in known]
    wide = _Wide(Builder(block, block.ops.index(chain[-1]), chain[-1].span), n, Facts(kernel))
    rows = wide.load(loads[order[0]], axis)
    if rows is None:
        return False
    if turned[0]:
        rows = wide.b.value("trans", rows, permutation=_TURNED)
    others = wide.by_turns([chain[i].operands[1 - side] for i in order], side)
    chain[-1].operands[:] = [*((others, rows) if side else (rows, others)), chain[0].operands[2]]
    return True


def _load(operand: Value, block: Block, readers: dict[Value, list[Op]]) -> Op | None:
    """The load of an operand, zero where it is masked, which is for this product alone."""
    turned = defined_by(operand, "trans")
    whole = turned.operands[0] if turned is not None else operand
    op = whole.op
    if any(len(readers[v]) > 1 for v in (operand, whole)):
        return None
    if op is not None and op.name == "psi":
        pairs = [*zip(op.operands[::2], op.operands[1::2], strict=True)]
        data = [(guard, v.op) for guard, v in pairs if not is_zero(origin(v))]
        if len(pairs) != 2 or len(data) != 1 or data[0][1] is None \
                or data[0][1].guard is not data[0][0] or data[0][0].op is None \
                or data[0][0].op.results[0] is not data[0][0]:
            return None
        op = data[0][1] if len(readers[data[0][1].result]) == 1 else None
    elif op is not None and op.guard is not None:
        return None
    return op if op is not None and op.name == "load" and op in block.ops \
        and isinstance(op.result.type, Tile) and not op.attributes.get("volatile") else None


class _Wide:
    """Makes tiles of n times as many elements along an axis."""

    def __init__(self, b: Builder, n: int, facts: Facts) -> None:
        self.b, self.n, self.facts = b, n, facts
        self.indices = set[Value]()  # of which n times, too, is an index: that does not wrap

    def type_of(self, value: Value, axis: int) -> Tile:
        extents = shape(value.type)
        return Tile(element(value.type), tuple(e * self.n if d == axis else e
                                               for d, e in enumerate(extents)))

    def load(self, load: Op, axis: int) -> Value | None:
        """What lies at the load's address and at the n - 1 places behind it, zero where masked."""
        pointer = self.filled(load.operands[0], axis)
        if pointer is None:
            return None
        if load.guard is None or load.guard.op is None:
            return self.b.value("load", pointer, **load.attributes)
        taken = self.b.emit("cmpp", self.repeated(load.guard.op.operands[0], axis)).results
        rows = self.b.value("load", pointer, guard=taken[0], **load.attributes)
        rows.name = load.result.name
        return self.b.value("psi", taken[0], rows, taken[1], self.b.constant(0.0 if is_float(
            element(rows.type)) else 0, rows.type))

    def repeated(self, value: Value, axis: int) -> Value:
        """Each element n times."""
        op, to = value.op, self.type_of(value, axis)
        if op is not None and op.name in ("splat", "constant"):
            return self.b.value(op.name, *op.operands, type=to, **op.attributes)
        if op is not None and op.name in ("broadcast", "reshape"):
            source, before = source_axis(op, axis), op.operands[0]
            if source is not None:
                if shape(before.type)[source] > 1:
                    before = self.repeated(before, source)
                return self.b.value(op.name, before, type=to)
        if op is not None and op.name == "icmp" and op.attributes["predicate"] in _BELOW \
                and is_uniform(op.operands[1]) and self.fits(op.operands[1]) and (
                    origin(op.operands[0]) in self.indices or self.fits(op.operands[0])) and (
                    x := self.filled(op.operands[0], axis, True)):
            limit = self.scaled(self.repeated(op.operands[1], axis))
            return self.b.value("icmp", x, limit, **op.attributes)
        if op is not None and op.info.elementwise and op.pure and len(op.results) == 1:
            return self.b.value(op.name, *(self.repeated(v, axis) for v in op.operands),
                                type=to, **op.attributes)
        extents = shape(value.type)
        at = axis + 1
        wide = self.b.spread(value, (*extents[:at], 1, *extents[at:]),
                             (*extents[:at], self.n, *extents[at:]))
        return self.b.value("reshape", wide, type=to)

    def fits(self, value: Value) -> bool:
        """Whether n times the value, and what lies up to the next, are numbers of its type."""
        (least, most), bounds = self.facts.interval(value), full(element(value.type).bits)
        return bounds[0] <= self.n * least and self.n * most + self.n - 1 <= bounds[1]

    def scaled(self, value: Value) -> Value:
        """n times the value."""
        if (op := defined_by(value, "splat")) is not None:
            return self.b.value("splat", self.scaled(op.operands[0]), type=value.type)
        return self.b.value("mul", value, self.b.constant(self.n, value.type))

    def filled(self, value: Value, axis: int, scale: bool = False) -> Value | None:
        """Of numbers n apart, or of n times the numbers with `scale`, each and the n - 1 behind it;
        None where they are not seen to be so."""
        op, to = value.op, self.type_of(value, axis)
        if op is None:
            return None
        if op.name == "range" and scale:
            return self.b.value("range", type=to, start=self.n * op.attributes["start"],
                                stop=self.n * op.attributes["stop"])
        if op.name == "mul" and not scale and int_of(origin(op.operands[1])) == self.n:
            self.indices.add(origin(op.operands[0]))
            return self.filled(op.operands[0], axis, True)
        if op.name in ("broadcast", "reshape"):
            source = source_axis(op, axis)
            made = None if source is None else self.filled(op.operands[0], source, scale)
            return None if made is None else self.b.value(op.name, made, type=to)
        same = [self.is_same(v, axis) for v in op.operands]
        if op.name not in ("add", "addptr") or same.count(True) != 1:
            return None
        parts = [self.repeated(v, axis) if one else self.filled(v, axis, scale)
                 for v, one in zip(op.operands, same, strict=True)]
        known = [self.scaled(v) if scale and one else v
                 for v, one in zip(parts, same, strict=True) if v is not None]
        return self.b.value(op.name, *known) if len(known) == 2 else None

    def is_same(self, value: Value, axis: int) -> bool:
        """Whether all elements along an axis are seen to be one."""
        op = value.op
        if shape(value.type)[axis] == 1 or is_uniform(value):
            return True
        if op is not None and op.name in ("broadcast", "reshape"):
            source = source_axis(op, axis)
            return source is not None and self.is_same(op.operands[0], source)
        return op is not None and op.info.elementwise and bool(op.operands) and all(
            self.is_same(v, axis) for v in op.operands)

    def by_turns(self, values: list[Value], axis: int) -> Value:
        """A tile of the tiles' elements along the axis, one of each after the other; what makes
        them alike makes it."""
        op, to = values[0].op, self.type_of(values[0], axis)
        if all(v is values[0] for v in values):
            return self.repeated(values[0], axis)
        if op is not None and op.name == "trans" and all(defined_by(v, "trans") for v in values):
            return self.b.value("trans", self.by_turns(
                [v.op.operands[0] for v in values if v.op is not None], 1 - axis),
                permutation=_TURNED)
        ops = [v.op for v in values if v.op is not None and op is not None and v.op.name == op.name
               and v.op.attributes == op.attributes and v.op.guard is None
               and [o.type for o in v.op.operands] == [o.type for o in op.operands]]
        if op is not None and len(ops) == len(values) and op.info.elementwise and op.pure \
                and op.operands and len(op.results) == 1:
            return self.b.value(op.name, *(self.by_turns([*parts], axis) for parts in zip(
                *(one.operands for one in ops), strict=True)), type=to, **op.attributes)
        extents = shape(to)
        extents = (*extents[:axis], extents[axis] // self.n, self.n, *extents[axis + 1:])
        turn = self.b.value("range", type=Tile(I32, (self.n,)), start=0, stop=self.n)
        turn = self.b.value("reshape", turn, type=Tile(I32, tuple(
            self.n if d == axis + 1 else 1 for d in range(3))))
        found: Value | None = None
        for i, value in reversed([*enumerate(values)]):
            part = self.b.spread(value, tuple(
                1 if d == axis + 1 else e for d, e in enumerate(extents)), extents)
            if found is not None:
                own = self.b.value("icmp", turn, self.b.constant(i, turn.type), predicate="eq")
                own = self.b.value("broadcast", own, type=Tile(I1, extents))
                part = self.b.value("select", own, part, found)
            found = part
        assert found is not None
        return self.b.value("reshape", found, type=to)
