"""The symbols of a kernel: what stands for values that have no polynomial, and what is known of
them."""

from collections.abc import Hashable
from dataclasses import field

from tritonc.analysis.facts import Facts
from tritonc.analysis.linear import Linear, number, symbol
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import is_int
from tritonc.prove.claims import Rule, Term, sure
from tritonc.prove.model import Model, Symbol
from tritonc.records import dataclass


@dataclass
class Symbols:
    """`rules` and `origins` are of symbols: what is known of one, and what it was made of."""

    kernel: Kernel
    model: Model
    rules: dict[Value, list[Rule]] = field(default_factory=dict)
    origins: dict[Value, tuple[Op | None, tuple[Linear, ...]]] = field(default_factory=dict)
    counters: dict[Value, Loop] = field(default_factory=dict)
    programs: dict[int, Symbol] = field(default_factory=dict)
    shared: dict[Hashable, Linear] = field(default_factory=dict)  # symbols by what they stand for

    def __post_init__(self) -> None:
        self.facts = Facts(self.kernel)
        self.cfg = Cfg(self.kernel)
        self.loops = {loop.header: loop for loop in self.cfg.loops}
        self.blocks = {op: block for block in self.kernel.blocks for op in block.ops}
        self.loop_counters: dict[Loop, Symbol] = {}
        for loop in self.cfg.loops:
            counter = Symbol(f"iteration of {loop.header.name}", own=True)
            self.loop_counters[loop] = counter
            self.counters[counter] = loop

    def varies(self, poly: Linear, loop: Loop) -> bool:
        """Whether the polynomial may change from one iteration of the loop to the next."""
        return any(self._varies(v, loop) for v in poly.values())

    def _varies(self, v: Value, loop: Loop) -> bool:
        if v in self.counters:
            return self.counters[v].header in loop
        op, parts = self.origins.get(v, (None, ()))
        if op is not None and not parts:
            return self.blocks[op] in loop
        return any(self.varies(part, loop) for part in parts)

    def opaque(self, value: Value) -> Term:
        """A symbol that `Facts` bounds."""
        found = Symbol(value.name or (value.op.name if value.op else "value"), own=True)
        self.origins[found] = value.op, ()
        poly = symbol(found)
        if is_int(value.type):
            low, high = self.facts.interval(value)
            self.rules[found] = [sure(poly - number(low), number(high) - poly)]
        return Term(poly)

    def derived(self, name: str, op: Op, parts: tuple[Linear, ...], *extra: Hashable
                ) -> tuple[Linear, bool]:
        """The symbol of an operation on these polynomials, and whether it is a new one."""
        place = (name, *(part.key for part in parts), *extra)
        if place in self.shared:
            return self.shared[place], False
        own = any(not isinstance(v, Symbol) or v.own for part in parts for v in part.values())
        found = Symbol(name, own)
        self.origins[found] = (None if parts else op), parts
        self.shared[place] = symbol(found)
        return self.shared[place], True

    def rule(self, poly: Linear, *rules: Rule) -> None:
        """What is known of the symbol that `poly` is."""
        (v,) = poly.values()
        self.rules.setdefault(v, []).extend(rules)

    def program(self, axis: int) -> Linear:
        """The symbol for an index of this instance."""
        if axis not in self.programs:
            self.programs[axis] = Symbol(f"program {axis}", own=True)
        return symbol(self.programs[axis])
