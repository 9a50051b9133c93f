"""The two parts of a loop of chained products, of which the first runs an iteration ahead.

Of two products the second one is the second part's.  Of more, those are whose results nothing else
in the loop reads: sums, such as the gradients of attention.  With them goes what depends on them,
what serves the buffers that only they read, and what only they read and costs nothing to keep for
later.  The rest is the first part.

Products of both parts may read one buffer, as those of dK and dV do.  Then the first part waits for
a stage and the second part releases it, an iteration later: copies must leave that stage alone for
so long, so that there is one stage more than copies run ahead, and one."""

from collections.abc import Iterable
from dataclasses import field

from tritonc.analysis.values import closure
from tritonc.backend.dots.together import chained
from tritonc.backend.layout.split_reductions import Steps, left_of, split_axes
from tritonc.backend.pipeline.chains.order_products import Chain
from tritonc.backend.pipeline.tma.roles import COPIES, has_producer
from tritonc.backend.shared.shared_memory import VIEWS, allocation, allocations
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Loop
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import READ
from tritonc.ir.types import Buffer, Tile
from tritonc.records import dataclass

# What may go with its only reader: the values that wait instead are not larger.  Conversions to
# narrower types stay: they would stand before the next products start (5 % of attention of d 64).
LIGHT = ("convert_layout", "broadcast", "reshape", "splat", "buffer_stage", "buffer_trans",
         "constant")
SYNC_OPS = ("wait_full", "arrive_empty", *COPIES)


@dataclass
class Parts:
    """A loop of a header and one more block, and which operations are the second part.

    `phis`: those of the second part; `waits`: of `products`, in their order."""

    loop: Loop
    body: Block
    exit: Block
    products: list[Op]
    waits: list[Op]
    second: set[Op]
    phis: set[Op] = field(default_factory=set)
    sums: set[Op] = field(default_factory=set)  # of the second part, which its product is not for

    @property
    def first(self) -> list[Op]:
        return [op for op in self.body.ops[:-1] if op not in self.second]

    @property
    def last(self) -> list[Op]:
        """The second part, in order: sums stand behind the product's start."""
        ops = [op for op in self.body.ops[:-1] if op in self.second]
        if not self.sums:
            return ops
        rest = [op for op in ops if op not in self.sums]
        at = rest.index(self.products[1]) + 1
        return [*rest[:at], *(op for op in ops if op in self.sums), *rest[at:]]


def part_loop(kernel: Kernel, loop: Loop) -> Parts | None:
    """The loop's parts, if it may be rotated.

    No operation of one part needs one of the other but in a later iteration, and no effect of one
    meets one of the other, but at the buffers that they share."""
    header, body = loop.header, loop.body
    if body is None or body.phis() or not all(op.pure for op in header.ops[:-1]):
        return None
    readers = uses(kernel)
    waits = [op for op in body.ops if op.name == "wgmma_wait"]
    if any(wait.attributes["pending"] for wait in waits):
        return None
    products = [op for op in body.ops if op.name == "wgmma"]
    waits = [wait for wait in waits if not _goes_on(wait, readers)]
    products = [op for op in products if not _goes_on(op, readers)]
    if len(products) < 2:
        return None
    late = {products[1]}
    if len(products) > 2:
        chain = Chain.of(kernel, body)
        late = chain.late if chain is not None else set()
        if not late or len(late) == len(products):
            return None
        waits = _part_waits(body)
    if len(waits) != len(products) or any(wait.operands != [product.result]
                                          for product, wait in zip(products, waits, strict=True)):
        return None
    parts = Parts(loop, body, loop.exits[0][1], products, waits, set(late))
    readers = uses(kernel)
    _close(parts, readers)
    if not set(products) - parts.second or not chained(body):
        return None
    shared = _take_buffers(parts, late)
    if shared is None:
        return None
    shared |= _doubled(parts, late)
    _close(parts, readers)
    if not set(products) - parts.second or not _apart(parts, shared):
        return None
    if has_producer(kernel) and len(products) == 2:
        _take_sums(kernel, parts, readers)
        readers = uses(kernel)
    _take_light(parts, readers)
    if shared:
        _repeat_views(parts, shared)
    made = {r for op in parts.first for r in op.results if isinstance(r.type, Buffer)}
    return None if any(v in made for op in parts.last for v in op.operands) else parts


def _goes_on(op: Op, readers: dict[Value, list[Op]]) -> bool:
    """Whether a product, or the wait for it, only gives another product what that adds to: scores
    from two parts of the keys are the result of one product, as far as the chain goes."""
    found = [reader for result in op.results for reader in readers.get(result, [])]
    if op.name == "wgmma":
        return len(found) == 1 and found[0].name == "wgmma_wait" and len(
            found[0].operands) == 1 and _goes_on(found[0], readers)
    return len(op.results) == 1 and len(found) == 1 and found[0].name == "wgmma" \
        and found[0].operands[2] is op.results[0]


def _part_waits(body: Block) -> list[Op]:
    """Give each product a wait of its own; the waits, in the order of the products."""
    found: dict[Op | None, Op] = {}
    ops: list[Op] = []
    for op in body.ops:
        if op.name != "wgmma_wait":
            ops.append(op)
            continue
        for value, result in zip(op.operands, op.results, strict=True):
            wait = make_op("wgmma_wait", [value], span=op.span, pending=0)
            wait.results, result.op = [result], wait
            found[value.op] = wait
            ops.append(wait)
    body.ops = ops
    return [found[op] for op in ops if op in found]


def _close(parts: Parts, readers: dict[Value, list[Op]]) -> None:
    """Add what depends on the second part, around the loop too."""
    inside = set(parts.body.ops[:-1])
    stack = list(parts.second)
    while stack:
        for result in stack.pop().results:
            for op in readers.get(result, []):
                if op in parts.loop.header.phis() and op not in parts.phis:
                    parts.phis.add(op)
                    stack.append(op)
                elif op in inside and op not in parts.second:
                    parts.second.add(op)
                    stack.append(op)


def _take_buffers(parts: Parts, late: set[Op]) -> set[Op] | None:
    """Add the operations on what the products of the second part read, and on its barriers.

    Of buffers that both parts' products read, returned with their barriers, the second part has the
    release alone.  None if the stage that a copy fills would not have been released an iteration
    later yet."""
    buffer_ops = [op for op in parts.body.ops if op.name in SYNC_OPS]

    def connected(own: set[Op]) -> set[Op]:
        grown = True
        while grown:
            members = {root for op in buffer_ops if allocations(op) & own
                       for root in allocations(op)}
            grown = not members <= own
            own |= members
        return own

    first = [op for op in parts.body.ops if op.name == "wgmma" and op not in late]
    own = connected({root for op in late for root in allocations(op)})
    touched = {root for op in first for root in allocations(op)}
    if not own & touched:
        parts.second.update(op for op in buffer_ops if allocations(op) & own)
        return set()
    if len(parts.products) == 2:
        return None  # the pipeline gives each of two products buffers of its own
    shared = connected(own & touched & {root for op in buffer_ops for root in allocations(op)})
    for op in buffer_ops:
        roots = allocations(op)
        if roots & (own - shared) or (roots & shared and op.name == "arrive_empty"):
            parts.second.add(op)
        for value in op.operands:
            if op.name == "tma_load" and isinstance(value.type, Buffer):
                root, ahead = allocation(value)
                t = root.result.type
                if root in shared and (ahead is None or not isinstance(t, Buffer)
                                       or ahead + 2 > t.stages):
                    return None
    return shared


def _doubled(parts: Parts, late: set[Op]) -> set[Op]:
    """Buffers of two stages in turn, which threads fill in the loop for products of the second
    part alone: they may fill one while products read the other."""
    found = {root for op in late for root in allocations(op)}
    for op in parts.body.ops:
        if op not in late and op.name not in ("shared_store", *VIEWS):
            found -= allocations(op)
    filled = {root for op in parts.body.ops if op.name == "shared_store"
              for root in allocations(op)}
    return {root for root in found & filled
            if isinstance(t := root.result.type, Buffer) and t.stages == 2}


def _apart(parts: Parts, shared: set[Op]) -> bool:
    """Whether the parts' effects do not meet, but at the buffers that they share, and the second
    needs nothing that cannot wait."""
    first, last = parts.first, parts.last
    header = parts.loop.header
    if any(v.op in parts.phis for op in header.ops if op.name != "phi" for v in op.inputs()):
        return False  # such as the loop's condition
    touched: set[Op] = set()
    for op in first:
        effects = op.effects
        loads = effects == {READ} and not op.attributes.get("volatile")
        roots = allocations(op)
        fills = op.name == "proxy_fence" or (op.name == "shared_store" and roots <= shared)
        if effects and not (loads or fills) and op.name not in (
                *SYNC_OPS, "wgmma", "wgmma_wait", "shared_load"):
            return False
        touched |= roots if effects else set()
    return all(not op.effects or (op.name in (*SYNC_OPS, "wgmma", "wgmma_wait")
                                  and not allocations(op) & touched - shared) for op in last)


def _repeat_views(parts: Parts, shared: set[Op]) -> None:
    """Give the second part views of its own of the stages that both parts read; an iteration
    later, they are those of one iteration back."""
    made = {r: op for op in parts.body.ops if op not in parts.second for r in op.results}
    new: dict[Value, Value] = {}

    def again(value: Value) -> Value:
        op = made.get(value)
        if not isinstance(value.type, Buffer) or op is None or op.name not in VIEWS:
            return value
        if value not in new:
            known = {v: again(v) for v in op.operands}
            (copy,) = copy_ops([op], known)
            parts.body.ops.insert(parts.body.ops.index(op) + 1, copy)
            parts.second.add(copy)
            new[value] = copy.result
        return new[value]

    for op in [op for op in parts.body.ops if op in parts.second]:
        op.operands = [again(v) for v in op.operands]
    earlier(parts.second, shared)


def earlier(ops: Iterable[Op], buffers: set[Op]) -> None:
    """Let operations that an iteration has passed by name the stages of these buffers as seen from
    the next one."""
    for op in ops:
        if op.name == "buffer_stage" and "ahead" in op.attributes and allocations(op) & buffers:
            op.attributes["ahead"] -= 1


def _take_sums(kernel: Kernel, parts: Parts, readers: dict[Value, list[Op]]) -> None:
    """Add sums that nothing in the loop waits for, and the lanes' share of what they add up."""
    for phi in _late_chains(parts.loop.header, parts.body, readers):
        if phi not in parts.phis:
            parts.phis.add(phi)
            parts.sums.update(readers[phi.result])
    before, parts.second = parts.second, parts.second | parts.sums
    _close(parts, readers)
    parts.sums = parts.second - before
    for op in [op for op in parts.body.ops if op.name == "reduce"]:
        if all(reader in parts.sums for reader in readers.get(op.result, [])):
            steps = _split_lanes(op)
            if len(steps) > 1:
                at = parts.body.ops.index(op)
                parts.body.ops[at : at + 1] = steps
                kernel.replace({op.result: steps[-1].result})
                parts.second.add(steps[-1])
                parts.sums.add(steps[-1])


def _take_light(parts: Parts, readers: dict[Value, list[Op]]) -> None:
    """Add light operations whose readers are all of the second part."""
    for op in reversed(parts.body.ops[:-1]):
        if op not in parts.second and op.name in LIGHT and all(
                reader in parts.second for r in op.results for reader in readers.get(r, [])):
            parts.second.add(op)


def _late_chains(header: Block, body: Block, readers: dict[Value, list[Op]]) -> list[Op]:
    """Phis of the header on which in the loop only operations without effects depend, which it
    does not need: neither to go on, nor for a product, nor for other phis."""
    inside = {*header.ops, *body.ops}
    found = []
    for phi in header.phis():
        chain = closure([phi], lambda op: [reader for result in op.results
                                           for reader in readers.get(result, [])
                                           if reader in inside])
        if isinstance(phi.result.type, Tile) and len(chain) > 1 and all(
                op is phi or (op in body.ops and op.name != "phi" and op.pure
                              and not op.info.terminator) for op in chain):
            found.append(phi)
    return found


def _split_lanes(op: Op) -> list[Op]:
    """The reduction in two steps, of a thread and across lanes; alone, if it is one of these."""
    steps = Steps(op)
    extents, inside, across = split_axes(steps.layout, op.attributes["axes"],
                                         (*steps.layout.lane, *steps.layout.warp))
    if not inside or not across:
        return [op]
    steps.reshape(extents)
    steps.reduce(*inside)
    steps.reduce(*left_of(across, inside))
    (whole,) = steps.values
    whole.name = op.result.name
    return steps.ops if whole.type == op.result.type else [op]
