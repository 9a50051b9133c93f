"""TMA stores of results by warpgroups that do not wait for each other.

Where a warp of its own makes the copies, nothing else keeps warpgroups together: one can compute
while another one's result leaves.  `spread` gives each part of a result a buffer of its own, so
that none waits until TMA has read another, and all leave together; `by_warpgroups` lets the
first thread of each warpgroup store the rows that it holds, as soon as its own threads have written
them.

Before:  store_wait {pending = 1}              After:  store_wait {pending = 0, groups = 2}
         %z = tile_part %y {index = 0}                 %z = tile_part %y {index = 0}
         shared_store %s, %z                           shared_store %s, %z
         proxy_fence                                   ...
         tma_store %s, ...                          proxy_fence
         store_wait {pending = 1}                      tma_store %s, ... {groups = 2}
         ...                                           ...
"""

from collections.abc import Callable

from tritonc.backend.pipeline.staged_loop import buffer_of
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.layout import axis_bases, log2
from tritonc.ir.layouts.shared_layout import tensor_core
from tritonc.ir.types import Tile

GROUP_BITS = 2  # of a warp's number, below that of its warpgroup
_SWIZZLED_ROWS = 8  # a swizzle repeats after


def spread(kernel: Kernel, body: set[Block], fits: Callable[[int], bool]) -> list[Op]:
    """Give each part of a result of the `body` a buffer, if it `fits` that they take so many bytes
    more.

    Returns the new buffers."""
    found: list[Op] = []
    for block in [block for block in kernel.blocks if block in body]:
        sends = [op for op in block.ops if op.name == "tma_store"]
        buffers = [op.operands[0] for op in sends]
        writes = [op for op in block.ops if op.name == "shared_store" and op.operands[0] in buffers]
        more = [op for i, op in enumerate(sends) if op.operands[0] in buffers[:i]]
        if not more or buffers != [op.operands[0] for op in writes] \
                or not fits(sum(buffer_of(v).bytes for v in (
                    *(op.result for op in found), *(op.operands[0] for op in more)))):
            continue
        for write, send in zip(writes, sends, strict=True):
            if send in more:
                own = make_op("alloc_shared", [], send.operands[0].type, span=send.span,
                              named=send.operands[0].name, pinned=True)
                kernel.entry.ops.insert(0, own)
                write.operands[0] = send.operands[0] = own.result
                found.append(own)
        first, *others = [op for op in block.ops[: block.ops.index(sends[-1])]
                          if op.name == "store_wait"]
        first.attributes["pending"] = 0
        block.ops = [op for op in block.ops if op not in others]
        send_together(block, writes, sends)
    return found


def send_together(block: Block, writes: list[Op], sends: list[Op]) -> None:
    """Send the parts when all are written: with one fence, behind which threads meet once."""
    first, last = block.ops.index(writes[0]), block.ops.index(sends[-1])
    between = block.ops[first:last]
    fences = [op for op in between if op.name == "proxy_fence"]
    if all(op.pure or op.name in ("load", "group_barrier") or op in (*fences, *writes, *sends)
           for op in between):
        kept = [op for op in between if op not in (*fences[:-1], *sends)]
        block.ops[first:last] = [*kept, *sends[:-1]]


def by_warpgroups(kernel: Kernel, home: Block, slot: Value, own: Value) -> None:
    """Let each warpgroup store its rows, if all stores by maps of the slot allow it.

    `slot`: of the maps; `own`: the same, known to all threads behind `home`."""
    cfg = Cfg(kernel)
    inside = [op for op in kernel.ops() if cfg.dominates(home, cfg.block_of[op])]
    sends = [op for op in inside if op.name == "tma_store"]
    waits = [op for op in inside if op.name == "store_wait"]
    found = {_groups(kernel, op) for op in sends}
    if len(found) != 1 or not all(op.operands[1] is slot for op in sends) or any(
            op.name == "tma_store" and op.operands[1] is slot and op not in sends
            for op in kernel.ops()):
        return
    groups = found.pop()
    if groups < 2:
        return
    for op in sends:
        columns, rows = op.attributes["box"]
        buffer = op.operands[0].op
        assert buffer is not None
        op.operands[1] = own
        op.attributes.update(box=(columns, rows // groups), groups=groups)
        buffer.attributes["groups"] = groups
    stored = {op.attributes["index"]: op.attributes["box"] for op in sends}
    scratch = next(op.operands[1] for op in kernel.ops()
                   if op.name == "publish_maps" and op.operands[0] is slot)
    for op in kernel.ops():
        if op.name == "tensor_map" and op.operands[0] is scratch and (
                op.attributes["index"] in stored):
            op.attributes["box"] = stored[op.attributes["index"]]
    for op in waits:
        op.attributes["groups"] = groups
    for block in kernel.blocks:  # all have stored before the maps go
        for at, op in reversed(list(enumerate(block.ops))):
            if op.name == "release_slot" and op.operands[0] is slot:
                block.ops.insert(at, make_op("barrier", []))


def _groups(kernel: Kernel, send: Op) -> int:
    """How many warpgroups hold the rows of a part, each a run of them; 1 if it is not so."""
    buffer = send.operands[0]
    b, (columns, rows) = buffer_of(buffer), send.attributes["box"]
    inner = next((i for i in (1, 0) if b.shape[i] >= columns and b.layout == tensor_core(
        b.shape, (i, 1 - i), b.element.bytes, columns * b.element.bytes)), None)
    if buffer.op is None or buffer.op.name != "alloc_shared" or inner is None:
        return 1
    found = set()
    for op in kernel.ops():
        if buffer in op.operands and op is not send:
            t = op.operands[-1].type
            if op.name == "tma_store" and op.attributes["box"] == (columns, rows):
                continue
            if op.name != "shared_store" or not isinstance(t, Tile) or t.layout is None:
                return 1
            found.add(t.layout.warp[GROUP_BITS:])
    if len(found) != 1:
        return 1
    (bits,) = found
    groups = 1 << len(bits)
    if groups == 1 or rows % (groups * _SWIZZLED_ROWS) \
            or bits != axis_bases(b.shape, 1 - inner)[log2(rows // groups):]:
        return 1
    return groups
