"""a phi that repeats another phi of its loop becomes an expression of that phi.

    head: %i = phi [0], [%i1]                 head: %i = phi [0], [%i1]
          %k = phi [0], [%k1]                       %k = mul %i, 64
    body: %i1 = add %i, 1               ->    body: %i1 = add %i, 1
          %k1 = mul %i1, 64                         ...

    head: %go = phi [true], [%more]           head: %go = icmp slt %i, %n     where %n > 0
    body: %more = icmp slt %i1, %n

The value that comes back is an expression of what other phis get and of what does not change; with
the phis themselves in their place it is the value at the header.  On entry it must be what the phi
began with: the same number or expression, or a condition that holds on the way to the loop.
Scalars only: a tile would be computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tritonc.analysis.conditions import OPPOSITE, first_turn, holds, same_value, stripped
from tritonc.analysis.values import defined_by, int_of, speculatable, wrap
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Tile, element, is_int

_MOST = 4  # operations that the header computes anew


def derive_phis(kernel: Kernel, context: Context) -> bool:
    """Do it for all loops."""
    cfg = Cfg(kernel)
    changed = False
    for loop in cfg.loops:
        if loop.preheader is not None and loop.latch is not None:
            for phi in loop.header.phis():
                changed |= derive(cfg, loop, phi, kernel)
            changed |= _plain_test(loop.header)
    return changed


def _plain_test(header: Block) -> bool:
    """What is the opposite of a comparison now becomes a comparison."""
    end = header.terminator
    if end.name != "cond_br":
        return False
    condition, odd = stripped(end.operands[0])
    test = defined_by(condition, "icmp")
    if test is None or condition is end.operands[0]:
        return False
    name = test.attributes["predicate"]
    end.operands = [Builder(header, len(header.ops) - 1, end.span).value(
        "icmp", *test.operands, predicate=OPPOSITE[name] if odd else name)]
    return True


def derive(cfg: Cfg, loop: Loop, phi: Op, kernel: Kernel) -> bool:
    """Replace one phi of a loop's header, if it can be computed there."""
    if isinstance(phi.result.type, Tile) or not is_int(phi.result.type):
        return False
    inside = set(loop.ops())
    after = {loop.next(other): other.result for other in loop.header.phis() if other is not phi}
    needed = _expression(loop.next(phi), inside, after)
    if not needed:
        return False
    start = loop.first(phi)
    mapping = dict(after)
    made = copy_ops(needed, mapping)
    value = mapping[loop.next(phi)]
    header = loop.header
    at = len(header.phis())
    header.ops[at:at] = made
    if not _starts_so(value, start, cfg, loop):
        del header.ops[at:at + len(made)]
        return False
    value.name = value.name or phi.result.name
    header.ops.remove(phi)
    kernel.replace({phi.result: value})
    return True


def _expression(value: Value, inside: set[Op], after: dict[Value, Value]) -> list[Op]:
    """The operations between phis' next values and `value`, in order; none if others take part, or
    if it is one of these itself."""
    found: list[Op] = []
    seen: set[Op] = set()
    moved = False

    def visit(v: Value) -> bool:
        nonlocal moved
        op = v.op
        if v in after and op in inside:
            moved = True
            return True
        if op is None or op not in inside or op in seen:
            return True
        if op.name == "phi" or not speculatable(op) \
                or isinstance(v.type, Tile) or len(op.results) != 1 or op.guard is not None:
            return False
        seen.add(op)
        if not all(visit(operand) for operand in op.operands):
            return False
        found.append(op)
        return True

    if value in after or not visit(value) or not moved or len(found) > _MOST:
        return []
    return found


def _starts_so(value: Value, start: Value, cfg: Cfg, loop: Loop) -> bool:
    """Whether `value`, at the header, is `start` when the loop begins."""
    assert loop.preheader is not None
    turn = first_turn(loop)
    if same_value(value, start, turn):
        return True
    number = int_of(start)
    if number is None:
        return False
    if element(start.type).bits == 1:
        return bool(number) and holds(value, cfg, loop.preheader, turn)
    return _number(value, turn.phis) == number


def _number(value: Value, phis: Mapping[Value, Value]) -> int | None:
    """The number that an expression has on entry, if that of the phis is known."""
    value = phis.get(value, value)
    known = int_of(value)
    op = value.op
    if known is not None or op is None or op.name not in _ARITHMETIC:
        return known
    numbers = [_number(v, phis) for v in op.operands]
    bits = element(value.type).bits
    if op.name == "mul" and 0 in numbers:
        return 0
    given = [n for n in numbers if n is not None]
    return wrap(_ARITHMETIC[op.name](*given), bits) if len(given) == len(numbers) else None


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "shl": lambda a, b: a << (b % 64)}
