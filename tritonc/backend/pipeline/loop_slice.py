"""Running part of a loop ahead of the rest: slices of a loop's body, and their copies.

A slice is what a set of values needs inside a loop: pure operations and loads, the header's phis,
and what those phis become in the next iteration.  A slice that is closed in this way can be copied:
with the phis replaced by their initial values it computes the values of the first iteration, with
the phis replaced by their next values those of the next one."""

from collections.abc import Iterable

from tritonc.analysis.counters import step_of
from tritonc.analysis.facts import full
from tritonc.analysis.values import int_of, needed
from tritonc.backend.pipeline.safe_divisors import never_zero
from tritonc.ir.cfg import Loop, incoming
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.ops import READ
from tritonc.ir.types import Scalar
from tritonc.records import dataclass

MOST_AHEAD = 16  # iterations that a pipeline may be ahead, and one more


@dataclass
class Slice:
    """`ops` in program order; `phis` of the header that they read, now or in the next iteration."""

    loop: Loop
    ops: list[Op]
    phis: list[Op]

    @property
    def loads(self) -> list[Op]:
        return [op for op in self.ops if op.name == "load"]


def find_slice(loop: Loop, values: Iterable[Value], always: set[Block],
               comes: bool = False, once: bool = False) -> Slice | None:
    """The closed slice of `values` in the loop, or None if there is none to copy.

    Only operations of `always` (blocks that every iteration runs) take part, and only those that
    may run for an iteration that does not come: pure ones that cannot trap and promise nothing, and
    loads, which the caller guards.  A slice that needs anything else does not exist.  `comes`: the
    slice will run for iterations that come only, and has no loads.  `once`: it is advanced by one
    iteration alone, for which phis that the next values are computed from have the present ones."""
    home = {result: block for block in loop.blocks for op in block.ops for result in op.results}
    wanted: set[Op] = set()
    phis: dict[Op, None] = {}
    stack, later = list(values), list[Value]()
    latch = loop.latch
    if latch is None:
        return None
    while stack or later:
        present = once and not stack
        value = stack.pop() if stack else later.pop()
        op, block = value.op, home.get(value)
        if op is None or block is None or op in wanted:
            continue
        if op.name == "phi":
            if block is not loop.header:
                return None
            if present:
                continue
            wanted.add(op)
            phis[op] = None
            (later if once else stack).append(incoming(op, latch))
            continue
        if block not in always or not (op.pure if comes else _may_run_early(op)):
            return None
        wanted.add(op)
        (later if present else stack).extend(op.inputs())
    ordered = [op for op in loop.ops() if op in wanted and op.name != "phi"]
    return Slice(loop, ordered, [op for op in loop.header.phis() if op in phis])


def _may_run_early(op: Op) -> bool:
    if op.name == "assume_multiple":
        return False
    if op.info.may_trap:
        return never_zero(op.operands[-1])
    return op.pure or (op.effects == {READ} and not op.attributes.get("volatile"))


def stays_false(condition: Value, part: Slice) -> bool:
    """Whether the loop's condition, once false, is false for the next MOST_AHEAD iterations too.

    It is if it does not change, or compares a counter with a constant from which it moves away."""
    op = condition.op
    if not any(op in block.ops for block in part.loop.blocks):
        return True
    if op is None or op.name != "icmp":
        return False
    phi, bound = op.operands[0].op, int_of(op.operands[1])
    step = step_of(part.loop, phi) if phi is not None and phi in part.phis else None
    if phi is None or bound is None or step is None or not isinstance(phi.result.type, Scalar):
        return False
    least, greatest = full(phi.result.type.bits)
    away = step > 0 if op.attributes["predicate"] in ("slt", "sle") else step < 0
    return (op.attributes["predicate"] in ("slt", "sle", "sgt", "sge") and away
            and least <= bound + MOST_AHEAD * step <= greatest)


def initial_values(part: Slice) -> dict[Value, Value]:
    """Each phi of the slice -> its value on entry to the loop."""
    return {phi.result: part.loop.first(phi) for phi in part.phis}


def advance(part: Slice, mapping: dict[Value, Value]) -> tuple[list[Op], dict[Value, Value]]:
    """One iteration of the slice's phis: operations, and each phi -> its next value.

    `mapping` gives the phis' present values (and is extended by the copies)."""
    latch = part.loop.latch
    assert latch is not None
    after = [incoming(phi, latch) for phi in part.phis]
    made = copy_ops(needed(part.ops, after), mapping)
    return made, {phi.result: mapping.get(value, value)
                  for phi, value in zip(part.phis, after, strict=True)}
