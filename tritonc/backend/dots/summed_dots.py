"""Products that a loop only adds up, and giving their sums another form.

    header: %c = phi [%start], [%d]            header: %s = phi [%first], [%e]
    body:   %d = dot %a, %b, %c         ->     body:   %e = dot (made of %a, %b), %s
    exit:   uses of %c                         exit:   %r = made of %s; uses of %r

`slice_k` and `swap_operands` do so."""

from collections.abc import Callable

from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, add_incoming, incoming, make_phi
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import shape
from tritonc.records import dataclass


@dataclass
class SummedDot:
    """A product of two matrices of which a loop computes a sum, element by element, that nothing
    else in the loop reads: `members` are the product, the loop's `phi`, and what is between."""

    dot: Op
    phi: Op
    loop: Loop
    preheader: Block
    latch: Block
    exit: Block
    members: set[Op]

    @property
    def start(self) -> Value:
        """What the products are added to."""
        return incoming(self.phi, self.preheader)

    def before(self) -> Builder:
        """Where the sum begins: before the loop."""
        return Builder(self.preheader, len(self.preheader.ops) - 1, self.dot.span)

    def replace(self, kernel: Kernel, start: Value, product: Callable[[Builder, Value], Value],
                result: Callable[[Builder, Value], Value]) -> None:
        """Add up another product.  `product` gets the place of the dot and the new sum so far,
        `result` a place behind the loop and the new sum, of which it makes what the old one was."""
        home = next(block for block in self.loop.blocks if self.dot in block.ops)
        sums = make_phi([start], [self.preheader], self.phi.result.name)
        value = product(Builder(home, home.ops.index(self.dot), self.dot.span), sums.result)
        add_incoming(sums, value, self.latch)
        home.ops.remove(self.dot)
        header = self.loop.header
        header.ops[header.ops.index(self.phi)] = sums
        after = Builder(self.exit, len(self.exit.phis()), self.dot.span)
        total = result(after, sums.result)
        total.name = self.phi.result.name
        kernel.replace({self.phi.result: total})


def summed_dots(kernel: Kernel, alone: bool = True) -> list[SummedDot]:
    """All products of the kernel, if each is one of a loop of its own and they have one size and,
    if added up `alone`, one instruction; otherwise none."""
    dots = [op for op in kernel.ops() if op.name == "dot"]
    kinds = {(shape(dot.operands[0].type), shape(dot.operands[1].type),
              alone and dot.attributes.get("instruction")) for dot in dots}
    if len(kinds) != 1:
        return []
    cfg, readers = Cfg(kernel), uses(kernel)
    found = [one for one in (_summed(dot, cfg, readers) for dot in dots) if one is not None and (
        not alone or (one.members == {one.dot, one.dot.operands[2].op}
                      and one.dot.operands.count(one.phi.result) == 1))]
    apart = {one.loop if alone else one.phi for one in found}
    return found if len(found) == len(dots) == len(apart) else []


def _summed(dot: Op, cfg: Cfg, readers: dict[Value, list[Op]]) -> SummedDot | None:
    """The loop that only adds up this product, and what it makes of it, if there is one."""
    loop = cfg.innermost.get(cfg.block_of[dot])
    if len(shape(dot.result.type)) != 2 or loop is None or loop.parent is not None \
            or loop.latch is None or loop.preheader is None or not loop.one_exit \
            or not cfg.dominates(cfg.block_of[dot], loop.latch):
        return None
    leave = loop.exits[0][1]
    if cfg.predecessors[leave] != [loop.header]:
        return None
    members, stack, phis = {dot}, [dot.result], list[Op]()
    while stack:
        value = stack.pop()
        for op in readers.get(value, []):
            if op in members:
                continue
            if op.name == "phi" and op in loop.header.ops:
                phis.append(op)
            elif cfg.block_of[op] not in loop:
                if value.op not in phis or op.name == "phi":
                    return None
                continue
            elif not op.info.elementwise or not op.pure or len(op.results) != 1 \
                    or shape(op.result.type) != shape(dot.result.type):
                return None
            members.add(op)
            stack.append(op.result)
    if len(phis) != 1:
        return None
    return SummedDot(dot, phis[0], loop, loop.preheader, loop.latch, leave, members)
