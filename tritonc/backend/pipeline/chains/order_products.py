"""order_products: chained products start as early, and are waited for as late, as possible.

Before:  start %s = product(%k, %q)        After:  start %s = product(%k, %q)
         wait for %s                               start %d = product(%v, %g)
         %p = exp2(%s)                             wait for %s, %d may go on
         start %x = %x + product(%p, %g)           %p = exp2(%s)
         start %d = product(%v, %g)                wait for %d
         wait for %x, %d                           %e = %p * %d
         %e = %p * %d                              start %x = %x + product(%p, %g)
         start %y = %y + product(%e, %q)           start %y = %y + product(%e, %q)
         wait for %y                               wait for %x, %y

Tensor cores do the products that were started in their order, beside the threads.  In a chain of
products, as the gradients of attention are, a product whose operands are there starts before the
threads wait for another one, and a result is waited for where it is first read: that wait lets the
products that were started behind it go on (`pending`).  A sum that the next product alone adds to
is not waited for: tensor cores pass it on.

What a product in flight holds, its result and the operands that it reads from registers, lives
longer so.  Three orders are compared, by the registers that are live at the worst place
(`analysis.pressure`), and the first that a thread has room for is taken, or the one that needs the
fewest:

  - each product as soon as its operands are there;
  - the same, but products whose results the rest of the block does not read start with the last
    one: what they multiply is then packed when the values that it is made of are no longer read;
  - the order of the source.

A row that is spread over lanes takes more registers than before: it is made where it is read, or
before the wait that its reader waits for.

Legal because only operations without effects change their places, and products: those stay behind
each write to a buffer that they read, each fence, and the wait for the stage of a buffer that they
read; what gives such a buffer away stays behind the wait for them.

Needs loops of a header and one more block, with products that are each waited for in that block.
After rotate_dots, which orders the products of the loops that it rotates."""

from dataclasses import field

from tritonc.analysis.registers.pressure import estimated
from tritonc.analysis.values import closure
from tritonc.backend.dots.together import chained, sums
from tritonc.backend.launch.register_budget import available
from tritonc.backend.pipeline.spread_late import spreads
from tritonc.backend.pipeline.tma.roles import COPIES
from tritonc.backend.shared.shared_memory import accesses, allocations
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.records import dataclass

_RENAMES = ("broadcast", "reshape", "splat", "constant", "range")  # no registers of their own
_OPERANDS = ("shared_store", "proxy_fence")  # of what makes operands
_LIGHT = ("fpcast", "convert_layout", "trans")  # what is made of a tile for a product alone
# What serves other stages of a buffer than those that products in flight read.
_OTHER_STAGES = ("wait_full", *COPIES)


def order_products(kernel: Kernel, context: Context) -> bool:
    """Order the products of the loops with chains of them."""
    changed = False
    for loop in Cfg(kernel).loops:
        body = loop.body
        if body is None or not (chained(body) or sum(op.name == "wgmma" for op in body.ops) > min(
                2, len(sums(body)))):
            continue
        chain = Chain.of(kernel, body)
        if chain is not None:
            changed |= _choose(kernel, chain, context)
    return changed


def _choose(kernel: Kernel, chain: "Chain", context: Context) -> bool:
    before, room = chain.body.ops, available(kernel, context)
    best: tuple[int, list[Op]] | None = None
    for order in (_Order(chain, set()).ops, _Order(chain, chain.late).ops, chain.ops):
        chain.take(order)
        found = estimated(kernel).pressure([chain.body]).registers
        if best is None or found < best[0]:
            best = found, order
        if found <= room:
            break
    assert best is not None
    chain.take(best[1])
    flying = max(op.attributes["pending"] for op in chain.body.ops if op.name == "wgmma_wait")
    if flying:
        context.remark("order_products", f"up to {flying + 1} products of this chain are in flight "
                       "at once", chain.starts[0].span)
    return [op.name for op in before] != [op.name for op in chain.body.ops]


@dataclass
class Chain:
    """A block with products, its operations without the waits, and what depends on what.

    `after`: the operations that each stays behind; `ended`: the products whose end it waits for;
    `added`: products to whose sums another one alone adds, and that one; `late`: products whose
    results nothing else in the block reads."""

    body: Block
    ops: list[Op]
    starts: list[Op]
    results: dict[Op, Value]  # of the waits, by product
    after: dict[Op, set[Op]] = field(default_factory=dict)
    ended: dict[Op, set[Op]] = field(default_factory=dict)
    added: dict[Op, Op] = field(default_factory=dict)
    late: set[Op] = field(default_factory=set)

    @staticmethod
    def of(kernel: Kernel, body: Block) -> "Chain | None":
        """The chain of a block, or None if its products are not all waited for in turn."""
        starts = [op for op in body.ops if op.name == "wgmma"]
        results: dict[Op, Value] = {}
        for wait in (op for op in body.ops if op.name == "wgmma_wait"):
            if wait.attributes["pending"] or wait.attributes.get("held"):
                return None
            for value, result in zip(wait.operands, wait.results, strict=True):
                if value.op is None or value.op not in starts:
                    return None
                results[value.op] = result
        readers = uses(kernel)
        if len(results) != len(starts) or len(starts) < 2 or any(
                len(readers[start.result]) != 1 for start in starts):
            return None
        chain = Chain(body, [op for op in body.ops if op.name != "wgmma_wait"], starts, results)
        chain.added = {start: reader for start in starts for reader in starts
                       if reader.operands[2] is results[start]
                       and readers[results[start]] == [reader]}
        chain._depend()
        chain.late = {
            start for start in starts if all(op is body.terminator or op.name == "arrive_empty"
                                             for op in chain.ops if start in chain.ended[op])}
        return chain

    def _depend(self) -> None:
        made = {result: op for op in self.ops for result in op.results}
        ends = {result: start for start, result in self.results.items()}
        last: Op | None = None  # operation with an effect
        waits: dict[tuple[Value, ...], Op] = {}  # at stages, the first of each
        writes: dict[Op, list[Op]] = {}
        fences: list[Op] = []
        releases: list[Op] = []
        reads: dict[Op, set[Op]] = {start: allocations(start) for start in self.starts}
        started: list[Op] = []
        for op in self.ops:
            after = self.after[op] = {made[v] for v in op.inputs() if v in made}
            ended = self.ended[op] = {ends[v] for v in op.inputs() if v in ends}
            if op.name == "wgmma":
                for start in [start for start in ended if self.added.get(start) is op]:
                    ended.remove(start)
                    after.add(start)
                after |= {*waits.values(), *fences}
                after.update(write for root in reads[op] for write in writes.get(root, ()))
                started.append(op)
            elif op is self.body.terminator:
                after.update(one for one in self.ops if one is not op)
                ended.update(self.starts)
            elif op.effects:
                if last is not None:
                    after.add(last)
                if op.name == "arrive_empty":
                    releases.append(op)  # it may be late, but for copies
                else:
                    last = op
                if op.name in ("wait_empty", "tma_load"):
                    after.update(releases)
                if op.name == "wait_full":
                    waits.setdefault(tuple(op.operands), op)
                elif op.name == "proxy_fence":
                    fences.append(op)
                if op.name in _OTHER_STAGES:
                    continue
                roots, written = allocations(op), _written(op)
                ended.update(one for one in started if reads[one] & (
                    roots if op.name == "arrive_empty" else written))
                for root in written:
                    writes.setdefault(root, []).append(op)
            after |= ended

    def take(self, order: list[Op]) -> None:
        """Give the block its operations in that order, and before each the wait for the products
        that must have ended."""
        self.body.ops = ops = list[Op]()
        flying: list[Op] = []
        for op in order:
            if needed := [flying.index(one) for one in self.ended[op] if one in flying]:
                count = max(needed) + 1
                while self.added.get(flying[count - 1]) in flying[count:]:
                    count = flying.index(self.added[flying[count - 1]]) + 1
                done, flying = flying[:count], flying[count:]
                ends = [one for one in done if self.added.get(one) not in done]
                wait = make_op("wgmma_wait", [one.result for one in ends], span=done[-1].span,
                               pending=len(flying))
                wait.results = [self.results[one] for one in ends]  # the values that they were
                for value in wait.results:
                    value.op = wait
                ops.append(wait)
            ops.append(op)
            if op.name == "wgmma":
                for start in (one for one in self.starts if self.added.get(one) is op):
                    op.operands[2] = start.result if start in flying else self.results[start]
                flying.append(op)


class _Order:
    """The chain's operations, products as early as they can start.

    Those of `together` start when all of them can.  Operations stand as in the source, but for
    what products need that start earlier, what only products need that start later, and rows that
    are spread, which are made where they are read."""

    def __init__(self, chain: Chain, together: set[Op]) -> None:
        self.chain, self.together = chain, together
        self.ops: list[Op] = []
        self.done: set[Op] = set()
        self.ended: set[Op] = set()
        lazy = self._lazy()
        for op in chain.ops:
            self._start()
            if op in lazy or op in self.done or op in together:
                continue
            if self._needs(op) - self.ended:
                self._go_on()
            self._emit(op)

    def _go_on(self) -> None:
        """What threads do with operands and needs no product's end, before they wait for one."""
        for op in self.chain.ops[:-1]:
            if op.name in _OPERANDS and op not in self.done and self._needs(op) <= self.ended:
                self._emit(op)

    def _lazy(self) -> set[Op]:
        """Operations that stand where they are needed."""
        readers: dict[Op, list[Op]] = {}
        for op, after in self.chain.after.items():
            for one in after:
                if op is not self.chain.body.terminator:
                    readers.setdefault(one, []).append(op)
        found = {op for op in self.chain.ops if op.name in _RENAMES or spreads(op)}
        for op in reversed(self.chain.ops):
            if op.name in _LIGHT and readers.get(op) and all(
                    one in found or one in self.together for one in readers[op]):
                found.add(op)
        return found

    def _start(self) -> None:
        """Start the products that wait for none that is still in flight."""
        chain = self.chain
        able = [op for op in chain.starts if op not in self.done and self._needs(op) <= self.ended]
        if not set(able) >= self.together - self.done:
            able = [op for op in able if op not in self.together]
        for op in able:
            self._emit(op)

    def _needs(self, op: Op) -> set[Op]:
        """The products that must have ended before it."""
        return {product for one in self._behind(op) for product in self.chain.ended[one]}

    def _behind(self, op: Op) -> dict[Op, None]:
        """The operation and those that it comes after, as far as they are not done."""
        return closure([op], lambda one: self.chain.after[one] - self.done)

    def _emit(self, op: Op) -> None:
        """The operation, behind those that it needs, in the order of the source."""
        needed = self._behind(op)
        for one in self.chain.ops:
            if one in needed:
                self.ops.append(one)
                self.done.add(one)
                for product in self.chain.ended[one]:
                    self.ended |= self._up_to(product)

    def _up_to(self, product: Op) -> set[Op]:
        starts = [op for op in self.ops if op.name == "wgmma"]
        return set(starts[: starts.index(product) + 1])


def _written(op: Op) -> set[Op]:
    return {access.allocation for access in accesses(op) if access.write}
