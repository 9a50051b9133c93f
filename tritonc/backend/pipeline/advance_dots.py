"""advance_dots: of two products in a loop, the first runs one iteration ahead of the second.

    for i:                                     s, p = product(q, k[0]), f(s)
        s = product(q, k[i])                   for i from 1:
        wait for s                                 start s = product(q, k[i])
        p = f(s)                         ->        start acc = acc * g + product(p, v[i - 1])
        acc = acc * g + product(p, v[i])           wait for s;  p' = f(s);  wait for acc
        wait for acc                           acc = acc * g + product(p, v[last])

A wgmma runs beside the threads.  With the products in turn, as attention has them, the tensor cores
rest while f is computed, and f waits for them.  Rotated, they work on the second product while
the threads compute f of the next iteration.

The operations of the loop's body are parted in two.  The *second* part is the second product, what
depends on it (its accumulator around the loop, the wait), what serves the buffers that it reads
(their ring), and what only it reads and costs nothing to keep for later: conversions to narrower
types, broadcasts.  The *first* part is the rest, the loop's counters included.  Values that go from
the first part to the second wait for an iteration in phis.  No operation runs for an iteration that
the loop does not have: the first part's first turn comes before the loop if the loop is entered,
the second part's last turn behind it.

Legal where the first part needs nothing of the second but in later iterations nothing either (the
parts are closed under dependence, phis included), and no effect of one part meets one of the other:
the second part only uses buffers and rings that the first does not, the first only loads beside.

What the second product adds to, such as accumulators that are scaled, is computed where an
iteration ends (`scale_early`).  With a warp of its own for copies, what the product reads is waited
for there too, before the wait for the one that runs (`wait_early`).

Where the products take longer than what is computed in between, warpgroups start theirs in turn
(meta-parameter `take_turns`): each computes beside the products of the next, not beside its own.
Where a warp of its own makes the copies, none waits for another, and they find their turns alone;
sums beside the chain then go to the second part too, and are made behind its start (`late_sums`).

Needs pipeline, whose copies already run ahead.  Loops whose values would not fit into registers
stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tritonc.backend.dots.together import chained
from tritonc.backend.pipeline.late_sums import late_chains, split_lanes
from tritonc.backend.pipeline.roles import START
from tritonc.backend.pipeline.scale_early import scale_early
from tritonc.backend.pipeline.staged_loop import MOST_REGISTERS
from tritonc.backend.pipeline.wait_early import wait_early
from tritonc.backend.shared.shared_memory import allocation
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop, incoming
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import READ
from tritonc.ir.types import Buffer, Tile, scalar, shape

TURNS = 256  # multiply-adds for an element: as many take longer than a few functions of it

# What may go with its only reader: the values that wait instead are not larger by much.
LIGHT = ("fpcast", "convert_layout", "broadcast", "reshape", "splat", "buffer_stage",
         "buffer_trans", "constant")
RING = ("ring_wait", "ring_release", "ring_acquire", "ring_expect", "tensor_copy")


def advance_dots(kernel: Kernel, context: Context) -> bool:
    """Rotate the loops of two products of which the second depends on the first."""
    changed = False
    for loop in Cfg(kernel).loops:
        parts = _part(kernel, loop)
        if parts is None:
            continue
        if _registers(parts) > MOST_REGISTERS:
            context.remark("advance_dots", "products stay in turn: two of them in flight do not "
                           "fit into registers", parts.products[0].span, missed=True)
            continue
        rotation = _Rotation(kernel, parts)
        rotation.run()
        if context.meta.get("take_turns", _depth(parts) >= TURNS and not _copier(kernel)):
            rotation.take_turns()
            context.remark("advance_dots", "warpgroups start these products in turn (take_turns)",
                           parts.products[0].span)
        context.remark("advance_dots", "a product runs one iteration ahead of the other",
                       parts.products[0].span)
        changed = True
    return changed


@dataclass
class _Parts:
    """A loop of a header and one more block, and which operations are the second part.

    `phis`: those of the second part; `products`: the two.
    """

    loop: Loop
    body: Block
    exit: Block
    products: tuple[Op, Op]
    waits: tuple[Op, Op]
    second: set[Op]
    phis: set[Op] = field(default_factory=set)
    sums: set[Op] = field(default_factory=set)  # of the second part, which its product is not for

    @property
    def first(self) -> list[Op]:
        """The first part, in order."""
        return [op for op in self.body.ops[:-1] if op not in self.second]

    @property
    def last(self) -> list[Op]:
        """The second part, in order: sums behind the product's start."""
        ops = [op for op in self.body.ops[:-1] if op in self.second and op not in self.sums]
        at = ops.index(self.products[1]) + 1
        return [*ops[:at], *(op for op in self.body.ops if op in self.sums), *ops[at:]]


def _part(kernel: Kernel, loop: Loop) -> _Parts | None:
    """The loop's parts, if it may be rotated."""
    header, test = loop.header, loop.header.terminator
    if (len(loop.blocks) != 2 or loop.preheader is None or test.name != "cond_br"
            or len(loop.exits) != 1 or loop.exits[0][0] is not header):
        return None
    body, leave = loop.blocks[1], loop.exits[0][1]
    if loop.latch is not body or body.phis() or not all(
            ALL_OPS[op.name].pure for op in header.ops[:-1]):
        return None
    products = [op for op in body.ops if op.name == "wgmma"]
    waits = [op for op in body.ops if op.name == "wgmma_wait"]
    if len(products) != 2 or len(waits) != 2 or any(
            wait.operands != [product.result] or wait.attributes["pending"]
            for product, wait in zip(products, waits, strict=True)):
        return None
    parts = _Parts(loop, body, leave, (products[0], products[1]), (waits[0], waits[1]),
                   {products[1]})
    readers = uses(kernel)
    _close(parts, readers)
    _take_rings(parts)
    _close(parts, readers)
    if parts.products[0] in parts.second or not _apart(parts) or not chained(body):
        return None
    if _copier(kernel):
        _take_sums(kernel, parts, readers)
        readers = uses(kernel)
    _take_light(parts, readers)
    made = {r for op in parts.first for r in op.results if isinstance(r.type, Buffer)}
    return None if any(v in made for op in parts.last for v in op.operands) else parts


def _copier(kernel: Kernel) -> bool:
    """Whether a warp of its own makes the copies."""
    return any(op.name == START for op in kernel.ops())


def _close(parts: _Parts, readers: dict[Value, list[Op]]) -> None:
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


def _roots(op: Op) -> set[Op]:
    """The buffers and rings that an operation names."""
    return {allocation(v)[0] for v in op.operands if isinstance(v.type, Buffer)}


def _take_rings(parts: _Parts) -> None:
    """Add the operations on what the second product reads, and on the rings of that."""
    own = _roots(parts.products[1])
    ring_ops = [op for op in parts.body.ops if op.name in RING]
    grown = True
    while grown:
        members = {root for op in ring_ops if _roots(op) & own for root in _roots(op)}
        grown = not members <= own
        own |= members
    parts.second.update(op for op in ring_ops if _roots(op) & own)


def _apart(parts: _Parts) -> bool:
    """Whether the parts' effects do not meet, and the second needs nothing that cannot wait."""
    first, last = parts.first, parts.last
    header = parts.loop.header
    if any(v.op in parts.phis for op in header.ops if op.name != "phi" for v in op.inputs()):
        return False  # such as the loop's condition
    touched: set[Op] = set()
    for op in first:
        effects = ALL_OPS[op.name].effects
        loads = effects == {READ} and not op.attributes.get("volatile")
        if effects and not loads and op.name not in (*RING, "wgmma", "wgmma_wait", "shared_load"):
            return False
        touched |= _roots(op) if effects else set()
    return all(not ALL_OPS[op.name].effects
               or (op.name in (*RING, "wgmma", "wgmma_wait") and not _roots(op) & touched)
               for op in last)


def _take_sums(kernel: Kernel, parts: _Parts, readers: dict[Value, list[Op]]) -> None:
    """Add sums that nothing in the loop waits for, and the lanes' share of what they add up."""
    for phi in late_chains(parts.loop.header, parts.body, readers):
        if phi not in parts.phis:
            parts.phis.add(phi)
            parts.sums.update(readers[phi.result])
    before, parts.second = parts.second, parts.second | parts.sums
    _close(parts, readers)
    parts.sums = parts.second - before
    for op in [op for op in parts.body.ops if op.name == "reduce"]:
        if all(reader in parts.sums for reader in readers.get(op.result, [])):
            steps = split_lanes(op)
            if len(steps) > 1:
                at = parts.body.ops.index(op)
                parts.body.ops[at : at + 1] = steps
                kernel.replace({op.result: steps[-1].result})
                parts.second.add(steps[-1])
                parts.sums.add(steps[-1])


def _take_light(parts: _Parts, readers: dict[Value, list[Op]]) -> None:
    """Add light operations whose readers are all of the second part."""
    for op in reversed(parts.body.ops[:-1]):
        if op not in parts.second and op.name in LIGHT and all(
                reader in parts.second for r in op.results for reader in readers.get(r, [])):
            parts.second.add(op)


def _registers(parts: _Parts) -> float:
    """What a thread holds while both products run: results, and operands that are no buffers."""
    held = [product.result for product in parts.products] + [
        v for v in parts.products[1].operands[:2] if isinstance(v.type, Tile)]
    total = 0.0
    for value in held:
        t = value.type
        assert isinstance(t, Tile) and t.layout is not None
        total += t.layout.registers * scalar(t).bytes / 4
    return total


def _depth(parts: _Parts) -> int:
    """How many multiply-adds both products make for each element that is computed in between."""
    one, two = parts.products
    return shape(one.operands[0].type)[1] + shape(two.result.type)[1]


class _Rotation:
    """The rewriting."""

    def __init__(self, kernel: Kernel, parts: _Parts) -> None:
        assert parts.loop.preheader is not None
        self.kernel, self.parts = kernel, parts
        self.header, self.body = parts.loop.header, parts.body
        self.before = parts.loop.preheader
        self.first = Block(f"{self.body.name}.first")
        self.last = Block(f"{self.body.name}.last")
        self.after = Block(f"{self.body.name}.end")

    def run(self) -> None:
        """Rewrite the loop."""
        parts, header, body = self.parts, self.header, self.body
        initial = {phi.result: incoming(phi, self.before) for phi in header.phis()}
        at_entry = dict(initial)
        self.before.ops[-1:] = copy_ops(header.ops[len(header.phis()):], at_entry,
                                         {body: self.first, parts.exit: self.after})
        in_first = dict(at_entry)
        self.first.ops = [*copy_ops(parts.first, in_first),
                          Op("br", [], blocks=[header], span=body.terminator.span)]
        self.turn_labels()
        for phi in header.phis():
            at = phi.blocks.index(self.before)
            if phi not in parts.phis:
                value = incoming(phi, body)
                phi.operands[at] = in_first.get(value, value)
            phi.blocks[at] = self.first
        lagging = self.lag(in_first)
        final = dict(lagging)
        self.last.ops = [*copy_ops(parts.last, final), Op("br", [], blocks=[self.after])]
        self.leave(at_entry, final)
        for op in parts.last:
            op.replace_inputs(lagging)
        waits = [op for op in parts.last[:parts.last.index(parts.products[1])]
                 if op.name == "ring_wait"]
        self.interleave()
        if _copier(self.kernel):
            wait_early(header, (self.first, body), waits, parts.waits[1], self.last)
        scale_early(header, (self.first, body), parts.products[1],
                    next(op for op in self.last.ops if op.name == "wgmma"), _copier(self.kernel))
        blocks = self.kernel.blocks
        blocks.insert(blocks.index(self.before) + 1, self.first)
        at = blocks.index(body) + 1
        blocks[at:at] = [self.last, self.after]

    def lag(self, in_first: dict[Value, Value]) -> dict[Value, Value]:
        """Values of the first part and the header that the second reads -> phis that keep them."""
        parts, header = self.parts, self.header
        made = {r for op in [*parts.first, *header.ops] if op not in parts.phis
                for r in op.results}
        found: dict[Value, Value] = {}
        for op in parts.last:
            for value in op.inputs():
                if value in made and value not in found:
                    phi = Op("phi", [in_first[value], value], {}, (value.type,),
                             blocks=[self.first, self.body])
                    phi.result.name = value.name
                    found[value] = phi.result
                    header.ops.insert(0, phi)
        return found

    def leave(self, at_entry: dict[Value, Value], final: dict[Value, Value]) -> None:
        """Behind the loop: its values from the last turn, or those from before it."""
        parts, header = self.parts, self.header
        outside = [op for block in self.kernel.blocks if block not in parts.loop
                   for op in block.ops]
        merged: dict[Value, Value] = {}
        used = {v for op in outside for v in op.inputs()}
        for op in header.ops[:-1]:
            for result in op.results:
                if result in used:
                    value = result
                    if op in parts.phis:
                        latest = incoming(op, self.body)
                        value = final.get(latest, latest)
                    phi = Op("phi", [at_entry[result], value], {}, (result.type,),
                             blocks=[self.before, self.last])
                    phi.result.name = result.name
                    merged[result] = phi.result
                    self.after.ops.append(phi)
        for op in outside:
            op.replace_inputs(merged)
        self.after.ops.append(Op("br", [], blocks=[parts.exit]))
        for phi in parts.exit.phis():
            phi.blocks = [self.after if block is header else block for block in phi.blocks]
        test = header.terminator
        test.blocks = [self.last if block is parts.exit else block for block in test.blocks]

    def interleave(self) -> None:
        """Both products start, then the threads go on with the first part."""
        first, last = (_around(ops, product, wait) for ops, product, wait in zip(
            (self.parts.first, self.parts.last), self.parts.products, self.parts.waits,
            strict=True))
        self.parts.waits[0].attributes["pending"] = 1
        self.body.ops[:-1] = [op for pair in zip(first, last, strict=True)
                              for ops in pair for op in ops]

    def take_turns(self) -> None:
        """One warpgroup after the other starts its products, so that it computes beside those of
        the next."""
        def step(name: str) -> Op:
            return make_op("take_turns", [], table=ALL_OPS, step=name)

        ops, (one, two) = self.body.ops, self.parts.products
        ops.insert(ops.index(one), step("wait"))
        ops.insert(ops.index(two) + 1, step("give"))
        self.first.ops.insert(-1, step("open"))
        self.last.ops.insert(0, step("close"))

    def turn_labels(self) -> None:
        """What the first part did before the loop is now one iteration back, seen from the loop."""
        own = {root for op in self.parts.first for root in _roots(op)}
        for block in (self.before, self.first):
            for op in block.ops:
                if op.name == "buffer_stage" and "ahead" in op.attributes and _roots(op) & own:
                    op.attributes["ahead"] -= 1


def _around(ops: list[Op], product: Op, wait: Op) -> tuple[list[Op], list[Op], list[Op]]:
    """The operations up to a product's start, while it runs, and from the wait for it on."""
    start, end = ops.index(product) + 1, ops.index(wait)
    return ops[:start], ops[start:end], ops[end:]
