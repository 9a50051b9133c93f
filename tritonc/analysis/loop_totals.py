"""What a loop combines over its iterations, and nothing else in it reads: sums, extrema, bits.

    head: %s = phi [%s0], [%s1]
    body: %r = reduce %t {kind = fadd}
          %s1 = fadd %s, %r                 or of %s * factor
"""

from collections.abc import Callable, Collection

from tritonc.analysis.values import constant_of
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, make_phi, split_edge
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.rules import REDUCTIONS, neutral
from tritonc.ir.types import Type, element, scalar
from tritonc.records import dataclass

Readers = dict[Value, list[Op]]


@dataclass
class LoopTotal:
    """A `phi` of a loop's header, the `total` that is its next value, and the reduction `part`
    that is combined with it, in another layout if `converted`; the product by which a sum is
    `scaled` before, as in a softmax."""

    phi: Op
    total: Op
    part: Op
    converted: Op | None
    scaled: Op | None

    def replace(self, kernel: Kernel, loop: Loop, partial: Op) -> None:
        """Put another phi in place of the loop's, and take out what combined its values."""
        gone = {self.total, self.part, self.converted, self.scaled}
        for block in loop.blocks:
            block.ops = [op for op in block.ops if op not in gone]
        loop.header.ops[loop.header.ops.index(self.phi)] = partial

    def partial(self, loop: Loop, t: Type, parts: int = 1) -> Op:
        """A phi of type `t` that begins with what changes no total, or with a scaled one's share
        for each of `parts`; it gets its next value from the caller."""
        assert loop.preheader is not None and loop.latch is not None
        before = Builder(loop.preheader, len(loop.preheader.ops) - 1, self.total.span)
        start = constant_of(loop.first(self.phi)) if self.scaled is not None else None
        zero = before.constant(neutral(self.total.name, scalar(t)) if start is None
                               else start / parts, t)
        return make_phi([zero, zero], [loop.preheader, loop.latch], self.phi.result.name,
                        self.phi.span)


def totals_of(loop: Loop, readers: Readers, scaled: bool = False) -> list[LoopTotal]:
    """All that a regular loop combines so that it
    may combine in another order; `scaled` sums that begin with a constant, too."""
    inside = set(loop.ops())
    return [found for phi in loop.header.phis()
            if (found := _total(phi, loop, inside, readers, scaled)) is not None]


def each_until_none(kernel: Kernel, change: Callable[[Cfg, Loop, Readers], bool]) -> bool:
    """Change regular loops as long as there is something to change; whether there was.  The
    innermost come first, as outer loops may combine what they come to."""
    changed, again = False, True
    while again:
        cfg, readers = Cfg(kernel), uses(kernel)  # anew, as the graph may have a block more
        again = any(change(cfg, loop, readers)
                    for loop in sorted(cfg.loops, key=lambda loop: -loop.depth) if loop.regular)
        changed |= again
    return changed


def place_behind(kernel: Kernel, cfg: Cfg, loop: Loop) -> Block:
    """A block without phis that only the loop's header goes to; it may be new."""
    outside = loop.exits[0][1]
    if cfg.predecessors[outside] != [loop.header] or outside.phis():
        return split_edge(kernel, loop.header, outside)
    return outside


def _total(phi: Op, loop: Loop, inside: Collection[Op], readers: Readers, scaled: bool
           ) -> LoopTotal | None:
    total, before, product = loop.next(phi).op, phi.result, None
    if scaled and constant_of(loop.first(phi)) is not None:
        product = _product(before, inside, readers)
        before = before if product is None else product.result
    if total is None or total not in inside or total.guard is not None \
            or not may_reorder(total.name, total.result.type) \
            or (product is not None and total.name != "fadd") \
            or before not in total.operands or readers.get(total.result) != [phi] \
            or [op for op in readers.get(before, []) if op in inside] != [total]:
        return None
    first, second = total.operands
    part, converted = (second if first is before else first).op, None
    if part is not None and part.name == "convert_layout" and part in inside \
            and readers.get(part.result) == [total]:
        part, converted = part.operands[0].op, part
    if part is None or part not in inside or part.name != "reduce" or part.guard is not None \
            or part.attributes["kind"] != total.name \
            or readers.get(part.result) != [converted or total]:
        return None
    return LoopTotal(phi, total, part, converted, product)


def _product(value: Value, inside: Collection[Op], readers: Readers) -> Op | None:
    """The product with another value that alone reads this one in the loop."""
    found = [op for op in readers.get(value, []) if op in inside]
    return found[0] if len(found) == 1 and found[0].name == "fmul" \
        and found[0].operands.count(value) == 1 else None


def may_reorder(kind: str, t: Type) -> bool:
    """Whether elements may be combined later: halves would round each partial sum."""
    bits = element(t).bits
    return kind in REDUCTIONS and kind != "fmul" and bits > (16 if kind == "fadd" else 1)
