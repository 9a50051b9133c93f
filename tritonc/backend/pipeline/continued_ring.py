"""A ring of tensor copies that goes on between the turns of the loop around it.

A persistent block computes one instance after the other.  When the last product of one has begun,
the first copies of the next can start: they run while the result leaves, and the next products find
their operands there.

Before:  outer:     ...                     After:  before outer: ring_init; if it has a turn: the
         preheader: ring_init, first copies                       first copies of its first turn
         loop:      from stage 0                    outer:     %s = phi, %p = phi: stage and phase
         exit:      ...                             preheader: -
                                                    loop:      from stage %s in phase %p
                                                    exit:      if there is another turn: its first
                                                               copies, to the stages that follow
                                                               ...

What the first copies need of the outer loop is copied with them (`loop_slice`), in a branch that
only turns that come take.  Copies may overtake the stores of the turn before: that is right between
instances, which have no order, and where no store of the outer loop reaches what is copied.

With a copier, where an instance's boxes begin is computed before it begins (`carry_starts`).

The ring keeps its shared memory throughout; what else in the outer loop needs a buffer has room
beside it (`needed_beside`).
"""

from __future__ import annotations

from tritonc.analysis.aliases import pointer_roots, stores_may_reach
from tritonc.backend.launch.persist import counts_instances
from tritonc.backend.layout.conversion import Shared, plan_conversion
from tritonc.backend.pipeline.carry_starts import carry_copies, carry_results, moving
from tritonc.backend.pipeline.loop_slice import (
    Slice,
    advance,
    copy_slice,
    find_slice,
    initial_values,
)
from tritonc.backend.pipeline.staged_loop import StagedLoop, source_load, widen
from tritonc.backend.pipeline.tensor_ring import TensorRewrite
from tritonc.backend.shared.shared_memory import accesses
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import I32, Buffer, Tile

# What other passes give a buffer.
EXCHANGE = 16 * 1024  # bytes of a tile that goes between warps at once
_EXCHANGES = ("reduce", "scan", "argreduce", "reduce_with", "scan_with", "gather", "histogram",
              "atomic_rmw", "atomic_cas", "dot")


def outer_loop(kernel: Kernel, staged: StagedLoop, part: Slice, starts: list[Value]
               ) -> Loop | None:
    """The loop whose turns the ring of `staged` can join; None if there is no such.

    `part`: what runs ahead in the inner loop; `starts`: what the first boxes are computed from.
    """
    if part.loads:
        return None
    outer, cfg = staged.loop.parent, Cfg(kernel)
    if outer is None or outer.preheader is None or outer.latch is None \
            or outer.header.terminator.name != "cond_br" or len(outer.exits) != 1 \
            or outer.exits[0][0] is not outer.header \
            or sum(loop.parent is not None and loop.parent.header is outer.header
                   for loop in cfg.loops) != 1 \
            or not cfg.dominates(staged.exit, outer.latch):
        return None
    always = {block for block in outer.blocks if cfg.dominates(block, outer.latch)}
    inside = {result for block in staged.loop.blocks for op in block.ops for result in op.results}
    values = [*starts, *initial_values(part).values(),
              *(v for op in part.ops for v in op.inputs() if v not in inside)]
    if find_slice(outer, [outer.header.terminator.operands[0]], ALL_OPS, always) is None \
            or find_slice(outer, values, ALL_OPS, always, comes=True) is None:
        return None
    sources = [load for store in staged.stores if (load := source_load(store)) is not None]
    if not counts_instances(outer) and stores_may_reach(kernel, outer.blocks, sources,
                                                        pointer_roots(kernel)):
        return None
    return outer


def needed_beside(kernel: Kernel, blocks: list[Block], staged: StagedLoop) -> int:
    """Bytes of shared memory that other operations of the blocks want: buffers that are not set
    apart yet, and one for the largest exchange, which may go in parts of EXCHANGE bytes.  What only
    an inner loop uses, others may use when it does not run."""
    readers, cfg = uses(kernel), Cfg(kernel)
    buffers: dict[Op, set[Loop | None]] = {}
    exchange: dict[Loop | None, int] = {None: 0}
    for block in blocks:
        loop = cfg.innermost.get(block)
        for op in block.ops if block not in staged.loop else ():
            exchange[loop] = max(exchange.get(loop, 0), min(_exchanged(op, readers), EXCHANGE))
            for access in accesses(op):
                if not access.allocation.attributes.get("pinned"):
                    buffers.setdefault(access.allocation, set()).add(loop)
    own = {loop: size + sum(_stage_bytes(op.result) for op, users in buffers.items()
                            if users == {loop}) for loop, size in exchange.items()}
    return max(own.values()) + sum(_stage_bytes(op.result) for op, users in buffers.items()
                                   if len(users) > 1)


def _exchanged(op: Op, readers: dict[Value, list[Op]]) -> int:
    """The bytes of what the operation sends between warps."""
    t = op.operands[0].type if op.operands else None
    if not isinstance(t, Tile) or not any(result in readers for result in op.results):
        return 0
    if op.name == "convert_layout":
        result = op.result.type
        assert isinstance(result, Tile)
        assert t.layout is not None and result.layout is not None
        shared = isinstance(plan_conversion(t.layout, result.layout, t.element.bits), Shared)
        return t.size * t.element.bytes if shared else 0
    return t.size * t.element.bytes if op.name in _EXCHANGES else 0


def _stage_bytes(buffer: Value) -> int:
    assert isinstance(buffer.type, Buffer)
    return buffer.type.stage_bytes


class ContinuedRewrite(TensorRewrite):
    """A pipeline with tensor copies, of a loop in `outer`."""

    outer: Loop
    borrows = False  # whether the result leaves through stages of the ring

    @property
    def home(self) -> Block:
        """Once, where the maps are made."""
        assert self.outer.preheader is not None
        return self.outer.preheader

    def start_ring(self, ops: list[Op]) -> None:
        super().start_ring(ops)
        for store in self.staged.stores:
            assert store.operands[0].op is not None
            store.operands[0].op.attributes["continues"] = True

    def first_copies(self) -> dict[Value, Value]:
        """Those of this turn have been started: only what runs ahead is computed."""
        state = initial_values(self.part)
        ops: list[Op] = []
        for _ in range(self.distance):
            ops += self.iteration(state)[0]
            state = self.next_values(state)
        self.staged.preheader.ops[-1:-1] = ops
        return state

    def leading_turn(self, ahead: int) -> Value:
        return super().leading_turn(ahead) if self.opening is None else self.number(ahead)

    def run(self) -> None:
        begins = counts_instances(self.outer)  # it has a first turn
        super().run()
        outer, cfg = self.outer, Cfg(self.kernel)
        assert outer.preheader is not None and outer.latch is not None
        always = {block for block in outer.blocks if cfg.dominates(block, outer.latch)}
        test = outer.header.terminator.operands[0]
        follows = self.ring[0].result  # the stage behind the last one that the loop has read
        phase = self.phase.result
        openings = [self.opening_copies(self.number(0), self.number(0))]
        self.here = 0
        openings.append(self.opening_copies(follows, phase))
        made = {result for ops in openings for op in ops for result in op.results}
        needed = [v for ops in openings for op in ops for v in op.inputs()
                  if v not in made and v not in (follows, phase)]
        condition = find_slice(outer, [test], ALL_OPS, always)
        whole = find_slice(outer, [test, *needed], ALL_OPS, always, comes=True)
        assert condition is not None and whole is not None
        self.turn_with(outer)
        steps, after = advance(whole, {phi.result: phi.result for phi in whole.phis})
        exit_ = self.staged.exit
        ended = [i + 1 for i, op in enumerate(exit_.ops) if "held" in op.attributes]
        places = [(outer.preheader, len(outer.preheader.ops) - 1, [], initial_values(whole)),
                  (exit_, ended[0] if ended else len(exit_.phis()), steps, after)]
        for ops, (block, at, before, values) in zip(openings, places, strict=True):
            known = dict(values)
            before += copy_slice(condition, known)
            comes = known.get(test, test)
            first = copy_slice(whole, values)
            for op in ops:
                op.replace_inputs(values)
            if block is outer.preheader and begins:
                self.begin_with(first, ops)
                continue
            opening = self.branch(block, at, before, comes)
            opening.ops[-1:-1] = [*first, *ops]
        if begins and self.separate:
            own, later = (values for *_, values in places)
            carry_copies(outer, self.staged.loop.blocks, exit_, opening,
                         [(v, own[v], later[v]) for v in moving(outer, always, needed)])
            self.begin_with(carry_results(outer, always, opening.successors[0], comes), [])
        if self.borrows:
            self.borrow(opening.terminator.blocks[0], follows)

    def begin_with(self, first: list[Op], copies: list[Op]) -> None:
        """Start the first turn's copies; what they need is computed while a copier waits."""
        ops = self.home.ops
        starts = [at for at, op in enumerate(ops) if op.name == "start_copier"]
        at = starts[0] if starts else len(ops) - 1
        ops[at:at] = first
        ops[-1:-1] = copies

    def borrow(self, block: Block, follows: Value) -> None:
        """Let the result leave through the stages that are free until the next products run.

        All parts are stored at once, and no memory is set apart for them.  The first thread waits
        until the engine has read them before it starts a copy to such a stage.
        """
        sends = [op for op in block.ops if op.name == "tensor_store"]
        writes = [op for op in block.ops if op.name == "shared_store"]
        ring = max((store.operands[0] for store in self.staged.stores), key=_stage_bytes)
        free = self.stages - self.distance
        if not sends or len(sends) != len(writes) or any(
                a.operands[0] is not b.operands[0] for a, b in zip(sends, writes, strict=True)):
            return
        size = _stage_bytes(sends[0].operands[0])
        each = _stage_bytes(ring) // size
        if len(sends) > free * each:
            return
        own = {op.operands[0].op for op in sends}
        made = Block("")
        b = Builder(made, span=sends[0].span)
        for number, (write, send) in enumerate(zip(writes, sends, strict=True)):
            turn, place = divmod(number, each)
            if not place:
                ahead = b.value("add", follows, self.number(self.distance + turn))
                past = b.value("icmp", ahead, self.number(self.stages), predicate="sge")
                wrapped = b.value("sub", ahead, self.number(self.stages))
                stage = widen(ring, self.stages, b.value("select", past, wrapped, ahead),
                              self.distance + turn)
                b.insert(stage)
            part = make_op("buffer_part", [stage.result], write.operands[0].type, table=ALL_OPS,
                           offset=place * size)
            b.insert(part)
            write.operands[0] = send.operands[0] = part.result
        fences = [block.ops[block.ops.index(op) + 1] for op in writes]
        assert all(op.name == "proxy_fence" for op in fences)
        moved = {*sends, *fences, *(op for op in block.ops if op.name == "store_wait")}
        last = block.ops.index(sends[-1])
        b.insert(make_op("store_wait", [], table=ALL_OPS, pending=0))  # the loop may not have run
        block.ops = [*block.ops[: len(block.phis())], *made.ops,
                     *(op for op in block.ops[len(block.phis()) : last] if op not in moved),
                     fences[-1], *sends, *block.ops[last + 1 :]]
        self.kernel.entry.ops = [op for op in self.kernel.entry.ops if op not in own]
        body = self.staged.body
        at = next(i for i, op in enumerate(body.ops) if op.name == "ring_expect")
        body.ops.insert(at, make_op("store_wait", [], table=ALL_OPS, pending=0))

    def opening_copies(self, stage: Value, phase: Value) -> list[Op]:
        """The first copies of a turn, from a stage on, which is read in that phase."""
        self.runs = None
        state = initial_values(self.part)
        ops: list[Op] = []
        for ahead in range(self.distance):
            self.opening = phase
            ops += self.copies(state, stage, ahead)
            state = self.next_values(state)
            following = self.turn(stage)
            ops += following
            stage = following[-1].result
            if self.apart:
                following = self.turn_phase(stage, phase)
                ops += following
                phase = following[-1].result
        self.opening = None
        return ops

    def turn_with(self, outer: Loop) -> None:
        """Stage and phase go on from turn to turn."""
        assert outer.preheader is not None and outer.latch is not None
        preheader = self.staged.preheader
        read, write = self.ring
        for phi in (read, self.phase):
            around = Op("phi", [self.number(0), phi.result], {}, (I32,),
                        blocks=[outer.preheader, outer.latch])
            around.result.name = f"{phi.result.name}_before"
            outer.header.ops.insert(0, around)
            phi.operands[phi.blocks.index(preheader)] = around.result
        b = Builder(preheader, at=len(preheader.ops) - 1)
        start = read.operands[read.blocks.index(preheader)]
        ahead = b.value("add", start, self.number(self.distance))
        past = b.value("icmp", ahead, self.number(self.stages), predicate="sge")
        wrapped = b.value("sub", ahead, self.number(self.stages))
        write.operands[write.blocks.index(preheader)] = b.value("select", past, wrapped, ahead)
        if self.apart:
            phase = self.phase.operands[self.phase.blocks.index(preheader)]
            other = b.value("xor", phase, self.number(1))
            self.next_phase.operands[self.next_phase.blocks.index(preheader)] = b.value(
                "select", past, other, phase)

    def branch(self, block: Block, at: int, ops: list[Op], condition: Value) -> Block:
        """Split a block before operation `at`, and give the new block that is run in between where
        the condition, which `ops` compute, holds."""
        opening, rest = Block(f"{block.name}.opening"), Block(f"{block.name}.rest")
        rest.ops = block.ops[at:]
        for successor in rest.successors:
            for phi in successor.phis():
                phi.blocks = [rest if b is block else b for b in phi.blocks]
        block.ops[at:] = [*ops, make_op("cond_br", [condition], blocks=[opening, rest])]
        opening.ops = [make_op("br", [], blocks=[rest])]
        place = self.kernel.blocks.index(block)
        self.kernel.blocks[place + 1 : place + 1] = [opening, rest]
        return opening
