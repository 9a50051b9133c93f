"""Of pairs in 64 bits, whose order is that of the high halves, only these are kept.

    %both = or (mul (sext %key), 2^32), (sext %place)         %both.high = %key
    %most = reduce %both {kind = smax} : i64             ->   %most = reduce %both.high : i32
    %top = truncate (ashr %most, 32) : i32                    %top = %most

That is how elements are sorted with their places (`topk`), and what is left where nobody asks for
the places: half of the registers, of the comparisons and of what goes between threads.

A value is narrowed if all that is made of it are its high half, and such values again: by moving
elements, by the greatest and least, bit by bit, and by a choice between two values that compares
the two.  (Where the high halves are equal the choice may be another: then they are equal.)  What
begins such a web is any value.  It has to hold a reduction or a choice, or nothing is won.
"""

from __future__ import annotations

from tritonc.analysis.values import defined_by, int_of
from tritonc.ir.build import Builder, make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import I32, I64, element, with_element

_MOVES = frozenset("reshape broadcast trans splat".split())
_BITWISE = frozenset("xor and or smax smin".split())
_WORK = frozenset("reduce select smax smin".split())


def keep_high_halves(kernel: Kernel, context: Context) -> bool:
    """Narrow the values of each web that ends in high halves only."""
    used = uses(kernel)
    changed = False
    for op in list(kernel.ops()):
        if _is_end(op):
            web = _web(op.operands[0], used)
            if web:
                _narrow(kernel, web)
                used, changed = uses(kernel), True
    return changed


def _is_end(op: Op) -> bool:
    return (op.name == "ashr" and element(op.result.type) == I64
            and int_of(op.operands[1]) == 32)


def _web(value: Value, used: dict[Value, list[Op]]) -> set[Value] | None:
    """The values to narrow that lead to one, or to others beside it; None if one may not be."""
    web: set[Value] = set()
    work = [value]
    while work:
        value = work.pop()
        if value in web or not _inside(value):
            continue
        web.add(value)
        work += _wide(value)
        work += [user.result for user in used.get(value, []) if len(user.results) == 1
                 and _inside(user.result)]
    ops = {value.op for value in web}
    begins = {v for value in web for v in _wide(value)} - web
    if any(v.op is None or v.op.name == "phi" or len(v.op.results) > 1 for v in begins):
        return None
    fits = all(user in ops or (_is_end(user) and user.operands[0] is v) or _decides(user, used)
               for v in web for user in used.get(v, []))
    works = any(op is not None and op.name in _WORK for op in ops)
    return web if fits and works else None


def _wide(value: Value) -> list[Value]:
    """What a value of a web is made of, 64 bits wide."""
    assert value.op is not None
    return [v for v in value.op.operands if element(v.type) == I64]


def _inside(value: Value) -> bool:
    """Whether the high half of a value follows from those of what it is made of."""
    op = value.op
    if op is None or element(value.type) != I64:
        return False
    if op.name == "reduce":
        return op.attributes["kind"] in _BITWISE
    if op.name in ("or", "and", "xor"):  # what joins halves begins a web
        return all(defined_by(v, "sext") is None and int_of(v) is None for v in op.operands)
    if op.name == "take":
        return element(op.operands[1].type) != I64
    return op.name in _MOVES or op.name in _BITWISE or op.name == "select"


def _decides(op: Op, used: dict[Value, list[Op]]) -> bool:
    """Whether a comparison only chooses between what it compares."""
    if op.name != "icmp" or op.attributes["predicate"][0] != "s":
        return False
    compared, work, chooses = set(op.operands), [op.result], False
    while work:
        value = work.pop()
        for user in used.get(value, []):
            if user.name == "xor":
                work.append(user.result)
            elif (user.name == "select" and user.operands[0] is value
                  and set(user.operands[1:]) == compared):
                chooses = True
            else:
                return False
    return chooses


def _narrow(kernel: Kernel, web: set[Value]) -> None:
    """Make the operations of a web in 32 bits, and of what begins it the high halves."""
    high: dict[Value, Value] = {}
    mapping: dict[Value, Value] = {}
    begins = {v for value in web for v in _wide(value)} - web
    for block in kernel.blocks:
        old, block.ops = block.ops, []
        build = Builder(block)
        for op in old:
            build.span = op.span
            if len(op.results) == 1 and op.result in web:
                stated = with_element(op.result.type, I32) if op.name in _MOVES else None
                made = make_op(op.name, [high.get(v, v) for v in op.operands], stated,
                               span=op.span, **op.attributes)
                made.result.name = op.result.name
                build.insert(made)
                high[op.result] = made.result
                continue
            if _is_end(op) and op.operands[0] in web:
                mapping[op.result] = build.value("sext", high[op.operands[0]], type=op.result.type)
                continue
            if op.name == "icmp" and any(v in web for v in op.operands):
                op.operands = [high[v] for v in op.operands]
            build.insert(op)
            for value in op.results:
                if value in begins:
                    high[value] = _high_half(value, build)
    kernel.replace(mapping)


def _high_half(value: Value, build: Builder) -> Value:
    narrow = with_element(value.type, I32)
    op = value.op
    if op is not None and op.name == "or":
        return build.value("or", *(_high_half(v, build) for v in op.operands))
    if op is not None and op.name == "zext":
        return build.constant(0, narrow)
    if op is not None and op.name in ("mul", "shl") and (
            int_of(op.operands[1]) == (1 << 32 if op.name == "mul" else 32)):
        return build.value("truncate", op.operands[0], type=narrow)
    shift = build.constant(32, value.type)
    return build.value("truncate", build.value("ashr", value, shift), type=narrow)
