"""keep_rows: what a loop loads or stores, and one behind it loads again, stays in shared memory.

Before:  loop: %v = load %p                   After:  loop: %v = load %p
               ... %v                                       shared_store (stage %i of %kept), %v,
                                                                if %i < stages
                                                            ... %v
         loop.1: %w = load %q                         loop.1: %s = shared_load (stage %j of %kept)
               ... %w                                       %l = load %q, if %j >= stages
                                                            %w = select (%j < stages), %s, %l

A program that makes several passes over a row waits for the caches in each, and where rows are
long, or many programs resident, for memory.  Each thread finds what it loaded itself, so nothing
needs a barrier.  The first iterations are kept, as many as the shared memory has room for that the
resident blocks leave; the others load as before.

Legal where both loops have as many iterations, and in each of them the second one loads what the
first one did: the same affine addresses and bounds, in terms of iterations, in the same layout; and
where no other operation between both, nor in the loops, may write there.  Worth it where rows
differ from program to program: what all programs read is in a cache anyway.  Kernels with products
have no shared memory left.

Needs layouts; before load_ahead, which may move the first loop's load and leave its store.
"""

from __future__ import annotations

from tritonc.analysis.affine import Affine, Affinity, Iteration
from tritonc.analysis.affine import Counter as Symbol
from tritonc.analysis.aliases import Roots, pointer_roots, stores_may_reach
from tritonc.analysis.counters import add_counter, counter_of
from tritonc.analysis.linear import Linear
from tritonc.analysis.moving import meets_itself
from tritonc.analysis.registers.pressure import Estimate
from tritonc.analysis.values import slice_of
from tritonc.backend.launch.register_budget import (
    of_fast_body,
    registers_of,
    resident_blocks,
)
from tritonc.backend.layout.access import VECTOR_BITS
from tritonc.backend.memory.versions.general import rare
from tritonc.backend.pipeline.staged_loop import DOTS, Guards
from tritonc.backend.shared.shared_memory import LEFT
from tritonc.backend.target.target import Target
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop, reached
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.layout import LANE_BITS, SharedLayout, log2
from tritonc.ir.types import I1, I32, Buffer, Tile, is_pointer, scalar, with_element
from tritonc.records import NamedTuple

FEWEST = 2  # iterations that are worth it
FAR = 2  # times as much memory as needs no permission from the host is worth asking for it
THREADS = 1024  # that shall be resident, at least, if they have registers,
SAVED = 1.2  # of which later passes may save some


class _Row(NamedTuple):
    """A load or store in a loop: `where` in terms of the loop's iterations, and which elements take
    part."""

    loop: Loop
    op: Op
    where: Affine
    bounds: tuple[tuple[int, Linear, Linear], ...]
    conditions: frozenset[Value]
    runs: tuple[Linear, int, str, Linear]  # how often the loop does: first, step, test, limit

    @property
    def value(self) -> Value:
        """What is loaded or stored."""
        return self.op.result if self.op.name == "load" else self.op.operands[1]

    @property
    def tile(self) -> Tile:
        """Its type."""
        assert isinstance(self.value.type, Tile)
        return self.value.type

    def repeats(self, other: _Row) -> bool:
        """Whether it loads what the other one has, iteration by iteration."""
        if self.op.name == "store" or (
                self.value.type, self.conditions, self.runs[1:3], self.where.base) != (
                other.value.type, other.conditions, other.runs[1:3], other.where.base):
            return False
        mine, others = ([row.where.offset, *row.where.strides, row.runs[0], row.runs[3],
                         *(side for _, *sides in row.bounds for side in sides)]
                        for row in (self, other))
        return [axis for axis, *_ in self.bounds] == [axis for axis, *_ in other.bounds] and all(
            (a - b).constant == 0 for a, b in zip(mine, others, strict=True))


def keep_rows(kernel: Kernel, context: Context) -> bool:
    """Keep what loops load again in shared memory, as far as there is room."""
    target: Target = context.target
    cfg = Cfg(kernel)
    if len(cfg.loops) < 2 or any(op.name in (*DOTS, "dot") for op in kernel.ops()):
        return False
    chains = _chains(_groups(kernel, cfg))
    if not chains:
        return False
    general = set(rare(cfg, cfg.order))
    each = [0, 0]  # bytes that an iteration keeps, of fast bodies and of general ones
    for (first, *_), *_ in chains:
        each[first.loop.header in general] += first.tile.size * scalar(first.tile).bytes
    room = min(target.shared_per_multiprocessor // _blocks(kernel, context)
               - target.shared_reserved, target.shared_per_block)
    if room < FAR * target.static_shared:
        room = min(room, target.static_shared)
    room -= LEFT
    stages = room // max(each)
    if stages < FEWEST:
        return False
    counts: dict[Loop, Value] = {}
    for chain in chains:
        buffer = _buffer(chain[0][0], stages)
        for rows in chain:
            _keep(kernel, cfg, rows, buffer, counts)
            context.remark("keep_rows", f"loaded again in {len(rows) - 1} loop"
                           f"{'s' * (len(rows) > 2)}: {stages} iterations stay in shared memory",
                           rows[0].op.span)
    return True


def _blocks(kernel: Kernel, context: Context) -> int:
    """How many blocks shall be resident, by what registers later passes may leave."""
    if context.meta.get("min_blocks"):
        return int(context.meta["min_blocks"])
    threads, estimate = kernel.attributes["num_warps"] << LANE_BITS, Estimate(kernel)
    needed = of_fast_body(estimate).registers
    fitting = [blocks for blocks in range(1, THREADS // threads + 1)
               if needed <= SAVED * registers_of(blocks * threads, context.target)]
    return max(resident_blocks(kernel, context.target, estimate), *fitting, 1)


def _chains(groups: list[list[_Row]]) -> list[list[list[_Row]]]:
    """Rows that take the place of others, which nobody reads any more, in one buffer."""
    chains: list[list[list[_Row]]] = []
    for rows in groups:
        loop, op = rows[0].loop, rows[0].op
        assert loop.latch is not None
        chain = next((chain for chain in chains if (last := chain[-1][-1]).loop is loop
                      and last.tile == rows[0].tile
                      and loop.latch.ops.index(last.op) < loop.latch.ops.index(op)), None)
        if chain is None:
            chains.append([rows])
        else:
            chain.append(rows)
    return chains


def _groups(kernel: Kernel, cfg: Cfg) -> list[list[_Row]]:
    """Rows that loops load again, each with the access that comes first in front."""
    roots = pointer_roots(kernel)
    groups: list[list[_Row]] = []
    counter = Symbol(I32, "iteration")
    for loop in sorted(cfg.loops, key=lambda loop: cfg.index[loop.header]):
        for row in _rows(loop, counter):
            group = next((rows for rows in groups if row.repeats(rows[0])
                          and _follows(kernel, cfg, rows[0], row, roots)), None)
            if group is None:
                groups.append([row])
            elif loop is not group[-1].loop:
                group.append(row)
    return [rows for rows in groups if len(rows) > 1]


def _rows(loop: Loop, symbol: Value) -> list[_Row]:
    """What each iteration of a loop of a header and one more block loads and stores of rows."""
    counter = counter_of(loop)
    if counter is None or len(loop.blocks) != 2 or not loop.one_exit or loop.latch is None:
        return []
    affinity = Affinity(Iteration(loop, symbol))
    first, limit = affinity.of(loop.first(counter.phi)), affinity.of(counter.limit)
    found: list[_Row] = []
    for op in loop.latch.ops:
        if op.name not in ("load", "store") or op.attributes.get("volatile"):
            continue
        t = op.result.type if op.name == "load" else op.operands[1].type
        if not isinstance(t, Tile) or t.layout is None or is_pointer(t) or not all(
                (*t.layout.thread, *t.layout.register)) or not any(
                    each.name == "get_program_id" for each in slice_of(op.operands[:1])):
            continue  # several threads have an element, or all programs the row
        where = affinity.of(op.operands[0])
        bounds, conditions, others = affinity.parts(op.guard, len(t.shape))
        if where is None or others or first is None or limit is None:
            continue
        sides = dict.fromkeys((b.axis, b.start, b.limit) for b in bounds)  # a mask may repeat one
        found.append(_Row(loop, op, where, tuple(sides), frozenset(conditions),
                          (first.offset, counter.step, counter.predicate, limit.offset)))
    return found


def _follows(kernel: Kernel, cfg: Cfg, first: _Row, row: _Row, roots: Roots) -> bool:
    """Whether one loop runs after the other, and nothing else writes there meanwhile."""
    one, two = first.loop, row.loop
    if one is two or not cfg.dominates(one.header, two.header) or one.header in two \
            or two.header in one or (
                first.op.name == "store" and not first.op.attributes.get("moves")
                and meets_itself(kernel, cfg, one, first.op)):
        return False
    stop = {one.header}
    behind = reached(one.header.successors, stop=stop)
    between = reached([two.header], lambda block: [
        each for each in cfg.predecessors[block] if each in behind], stop)
    # A row that is stored where it was loaded: no later iteration loads there.
    assert two.latch is not None
    own = {op for op in two.latch.ops[two.latch.ops.index(row.op):] if op.name == "store"
           and op.operands[0] is row.op.operands[0] and not meets_itself(kernel, cfg, two, op)}
    return not stores_may_reach(kernel, {**between, **dict.fromkeys(one.blocks)}, [row.op], roots,
                                {first.op, *own})


def _buffer(first: _Row, stages: int) -> Op:
    """Memory for tiles, in which what a thread has lies side by side."""
    t, before = first.tile, first.loop.preheader
    assert t.layout is not None and before is not None
    held = log2(min(t.layout.registers, VECTOR_BITS // scalar(t).bits))
    layout = SharedLayout(t.shape, (*t.layout.register[:held], *t.layout.thread,
                                    *t.layout.register[held:]))
    buffer = make_op("alloc_shared", [], Buffer(scalar(t), t.shape, stages, layout),
                     span=first.op.span, private=True)
    buffer.result.name = "kept"
    before.ops.insert(-1, buffer)
    return buffer


def _keep(kernel: Kernel, cfg: Cfg, rows: list[_Row], buffer: Op, counts: dict[Loop, Value]
          ) -> None:
    """Store what the first access has, and let the others choose."""
    kept_type = buffer.result.type
    assert isinstance(kept_type, Buffer)
    for row in rows:
        body = row.loop.latch
        assert body is not None and row.loop.preheader is not None
        if row.loop not in counts:
            zero = make_op("constant", [], I32, value=0)
            row.loop.preheader.ops.insert(-1, zero)
            counts[row.loop] = add_counter(cfg, row.loop, zero.result, 1, "kept")
        b = Builder(body, body.ops.index(row.op), row.op.span)
        if row is rows[0]:
            b.at = body.ops.index(row.op) + 1
        most = b.constant(kept_type.stages, I32)
        near = b.value("icmp", counts[row.loop], most, predicate="ult")
        stage = b.value("select", near, counts[row.loop], b.constant(0, I32))
        place = b.value("buffer_stage", buffer.result, stage)
        if row is rows[0]:
            b.emit("shared_store", place, row.value, near)
            continue
        kept = b.value("shared_load", place, type=row.tile)
        far = b.value("xor", near, b.constant(True, I1))
        more, guard = Guards(far).under(row.op.guard, row.op.operands[0].type)
        for op in more:
            b.insert(op)
        before, other = row.op.guard, row.op.attributes.get("other")
        row.op.guard = guard
        ours = b.value("splat", near, type=with_element(row.tile, I1))
        if before is not None and other != rows[0].op.attributes.get("other"):
            ours = b.value("and", before, ours)
        b.at = body.ops.index(row.op) + 1
        new = b.emit("select", ours, kept, row.value)
        kernel.replace({row.value: new.result})
        new.operands[2] = row.value
