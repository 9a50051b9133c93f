"""Rules for any operation: work on what is the same in all elements is done once."""

from tritonc.analysis.values import constant_of, defined_by, is_uniform
from tritonc.ir.core import Op, Value
from tritonc.ir.types import Tile, Type, with_element
from tritonc.ir.types import element as element_type
from tritonc.opt.peephole.rewrite import General, Rewriter, Rule


def _rank(value: Value) -> int:
    """Constants come last, other uniform values next to last."""
    if constant_of(value) is not None:
        return 2
    return 1 if is_uniform(value) else 0


def uniform_on_the_right(op: Op, r: Rewriter) -> Value | None:
    """c op x = x op c for a commutative op, so that other rules look on one side only."""
    a, b = op.operands
    return None if _rank(a) <= _rank(b) else r.again(op, b, a, guard=op.guard).result


def elementwise_of_uniform(op: Op, r: Rewriter) -> Value | None:
    """splat a op splat b = splat (a op b), for any elementwise op."""
    if op.guard is not None or len(op.results) != 1 or not isinstance(op.result.type, Tile):
        return None
    if not all(map(is_uniform, op.operands)):
        return None
    scalars = [r.element_of(v) for v in op.operands]
    scalar = r.emit(op.name, *scalars, type=element_type(op.result.type), **op.attributes).result
    return r.value("splat", scalar, type=op.result.type)


def elementwise_of_broadcast(op: Op, r: Rewriter) -> Value | None:
    """broadcast a op broadcast b = broadcast (a op b), also with uniform tiles among the operands.

    The operands of the broadcasts are of one shape; the operation then has fewer elements."""
    if op.info.may_trap or len(op.results) != 1 or op.guard is not None:
        return None
    small: Type | None = None
    for value in op.operands:
        source = defined_by(value, "broadcast")
        if source is not None:
            of_shape = with_element(source.operands[0].type, element_type(op.result.type))
            if small is not None and small != of_shape:
                return None
            small = of_shape
        elif not is_uniform(value):
            return None
    if small is None:
        return None
    operands = []
    for value in op.operands:
        source = defined_by(value, "broadcast")
        if source is not None:
            operands.append(source.operands[0])
        else:
            shaped = with_element(small, element_type(value.type))
            operands.append(r.value("splat", r.element_of(value), type=shaped))
    result = r.emit(op.name, *operands, type=small, **op.attributes).result
    return r.value("broadcast", result, type=op.result.type)


def reassociate_uniform(op: Op, r: Rewriter) -> Value | None:
    """(x op a) op b = x op (a op b) for uniform a, b and an associative op on integers.

    Of scalars, constants only: there the other form saves nothing."""
    x, b = op.operands
    inner = defined_by(x, op.name)
    if inner is None or inner.guard is not None or op.guard is not None:
        return None
    a = inner.operands[1]
    if not (is_uniform(a) and is_uniform(b)) or is_uniform(inner.operands[0]):
        return None
    return r.again(op, inner.operands[0], r.again(op, a, b).result).result


ASSOCIATIVE = ("add", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax")


ANY: list[General] = [
    (lambda row: row.commutative, uniform_on_the_right),
    (lambda row: row.elementwise and row.name != "cmpp", elementwise_of_uniform),
    (lambda row: row.elementwise and row.name != "cmpp", elementwise_of_broadcast)]
RULES: dict[str, list[Rule]] = {name: [reassociate_uniform] for name in ASSOCIATIVE}
