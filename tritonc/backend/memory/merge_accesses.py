"""merge_accesses: the stores in both branches of a tile's `if` become one store.

Before:  %p, %q = cmpp %c                     After:  %v = select %p, %a, %b
         @%p store %y, %a                             store %y, %v
         @%q store %y, %b

The predicates depend on data, so that each of the two stores would move single elements; together
they write every element, or all that a common mask allows, in words.

The stores must follow each other with no access of memory between, to the same tile of pointers, of
which no two are equal: then no element of one store may overwrite another element's of the other.
Guards are taken as conjunctions of predicates that must differ in one, which is opposite."""

from tritonc.analysis.axis import axis_info
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Tile

Literal = tuple[Value, bool]  # a condition, and whether it holds or not


def merge_accesses(kernel: Kernel, context: Context) -> bool:
    """Merge pairs of stores under opposite predicates."""
    changed = False
    for block in kernel.blocks:
        changed |= _merge_stores(kernel, block, context)
    return changed


def _merge_stores(kernel: Kernel, block: Block, context: Context) -> bool:
    ops: list[Op] = []
    last: Op | None = None  # the last access of memory, if it is a store that may be merged
    for op in block.ops:
        same = last is not None and op.name == "store" and last.attributes == op.attributes \
            and last.operands[0] is op.operands[0] and isinstance(op.operands[0].type, Tile) \
            and not op.attributes.get("release")
        parts = _opposite(last, op) if last is not None and same else None
        if parts is None or last is None:
            ops.append(op)
            if op.name == "store" or not op.pure:
                last = op if op.name == "store" else None
        elif not axis_info.distinct(axis_info.analyze(kernel), op.operands[0]):
            context.remark("merge_accesses", "two stores under opposite conditions are not merged: "
                           "several elements of the tile may have the same address", op.span,
                           missed=True)
            ops.append(op)
            last = op
        else:
            ops.remove(last)
            ops += _merged(last, op, *parts)
            context.remark("merge_accesses", "two stores under opposite conditions are merged "
                           "into one", op.span)
            last = ops[-1]
    changed = ops != block.ops
    block.ops = ops
    return changed


def _literals(guard: Value | None) -> dict[Literal, Value]:
    """The guard as a conjunction: each condition with its sign, and the predicate that says so."""
    found: dict[Literal, Value] = {}
    stack = [guard] if guard is not None else []
    while stack:
        predicate = value = stack.pop()
        holds = True
        while value.op is not None and value.op.name == "cmpp":
            holds ^= value is value.op.results[1]
            value = value.op.operands[0]
        if holds and value.op is not None and value.op.name == "and":
            stack += value.op.operands
        else:
            found.setdefault((value, holds), predicate)
    return found


def _opposite(a: Op, b: Op) -> tuple[Value, list[Value]] | None:
    """The predicate of `a` that is opposite in `b`, and those that both have."""
    first, second = _literals(a.guard), _literals(b.guard)
    only = [literal for literal in first if literal not in second]
    if len(only) != 1 or len(first) != len(second):
        return None
    condition, holds = only[0]
    if (condition, not holds) not in second:
        return None
    return first[only[0]], [value for literal, value in first.items() if literal in second]


def _merged(a: Op, b: Op, predicate: Value, common: list[Value]) -> list[Op]:
    made = Builder(Block(""), span=b.span)
    value = made.value("select", predicate, a.operands[1], b.operands[1])
    made.emit("store", a.operands[0], value, guard=made.joined("and", common) if common else None,
              **b.attributes)
    return made.block.ops
