"""split_loops: split-K over a cluster: its blocks share the iterations of an accumulation loop.

Before:  %k = phi [%k0], [%k + TK]           After, in the cluster's block r of C:
         %c = phi [%zero], [dot ..., %c]       %k = phi [%k0 + r * TK], [%k + C * TK]
         ...                                   %c = phi [%zero], [dot ..., %c]
         store %p, %c                          ...
                                               %s = cluster_reduce %c
                                               store %p, %s     of the elements that r owns

A launch of few tiles keeps few multiprocessors busy, each for all of K.  Blocks of one cluster run
at the same time and reach each other's shared memory, so that C of them compute one program: each
takes every C-th iteration, and `cluster_reduce` adds up their sums, or takes the greatest of what
each found.  The launch has C blocks for each program, along an axis of the grid that programs do
not see: their numbers stay.

Where the loop's sums only go, element by element, into stores, each block owns a part of the tile,
gets the sums of that, and stores it; of a number of blocks that is no power of two, the first do.
Loads behind the loop that may read what another block stores, such as a bias, then come before the
blocks meet.
Otherwise the first block gets all sums and goes on alone.

Legal where all effects of the kernel stand behind such a loop, one on each way: what comes before
is computed by every block.  Sums of floats are added in another order.  Asked for by the
meta-parameter `cluster_k`; kernels with persistent blocks are left alone."""

from collections.abc import Collection

from tritonc.analysis.aliases import Roots, may_alias, pointer_roots
from tritonc.analysis.values import int_of, is_zero, needed
from tritonc.backend.launch.digits_of_loops import digits_of, share_digits
from tritonc.backend.launch.shared_loops import SharedLoop, kind_of_sum, shared_loop
from tritonc.backend.launch.spread_tiles import spread_tiles
from tritonc.backend.launch.sum_in_memory import add_parameter, add_up, go_on_alone
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, incoming
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import axis_bases, log2
from tritonc.ir.ops import READ
from tritonc.ir.rules import neutral
from tritonc.ir.types import I1, I32, I64, Tile, bytes_of, element, scalar, shape
from tritonc.source import Span, fail

NAME = "split_loops"
LEAST = 8  # neighbours along the last axis that stay together: they are stored together
_ONCE = ("add", "fadd", "mul", "xor")  # of which a part counts as often as it is taken


def split_loops(kernel: Kernel, context: Context) -> bool:
    """Let clusters of `cluster_k` blocks share the loops of sums."""
    blocks = context.meta.get("memory_k", 1)
    in_memory = blocks > 1
    blocks = blocks if in_memory else context.meta.get("cluster_k", 1)
    if blocks < 2:
        return False
    found = loops_to_share(kernel) if in_memory or "cluster" in context.target.features else (
        f"{context.target.name} has no clusters", kernel.span)
    if not in_memory and "cluster" in context.target.features and _is_rows(kernel, found) \
            and spread_tiles(kernel, blocks, context):
        return True
    if isinstance(found, tuple):
        reason, span = found
        span = span and span._replace(fallback=False)  # no version of the loop is split
        if in_memory:
            raise fail("variant", span, f"no loop is split among blocks: {reason}")
        context.remark(NAME, f"no loop is split over a cluster: {reason}", span, missed=True)
        return False
    plans = [(one, sums, None if in_memory else _owner(kernel, one, sums, blocks)) for one in found
             for sums in [_sums_behind(kernel, one)]]
    if in_memory:
        add_parameter(kernel, [sums for _, sums, _ in plans])
    for one, sums, owner in () if in_memory else plans:
        received = sum(bytes_of(value.type) for value in sums) * (blocks - 1) >> len(owner or ())
        if received > context.target.shared_per_block // 2:
            context.remark(NAME, "no loop is split over a cluster: a block would receive "
                           f"{received} bytes of partial sums",
                           one.loop.header.terminator.span, missed=True)
            return False
    for one, sums, owner in plans:
        _split(kernel, one, sums, owner, blocks)
    kernel.attributes["cluster"] = blocks
    where = f"{blocks} blocks" if in_memory else f"the {blocks} blocks of a cluster"
    context.remark(NAME, f"the iterations of this loop are split among {where}",
                   found[-1].loop.header.terminator.span)
    return True


def loops_to_share(kernel: Kernel) -> list[SharedLoop] | tuple[str, Span | None]:
    """The loops to share, one before each effect of the kernel; or what is in the way, and where.
    """
    cfg, readers = Cfg(kernel), uses(kernel)
    found: list[SharedLoop] = []
    reason = "there is no loop", kernel.span
    for loop in cfg.loops:
        if loop.parent is not None or any(cfg.dominates(one.exit, loop.header) for one in found):
            continue
        one = shared_loop(cfg, readers, loop)
        if isinstance(one, str):
            reason = one, loop.header.terminator.span
        else:
            found.append(one)
    if not found:
        return reason
    for block in cfg.order:
        for op in block.ops:
            row = op.info
            if op.name == "get_num_multiprocessors":
                return "blocks are persistent", op.span
            if op.name == "assume" or row.terminator or not row.effects - {READ}:
                continue
            if sum(cfg.dominates(one.exit, block) for one in found) != 1:
                return f"a {op.name} does not come after an accumulation loop", op.span
    return found


def _is_rows(kernel: Kernel, found: object) -> bool:
    """Whether sharing loops leaves a block alone with others, or with all, and no product."""
    cfg = Cfg(kernel)
    return not any(op.name == "dot" for op in kernel.ops()) and (
        not isinstance(found, list) or any(
            cfg.dominates(one.exit, loop.header) for one in found for loop in cfg.loops))


# ---- the loop


def _split(kernel: Kernel, one: SharedLoop, sums: dict[Value, str],
           owner: tuple[int, ...] | None, blocks: int) -> None:
    """Give each block its share of the iterations, and the sums of all."""
    before = Builder(one.preheader, len(one.preheader.ops) - 1, one.loop.header.terminator.span)
    rank = before.emit("get_cluster_rank", type=I32).result
    for counter in one.counters:
        _stride(counter.phi, counter.next, counter.step, one, before, rank, blocks)
    digits = digits_of(one.loop, one.others)
    if digits is not None:
        share_digits(digits, before, one.latch, rank, blocks)
    else:
        _share(one, before, rank, blocks)
    for phi in one.sums:
        _start(phi, one, before, rank)
    in_memory = "workspace" in kernel.attributes
    if not in_memory:
        one.preheader.ops.insert(len(one.preheader.phis()), make_op(
            "cluster_arrive", [], span=before.span))
    ahead = [] if in_memory or owner is None else _ahead(kernel, one, sums) or []
    one.exit.ops[:] = [*ahead, *(op for op in one.exit.ops if op not in ahead)]
    after = Builder(one.exit, len(ahead) + len([v for v in sums if v.op in one.exit.ops]),
                    before.span)
    behind = [op for block in kernel.blocks if block not in one.loop for op in block.ops]
    totals: dict[Value, Value] = {}
    if in_memory:
        totals, after = add_up(kernel, after, sums, rank, blocks)
    for value, kind in () if in_memory else sums.items():
        totals[value] = after.value("cluster_reduce", value, named=value.name, kind=kind,
                                    size=blocks, owner=owner or ())
    for op in behind:
        op.replace_inputs(totals)
    if owner is None and not in_memory:
        first = after.value("icmp", rank, after.constant(0, I32), predicate="eq")
        go_on_alone(kernel, after, first, "first")
    elif owner is not None:
        _guard_stores(kernel, one, after, totals, owner, rank, blocks)


def _sums_behind(kernel: Kernel, one: SharedLoop) -> dict[Value, str]:
    """What is used of the sums behind the loop, and how it is added: they, or what first adds up
    their own elements.  That is moved to the beginning of the exit."""
    found = {}
    behind = [op for block in kernel.blocks if block not in one.loop for op in block.ops]
    for phi in one.sums:
        readers = [op for op in behind if phi.result in op.inputs()]
        kind = kind_of_sum(one.loop, phi)
        if len(readers) == 1 and readers[0] in one.exit.ops and readers[0].name == "reduce" \
                and readers[0].attributes["kind"] == kind:
            one.exit.ops.remove(readers[0])
            one.exit.ops.insert(0, readers[0])
            found[readers[0].result] = kind
        elif readers:
            found[phi.result] = kind
    return found


def _stride(phi: Op, following: Op, step: Value, one: SharedLoop, b: Builder, rank: Value,
            blocks: int) -> None:
    """The counter begins `rank` steps further on, and goes `blocks` steps at once.

    A known step stays a number, which analyses look for."""
    name, known = following.name, int_of(step)
    number = b.value("sext", rank, type=I64) if element(step.type) == I64 else rank
    if isinstance(step.type, Tile):
        number = b.value("splat", number, type=step.type)
    first = b.value("mul", number, step)
    begin = incoming(phi, one.preheader)
    start = first if name == "add" and int_of(begin) == 0 else b.value(name, begin, first)
    wide = b.value("mul", b.constant(blocks, step.type), step) if known is None else (
        b.constant(blocks * known, step.type))
    block = next(block for block in one.loop.blocks if following in block.ops)
    at = Builder(block, block.ops.index(following) + 1, following.span)
    after = at.value(name, phi.result, wide)
    after.name, start.name = following.result.name, phi.result.name
    phi.operands = [start if source is one.preheader else after for source in phi.blocks]


def _share(one: SharedLoop, b: Builder, rank: Value, blocks: int) -> None:
    """Scalars that follow from each other, as counters that the source carries by hand, go on
    `rank` times at first, and `blocks` times then."""
    latch = {phi.result: incoming(phi, one.latch) for phi in one.others}
    state = {phi.result: incoming(phi, one.preheader) for phi in one.others}
    starts = dict(state)
    for number in range(1, blocks):
        ops, state = _following(one, state, latch)
        for op in ops:
            b.insert(op)
        later = b.value("icmp", rank, b.constant(number, I32), predicate="sge")
        starts = {phi: b.value("select", later, value, starts[phi]) for phi, value in state.items()}
    state = dict(latch)
    for _ in range(1, blocks):
        ops, state = _following(one, state, latch)
        one.latch.ops[-1:-1] = ops
    for phi in one.others:
        phi.operands = [starts[phi.result] if source is one.preheader else state[phi.result]
                        for source in phi.blocks]


def _following(one: SharedLoop, state: dict[Value, Value], latch: dict[Value, Value]
               ) -> tuple[list[Op], dict[Value, Value]]:
    """What computes the next values from those in `state`, and these."""
    mapping = dict(state)
    ops = copy_ops(one.steps, mapping)
    return ops, {phi: mapping.get(value, value) for phi, value in latch.items()}


def _start(phi: Op, one: SharedLoop, b: Builder, rank: Value) -> None:
    """What the sum begins with counts once."""
    start, kind = incoming(phi, one.preheader), kind_of_sum(one.loop, phi)
    if kind not in _ONCE or is_zero(start):
        return
    t = start.type
    zero = b.constant(neutral(kind, scalar(t)) + 0, t)  # 0.0 for -0.0
    first = b.value("icmp", rank, b.constant(0, I32), predicate="eq")
    if isinstance(t, Tile):
        first = b.value("splat", first, type=Tile(I1, t.shape))
    own = b.value("select", first, start, zero)
    phi.operands = [own if source is one.preheader else value
                    for value, source in zip(phi.operands, phi.blocks, strict=True)]


# ---- the parts that blocks own


def _owner(kernel: Kernel, one: SharedLoop, sums: Collection[Value], blocks: int
           ) -> tuple[int, ...] | None:
    """The bits of an element's row-major number that say which block owns it, the lowest first;
    None where the first block has to own all.  Of six blocks four own a part each."""
    extents = {shape(value.type) for value in sums}
    owners = 1 << blocks.bit_length() - 1
    if len(extents) != 1:
        return None
    (tile,) = extents
    found: list[int] = []
    for axis in reversed(range(len(tile))):
        bits = axis_bases(tile, axis)
        if axis == len(tile) - 1:
            bits = bits[log2(LEAST):]
        take = min(len(bits), log2(owners) - len(found))
        found += bits[len(bits) - take:]
    return None if len(found) < log2(owners) or _ahead(kernel, one, sums) is None else tuple(found)


def _behind(kernel: Kernel, one: SharedLoop) -> list[Block]:
    cfg = Cfg(kernel)
    return [block for block in cfg.order if cfg.dominates(one.exit, block)]


def _ahead(kernel: Kernel, one: SharedLoop, sums: Collection[Value]) -> list[Op] | None:
    """What has to stand before the blocks of a cluster meet: loads behind the loop of what their
    stores may change, with what makes the addresses.  None unless all effects behind the loop are
    stores of what is made of the sums, element by element, and such loads can stand there."""
    made = set(sums)
    stores: list[Op] = []
    loads: list[Op] = []
    for block in _behind(kernel, one):
        for op in block.ops:
            row = op.info
            if op.name == "store":
                if op.operands[1] not in made or op.operands[0] in made or not isinstance(
                        op.operands[0].type, Tile):
                    return None
                stores.append(op)
            elif row.effects - {READ} and not row.terminator and op.name != "assume":
                return None
            elif any(value in made for value in op.inputs()):
                if not row.elementwise and op.name != "trans":
                    return None
                made.update(op.results)
            if op.name == "load":
                loads.append(op)
    roots: Roots = pointer_roots(kernel)
    late = [load for load in loads if any(
        load.operands[0] is not store.operands[0]
        and may_alias(kernel, load.operands[0], store.operands[0], roots) for store in stores)]
    first = next((i for i, op in enumerate(one.exit.ops) if op in stores), len(one.exit.ops))
    if any(load not in one.exit.ops[:first] or load.results[0] in made for load in late):
        return None
    found = needed(one.exit.ops, [load.result for load in late])
    return None if any(value in made for op in found for value in op.inputs()) else found


def _guard_stores(kernel: Kernel, one: SharedLoop, b: Builder, totals: dict[Value, Value],
                  owner: tuple[int, ...], rank: Value, blocks: int) -> None:
    """Let each block store only what it owns."""
    tile = next(v.type for v in totals.values())
    mask = _owned(b, tile, owner, rank, blocks)
    owned = dict.fromkeys(totals.values(), mask)
    for block in _behind(kernel, one):
        for op in list(block.ops):
            if op.name == "cluster_reduce":
                continue
            masks = [owned[value] for value in op.inputs() if value in owned]
            if not masks:
                continue
            if op.name == "store":
                at = Builder(block, block.ops.index(op), op.span)
                mask = masks[0] if op.guard is None else at.value("and", op.guard, masks[0])
                op.guard = at.emit("cmpp", mask).results[0]
            elif op.name == "trans":
                at = Builder(block, block.ops.index(op), op.span)
                owned[op.result] = at.value("trans", masks[0],
                                            permutation=op.attributes["permutation"])
            else:
                owned.update(dict.fromkeys(op.results, masks[0]))


def _owned(b: Builder, tile: object, owner: tuple[int, ...], rank: Value, blocks: int) -> Value:
    """Which elements this block owns: runs along axes, as the number of the block says."""
    assert isinstance(tile, Tile)
    found: Value | None = None
    place = 0
    for axis in reversed(range(len(tile.shape))):
        bits = [bit for bit in owner if bit in axis_bases(tile.shape, axis)]
        if not bits:
            continue
        part = b.value("and", b.value("lshr", rank, b.constant(place, I32)),
                       b.constant((1 << len(bits)) - 1, I32))
        place += len(bits)
        extent = tile.shape[axis]
        each = extent >> len(bits)
        first = b.value("mul", part, b.constant(each, I32))
        end = b.value("add", first, b.constant(each, I32))
        index = b.value("range", start=0, stop=extent)
        inside = b.along(b.value("and", *(
            b.value("icmp", index, b.value("splat", limit, type=index.type), predicate=predicate)
            for limit, predicate in ((first, "sge"), (end, "slt")))), axis, tile.shape)
        found = inside if found is None else b.value("and", found, inside)
    assert found is not None
    if 1 << len(owner) < blocks:
        some = b.value("icmp", rank, b.constant(1 << len(owner), I32), predicate="slt")
        found = b.value("and", found, b.value("splat", some, type=found.type))
    return found
