"""Reductions and scans within a warp.

First the registers of a thread fold, in a balanced tree over row-major order; then lanes exchange
their partial results, from the lowest lane bit of the axis on, so that all of them end with the
whole. The order is fixed.  Sums and products of floats narrower than f32 accumulate in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tritonc.backend.emit.arithmetic import combine
from tritonc.backend.emit.casts import convert_float
from tritonc.backend.emit.demand import reduced_registers
from tritonc.backend.emit.function import FunctionEmitter
from tritonc.backend.emit.literals import llvm_type
from tritonc.backend.emit.registers import members, reduction_groups
from tritonc.backend.emit.warps import FULL_WARP, exchange
from tritonc.ir.core import Op
from tritonc.ir.layout import LANE_BITS, Layout, axis_bases
from tritonc.ir.layout_ops import reduction
from tritonc.ir.types import F32, I32, Scalar, Tile, scalar

_REDUX = {"add": "add", "smin": "min", "smax": "max", "umin": "umin", "umax": "umax",
          "and": "and", "or": "or", "xor": "xor"}


def _tree(items: Sequence[str], fold: Callable[[str, str], str]) -> str:
    """Neighbours first, then neighbours of the results."""
    while len(items) > 1:
        pairs = [fold(items[i], items[i + 1]) for i in range(0, len(items) - 1, 2)]
        items = [*pairs, items[-1]] if len(items) % 2 else pairs
    return items[0]


def _accumulator(kind: str, e: Scalar) -> Scalar:
    return F32 if kind in ("fadd", "fmul") and e.bits < 32 else e


def _lanes(layout: Layout, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The lane bits inside the axes, once it is clear that no warp bits are."""
    plan = reduction(layout, axes)
    if plan.warp:
        raise AssertionError("a reduction across warps is split before it is emitted")
    return plan.lane


def reduce(f: FunctionEmitter, op: Op) -> None:
    kind, axes = op.attributes["kind"], tuple(op.attributes["axes"])
    operand = op.operands[0]
    layout, e = f.layout(operand), scalar(operand.type)
    wide = _accumulator(kind, e)
    lanes, groups = _lanes(layout, axes), reduction_groups(layout, axes)
    names, picked = f.values[operand], reduced_registers(op, f.warps)
    done: dict[int, str] = {}
    for i in sorted({picked[r] for r in members(f.wanted(op.result))}):
        items = [convert_float(f, e, wide, names[r]) for r in groups[i]]
        total = _tree(items, lambda a, b: combine(f, kind, wide, a, b))
        done[i] = convert_float(f, wide, e, _across_lanes(f, kind, wide, total, lanes))
    found = f.blank(op.result.type)
    for r in members(f.wanted(op.result)):
        found[r] = done[picked[r]]
    f.values[op.result] = found


def _across_lanes(f: FunctionEmitter, kind: str, e: Scalar, name: str, lanes: tuple[int, ...]
                  ) -> str:
    whole = len(lanes) == LANE_BITS and e == I32 and kind in _REDUX
    if whole and "reduce_lanes" in f.target.features:
        return f.convergent(f"llvm.nvvm.redux.sync.{_REDUX[kind]}", "i32", f"i32 {name}", FULL_WARP)
    for bit in lanes:
        name = combine(f, kind, e, name, exchange(f, e, name, 1 << bit))
    return name


# ---- scans ---------------------------------------------------------------------------------------


def scan(f: FunctionEmitter, op: Op) -> None:
    """Inclusive, by doubling: blocks of 1, 2, 4, ... along the axis, from its lowest bit.

    For each element two results are kept: of the elements up to it in its block, and of its whole
    block.  When two blocks join, the upper one's elements take the lower one's whole before theirs.
    """
    kind, axis = op.attributes["kind"], op.attributes["axis"]
    operand = op.operands[0]
    layout, e = f.layout(operand), scalar(operand.type)
    assert isinstance(operand.type, Tile)
    _lanes(layout, (axis,))
    wide = _accumulator(kind, e)
    prefix = [convert_float(f, e, wide, name) for name in f.values[operand]]
    whole = list(prefix)

    def join(a: str, b: str) -> str:
        return combine(f, kind, wide, a, b)

    for basis in axis_bases(layout.shape, axis):
        if basis in layout.register:
            _join_registers(prefix, whole, 1 << layout.register.index(basis), join)
        else:
            _join_lanes(f, prefix, whole, wide, layout.lane.index(basis), join)
    f.values[op.result] = [convert_float(f, wide, e, name) for name in prefix]


def _join_registers(prefix: list[str], whole: list[str], bit: int,
                    join: Callable[[str, str], str]) -> None:
    joined: dict[tuple[str, str], str] = {}
    for low in range(len(prefix)):
        if low & bit:
            continue
        high = low | bit
        before = whole[low]
        prefix[high] = join(before, prefix[high])
        key = (before, whole[high])
        if key not in joined:
            joined[key] = join(*key)
        whole[low] = whole[high] = joined[key]


def _join_lanes(f: FunctionEmitter, prefix: list[str], whole: list[str], e: Scalar, bit: int,
                join: Callable[[str, str], str]) -> None:
    upper, t = f.thread_bit(bit), llvm_type(e)
    known: dict[str, tuple[str, str]] = {}
    for r, own in enumerate(whole):
        if own not in known:
            other = exchange(f, e, own, 1 << bit)
            known[own] = (other, join(own, other))
        other, both = known[own]
        after = join(other, prefix[r])
        prefix[r] = f.op(f"select i1 {upper}, {t} {after}, {t} {prefix[r]}")
        whole[r] = both


EMITTERS: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    "reduce": reduce, "scan": scan,
}
