"""Whether each access of a kernel stays in its buffer, whatever the sizes are.

A proof of one access takes the accesses before it to be in bounds: a number that is read from
outside of a table may be any.  So `proved` of all accesses says that none is ever out of bounds."""

from dataclasses import field

from tritonc.analysis.linear import Linear, number, symbol
from tritonc.ir.core import ConstantTable, Op
from tritonc.ir.types import Pointer, element, shape
from tritonc.prove.certificates import entailed
from tritonc.prove.claims import Index, Need, Term, symbols_of
from tritonc.prove.model import Symbol
from tritonc.prove.points import Points, State
from tritonc.prove.terms import Terms
from tritonc.records import dataclass

Z3 = "with z3"
PROVED, REFUTED, UNKNOWN = "proved", "refuted", "unknown"
ACCESSES = ("load", "store", "atomic_rmw", "atomic_cas")


@dataclass
class Verdict:
    """What is found of one question; `fact`: what is missing, the witness, or how it was proved."""

    verdict: str
    fact: str = ""


@dataclass
class Access:
    """A load, store or atomic operation, and the buffer that it reaches."""

    op: Op
    buffer: str
    verdict: Verdict
    index: Index = ()
    term: Term | None = None
    state: State | None = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        return {"load": "load of", "store": "store to"}.get(self.op.name, "atomic operation on")

    @property
    def writes(self) -> bool:
        return self.op.name != "load" and self.op.attributes.get("kind") != "load"


def index_of(op: Op) -> Index:
    """Symbols for an element of the access."""
    return tuple(symbol(Symbol(f"element[{d}]", own=True)) if n > 1 else Linear()
                 for d, n in enumerate(shape(op.operands[0].type)))


def prove_accesses(terms: Terms, constants: list[ConstantTable]) -> list[Access]:
    """A verdict for each access of the kernel, in its order."""
    points = Points(terms)
    reached = {op for block in terms.cfg.order for op in block.ops}
    return [_prove(terms, points, constants, op) for op in terms.kernel.ops()
            if op.name in ACCESSES and op in reached]


def _prove(terms: Terms, points: Points, constants: list[ConstantTable], op: Op) -> Access:
    index = index_of(op)
    term = terms.at(op.operands[0], index)
    if term.base is None:
        return Access(op, "?", Verdict(UNKNOWN, "which buffer this address is in"), index)
    state = points.state(op, index)
    name, size, pad, why = _extent(terms, constants, term)
    access = Access(op, name, Verdict(PROVED), index, term, state)
    state.absorb(symbols_of([term.poly, *(n.poly for n in term.needs)]))
    state.settle()
    if size is None:
        access.verdict = Verdict(UNKNOWN, why)
        return access
    state.absorb(symbols_of([size]))
    goals = [(goal, need.under, missing(need)) for need in term.needs
             for goal in (need.poly - number(need.low), number(need.high) - need.poly)]
    pointed = element(op.operands[0].type)
    assert isinstance(pointed, Pointer)
    width_bytes = pointed.element.bytes
    at = term.poly.scaled(width_bytes)
    room = pad if op.name == "load" else 0
    place = show(term.poly)
    goals += [(at + number(room), (), f"that {place} >= {-(room // width_bytes)}" + also(state)),
              (size - number(width_bytes - room) - at, (), f"that {place} is below the number of "
               f"its elements, {show(size.divided(number(width_bytes)) or size)}" + also(state))]
    for goal, under, what in goals:
        if state.proves(goal, under):
            continue
        if not entailed([*state.facts, *under], state.splits, goal):
            access.verdict = Verdict(UNKNOWN, what)
            return access
        access.verdict.fact = Z3
    return access


def _extent(terms: Terms, constants: list[ConstantTable], term: Term
            ) -> tuple[str, Linear | None, int, str]:
    """The name of the buffer, its bytes, those past its ends that may be read, what is missing."""
    base = term.base
    assert base is not None
    if base.op is not None:
        table = next(t for t in constants if t.name == base.op.attributes["symbol"])
        return table.name, number(table.count * table.element.bytes), 0, ""
    array = terms.model.arrays[base]
    if array.count is None:
        return array.name, None, 0, f"how many elements '{array.name}' has, from its arg: line"
    return array.name, array.count.scaled(array.element_bytes), array.pad, ""


def missing(need: Need) -> str:
    """A need in a reader's words."""
    if need.low == 0:
        return f"that {show(need.poly)} is not negative, nor above {need.high}"
    if need.low == 1:
        return f"that {show(need.poly)} is positive"
    return f"that {show(need.poly)} fits {(need.high - need.low).bit_length()} bits"


def also(state: State) -> str:
    """The first need without which a condition could not be used."""
    return next((f"; and {missing(need)}" for need in state.missing), "")


def show(poly: Linear) -> str:
    """A polynomial as the source could have it.

    >>> show(number(3) - symbol(Symbol("M")).scaled(2))
    '3 - 2*M'
    """
    text = ""
    for monomial, n in sorted(poly.terms, key=lambda t: (t[1] < 0, len(t[0]) == 0)):
        factors = [v.name for v in monomial]
        if abs(n) != 1 or not factors:
            factors.insert(0, str(abs(n)))
        text += (" - " if n < 0 else " + ") + "*".join(factors)
    text = text.removeprefix(" + ")
    return "-" + text[3:] if text.startswith(" - ") else text or "0"

