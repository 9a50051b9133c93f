"""What a loop picks: the least element that it meets, and where that was.

    head: %b = phi [%b0], [%b1]        body: %less = fcmp %v, %b {predicate = olt}
          %w = phi [%w0], [%w1]              %b1 = select %less, %v, %b
                                             %w1 = select %less, %i, %w

Of several picks from the same start, one from each share of the iterations, the least element is
the pick of all; of equal ones the one that came first, which the number of the iteration tells.  So
one of the values that are picked has to be a counter.  A pick that is still the start equals no
other: what is picked is less, and a NaN less than nothing."""

from tritonc.analysis.counters import Counter
from tritonc.analysis.loop_totals import Readers
from tritonc.analysis.values import origin
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Loop
from tritonc.ir.combiner import write
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.ops import SWAPPED
from tritonc.ir.types import Tile, is_float, scalar
from tritonc.records import NamedTuple

_STRICT = ("olt", "ogt", "slt", "sgt", "ult", "ugt")
_COUNTED = frozenset("splat broadcast reshape sext".split())


class Pick(NamedTuple):
    """The phis, those of the element and of the counter by their places, the comparison, and its
    predicate, the new element on the left."""

    phis: tuple[Op, ...]
    element: int
    place: int
    test: Op
    predicate: str


def picks_of(loop: Loop, counter: Counter, readers: Readers) -> list[Pick]:
    """The picks of a loop, which nothing else in it reads."""
    inside, groups = set(loop.ops()), dict[Value, list[Op]]()
    for phi in loop.header.phis():
        made = loop.next(phi).op
        if made is not None and made.name == "select" and made in inside and (
                made.operands[2] is phi.result and readers[made.result] == [phi]):
            groups.setdefault(made.operands[0], []).append(phi)
    found = (_pick(condition, phis, loop, counter, readers) for condition, phis in groups.items())
    return [pick for pick in found if pick is not None]


def _pick(condition: Value, phis: list[Op], loop: Loop, counter: Counter, readers: Readers
          ) -> Pick | None:
    test, inside = condition.op, set(loop.ops())
    if test is None or test.name not in ("fcmp", "icmp") or test not in inside:
        return None
    made = [select for phi in phis if (select := loop.next(phi).op) is not None]
    new, old, predicate = *test.operands, test.attributes["predicate"]
    element = next((i for i, phi in enumerate(phis) if phi.result in test.operands), None)
    place = next((i for i, select in enumerate(made)  # the counter, in as many bits or more
                  if origin(select.operands[1], _COUNTED) is counter.phi.result), None)
    if element is None or place in (None, element) or set(readers[condition]) != set(made):
        return None
    if old is not phis[element].result:
        new, old, predicate = old, new, SWAPPED[predicate]
    if predicate not in _STRICT or made[element].operands[1] is not new or any(
            {op for op in readers[phi.result] if op in inside} - {select, test}
            or (select.operands[1] is phi.result) or (phi.result in test.operands) != (i == element)
            or not isinstance(phi.result.type, Tile)
            for i, (phi, select) in enumerate(zip(phis, made, strict=True))):
        return None
    assert place is not None
    return Pick(tuple(phis), element, place, test, predicate)


def first_of(pick: Pick, step: int) -> str:
    """The function that combines two picks to one."""
    types = [scalar(phi.result.type) for phi in pick.phis]
    b, parameters = Builder(Block("entry")), [Value(t) for t in (*types, *types)]
    before, behind = parameters[:len(types)], parameters[len(types):]
    floats = is_float(types[pick.element])

    def compare(name: str, at: int, predicate: str) -> Value:
        return b.value(name, behind[at], before[at], predicate=predicate)

    less = compare("fcmp" if floats else "icmp", pick.element, pick.predicate)
    same = compare("fcmp" if floats else "icmp", pick.element, "oeq" if floats else "eq")
    first = compare("icmp", pick.place, "slt" if step > 0 else "sgt")
    taken = b.value("or", less, b.value("and", same, first))
    results = [b.value("select", taken, two, one) for one, two in zip(before, behind, strict=True)]
    return write(parameters, b.block.ops, results, True)

