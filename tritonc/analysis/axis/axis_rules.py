"""What each operation makes of its operands' axis information (see `axis_info`)."""

from collections.abc import Callable
from functools import lru_cache
from math import gcd
from typing import Any

from tritonc.analysis.axis.axis_lattice import (
    TOP,
    AxisInfo,
    extents_of,
    low_bit,
    meet,
    start_of,
    uniform,
    unknown,
)
from tritonc.analysis.signs import Signs
from tritonc.ir.core import Op
from tritonc.ir.numeric import numbers
from tritonc.ir.types import Element, Pointer, Type, element, make, same_axes, shape
from tritonc.records import NamedTuple


class Site(NamedTuple):
    """What a rule reads of an operation beside its operands' information."""

    name: str
    type: Type  # of the result
    source: Type  # of the first operand
    attribute: Any  # the one that the rule reads
    non_negative: bool  # the dividend of a signed division


def information(op: Op, t: Type, operands: list[AxisInfo | None], signs: Signs) -> AxisInfo:
    """What a result of type `t` of the operation has of the operands' information."""
    name, attribute, dividend = op.name, None, False
    if name in _ATTRIBUTES:
        attribute = op.attributes[_ATTRIBUTES[name]]
        attribute = tuple(attribute) if isinstance(attribute, list) else attribute
    elif name in ("sdiv", "srem"):
        dividend = signs.holds(op.operands[0])
    source = op.operands[0].type if operands else t
    return _information(name, element(t), shape(t), element(source), shape(source), attribute,
                        dividend, *operands)


@lru_cache(1 << 14)  # each version of a kernel asks the same, whatever its layouts
def _information(name: str, e: Element, extents: tuple[int, ...], source: Element,
                 before: tuple[int, ...], attribute: Any, dividend: bool,
                 *operands: AxisInfo | None) -> AxisInfo:
    site = Site(name, make(e, extents), make(source, before), attribute, dividend)
    return RULES[name](site, *operands)


def _add(op: Site, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    scale = 1
    if op.name in ("addptr", "step_pointers"):
        pointer = element(op.type)
        assert isinstance(pointer, Pointer)
        scale = pointer.element.bytes
    axes = range(len(a.contiguity))
    contiguity = tuple(max(gcd(a.contiguity[d], b.constancy[d]),
                           gcd(a.constancy[d], b.contiguity[d])) for d in axes)
    divisibility = tuple(gcd(start_of(a, d, c, scale), b.start_divisibility(d, c) * scale)
                         for d, c in enumerate(contiguity))
    value = None if a.value is None or b.value is None or scale != 1 else a.value + b.value
    value = _fitted(op, value)
    return AxisInfo(contiguity, divisibility, tuple(map(gcd, a.constancy, b.constancy)), value)


def _step_pointers(op: Site, p: AxisInfo, offset: AxisInfo, *strides: AxisInfo) -> AxisInfo:
    return _add(op, p, uniform(op.type, offset.divisibility[0]))


def _fitted(op: Site, value: int | None) -> int | None:
    """A number as the result's type holds it: integers wrap."""
    return None if value is None else int(numbers.fit(op.type, value))


def _sub(op: Site, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    contiguity = tuple(map(gcd, a.contiguity, b.constancy))
    divisibility = tuple(gcd(a.start_divisibility(d, c), b.start_divisibility(d, c))
                         for d, c in enumerate(contiguity))
    value = _fitted(op, None if a.value is None or b.value is None else a.value - b.value)
    return AxisInfo(contiguity, divisibility, tuple(map(gcd, a.constancy, b.constancy)), value)


def _mul(op: Site, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    if a.value == 1:
        return b
    if b.value == 1:
        return a
    ones = (1,) * len(a.contiguity)
    divisibility = tuple(min(a.start_divisibility(d, 1) * b.start_divisibility(d, 1), TOP)
                         for d in range(len(ones)))
    value = _fitted(op, None if a.value is None or b.value is None else a.value * b.value)
    return AxisInfo(ones, divisibility, tuple(map(gcd, a.constancy, b.constancy)), value)


def _shl(op: Site, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    if b.value is None or not 0 <= b.value < 31:
        return _pointwise(op, a, b)
    return _mul(op, a, uniform(op.type, 1 << b.value, 1 << b.value))


def _divide(op: Site, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """Division by a multiple of c: c neighbours share a quotient, where runs start at multiples of
    c.

    Not so the quotients of -4, -3, -2, -1 that are rounded towards zero."""
    if b.value == 1:
        return a
    found = _pointwise(op, a, b)
    shared = _runs_divided(op, a, b)
    constancy = tuple(map(max, found.constancy, shared))
    if b.value is None or b.value <= 0:
        return found._replace(constancy=constancy)
    c = low_bit(b.value)
    divisibility = tuple(
        max(a.start_divisibility(d, 1) // c, 1) if c == b.value and a.contiguity[d] == 1 else 1
        for d in range(len(a.contiguity)))
    return found._replace(divisibility=divisibility, constancy=constancy)


def _shift_right(op: Site, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """A quotient that is rounded down: neighbours share it, whatever their sign."""
    found = _pointwise(op, a, b)
    if b.value is None or not 0 <= b.value < 31:
        return found
    shared = (gcd(n, d, 1 << b.value) if n > 1 else 1
              for n, d in zip(a.contiguity, a.divisibility, strict=True))
    return found._replace(constancy=tuple(map(max, found.constancy, shared)))


def _runs_divided(op: Site, a: AxisInfo, b: AxisInfo) -> tuple[int, ...]:
    """How many neighbours along each axis lie between multiples of the divisor, wherever they
    begin: of a dividend that rises, and is not negative."""
    if op.name not in ("udiv", "urem") and not op.non_negative:
        return (1,) * len(a.contiguity)
    return tuple(gcd(a.contiguity[d], a.divisibility[d], b.start_divisibility(d, 1))
                 if a.contiguity[d] > 1 and b.constancy[d] >= a.contiguity[d] else 1
                 for d in range(len(a.contiguity)))


def _remainder(op: Site, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """The remainder by a multiple of c runs on inside blocks of c, unless it takes the sign of the
    dividend."""
    found = _least(op, a, b)
    contiguity = _runs_divided(op, a, b)
    c = b.value
    divisibility = tuple(gcd(a.start_divisibility(d, n), b.start_divisibility(d, 1))
                         for d, n in enumerate(contiguity))
    return found._replace(contiguity=contiguity, divisibility=divisibility,
                   constancy=a.constancy if c is not None and c > 0 else found.constancy)


def _pointwise(op: Site, *operands: AxisInfo | None) -> AxisInfo:
    """Any elementwise function: equal arguments give equal results."""
    extents = extents_of(op.type)
    constancy = extents
    for info in operands:
        constancy = (tuple(map(gcd, constancy, info.constancy)) if info is not None
                     else (1,) * len(extents))
    ones = (1,) * len(extents)
    return AxisInfo(ones, ones, constancy)


def _least(op: Site, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """One of the operands, or their bits combined: what divides both divides the result."""
    both = tuple(gcd(a.start_divisibility(d, 1), b.start_divisibility(d, 1))
                 for d in range(len(a.divisibility)))
    return _pointwise(op, a, b)._replace(divisibility=both)


def _both(op: Site, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """What divides one of the operands: its lowest bits are zero, those of `and` too.  Beside the
    low bits alone it is a remainder, which runs on between multiples, whatever the sign."""
    runs = (1,) * len(a.contiguity)
    if b.value is not None and b.value > 0 and b.value & (b.value + 1) == 0:
        runs = tuple(gcd(n, d, b.value + 1) if n > 1 else 1
                     for n, d in zip(a.contiguity, a.divisibility, strict=True))
    either = tuple(max(gcd(a.start_divisibility(d, n), b.value + 1) if n > 1 and b.value
                       else a.start_divisibility(d, 1), b.start_divisibility(d, 1))
                   for d, n in enumerate(runs))
    return _pointwise(op, a, b)._replace(contiguity=runs, divisibility=either)


def _compare(op: Site, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """`x < n` is the same over a run of x between multiples of what divides n."""
    info = _pointwise(op, a, b)
    predicate = op.attribute
    if predicate in ("slt", "ult", "sge", "uge"):
        x, bound = a, b
    elif predicate in ("sgt", "ugt", "sle", "ule"):
        x, bound = b, a  # n > x
    else:
        return info
    runs = tuple(
        gcd(x.contiguity[d], x.divisibility[d], bound.constancy[d], bound.start_divisibility(d, 1))
        for d in range(len(x.contiguity)))
    return AxisInfo(info.contiguity, info.divisibility, tuple(map(max, info.constancy, runs)))


def _choose(op: Site, c: AxisInfo, a: AxisInfo | None, b: AxisInfo | None) -> AxisInfo:
    if a is None or b is None:
        return unknown(op.type)
    both = meet(a, b)
    contiguity = tuple(map(gcd, both.contiguity, c.constancy))
    divisibility = tuple(gcd(both.start_divisibility(d, n), TOP) for d, n in enumerate(contiguity))
    return AxisInfo(contiguity, divisibility, tuple(map(gcd, both.constancy, c.constancy)))


def _psi(op: Site, *operands: AxisInfo | None) -> AxisInfo:
    if any(info is None for info in operands):
        return unknown(op.type)
    known = [info for info in operands if info is not None]
    info = known[1]
    for predicate, value in zip(known[2::2], known[3::2], strict=True):
        info = _choose(op, meet(known[0], predicate), info, value)
    return info


def _same(op: Site, a: AxisInfo) -> AxisInfo:
    return a


def _resize(op: Site, a: AxisInfo) -> AxisInfo:
    """Narrower or wider integers; where a run wraps, it does so at a multiple of its length."""
    value = a.value
    if value is not None and op.name == "zext":
        value &= (1 << element(op.source).bits) - 1
    return a._replace(value=_fitted(op, value))


def _assume_multiple(op: Site, a: AxisInfo) -> AxisInfo:
    n = low_bit(op.attribute)
    if all(c == 1 for c in a.contiguity):
        return AxisInfo(a.contiguity, tuple(max(d, n) for d in a.divisibility), a.constancy,
                        a.value)
    return a


def _splat(op: Site, a: AxisInfo | None) -> AxisInfo:
    return unknown(op.type) if a is None else uniform(op.type, a.divisibility[0], a.value)


def _broadcast(op: Site, a: AxisInfo) -> AxisInfo:
    extents, before = extents_of(op.type), shape(op.source)
    stretched = [old == 1 and new != 1 for old, new in zip(before, shape(op.type), strict=True)]
    return AxisInfo(a.contiguity, a.divisibility,
                    tuple(e if s else k for s, e, k in zip(stretched, extents, a.constancy,
                                                           strict=True)), a.value)


def _reshape(op: Site, a: AxisInfo) -> AxisInfo:
    """Axes of extent 1 come or go; of axes that become one, what is the same along the last."""
    before, after = shape(op.source) or (1,), shape(op.type) or (1,)
    places = same_axes(before, after)
    if places is None:
        extents = extents_of(op.source)
        same = all(k == e for k, e in zip(a.constancy, extents, strict=True))
        if same:
            return uniform(op.type, a.every, a.value)
        found, run = unknown(op.type, a.every), 1
        for k, e in zip(a.constancy[::-1], before[::-1], strict=True):
            run *= k
            if k != e:
                break
        return found._replace(constancy=(run,)) if len(after) == 1 else found
    entries = [(1, a.every, 1) if d is None else (a.contiguity[d], a.divisibility[d],
                                                  a.constancy[d]) for d in places]
    contiguity, divisibility, constancy = zip(*entries, strict=True)
    return AxisInfo(contiguity, divisibility, constancy, a.value)


def _tile_part(op: Site, a: AxisInfo) -> AxisInfo:
    """Elements whose index has certain bits: runs end where the lowest of those bits turns."""
    extents, bits = shape(op.source), op.attribute
    ends, stride = [TOP] * len(extents), 1
    for axis in reversed(range(len(extents))):
        inside = [bit // stride for bit in bits if stride <= bit < stride * extents[axis]]
        ends[axis] = min(inside, default=TOP)
        stride *= extents[axis]
    contiguity = tuple(map(min, a.contiguity, ends))
    return AxisInfo(contiguity, tuple(a.start_divisibility(d, c) for d, c in enumerate(contiguity)),
                    tuple(map(min, a.constancy, ends)), a.value)


def _trans(op: Site, a: AxisInfo) -> AxisInfo:
    order = op.attribute
    return AxisInfo(tuple(a.contiguity[d] for d in order), tuple(a.divisibility[d] for d in order),
                    tuple(a.constancy[d] for d in order), a.value)


def _range(op: Site) -> AxisInfo:
    (extent,) = extents_of(op.type)
    first = low_bit(op.attribute)
    if extent != shape(op.type)[0]:
        first = gcd(first, extent)  # several runs: each begins a run later
    return AxisInfo((extent,), (first,), (1,))


RULES: dict[str, Callable[..., AxisInfo]] = {
    "range": _range,
    "get_global_range": lambda op: AxisInfo(extents_of(op.type), extents_of(op.type),
                                            (1,)),
    **dict.fromkeys(("get_program_id", "get_num_programs", "get_cluster_rank"),
                    lambda op: unknown(op.type)),
    "constant_table": lambda op: unknown(op.type, 16), "add": _add, "addptr": _add,
    "step_pointers": _step_pointers, "sub": _sub, "mul": _mul, "shl": _shl, "sdiv": _divide,
    "udiv": _divide, "srem": _remainder, "urem": _remainder, "icmp": _compare, "select": _choose,
    "psi": _psi, "sext": _resize, "zext": _resize, "truncate": _resize, "convert_layout": _same,
    "cmpp": lambda op, a: a._replace(value=None),
    **dict.fromkeys(("ptrtoint", "inttoptr"), lambda op, a: AxisInfo(
        (1,) * len(a.contiguity), (a.every,) * len(a.contiguity), a.constancy)),
    "assume_multiple": _assume_multiple, "splat": _splat, "broadcast": _broadcast,
    "reshape": _reshape, "trans": _trans, "tile_part": _tile_part, "and": _both,
    **dict.fromkeys(("or", "xor", "smin", "smax", "umin", "umax"), _least), "lshr": _shift_right,
    "ashr": _shift_right, **dict.fromkeys(("fcmp", "fptosi", "fptoui"), _pointwise)}
_ATTRIBUTES = {"range": "start", "icmp": "predicate", "trans": "permutation", "tile_part": "bits",
               "assume_multiple": "n"}
