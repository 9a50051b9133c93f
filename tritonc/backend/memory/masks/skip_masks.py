"""skip_masks: a mask that holds for all elements of most tiles is tested for the whole tile.

Before:  body: ...                               After:  body: %full = icmp n + 127 < %S
               %m = icmp %n + range, %S                        cond_br %full, rest, masked
               %t = select %m, %s, -inf              masked: %m = icmp %n + range, %S
               ...                                             %t1 = select %m, %s, -inf
                                                               br rest
                                                       rest: %t = phi [%s, body], [%t1, masked]

The keys past a sequence's end, or those after a row in a causal mask, are in the last tiles of a
loop only.  There is one loop still, and the branch is the same for all threads.

A comparison of integers holds for the whole tile if it holds between the greatest element of one
side and the least of the other, which affine forms name.  They count in unbounded integers: the
test is made in 64 bits, and where an element could have wrapped the mask is computed.  Of `or`, as
with a prefix that all rows see, one side that holds everywhere is enough.

Needs layouts, and that no pass that wants loops of one block comes later.
"""

from __future__ import annotations

from functools import reduce

from tritonc.analysis.affine import Affinity
from tritonc.analysis.linear import Linear, emit, number
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, make_phi, split
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import I1, I32, I64, Tile, scalar, shape

ENOUGH = 16  # registers of the tile: fewer selects cost no more than the branch
MOST_WAYS = 4  # in which a mask may hold for a whole tile
SMALL = 1 << 20  # coefficients of the sums, so that they stay within 64 bits
LEAST, GREATEST = -(1 << 31), (1 << 31) - 1
_PASSED = ("and", "or", "broadcast", "reshape", "convert_layout", "cmpp")


def skip_masks(kernel: Kernel, context: Context) -> bool:
    """Branch around the selections of which a scalar test says that they change nothing."""
    inside = {block for loop in Cfg(kernel).loops for block in loop.blocks}
    affinity = Affinity()
    changed = False
    for block in list(kernel.blocks):
        if block not in inside:
            continue
        for op in list(block.ops):
            ways = _whole(op, affinity)
            if ways:
                block = _branch(kernel, block, op, ways)
                changed = True
    return changed


def _whole(op: Op, affinity: Affinity) -> list[list[Linear]]:
    """Lists of sums.  All of one list are negative only if the selection gives its second operand
    everywhere."""
    t = op.results[0].type if op.results else None
    if op.name != "select" or not isinstance(t, Tile) or t.layout is None \
            or t.layout.registers < ENOUGH or not shape(op.operands[0].type):
        return []
    return _ways(op.operands[0], affinity)


def _ways(value: Value, affinity: Affinity) -> list[list[Linear]]:
    """The same of a mask that holds everywhere: of `or`, one side that does is enough."""
    mask = value.op
    if mask is None or (mask.name not in _PASSED and mask.name != "icmp"):
        return []
    if mask.name == "icmp":
        sums = _comparison(mask, affinity)
        return [sums] if sums is not None else []
    if value is not mask.results[0]:
        return []
    sides = [_ways(v, affinity) for v in mask.operands]
    if mask.name == "and":
        found = [a + b for a in sides[0] for b in sides[1]]
    else:
        found = [way for side in sides for way in side]
    return found[:MOST_WAYS]


def _comparison(op: Op, affinity: Affinity) -> list[Linear] | None:
    """Sums that are negative only if `a < b` holds for all elements, and none of them wraps."""
    a, b = (affinity.of(v) for v in op.operands)
    predicate, t = op.attributes["predicate"], op.operands[0].type
    if a is None or b is None or a.base or b.base or scalar(t) != I32:
        return None
    if predicate in ("sgt", "sge"):
        a, b = b, a
    elif predicate not in ("slt", "sle"):
        return None
    ends_a, ends_b, difference = (form.extremes(shape(t)) for form in (a, b, a - b))
    if ends_a is None or ends_b is None or difference is None:
        return None
    sums = [difference[1] - number(predicate in ("sle", "sge"))]
    for side, (low, high) in ((a, ends_a), (b, ends_b)):
        if len(side.offset.terms) == 1 and not any(s.terms for s in side.strides) \
                and side.offset.terms[0][1] == 1 and len(side.offset.terms[0][0]) == 1:
            continue  # one value, which is what it is
        sums += [number(LEAST - 1) - low, high - number(GREATEST + 1)]
    return sums if all(map(_small, sums)) else None


def _small(total: Linear) -> bool:
    """Whether the sum of 32-bit values stays within 64 bits."""
    return all(len(monomial) <= 1 and (not monomial or abs(n) < SMALL)
               and all(scalar(v.type).bits <= 32 for v in monomial)
               for monomial, n in total.terms)


def _branch(kernel: Kernel, block: Block, select: Op, ways: list[list[Linear]]) -> Block:
    """Split the block at the selection.  Returns its second half."""
    masked, rest = Block(f"{block.name}.masked"), Block(f"{block.name}.rest")
    at = block.ops.index(select)
    before = block.ops[:at]
    tested = {v for tests in ways for total in tests for monomial, _ in total.terms
              for v in monomial}
    sunk = _only_for(select, before, kernel, tested)
    split(block, at + 1, rest)
    block.ops = [op for op in before if op not in sunk]
    masked.ops = [*(op for op in before if op in sunk), select]
    Builder(masked).emit("br", blocks=[rest])
    b = Builder(block, span=select.span)
    zero = b.constant(0, I64)
    held: dict[Linear, Value] = {}
    whole: list[Value] = []
    for tests in ways:
        full = b.constant(True, I1)
        for i, total in enumerate(t for t in dict.fromkeys(tests)
                                  if t.constant is None or t.constant >= 0):
            if total not in held:
                held[total] = b.value("icmp", emit(b, total, I64), zero, predicate="slt")
            full = b.value("and", full, held[total]) if i else held[total]
        whole.append(full)
    b.emit("cond_br", reduce(lambda one, other: b.value("or", one, other), whole),
           blocks=[rest, masked])
    joined = make_phi([select.operands[1], select.result], [block, masked], select.result.name)
    place = kernel.blocks.index(block) + 1
    kernel.blocks[place:place] = [masked, rest]
    kernel.replace({select.result: joined.result})
    joined.operands[1] = select.result
    rest.ops.insert(0, joined)
    return rest


def _only_for(select: Op, before: list[Op], kernel: Kernel, tested: set[Value]) -> set[Op]:
    """The pure operations before the selection that only its mask and its last operand need, and
    not the test, which reads the values `tested`."""
    readers, found, kept = uses(kernel), {select}, {select.operands[1], *tested}
    for op in reversed(before):
        if op.name != "phi" and op.pure and op.results and all(
                reader in found for r in op.results for reader in readers.get(r, [])
                ) and kept.isdisjoint(op.results):
            found.add(op)
    return found - {select}
