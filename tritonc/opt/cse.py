"""Common subexpression elimination: what was computed before, on every path, is not computed
again.

    %a = add %x, %y                  ->   %a = add %x, %y
    %b = add %y, %x                       uses of %b read %a

Walks the dominance tree; what a block computes is known in the blocks it dominates.  The key of an
operation is its row, operands (in one order if it commutes), guard, attributes and result types;
phis of one block compare by what comes from each predecessor.  A load equals an earlier one of the
same block if nothing in between may write what it reads, or orders accesses; volatile ones never
do.

Of constants, splats and the like one is kept, far from some uses perhaps: the backend makes such
cheap values again where it needs them instead of holding registers."""

from collections.abc import Hashable

from tritonc.analysis.aliases import Roots, may_alias, pointer_roots
from tritonc.analysis.values import attributes_key, changes_memory
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import TYPE, Block, Kernel, Op, Value
from tritonc.ir.ops import READ
from tritonc.records import cached_property

_LOADS = frozenset({READ})


def cse(kernel: Kernel, context: Context) -> bool:
    """Keep the first of equal operations."""
    cfg, changed, again = Cfg(kernel), False, True
    while again and (walk := _Walk(kernel)).visit_tree(cfg):
        changed = True
        again = any(op.name == "phi" and not walk.replaced.keys().isdisjoint(op.operands)
                    for op in kernel.ops())  # which has come across a back edge
        kernel.replace(walk.replaced)
    return changed


class _Walk:
    """One walk over the dominance tree."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.replaced: dict[Value, Value] = {}
        self.known: dict[Hashable, Op] = {}
        self.loads: dict[Hashable, Op] = {}  # of this block, since memory last changed

    def visit_tree(self, cfg: Cfg) -> bool:
        undo: list[list[Hashable]] = []
        stack: list[Block | None] = [cfg.order[0]]
        while stack:
            block = stack.pop()
            if block is None:  # a subtree is done
                for key in undo.pop():
                    del self.known[key]
                continue
            added: list[Hashable] = []
            self.visit(block, added)
            undo.append(added)
            stack.append(None)
            stack.extend(reversed(cfg.children[block]))
        return bool(self.replaced)

    def visit(self, block: Block, added: list[Hashable]) -> None:
        self.loads = {}
        kept: list[Op] = []
        for op in block.ops:
            if self.replaced:
                op.replace_inputs(self.replaced)
            if op.pure:
                key = self.key(op, block)
                same = self.known.get(key)
                if same is None:
                    self.known[key] = op
                    added.append(key)
            elif op.effects == _LOADS and op.results and not op.attributes.get("volatile"):
                same = self.loads.setdefault(self.key(op, block), op)
                same = same if same is not op else None
            else:
                same = None
                if changes_memory(op) and self.loads:
                    self.loads = self.unchanged(op)
            if same is None:
                kept.append(op)
                continue
            for old, new in zip(op.results, same.results, strict=True):
                self.replaced[old] = new
                new.name = new.name or old.name
        block.ops = kept

    @cached_property
    def roots(self) -> Roots:
        return pointer_roots(self.kernel)

    def unchanged(self, op: Op) -> dict[Hashable, Op]:
        """The loads that an operation with effects leaves as they are: a store, other objects'."""
        if op.name != "store" or op.attributes.get("release"):
            return {}
        return {key: load for key, load in self.loads.items()
                if not may_alias(self.kernel, op.operands[0], load.operands[0], self.roots)}

    def key(self, op: Op, block: Block) -> Hashable:
        types = (*map(TYPE, op.results),)
        if op.name == "phi":
            return op.name, types, block, frozenset(zip(op.blocks, op.operands, strict=True))
        operands = sorted(op.operands, key=id) if op.info.commutative else op.operands
        attributes = attributes_key(op.attributes) if op.attributes else ()
        return op.name, types, op.guard, attributes, *operands
