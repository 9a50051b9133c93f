"""Whether two instances can touch one byte, of buffers that a kernel stores to.

Two copies of what holds at an access stand for two instances: sizes are the same in both, indices,
counters and what tables hold are each one's own.  The instances differ along some axis of the grid,
and not along those before it; with equal addresses that has to be a contradiction.  Where it takes
rows and columns apart, the cases "this index is less, equal, greater" are looked at one by one.

Atomic operations may meet each other; so buffers that nothing else stores to are left out."""

from itertools import combinations_with_replacement

from tritonc.analysis.linear import Linear, symbol
from tritonc.ir.core import Value
from tritonc.ir.types import Pointer, element
from tritonc.prove.accesses import PROVED, UNKNOWN, Z3, Access, Verdict
from tritonc.prove.certificates import entailed, entails
from tritonc.prove.claims import ONE
from tritonc.prove.model import Symbol
from tritonc.prove.terms import Terms
from tritonc.records import dataclass

_CASES = 3  # pairs of indices that are compared within each other


@dataclass
class Sharing:
    """Of one buffer: whether two instances touch one of its bytes, and one of them stores there."""

    buffer: str
    verdict: Verdict


def prove_apart(terms: Terms, found: list[Access]) -> list[Sharing]:
    """A verdict for each buffer that is stored to."""
    unknown = [a for a in found if a.writes and a.buffer == "?"]
    written = dict.fromkeys(a.buffer for a in found if a.writes and a.op.name == "store")
    verdicts = []
    for buffer in written:
        near = [a for a in found if a.buffer == buffer]
        if unknown:
            verdict = Verdict(UNKNOWN, "which buffer a store goes to")
        else:
            verdict = _apart(terms, near)
        verdicts.append(Sharing(buffer, verdict))
    return verdicts


def _apart(terms: Terms, near: list[Access]) -> Verdict:
    if any(a.verdict.verdict != PROVED for a in near):
        return Verdict(UNKNOWN, "that all of its accesses are in bounds")
    how = ""
    for a, b in combinations_with_replacement(near, 2):
        atomic = {"load", "store"}.isdisjoint((a.op.name, b.op.name))
        if atomic or not (a.writes or b.writes):
            continue
        proofs: list[str] = []
        if not _disjoint(terms, a, b, proofs):
            where = "" if a is b else " and another access"
            return Verdict(UNKNOWN, f"that the {a.kind} {a.buffer}{where} touches other "
                           "elements in each instance")
        how = how or "".join(proofs[:1])
    return Verdict(PROVED, how)


def _disjoint(terms: Terms, a: Access, b: Access, proofs: list[str]) -> bool:
    """Whether no element of `a` in one instance is one of `b` in another."""
    if a.term is None or b.term is None or a.state is None or b.state is None:
        return False
    widths = [t.element.bytes for t in (element(v.op.operands[0].type) for v in (a, b))
              if isinstance(t, Pointer)]
    if widths[0] != widths[1]:
        return False
    other: dict[Value, Linear] = {}
    facts = [*a.state.facts, *(_other(f, other) for f in b.state.facts)]
    difference = a.term.poly - _other(b.term.poly, other)
    for axis in range(3):
        mine = terms.program(axis)
        theirs = _other(mine, other)
        if entails(facts, theirs - mine) and entails(facts, mine - theirs):
            continue  # an axis of one instance
        ways = [theirs - mine - ONE] if a is b else [theirs - mine - ONE, mine - theirs - ONE]
        for way in ways:
            if _contradicts([*facts, way], difference, _pairs(difference), _CASES):
                continue
            if not entailed([*facts, way, difference], a.state.splits, difference - ONE):
                return False
            proofs.append(Z3)
        facts += [theirs - mine, mine - theirs]
    return True


def _contradicts(facts: list[Linear], difference: Linear, pairs: list[Linear], depth: int) -> bool:
    """Whether the facts do not allow a difference of 0."""
    if entails([*facts, difference], difference - ONE):
        return True
    if not depth or not pairs:
        return False
    first, *rest = pairs
    return all(_contradicts([*facts, *case], difference, rest, depth - 1) for case in (
        [first, first.scaled(-1)], [first - ONE], [first.scaled(-1) - ONE]))


def _pairs(difference: Linear) -> list[Linear]:
    """x - y for symbols that have the same factor with opposite signs, longer factors first."""
    found: list[tuple[int, Linear]] = []
    for m, n in difference.terms:
        for o, k in difference.terms:
            if n <= 0 or k != -n or len(m) != len(o):
                continue
            left = [v for v in m if v not in o]
            right = [v for v in o if v not in m]
            if len(left) == len(right) == 1:
                pair = symbol(left[0]) - symbol(right[0])
                if all((pair - p).terms for _, p in found):
                    found.append((len(m) * (1 << 20) + min(n, 1 << 19), pair))
    return [pair for _, pair in sorted(found, key=lambda f: -f[0])]


def _other(poly: Linear, mapping: dict[Value, Linear]) -> Linear:
    """The polynomial as it is in another instance."""
    for v in poly.values():
        if v not in mapping and isinstance(v, Symbol) and v.own:
            mapping[v] = symbol(Symbol(v.name + "'", own=True))
    return poly.substituted(mapping)
