"""lower_atomics: the old value of an atomic is distributed to all threads that need it.

Before:  %old = atomic_cas %lock, %zero, %one : i32
After:   %mine = atomic_cas %lock, %zero, %one : i32         in one thread of the block
         %t = splat %mine : i32<1; #all>
         %s = alloc_shared : buffer<1 x i32<1>>
         shared_store %s, %t
         %u = shared_load %s : i32<1; #all>
         %old = reshape %u : i32

An atomic happens once for each element, so where a layout holds copies of an element only one of
them has the result; a scalar is held by all threads.  Results that nobody reads stay.  A volatile
load of a scalar may give each thread another number, so that the first thread's goes the same way.
In a kernel with such operations a scalar store may release a lock: it is marked `release`, so that
what other threads of the program wrote before is visible to the device first."""

from tritonc.backend.shared.shared_memory import allocate
from tritonc.ir.build import follow_each, make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, uses
from tritonc.ir.layouts.layout import LANE_BITS, Layout, log2
from tritonc.ir.layouts.shared_layout import row_major
from tritonc.ir.types import Tile, is_pointer, scalar

ATOMICS = ("atomic_rmw", "atomic_cas")


def lower_atomics(kernel: Kernel, context: Context) -> bool:
    """Pass results that threads could disagree on, or that one has, through shared memory."""
    if not any(map(asks, kernel.ops())):
        return False
    readers = uses(kernel)

    def shared(op: Op) -> list[Op]:
        if op.name == "store" and not isinstance(op.operands[0].type, Tile):
            op.attributes["release"] = True
        if not asks(op) or all(reader.name == "from_first_lane"
                                   for reader in readers.get(op.result, ())):
            return []
        t = op.result.type
        own = isinstance(t, Tile) and t.layout is not None and all(
            t.layout.lane if op.attributes.get("narrow") else t.layout.thread)
        if kernel.attributes["num_warps"] == 1 and not isinstance(t, Tile) and not is_pointer(t):
            return [make_op("from_first_lane", [op.result], span=op.span)]
        return [] if own else share(kernel, op)

    return follow_each(kernel, kernel.blocks, shared)


def asks(op: Op) -> bool:
    """Whether one thread reads memory for all, or one for each element: threads that hold the same
    element of the result would get different values of it."""
    return op.name in ATOMICS or (op.name == "load" and bool(op.attributes.get("volatile"))
                                  and not isinstance(op.result.type, Tile))


def share(kernel: Kernel, op: Op) -> list[Op]:
    """Operations that bring the one valid copy of each element to all threads."""
    copies = Layout((1,), (), (0,) * LANE_BITS, (0,) * log2(kernel.attributes["num_warps"]))
    ops: list[Op] = []
    value, t = op.result, op.result.type
    whole = t if isinstance(t, Tile) else Tile(scalar(t), (1,), copies)
    source = value
    if whole is not t:
        ops.append(make_op("splat", [value], whole))
        source = ops[-1].result
    assert whole.layout is not None
    buffer = allocate(scalar(whole), row_major(whole.shape), span=op.span)
    store = make_op("shared_store", [buffer.result, source], span=op.span)
    load = make_op("shared_load", [buffer.result], whole, span=op.span)
    ops += [buffer, store, load]
    if whole is not t:
        ops.append(make_op("reshape", [load.result], scalar(t)))
    ops[-1].result.name = value.name
    return ops
