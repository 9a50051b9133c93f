"""Prefetches to the L2 cache."""

from __future__ import annotations

from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.ir.core import Op
from tritonc.ir.layouts.layout import LANE_BITS, log2
from tritonc.ir.rules import pointee
from tritonc.ir.types import scalar

LINE = 128  # bytes of the cache that come together


def prefetch_tile(f: FunctionEmitter, op: Op) -> None:
    """Threads take lines of the tile in turn."""
    base, stride, rows, columns = (f.scalar(v) for v in op.operands)
    size, (extent, width) = scalar(pointee(op.operands[0].type)).bytes, op.attributes["extents"]
    each = min(LINE // size, width)
    of_row, threads = width // each, f.warps << LANE_BITS
    lines, far = extent * of_row, f.op(f"mul i64 {stride}, {size}")
    for first in range(0, lines, threads):
        number = f.op(f"add i32 {f.thread}, {first}")
        row = f.op(f"lshr i32 {number}, {log2(of_row)}")
        column = f.op(f"mul i32 {f.op(f'and i32 {number}, {of_row - 1}')}, {each}")
        inside = f.both(f.op(f"icmp slt i32 {row}, {rows}"),
                        f.op(f"icmp slt i32 {column}, {columns}"))
        if first + threads > lines:
            inside = f.both(inside, f.op(f"icmp ult i32 {number}, {lines}"))
        place = f.op(f"mul i64 {f.op(f'zext i32 {row} to i64')}, {far}")
        offset = f.op(f"mul i64 {f.op(f'zext i32 {column} to i64')}, {size}")
        line = f.op(f"getelementptr i8, ptr addrspace(1) {base}, "
                    f"i64 {f.op(f'add i64 {place}, {offset}')}")
        f.asm("void", "@$1 prefetch.global.L2 [$0];", [], [
            ("l", f"ptr addrspace(1) {line}"), ("b", f"i1 {f.both(inside, f.guard(op))}")],
            memory=False)


EMITTERS: dict[str, Emitter] = {"prefetch_tile": prefetch_tile}
