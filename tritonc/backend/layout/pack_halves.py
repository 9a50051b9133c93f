"""pack_halves: neighbours of small integers share a register, and one instruction computes both.

Before:  %x = zext %b : i32<8, 128>             After:  %p = pack (zext %b : i16) : i32<8, 64>
         %s = add %x, %y                                %t = add %p, %q
         %m = smax %s, %z                               %n = umax_halves %t, %r
         %c = truncate %m : i8<8, 128>                  %c = truncate (unpack %n) : i8<8, 128>

The word of two integers a and b is a + 65536 b, modulo 2**32.  Sums, differences and products by a
number are those of words, whatever the signs, for they are linear.  All else needs the halves as
they are, a and b from 0 to 65535: where bounds are known that 16 bits hold, a bias makes them so.
Minima and maxima, masks, shifts to the right, and the way back to elements are such.

The truth of a comparison is the highest bit of a half, whatever stands below it: a - b + 0x8000 has
it where a >= b, for numbers that are less than 0x8000 apart.

Neighbours are pairs of a thread's registers along the last axis, as wide accesses leave them.  What
is connected is packed as a whole, where that takes fewer instructions (`gain`).  After all passes
that read elementwise operations by their form.
"""

from __future__ import annotations

from collections import defaultdict

from tritonc.analysis.facts import Facts, Interval
from tritonc.analysis.values import constant_of, int_of, origin
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import ROWS
from tritonc.ir.types import I1, I8, I16, I32, Tile, Type, scalar, with_element

HALF = 1 << 16
TWICE = HALF + 1  # times a number: the word that has it in both halves
TRUE = HALF >> 1
BYTE = 256  # a bias is a multiple of it, so that the lowest byte stays as it is
_SUMS = ("add", "sub")
_EXTREMES = ("smin", "smax", "umin", "umax")
_MASKS = ("and", "or", "xor")
_BY_NUMBER = ("mul", "shl", "lshr", "ashr")
_LINEAR = (*_SUMS, "mul", "shl", "phi")
_CASTS = ("zext", "sext", "truncate")
_UNIFORM = ("splat", "broadcast", "reshape")


def pack_halves(kernel: Kernel, context: Context) -> bool:
    """Compute in pairs what is known to fit."""
    if not any(_pairs(op.results[0]) for op in kernel.ops() if op.name in ("zext", "sext")):
        return False
    candidates = _Candidates(kernel, "halves" in context.target.features)
    packed = {op for group in candidates.groups() if candidates.gain(group) > 0 for op in group}
    if packed:
        _Rewriter(candidates, packed).run()
    return bool(packed)


def _pairs(value: Value) -> bool:
    """Whether a thread holds neighbours of a tile of integers side by side."""
    t = value.type
    return isinstance(t, Tile) and t.element in (I1, I8, I16, I32) and t.layout is not None \
        and t.layout.register[:1] == (1,) and t.shape[-1] > 1


def _uniform(value: Value) -> Value | None:
    """The scalar, or the constant, that all elements of a tile are."""
    found = origin(value, _UNIFORM)
    return found if constant_of(found) is not None or not isinstance(found.type, Tile) else None


def _bias(least: int) -> int:
    return -(least // BYTE * BYTE) if least < 0 else 0


def _hull(spans: list[Interval]) -> Interval:
    return min(low for low, _ in spans), max(high for _, high in spans)


def _narrow(bounds: Interval) -> bool:
    """Whether 16 bits hold such a number, with its bias."""
    return bounds[1] + _bias(bounds[0]) < HALF


def _unsigned(op: Op) -> bool:
    """Whether the operation reads a narrow operand as a number without sign."""
    return op.name in ("zext", "umin", "umax") or (
        op.name == "icmp" and op.attributes["predicate"][0] != "s")


class _Candidates:
    """Which operations can be computed in pairs."""

    def __init__(self, kernel: Kernel, extremes: bool) -> None:
        self.kernel, self.facts, self.readers = kernel, Facts(kernel), uses(kernel)
        self.extremes = extremes
        self.found = {op: None for op in kernel.ops() if self._possible(op)}
        while out := [op for op in self.found if not self._fits(op)]:
            for op in out:
                del self.found[op]

    def _possible(self, op: Op) -> bool:
        """Whether the operation is of a kind that pairs have."""
        if len(op.results) != 1 or not _pairs(op.result) or op.attributes.get("piecewise"):
            return False
        truth = scalar(op.result.type) == I1
        if op.name == "icmp":
            return _pairs(op.operands[0]) and op.attributes.get("vector", 1) == 1 and scalar(
                op.operands[0].type) != I1
        if truth:
            return op.name in _MASKS
        if op.name in ("phi", "select"):
            return True
        if op.name in _CASTS:
            return _pairs(op.operands[0]) and (op.name, scalar(op.operands[0].type)) != ("sext", I1)
        if op.name in _EXTREMES:
            return self.extremes
        if op.name in _BY_NUMBER:
            number = int_of(op.operands[1])
            return scalar(op.result.type) == I32 and number is not None and (
                op.name == "mul" or 0 <= number <= 8)
        return op.name in (*_SUMS, *_MASKS) and scalar(op.result.type) == I32

    def bounds(self, value: Value, unsigned: bool = False) -> Interval:
        """The least and the greatest number in a word of the value; of one that has no word yet, if
        it is read with or without a sign."""
        op, (low, high) = value.op, self.facts.interval(value)
        if op is not None and op in self.found:
            if op.name == "truncate":
                return self.bounds(op.operands[0])
            unsigned = scalar(value.type) != I32 and self.signless(op)
        if low >= 0 or not unsigned:
            return low, high
        return 0, (1 << scalar(value.type).bits) - 1

    def signless(self, op: Op, *seen: Op) -> bool:
        """Whether narrow results are numbers without sign: of what chooses, as what it chooses."""
        if op.name == "truncate":
            return self.bounds(op.operands[0])[0] >= 0
        return _unsigned(op) or (op.name in ("phi", "select") and any(
            self.signless(v.op, op, *seen) for v in self.read(op)
            if v.op is not None and v.op in self.found and v.op not in (op, *seen)))

    def read(self, op: Op) -> list[Value]:
        """The operands of whose numbers there must be words."""
        return [v for v in op.operands[: 1 if op.name in _BY_NUMBER else None]
                if scalar(v.type) != I1]

    def span(self, op: Op, value: Value) -> Interval:
        """The bounds of an operand.  A comparison with a scalar needs of that no more than that it
        is beyond the other operand."""
        found = self.bounds(value, self.signless(op))
        if op.name != "icmp" or _narrow(found) or _uniform(value) is None:
            return found
        others = [self.bounds(v, self.signless(op)) for v in op.operands if v is not value]
        if not others or (found[0] < 0 and _unsigned(op)):
            return found
        low, high = others[0][0] - 1, others[0][1] + 1
        return min(max(found[0], low), high), max(min(found[1], high), low)

    def leaves(self, op: Op) -> list[Value]:
        """The operands that others make, element by element."""
        return [v for v in self.read(op) if v.op not in self.found and _uniform(v) is None]

    def _fits(self, op: Op) -> bool:
        """Whether there are words of all operands, with bounds as the operation needs them, and
        elements where they are read."""
        leaves, spans = self.leaves(op), [self.span(op, v) for v in self.read(op)]
        if any(not _pairs(v) or op.name == "phi" or v.op is None
               or v.op.attributes.get("piecewise") for v in leaves):
            return False
        if any(scalar(v.type) == I1 and v.op not in self.found and int_of(origin(v)) is None
               for v in op.operands):
            return False
        if not all(_narrow(s) for v, s in zip(self.read(op), spans, strict=True)
                   if v in leaves or op.name not in _LINEAR) or not self._suit(op, spans):
            return False
        readers = self.readers.get(op.result, [])
        apart = [reader for reader in readers if reader not in self.found]
        if op.name == "truncate" and not self._whole(op) and (
                len(apart) < len(readers) or (scalar(op.result.type) == I16 and spans[0][0] < 0)):
            return False
        return not apart or (scalar(op.result.type) != I1 and _narrow(self.bounds(op.result)))

    def _suit(self, op: Op, spans: list[Interval]) -> bool:
        """Whether the bounds of operands are as the operation needs them."""
        if not spans:
            return True
        low, high = _hull(spans)
        unsigned, kind = self.signless(op), scalar(self.read(op)[0].type)
        if low < 0 and (op.name in (*_MASKS, "lshr") or unsigned):
            return False
        if kind != I32 and not unsigned and high >= 1 << kind.bits - 1 and op.name in (
                "sext", "smin", "smax", "phi", "select", "icmp"):
            return False
        if op.name == "icmp":
            return high - low < HALF >> 1 and (
                op.attributes["predicate"] not in ("eq", "ne") or high + _bias(low) < HALF >> 1)
        return op.name not in (*_EXTREMES, "select") or _narrow((low, high))

    def _whole(self, op: Op) -> bool:
        """Whether a truncation keeps its numbers, with or without a sign."""
        low, high = self.bounds(op.operands[0])
        bits = scalar(op.result.type).bits
        return (low >= 0 and high < 1 << bits) or (-(1 << bits - 1) <= low and high < 1 << bits - 1)

    def groups(self) -> list[list[Op]]:
        """The candidates, with what they are connected to by reading it."""
        parent = {op: op for op in self.found}

        def root(op: Op) -> Op:
            while parent[op] is not op:
                parent[op] = op = parent[parent[op]]
            return op

        for op in self.found:
            for maker in [v.op for v in op.operands]:
                if maker is not None and maker in self.found:
                    parent[root(op)] = root(maker)
        found: dict[Op, list[Op]] = defaultdict(list)
        for op in self.found:
            found[root(op)].append(op)
        return list(found.values())

    def gain(self, group: list[Op]) -> float:
        """How many instructions fewer a pair of elements takes."""
        members, total = set(group), 0.0
        leaves: dict[Value, None] = {}
        biased: set[Value] = set()
        for op in group:
            total += self._saved(op)
            leaves.update(dict.fromkeys(self.leaves(op)))
            if op.name not in _LINEAR:  # a sum may take its bias along
                biased.update(v for v in self.read(op) if v.op is not None and v.op.name in _LINEAR
                              and v.op in members and self.span(op, v)[0] < 0)
            others = [r for r in self.readers.get(op.result, ()) if r not in members]
            joined = all(r.name == "store" for r in others) and scalar(op.result.type) != I32
            total += 0 if not others else 1 if joined else -2
        windows: dict[object, set[int]] = defaultdict(set)
        for value in leaves:
            assert value.op is not None
            place, begin = value.op.attributes.get("window", (value, 0))[:2]
            windows[place].add(begin & 1)
            if members.issuperset(self.readers[value]) and scalar(value.type) != I32:
                windows[place].add(2)
        return total - len(biased) / 2 + sum(
            2 * (2 in found) - len(found - {2}) for found in windows.values())

    def _saved(self, op: Op) -> float:
        """The instructions of two elements less those of a pair."""
        if op.name in (*_SUMS, *_EXTREMES):  # the machine takes three numbers at once
            readers = self.readers.get(op.result, [])
            return 0.5 if len(readers) == 1 and (readers[0].name == op.name or {
                readers[0].name, op.name} <= {*_SUMS}) else 1
        if op.name in _MASKS and scalar(op.result.type) == I1:
            return -0.5
        one = op.name in (*_MASKS, "mul", "shl") or (
            op.name == "icmp" and op.attributes["predicate"] not in ("eq", "ne"))
        return 1 if one else 0


class _Rewriter:
    """Puts operations on words in the place of those on elements."""

    def __init__(self, candidates: _Candidates, packed: set[Op]) -> None:
        self.candidates, self.packed = candidates, packed
        self.words: dict[tuple[Value, bool], Value] = {}  # of a value, read without sign or with
        self.build = Builder(Block(""))

    def run(self) -> None:
        kernel = self.candidates.kernel
        leaves: dict[Value, dict[bool, None]] = defaultdict(dict)
        for op in self.packed:
            for v in self.candidates.leaves(op):
                leaves[v][self.candidates.signless(op)] = None
        apart: dict[Value, Value] = {}
        phis: list[tuple[Op, Op]] = []
        for block in Cfg(kernel).order:
            old, block.ops = block.ops, []
            self.build, made = Builder(block), list[Op]()
            for op in old:
                self.build.span = op.span
                if op.name != "phi":
                    self._follow(made, leaves, apart)
                if op not in self.packed:
                    self.build.insert(op)
                elif op.name == "phi":
                    phi = Op("phi", [], {}, (self._type(op.result),), None, op.span, [*op.blocks])
                    self.build.insert(phi)
                    self.words[op.result, False] = phi.result
                    phis.append((op, phi))
                else:
                    self.words[op.result, False] = self._compute(op)
                made.append(op)
        for op, phi in phis:
            for value, block in zip(op.operands, op.blocks, strict=True):
                self.build = Builder(block, len(block.ops) - 1)
                phi.operands.append(self._word(op, value))
        for op in kernel.ops():
            op.replace_inputs(apart)

    def _follow(self, made: list[Op], leaves: dict[Value, dict[bool, None]],
                apart: dict[Value, Value]) -> None:
        """Words of what others made, elements of what was made in words."""
        for op in made:
            for result in op.results:
                for unsigned in leaves.get(result, ()):
                    self.words[result, unsigned] = self._pack(result, unsigned)
            if op in self.packed and any(
                    r not in self.packed for r in self.candidates.readers.get(op.result, ())):
                apart[op.result] = self._unpack(op.result)
        made.clear()

    def _type(self, value: Value) -> Type:
        """Of the words of a value."""
        return ROWS["pack"].rule([with_element(value.type, I16)], {}, None)[0]

    def _sum(self, word: Value, number: int) -> Value:
        """Each half and a number."""
        if not number:
            return word
        return self.build.value("add", word, self._number(word.type, number * TWICE))

    def _number(self, t: Type, number: int) -> Value:
        number &= (1 << 32) - 1
        return self.build.constant(number - (number >> 31 << 32), t)

    def _pack(self, value: Value, unsigned: bool) -> Value:
        kind, half = scalar(value.type), with_element(value.type, I16)
        low = self.candidates.bounds(value, unsigned)[0]
        if kind != I16:
            name = "truncate" if kind == I32 else "zext" if unsigned else "sext"
            value = self.build.value(name, value, type=half)
        word = self.build.value("pack", value)
        if low >= 0:
            return word
        sign = self._number(word.type, (HALF >> 1) * TWICE)
        return self._sum(self.build.value("xor", word, sign), -(HALF >> 1))

    def _unpack(self, value: Value) -> Value:
        kind, half = scalar(value.type), with_element(value.type, I16)
        low = self.candidates.bounds(value)[0]
        bias = HALF >> 1 if low < 0 and kind == I16 else _bias(low)
        word = self._sum(self.words[value, False], bias)
        if kind == I16 and bias:
            word = self.build.value("xor", word, self._number(word.type, bias * TWICE))
        elements = self.build.value("unpack", word, type=half)
        if kind == I16:
            return elements
        if kind == I8:
            return self.build.value("truncate", elements, type=value.type)
        wide = self.build.value("zext", elements, type=value.type)
        return self.build.value("sub", wide, self.build.constant(bias, wide.type)) if bias else wide

    def _word(self, op: Op, value: Value) -> Value:
        """The words of an operand."""
        if value.op in self.packed:
            return self.words[value, False]
        one, unsigned = _uniform(value), self.candidates.signless(op)
        if one is None:
            return self.words[value, unsigned]
        number, t, kind = int_of(one), self._type(value), scalar(value.type)
        if number is not None:
            number = TRUE * number if kind == I1 else number & (1 << kind.bits) - 1 if (
                unsigned) else number
            return self._number(t, number * TWICE)
        if kind != I32:
            one = self.build.value("zext" if unsigned else "sext", one, type=I32)
        elif (span := self.candidates.span(op, value)) != self.candidates.bounds(value):
            one = self.build.value("smax", one, self.build.constant(span[0], I32))
            one = self.build.value("smin", one, self.build.constant(span[1], I32))
        twice = self.build.value("mul", one, self.build.constant(TWICE, I32))
        return self.build.value("splat", twice, type=t)

    def _compute(self, op: Op) -> Value:
        """The words of a result."""
        value, read = self.build.value, self.candidates.read(op)
        if op.name in _CASTS and not read:
            return self._shift(self._word(op, op.operands[0]), 15)
        words = [self._word(op, v) for v in (read or op.operands)]
        if op.name in _CASTS:
            return words[0]
        if op.name in _BY_NUMBER:
            return self._by_number(op, words[0])
        if op.name == "icmp" and op.attributes["predicate"] not in ("eq", "ne"):
            predicate = op.attributes["predicate"]
            a, b = words if predicate[1] == "g" else words[::-1]
            above = self._number(a.type, (TRUE - (predicate[2] == "t")) * TWICE)
            return value("add", a, value("sub", above, b))
        if op.name not in (*_EXTREMES, "icmp", "select"):
            return value(op.name, *words)
        bias = _bias(min(self.candidates.span(op, v)[0] for v in read))
        a, b = (self._sum(word, bias) for word in words)
        if op.name == "icmp":
            differ = value("xor", a, b)
            if op.attributes["predicate"] == "ne":
                return self._sum(differ, TRUE - 1)
            return value("sub", self._number(differ.type, TRUE * TWICE), differ)
        if op.name == "select":
            mask = value("spread_halves", self._word(op, op.operands[0]))
            return self._sum(value("xor", b, value("and", value("xor", a, b), mask)), -bias)
        return self._sum(value(f"u{op.name[1:]}_halves", a, b), -bias)

    def _by_number(self, op: Op, word: Value) -> Value:
        number = int_of(op.operands[1])
        assert number is not None
        if op.name in ("mul", "shl"):
            return self.build.value(op.name, word, self._number(word.type, number))
        bias = _bias(self.candidates.bounds(op.operands[0])[0])
        return self._sum(self._shift(self._sum(word, bias), number), -(bias >> number))

    def _shift(self, word: Value, number: int) -> Value:
        moved = self.build.value("lshr", word, self._number(word.type, number))
        return self.build.value("and", moved, self._number(
            word.type, (HALF - 1 >> number) * TWICE))
