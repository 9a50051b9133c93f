"""persist: as many blocks as run at once compute all instances of a product, one after another.

Before:  entry: ...                       After:  launch: br head
         ...                                      head:  %i = phi [first], [%i + blocks]
         ret                                             cond_br %i < instances, entry, done
                                                  entry: ... instance %i
                                                         br next
                                                  next:  br head
                                                  done:  ret

Making tensor maps, barriers and the first copies takes a block some microseconds, a tenth of the
time of a middling tile.  The launch still has a block for each instance: those beyond what the
multiprocessors hold find their instance taken and end.  Instances keep their numbers, so that one
that asks for its number gets it; a kernel with atomics, whose instances may wait for each other, is
left alone.

Also gives the instances the order of `group_instances`.  Done where a dot runs on wgmma, whose
blocks fill a multiprocessor each.  Meta-parameter `persistent`: 0 leaves one block for each
instance.
"""

from __future__ import annotations

from tritonc.backend.machine_ops import ALL_OPS
from tritonc.backend.matrix import BY_NAME, WGMMA
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import READ, WRITE
from tritonc.ir.types import I32


def wanted(kernel: Kernel, context: Context) -> bool:
    """Whether the kernel gains from it and allows it."""
    if not context.meta.get("persistent", 1):
        return False
    found = False
    for op in kernel.ops():
        if op.name == "get_program_id" and op.attributes["axis"] > 1:
            return False
        if ALL_OPS[op.name].effects >= {READ, WRITE}:
            return False
        name = op.attributes.get("instruction") if op.name == "dot" else None
        found |= name is not None and BY_NAME[name].kind == WGMMA
    return found


def add_loop(kernel: Kernel) -> tuple[Block, Value]:
    """Put the kernel into a loop over instances.  Returns the block that begins an instance, and
    the instance's number."""
    launch, head, start = Block("launch"), Block("head"), Block("instance")
    following, done = Block("next"), Block("done")
    b = Builder(launch)
    m, n = (b.value("get_program_id", axis=axis) for axis in (0, 1))
    rows, columns = (b.value("get_num_programs", axis=axis) for axis in (0, 1))
    total = b.value("mul", rows, columns)
    own = b.value("add", b.value("mul", n, rows), m)
    blocks = b.emit("get_num_multiprocessors", type=I32, table=ALL_OPS).result
    first = b.value("select", b.value("icmp", own, blocks, predicate="slt"), own, total)
    b.emit("br", blocks=[head])
    number = Op("phi", [first], {}, (I32,), blocks=[launch])
    number.result.name = "instance"
    head.ops.append(number)
    b = Builder(head)
    b.emit("cond_br", b.value("icmp", number.result, total, predicate="slt"),
           blocks=[start, done])
    b = Builder(following)
    after = b.value("add", number.result, blocks)
    b.emit("br", blocks=[head])
    number.operands.append(after)
    number.blocks.append(following)
    for block in kernel.blocks:
        if block.terminator.name == "ret":
            block.ops[-1] = Op("br", [], blocks=[following], span=block.terminator.span)
    Builder(done).emit("ret")
    Builder(start).emit("br", blocks=[kernel.entry])
    kernel.blocks = [launch, head, start, *kernel.blocks, following, done]
    return start, number.result
