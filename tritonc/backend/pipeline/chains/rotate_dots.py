"""rotate_dots: of two products in a loop, the first runs one iteration ahead of the second.

    for i:                                     s, p = product(q, k[0]), f(s)
        s = product(q, k[i])                   for i from 1:
        wait for s                                 start s = product(q, k[i])
        p = f(s)                         ->        start acc = acc * g + product(p, v[i - 1])
        acc = acc * g + product(p, v[i])           wait for s;  p' = f(s);  wait for acc
        wait for acc                           acc = acc * g + product(p, v[last])

A wgmma runs beside the threads.  With the products in turn, as attention has them, the tensor cores
rest while f is computed, and f waits for them.  Rotated, they work on the second product while
the threads compute f of the next iteration.

Chains of more products are rotated too: those whose results only the next iteration reads run
beside what is computed for them.

The operations of the loop's body are parted in two (`chain_parts`).  The *second* part is the
second product, what depends on it (its accumulator around the loop, the wait), what serves the
buffers that it reads, and what only it reads and costs nothing to keep for later,
such as broadcasts.  The *first* part is the rest, the loop's counters included.  Values that go
from the first part to the second wait for an iteration in phis.  No operation runs for an iteration
that the loop does not have: the first part's first iteration comes before the loop if the loop is
entered, the second part's last iteration behind it.

Legal where the first part needs nothing of the second but in later iterations nothing either (the
parts are closed under dependence, phis included), and no effect of one part meets one of the other:
the second part only uses buffers and barriers that the first does not, the first only loads beside.

What the second product adds to, such as accumulators that are scaled, is computed where an
iteration ends (`scale_early`).  With a warp of its own for copies, what the product reads is waited
for there too, before the wait for the one that runs (`wait_early`).

Where a warp of its own makes the copies, warpgroups do not wait for each other; sums beside the
chain then go to the second part too, and are made behind its start.

Of more than two products, `order_products` says then which starts and waits stand where.

Needs pipeline, whose copies already run ahead.  Loops whose values would not fit into registers
stay as they are."""

from tritonc.backend.pipeline.chains.chain_parts import Parts, earlier, part_loop
from tritonc.backend.pipeline.chains.iteration_ends import scale_early, wait_early
from tritonc.backend.pipeline.staged_loop import words
from tritonc.backend.pipeline.tma.roles import has_producer
from tritonc.backend.shared.shared_memory import allocations
from tritonc.backend.target.register_limits import MOST_REGISTERS
from tritonc.ir.cfg import Cfg, follow, incoming, make_phi, redirect
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Tile


def rotate_dots(kernel: Kernel, context: Context) -> bool:
    """Rotate the loops of products of which some depend on others."""
    changed = False
    for loop in Cfg(kernel).loops:
        parts = part_loop(kernel, loop)
        if parts is None:
            continue
        if _registers(parts) > MOST_REGISTERS:
            context.remark("rotate_dots", "products do not overlap: two of them in flight do not "
                           "fit into registers", parts.products[0].span, missed=True)
            continue
        _Rotation(kernel, parts).run()
        context.remark("rotate_dots", "the first product runs one iteration ahead of the second"
                       if len(parts.products) == 2 else "products run one iteration ahead of the "
                       "accumulations that use them",
                       parts.products[0].span)
        changed = True
    return changed


def _registers(parts: Parts) -> float:
    """What a thread holds while all products run: results, and operands that are no buffers."""
    held = [product.result for product in parts.products] + [
        v for product in parts.products if product in parts.second
        for v in product.operands[:2] if isinstance(v.type, Tile)]
    return sum(map(words, held))


class _Rotation:
    """The rewriting."""

    def __init__(self, kernel: Kernel, parts: Parts) -> None:
        assert parts.loop.preheader is not None
        self.kernel, self.parts = kernel, parts
        self.header, self.body = parts.loop.header, parts.body
        self.before = parts.loop.preheader
        self.first = Block(f"{self.body.name}.first")
        self.last = Block(f"{self.body.name}.last")
        self.after = Block(f"{self.body.name}.end")

    def run(self) -> None:
        parts, header, body = self.parts, self.header, self.body
        initial = {phi.result: incoming(phi, self.before) for phi in header.phis()}
        at_entry = dict(initial)
        self.before.ops[-1:] = copy_ops(header.ops[len(header.phis()):], at_entry,
                                         {body: self.first, parts.exit: self.after})
        in_first = dict(at_entry)
        self.first.ops = [*copy_ops(parts.first, in_first),
                          Op("br", [], blocks=[header], span=body.terminator.span)]
        # What the first part did before the loop is now one iteration back, seen from the loop.
        own = {root for op in parts.first for root in allocations(op)}
        for block in (self.before, self.first):
            earlier(block.ops, own)
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
        if len(parts.products) > 2:
            self.body.ops[:-1] = [*parts.first, *parts.last]
            self.insert()
            return
        waits = [op for op in parts.last[:parts.last.index(parts.products[1])]
                 if op.name == "wait_full"]
        # Nothing runs beside the last iteration: waited for at once.  Where branches come between,
        # ptxas has serialised all products of the function (C7514).
        start, wait = (parts.last.index(ops[1]) for ops in (parts.products, parts.waits))
        self.last.ops.insert(start + 1, self.last.ops.pop(wait))
        self.interleave()
        apart = has_producer(self.kernel)
        if apart:
            wait_early(header, (self.first, body), waits, parts.waits[1], self.last)
        scale_early(header, (self.first, body), parts.products[1],
                    next(op for op in self.last.ops if op.name == "wgmma"), apart)
        self.insert()

    def insert(self) -> None:
        """Put the new blocks to their places."""
        blocks, body = self.kernel.blocks, self.body
        blocks.insert(blocks.index(self.before) + 1, self.first)
        at = blocks.index(body) + 1
        blocks[at:at] = [self.last, self.after]

    def lag(self, in_first: dict[Value, Value]) -> dict[Value, Value]:
        """Values of the first part and the header that the second reads -> phis that keep them."""
        parts, header = self.parts, self.header
        made = {r for op in [*parts.first, *header.ops] if op not in parts.phis for r in op.results}
        found: dict[Value, Value] = {}
        for op in parts.last:
            for value in op.inputs():
                if value in made and value not in found:
                    phi = make_phi([in_first[value], value], [self.first, self.body], value.name)
                    found[value] = phi.result
                    header.ops.insert(0, phi)
        return found

    def leave(self, at_entry: dict[Value, Value], final: dict[Value, Value]) -> None:
        """Behind the loop: its values from the last iteration, or those from before it."""
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
                    phi = make_phi([at_entry[result], value], [self.before, self.last], result.name)
                    merged[result] = phi.result
                    self.after.ops.append(phi)
        for op in outside:
            op.replace_inputs(merged)
        self.after.ops.append(Op("br", [], blocks=[parts.exit]))
        follow(parts.exit, header, self.after)
        redirect(header, parts.exit, self.last)

    def interleave(self) -> None:
        """Both products start, then the threads go on with the first part."""
        first, last = (_around(ops, product, wait) for ops, product, wait in zip(
            (self.parts.first, self.parts.last), self.parts.products, self.parts.waits,
            strict=True))
        self.parts.waits[0].attributes["pending"] = 1
        self.body.ops[:-1] = [op for pair in zip(first, last, strict=True)
                              for ops in pair for op in ops]


def _around(ops: list[Op], product: Op, wait: Op) -> tuple[list[Op], list[Op], list[Op]]:
    """The operations up to a product's start, while it runs, and from the wait for it on."""
    start, end = ops.index(product) + 1, ops.index(wait)
    return ops[:start], ops[start:end], ops[end:]
