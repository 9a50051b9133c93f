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
BYTE = 256  # a bias is a multiple of it, so that the lowest byte stays as it is
_EXTREMES = ("smin", "smax", "umin", "umax")
_MASKS = ("and", "or", "xor")
_BY_NUMBER = ("mul", "shl", "lshr", "ashr")
_LINEAR = ("add", "sub", "mul", "shl", "phi")
_CASTS = ("zext", "sext", "truncate")
_OPPOSITE = {"sgt": "slt", "sge": "sle", "ugt": "ult", "uge": "ule"}  # operands exchanged
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


def _narrow(bounds: Interval) -> bool:
    """Whether 16 bits hold such a number, with its bias."""
    return bounds[1] + _bias(bounds[0]) < HALF


def _unsigned(op: Op) -> bool:
    """Whether the operation reads a narrow operand as a number without sign."""
    return op.name in ("zext", "umin", "umax")


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
        if op.name in (*_CASTS, "icmp"):
            return _pairs(op.operands[0]) and op.attributes.get("vector", 1) == 1 and (
                op.name != "sext" or scalar(op.operands[0].type) != I1)
        if op.name in _EXTREMES:
            return self.extremes
        if op.name in ("phi", "select"):
            return scalar(op.result.type) != I1
        if scalar(op.result.type) != I32:
            return scalar(op.result.type) == I1 and op.name in _MASKS
        if op.name in _BY_NUMBER:
            number = int_of(op.operands[1])
            return number is not None and (op.name == "mul" or 0 <= number <= 8)
        return op.name in ("add", "sub", *_MASKS)

    def bounds(self, value: Value, unsigned: bool = False) -> Interval:
        """The least and the greatest number in a word of the value; of one that has no word yet, if
        it is read with or without a sign."""
        op, (low, high) = value.op, self.facts.interval(value)
        if op is not None and op in self.found:
            if op.name == "truncate":
                return self.bounds(op.operands[0])
            unsigned = self._signless(op, set())
        if low >= 0 or not unsigned:
            return low, high
        return 0, (1 << scalar(value.type).bits) - 1

    def _signless(self, op: Op, seen: set[Op]) -> bool:
        """Whether narrow results are numbers without sign: for phis, as what they merge."""
        seen.add(op)
        return _unsigned(op) or (op.name == "phi" and any(
            self._signless(v.op, seen) for v in op.operands if v.op in self.found
            and v.op is not None and v.op not in seen))

    def read(self, op: Op) -> list[Value]:
        """The operands of which there must be words."""
        return op.operands[:1] if op.name in _BY_NUMBER else op.operands

    def _fits(self, op: Op) -> bool:
        """Whether there are words of all operands, with bounds as the operation needs them, and
        elements where they are read."""
        unsigned = self._signless(op, set())
        spans = [self.bounds(v, unsigned) for v in self.read(op)]
        leaf = [v for v in self.read(op) if v.op not in self.found and _uniform(v) is None]
        if any(not _pairs(v) or op.name == "phi" or v.op is None
               or v.op.attributes.get("piecewise") for v in leaf):
            return False
        exact = [s for v, s in zip(self.read(op), spans, strict=True)
                 if v in leaf or op.name not in _LINEAR]
        signless = op.name in _MASKS or op.name == "lshr" or unsigned
        if not all(map(_narrow, exact)) or (signless and min(spans)[0] < 0):
            return False
        kind = scalar(op.operands[0].type)
        if op.name in ("sext", "smin", "smax", "phi") and kind != I32 and not unsigned and any(
                high >= 1 << kind.bits - 1 for _, high in spans):
            return False
        readers = self.readers.get(op.result, [])
        apart = [reader for reader in readers if reader not in self.found]
        if op.name == "truncate" and not self._whole(op) and (
                len(apart) < len(readers) or scalar(op.result.type) == I16 and spans[0][0] < 0):
            return False
        return _narrow(self.bounds(op.result)) or not apart

    def _whole(self, op: Op) -> bool:
        """Whether a truncation keeps its numbers, with or without a sign."""
        low, high = self.bounds(op.operands[0])
        bits = scalar(op.result.type).bits
        return (0 <= low and high < 1 << bits) or (-(1 << bits - 1) <= low and high < 1 << bits - 1)

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

    def gain(self, group: list[Op]) -> int:
        """How many instructions fewer a pair of elements takes."""
        members, total = set(group), 0
        leaves: dict[Value, None] = {}
        for op in group:
            biased = sum(self.bounds(v, _unsigned(op))[0] < 0 and int_of(v) is None
                         for v in op.operands)
            total += 1 if op.name in (*_LINEAR[:-1], *_MASKS) else 1 - biased if (
                op.name in _EXTREMES) else -biased if op.name == "ashr" else 0
            leaves.update(dict.fromkeys(v for v in self.read(op) if v.op not in self.found
                                        and _uniform(v) is None))
            others = [r for r in self.readers.get(op.result, ()) if r not in members]
            joined = all(r.name == "store" for r in others) and scalar(op.result.type) != I32
            total += 0 if not others else 1 if joined else -2
        for value in leaves:
            alone = members.issuperset(self.readers[value]) and scalar(value.type) != I32
            total += 1 if alone else -1
        return total


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
            for v in self.candidates.read(op):
                if v.op not in self.packed and _uniform(v) is None:
                    leaves[v][_unsigned(op)] = None
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
                phi.operands.append(self._word(value, self.candidates._signless(op, set())))
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

    def _word(self, value: Value, unsigned: bool) -> Value:
        """The words of an operand."""
        if value.op in self.packed:
            return self.words[value, False]
        scalar_value = _uniform(value)
        if scalar_value is None:
            return self.words[value, unsigned]
        number, t = int_of(scalar_value), self._type(value)
        kind = scalar(value.type)
        if number is not None:
            return self._number(t, (number & (1 << kind.bits) - 1 if unsigned else number) * TWICE)
        if kind != I32:
            scalar_value = self.build.value("zext" if unsigned else "sext", scalar_value, type=I32)
        twice = self.build.value("mul", scalar_value, self.build.constant(TWICE, I32))
        return self.build.value("splat", twice, type=t)

    def _compute(self, op: Op) -> Value:
        unsigned = _unsigned(op)
        words = [self._word(v, unsigned) for v in self.candidates.read(op)]
        if op.name in _CASTS:
            return words[0]
        if op.name in _BY_NUMBER:
            return self._by_number(op, words[0])
        if op.name not in _EXTREMES:
            return self.build.value(op.name, *words)
        bias = _bias(min(self.candidates.bounds(v, unsigned)[0] for v in op.operands))
        name = f"u{op.name[1:]}_halves"
        return self._sum(self.build.value(name, *(self._sum(w, bias) for w in words)), -bias)

    def _by_number(self, op: Op, word: Value) -> Value:
        number = int_of(op.operands[1])
        assert number is not None
        if op.name in ("mul", "shl"):
            return self.build.value(op.name, word, self._number(word.type, number))
        bias = _bias(self.candidates.bounds(op.operands[0])[0])
        moved = self.build.value("lshr", self._sum(word, bias), self._number(word.type, number))
        mask = self._number(word.type, (HALF - 1 >> number) * TWICE)
        return self._sum(self.build.value("and", moved, mask), -(bias >> number))
