"""Rules of integer arithmetic.  All hold modulo 2**bits, as integers wrap, unless one says more.
What no pass on tiles asks for is left to LLVM, which has the algebra of each element.

A uniform operand stands on the right (`uniform_on_the_right`).  Multiplications stay: `mul` by a
power of two is what address analysis reads, and LLVM makes shifts of it."""

from tritonc.analysis.values import int_of, slice_of
from tritonc.ir.core import Op, Value
from tritonc.ir.types import I1, Tile, element, shape
from tritonc.opt.peephole.rewrite import Rewriter, Rule


def right_zero_is_neutral(op: Op, r: Rewriter) -> Value | None:
    """x + 0 = x - 0 = x | 0 = x ^ 0 = x << 0 = x >> 0 = x."""
    return op.operands[0] if int_of(op.operands[1]) == 0 else None


def right_one_is_neutral(op: Op, r: Rewriter) -> Value | None:
    """x * 1 = x / 1 = x."""
    a, b = op.operands
    return a if int_of(b) == 1 and element(a.type).bits > 1 else None


def times_zero(op: Op, r: Rewriter) -> Value | None:
    """x * 0 = 0."""
    return op.operands[1] if int_of(op.operands[1]) == 0 else None


def remainder_by_one(op: Op, r: Rewriter) -> Value | None:
    """x % 1 = 0, and x srem -1 = 0."""
    units = (1, -1) if op.name == "srem" else (1,)
    if int_of(op.operands[1]) not in units or element(op.result.type).bits == 1:
        return None
    return r.constant(0, op.result.type)


def minus_constant(op: Op, r: Rewriter) -> Value | None:
    """x - c = x + (-c)."""
    a, b = op.operands
    c = int_of(b)
    return None if c is None else r.value("add", a, r.constant(-c, b.type))


def shift_left_is_product(op: Op, r: Rewriter) -> Value | None:
    """x << c = x * 2**c, for a constant c below the width."""
    a, b = op.operands
    by, bits = int_of(b), element(a.type).bits
    if by is None or not 0 <= by < bits:
        return None
    return r.value("mul", a, r.constant(1 << by, b.type))


def signed_division_of_naturals(op: Op, r: Rewriter) -> Value | None:
    """x sdiv y = x udiv y and x srem y = x urem y, if neither is negative."""
    if element(op.result.type).bits == 1 or not all(map(r.facts.not_negative, op.operands)):
        return None
    return r.value("u" + op.name[1:], *op.operands, guard=op.guard)


def division_where_wanted(op: Op, r: Rewriter) -> Value | None:
    """x / d, guarded by whether anything of a row is wanted, is guarded by d != 0, where d is one
    number: the other quotients do not trap, and no thread asks others what they want.  Not where
    they have asked others for d."""
    number = r.element_of(op.operands[1])
    if op.guard is None or shape(number.type) or not _asks(op.guard) or _asks(number):
        return None
    holds = r.value("icmp", number, r.constant(0, number.type), predicate="ne")
    if extents := shape(op.result.type):
        holds = r.value("splat", holds, type=Tile(I1, extents))
    return r.again(op, *op.operands, guard=r.emit("cmpp", holds).results[0]).result


def _asks(value: Value) -> bool:
    return any(op.name == "reduce" for op in slice_of([value], ends=("load", "phi")))


def quotient_of_less(op: Op, r: Rewriter) -> Value | None:
    """x udiv y = 0, if 0 <= x < y."""
    a, b = (r.facts.interval(v) for v in op.operands)
    return r.constant(0, op.result.type) if a[0] >= 0 and a[1] < b[0] else None


def remainder_of_less(op: Op, r: Rewriter) -> Value | None:
    """x urem y = x, if 0 <= x < y."""
    a, b = (r.facts.interval(v) for v in op.operands)
    return op.operands[0] if a[0] >= 0 and a[1] < b[0] else None


def same_operands(op: Op, r: Rewriter) -> Value | None:
    """x & x = x | x = min(x, x) = max(x, x) = x."""
    a, b = op.operands
    return a if a is b else None


def and_with_constant(op: Op, r: Rewriter) -> Value | None:
    """x & 0 = 0; x & c = x, if c has all the bits that x can have."""
    a, b = op.operands
    c = int_of(b)
    if c is None or c == 0:
        return None if c is None else b
    if c == (1 if element(b.type).bits == 1 else -1):
        return a
    low, high = r.facts.interval(a)
    covers = (1 << high.bit_length()) - 1 if low >= 0 else -1
    return a if low >= 0 and c & covers == covers else None


def minimum_by_bounds(op: Op, r: Rewriter) -> Value | None:
    """min(x, y) = x and max(x, y) = y, if x <= y by their bounds."""
    x, y = op.operands
    (al, ah), (bl, bh) = r.facts.interval(x), r.facts.interval(y)
    if element(x.type).bits == 1 or (op.name[0] == "u" and (al < 0 or bl < 0)):
        return None
    least = op.name.endswith("min")
    if ah <= bl:
        return x if least else y
    if bh <= al:
        return y if least else x
    return None


def truncate_of_extension(op: Op, r: Rewriter) -> Value | None:
    """truncate ext x = x, or a lesser extension, or a lesser truncation, by the widths."""
    inner = op.operands[0].op
    if inner is None or inner.name not in ("zext", "sext"):
        return None
    x, to = inner.operands[0], op.result.type
    name = "truncate" if element(to).bits < element(x.type).bits else inner.name
    return x if x.type == to else r.value(name, x, type=to)


_MINIMA: list[Rule] = [same_operands, minimum_by_bounds]

RULES: dict[str, list[Rule]] = {
    "add": [right_zero_is_neutral],
    "sub": [right_zero_is_neutral, minus_constant],
    "mul": [times_zero, right_one_is_neutral],
    "sdiv": [right_one_is_neutral, division_where_wanted, signed_division_of_naturals],
    "udiv": [right_one_is_neutral, division_where_wanted, quotient_of_less],
    "srem": [remainder_by_one, division_where_wanted, signed_division_of_naturals],
    "urem": [remainder_by_one, division_where_wanted, remainder_of_less],
    "and": [same_operands, and_with_constant],
    "or": [right_zero_is_neutral, same_operands],
    "xor": [right_zero_is_neutral],
    "shl": [right_zero_is_neutral, shift_left_is_product],
    "lshr": [right_zero_is_neutral],
    "ashr": [right_zero_is_neutral],
    "truncate": [truncate_of_extension],
    "smin": _MINIMA, "smax": _MINIMA, "umin": _MINIMA, "umax": _MINIMA}
