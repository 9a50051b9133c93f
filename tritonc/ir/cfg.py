"""The control-flow graph of a kernel: predecessors, dominators and natural loops.

`Cfg(kernel)` is a snapshot.  A pass that moves operations may keep it; one that changes blocks or
terminators makes a new one.  All lists come in one order, whatever the hash seed: blocks in reverse
postorder, predecessors in the order of the kernel's blocks.

A block whose `cond_br` names one successor twice counts as one predecessor of it, and a phi has one
operand for it.

Dominators follow Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm" (2001): walk the
blocks in reverse postorder and let each block's dominator be the nearest common ancestor of its
predecessors in the tree so far; two rounds suffice without irreducible loops.  The tree is then
numbered depth first, so that `a` dominates `b` where b's interval lies in a's.

A natural loop is what a back edge (latch -> header, the header dominating the latch) encloses: the
blocks that reach the latch without passing the header.  Back edges of one header make one loop.
The language has no goto, so that each cycle of a kernel is a natural loop."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from functools import lru_cache
from itertools import chain

from tritonc.ir.core import OPS, Block, Kernel, Op, Value
from tritonc.records import cached_property, dataclass
from tritonc.source import Span


@dataclass(eq=False)
class Loop:
    """A natural loop; `blocks` are in reverse postorder: the header first, inner loops included."""

    header: Block
    blocks: list[Block]
    latches: list[Block]  # the sources of its back edges
    preheader: Block | None  # the one block from which it is entered, which leads nowhere else
    exits: list[tuple[Block, Block]]  # edges that leave it: (inside, outside)
    parent: "Loop | None" = None
    depth: int = 1  # 1 for an outermost loop

    @cached_property
    def block_set(self) -> frozenset[Block]:
        return frozenset(self.blocks)

    def __contains__(self, block: Block) -> bool:
        return block in self.block_set

    def ops(self) -> Iterator[Op]:
        """All operations in block order.  Do not change the lists meanwhile."""
        return chain.from_iterable(map(OPS, self.blocks))

    def first(self, phi: Op) -> Value:
        """What a phi of the header is when the loop, which has a preheader, begins."""
        assert self.preheader is not None
        return incoming(phi, self.preheader)

    def next(self, phi: Op) -> Value:
        """What a phi of the header is one iteration later; of a loop with one latch."""
        assert self.latch is not None
        return incoming(phi, self.latch)

    @property
    def one_exit(self) -> bool:
        """Whether its header alone leaves it."""
        return [source for source, _ in self.exits] == [self.header]

    @property
    def latch(self) -> Block | None:
        """The only latch, or None."""
        return self.latches[0] if len(self.latches) == 1 else None

    @property
    def regular(self) -> bool:
        """Whether it has the form that `unify_exits` gives: a preheader, one latch, one exit at its
        header."""
        return self.preheader is not None and self.latch is not None and self.one_exit

    @property
    def body(self) -> Block | None:
        """The one block beside the header of a regular loop, which runs while the header's test is
        true; None for other loops."""
        body = self.header.successors[0]
        return body if self.regular and self.blocks == [self.header, body] else None

    def __repr__(self) -> str:
        return f"<loop {self.header.name}, depth {self.depth}>"


class Cfg:
    def __init__(self, kernel: Kernel) -> None:
        last = _last(kernel)
        edges = [(block, *block.successors) for block in kernel.blocks]
        if last and last[0]._edges == edges:  # most passes leave the blocks as they are
            vars(self).update(vars(last[0]))
            vars(self).pop("block_of", None)
            last[0] = self
            return
        last[:] = [self]
        self._edges: list[tuple[Block, ...]] = edges
        self.kernel = kernel
        self.order = _reverse_postorder(kernel.entry)  # reachable blocks, the entry first
        self.index = {block: i for i, block in enumerate(self.order)}
        self.predecessors: dict[Block, list[Block]] = {block: [] for block in kernel.blocks}
        for block in kernel.blocks:
            for successor in dict.fromkeys(block.successors):
                self.predecessors[successor].append(block)

    def reachable(self, block: Block) -> bool:
        """Whether control can come there from the entry."""
        return block in self.index

    # dominators

    @cached_property
    def immediate_dominator(self) -> dict[Block, Block | None]:
        """The nearest strict dominator of each reachable block; None for the entry."""
        index = self.index
        above = [0] + [-1] * (len(self.order) - 1)  # by position in reverse postorder; -1: not met
        sources = [[index[p] for p in self.predecessors[b] if p in index] for b in self.order]
        changed = True
        while changed:
            changed = False
            for i in range(1, len(self.order)):
                found = -1
                for j in sources[i]:
                    if above[j] >= 0:
                        found = j if found < 0 else _meet(above, found, j)
                if above[i] != found:
                    above[i], changed = found, True
        return {block: self.order[above[i]] if i else None for i, block in enumerate(self.order)}

    @cached_property
    def children(self) -> dict[Block, list[Block]]:
        """The dominance tree downwards, each list in reverse postorder."""
        found: dict[Block, list[Block]] = {block: [] for block in self.order}
        for block, above in self.immediate_dominator.items():
            if above is not None:
                found[above].append(block)
        return found

    @cached_property
    def _interval(self) -> dict[Block, tuple[int, int]]:
        """Depth-first numbers of a block's subtree of the dominance tree: first, last."""
        first: dict[Block, int] = {}
        found: dict[Block, tuple[int, int]] = {}
        stack: list[tuple[Block, bool]] = [(self.order[0], False)]
        while stack:
            block, left = stack.pop()
            if left:
                found[block] = (first[block], len(first) - 1)
                continue
            first[block] = len(first)
            stack.append((block, True))
            stack.extend((child, False) for child in reversed(self.children[block]))
        return found

    def dominates(self, a: Block, b: Block) -> bool:
        """Whether each path from the entry to `b` passes `a`; true of a block and itself.

        An unreachable `b` is dominated by everything, as no path leads there."""
        interval = self._interval
        if b not in interval:
            return True
        if a not in interval:
            return False
        first, last = interval[a]
        return first <= interval[b][0] <= last

    def available(self, value: Value, place: Block) -> bool:
        """Whether the value is there at the end of a block."""
        home = self.block_of.get(value.op) if value.op is not None else self.order[0]
        return home is not None and self.dominates(home, place)

    # loops

    @cached_property
    def loops(self) -> list[Loop]:
        """All natural loops, outer ones before the loops that they contain."""
        found: list[Loop] = []
        around: dict[Block, Loop] = {}  # the outermost loop found so far that has the block
        for header in reversed(self.order):  # inner loops first
            latches = [p for p in self.predecessors[header]
                       if p in self.index and self.dominates(header, p)]
            if latches:
                found.append(self._loop(header, latches, around))
        found.reverse()
        for loop in found:
            loop.depth = loop.parent.depth + 1 if loop.parent else 1
        return found

    @property
    def innermost_loops(self) -> list[Loop]:
        """The loops that contain no others."""
        around = {loop.parent for loop in self.loops}
        return [loop for loop in self.loops if loop not in around]

    def _loop(self, header: Block, latches: list[Block], around: dict[Block, Loop]) -> Loop:
        """The loop of a header; loops inside are walked as one block each."""
        inside = {header}
        leaving = {header}  # blocks from which an edge may leave the loop
        stack = list(latches)
        while stack:
            block = stack.pop()
            if block in inside:
                continue
            inner = around.get(block)
            if inner is None:
                inside.add(block)
                leaving.add(block)
            else:
                inside.update(inner.blocks)
                leaving.update(source for source, _ in inner.exits)
                block = inner.header
            stack.extend(p for p in self.predecessors[block] if p in self.index and p not in inside)
        blocks = sorted(inside, key=self.index.__getitem__)
        exits = [(block, to) for block in sorted(leaving, key=self.index.__getitem__)
                 for to in dict.fromkeys(block.successors) if to not in inside]
        outside = [p for p in self.predecessors[header] if p in self.index and p not in inside]
        preheader = None
        if len(outside) == 1 and len(dict.fromkeys(outside[0].successors)) == 1:
            preheader = outside[0]
        loop = Loop(header, blocks, latches, preheader, exits)
        for block in blocks:
            inner = around.get(block)
            if inner is not None and inner.parent is None:
                inner.parent = loop
            around[block] = loop
        return loop

    @cached_property
    def innermost(self) -> dict[Block, Loop]:
        """The innermost loop of each block that is in one."""
        return {block: loop for loop in self.loops for block in loop.blocks}

    @cached_property
    def block_of(self) -> dict[Op, Block]:
        """The block in which each operation stands, as of the first question."""
        return {op: block for block in self.kernel.blocks for op in block.ops}


@lru_cache(4)  # a kernel, and copies that are looked at meanwhile
def _last(kernel: Kernel) -> list[Cfg]:
    """The last graph of a kernel."""
    return []


def reached(first: Iterable[Block], following: Callable[[Block], Iterable[Block]] | None = None,
            stop: Container[Block] = ()) -> dict[Block, None]:
    """The blocks on all paths from `first`, these included, as far as `stop`; `following`: where
    paths go on, if not to a block's successors."""
    found: dict[Block, None] = {}
    stack = list(first)
    while stack:
        block = stack.pop()
        if block not in found and block not in stop:
            found[block] = None
            stack += block.successors if following is None else following(block)
    return found


def _reverse_postorder(entry: Block) -> list[Block]:
    """Blocks that `entry` reaches, each before its successors but for back edges."""
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(reversed(entry.successors)))]
    while stack:
        block, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(reversed(successor.successors))))
                break
        else:
            order.append(block)
            stack.pop()
    return order[::-1]


def _meet(above: list[int], a: int, b: int) -> int:
    """The nearest common ancestor, by positions in reverse postorder."""
    while a != b:
        while a > b:
            a = above[a]
        while b > a:
            b = above[b]
    return a


def remove_operands(phi: Op, sources: Collection[Block]) -> None:
    """Drop the operands of a phi that come from `sources`."""
    keep = [i for i, block in enumerate(phi.blocks) if block not in sources]
    phi.operands = [phi.operands[i] for i in keep]
    phi.blocks = [phi.blocks[i] for i in keep]


def remove_unreachable(kernel: Kernel) -> bool:
    """Drop blocks that control cannot reach, and the phi operands that came from them."""
    reachable = set(_reverse_postorder(kernel.entry))
    if len(reachable) == len(kernel.blocks):
        return False
    gone = {block for block in kernel.blocks if block not in reachable}
    kernel.blocks = [block for block in kernel.blocks if block in reachable]
    for block in kernel.blocks:
        for op in block.phis():
            remove_operands(op, gone)
    return True


def remove_edge(source: Block, target: Block) -> None:
    """Drop the phi operands of `target` that come from `source`, whose branch there has gone."""
    for op in target.phis():
        remove_operands(op, (source,))


def redirect(source: Block, old: Block, new: Block) -> None:
    """Let the branches of `source` to `old` go to `new`.  Phis are the caller's."""
    terminator = source.terminator
    terminator.blocks = [new if block is old else block for block in terminator.blocks]


def follow(block: Block, old: Block, new: Block) -> None:
    """Let the phis of a block that came from `old` come from `new`."""
    for phi in block.phis():
        phi.blocks = [new if source is old else source for source in phi.blocks]


def split_edge(kernel: Kernel, source: Block, target: Block) -> Block:
    """Put a new block on the edge, before `target` in the kernel's list; the phis follow."""
    middle = Block(f"{source.name}.{target.name}")
    middle.ops.append(Op("br", [], blocks=[target], span=source.terminator.span))
    redirect(source, target, middle)
    follow(target, source, middle)
    kernel.blocks.insert(kernel.blocks.index(target), middle)
    return middle


def split(block: Block, at: int, rest: Block) -> None:
    """Move the operations from `at` on to the end of `rest`, a block that is not reached yet; the
    phis behind know.  `block` has no terminator then, and neither's place in the kernel changes."""
    moved = block.ops[at:]
    del block.ops[at:]
    rest.ops += moved
    for successor in rest.successors:
        follow(successor, block, rest)


def split_returns(kernel: Kernel) -> bool:
    """Give each edge to a block that only returns such a block of its own: then what one path has
    set up is undone where that path ends."""
    changed = False
    for block in list(kernel.blocks):
        if len(block.ops) == 1 and block.terminator.name == "ret":
            sources = [b for b in kernel.blocks if block in b.successors]
            for source in sources[1:]:
                copy = Block(f"{block.name}.{source.name}")
                copy.ops.append(Op("ret", [], span=block.terminator.span))
                redirect(source, block, copy)
                kernel.blocks.append(copy)
                changed = True
    return changed


def merge_edges(kernel: Kernel, sources: list[Block], target: Block, name: str) -> Block:
    """Let all edges from `sources` to `target` pass a new block, which holds their phis' merges."""
    middle = Block(name)
    chosen = set(sources)
    for op in target.phis():
        picked = [i for i, block in enumerate(op.blocks) if block in chosen]
        values = [op.operands[i] for i in picked]
        merged = values[0]
        if any(value is not merged for value in values):
            phi = make_phi(values, [op.blocks[i] for i in picked], op.result.name, op.span)
            middle.ops.append(phi)
            merged = phi.result
        remove_operands(op, chosen)
        add_incoming(op, merged, middle)
    for source in sources:
        redirect(source, target, middle)
    middle.ops.append(Op("br", [], blocks=[target], span=sources[0].terminator.span))
    kernel.blocks.insert(kernel.blocks.index(target), middle)
    return middle


def incoming(phi: Op, block: Block) -> Value:
    """The operand of a phi for the edge from `block`."""
    return phi.operands[phi.blocks.index(block)]


def make_phi(values: list[Value], blocks: list[Block], name: str = "",
             span: Span | None = None) -> Op:
    """A phi that is in no block yet; further edges may follow (`add_incoming`)."""
    phi = Op("phi", values, {}, (values[0].type,), None, span, blocks)
    phi.result.name = name
    return phi


def add_incoming(phi: Op, value: Value, block: Block) -> None:
    """One more edge."""
    phi.operands.append(value)
    phi.blocks.append(block)
