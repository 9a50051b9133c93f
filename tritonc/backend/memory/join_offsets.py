"""join_offsets: what a loop does not change of an offset joins the pointer before the loop.

Before:  body: %o = add (broadcast %p), (broadcast %c)     rows x columns; %p is fixed, %c is not
               %a = addptr (splat %x), %o
After:   pre:  %q = addptr (splat %x), %p                  rows
         body: %a = addptr (broadcast %q), (broadcast %c)

One instruction adds an offset of 32 bits to a pointer of 64, so that the sum of both offsets costs
another for each element.  Done where a thread has few rows: the pointer of each takes a register
more than its offset.  Offsets of addresses do not wrap, as the language says.

For loops with products on narrow operands, whose addresses `separate_axes` makes such sums.  Needs
layouts and preheaders.
"""

from __future__ import annotations

from tritonc.backend.layout.compute_once import elements
from tritonc.backend.layout.conversion import layout_of
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I32, Tile, element, with_element

MOST = 4  # rows of a thread


def join_offsets(kernel: Kernel, context: Context) -> bool:
    """Rewrite the addresses in innermost loops of kernels with products."""
    if not any(op.name in DOTS for op in kernel.ops()):
        return False
    cfg, made = Cfg(kernel), dict[tuple[Value, Value], Value]()
    for loop in cfg.loops:
        inside = set(loop.ops())
        for block in loop.blocks:
            if loop.preheader is None or cfg.innermost[block] is not loop:
                continue
            before = Builder(loop.preheader, len(loop.preheader.ops) - 1)
            for op in block.ops:
                found = _fixed_part(op, inside)
                if found is not None:
                    before.span = op.span
                    pointer, fixed, moving = *op.operands[:1], *found
                    if (pointer, fixed) not in made:
                        made[pointer, fixed] = _joined(before, pointer, fixed)
                    op.operands[:] = [made[pointer, fixed], moving]
    return bool(made)


def _fixed_part(op: Op, inside: set[Op]) -> tuple[Value, Value] | None:
    """Of a pointer's offset, what the loop does not change and what it does."""
    if op.name != "addptr" or not isinstance(op.result.type, Tile) \
            or element(op.operands[1].type) != I32:
        return None
    base, total = op.operands[0].op, op.operands[1].op
    if base is None or base.name != "splat" or base in inside or total is None \
            or total.name != "add":
        return None
    fixed = [v for v in total.operands if v.op not in inside]
    moving = [v for v in total.operands if v.op in inside]
    if len(fixed) != 1 or elements(layout_of(_rows(fixed[0]))) > MOST:
        return None
    return fixed[0], moving[0]


def _rows(value: Value) -> Value:
    """What a tile repeats."""
    return value.op.operands[0] if value.op is not None and value.op.name == "broadcast" else value


def _joined(before: Builder, pointer: Value, fixed: Value) -> Value:
    rows = _rows(fixed)
    assert pointer.op is not None
    base = before.value("splat", *pointer.op.operands,
                        type=with_element(rows.type, element(pointer.type)))
    found = before.value("addptr", base, rows)
    return found if rows is fixed else before.value("broadcast", found, type=pointer.type)
