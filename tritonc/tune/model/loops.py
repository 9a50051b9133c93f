"""How often the loops around a kernel's product run, as far as its parameters say it.

A counter runs in steps of a constant from or to a product of parameters, perhaps divided:
`k = K; k > 0; k -= TK`, `k < (K + TK - 1) / TK; k++`, `k < C * R * S; k += TK`.  Of nested loops
each counts: `r < R`, `s < S`, `c < C; c += TC` make R * S * ceil(C / TC) steps.
"""

from collections.abc import Mapping, Sequence

from tritonc.analysis.counters import step_of
from tritonc.analysis.shared_data import is_segment
from tritonc.analysis.values import QUOTIENTS, SPREADS, int_of, origin
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import Scalar, is_int, shape
from tritonc.records import NamedTuple

TYPICAL = 1024  # the length of a loop around a product of which nothing is known
# Of one that begins and ends at loaded numbers: segments may be short, and their last step is part
# empty.  Scores of 10000 documents of 20 to 220 rows on an H200: 115 us by 128 rows, 89 by 64.
SEGMENT = 160


class Around(NamedTuple):
    """A loop that runs ceil(factor * the product of `arguments` / depth) times; `arguments` are
    numbers of parameters."""

    factor: int
    arguments: tuple[int, ...]
    depth: int


def loops_around(kernel: Kernel) -> tuple[Around, ...]:
    """The loops around a product, the innermost first; outer ones of which nothing is known are
    left out, and an innermost one has a length of `TYPICAL`.  Products in no loop are one step."""
    cfg = Cfg(kernel)
    places = {value: i for i, value in enumerate(kernel.parameters)}
    inner = max((loop for loop in cfg.loops if _product(loop) is not None),
                key=lambda loop: loop.depth, default=None)
    if inner is None:
        depths = {shape(op.operands[0].type)[-1] for op in kernel.ops() if op.name == "dot"}
        return tuple(Around(depth, (), depth) for depth in depths if len(depths) == 1)
    found = []
    for loop in sorted((each for each in cfg.loops if inner.header in each.blocks),
                       key=lambda loop: -loop.depth):
        around = _around(loop, places)
        if around is None and loop is inner:
            product = _product(loop)
            assert product is not None
            around = Around(SEGMENT if is_segment(cfg, loop) else TYPICAL, (),
                            _depth(loop) or shape(product.operands[0].type)[-1])
        if around is not None:
            found.append(around)
    return tuple(found)


def rows_around(kernel: Kernel) -> Around | None:
    """What is known of all innermost loops of a kernel, if that is the same, as of passes over a
    row."""
    places = {value: i for i, value in enumerate(kernel.parameters)}
    loops = Cfg(kernel).loops
    outer = {loop.parent.header for loop in loops if loop.parent is not None}
    found = {_around(loop, places) for loop in loops if loop.header not in outer}
    return found.pop() if len(found) == 1 else None


def _product(loop: Loop) -> Op | None:
    return next((op for op in loop.ops() if op.name == "dot"), None)


def _counters(loop: Loop) -> list[tuple[Op, int]]:
    """The integers that a loop counts with, or tiles of them, and by how much."""
    return [(phi, step) for phi in loop.header.phis()
            if is_int(phi.result.type) and (step := step_of(loop, phi))]


def _depth(loop: Loop) -> int:
    """By how much a loop counts; 0 if it does not."""
    return max((abs(step) for _, step in _counters(loop)), default=0)


def _around(loop: Loop, places: Mapping[Value, int]) -> Around | None:
    for phi, step in _counters(loop):
        starts = [v for v, block in zip(phi.operands, phi.blocks, strict=True) if block not in loop]
        counters = {phi.result, *(v for v in phi.operands if v not in starts)}
        types = (Scalar, type(phi.result.type))
        tests = [(op, [origin(v, _SPREADS) for v in op.operands]) for op in loop.ops()
                 if op.name == "icmp" and isinstance(op.operands[0].type, types)]
        tests = [(op, test) for op, test in tests if counters & {*test}]
        bounds = [v for _, test in tests for v in test if v not in counters]
        numbers = [int_of(value) for value in (*starts, *bounds)]
        for value in (*starts, *bounds):
            found = _length(value, places, starts)
            if found is not None and found[1]:
                factor, arguments, divisor = found
                return Around(factor, arguments, abs(step) * divisor)
        if len(numbers) > 1 and None not in numbers:
            known = [number for number in numbers if number is not None]
            within = any(op.attributes["predicate"][1:] in ("le", "ge") for op, _ in tests)
            return Around(max(1, max(known) - min(known) + within), (), abs(step))
    return None


_SPREADS = (*SPREADS, "reduce")  # between a test and what counts
_THROUGH = ("sext", "zext", "truncate")
_BOUNDS = ("smin", "umin", "smax", "umax")  # `min(S, last)` is nearly S


def _length(value: Value, places: Mapping[Value, int], starts: Sequence[Value], depth: int = 16
            ) -> tuple[int, tuple[int, ...], int] | None:
    """A number, or how far it is from where a loop starts, as a constant times parameters by a
    constant, or nearly so."""
    if value in places:
        return (1, (places[value],), 1) if isinstance(value.type, Scalar) else None
    op = value.op
    if op is None or depth == 0:
        return None
    if (number := int_of(value)) is not None:
        return (number, (), 1) if number > 0 else None
    if op.name in _BOUNDS:
        rows = [_length(operand, places, starts, depth - 1) for operand in op.operands]
        return next((row for row in rows if row is not None and row[1]), None)
    if op.name == "mul":
        one, two = (_length(operand, places, starts, depth - 1) for operand in op.operands)
        if one is None or two is None:
            return None
        return one[0] * two[0], one[1] + two[1], one[2] * two[2]
    if op.name == "add" and any(v in starts for v in op.operands):
        return _length(op.operands[op.operands[0] in starts], places, starts, depth - 1)
    other = int_of(op.operands[1]) if len(op.operands) == 2 else None
    factor = divisor = 1
    if op.name in QUOTIENTS and other and other > 0:
        divisor = other
    elif op.name in ("ashr", "lshr") and other is not None and 0 <= other < 32:
        divisor = 1 << other
    elif op.name == "shl" and other is not None and 0 <= other < 32:
        factor = 1 << other
    elif op.name not in _THROUGH and not (op.name in ("add", "sub") and other is not None):
        return None
    inner = _length(op.operands[0], places, starts, depth - 1)
    return inner and (inner[0] * factor, inner[1], inner[2] * divisor)


def factors(value: Value, kernel: Kernel) -> list[Value]:
    """The parameters whose product with what else there is the value is."""
    if value in kernel.parameters:
        return [value]
    op = value.op
    return [v for operand in op.operands for v in factors(operand, kernel)] if (
        op is not None and op.name in ("mul", "sext", "zext", "truncate")) else []


def forms(loops: Sequence[Around]) -> list[tuple[int, tuple[int, ...]]]:
    """What of loops does not depend on how a kernel cuts them."""
    return [(loop.factor, loop.arguments) for loop in loops]
