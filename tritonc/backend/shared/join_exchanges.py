"""join_exchanges: small exchanges that do not wait for each other have one barrier.

Before:  shared_store %s, %a                  After:  shared_store %s, %a
         %x = shared_load %s                          %b = reduce %v
         %b = reduce %v                               shared_store %t, %b
         shared_store %t, %b                          %x = shared_load %s
         %y = shared_load %t                          %y = shared_load %t

A barrier stands between a store and its load, which neither LLVM nor the assembler moves anything
over: of two sums of a row, all threads would wait for the first one before the shuffles of the
second begin.  A store moves before an earlier load of another buffer, with what it needs, over
operations that have no other effects.  Both buffers are in use at once then, so that only those of
partial results move.

Needs the exchanges of lower_conversions; before allocate_shared.
"""

from __future__ import annotations

from tritonc.analysis.values import needed
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op
from tritonc.ir.ops import SYNC
from tritonc.ir.types import Buffer

_BYTES = 2048  # of a buffer: two of them leave 32 blocks of a multiprocessor their places


def join_exchanges(kernel: Kernel, context: Context) -> bool:
    """Move the stores of each block."""
    changed = False
    for block in kernel.blocks:
        changed |= _join(block)
    return changed


def _join(block: Block) -> bool:
    loads, changed = [op for op in block.ops if op.name == "shared_load" and _small(op)], False
    for load in loads:
        at = block.ops.index(load)
        for store in block.ops[at:]:
            if SYNC in store.effects:
                break
            if store.name == "shared_store":
                end = block.ops.index(store) + 1
                moved = [*needed(block.ops[at:end], store.inputs()), store]
                own = store.operands[0].op  # nothing before it accesses the buffer
                if not _small(store) or own not in moved or any(
                        op.effects for op in moved if op not in (own, store)):
                    break
                block.ops[at:end] = [*moved, *(op for op in block.ops[at:end] if op not in moved)]
                at, changed = at + len(moved), True
    return changed


def _small(op: Op) -> bool:
    """Whether an access is one of a whole exchange of partial results."""
    buffer = op.operands[0].type
    assert isinstance(buffer, Buffer)
    return buffer.bytes <= _BYTES and op.operands[0].op is not None \
        and op.operands[0].op.name == "alloc_shared" and not op.attributes
