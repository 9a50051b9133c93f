"""Variants of a kernel: what distinguishes each, and what must hold for it.

A variant is a binding of tunables and meta-parameters, and facts that are assumed of parameters.
docs/notes/variants.md has the whole design; the choice among variants is `tritonc.variants.choice`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from math import lcm
from typing import Any

from tritonc.ir.core import Kernel, Op
from tritonc.ir.types import Pointer, Scalar
from tritonc.records import NamedTuple, dataclass
from tritonc.source import CompileError, fail
from tritonc.variants.choice import LEAST_PACKED, MOST_PROGRAMS, Cost

Binding = Mapping[str, int]
WITHIN = "within0", "within1", "within2"  # attributes: the longest range along each axis

_PART = r"\s*([A-Za-z_]\w*)\s*(==|=|>=|<=|%)\s*(-?\d+)\s*\Z"


class Fact(NamedTuple):
    """`N % 8` (N is a multiple of 8), `stride == 1`, `K >= 1` or `K <= 64`."""

    parameter: str
    relation: str
    value: int

    def __str__(self) -> str:
        return f"{self.parameter} {self.relation} {self.value}"


def between(parameter: str, least: int | None, most: int | None) -> tuple[Fact, ...]:
    """That a parameter is no less and no more than these, where they are given."""
    return tuple(Fact(parameter, relation, value) for relation, value in (
        (">=", least), ("<=", most)) if value is not None)


class Variant(NamedTuple):
    """`binding` has tunables and meta-parameters; what it leaves open is as in the general entry.

    `cost` is there if the model knows one.  `kernel`, if given, is the only one that it is for.
    `few`: it is for launches of at most so many programs of the general entry, if not 0.
    `within`: and for ranges that are no longer than that along the axis."""

    binding: Binding
    facts: tuple[Fact, ...] = ()
    cost: Cost | None = None
    given: bool = False  # by the user: that it cannot be compiled is an error
    kernel: str | None = None
    few: int = 0
    within: tuple[int, int] | None = None  # (axis, elements)

    def concerns(self, kernel: Kernel) -> bool:
        """Whether it is for this kernel: it is not another's, and has what it assumes."""
        names = {value.name for value in kernel.parameters}
        return self.kernel in (None, kernel.name) and all(f.parameter in names for f in self.facts)

    def failed(self, name: str, error: CompileError) -> str:
        """What -v says where it was left out."""
        values = ", ".join(f"{key} = {value}" for key, value in sorted(self.binding.items()))
        return f"no variant of {name} with {values}: {error.diagnostics[0].message}"


@dataclass
class VariantSet:
    """The variants of one kernel.  `points`: sizes, each with a place in `variants`, or -1 for the
    general entry; `sizes` says what of a launch they are (`choice.number`).  `loops`: how long the
    loops around the product are (`choice.length`); `aligned`: what holds where its rows are
    aligned.  `large`: tile and cost of the large body of the entry that has two, and its place in
    `variants`, or -1 for the general entry."""

    variants: list[Variant] = field(default_factory=list)
    general: Cost | None = None
    large: tuple[Sequence[int], Cost, int] | None = None
    loops: list[dict[str, Any]] = field(default_factory=list)
    aligned: list[dict[str, Any]] = field(default_factory=list)
    sizes: list[dict[str, Any]] = field(default_factory=list)
    points: list[tuple[tuple[int, ...], int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what -v says

    def rule(self, places: Sequence[int]) -> dict[str, Any]:
        """The manifest's `choice`, if of `variants` those at `places` were compiled.

        Place -1 is the general entry; a point may name a variant that became another."""
        known = [self.general, *(self.variants[place].cost for place in places)]
        if self.sizes:
            numbers = {place: number for number, place in enumerate((-1, *places))}
            return {"rule": "nearest", "sizes": self.sizes, "points": [
                {"size": [*size], "variant": numbers[place]}
                for size, place in self.points if place in numbers]}
        if all(cost is not None for cost in known):
            found: dict[str, Any] = {"rule": "cost", "loops": self.loops,
                                     "costs": [_row(cost) for cost in known if cost]}
            if self.aligned and any(cost.slow for cost in known if cost):
                found["aligned"] = self.aligned
            if self.large and (place := self.large[2]) in (-1, *places):
                found["large"] = [[*self.large[0]], _row(self.large[1]),
                                  *([1 + [*places].index(place)] if place >= 0 else [])]
            return found
        return {"rule": "first"}

    def chosen(self) -> bool:
        """Whether a launch compares variants, and does not take the first that it may."""
        return bool(self.sizes) or self.general is not None

    def merge(self, place: int, into: int) -> None:
        """Let the points of one variant be another's."""
        self.points = [(size, into if at == place else at) for size, at in self.points]


def _row(cost: Cost) -> list[Any]:
    return [*cost[:7], [*cost.depths], *(cost[8:] if cost.parts or cost.slow else ())]


def parse(text: str) -> Variant:
    """A variant as --variant says it, `[KERNEL:]TM=64,num_warps=4,N%8,stride==1`.

    Raises CompileError.

    >>> parse("matmul: TM=64, N % 8").facts
    (Fact(parameter='N', relation='%', value=8),)
    """
    kernel, colon, rest = text.rpartition(":")
    if colon and not re.fullmatch(r"\s*[A-Za-z_]\w*\s*", kernel):
        raise fail("variant", None, f"variant '{text}': '{kernel}' names no kernel")
    binding: dict[str, int] = {}
    facts = []
    for part in rest.split(","):
        found = re.match(_PART, part)
        if found is None:
            raise fail("variant", None, f"variant '{text}': '{part.strip()}' is neither "
                       "NAME=VALUE nor a fact such as N%8, stride==1, K>=1 or K<=64")
        name, relation, value = found[1], found[2], int(found[3])
        if relation == "=":
            binding[name] = value
        elif relation == "%" and value < 1:
            raise fail("variant", None, f"variant '{text}': nothing is a multiple of {value}")
        else:
            facts.append(Fact(name, relation, value))
    return Variant(binding, tuple(facts), given=True, kernel=kernel.strip() or None)


def assume(kernel: Kernel, facts: Sequence[Fact]) -> None:
    """Let the parameters of a kernel promise `facts`.  Raises CompileError."""
    for fact in facts:
        place = next(i for i, v in enumerate(kernel.parameters) if v.name == fact.parameter)
        value, info = kernel.parameters[place], kernel.info[place]
        integer = isinstance(value.type, Scalar) and value.type.is_int and value.type.bits > 1
        pointer = isinstance(value.type, Pointer)
        if not integer and not (pointer and fact.relation == "%"):
            raise fail("variant", info.span, f"'{fact}' cannot be assumed of '{fact.parameter}', "
                       f"which is of type {info.ctype or value.type}")
        if fact.relation == "%":
            if pointer and fact.value & (fact.value - 1):
                raise fail("variant", info.span, f"'{fact}': an alignment is a power of two")
            kernel.info[place] = replace(info, multiple_of=lcm(info.multiple_of, fact.value))
            continue
        least, greatest = info.least, info.greatest
        if fact.relation in (">=", "=="):
            least = fact.value if least is None else max(least, fact.value)
        if fact.relation in ("<=", "=="):
            greatest = fact.value if greatest is None else min(greatest, fact.value)
        limit = 1 << (value.type.bits - 1 if isinstance(value.type, Scalar) else 63)
        if not -limit <= fact.value < limit or (
                least is not None and greatest is not None and least > greatest):
            raise fail("variant", info.span, f"'{fact}' cannot hold: {fact.parameter} is of type "
                       f"{info.ctype or value.type}, or the source promises something else")
        kernel.info[place] = replace(info, least=least, greatest=greatest)
        if fact.relation == "==":
            constant = Op("constant", [], {"value": fact.value}, (value.type,))
            kernel.replace({value: constant.result})
            kernel.entry.ops.insert(0, constant)


def tile_of(kernel: Kernel) -> list[int]:
    """A kernel's tile along each axis, as the manifest has it."""
    return [kernel.tile.get(axis, 1) for axis in range(max(kernel.tile, default=-1) + 1)]


def required(general: Mapping[str, Any], variant: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a launch must find true before it takes a variant, from the rows of the manifest: what
    is promised of its parameters, and not of those of the general entry.

    >>> required({"parameters": [{"name": "N"}]},
    ...          {"parameters": [{"name": "N", "multiple_of": 8}]})
    [{'argument': 0, 'multiple_of': 8}]
    >>> required({"parameters": []}, {"parameters": [], "tile": [64, 64, 1], "cluster": 2})
    [{'range': 2, 'at_most': 32767}]
    """
    found = []
    blocks = variant.get("cluster", 1)
    # Behind the source's parameters a variant may have the memory of its sums.
    for place, (one, two) in enumerate(zip(general["parameters"], variant["parameters"])):
        more = {key: two[key] for key in ("multiple_of", "at_least", "at_most")
                if key in two and two[key] != one.get(key)}
        if more:
            found.append({"argument": place, **more})
    if "tiles" in variant:
        found += [{"range": axis, "at_least": variant["tiles"] * tile}
                  for axis, tile in enumerate(variant["tile"]) if tile > 1]
    if blocks > general.get("cluster", 1) and len(variant["tile"]) > 2:  # they lie along axis 2
        found.append({"range": 2, "at_most": variant["tile"][2] * (MOST_PROGRAMS[2] // blocks)})
    found += [{"range": axis, "at_most": variant[name]} for axis, name in enumerate(WITHIN)
              if name in variant]
    if "few" in variant:
        found.append({"programs": general["tile"], "at_most": variant["few"]})
    if "programs" in variant:
        found += [{"range": 0, "at_least": variant["tile"][0]},  # else no block is full
                  {"programs": variant["tile"], "at_least": LEAST_PACKED // variant["programs"]}]
    return found


def can_hold(facts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no two of what `required` says contradict each other.

    >>> can_hold([{"range": 0, "at_most": 8}, {"range": 1, "at_least": 32}])
    True
    >>> can_hold([{"range": 0, "at_most": 8}, {"range": 0, "at_least": 32}])
    False
    """
    return not any(one["range"] == two["range"] and one["at_least"] > two["at_most"]
                   for one in facts if "range" in one and "at_least" in one
                   for two in facts if "range" in two and "at_most" in two)


def entry_name(kernel: str, number: int, taken: Collection[str]) -> str:
    """The name of a variant's entry.

    >>> entry_name("f", 1, []), entry_name("f", 1, ["f__v1"])
    ('f__v1', 'f__v1_')
    """
    name = f"{kernel}__v{number}"
    while name in taken:
        name += "_"
    return name
