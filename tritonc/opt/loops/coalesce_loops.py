"""coalesce_loops: a loop around the loop of a product becomes one loop with it.

Before:  pre:    br outer                        After:  pre:   %some = %s0 < %S
         outer:  %r = phi [0], [%r1]                            br head
                 %a = phi [%a0], [%b]                    head:  %r = phi [0], [%r2]
                 cond_br (%r < %R), mid, exit                   %s = phi [%s0], [%s2]
         mid:    %h = f(%r)                                     %b = phi [%a0], [%b1]
                 br inner                                       cond_br (%r < %R and %some), ...
         inner:  %s = phi [%s0], [%s1]                   body:  %h = f(%r)
                 %b = phi [%a], [%b1]                           ...
                 cond_br (%s < %S), body, latch                 %more = %s1 < %S
         body:   ...                                            %s2 = select %more, %s1, %s0
                 br inner                                       %r2 = select %more, %r, %r1
         latch:  %r1 = add %r, 1                                br head
                 br outer

A convolution sums over taps and channels, in loops in loops, of which the inner one may have a
single iteration.  A pipeline of the inner loop would start and end for each tap; that of one loop
over all of it starts once.  What the outer loop computes for the inner one is computed in each
iteration; for a product that is little, which `_pays` decides.

Both loops must be plain (one test at the header, preheader, one latch), nothing but the inner loop
may stand in the outer one but what is pure or reads what nobody writes there, and whether the inner
loop runs at all must be known before the outer one.  After strength_reduce, which makes scalars of
what moves in outer loops."""

from tritonc.analysis.values import changes_memory, needed, speculatable
from tritonc.ir.build import make_op, until_unchanged
from tritonc.ir.cfg import Cfg, Loop, follow, incoming
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, uses
from tritonc.ir.ops import READ
from tritonc.ir.types import I1, Tile, shape

# Multiplications of the product for each element that an outer loop computes: an addition takes as
# long as so many of them on tensor cores (a multiprocessor does 64 of one and 4096 of the other in
# a cycle), and an eighth of the time may go there.
WORTH = 8


def coalesce_loops(kernel: Kernel, context: Context) -> bool:
    """Coalesce pairs of loops, from the inside, until there are none."""
    return until_unchanged(lambda: _one_more(kernel))


def _one_more(kernel: Kernel) -> bool:
    cfg = Cfg(kernel)
    for inner in cfg.innermost_loops:
        outer = inner.parent
        if outer is not None and _pays(inner, outer):
            pair = Pair(kernel, cfg, outer, inner)
            if pair.possible():
                pair.run()
                return True
    return False


def _pays(inner: Loop, outer: Loop) -> bool:
    """Whether the inner loop has a product, beside which what the outer one computes is little."""
    products = 0
    for op in inner.ops():
        if op.name == "dot":
            m, k = shape(op.operands[0].type)[-2:]
            products += m * k * shape(op.operands[1].type)[-1]
    work = sum(t.size for block in outer.blocks if block not in inner for op in block.ops
               if op.name not in ("phi", "range", "splat", "constant", "broadcast", "reshape")
               for t in (value.type for value in op.results) if isinstance(t, Tile))
    return products > 0 and work * WORTH <= products


class Pair:
    """Two loops, of which the outer one holds the inner one and little else."""

    def __init__(self, kernel: Kernel, cfg: Cfg, outer: Loop, inner: Loop) -> None:
        self.kernel, self.cfg, self.outer, self.inner = kernel, cfg, outer, inner

    def possible(self) -> bool:
        """Whether they can become one; finds the parts on the way."""
        outer, inner = self.outer, self.inner
        for loop in (outer, inner):
            if not loop.regular or loop.header.successors[0] not in loop \
                    or loop.latch is loop.header:
                return False
        assert outer.latch is not None and inner.preheader is not None
        self.before, self.after = inner.preheader, outer.latch
        others = [block for block in outer.blocks if block not in inner]
        if set(others) != {outer.header, self.before, self.after} or len(others) != 3 \
                or outer.header.terminator.blocks[0] is not self.before \
                or inner.header.terminator.blocks[1] is not self.after \
                or self.before.phis() or self.after.phis():
            return False
        return self.plain() and self.known_first() and self.next_values()

    def plain(self) -> bool:
        """Whether what stands around the inner loop may run in each of its iterations."""
        behind = self.own(self.after)
        test = self.inner.header.terminator.operands[0]
        self.tests = needed(self.own(self.inner.header), [
            test, *(v for op in behind for v in op.inputs()),
            *(incoming(phi, self.after) for phi in self.outer.header.phis())])
        if any(isinstance(value.type, Tile) for op in [*self.tests, *behind]
               for value in op.results):
            return False
        writes = any(changes_memory(op) for op in self.outer.ops())
        others = [*self.own(self.inner.header), *self.own(self.outer.header)]
        return all(speculatable(op) for op in [*self.tests, *behind]) \
            and all(op.pure for op in others) \
            and all(op.pure or (
                op.effects == {READ} and not writes
                and not op.attributes.get("volatile")) for op in self.own(self.before))

    @staticmethod
    def own(block: Block) -> list[Op]:
        """The operations between phis and terminator."""
        return block.ops[len(block.phis()):-1]

    def known_first(self) -> bool:
        """Whether it is known before the outer loop if the inner one runs, each time."""
        mapping = {phi.result: incoming(phi, self.before) for phi in self.inner.header.phis()}
        test = self.inner.header.terminator.operands[0]
        made = copy_ops([*self.own(self.before), *self.tests], mapping)
        for op in made:
            op.replace_inputs(mapping)
        self.first = needed(made, [mapping.get(test, test)])
        inside = set(self.outer.ops())
        if any(v.op in inside or not speculatable(op) for op in self.first for v in op.inputs()):
            return False
        self.runs = mapping.get(test, test)
        return True

    def next_values(self) -> bool:
        """Find out how each phi goes on.  Tiles must be sums that both loops carry on."""
        outer, inner = self.outer, self.inner
        assert outer.latch is not None and inner.latch is not None
        self.joined: dict[Op, Op] = {}  # a phi of the inner loop -> that of the outer one
        for phi in inner.header.phis():
            start = incoming(phi, self.before).op
            if start in outer.header.phis() and start is not None \
                    and incoming(start, self.after) is phi.result:
                self.joined[phi] = start
        for phi in [*outer.header.phis(), *inner.header.phis()]:
            if phi not in self.joined and phi not in self.joined.values() \
                    and isinstance(phi.result.type, Tile):
                return False
        inside = set(outer.ops())
        readers = uses(self.kernel)
        for own, phi in self.joined.items():
            if any(op is not own and op in inside for op in readers[phi.result]):
                return False
        if any(op not in inside for made in inside - set(self.joined.values())
               for value in made.results for op in readers.get(value, [])):
            return False  # where the inner loop never runs, nothing goes on
        starts = [incoming(phi, self.before) for phi in inner.header.phis()
                  if phi not in self.joined]
        return all(speculatable(op) for op in needed(self.own(self.before), starts))

    def run(self) -> None:
        """Make one loop of them: the inner header joins the outer one."""
        outer, inner, kernel = self.outer, self.inner, self.kernel
        assert outer.preheader is not None and inner.latch is not None
        latch, header = inner.latch, outer.header
        outer.preheader.ops[-1:-1] = self.first
        # Whether the inner loop has another iteration, with its next values.
        after = {phi.result: incoming(phi, latch) for phi in inner.header.phis()}
        mapping = dict(after)
        ops = copy_ops(self.tests, mapping)
        test = inner.header.terminator.operands[0]
        more = mapping.get(test, test)
        # What comes when it has none: the next values of the outer loop, and new starts.
        ops += copy_ops(self.own(self.after), mapping)
        following = {phi.result: mapping.get(value := incoming(phi, self.after), value)
                  for phi in header.phis()}
        again = dict(following)
        loose = [phi for phi in inner.header.phis() if phi not in self.joined]
        starts = [incoming(phi, self.before) for phi in loose]
        ops += copy_ops(needed(self.own(self.before), starts), again)
        entered = {phi.result: incoming(phi, outer.preheader) for phi in header.phis()}
        ops_before = copy_ops(needed(self.own(self.before), starts), entered)
        outer.preheader.ops[-1:-1] = ops_before
        for phi in header.phis():
            if phi in self.joined.values():
                own = next(a for a, b in self.joined.items() if b is phi)
                value = after[own.result]
            else:
                op = make_op("select", [more, phi.result, following[phi.result]], span=phi.span)
                ops.append(op)
                value = op.result
            phi.operands[phi.blocks.index(self.after)] = value
            phi.blocks[phi.blocks.index(self.after)] = latch
        for phi, start in zip(loose, starts, strict=True):
            op = make_op("select", [more, after[phi.result], again.get(start, start)],
                         span=phi.span)
            ops.append(op)
            phi.operands = [entered.get(start, start), op.result]
            phi.blocks = [outer.preheader, latch]
            header.ops.insert(0, phi)
        latch.ops[-1:-1] = ops
        latch.terminator.blocks = [header]
        end = header.terminator
        both = make_op("and", [end.operands[0], self.runs], I1, span=end.span)
        header.ops.insert(-1, both)
        end.operands = [both.result]
        # The body: what the outer loop computes, what the inner test computed, the inner body.
        body = inner.header.terminator.blocks[0]
        self.before.ops[-1:] = [*self.own(inner.header),
                                make_op("br", [], blocks=[body], span=end.span)]
        for block in inner.blocks:
            follow(block, inner.header, self.before)
        gone = {inner.header, self.after}
        kernel.blocks = [block for block in kernel.blocks if block not in gone]
        kernel.replace({a.result: b.result for a, b in self.joined.items()})
