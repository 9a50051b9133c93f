"""compute_once: lanes that hold copies share the work of sines, quotients and other long functions.

Before:  %c = cos %a : f32<8, 1, 32; #l>       After:  %b = convert_layout %a : f32<8, 1, 32; #once>
                                                       %d = cos %b : f32<8, 1, 32; #once>
                                                       %c = convert_layout %d : f32<8, 1, 32; #l>

A tile that is broadcast later, such as the angles of all heads, lies where its reader's elements
do: lanes that differ along the broadcast axis hold, and compute, the same elements.  In #once each
of these lanes has a part of the registers; shuffles bring the results to all.  Done where that
takes fewer instructions, by the plan of the conversions.  An index is not brought to #once but made
there, and a quotient of a quotient stays there: the image, row and column of each of 16 pixels of a
thread are 48 shuffles then, not 48 divisions.
"""

from __future__ import annotations

from collections.abc import Container
from functools import cache

from tritonc.analysis.values import defined_by
from tritonc.backend.layout.conversion import Rename, plan_conversion, shuffle_cost
from tritonc.backend.layout.shuffle import Shuffle
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.ops import DIVISIONS
from tritonc.ir.types import F64, Tile, is_int, scalar, with_layout

# Instructions on the shortest way through a function of an f32, by ptxas 13.0 for sm_90.
_INSTRUCTIONS = {"sin": 28, "cos": 28, "erf": 24, "tanh": 20, "log": 20, "log2": 20,
                 **dict.fromkeys(DIVISIONS, 12)}  # by what others divide too
FEWEST = 4  # quotients of a thread: of two, `life` spilled 196 bytes, 68 without
_INDEX = ("range", "splat", "constant", "add", "sub", "mul")
_WIDE = 4  # times as many for an f64
_SHUFFLE = 2  # instructions that go out in the time of one


def compute_once(kernel: Kernel, context: Context) -> bool:
    """Let lanes share the work; where functions are approximated by an instruction or two, that of
    quotients alone."""
    mapping: dict[Value, Value] = {}
    back: list[Op] = []
    for block in kernel.blocks:
        if not any(op.name in _INSTRUCTIONS for op in block.ops):
            continue
        old, block.ops = block.ops, []
        build, parts = Builder(block), dict[tuple[Value, Layout], Value]()
        for op in old:
            build.span = op.span
            layout = _shared(op, context.fast_math, parts)
            if layout is None:
                build.insert(op)
                continue
            operands = [_there(build, v, layout, parts) for v in op.operands]
            computed = build.value(op.name, *operands, **op.attributes)
            parts[op.result, layout] = computed
            returned = build.emit("convert_layout", computed, type=op.result.type)
            mapping[op.result] = returned.result
            back.append(returned)
    kernel.replace(mapping)
    read = {value for op in kernel.ops() for value in op.inputs()}
    needless = {op for op in back if op.result not in read}
    for block in kernel.blocks:
        block.ops = [op for op in block.ops if op not in needless]
    return bool(mapping)


def _shared(op: Op, fast: bool, parts: Container[tuple[Value, Layout]]) -> Layout | None:
    """The layout in which lanes share the work of a function; None where that does not pay."""
    t = op.results[0].type if op.results else None
    if op.name not in _INSTRUCTIONS or not isinstance(t, Tile) or t.layout is None:
        return None
    if is_int(t):
        divisor = op.operands[1]
        if scalar(t).bits != 32 or defined_by(divisor, "splat") is None \
                or elements(t.layout) < FEWEST:
            return None
    elif fast:
        return None
    layout, bits = spread(t.layout), scalar(t).bits
    ready = (op.operands[0], layout) in parts or is_index(op.operands[0])
    there = 0 if ready else exchange_cost(t.layout, layout, bits)
    back = exchange_cost(layout, t.layout, bits)
    saved = (elements(t.layout) - elements(layout)) * _INSTRUCTIONS[op.name] * (
        _WIDE if scalar(t) == F64 else 1)
    return layout if there is not None and back is not None and saved > there + back else None


def is_index(value: Value, depth: int = 4) -> bool:
    """Whether a few sums of what all threads have make a tile."""
    op = value.op
    if op is None or not isinstance(value.type, Tile):
        return True
    return op.name in _INDEX and depth > 0 and all(is_index(v, depth - 1) for v in op.operands)


def _there(build: Builder, value: Value, layout: Layout,
           parts: dict[tuple[Value, Layout], Value]) -> Value:
    """The value in the other layout: made there, or brought."""
    if not isinstance(value.type, Tile):
        return value
    if (value, layout) not in parts:
        t, op = with_layout(value.type, layout), value.op
        if op is not None and is_index(value):
            operands = [_there(build, v, layout, parts) for v in op.operands]
            made = build.value(op.name, *operands, type=t, **op.attributes)
        else:
            made = build.value("convert_layout", value, type=t)
        parts[value, layout] = made
    return parts[value, layout]


def elements(layout: Layout) -> int:
    """How many elements a thread computes."""
    return 1 << sum(map(bool, layout.register))


@cache
def spread(layout: Layout) -> Layout:
    """Registers go to lanes that hold copies."""
    register, lane = list(layout.register), list(layout.lane)
    for bit, basis in enumerate(lane):
        if not basis and any(register):
            lane[bit] = register.pop(max(i for i, one in enumerate(register) if one))
    return Layout(layout.shape, tuple(register), tuple(lane), layout.warp)


@cache
def exchange_cost(source: Layout, to: Layout, bits: int) -> float | None:
    """In instructions; None if data would change warps."""
    plan = plan_conversion(source, to, bits)
    if isinstance(plan, Rename):
        return 0
    return shuffle_cost(plan, bits) * _SHUFFLE if isinstance(plan, Shuffle) else None
