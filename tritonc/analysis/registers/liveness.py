"""Which values are live where: backward data flow over the blocks, sets as integers.

A value is live from its definition to its last use on any path.  A phi reads its operands at the
ends of the blocks that they come from.  `root` may name a value by another one, whose registers it
has; values for which it gives None are left out."""

from collections.abc import Callable

from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Value

Root = Callable[[Value], Value | None]


class Liveness:
    """The live values at the ends of the blocks of `cfg`."""

    def __init__(self, cfg: Cfg, root: Root = lambda value: value) -> None:
        self._root = root
        self._number: dict[Value, int] = {}
        self._bits: dict[Value, int] = {}
        self._values: list[Value] = []
        self.roots: dict[Value, Value | None] = {}  # of all values that were asked for
        self._out: dict[Block, int] = {}
        self._solve(cfg)

    def root(self, value: Value) -> Value | None:
        """The value in whose registers this one is; None if it has none."""
        try:
            return self.roots[value]
        except KeyError:
            found = self.roots[value] = self._root(value)
            return found

    def number(self, value: Value) -> int:
        """Where the value comes in an order that is the same in each run."""
        return self._number.get(value, len(self._number))

    def at_end(self, block: Block) -> set[Value]:
        """The values that are live behind the last operation of the block."""
        found, mask = set(), self._out[block]
        while mask:
            low = mask & -mask
            found.add(self._values[low.bit_length() - 1])
            mask ^= low
        return found

    def _bit(self, value: Value) -> int:
        found = self._bits.get(value)
        if found is None:
            found, root = 0, self.root(value)
            if root is not None:
                if root not in self._number:
                    self._number[root] = len(self._values)
                    self._values.append(root)
                found = 1 << self._number[root]
            self._bits[value] = found
        return found

    def _solve(self, cfg: Cfg) -> None:
        used: dict[Block, int] = {}  # before any definition in the block
        made: dict[Block, int] = {}
        passed: dict[Block, int] = dict.fromkeys(cfg.order, 0)  # to phis of successors
        known, roots = self._bits.get, self.roots
        for block in cfg.order:
            reads, makes = set[int](), set[int]()  # bits
            for op in block.ops:
                if op.name == "phi":
                    for value, source in zip(op.operands, op.blocks, strict=True):
                        if source in passed:
                            passed[source] |= self._bit(value)
                else:
                    for value in op.operands if op.guard is None else op.inputs():
                        bit = known(value)
                        if bit is None:
                            bit = self._bit(value)
                        if bit not in makes:
                            reads.add(bit)
                for result in op.results:
                    if (roots[result] if result in roots else self.root(result)) is result:
                        makes.add(known(result) or self._bit(result))
            used[block], made[block] = sum(reads), sum(makes)
        into = dict(used)
        out = self._out = dict(passed)

        def update(block: Block) -> bool:
            live = passed[block]
            for successor in block.successors:
                live |= into[successor]
            out[block] = live
            before = used[block] | live & ~made[block]
            changed, into[block] = before != into[block], before
            return changed

        for block in reversed(cfg.order):
            update(block)
        # What is live at a header, and not made in the loop, is live in all of it: found out block
        # by block, that takes a walk around the loop for each loop inside another.
        for loop in cfg.loops:
            live = into[loop.header]
            for block in loop.blocks:
                live &= ~made[block]
            for block in loop.blocks:
                into[block] |= live
        work = list(cfg.order)  # the last is taken first
        waiting = set(work)
        while work:
            block = work.pop()
            waiting.discard(block)
            if update(block):
                for other in cfg.predecessors[block]:
                    if other not in waiting and cfg.reachable(other):
                        waiting.add(other)
                        work.append(other)
