"""keep_rows: what a loop loads of a row, a later loop over the row finds in shared memory.

    for (n = 0; n < N; n += T) sum += x[n + r]             a first pass, then a second one
    for (n = 0; n < N; n += T) y[n + r] = x[n + r] / sum

Before:  body:   %v = load %p            After:  body:   %v = load %p
         ...                                             shared_store %b[min(%k, S)], %v
         body.2: %w = load %q                    ...
                                                 body.2: %s = shared_load %b[min(%m, S)]
                                                         %g = load %q where %m >= S
                                                         %w = select %m < S, %s, %g

A thread finds there what it stored itself, so no barrier is needed.  The buffer has S stages for
the first S iterations, which %k and %m count, and one more for what the others store.  It is so
small that as many threads are resident as with few registers: rows of 4096 floats are there as a
whole; of longer ones the rest comes from memory again, mostly from the L2 cache, which then has
more room for it.

Needs layouts, two loops of the same iterations, loads of one form in both, and no store between
that may change what is loaded.
"""

from __future__ import annotations

from tritonc.analysis.affine import Affine, Affinity, Iteration, Mask
from tritonc.analysis.aliases import Roots, pointer_roots, stores_may_reach
from tritonc.analysis.linear import equal
from tritonc.analysis.signs import known_signs
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.backend.target.target import Target
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layout import LANE_BITS, Layout
from tritonc.ir.shared_layout import BANK_BYTES, row_major
from tritonc.ir.types import I1, I32, Buffer, Tile, make, scalar, shape

# Of the shared memory that each thread has where as many are resident as can be: rows have fewer.
SHARE = 1.5
MOST_BYTES = 32 * 1024
Pair = tuple[Op, Op]  # a load, and one that finds there what the first one brought


def keep_rows(kernel: Kernel, context: Context) -> bool:
    """Keep the tiles that later loops load again, as far as there is room for them."""
    if any(op.name == "dot" for op in kernel.ops()):
        return False
    found, cfg = _Finder(kernel), Cfg(kernel)
    pairs = found.pairs()
    kept = list(dict.fromkeys(first for first, _ in pairs))
    if not kept:
        return False
    target: Target = context.target
    threads = kernel.attributes["num_warps"] << LANE_BITS
    room = min(MOST_BYTES, int(SHARE * threads * target.shared_per_multiprocessor
                               / target.threads_per_multiprocessor))
    together = max(sum(_bytes(other) for other in kept if _one_run(cfg, op, other)) for op in kept)
    stages = room // together - 1
    if stages < 1:
        return False
    counters: dict[Loop, Value] = {}
    for first in kept:
        _keep(kernel, cfg, first, [again for one, again in pairs if one is first], stages, counters)
    context.remark("keep_rows", f"the first {stages} tiles that this loads are kept in shared "
                   "memory for a later loop", kept[0].span)
    return True


def _bytes(load: Op) -> int:
    t = load.result.type
    assert isinstance(t, Tile)
    return t.size * max(1, scalar(t).bytes)


def _one_run(cfg: Cfg, a: Op, b: Op) -> bool:
    """Whether both run in one run of the kernel, which has several bodies, perhaps."""
    one, other = cfg.block_of[a], cfg.block_of[b]
    return any(cfg.dominates(cfg.innermost[x].header, y) for x, y in ((one, other), (other, one)))


class _Finder:
    """The pairs of loads of which the second one may find what the first one brought."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.cfg = kernel, Cfg(kernel)
        self.roots: Roots = {}
        self.affinities: dict[Loop, Affinity] = {}

    def pairs(self) -> list[Pair]:
        loops = [loop for loop in self.cfg.loops if loop.depth == 1 and _plain(loop)]
        if len(loops) < 2:
            return []
        self.roots = pointer_roots(self.kernel)
        found: list[Pair] = []
        for i, later in enumerate(loops):
            before = [loop for loop in loops[:i] if later.header not in loop
                      and self.cfg.dominates(loop.header, later.header)]
            for again in _loads(later):
                first = next((op for loop in before for op in _loads(loop)
                              if self.same(loop, op, later, again)), None)
                if first is not None:
                    found.append((first, again))
        return found

    def same(self, loop: Loop, op: Op, later: Loop, again: Op) -> bool:
        """Whether both loads bring the same in the same iteration of their loops."""
        if op.result.type != again.result.type:
            return False
        a, b = self.affinity(loop), self.affinity(later)
        if not _alike(a.of(op.operands[0]), b.of(again.operands[0])) or not all(
                _alike(a.of(x), b.of(y)) for x, y in zip(
                    _test(loop).operands, _test(later).operands, strict=True)) \
                or _test(loop).attributes != _test(later).attributes:
            return False
        rank = len(shape(op.result.type))
        return _equal_masks(a.mask(op.guard, rank), b.mask(again.guard, rank)) \
            and not stores_may_reach(self.kernel, self.between(loop, later), [again], self.roots)

    def affinity(self, loop: Loop) -> Affinity:
        """All loops have one counter: their iterations are compared by number."""
        if loop not in self.affinities:
            assert loop.preheader is not None
            counter = next((a.iteration for a in self.affinities.values()), None)
            iteration = Iteration(loop, counter.counter) if counter else Iteration(loop)
            self.affinities[loop] = Affinity(
                iteration, known_signs(self.kernel, self.cfg, loop.preheader))
        return self.affinities[loop]

    def between(self, loop: Loop, later: Loop) -> list[Block]:
        """The blocks that may run from the first load to the second one."""
        return [block for block in self.cfg.order
                if block in loop or block in later or (
                    self.cfg.dominates(loop.header, block)
                    and self.cfg.index[block] < self.cfg.index[later.header])]


def _plain(loop: Loop) -> bool:
    """Whether a loop is one block behind its header, which tests a comparison."""
    test = loop.header.terminator
    return len(loop.blocks) == 2 and loop.preheader is not None and loop.latch is not None \
        and test.name == "cond_br" and test.blocks[0] is loop.latch \
        and [block for block, _ in loop.exits] == [loop.header] \
        and test.operands[0].op is not None and test.operands[0].op.name == "icmp"


def _test(loop: Loop) -> Op:
    op = loop.header.terminator.operands[0].op
    assert op is not None
    return op


def _loads(loop: Loop) -> list[Op]:
    """Loads of tiles of which each element is in one thread, which has words of them."""
    found = []
    for op in (op for block in loop.blocks for op in block.ops if op.name == "load"):
        t = op.result.type
        if isinstance(t, Tile) and t.layout is not None and not op.attributes.get("volatile") \
                and all(t.layout.thread) and scalar(t).bytes * _run(t.layout) >= BANK_BYTES:
            found.append(op)
    return found


def _run(layout: Layout) -> int:
    """Neighbours along the last axis in registers of one thread."""
    count = 1
    while count in layout.register:
        count *= 2
    return count


def _alike(a: Affine | None, b: Affine | None) -> bool:
    return a is not None and b is not None and a.base is b.base and equal(a.offset, b.offset) \
        and all(map(equal, a.strides, b.strides))


def _equal_masks(a: Mask | None, b: Mask | None) -> bool:
    if a is None or b is None or set(a.conditions) != set(b.conditions) \
            or len(a.bounds) != len(b.bounds):
        return False
    return all(x.axis == y.axis and equal(x.start, y.start) and equal(x.limit, y.limit)
               for x, y in zip(a.bounds, b.bounds, strict=True))


def _keep(kernel: Kernel, cfg: Cfg, first: Op, later: list[Op], stages: int,
          counters: dict[Loop, Value]) -> None:
    """Store what a load brings, and take it from there where it is loaded again."""
    t = first.result.type
    assert isinstance(t, Tile)
    at = Builder(kernel.entry, 0, first.span)
    buffer = at.emit("alloc_shared", type=Buffer(scalar(t), t.shape, stages + 1,
                                                 row_major(t.shape)), table=ALL_OPS, private=True).result
    buffer.name = "row"
    block = cfg.block_of[first]
    at = Builder(block, block.ops.index(first) + 1, first.span)
    stage, _ = _stage(at, buffer, _counter(cfg, first, counters), stages)
    at.emit("shared_store", stage, first.result, table=ALL_OPS)
    for op in later:
        _find(kernel, cfg.block_of[op], op, first, buffer, _counter(cfg, op, counters), stages)


def _find(kernel: Kernel, block: Block, op: Op, first: Op, buffer: Value, count: Value,
          stages: int) -> None:
    """Load only what is not kept."""
    t = op.result.type
    assert isinstance(t, Tile)
    bits = make(I1, t.shape, t.layout)
    at = Builder(block, block.ops.index(op), op.span)
    stage, limit = _stage(at, buffer, count, stages)
    found = at.emit("shared_load", stage, type=t, table=ALL_OPS).result
    other = op.attributes.get("other")
    if op.guard is not None and other is not None and other != first.attributes.get("other"):
        found = at.value("select", op.guard, found, at.constant(other, t))
    missing = at.value("splat", at.value("icmp", count, limit, predicate="sge"), type=bits)
    op.guard = missing if op.guard is None else at.value("and", op.guard, missing)
    whole = make_op("select", [missing, op.result, found], span=op.span)
    kernel.replace({op.result: whole.result})
    whole.operands[1] = op.result
    block.ops.insert(block.ops.index(op) + 1, whole)


def _stage(at: Builder, buffer: Value, count: Value, stages: int) -> tuple[Value, Value]:
    """The stage of an iteration, and the number of the last one, which many share."""
    limit = at.constant(stages, I32)
    least = at.value("smin", count, limit)
    return at.emit("buffer_stage", buffer, least, table=ALL_OPS).result, limit


def _counter(cfg: Cfg, op: Op, counters: dict[Loop, Value]) -> Value:
    """The number of the iteration in which an operation stands."""
    loop = cfg.innermost[cfg.block_of[op]]
    if loop not in counters:
        assert loop.preheader is not None and loop.latch is not None
        start = Builder(loop.preheader, len(loop.preheader.ops) - 1, op.span).constant(0, I32)
        phi = Op("phi", [start, start], {}, (I32,), None, op.span, [loop.preheader, loop.latch])
        loop.header.ops.insert(0, phi)
        end = Builder(loop.latch, len(loop.latch.ops) - 1, op.span)
        phi.operands[1] = end.value("add", phi.result, end.constant(1, I32))
        counters[loop] = phi.result
    return counters[loop]
