"""allocate_shared: every buffer gets its place in the block's shared memory.

Before:  %s = alloc_shared : buffer<1 x f32<64, 16>>
After:   %s = alloc_shared {offset = 4096} : buffer<1 x f32<64, 16>>    and shared_bytes is set

A buffer is live from its first to its last use in block order, and through every loop that this
touches, unless it is made anew in each iteration.  Buffers that are live at once must not overlap:
the largest are placed first, each at the lowest offset that is free over its life (the storage
allocation of the paper, section 5.2).

A buffer in the bytes of the one used just before it costs a barrier: all threads must have read
that one first.  So it goes beside it where this takes no memory beyond what the kernel needs
anyway, or no more than ROOM that keeps no block from the multiprocessor; then the barrier between
writing and reading one separates the uses of the other, and a chain of exchanges has one barrier
each.

Needs lower_conversions and stage_dots; insert_barriers must come later, since buffers that share
bytes conflict."""

from collections.abc import Callable
from itertools import pairwise

from tritonc.backend.launch.choose_pingpong import refuse
from tritonc.backend.shared import shared_memory
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op
from tritonc.ir.types import Buffer
from tritonc.source import fail

_COMMON = ("tma_load", "wait_empty", "expect_full", "wait_full", "arrive_empty", "claim_slot",
           "init_barriers", "tensor_map", "publish_maps", "start_producer")
APART = 1024  # what distances between the buffers of two programs are multiples of
ROOM = 4096  # bytes that a block may use without keeping others from its multiprocessor


def allocate_shared(kernel: Kernel, context: Context) -> bool:
    """Set `offset` on every alloc_shared and `shared_bytes` on the kernel.

    Raises CompileError if the buffers need more than the target has."""
    target: Target = context.target
    if not any(op.name == "start_producer" for op in kernel.ops()) \
            and kernel.attributes.pop("pingpong", None):
        refuse(context, "no producer warp brings operands of two programs", kernel.span)
    size = sizes(kernel)
    offsets, total = placement(kernel, target.shared_per_block, lambda used: _spare(used, target))
    if total > target.shared_per_block and kernel.attributes.pop("pingpong", None):
        refuse(context, f"buffers of two programs need {total} bytes of shared memory", kernel.span)
        return allocate_shared(kernel, context)
    for op, offset in offsets.items():
        op.attributes["offset"] = offset
        if size[op] > shared_memory.buffer_bytes(op):
            op.attributes["second"] = _apart(op)
    changed = bool(offsets) or kernel.attributes.get("shared_bytes") != total
    kernel.attributes["shared_bytes"] = total
    if total > target.shared_per_block:
        largest = max(offsets, key=lambda op: shared_memory.buffer_bytes(op))
        raise fail("shared-memory", largest.span or kernel.span,
                   f"kernel '{kernel.name}' needs {total} bytes of shared memory; {target.name} "
                   f"has {target.shared_per_block} for a block: smaller tiles would fit")
    return changed


def sizes(kernel: Kernel) -> dict[Op, int]:
    """The bytes of each buffer.  Of a block that computes two programs at once, each has its own,
    but for those that the producer fills."""
    found = {op: shared_memory.buffer_bytes(op) for op in kernel.ops() if op.name == "alloc_shared"}
    for op in _of_programs(kernel):
        found[op] += _apart(op)
    return found


def _of_programs(kernel: Kernel) -> set[Op]:
    """The buffers that each program has, of blocks that compute two at once."""
    if kernel.attributes.get("pingpong", 1) == 1:
        return set()
    common = {shared_memory.allocation(v)[0] for op in kernel.ops() if op.name in _COMMON
              for v in op.operands if isinstance(v.type, Buffer)}
    return {op for op in kernel.ops() if op.name == "alloc_shared"} - common


def _apart(op: Op) -> int:
    """How far the second program's buffer is from the first one's."""
    return -(-shared_memory.buffer_bytes(op) // APART) * APART


def _spare(used: int, target: Target) -> int:
    """The bytes that blocks of so many may have, as many of which are resident then."""
    blocks = target.shared_per_multiprocessor // (used + target.shared_reserved + 1)
    most = target.shared_per_multiprocessor // max(blocks, 1) - target.shared_reserved
    return max(ROOM, min(most, used + ROOM, *(
        [target.static_shared] if used <= target.static_shared else [])))


def placement(kernel: Kernel, limit: int, room: Callable[[int], int] = lambda used: ROOM
              ) -> tuple[dict[Op, int], int]:
    """An offset for each buffer, the largest first, and the bytes that all need together: no more
    than `limit`, if that can be.  `room`: what may be taken, if so many bytes are used, so that a
    buffer does not lie where the one before it was."""
    lives = live_ranges(kernel)
    beside, size = neighbours(kernel), sizes(kernel)
    offsets: dict[Op, int] = {}
    total = 0
    for op in sorted(lives, key=lambda op: (-size[op], lives[op])):
        own, alignment = size[op], _alignment(_buffer(op))
        first, last = lives[op]
        placed = [(other, start, start + size[other]) for other, start in offsets.items()]
        rivals = [(start, end) for other, start, end in placed
                  if lives[other][0] <= last and first <= lives[other][1]]
        close = [(start, end) for other, start, end in placed if (op, other) in beside]
        offset = _lowest(own, alignment, [*rivals, *close])
        if offset + own > max(total, min(limit, room(total))):
            offset = _lowest(own, alignment, rivals)
        offsets[op] = offset
        total = max(total, offset + own)
    return offsets, total


def fits(kernel: Kernel, limit: int, more: int = 0) -> bool:
    """Whether the kernel's buffers, and `more` bytes beside them all, fit into `limit` bytes."""
    every = sum(-(-size // _alignment(_buffer(op))) * _alignment(_buffer(op))
                for op, size in sizes(kernel).items())
    return every + more <= limit or placement(kernel, limit)[1] + more <= limit


def _lowest(size: int, alignment: int, taken: list[tuple[int, int]]) -> int:
    """The lowest offset at which so many bytes meet none of the intervals."""
    offset = 0
    for start, end in sorted(taken):
        if offset + size <= start:
            break
        offset = max(offset, -(-end // alignment) * alignment)
    return offset


def _alignment(buffer: Buffer) -> int:
    return max(16, buffer.layout.alignment if buffer.layout else 16)


def neighbours(kernel: Kernel) -> set[tuple[Op, Op]]:
    """Pairs of buffers, in both orders, one of which is the next to be used after the other;
    threads do not wait for each other to use private ones."""
    cfg = Cfg(kernel)
    used: dict[Block, list[Op]] = {}  # in order, without repetition
    for block in cfg.order:
        used[block] = []
        for op in block.ops:
            for access in shared_memory.accesses(op):
                if used[block][-1:] != [access.allocation] \
                        and not access.allocation.attributes.get("private"):
                    used[block].append(access.allocation)
    found: set[tuple[Op, Op]] = set()

    def chain(blocks: list[Block], around: bool) -> None:
        roots = [root for block in blocks for root in used[block]]
        pairs = list(pairwise(roots)) + ([(roots[-1], roots[0])] if around and roots else [])
        for one, two in pairs:
            if one is not two:
                found.update(((one, two), (two, one)))

    chain(cfg.order, False)
    for loop in cfg.loops:
        chain(loop.blocks, True)
    return found


def _buffer(op: Op) -> Buffer:
    assert isinstance(op.result.type, Buffer)
    return op.result.type


def live_ranges(kernel: Kernel) -> dict[Op, tuple[int, int]]:
    """First and last use of every buffer, as positions in block order."""
    cfg = Cfg(kernel)
    position: dict[Op, int] = {}
    spans: dict[Block, tuple[int, int]] = {}
    home: dict[Op, Block] = {}
    for block in cfg.order:
        start = len(position)
        for op in block.ops:
            position[op] = len(position)
            home[op] = block
        spans[block] = (start, len(position) - 1)
    lives: dict[Op, tuple[int, int]] = {}
    touched: dict[Op, list[tuple[Block, bool]]] = {}  # by a write?
    for block in cfg.order:
        fence = len(position)
        for op in block.ops:
            if op.name == "proxy_fence":
                fence = position[op]
            for access in shared_memory.accesses(op):
                touched.setdefault(access.allocation, []).append((block, access.write))
                first, last = lives.get(access.allocation, (position[op], position[op]))
                if op.name == "tma_load":  # behind the fence, no thread may write there
                    first = min(first, fence)
                lives[access.allocation] = (min(first, position[op]), max(last, position[op]))
            products = [v.op for v in op.operands if op.name == "wgmma_wait"]
            while products:
                product = products.pop()
                if product is not None and product.name == "wgmma" and product in position:
                    for access in shared_memory.accesses(product):  # the product reads until then
                        first, _ = lives[access.allocation]
                        lives[access.allocation] = first, position[op]
                    products.append(product.operands[2].op)  # whose sum it took without a wait
    extents = {loop: (min(spans[b][0] for b in loop.blocks), max(spans[b][1] for b in loop.blocks))
               for loop in cfg.loops}
    # Nor does one program know how far a block's other one is.
    own = _of_programs(kernel)
    pinned = [op for op in position if op.attributes.get("pinned") or op in own]
    users: dict[Op, list[Block]] = {op: [] for op in pinned}
    for user in position if pinned else ():
        for root in shared_memory.allocations(user) & users.keys():
            users[root].append(home[user])
    for op in pinned:  # the whole run of a body
        run = shared_memory.body_of(cfg, users[op])
        lives[op] = (min(spans[block][0] for block in run), max(spans[block][1] for block in run))
    ahead = _copied_ahead(cfg, position, lives)
    for root, (first, last) in lives.items():
        fresh = _written_first(cfg, touched.get(root, []))
        if root in ahead:
            fresh = None
            first, last = ahead[root]
        if fresh is not None and root not in users:
            home[root] = fresh
        for loop in reversed(cfg.loops):  # inner ones first: an outer one may be touched by then
            start, end = extents[loop]
            if home[root] not in loop and first <= end and start <= last:
                first, last = min(first, start), max(last, end)
        lives[root] = (first, last)
    return lives


def _copied_ahead(cfg: Cfg, position: dict[Op, int], lives: dict[Op, tuple[int, int]]
                  ) -> dict[Op, tuple[int, int]]:
    """The lives of buffers that a producer warp may fill from its start on, until the last of them
    has been read: it runs ahead of those that read them, over all that lies between."""
    found: dict[Op, tuple[int, int]] = {}
    for start in position:
        if start.name != "start_producer":
            continue
        blocks = [block for block in cfg.order if cfg.dominates(cfg.block_of[start], block)]
        filled = {access.allocation for block in blocks for op in block.ops
                 for access in shared_memory.accesses(op)
                 if access.allocation.attributes.get("continues")}
        for buffer in filled:
            found[buffer] = (min(position[start], lives[buffer][0]),
                           max(lives[other][1] for other in filled))
    return found


def _written_first(cfg: Cfg, touched: list[tuple[Block, bool]]) -> Block | None:
    """The block that runs before all uses of a buffer and begins them by a write, if there is one.

    What the buffer held when it was reached before is then of no use: the buffer is as good as made
    there, and a loop around it does not keep it alive."""
    if not touched or not touched[0][1]:
        return None
    first = touched[0][0]
    return first if all(cfg.dominates(first, block) for block, _ in touched) else None
