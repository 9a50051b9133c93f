"""tabulate_masks: comparisons that a small number decides are looked up in a word of bits.

Before:  body: %h = add (broadcast %p), (broadcast %r)      rows x columns; %r is 0, 1 or 2
               %m = and (broadcast %rows), (icmp %h <u %H)
               %n = and %m, (broadcast %columns)
After:   pre:  %t = (%p <u %H) | (%p + 1 <u %H) << 1 | (%p + 2 <u %H) << 2     rows
               %u = select %rows, %t, 0
         body: %c = select %columns, 1 << %r, 0             columns
               %n = icmp (and (broadcast %u), (broadcast %c)) != 0

A tap of a filter is one of few numbers, and whether a pixel and a tap meet inside of the image
follows from the two.  So what a pixel meets is a word of bits, made before the loop, and an
element's mask is one operation.  Where it is the pixels that move, as in the gradient of a filter,
the bits of taps are made before the loop, and each iteration makes the words of its few pixels.
Two comparisons, of a row and a column of the image, share a word
where the pairs of their numbers do; conditions of rows alone or columns alone clear whole words.

All other conditions of a mask remain.  Sums wrap as before, so the mask is the same for all
numbers.  After join_bounds, which leaves few comparisons.  Needs layouts and preheaders."""

from collections.abc import Iterable
from math import prod

from tritonc.analysis.axis import axis_info
from tritonc.analysis.facts import Facts
from tritonc.analysis.signs import Signs
from tritonc.analysis.values import conditions, defined_by, int_of, origin, sides, slice_of
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import I1, I32, Tile, Type, element, shape, with_element
from tritonc.records import NamedTuple

BITS = 32  # of a word
_SPREADS = ("splat", "broadcast")
_MOVES = (*_SPREADS, "reshape", "convert_layout")


def tabulate_masks(kernel: Kernel, context: Context) -> bool:
    """Look up the masks of loads and copies in innermost loops of kernels with products."""
    if not any(op.name in DOTS for op in kernel.ops()):
        return False
    cfg, facts = Cfg(kernel), Facts(kernel)
    infos = axis_info.analyze(kernel)
    mapping: dict[Value, Value] = {}
    for loop in cfg.loops:
        if loop.preheader is None:
            continue
        table = _Tables(loop, loop.preheader, facts, infos)
        for block in loop.blocks:
            if cfg.innermost[block] is loop:
                table.masks(block.ops, mapping)
        table.places = table.ahead
        table.masks(loop.preheader.ops, mapping)
    kernel.replace(mapping)
    return bool(mapping)


class _Lookup(NamedTuple):
    """A comparison of `places + number` with `end`, where `number` is one of `size` numbers.  One
    of the two moves in the loop: `late` if that is the places."""

    late: bool
    places: list[Value]  # of one type
    number: Value
    constant: int
    least: int
    size: int
    end: Value
    predicate: str


class _Tables:
    def __init__(self, loop: Loop, preheader: Block, facts: Facts, infos: axis_info.Infos) -> None:
        self.preheader, self.facts, self.infos = preheader, facts, infos
        self.words: dict[tuple[object, ...], Value] = {}
        self.signs = Signs()
        self.seen: set[Value] = set()
        self.places = {op: block for block in loop.blocks for op in block.ops}
        # What moves before the loop: iterations that are loaded ahead there.
        fixed = slice_of((v for op in self.places if op.name != "phi" for v in op.inputs()),
                         set(preheader.ops))
        self.ahead = {op: preheader for op in preheader.ops if op not in fixed}

    def masks(self, ops: Iterable[Op], mapping: dict[Value, Value]) -> None:
        for op in list(ops):
            if op.name in ("load", "async_copy") and op.guard is not None and op in self.places:
                self.mask(op.guard, mapping)

    def fixed(self, value: Value) -> bool:
        return value.op not in self.places

    def mask(self, value: Value, mapping: dict[Value, Value]) -> None:
        """Rewrite a mask, or the smaller ones of which it is made."""
        op = _root(value)
        if op is None or value in self.seen or self.fixed(value):
            return
        self.seen.add(value)
        found = list(dict.fromkeys(conditions(value)))
        info = self.infos.get(value)
        if info is not None and max(info.constancy) == 1 and self.looked_up(value, found, mapping):
            return  # a wide access wants one mask
        for condition in found:
            self.mask(origin(condition), mapping)

    def looked_up(self, value: Value, conditions: list[Value], mapping: dict[Value, Value]) -> bool:
        """Comparisons with few numbers as words of bits."""
        found = {c: lookup for c in conditions if (lookup := self.lookup(c)) is not None}
        if not found:
            return False
        first = next(iter(found.values()))
        late, t, kind = first.late, first.places[0].type, first.number.type
        pairs: dict[Value, _Lookup] = {}
        for c, lookup in found.items():  # those that share a word
            if (lookup.late, lookup.places[0].type, lookup.number.type) == (late, t, kind) \
                    and lookup.size * prod(
                        other.size for other in _numbers(pairs.values(), lookup)) <= BITS:
                pairs[c] = lookup
        rows = [s for c in conditions if c not in pairs and (late or self.fixed(_small(c)))
                and (s := _small(c)).type == with_element(t, I1)]
        columns = [s for c in conditions if (s := _small(c)) not in rows and c not in pairs
                   and s.type == with_element(kind, I1) and not (late and not self.fixed(s))]
        scalars = [s for c in conditions if not shape((s := _small(c)).type) and s not in columns]
        merged = {*rows, *columns, *scalars}
        rest = [c for c in conditions if c not in pairs and _small(c) not in merged]
        each, numbers = _registers(value.type), _numbers(pairs.values())
        made = _registers(t) * sum(n.size * 4 for n in numbers) if late else _registers(kind) * (
            2 + len(columns))
        if each * (len(pairs) + len(merged) - 1) <= made:
            return False
        if late:
            inputs = [*(n.number for n in numbers), *columns]
            key = kind, *inputs, *(n[3:] for n in numbers)
            if key not in self.words:
                self.words[key] = self.bit(self.before(inputs, value), kind, numbers, columns, [])
            bit = self.words[key]
            at = self.here(value)
            rows += [_spread(at, s, with_element(t, I1)) for s in scalars]
            word = self.made_word(at, t, pairs, numbers, rows)
        else:
            word = self.word(t, pairs, numbers, rows)
            at = self.here(value)
            bit = self.bit(at, kind, numbers, columns, scalars)
        whole = with_element(value.type, I32)
        both = at.value("and", _spread(at, word, whole), _spread(at, bit, whole))
        mask = at.value("icmp", both, at.constant(0, whole), predicate="ne")
        for c in rest:
            mask = at.value("and", mask, c)
        mapping[value] = mask
        return True

    def here(self, value: Value) -> Builder:
        """Before the operation that makes a mask."""
        op = value.op
        assert op is not None
        block = self.places[op]
        return Builder(block, block.ops.index(op), op.span)

    def lookup(self, condition: Value) -> _Lookup | None:
        """A comparison as one of fixed sums and a number of few."""
        op = defined_by(condition, "icmp")
        if op is None or element(op.operands[0].type) != I32 or self.fixed(condition):
            return None
        end = _small(op.operands[1])
        if (shape(end.type) and int_of(end) is None) or not self.fixed(end):
            return None
        constant, terms = 0, []
        for term in sides(op.operands[0], "add"):
            if (number := int_of(term)) is not None:
                constant += number
            else:
                terms.append(_small(term))
        fixed = [v for v in terms if self.fixed(v)]
        moving = [v for v in terms if not self.fixed(v)]
        for numbers, places in ((moving, fixed), (fixed, moving)):
            if len(numbers) != 1 or not places or any(v.type != places[0].type for v in places):
                continue
            least, greatest = self.interval(numbers[0])
            size = greatest - least + 1
            if 0 < size <= BITS:
                return _Lookup(numbers is fixed, places, numbers[0], constant, least, size, end,
                               op.attributes["predicate"])
        return None

    def interval(self, value: Value) -> tuple[int, int]:
        """The least and the greatest that a number can be."""
        sum_ = defined_by(value := origin(value, _MOVES), "add")
        least, greatest = self.facts.interval(value)
        if sum_ is not None and (by := int_of(origin(sum_.operands[1]))) is not None:
            low, high = self.interval(sum_.operands[0])
            return max(least, low + by), min(greatest, high + by)
        return 0 if least < 0 and self.signs.holds(value) else least, greatest

    def word(self, t: Type, pairs: dict[Value, _Lookup], numbers: list[_Lookup],
             rows: list[Value]) -> Value:
        """What fixed places meet: bit i + n * j + .. for the i-th first number, j-th second."""
        key = t, *rows, *((*p.places, p.constant, p.least, p.size, p.end, p.predicate,
                           numbers.index(n)) for p in pairs.values()
                          for n in numbers if n.number is p.number)
        if key not in self.words:
            inputs = [*(v for p in pairs.values() for v in (*p.places, p.end)), *rows]
            self.words[key] = self.made_word(self.before(inputs, next(iter(pairs))), t, pairs,
                                             numbers, rows)
        return self.words[key]

    def before(self, inputs: Iterable[Value], value: Value) -> Builder:
        """Before the loop, behind what it is made of."""
        ops = {*(v.op for v in inputs), *self.preheader.phis()}
        at = max((i + 1 for i, op in enumerate(self.preheader.ops) if op in ops), default=0)
        return Builder(self.preheader, at, value.op.span if value.op is not None else None)

    def made_word(self, build: Builder, t: Type, pairs: dict[Value, _Lookup],
                  numbers: list[_Lookup], rows: list[Value]) -> Value:
        word, zero = None, build.constant(0, t)

        def test(p: _Lookup, number: int) -> Value:
            index = build.joined("add", (build.constant(p.constant + number, t), *p.places))
            end = build.constant(n, t) if (n := int_of(p.end)) is not None else \
                _spread(build, p.end, t)
            return build.value("icmp", index, end, predicate=p.predicate)

        for number in numbers:
            own = [p for p in pairs.values() if p.number is number.number]
            bits = zero
            for i in range(number.size):
                one = build.joined("and", (test(p, number.least + i) for p in own))
                there = build.constant(1 << i * self.step(numbers, number), t) if word is None \
                    else build.value("shl", word, build.constant(
                        i * self.step(numbers, number), t))
                bits = build.value("or", bits, build.value("select", one, there, zero))
            word = bits
        assert word is not None
        for row in rows:
            word = build.value("select", row, word, zero)
        return word

    @staticmethod
    def step(numbers: list[_Lookup], number: _Lookup) -> int:
        return prod(n.size for n in numbers[:numbers.index(number)])

    def bit(self, at: Builder, t: Type, numbers: list[_Lookup], columns: list[Value],
            scalars: list[Value]) -> Value:
        """The bit of numbers, or 0 where a condition of their own does not hold."""
        index: Value | None = None
        for number in numbers:
            one = number.number
            if number.least:
                one = at.value("sub", one, at.constant(number.least, t))
            if index is None:
                index = one
            else:
                step = at.constant(self.step(numbers, number), t)
                index = at.value("add", index, at.value("mul", one, step))
        assert index is not None
        begin, none = at.constant(1, I32), at.constant(0, I32)
        for condition in scalars:
            begin = at.value("select", condition, begin, none)
        bit = at.value("shl", _spread(at, begin, t), index)
        for condition in columns:
            bit = at.value("select", condition, bit, at.constant(0, t))
        return bit


def _numbers(lookups: Iterable[_Lookup], but: _Lookup | None = None) -> list[_Lookup]:
    """One lookup for each number; `but` that of another one."""
    found = {p.number: p for p in lookups if but is None or p.number is not but.number}
    return list(found.values())


def _root(value: Value) -> Op | None:
    """The operation, if it makes a mask of conditions or a comparison."""
    op = value.op
    return op if op is not None and isinstance(value.type, Tile) and (
        op.name in ("and", "icmp") or (op.name == "cmpp" and value is op.results[0])) else None


def _small(value: Value) -> Value:
    """What a tile repeats."""
    value = origin(value, _SPREADS)
    op = defined_by(value, "reshape")  # one condition of several rows
    return value if op is None or shape(op.operands[0].type) else op.operands[0]


def _spread(build: Builder, value: Value, t: Type) -> Value:
    if value.type == t:
        return value
    return build.value("broadcast" if shape(value.type) else "splat", value, type=t)


def _registers(t: Type) -> int:
    """Elements of a thread."""
    return t.layout.registers if isinstance(t, Tile) and t.layout is not None else 1
