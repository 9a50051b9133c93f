"""What holds where an operation stands: `Points.state(op, index)`.

Facts come from the problem, from the branches that lead there, from the operation's guard, from
what the source assumes, and from the loops around: in each iteration but the first, the conditions
for staying held in the one before.  A fact is added once the needs of its terms are proved from
those before it; one that cannot be proved is left out, and named in `missing`."""

from collections.abc import Iterable
from dataclasses import field

from tritonc.analysis.linear import Linear, number, symbol
from tritonc.analysis.values import remembered
from tritonc.ir.cfg import Loop
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import element, is_int, shape
from tritonc.prove.certificates import entails
from tritonc.prove.claims import ONE, Claim, Index, Need, Rule, fits, symbols_of
from tritonc.prove.model import Symbol, program_facts
from tritonc.prove.terms import Terms
from tritonc.records import dataclass

_SPLITS = 2  # cases within cases
_MOST_SYMBOLS = 10  # of a goal, which are compared


@dataclass
class State:
    """Facts, and lists of branches of which one holds.  `missing`: needs that were not proved."""

    terms: Terms
    facts: list[Linear] = field(default_factory=list)
    splits: list[list[list[Linear]]] = field(default_factory=list)
    met: set[Value] = field(default_factory=set)  # symbols whose rules were asked for
    waiting: list[Rule] = field(default_factory=list)
    missing: dict[Need, None] = field(default_factory=dict)
    loops: dict[Loop, Rule] = field(default_factory=dict)

    def copy(self) -> "State":
        return State(self.terms, list(self.facts), list(self.splits), set(self.met),
                     list(self.waiting), {}, self.loops)

    # proofs

    def proves(self, goal: Linear, under: Iterable[Linear] = ()) -> bool:
        """Whether the goal is not negative here, where `under` is not either."""
        facts = [*self.facts, *under]
        if self._by_cases(facts, self.splits, goal, _SPLITS):
            return True
        lemmas = self._lemmas(facts, goal)
        return bool(lemmas) and self._by_cases(facts + lemmas, self.splits, goal, 1)

    def _lemmas(self, facts: list[Linear], goal: Linear) -> list[Linear]:
        """Of a goal's symbols, which are below which others: quotients below their numbers."""
        symbols = goal.values()[:_MOST_SYMBOLS]
        return [less for a in symbols if not isinstance(a, Symbol) or a.own
                for b in symbols if a is not b and entails(
                    facts, less := symbol(b) - ONE - symbol(a))]

    def _by_cases(self, facts: list[Linear], splits: list[list[list[Linear]]], goal: Linear,
                  depth: int) -> bool:
        if (shown := entails(facts, goal)) or not depth:
            return shown
        near = set(goal.values())
        near |= {v for f in facts if near & set(f.values()) for v in f.values()} if depth == \
            _SPLITS else set()
        return any(
            all(self._by_cases([*facts, *branch], [s for s in splits if s is not split], goal,
                               depth - 1) for branch in split)
            for split in splits if all(split) and not near.isdisjoint(
                symbols_of(p for branch in split for p in branch)))

    def meets(self, need: Need) -> bool:
        """Whether a need is proved."""
        found = (self.proves(need.poly - number(need.low), need.under)
                 and self.proves(number(need.high) - need.poly, need.under))
        if not found:
            self.missing[need] = None
        return found

    # facts

    def add(self, rule: Rule) -> None:
        """Add a rule whose needs are proved; what is not is left out for now."""
        self.absorb(symbols_of(p for branch in rule for c in branch
                               for p in (c.poly, *(n.poly for n in c.needs))))
        if len(rule) == 1:
            late = [claim for claim in rule[0] if not self._claim(claim)]
            if late:
                self.waiting.append((tuple(late),))
            return
        branches = []
        for branch in rule:
            inner = self.copy()
            inner.splits = []
            before = len(inner.facts)
            for claim in branch:
                inner._claim(claim)
            found = inner.facts[before:]
            if not any(entails(self.facts, number(-1) - fact) for fact in found):
                branches.append(found)
        if len(branches) == 1:
            self.facts += branches[0]
        elif all(branches):
            self.splits.append(branches)

    def _claim(self, claim: Claim) -> bool:
        if not all(self.meets(need) for need in claim.needs):
            return False
        self.facts.append(claim.poly)
        return True

    def absorb(self, symbols: Iterable[Value]) -> None:
        """Add what is known of symbols that were not met before."""
        for v in symbols:
            if v in self.met:
                continue
            self.met.add(v)
            self.facts += [f for f in self.terms.model.sums.get(v, ()) if f not in self.facts]
            if v in self.terms.counters:
                self.facts.append(symbol(v))
                if (rule := self.loops.get(self.terms.counters[v])) is not None:
                    self.add(rule)
            for rule in self.terms.rules.get(v, ()):
                self.add(rule)

    def settle(self) -> None:
        """Try once more what could not be proved when it was met."""
        for _ in range(2):
            waiting, self.waiting = self.waiting, []
            before = len(self.facts)
            for rule in waiting:
                self.add(rule)
            if len(self.facts) == before:
                return


class Points:
    """The states of a kernel's blocks, kept."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.loops: dict[Loop, Rule] = {}

    def state(self, op: Op, index: Index) -> State:
        """What holds for the element `index` where `op` takes effect."""
        found = self.block(self.terms.blocks[op]).copy()
        for other in self.terms.blocks[op].ops:
            if other is op:
                break
            self._assumed(found, other)
        extents = shape(op.operands[0].type)
        for i, extent in zip(index, extents, strict=True):
            found.facts += [i, number(extent - 1) - i]
        if op.guard is not None:
            found.add(self.terms.holds(op.guard, index if shape(op.guard.type) else (), True))
        return found

    @remembered()
    def block(self, block: Block) -> State:
        """What holds at a block's start."""
        above = self.terms.cfg.immediate_dominator.get(block)
        if above is None:
            found = self._entry()
        else:
            found = self.block(above).copy()
            for op in above.ops:
                self._assumed(found, op)
            condition = self._edge(above, block)
            if condition is not None:
                found.add(self.terms.holds(condition[0], (), condition[1]))
            loop = self.terms.loops.get(block)
            if loop is not None:
                self.loops[loop] = self._iterations(loop, found)
        return found

    def _entry(self) -> State:
        found = State(self.terms, list(self.terms.model.facts), list(self.terms.model.splits),
                      loops=self.loops)
        kernel = self.terms.kernel
        for axis in range(3):
            found.facts += program_facts(self.terms.model, kernel, axis, self.terms.program(axis))
        return found

    def _edge(self, above: Block, block: Block) -> tuple[Value, bool] | None:
        """The condition of the branch by which `block` is reached from its dominator."""
        end = above.terminator
        if end.name != "cond_br" or end.blocks[0] is end.blocks[1] or block not in end.blocks:
            return None
        if self.terms.cfg.predecessors[block] != [above]:
            return None
        return end.operands[0], block is end.blocks[0]

    def _assumed(self, state: State, op: Op) -> None:
        if op.name == "assume" and op.guard is None and not shape(op.operands[0].type):
            state.add(self.terms.holds(op.operands[0], (), True))
        elif op.name == "assume_multiple" and not shape(op.result.type) and is_int(op.result.type):
            term = self.terms.at(op.operands[0], ())
            needs = (*term.needs, fits(term.poly, element(op.result.type).bits, op.operands[0]))
            least, most = op.attributes.get("least"), op.attributes.get("greatest")
            if least is not None:
                state.add(((Claim(term.poly - number(least), needs),),))
            if most is not None:
                state.add(((Claim(number(most) - term.poly, needs),),))

    def _iterations(self, loop: Loop, entry: State) -> Rule:
        """What holds of a loop's counter: it is 0, or the loop went on in the iteration before.

        That the phis fit their types is proved by induction: they did in all iterations before."""
        iteration = self.terms.loop_counters[loop]
        again = symbol(iteration) - ONE
        base = entry.copy()
        base.met.add(iteration)
        base.facts.append(symbol(iteration))
        terms = {}
        for phi in loop.header.phis():
            if is_int(phi.result.type) and not shape(phi.result.type):
                term = self.terms.at(phi.result, ())
                if self.terms.varies(term.poly, loop) and all(
                        v is iteration or not self.terms.varies(symbol(v), loop)
                        for v in term.poly.values()):
                    terms[phi] = term
        stays = self._stays(loop, iteration)
        while True:
            later = base.copy()
            later.facts.append(again)
            for phi, term in terms.items():
                bits = element(phi.result.type).bits
                need = fits(term.poly.substituted({iteration: again}), bits)
                later.facts += [need.poly - number(need.low), number(need.high) - need.poly]
            before = len(later.facts) - 1 - 2 * len(terms)
            for rule in stays:
                later.add(rule)
            later.settle()
            wrong = [phi for phi, term in terms.items()
                     if not self._counts(base, later, iteration, phi, term.poly, term.needs)]
            if not wrong:
                return ((Claim(symbol(iteration).scaled(-1)),),
                        tuple(map(Claim, later.facts[before:])))
            for phi in wrong:
                del terms[phi]

    def _counts(self, base: State, later: State, iteration: Symbol, phi: Op, poly: Linear,
                needs: tuple[Need, ...]) -> bool:
        """Whether a phi fits its type in the first iteration, and in each if in those before."""
        bits = element(phi.result.type).bits
        first = fits(poly.substituted({iteration: Linear()}), bits)
        start = base.copy()
        start.absorb(symbols_of([first.poly]))
        return (all(start.meets(need) for need in needs) and start.meets(first)
                and later.meets(fits(poly, bits)))

    def _stays(self, loop: Loop, iteration: Symbol) -> list[Rule]:
        """The conditions of the branches to the latch, as they were in the iteration before."""
        found: list[Rule] = []
        block: Block | None = loop.latch
        while block is not None and block in loop:
            above = self.terms.cfg.immediate_dominator.get(block)
            if above is None or above not in loop:
                break
            condition = self._edge(above, block)
            if condition is not None:
                rule = self.terms.holds(condition[0], (), condition[1])
                if len(rule) == 1:
                    found.append(rule)
            block = above
        end = loop.latch.terminator if loop.latch is not None else None
        if end is not None and end.name == "cond_br" and end.blocks[0] is not end.blocks[1]:
            found.append(self.terms.holds(end.operands[0], (), end.blocks[0] is loop.header))
        mapping: dict[Value, Linear] = {iteration: symbol(iteration) - ONE}
        return [(tuple(self._moved(claim, mapping) for claim in claims),)
                for rule in found if len(rule) == 1 and (claims := [
                    claim for claim in rule[0] if self._same(claim, loop, iteration)])]

    def _same(self, claim: Claim, loop: Loop, iteration: Symbol) -> bool:
        """Whether of what changes in the loop the claim speaks of the counter alone."""
        polys = [claim.poly, *(p for n in claim.needs for p in (n.poly, *n.under))]
        return all(v is iteration or not self.terms.varies(symbol(v), loop)
                   for v in symbols_of(polys))

    def _moved(self, claim: Claim, mapping: dict[Value, Linear]) -> Claim:
        needs = tuple(Need(n.poly.substituted(mapping), n.low, n.high, n.value,
                           tuple(u.substituted(mapping) for u in n.under)) for n in claim.needs)
        return Claim(claim.poly.substituted(mapping), needs)
