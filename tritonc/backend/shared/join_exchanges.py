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

Needs the exchanges of lower_conversions; before allocate_shared."""

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
    at, waits, changed = 0, False, False  # whether a load would be the first behind a store
    while at < len(block.ops):
        op = block.ops[at]
        if op.name == "shared_load":
            moved = _ready(block.ops[at:]) if waits and _small(op) else []
            block.ops[at:] = [*moved, *(op for op in block.ops[at:] if op not in moved)]
            at, waits, changed = at + len(moved), False, changed or bool(moved)
        waits |= op.name == "shared_store"
        at += 1
    return changed


def _ready(ops: list[Op]) -> list[Op]:
    """The stores that could stand before the first of the operations, with what they need."""
    found: dict[Op, None] = {}
    for end, store in enumerate(ops, 1):
        if SYNC in store.effects:
            break
        if store.name == "shared_store":
            moved = needed(ops[:end], store.inputs())
            own = store.operands[0].op  # nothing before it accesses the buffer
            if not _small(store) or own not in moved or any(op.effects for op in moved if op not in
                                                            found and op is not own):
                break
            found |= dict.fromkeys([*moved, store])
    return [op for op in ops if op in found]


def _small(op: Op) -> bool:
    """Whether an access is one of a whole exchange of partial results."""
    buffer = op.operands[0].type
    assert isinstance(buffer, Buffer)
    return buffer.bytes <= _BYTES and op.operands[0].op is not None \
        and op.operands[0].op.name == "alloc_shared" and not op.attributes
