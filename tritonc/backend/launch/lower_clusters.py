"""lower_clusters: data that the blocks of a cluster send each other get buffers in shared memory.

Before:  cluster_arrive                      After:  %m = alloc_shared {private = true}
         ...                                         cluster_arrive %m
         %s = cluster_reduce %c                      ...
                                                     %s = cluster_reduce %c, %m {waits = true}

Thread t of every block holds the same elements, so that it sends those that another block owns to
thread t of that one, as they are: no layout changes.  Each sender has a stage of the mailbox, whose
elements are one thread's; the bytes are the mailbox's from cluster_arrive on, which says that this
block runs, and that peers may write.

Needs assign_layouts.  Comes before the pipeline, which takes the shared memory that is left."""

from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.layouts.shared_layout import row_major
from tritonc.ir.types import Buffer, Scalar, Tile, element

WORD = 16  # bytes that a thread sends at once


def lower_clusters(kernel: Kernel, context: Context) -> bool:
    """Give each cluster_reduce a mailbox."""
    arrivals = [op for op in kernel.ops() if op.name == "cluster_arrive"]
    if not arrivals:
        return False
    cfg = Cfg(kernel)
    for arrival in arrivals:
        home = cfg.block_of[arrival]
        nearer = [other for one in arrivals if (other := cfg.block_of[one]) is not home
                  and cfg.dominates(home, other)]
        served = [op for op in kernel.ops() if op.name == "cluster_reduce"
                  and cfg.dominates(home, cfg.block_of[op])
                  and not any(cfg.dominates(other, cfg.block_of[op]) for other in nearer)]
        b = Builder(home, home.ops.index(arrival), arrival.span)
        for op in served:
            made = b.emit("alloc_shared", type=_mailbox(kernel, op))
            if isinstance(op.result.type, Tile):
                made.attributes["private"] = True
            mailbox = made.result
            arrival.operands.append(mailbox)
            op.operands.append(mailbox)
        if served:
            served[0].attributes["waits"] = True
        else:
            home.ops.remove(arrival)
    return True


def _mailbox(kernel: Kernel, op: Op) -> Buffer:
    """A stage for each sender: a word of each thread side by side, for all words that it sends, or
    one for a scalar.  What threads hold for different owners shares a place."""
    t = op.result.type
    e = element(t)
    assert isinstance(e, Scalar)
    per = WORD // e.bytes
    words = max(map(len, sent(op).values())) if isinstance(t, Tile) else 1
    threads = 32 * kernel.attributes["num_warps"] >> len(owner_bits(op)) if isinstance(
        t, Tile) else 1
    shape = (-(-words // per), threads, per)
    senders = op.attributes["size"] - (0 if op.attributes.get("all") else 1)
    return Buffer(e, shape, senders, row_major(shape))


def sent(op: Op) -> dict[int, list[int]]:
    """The registers of the tile without copies, by the bits of their owner that depend on the
    register."""
    t = op.result.type
    if not isinstance(t, Tile):
        return {0: [0]}
    assert t.layout is not None
    found: dict[int, list[int]] = {}
    for register in range(t.layout.registers):
        if not register & t.layout.replicated_registers:
            found.setdefault(owner_of(op, t.layout.at(register=register)), []).append(register)
    return found


def owner_of(op: Op, index: int) -> int:
    return sum(1 << i for i, bit in enumerate(op.attributes["owner"]) if index & bit)


def owner_bits(op: Op) -> tuple[int, ...]:
    """The bits of a thread's number of which each alone is a bit of the owner: of the threads that
    differ in them one sends to a block, so that they have one place there."""
    t = op.result.type
    if not isinstance(t, Tile) or t.layout is None:
        return ()
    bases = owner_bases(op, t.layout)
    found = tuple(bit for bit, base in enumerate(bases) if base)
    alone = len({bases[bit] for bit in found}) == len(found) and all(
        bases[bit] & (bases[bit] - 1) == 0 for bit in found)
    return found if alone else ()


def owner_bases(op: Op, layout: Layout) -> tuple[int, ...]:
    """What each bit of the thread's number adds to the owner, by XOR."""
    return tuple(owner_of(op, basis) for basis in layout.thread)
