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
    """Products of two matrices of which a loop computes a sum, element by element, that nothing
    else in the loop reads: `members` are the products, the loop's `phi`, and what is between."""

    dots: list[Op]
    phi: Op
    loop: Loop
    preheader: Block
    latch: Block
    exit: Block
    members: set[Op]

    @property
    def dot(self) -> Op:
        """The first product."""
        return self.dots[0]

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
    """The sums of all products of the kernel, which have one size; if added up `alone`, each in a
    loop of its own, by one instruction.  Otherwise none."""
    dots = [op for op in kernel.ops() if op.name == "dot"]
    kinds = {(shape(dot.operands[0].type), shape(dot.operands[1].type),
              alone and dot.attributes.get("instruction")) for dot in dots}
    if len(kinds) != 1:
        return []
    cfg, readers = Cfg(kernel), uses(kernel)
    found: list[SummedDot] = []
    for dot in dots:
        if any(dot in one.members for one in found):
            continue
        one = _summed(dot, cfg, readers)
        if one is None or (alone and one.members != {dot, dot.operands[2].op}):
            return []
        found.append(one)
    apart = {one.loop if alone else one.phi for one in found}  # else what sums share turns twice
    return found if len(apart) == len(found) else []


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
            elif not (op.info.elementwise or op.name == "dot") or not op.pure \
                    or len(op.results) != 1 or shape(op.result.type) != shape(dot.result.type):
                return None
            members.add(op)
            stack.append(op.result)
    adding = [op for op in loop.ops() if op in members and op.name == "dot"]
    if len(phis) != 1 or any(v.op in members for op in adding for v in op.operands[:2]):
        return None
    return SummedDot(adding, phis[0], loop, loop.preheader, loop.latch, leave, members)
