"""Loops whose iterations several blocks can share: which they are, and what of them is a sum.

    pre:    br header
    header: %k = phi [%k0, pre], [%k', latch]          a counter: %k' = %k + an invariant step
            %s = phi [%s0, pre], [%s', latch]          a sum: %s' = %s + what the iteration gives
            %r = phi [%r0, pre], [%r', latch]          a scalar that follows from the others:
            cond_br %k < %n, body, exit                %r' = select %c, %r, %r + 1
    exit:   uses of %s, and of nothing else that the loop makes

The iterations may run in any order and in several blocks if all that they leave is sums: nothing in
the loop stores, prints or is volatile, and counters are read inside alone.  A sum is a chain from
the header's phi to its next value, of which nothing else is read: of dots and additions, or of
another operation by which elements are reduced, such as fmax."""

from tritonc.analysis.values import int_of, speculatable
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.ops import READ, SWAPPED
from tritonc.ir.rules import REDUCTIONS
from tritonc.ir.types import I32, I64, Scalar, Tile, element, is_float
from tritonc.records import NamedTuple

_UP, _DOWN = ("slt", "sle", "ult", "ule"), ("sgt", "sge")


class Counter(NamedTuple):
    """A phi that moves by the same step in each iteration; `next` is its value in the next one."""

    phi: Op
    next: Op
    step: Value


class SharedLoop(NamedTuple):
    """A loop whose iterations blocks can share.  `others` are scalars of the header that `steps`
    compute anew from each other: counters of loops that have become one."""

    loop: Loop
    preheader: Block
    latch: Block
    exit: Block
    counters: tuple[Counter, ...]
    sums: tuple[Op, ...]  # phis of the header
    others: tuple[Op, ...] = ()
    steps: tuple[Op, ...] = ()


def shared_loop(cfg: Cfg, readers: dict[Value, list[Op]], loop: Loop) -> SharedLoop | str:
    """The loop as one that blocks can share, or what is in the way."""
    if loop.parent is not None or loop.preheader is None or loop.latch is None:
        return "the loop is nested in another loop, or has several entries"
    if not loop.one_exit:
        return "the loop has several exits"
    exit_block = loop.exits[0][1]
    if cfg.predecessors[exit_block] != [loop.header] or exit_block.phis():
        return "other paths join behind the loop"
    inside = set(loop.ops())
    for op in inside:
        row = op.info
        if not row.terminator and (row.effects - {READ} or op.attributes.get("volatile")):
            return f"the loop contains a {op.name}, whose order matters"
    counters, sums, others = [], [], []
    for phi in loop.header.phis():
        counter = _counter(phi, loop, inside)
        if counter is not None and all(op in inside for op in readers.get(phi.result, ())):
            counters.append(counter)
        elif _is_sum(phi, loop, inside, readers):
            sums.append(phi)
        elif all(op in inside for op in readers.get(phi.result, ())):
            others.append(phi)
        else:
            return f"'{phi.result.name}' is neither a counter nor a sum"
    steps = _steps(loop, counters, others, inside)
    if isinstance(steps, str):
        return steps
    if not sums:
        return "the loop accumulates nothing"
    for op in inside:
        if op not in sums and any(reader not in inside for result in op.results
                                  for reader in readers.get(result, ())):
            return "a value of an iteration is used behind the loop"
    if not _ends_for_all(loop, counters, inside, others):
        return "the loop's condition does not compare a counter with a bound"
    return SharedLoop(loop, loop.preheader, loop.latch, exit_block, tuple(counters), tuple(sums),
                      tuple(others), tuple(steps))


def _steps(loop: Loop, counters: list[Counter], others: list[Op], inside: set[Op]
           ) -> list[Op] | str:
    """What computes the next values of scalars from those that they have now, in order; or which of
    them follows from something else.  A counter that they follow from is one of them."""
    needed: set[Op] = set()
    stack = [(phi, loop.next(phi)) for phi in others]
    while stack:
        phi, value = stack.pop()
        op = value.op
        if op not in inside or op is None or op in needed or op in others:
            continue
        counter = next((c for c in counters if c.phi is op), None)
        if counter is not None:
            counters.remove(counter)
            others.append(op)
            stack.append((op, loop.next(op)))
            continue
        if isinstance(value.type, Tile) or not speculatable(op):
            return f"'{phi.result.name}' is neither a counter nor a sum"
        needed.add(op)
        stack += [(phi, v) for v in op.inputs()]
    return [op for op in loop.ops() if op in needed]


def _counter(phi: Op, loop: Loop, inside: set[Op]) -> Counter | None:
    following = loop.next(phi).op
    if following is None or following not in inside or following.name not in (
            "add", "sub", "addptr"):
        return None
    base, step = following.operands
    if following.name == "add" and step is phi.result:
        base, step = step, base
    if base is not phi.result or step.op in inside or element(step.type) not in (I32, I64):
        return None
    return Counter(phi, following, step)


def _is_sum(phi: Op, loop: Loop, inside: set[Op], readers: dict[Value, list[Op]]) -> bool:
    """Whether the loop only adds to the phi, in every iteration."""
    e, kind = element(phi.result.type), kind_of_sum(loop, phi)
    if not isinstance(e, Scalar) or e.bits not in (32, 64) or kind not in REDUCTIONS or (
            kind == "fmul"):  # floats are not multiplied in another order
        return False
    value, last = phi.result, loop.next(phi)
    while value is not last:
        found = [op for op in readers.get(value, ()) if op in inside]
        if len(found) != 1 or (value is not phi.result and len(readers[value]) != 1):
            return False
        (op,) = found
        if kind not in (op.name, _added(op)) or op.guard is not None:
            return False
        if op.operands.count(value) != 1 or (op.name == "dot" and op.operands[2] is not value):
            return False
        value = op.result
    return [op for op in readers.get(last, ()) if op is not phi] == [] and last is not phi.result


def _ends_for_all(loop: Loop, counters: list[Counter], inside: set[Op], others: list[Op]) -> bool:
    """Whether once the loop's test fails, it fails for every later value of the counter."""
    end = loop.header.terminator
    if end.name != "cond_br" or end.blocks[0] not in loop:
        return False
    tests = [end.operands[0]]
    for value in tests:  # which grows
        if value.op is not None and value.op.name == "and" and value.op in inside:
            tests += value.op.operands
    tests = [v for v in tests if v.op in inside and v.op is not None and v.op.name != "and"]
    return bool(tests) and all(_stays_false(loop, v.op, counters, inside, others) for v in tests
                               if v.op is not None)


def _stays_false(loop: Loop, test: Op, counters: list[Counter], inside: set[Op],
                 others: list[Op]) -> bool:
    if test.name != "icmp":
        return False
    (a, b), relation = test.operands, test.attributes["predicate"]
    for value, bound, predicate in ((a, b, relation), (b, a, SWAPPED[relation])):
        if bound.op in inside:
            continue
        if value.op in others and predicate in _UP and _rises(loop, value.op):
            return True
        counter = next((c for c in counters if c.phi.result is value), None)
        if counter is None:
            continue
        step = int_of(counter.step)
        if step is None or counter.next.name == "addptr":
            return False
        step = -step if counter.next.name == "sub" else step
        return (step > 0 and predicate in _UP) or (step < 0 and predicate in _DOWN)
    return False


def _rises(loop: Loop, phi: Op) -> bool:
    """Whether its next value is the same, or more by a number."""
    stack = [loop.next(phi)]
    while stack:
        value = stack.pop()
        op = value.op
        if value is phi.result:
            continue
        if op is not None and op.name == "select":
            stack += op.operands[1:]
        elif op is None or op.name != "add" or op.operands[0] is not phi.result or not _positive(
                op.operands[1]):
            return False
    return True


def _positive(value: Value) -> bool:
    """Whether it is a number above 0, or one of two."""
    number, op = int_of(value), value.op
    if number is None and op is not None and op.name == "select":
        return all(map(_positive, op.operands[1:]))
    return (number or 0) > 0


def kind_of_sum(loop: Loop, phi: Op) -> str:
    """How parts of the sum that a loop carries are combined: a reduction's kind, if it is one."""
    op = loop.next(phi).op
    return "" if op is None else _added(op) or op.name


def _added(op: Op) -> str:
    """How a product is added to what it accumulates."""
    return "" if op.name != "dot" else "fadd" if is_float(op.result.type) else "add"
