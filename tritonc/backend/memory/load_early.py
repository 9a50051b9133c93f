"""load_early: loads that a row needs at its end start before its reduction.

Before:  %x = load %p : f32<1024>                   After:  %x = load %p : f32<1024>
         %s = reduce %x                                     %i = load %q : i32
         %i = load %q : i32                                 %n = load (addptr %r, %i) : f32
         %n = load (addptr %r, %i) : f32                    %s = reduce %x
         ... %s, %n                                         ... %s, %n

A reduction ends in a barrier or in shuffles, which neither LLVM nor the assembler moves a load
over, so that the block would wait for memory once more.  Loads of single elements, with what their
addresses need, move before the first reduction that they do not depend on, over operations without
effects and other loads.  Whatever else might be moved takes registers that a row needs itself.

Needs nothing; before layouts, so that exchanges are not yet in the way."""

from tritonc.analysis.values import needed
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import READ
from tritonc.ir.types import Tile


def load_early(kernel: Kernel, context: Context) -> bool:
    """Move the loads of each block."""
    changed = False
    for block in kernel.blocks:
        for load in [op for op in block.ops if op.name == "load" and _single(op.result)]:
            changed |= _move(block, load)
    return changed


def _single(value: Value) -> bool:
    return not isinstance(value.type, Tile) or value.type.size == 1


_COMBINING = ("reduce", "scan", "reduce_with", "scan_with")


def _passes(op: Op) -> bool:
    """Whether a load may move over the operation, if it does not need it."""
    return not op.effects - {READ} and op.name != "phi" and (not op.attributes.get("volatile"))


def _move(block: Block, load: Op) -> bool:
    """Move the load and what it needs before the first reduction after the last effect."""
    last = first = block.ops.index(load)
    while first and _passes(block.ops[first - 1]):
        first -= 1
    span = block.ops[first : last + 1]
    reduced = next((i for i, op in enumerate(span) if op.name in _COMBINING), None)
    if reduced is None or not _passes(load):
        return False
    moved = needed(span[reduced:], load.results)
    if any(op.name in _COMBINING or not all(map(_single, op.results)) for op in moved):
        return False
    block.ops[first : last + 1] = [*span[:reduced], *moved,
                                   *(op for op in span[reduced:] if op not in moved)]
    return True
