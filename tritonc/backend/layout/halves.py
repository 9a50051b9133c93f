"""Which operations on small integers can be computed two at once, and what that saves.

`pack_halves` says how.  Words need no bounds where all that reads them is linear; everything else
asks for numbers that 16 bits hold, and so does a reader of elements."""

from collections import defaultdict

from tritonc.analysis.facts import Facts, Interval, hull
from tritonc.analysis.values import SPREADS, constant_of, int_of, origin
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import I1, I8, I16, I32, Tile, scalar

HALF = 1 << 16
BYTE = 256  # a bias is a multiple of it, so that the lowest byte stays as it is
SUMS = ("add", "sub")
EXTREMES = ("smin", "smax", "umin", "umax")
MASKS = ("and", "or", "xor")
BY_NUMBER = ("mul", "shl", "lshr", "ashr")
LINEAR = (*SUMS, "mul", "shl", "phi")
CHOICES = ("select", "psi")
CASTS = ("zext", "sext", "truncate")


def in_pairs(value: Value) -> bool:
    """Whether a thread holds four neighbours of a tile of integers side by side, or more."""
    t = value.type
    return isinstance(t, Tile) and t.element in (I1, I8, I16, I32) and t.layout is not None \
        and t.layout.register[:2] == (1, 2) and t.shape[-1] > 2


def uniform(value: Value) -> Value | None:
    """The scalar, or the constant, that all elements of a tile are."""
    found = origin(value, SPREADS)
    return found if constant_of(found) is not None or not isinstance(found.type, Tile) else None


def bias_of(least: int) -> int:
    return -(least // BYTE * BYTE) if least < 0 else 0


def narrow(bounds: Interval) -> bool:
    """Whether 16 bits hold such a number, with its bias."""
    return bounds[1] + bias_of(bounds[0]) < HALF


def reads_unsigned(op: Op) -> bool:
    """Whether the operation reads a narrow operand as a number without sign."""
    return op.name in ("zext", "umin", "umax") or (
        op.name == "icmp" and op.attributes["predicate"][0] != "s")


class Candidates:
    """Which operations can be computed in pairs."""

    def __init__(self, kernel: Kernel, extremes: bool) -> None:
        self.kernel, self.facts, self.readers = kernel, Facts(kernel), uses(kernel)
        self.extremes = extremes
        self.found = {op: None for op in kernel.ops() if self._possible(op)}
        while out := [op for op in self.found if not self._fits(op)]:
            for op in out:
                del self.found[op]

    def _possible(self, op: Op) -> bool:
        if not op.results or not in_pairs(op.results[0]) or op.attributes.get("piecewise"):
            return False
        truth = scalar(op.results[0].type) == I1
        if op.name == "icmp":
            return in_pairs(op.operands[0]) and op.attributes.get("vector", 1) == 1 and scalar(
                op.operands[0].type) != I1
        if truth:
            return op.name in (*MASKS, "cmpp")
        if op.name in ("phi", *CHOICES):
            return True
        if op.name in CASTS:
            return in_pairs(op.operands[0]) and (op.name != "sext" or scalar(
                op.operands[0].type) != I1)
        if op.name in EXTREMES:
            return self.extremes
        if op.name in BY_NUMBER:
            number = int_of(op.operands[1])
            return scalar(op.result.type) == I32 and number is not None and (
                op.name == "mul" or 0 <= number <= 8)
        return op.name in (*SUMS, *MASKS) and scalar(op.result.type) == I32

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
        return reads_unsigned(op) or (op.name in ("phi", *CHOICES) and any(
            self.signless(v.op, op, *seen) for v in self.read(op)
            if v.op is not None and v.op in self.found and v.op not in (op, *seen)))

    def read(self, op: Op) -> list[Value]:
        """The operands of whose numbers there must be words."""
        return [v for v in op.operands[: 1 if op.name in BY_NUMBER else None]
                if scalar(v.type) != I1]

    def span(self, op: Op, value: Value) -> Interval:
        """The bounds of an operand.  A comparison with a scalar needs of that no more than that it
        is beyond the other operand."""
        found = self.bounds(value, self.signless(op))
        if op.name != "icmp" or narrow(found) or uniform(value) is None:
            return found
        others = [self.bounds(v, self.signless(op)) for v in op.operands if v is not value]
        if not others or (found[0] < 0 and reads_unsigned(op)):
            return found
        low, high = others[0][0] - 1, others[0][1] + 1
        return min(max(found[0], low), high), max(min(found[1], high), low)

    def leaves(self, op: Op) -> list[Value]:
        """The operands that others make, element by element."""
        return [v for v in self.read(op) if v.op not in self.found and uniform(v) is None]

    def _fits(self, op: Op) -> bool:
        """Whether there are words of all operands, with bounds as the operation needs them, and
        elements where they are read."""
        leaves, spans = self.leaves(op), [self.span(op, v) for v in self.read(op)]
        if any(not in_pairs(v) or op.name == "phi" or v.op is None
               or v.op.attributes.get("piecewise") for v in leaves):
            return False
        if any(scalar(v.type) == I1 and v.op not in self.found and int_of(origin(v)) is None
               for v in op.operands):
            return False
        if not all(narrow(s) for v, s in zip(self.read(op), spans, strict=True)
                   if v in leaves or op.name not in LINEAR) or not self._suit(op, spans):
            return False
        readers = [reader for result in op.results for reader in self.readers.get(result, ())]
        apart = [reader for reader in readers if reader not in self.found]
        if op.name == "truncate" and not self._whole(op) and (
                len(apart) < len(readers) or (scalar(op.result.type) == I16 and spans[0][0] < 0)):
            return False
        made = op.results[0]
        return not apart or (scalar(made.type) != I1 and narrow(self.bounds(made)))

    def _suit(self, op: Op, spans: list[Interval]) -> bool:
        """Whether the bounds of operands are as the operation needs them."""
        if not spans:
            return True
        low, high = hull(*spans)
        unsigned, kind = self.signless(op), scalar(self.read(op)[0].type)
        if low < 0 and (op.name in (*MASKS, "lshr") or unsigned):
            return False
        if kind != I32 and not unsigned and high >= 1 << kind.bits - 1 and op.name in (
                "sext", "smin", "smax", "phi", "icmp", *CHOICES):
            return False
        if op.name == "icmp":
            return high - low < HALF >> 1 and (
                op.attributes["predicate"] not in ("eq", "ne") or high + bias_of(low) < HALF >> 1)
        return op.name not in (*EXTREMES, *CHOICES) or narrow((low, high))

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
            if op.name not in LINEAR:  # a sum may take its bias along
                biased.update(v for v in self.read(op) if v.op is not None and v.op.name in LINEAR
                              and v.op in members and self.span(op, v)[0] < 0)
            others = [r for r in self.readers.get(op.results[0], ()) if r not in members]
            joined = all(r.name == "store" for r in others) and scalar(op.results[0].type) != I32
            total += 0 if not others else 1 if joined else -2
        windows: dict[object, set[int]] = defaultdict(set)
        for value in leaves:
            assert value.op is not None
            place, begin = value.op.attributes.get("window", (value, 0))[:2]
            windows[place].add(begin & 1)
            if members.issuperset(self.readers[value]) and scalar(value.type) != I32:
                windows[place].add(2)
        return total - len(biased) / 2 + sum(
            2 * (2 in found) - 1 - (1 in found) for found in windows.values())

    def _saved(self, op: Op) -> float:
        """The instructions of two elements less those of a pair."""
        readers = self.readers.get(op.results[0], [])
        names = {op.name, *(reader.name for reader in readers)}
        if op.name in (*SUMS, *EXTREMES):  # the machine takes three numbers at once, or a magnitude
            negated = [v for v in op.operands if v.op in self.found and v.op is not None
                       and v.op.name == "sub" and int_of(v.op.operands[0]) == 0]
            if negated and op.name == "smax":
                return -0.5
            return 0.5 if len(readers) == 1 and (len(names) == 1 or names <= {*SUMS}) else 1
        if op.name in (*MASKS, "cmpp") and scalar(op.results[0].type) == I1:
            return -0.5
        if op.name in ("mul", "shl") and names <= {op.name, *SUMS}:
            return 0  # part of the sum
        one = op.name in (*MASKS, "mul", "shl") or (
            op.name == "icmp" and op.attributes["predicate"] not in ("eq", "ne"))
        return 1 if one else 0
