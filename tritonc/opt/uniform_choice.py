"""What stands for a branch around work of tiles: the work, and a choice by the scalar condition.

    cond_br %c, a, d                      ->  %m1 = or %m, (splat (xor %c, true))
    a: %y = select %m, %x, -inf   br d        %y = select %m1, %x, -inf
    d: %z = phi [%x, ..], [%y, a]             (%z is %y)

A branch around the mask of a loop's last tile, around a bias or a factor that a flag asks for: what
the side does to the value that comes in otherwise is a mask that then holds, a factor that is 1,
a summand that is -0.  A mask or a number of rows or columns takes the condition where it is one."""

from collections.abc import Callable, Sequence
from math import prod

from tritonc.analysis.values import SPREADS, is_zero, speculatable
from tritonc.ir.build import Builder, make_op
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import I1, Tile, shape, with_element

# Products of halves that tensor cores do while threads do one operation of an element: 1024 in a
# cycle, and 128 (H100 white paper, table 3).
_PRODUCTS = 8
_SHAPING = ("broadcast", "reshape", "splat", "constant", "range", "cmpp")


def fits_beside(moved: Sequence[Op], phis: Sequence[Op], loop: Sequence[Block]) -> bool:
    """Whether the operations, and a choice for each phi of their results, may run in all iterations
    of a loop of these blocks, and take less time than its products.  Where threads read no product
    but the sum that the loop carries, they would wait for it in each iteration: not those then."""
    every = [op for block in loop for op in block.ops]
    dots = [op for op in every if op.name == "dot"]
    carried = {op.result for op in every if op.name == "phi" and isinstance(op.result.type, Tile)}
    sums = {dot for dot in dots if not is_zero(dot.operands[2])}
    for op in every:
        if op.name == "fadd" and not carried.isdisjoint(op.operands):
            sums |= {v.op for v in op.operands if v.op in dots}
    if len(sums) == len(dots) and any(v in carried or v.op in sums
                                      for op in moved for v in op.operands):
        return False
    work = 0
    for op in (*moved, *phis):
        if op.name in _SHAPING:
            continue
        memory = op.name in ("load", "store") and not op.attributes.get("volatile")
        if op.name != "phi" and not memory and not (
                op.guard is None and speculatable(op) and (op.info.elementwise or not any(
                    isinstance(v.type, Tile) for v in op.results))):
            return False
        work += sum(prod(shape(v.type)) for v in op.results or op.operands[:1])
    return work * _PRODUCTS <= sum(
        prod(shape(op.result.type)) * shape(op.operands[0].type)[-1] for op in dots)


def put_under(condition: Value, holds: bool, ops: Sequence[Op], build: Builder) -> None:
    """Place the operations of a side, whose accesses happen only where the condition says so."""
    for op in ops:
        if op.name in ("load", "store"):
            limit(op, condition if holds else _opposite(condition, build), build)
        build.insert(op)


def limit(op: Op, condition: Value, build: Builder) -> None:
    """Let an access happen only where a scalar condition holds, too."""
    under = _as(condition, op.operands[0], build)
    op.guard = under if op.guard is None else build.value("and", op.guard, under)


def choose(condition: Value, a: Value, b: Value, build: Builder) -> Value:
    """a where the condition holds, else b."""
    if not isinstance(a.type, Tile):
        return build.value("select", condition, a, b)
    return _changed(condition, True, a, b, build) or _changed(condition, False, b, a, build) or \
        build.value("select", _as(condition, a, build), a, b)


def _changed(condition: Value, holds: bool, new: Value, old: Value, build: Builder) -> Value | None:
    """The new value as one operation on the old one that changes nothing where the condition says
    that the old one stays."""
    op = new.op
    if op is None or op.name not in ("select", "fmul", "fadd") or old not in op.operands[-2:]:
        return None
    if op.name == "select":
        mask, one, other = op.operands
        stays = _opposite(condition, build) if holds else condition
        if old is other:  # the mask says where it changes
            stays = condition if holds else _opposite(condition, build)
        kind = "or" if old is one else "and"
        mask = _at_source(mask, build, lambda m: build.value(kind, m, _as(stays, m, build)))
        return build.value("select", mask, one, other)
    by = op.operands[1] if op.operands[0] is old else op.operands[0]
    neutral = 1.0 if op.name == "fmul" else -0.0

    def chosen(v: Value) -> Value:
        sides = v, build.constant(neutral, v.type)
        return build.value("select", _as(condition, v, build), *(sides if holds else sides[::-1]))
    return build.value(op.name, old, _at_source(by, build, chosen), **op.attributes)


def _at_source(value: Value, build: Builder, change: Callable[[Value], Value]) -> Value:
    """The value changed where it was not repeated yet."""
    op = value.op
    if op is None or op.name not in SPREADS:
        return change(value)
    again = make_op(op.name, [_at_source(op.operands[0], build, change)], value.type)
    build.insert(again)
    return again.result


def _as(condition: Value, like: Value, build: Builder) -> Value:
    mask = with_element(like.type, I1)
    return build.value("splat", condition, type=mask) if isinstance(mask, Tile) else condition


def _opposite(condition: Value, build: Builder) -> Value:
    return build.value("xor", condition, build.constant(True, I1))
