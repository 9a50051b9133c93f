"""fold_masked_loads: a masked load merged with a constant takes the constant for the masked
elements.

Before:  %p, %q = cmpp %c                     After:  %p, %q = cmpp %c
         @%p %v = load %ptr                           @%p %a = load %ptr {other = 0.0}
         %a = psi [%p, %v], [%q, %zero]

The load may be cast to a float type in between, if its own has the constant.

The hardware's copies fill with zeros by themselves, and a register is set before the access anyway.
The load's undefined elements are defined by this; every other reader of it may see any value there.
"""

from tritonc.analysis.values import MOVES, constant_of, origin, sides
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.numeric.numbers import round_to
from tritonc.ir.types import Scalar, element


def fold_masked_loads(kernel: Kernel, context: Context) -> bool:
    """Fold psi and select of a guarded load and a constant into the load's `other`."""
    replaced: dict[Value, Value] = {}
    for op in kernel.ops():
        if op.name == "psi" and len(op.operands) == 4:
            pairs = [(op.operands[0], op.operands[1]), (op.operands[2], op.operands[3])]
            if not _opposite(pairs[0][0], pairs[1][0]):
                continue
        elif op.name == "select":
            condition, a, b = op.operands
            pairs = [(condition, a), (condition, b)]
        else:
            continue
        for (predicate, value), (_, rest) in (pairs, pairs[::-1]):
            load, constant = value.op, constant_of(origin(rest, MOVES))
            if load is not None and load.name == "fpcast" and constant is not None:
                e = element(load.operands[0].type)  # the constant may be the cast of another
                if not (isinstance(e, Scalar) and e.is_float
                        and repr(round_to(e, constant)) == repr(constant)):
                    continue
                load = load.operands[0].op
            if load is None or load.name != "load" or load.guard is None or constant is None:
                continue
            # Where the rest of them fails, the load has its `other`.
            parts = sides(load.guard, "and", within=True)
            if op.name == "select" and not (value is op.operands[1] and any(
                    _holds_where(part, op.operands[0]) for part in parts)):
                continue
            if op.name == "psi" and not any(_same(part, predicate) for part in parts):
                continue
            if repr(load.attributes.get("other", constant)) == repr(constant):  # 0.0 is not -0.0
                load.attributes["other"] = constant
                replaced[op.result] = value
                break
    kernel.replace(replaced)
    return bool(replaced)




def _opposite(p: Value, q: Value) -> bool:
    """Whether p holds exactly where q does not."""
    if p.op is None or q.op is None:
        return False
    if p.op is q.op:
        return p.op.name == "cmpp" and p is not q
    return _alike(p.op, q.op) and _opposite(p.op.operands[0], q.op.operands[0])


def _same(p: Value, q: Value) -> bool:
    """Whether two predicates are one, brought to its shape in the same way."""
    if p is q:
        return True
    return p.op is not None and q.op is not None and _alike(p.op, q.op) and _same(
        p.op.operands[0], q.op.operands[0])


def _alike(a: Op, b: Op) -> bool:
    return (a.name in MOVES and a.name == b.name and a.result.type == b.result.type
            and a.attributes == b.attributes)


def _holds_where(guard: Value, condition: Value) -> bool:
    """Whether the guard is exactly the condition."""
    op = guard.op
    return guard is condition or (op is not None and op.name == "cmpp"
                                  and op.operands[0] is condition and op.results[0] is guard)
