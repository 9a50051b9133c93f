"""compute_once: lanes that hold copies share the work of sines and other long functions.

Before:  %c = cos %a : f32<8, 1, 32; #l>       After:  %b = convert_layout %a : f32<8, 1, 32; #once>
                                                       %d = cos %b : f32<8, 1, 32; #once>
                                                       %c = convert_layout %d : f32<8, 1, 32; #l>

A tile that is broadcast later, such as the angles of all heads, lies where its reader's elements
do: lanes that differ along the broadcast axis hold, and compute, the same elements.  In #once each
of these lanes has a part of the registers; shuffles bring the results to all.  Done where that
takes fewer instructions, by the plan of the conversions.
"""

from __future__ import annotations

from tritonc.backend.layout.conversion import Rename, plan_conversion, shuffle_cost
from tritonc.backend.layout.shuffle import Shuffle
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.types import F64, Tile, scalar, with_layout

# Instructions on the shortest way through a function of an f32, by ptxas 13.0 for sm_90.
_INSTRUCTIONS = {"sin": 28, "cos": 28, "erf": 24, "tanh": 20, "log": 20, "log2": 20}
_WIDE = 4  # times as many for an f64
_SHUFFLE = 2  # instructions that go out in the time of one


def compute_once(kernel: Kernel, context: Context) -> bool:
    """Let lanes share the work, unless functions are approximated by an instruction or two."""
    mapping: dict[Value, Value] = {}
    for block in kernel.blocks if not context.fast_math else ():
        old, block.ops = block.ops, []
        build, parts = Builder(block), dict[tuple[Value, Layout], Value]()
        for op in old:
            build.span = op.span
            layout = _shared(op)
            if layout is None:
                build.insert(op)
                continue
            t, key = op.result.type, (op.operands[0], layout)
            if key not in parts:
                parts[key] = build.value("convert_layout", op.operands[0],
                                         type=with_layout(t, layout))
            computed = build.value(op.name, parts[key], **op.attributes)
            mapping[op.result] = build.value("convert_layout", computed, type=t)
    kernel.replace(mapping)
    return bool(mapping)


def _shared(op: Op) -> Layout | None:
    """The layout in which lanes share the work of a function; None where that does not pay."""
    t = op.results[0].type if op.results else None
    if op.name not in _INSTRUCTIONS or not isinstance(t, Tile) or t.layout is None:
        return None
    layout, bits = _spread(t.layout), scalar(t).bits
    there, back = _cost(t.layout, layout, bits), _cost(layout, t.layout, bits)
    saved = (_elements(t.layout) - _elements(layout)) * _INSTRUCTIONS[op.name] * (
        _WIDE if scalar(t) == F64 else 1)
    return layout if there is not None and back is not None and saved > there + back else None


def _elements(layout: Layout) -> int:
    """How many elements a thread computes."""
    return 1 << sum(map(bool, layout.register))


def _spread(layout: Layout) -> Layout:
    """Registers go to lanes that hold copies."""
    register, lane = list(layout.register), list(layout.lane)
    for bit, basis in enumerate(lane):
        if not basis and any(register):
            lane[bit] = register.pop(max(i for i, one in enumerate(register) if one))
    return Layout(layout.shape, tuple(register), tuple(lane), layout.warp)


def _cost(source: Layout, to: Layout, bits: int) -> float | None:
    """In instructions; None if data would change warps."""
    plan = plan_conversion(source, to, bits)
    if isinstance(plan, Rename):
        return 0
    return shuffle_cost(plan, bits) * _SHUFFLE if isinstance(plan, Shuffle) else None
