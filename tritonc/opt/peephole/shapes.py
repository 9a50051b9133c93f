"""Rules of operations that move elements and compute nothing, and of reductions of little."""

from math import isinf

from tritonc.analysis.values import constant_of, defined_by, is_uniform
from tritonc.ir.core import Op, Value
from tritonc.ir.types import TF32, Tile, element, with_element
from tritonc.opt.peephole.rewrite import Rewriter, Rule

_IDEMPOTENT = frozenset({"smin", "smax", "umin", "umax", "fmin", "fmax", "and", "or"})


def splat_of_constant(op: Op, r: Rewriter) -> Value | None:
    """splat (constant c) = constant c."""
    number = constant_of(op.operands[0])
    return r.constant(number, op.result.type) if number is not None else None


def moved_uniform(op: Op, r: Rewriter) -> Value | None:
    """broadcast (splat a) = reshape (splat a) = trans (splat a) = splat a; so for constants."""
    x, to = op.operands[0], op.result.type
    if not is_uniform(x):
        return None
    a = r.element_of(x)
    return r.value("splat", a, type=to) if isinstance(to, Tile) else a


def to_its_own_type(op: Op, r: Rewriter) -> Value | None:
    """A broadcast or reshape to the operand's type is the operand."""
    return op.operands[0] if op.operands[0].type == op.result.type else None


def same_again(op: Op, r: Rewriter) -> Value | None:
    """reshape (reshape x) = reshape x;  broadcast (broadcast x) = broadcast x."""
    inner = defined_by(op.operands[0], op.name)
    return None if inner is None else r.value(op.name, inner.operands[0], type=op.result.type)


def trans_of_trans(op: Op, r: Rewriter) -> Value | None:
    """trans_q (trans_p x) = trans_(p[q]) x; one that leaves all axes in place is x.

    trans (trans x) = x is the paper's example (section 4.2.1)."""
    x, permutation = op.operands[0], list(op.attributes["permutation"])
    inner = defined_by(x, "trans")
    if inner is not None:
        first = inner.attributes["permutation"]
        x, permutation = inner.operands[0], [first[d] for d in permutation]
    if permutation == sorted(permutation) and x.type == op.result.type:
        return x
    if inner is None:
        return None
    kind = type(op.attributes["permutation"])
    return r.value("trans", x, type=op.result.type, permutation=kind(permutation))


def fpcast_of_trans(op: Op, r: Rewriter) -> Value | None:
    """fpcast (trans x) = trans (fpcast x), to a tf32: products take either as it is in memory."""
    x, to = op.operands[0], op.result.type
    inner = defined_by(x, "trans")
    if inner is None or not r.used_once(x) or element(to) != TF32:
        return None
    source = inner.operands[0]
    converted = r.value("fpcast", source, type=with_element(source.type, element(to)))
    return r.value("trans", converted, type=to, permutation=inner.attributes["permutation"])


def reduce_of_uniform(op: Op, r: Rewriter) -> Value | None:
    """Of equal elements, the least, the greatest, the and and the or are each of them."""
    return moved_uniform(op, r) if op.attributes["kind"] in _IDEMPOTENT else None


def reduce_of_limited(op: Op, r: Rewriter) -> Value | None:
    """The greatest of max(x, c), with one number c, is the greater of c and the greatest x; so for
    the least, the and and the or.  Of NaNs alone both are c.  Not where c is infinite, as where a
    row's maximum begins: max(x, c) is read elsewhere, too, and rows of 512 columns took 1.28 times
    as long."""
    kind, to = op.attributes["kind"], op.result.type
    limited = defined_by(op.operands[0], kind) if kind in _IDEMPOTENT else None
    for x, c in (limited.operands, limited.operands[::-1]) if limited is not None else ():
        if is_uniform(c) and not (isinstance(start := constant_of(c), float) and isinf(start)):
            number, reduced = r.element_of(c), r.again(op, x).result
            return r.value(kind, reduced, r.value("splat", number, type=to) if isinstance(
                to, Tile) else number)
    return None


def range_of_one(op: Op, r: Rewriter) -> Value | None:
    """range a ... a + 1 = constant a."""
    start = op.attributes["start"]
    one = op.attributes["stop"] - start == 1
    return r.constant(start, op.result.type) if one and element(op.result.type).is_int else None


RULES: dict[str, list[Rule]] = {
    "splat": [splat_of_constant],
    "broadcast": [to_its_own_type, moved_uniform, same_again],
    "reshape": [to_its_own_type, moved_uniform, same_again],
    "trans": [moved_uniform, trans_of_trans],
    "fpcast": [fpcast_of_trans],
    "reduce": [reduce_of_uniform, reduce_of_limited],
    "range": [range_of_one]}
