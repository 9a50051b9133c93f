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
is connected is packed as a whole, where that takes fewer instructions (`halves`).  After all passes
that read elementwise operations by their form."""

from collections import defaultdict

from tritonc.analysis.values import int_of
from tritonc.backend.layout import halves
from tritonc.backend.layout.share_pipes import SMALL, share_pipes
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import ROWS
from tritonc.ir.types import I1, I8, I16, I32, Type, scalar, with_element

TWICE = halves.HALF + 1  # times a number: the word that has it in both halves
TRUE = halves.HALF >> 1


def pack_halves(kernel: Kernel, context: Context) -> bool:
    """Compute in pairs what is known to fit."""
    if not any(halves.in_pairs(v) and scalar(v.type) in (I8, I16)
               for op in kernel.ops() if op.name in (*halves.CASTS, *halves.EXTREMES)
               for v in (*op.operands, *op.results)):
        return False
    candidates = halves.Candidates(kernel, "halves" in context.target.features)
    packed = {op for group in candidates.groups() if candidates.gain(group) > 1 for op in group}
    if packed:
        _Rewriter(candidates, packed).run()
    return bool(packed)


class _Rewriter:
    """Puts operations on words in the place of those on elements."""

    def __init__(self, candidates: halves.Candidates, packed: set[Op]) -> None:
        self.candidates, self.packed = candidates, packed
        self.words: dict[tuple[Value, bool], Value] = {}  # of a value, read without sign or with
        self.build = Builder(Block(""))
        self.sums: dict[tuple[Block, Value, int], Value] = {}
        self.small = set[Value]()  # minima and maxima of numbers that `share_pipes` can take

    def run(self) -> None:
        kernel = self.candidates.kernel
        leaves: dict[Value, dict[bool, None]] = defaultdict(dict)
        for op in filter(self.packed.__contains__, kernel.ops()):
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
                elif op.name == "cmpp":
                    word, (holds, fails) = self._word(op, op.operands[0]), op.results
                    self.words[holds, False] = word
                    self.words[fails, False] = self.build.value("xor", word, self._number(
                        word.type, TRUE * TWICE))
                else:
                    self.words[op.result, False] = self._compute(op)
                made.append(op)
        for op, phi in phis:
            for value, block in zip(op.operands, op.blocks, strict=True):
                self.build = Builder(block, len(block.ops) - 1)
                phi.operands.append(self._word(op, value))
        for op in kernel.ops():
            op.replace_inputs(apart)
        share_pipes(kernel, self.small)

    def _follow(self, made: list[Op], leaves: dict[Value, dict[bool, None]],
                apart: dict[Value, Value]) -> None:
        """Words of what others made, elements of what was made in words."""
        for op in made:
            for result in op.results:
                for unsigned in leaves.get(result, ()):
                    self.words[result, unsigned] = self._pack(result, unsigned)
            if op in self.packed and any(r not in self.packed for r in self.candidates.readers.get(
                    op.results[0], ())):
                apart[op.results[0]] = self._unpack(op.results[0])
        made.clear()

    def _type(self, value: Value) -> Type:
        """Of the words of a value."""
        return ROWS["pack"].rule([with_element(value.type, I16)], {}, None)[0]

    def _sum(self, word: Value, number: int) -> Value:
        """Each half and a number."""
        key = self.build.block, word, number
        if number and key not in self.sums:
            self.sums[key] = self.build.value("add", word, self._number(word.type, number * TWICE))
        return self.sums[key] if number else word

    def _number(self, t: Type, number: int) -> Value:
        number &= (1 << 32) - 1
        return self.build.constant(number - (number >> 31 << 32), t)

    def _pack(self, value: Value, unsigned: bool) -> Value:
        kind, half = scalar(value.type), with_element(value.type, I16)
        make, low = self.build.value, self.candidates.bounds(value, unsigned)[0]
        if kind == I32:
            bias = halves.bias_of(low)
            moved = make("add", value, self.build.constant(bias, value.type)) if bias else value
            return self._sum(make("pack", make("truncate", moved, type=half)), -bias)
        if kind == I8:
            value = make("zext" if unsigned else "sext", value, type=half)
        word = make("pack", value)
        if low >= 0:
            return word
        sign = self._number(word.type, TRUE * TWICE)  # whose bit counts less than nothing
        return self._sum(make("xor", word, sign), -TRUE)

    def _unpack(self, value: Value) -> Value:
        kind, half = scalar(value.type), with_element(value.type, I16)
        low = self.candidates.bounds(value)[0]
        bias = TRUE if low < 0 and kind == I16 else halves.bias_of(low)
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
        if value.op in self.packed:
            return self.words[value, False]
        one, unsigned = halves.uniform(value), self.candidates.signless(op)
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
            sign = "u" if unsigned else "s"
            one = self.build.value(f"{sign}max", one, self.build.constant(span[0], I32))
            one = self.build.value(f"{sign}min", one, self.build.constant(span[1], I32))
        twice = self.build.value("mul", one, self.build.constant(TWICE, I32))
        return self.build.value("splat", twice, type=t)

    def _compute(self, op: Op) -> Value:
        value, read = self.build.value, self.candidates.read(op)
        if op.name in halves.CASTS and not read:
            return self._shift(self._word(op, op.operands[0]), 15)
        words = [self._word(op, v) for v in (read or op.operands)]
        if op.name in halves.CASTS:
            return words[0]
        if op.name in halves.BY_NUMBER:
            return self._by_number(op, words[0])
        if op.name == "icmp" and op.attributes["predicate"] not in ("eq", "ne"):
            predicate = op.attributes["predicate"]
            a, b = words if predicate[1] == "g" else words[::-1]
            above = self._number(a.type, (TRUE - (predicate[2] == "t")) * TWICE)
            return value("add", a, value("sub", above, b))
        if op.name not in (*halves.EXTREMES, *halves.CHOICES, "icmp"):
            found = value(op.name, *words)
            if op.name == "add" and all(low >= 0 and high < SMALL for low, high in map(
                    self.candidates.bounds, (*op.operands, op.result))):
                self.small.add(found)
            return found
        spans = [self.candidates.span(op, v) for v in read]
        bias = halves.bias_of(min(low for low, _ in spans))
        words = [self._sum(word, bias) for word in words]
        if op.name in halves.CHOICES:
            return self._sum(self._chosen(op, words), -bias)
        a, b = words
        if op.name == "icmp":
            differ = value("xor", a, b)
            if op.attributes["predicate"] == "ne":
                return self._sum(differ, TRUE - 1)
            return value("sub", self._number(differ.type, TRUE * TWICE), differ)
        found = value(f"u{op.name[1:]}_halves", a, b)
        if max(high for _, high in spans) + bias < SMALL:
            self.small.add(found)
        return self._sum(found, -bias)

    def _chosen(self, op: Op, words: list[Value]) -> Value:
        """The one of the words that conditions choose: of a psi the last whose condition holds."""
        value, found = self.build.value, words[-1 if op.name == "select" else 0]
        for condition, word in [(op.operands[0], words[0])] if op.name == "select" else zip(
                op.operands[2::2], words[1:], strict=True):
            mask = value("spread_halves", self._word(op, condition))
            found = value("xor", found, value("and", value("xor", word, found), mask))
        return found

    def _by_number(self, op: Op, word: Value) -> Value:
        number = int_of(op.operands[1])
        assert number is not None
        if op.name in ("mul", "shl"):
            return self.build.value(op.name, word, self._number(word.type, number))
        bias = halves.bias_of(self.candidates.bounds(op.operands[0])[0])
        return self._sum(self._shift(self._sum(word, bias), number), -(bias >> number))

    def _shift(self, word: Value, number: int) -> Value:
        moved = self.build.value("lshr", word, self._number(word.type, number))
        kept = (halves.HALF - 1 >> number) * TWICE
        return self.build.value("and", moved, self._number(word.type, kept))
