"""What a fast body would assume (`assumed_facts`), and of which scalars that can be tested."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any, TypeVar

from tritonc.analysis.affine import is_counter
from tritonc.analysis.linear import Linear, symbol
from tritonc.analysis.multiples import Multiples
from tritonc.analysis.quotients import dividend
from tritonc.analysis.values import slice_of
from tritonc.backend.memory.versions.assumed_apart import Apart, values_of
from tritonc.ir.build import behind, make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.copies import copy_blocks
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I32, element, is_int, shape, with_element
from tritonc.records import NamedTuple, dataclass

_NUMBERS = ("get_program_id", "get_num_programs")
_GIVEN = ("load", "phi")
T = TypeVar("T")


class Known(NamedTuple):
    """What is known of launches: whether TMA brings the operands, values of parameters, which
    of these are not the multiples that would be assumed, strides that are not 1, where tiles are
    those at edges, which are not full, the most elements of an access, whether operands alone
    count, or of them fields of records, and whether extents may be equal (`flatten_rows`)."""

    tensor: bool = False
    values: Mapping[Value, int] = {}
    never: frozenset[Value] = frozenset()
    not_one: frozenset[Value] = frozenset()
    edge: int = 0
    operands: bool = False
    records: bool = False
    extents: bool = False


NOTHING_KNOWN = Known()


class Plain(NamedTuple):
    """What an operation is where the first of each pair does not exceed the second: a number of
    that `name`, "udiv" or "urem", the operand less the other if that is not more ("once"), a
    comparison of what the operand divides with the other times the divisors ("product"), or else
    the operand less `times` the other.  `fits`: where 64 bits do not hold a sum that is tested, an
    earlier test fails."""

    tests: tuple[tuple[Linear, Linear], ...]
    name: str = ""
    operand: int = 0
    times: int = 0
    fits: bool = False

    def renamed(self, mapping: Mapping[Value, Value]) -> "Plain":
        """The same of other values."""
        return self._replace(tests=tuple((a.renamed(mapping), b.renamed(mapping))
                                         for a, b in self.tests))

    def ops(self, op: Op) -> list[Op]:
        """What stands for the operation; the last has its result."""
        new: list[Op] = []

        def make(name: str, *operands: Value, **more: Any) -> Value:
            new.append(make_op(name, list(operands), span=op.span, **more))
            return new[-1].result

        value, other = op.operands[self.operand], op.operands[1 - self.operand]
        if self.name == "product":
            value, divisors = dividend(value)
            for divisor in divisors:
                other = make("mul", other, divisor)
            make("icmp", *(value, other)[::-1 if self.operand else 1], **op.attributes)
        elif op.name == "icmp":
            make("constant", type=op.result.type, value=self.name == "True")
        elif self.name == "once":
            make("umin", value, make("sub", value, other))
        elif self.name and element(value.type).bits > 32:
            narrow = with_element(value.type, I32)
            make("zext", make(self.name, make("truncate", value, type=narrow),
                              make("truncate", other, type=narrow)), type=value.type)
        elif self.name:
            make(self.name, value, other)
        else:
            value = make("assume_multiple", value, n=1)
            for _ in range(self.times):
                value = make("sub", value, other)
        return new


@dataclass
class Assumed:
    units: dict[Value, None] = field(default_factory=dict)
    multiples: Multiples = field(default_factory=dict)
    signs: dict[Value, None] = field(default_factory=dict)
    full: dict[Op, tuple[Linear, Linear]] = field(default_factory=dict)  # icmp -> end <= limit
    inside: dict[Op, Plain] = field(default_factory=dict)
    positive: dict[Value, None] = field(default_factory=dict)
    hindered: list[tuple[Op, str]] = field(default_factory=list)  # accesses that stay narrow, why
    apart: Apart = field(default_factory=Apart)
    edges: bool = False  # tiles that are not full would gain from wide loads too
    equal: dict[Value, Value] = field(default_factory=dict)  # computed extents -> what they may be
    flat: bool = False  # such facts, or that steps lie within taps: others may hold without

    def coordinate(self, value: Value) -> bool:
        """Whether a value is not negative, and to fit into 32 bits: a number of 64 bits that is
        loaded or computed, of a row or a tensor."""
        return value in self.signs and value.op is not None and element(value.type).bits > 32

    @property
    def pairs(self) -> list[tuple[Linear, Linear]]:
        """Sums of which the first must not exceed the second."""
        same = [(symbol(a), symbol(b)) for pair in self.equal.items() for a, b in (
            pair, pair[::-1])]
        return [*self.full.values(), *same,
                *(pair for plain in self.inside.values() for pair in plain.tests)]

    @property
    def subjects(self) -> list[Value]:
        ends = [v for pair in self.pairs for p in pair for v in p.values()]
        return list(dict.fromkeys([*self.units, *self.multiples, *self.signs, *ends,
                                   *self.positive, *values_of(self.apart)]))

    @property
    def tested(self) -> tuple[object, ...]:
        return (self.units, self.multiples, self.signs, self.positive, self.pairs, self.apart.pairs,
                self.apart.ranges)

    def parted(self) -> "tuple[Assumed, Assumed]":
        """What is the same for all programs, and what must be known of values that differ; all in
        the first if more than signs and multiples is asked of these."""
        def computed(value: Value) -> bool:
            return not is_number(value) and any(
                op.name in (*_NUMBERS, *_GIVEN) for op in slice_of([value], ends=_GIVEN))

        own, common = (replace(base, multiples=_those(self.multiples, keep),
                               signs=_those(self.signs, keep)) for base, keep in (
            (Assumed(), computed), (self, lambda v: not computed(v))))
        return (self, Assumed()) if any(map(computed, common.subjects)) else (common, own)

    def renamed(self, mapping: Mapping[Value, Value]) -> "Assumed":
        """The same of other values, but for what is inside."""
        full = {mapping.get(op.result, op.result).op or op: (end.renamed(mapping),
                                                             limit.renamed(mapping))
                for op, (end, limit) in self.full.items()}
        return Assumed(renamed(self.units, mapping), renamed(self.multiples, mapping),
                      renamed(self.signs, mapping), full, {}, renamed(self.positive, mapping),
                      self.hindered, edges=self.edges, equal={
                          mapping.get(a, a): mapping.get(b, b) for a, b in self.equal.items()})

    def kept(self, keep: Callable[[Value], bool]) -> "Assumed":
        """What can be tested by reading these values alone."""
        def tested(pairs: Iterable[tuple[Linear, Linear]]) -> bool:
            return all(keep(v) for pair in pairs for p in pair for v in p.values())

        return replace(self, units=_those(self.units, keep), signs=_those(self.signs, keep),
                       multiples=_those(self.multiples, keep), positive=_those(self.positive, keep),
                       full={op: pair for op, pair in self.full.items()
                             if keep(op.result) and tested([pair])},
                       inside={op: one for op, one in self.inside.items()
                               if keep(op.result) and tested(one.tests)},
                       equal={a: b for a, b in self.equal.items() if keep(a) and keep(b)},
                       apart=self.apart if all(map(keep, values_of(self.apart))) else Apart())


class Text(NamedTuple):
    """A text of the kernel, looked at as if something held, and the kernel's values by its own."""

    kernel: Kernel
    own: Mapping[Value, Value] = {}

    def supposing(self, hints: Mapping[Value, Op]) -> "Text":
        """A copy that reads hints in place of values."""
        blocks, onward = copy_blocks(self.kernel.blocks)
        placed = {onward.get(v, v): hint for v, hint in hints.items()}
        kernel = replace(self.kernel, blocks=blocks)
        kernel.replace({v: hint.result for v, hint in placed.items()})
        for value, hint in placed.items():
            hint.replace_inputs(onward)
            behind(next((b for b in blocks if value.op in b.ops), blocks[0]), value).insert(hint)
        return Text(kernel, {new: self.own.get(v, v) for v, new in onward.items()})


def renamed(values: Mapping[Value, T], mapping: Mapping[Value, Value]) -> dict[Value, T]:
    """What is said of some values, said of those that they are mapped to."""
    return {mapping.get(v, v): said for v, said in values.items()}


def _those(values: Mapping[Value, T], keep: Callable[[Value], bool]) -> dict[Value, T]:
    return {v: said for v, said in values.items() if keep(v)}


def testable_scalars(cfg: Cfg) -> Callable[[Value], bool]:
    """Whether a value is an integer that is known before all loops."""
    def testable(value: Value) -> bool:
        if shape(value.type) or not is_int(value.type) or element(value.type).bits == 1:
            return False
        return not is_counter(value) and not is_number(value) and known_before_loops(cfg, value)

    return testable


def known_before_loops(cfg: Cfg, value: Value) -> bool:
    """Whether a value is a parameter, or computed outside of loops, and no constant."""
    if value.op is None:
        return True
    home = cfg.block_of.get(value.op)
    return home is not None and home not in cfg.innermost and value.op.name != "constant"


def is_number(value: Value) -> bool:
    """Whether a value is of the grid: what program of how many this is."""
    return value.op is not None and value.op.name in _NUMBERS
