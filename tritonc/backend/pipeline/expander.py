"""The rewriting of a staged loop into a software pipeline over a multi-stage buffer.

`Expander` serves channels that threads fill themselves (`channel`).  What differs with TMA is in
methods that `tma_expander` overrides: `copies`, `wait`, `end`, and the phis of barriers' phases.

Copies ahead may belong to iterations that are not executed.  An iteration is executed if the one
before it was, and the loop's condition holds in it.  The condition alone is enough where it stays
false once it is false: a counter's does, `k != 0` or `*p` do not.  There a phi, `runs`, carries the
conjunction from iteration to iteration; it guards the copies and every load of the slice."""

from collections.abc import Sequence

from tritonc.analysis.values import needed, slice_of
from tritonc.backend.dots.together import steps
from tritonc.backend.pipeline.channel import Channel, Means
from tritonc.backend.pipeline.loop_slice import Slice, initial_values, stays_false
from tritonc.backend.pipeline.staged_loop import (
    Guards,
    StagedLoop,
    accumulators,
    computed_stays,
    guard_loads,
    widen,
    words,
)
from tritonc.backend.shared.shared_memory import allocation, allocations
from tritonc.backend.target.register_limits import COMPUTED_LEFT
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, add_incoming, incoming, make_phi
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import I32, Tile, scalar


def _fits_twice(start: Op, body: Block) -> bool:
    """Whether a thread has registers for a product's result, and for two left operands, of words:
    one in flight, the other in the making, in the place of what the body reads from shared memory.
    """
    left = start.operands[0]
    made = max(words(left), sum(words(op.result) for op in body.ops if op.name == "shared_load"))
    return scalar(left.type).bits in (8, 16, 32) and (
        words(start.result) + words(left) + made <= COMPUTED_LEFT)


class Expander:
    """The transformation.  `part`: what runs ahead, with the values that go through registers."""

    def __init__(self, kernel: Kernel, staged: StagedLoop, part: Slice, channels: Sequence[Channel],
                 stages: int, distance: int) -> None:
        self.kernel = kernel
        self.staged = staged
        self.part = part
        self.channels = channels
        self.span = next((one.load.span for one in channels if one.load is not None), None)
        self.stages = stages
        self.distance = distance
        self.numbers: dict[int, Value] = {}
        self.leading: list[Op] = []  # the phis that run ahead
        self.stage_phis: list[Op] = []  # the phis of the stages to read and to write
        self.lasting = stays_false(staged.condition, part)
        self.runs: Value | None = None  # whether the last iteration that was copied comes
        self.alone = False  # whether no other block computes meanwhile
        self.held: list[Value] = []  # by it, to registers
        self.late: list[Op] = []  # of that iteration: between loads to registers and their stores
        self.moving: list[Value] = []  # what places of boxes are computed from in each iteration

    def run(self) -> None:
        ahead = self.prologue()
        lead = self.phis(ahead)
        self.body(lead)
        self.use_stage()
        self.end()
        if self.staged.asynchronous and self.distance <= self.stages - 2:
            self.keep_in_flight()

    def end(self) -> None:
        """Nothing is in flight after the loop."""
        if self.copies_pieces:
            leave = self.staged.exit
            leave.ops.insert(len(leave.phis()), make_op("async_wait", [], pending=0))

    @property
    def by_threads(self) -> bool:
        return any(one.means != Means.BOXES for one in self.channels)

    @property
    def fills_operands(self) -> bool:
        """Whether threads bring what wgmma reads, not only what threads make operands of."""
        read = {root for op in self.staged.loop.ops() if op.name == "wgmma"
                for root in allocations(op)}
        return any(one.means != Means.BOXES and allocation(one.store.operands[0])[0] in read
                   for one in self.channels)

    @property
    def copies_pieces(self) -> bool:
        return any(one.copied for one in self.channels)

    def number(self, value: int) -> Value:
        if value not in self.numbers:
            op = make_op("constant", [], I32, value=value)
            self.kernel.entry.ops.insert(0, op)
            self.numbers[value] = op.result
        return self.numbers[value]

    def prologue(self) -> dict[Value, Value]:
        """The first copies, before the loop.  Returns each phi's value `distance` iterations on."""
        state = initial_values(self.part)
        ops: list[Op] = []
        for iteration in range(self.distance):
            ops += self.copies(state, self.number(iteration), iteration)
            if iteration < self.distance - 1 or not self.stores_later():
                ops += self.stores(state, self.number(iteration), iteration)
            else:
                self.held = self.loaded(state)
            state = self.next_values(state)
        self.staged.preheader.ops[-1:-1] = ops
        return state

    def iteration(self, mapping: dict[Value, Value]) -> tuple[list[Op], Value]:
        """The slice for the phis' values in `mapping`, and whether this iteration comes."""
        ops = copy_ops(self.part.ops, mapping)
        test = mapping.get(self.staged.condition, self.staged.condition)
        conjunction: list[Op] = []
        runs = test
        if not self.lasting and self.runs is not None:
            conjunction = [make_op("and", [self.runs, test])]
            runs = conjunction[0].result
        # The header runs once more than the iterations: what the condition needs may be loaded
        # if the iteration before this one comes.
        ops = guard_loads(ops, test, self.runs, conjunction, runs)
        self.runs = runs
        return ops, runs

    def next_values(self, mapping: dict[Value, Value]) -> dict[Value, Value]:
        """The phis' values one iteration after that in `mapping`, which has the slice's copies."""
        after = [incoming(phi, self.staged.latch) for phi in self.part.phis]
        return {phi.result: mapping.get(value, value)
                for phi, value in zip(self.part.phis, after, strict=True)}

    def copies(self, mapping: dict[Value, Value], stage: Value, ahead: int) -> list[Op]:
        """One iteration's copies, from the phis' values in `mapping`, to a stage.  Those that wait
        for a load come last: the others are on their way meanwhile."""
        ops, runs = self.iteration(mapping)
        ops, self.late = self.split(ops, mapping)
        guards = Guards(runs)
        for one in sorted(self.channels, key=self.waits):
            load = one.load
            if load is None or not one.copied:
                continue
            pointer = mapping.get(load.operands[0], load.operands[0])
            guard = load.guard and mapping.get(load.guard, load.guard)
            some = [runs] if self.staged.asynchronous and one.transposed is None else []
            new, under = ([], guard) if some else guards.under(guard, pointer.type)
            ops += new
            buffer = one.transposed
            if buffer is None:
                buffer = widen(one.store.operands[0], self.stages, stage, ahead)
                ops.append(buffer)
            ops.append(make_op("async_copy", [buffer.result, pointer, *some], guard=under,
                               span=load.span))
        return [*ops, make_op("async_commit", [])] if self.copies_pieces else ops

    def waits(self, one: Channel) -> bool:
        """Whether a copy's addresses follow from what the same iteration loads."""
        return one.load is not None and any(
            op.name == "load" for op in needed(self.part.ops, one.load.inputs()))

    def split(self, ops: list[Op], mapping: dict[Value, Value]) -> tuple[list[Op], list[Op]]:
        """The operations of an iteration up to its loads to registers, and what follows from these
        for the values to store alone."""
        loads = {op for op in ops if op.name == "load"}
        stack = [v for op in loads for v in op.inputs()]
        stack += [mapping.get(v, v) for one in self.channels if one.load is not None and one.copied
                  for v in one.load.inputs()]
        stack += [mapping.get(v, v) for v in self.moving]
        stack += [*self.next_values(mapping).values(), *([self.runs] if self.runs else [])]
        needed = loads | slice_of(stack, set(ops))
        return [op for op in ops if op in needed], [op for op in ops if op not in needed]

    def stores_later(self) -> bool:
        """Whether what an iteration loads to registers is stored by the next one, which waits no
        more for it: copies are two iterations ahead at least, and stores take what was loaded.
        Where other blocks compute meanwhile, registers count more."""
        return self.alone and self.distance > 1 and not self.late and any(
            one.stored for one in self.channels) and all(
                one.transposed is None for one in self.channels)

    def loaded(self, mapping: dict[Value, Value]) -> list[Value]:
        """What an iteration's copies loaded to registers."""
        values = [one.store.operands[1] for one in self.channels if one.stored]
        return [mapping.get(value, value) for value in values]

    def stores(self, mapping: dict[Value, Value], stage: Value, ahead: int) -> list[Op]:
        """Stores of what the iteration's copies loaded to registers or to buffers of their own."""
        ops = list(self.late)
        if any(one.transposed for one in self.channels):
            ops.append(make_op("async_wait", [], pending=0))
        for one in self.channels:
            if not one.stored:
                continue
            store = one.store
            buffer, value = store.operands
            found = mapping.get(value, value)
            if one.transposed is not None:
                ops.append(make_op("shared_load", [one.transposed.result], value.type,
                                   span=store.span))
                found = ops[-1].result
            view = widen(buffer, self.stages, stage, ahead)
            ops += [view, make_op("shared_store", [view.result, found], span=store.span,
                                  **store.attributes)]
        return ops

    def phis(self, ahead: dict[Value, Value]) -> dict[Value, Value]:
        """Phis that lead by `distance`, and those of the stages to read and to write."""
        header = self.staged.loop.header
        lead: dict[Value, Value] = {}
        new: list[Op] = []
        for phi in self.part.phis:
            op = make_phi([ahead[phi.result]], [self.staged.preheader],
                          f"{phi.result.name}_ahead" if phi.result.name else "ahead")
            lead[phi.result] = op.result
            new.append(op)
        read = make_phi([self.number(0)], [self.staged.preheader], "stage")
        write = make_phi([self.number(self.distance % self.stages)], [self.staged.preheader],
                         "next_stage")
        header.ops[:0] = [*new, read, write]
        self.leading, self.stage_phis = new, [read, write]
        if not self.lasting:
            assert self.runs is not None
            self.comes = make_phi([self.runs], [self.staged.preheader], "comes")
            header.ops.insert(0, self.comes)
            self.runs = self.comes.result
        return lead

    def wait(self) -> list[Op]:
        """What makes this iteration's operands be there."""
        ops: list[Op] = []
        if self.copies_pieces:
            ops.append(make_op("async_wait", [], pending=self.distance - 1))
        if self.fills_operands:
            ops.append(make_op("proxy_fence", []))
        return ops

    def body(self, lead: dict[Value, Value]) -> None:
        """Wait for this iteration's operands, start the copies of a later one."""
        staged = self.staged
        _, write = self.stage_phis
        copies = self.copies(lead, write.result, self.distance)
        after = self.next_values(lead)
        at, first = self.copies_place(), len(staged.body.phis())
        staged.body.ops[at:at] = copies
        if self.stores_later():
            staged.body.ops[first:first] = [*self.wait(), *self.stores_of_last(lead)]
        else:
            staged.body.ops[first:first] = self.wait()
            staged.latch.ops[-1:-1] = self.stores(lead, write.result, self.distance)
        if not self.lasting:
            assert self.runs is not None
            add_incoming(self.comes, self.runs, staged.latch)
        for phi, op in zip(self.part.phis, self.leading, strict=True):
            add_incoming(op, after[phi.result], staged.latch)
        for phi in self.stage_phis:
            behind = self.next_stage(phi.result)
            staged.latch.ops[-1:-1] = behind
            add_incoming(phi, behind[-1].result, staged.latch)

    def stores_of_last(self, lead: dict[Value, Value]) -> list[Op]:
        """Stores of what the iteration before loaded, and phis of it and of its stage."""
        _, write = self.stage_phis
        before, latch = self.staged.preheader, self.staged.latch
        following = [*self.loaded(lead), write.result]
        phis = [make_phi([first], [before], "loaded") for first in self.held]
        phis.append(make_phi([self.number(self.distance - 1)], [before], "loaded_stage"))
        for phi, value in zip(phis, following, strict=True):
            add_incoming(phi, value, latch)
        self.staged.loop.header.ops[:0] = phis
        values = [one.store.operands[1] for one in self.channels if one.stored]
        held = {value: phi.result for value, phi in zip(values, phis, strict=False)}
        return self.stores(held, phis[-1].result, self.distance - 1)

    def copies_place(self) -> int:
        """Where in the body later copies start."""
        return len(self.staged.body.phis())

    def next_stage(self, stage: Value, stages: int = 0) -> list[Op]:
        """The stage after this one, around the buffer."""
        stages = stages or self.stages
        if stages == 2:
            return [make_op("sub", [self.number(1), stage])]
        step = make_op("add", [stage, self.number(1)])
        last = make_op("icmp", [step.result, self.number(stages)], predicate="eq")
        wrap = make_op("select", [last.result, self.number(0), step.result])
        return [step, last, wrap]

    def stage_of(self, buffer: Value) -> Value:
        """The stage of a buffer that this iteration reads."""
        return self.stage_phis[0].result

    def stages_of(self, buffer: Value) -> int:
        return self.stages

    def use_stage(self) -> None:
        """The loop's readers take this iteration's stage; its loads and stores go."""
        dropped = self.staged.replaced
        buffers = {store.operands[0] for store in self.staged.stores}
        for block in self.staged.loop.blocks:
            kept: list[Op] = []
            for op in block.ops:
                if op in dropped:
                    continue
                if op.name != "buffer_stage":
                    for i, operand in enumerate(op.operands):
                        if operand in buffers:
                            view = widen(operand, self.stages_of(operand),
                                         self.stage_of(operand), 0)
                            kept.append(view)
                            op.operands[i] = view.result
                kept.append(op)
            block.ops = kept

    def keep_in_flight(self) -> bool:
        """Products that only accumulate may still run when the next iteration starts; what one
        reads from registers then stays there (see `alternate_registers`).  Several, such as a gate
        and what it is for, end together then.  H200, a product of low rank beside 300 x 2560 x 2560
        by 64 x 128: 21.3 us where each waits for the one before, 16.8."""
        header, loop, leave = self.staged.loop.header, self.staged.loop, self.staged.exit
        body, readers = self.staged.body, uses(self.kernel)
        between = [op for op in body.ops if op.name == "wgmma_wait" and all(
            one.name == "wgmma" and one.operands[2] is v and readers[v] == [one]
            for v in op.results for one in readers[v] or [op])]  # products of one sum
        waits = [op for op in loop.ops() if op.name == "wgmma_wait" and op not in between]
        if not waits or Cfg(self.kernel).predecessors[leave] != [header] or any(
                wait not in self.staged.body.ops for wait in waits[1:]):
            return False
        sums = [phi for wait in waits for phi in accumulators(self.kernel, loop, wait)]
        products = [value for wait in waits for value in wait.operands]
        starts = [op for value in products if value.op and value.op.name == "wgmma"
                  for op in steps(value.op)]
        if len(sums) < len(products) or not all(
                computed_stays(self.staged, start) for start in starts):
            return False
        held = [start for start in starts if isinstance(start.operands[0].type, Tile)]
        if held and (len(starts) > 1 or starts[0] not in self.staged.body.ops
                     or not _fits_twice(starts[0], self.staged.body)):
            return False
        self.kernel.replace({v: start for wait in between for v, start in zip(
            wait.results, wait.operands, strict=True)})
        body.ops = [op for op in body.ops if op not in between]
        wait = self.join(waits) if len(waits) > 1 else waits[0]
        wait.attributes["pending"] = len(starts)
        end = make_op("wgmma_wait", [phi.result for phi in sums], pending=0)
        ended: dict[Value, Value] = {}
        for phi, result in zip(sums, end.results, strict=True):
            result.name = phi.result.name
            ended[phi.result] = result
        for block in self.kernel.blocks:
            for op in block.ops:
                if block not in loop:
                    op.replace_inputs(ended)
        leave.ops.insert(len(leave.phis()), end)
        for start in held:
            self.hold(start.operands[0], start, [wait, end])
        return True

    def join(self, waits: Sequence[Op]) -> Op:
        """One wait for what all of a block wait for, in the place of the last."""
        values, body = [value for wait in waits for value in wait.operands], self.staged.body
        wait = make_op("wgmma_wait", values, span=waits[-1].span, pending=0)
        self.kernel.replace(dict(zip(
            (v for one in waits for v in one.results), wait.results, strict=True)))
        body.ops[body.ops.index(waits[-1])] = wait
        body.ops = [op for op in body.ops if op not in waits]
        return wait

    def hold(self, left: Value, start: Op, waits: list[Op]) -> None:
        """Keep what a product reads from registers until the waits, an iteration later."""
        body = self.staged.body
        words = make_op("pack", [left])
        body.ops.insert(body.ops.index(start) + 1, words)
        none = make_op("constant", [], words.result.type, value=0)
        self.staged.preheader.ops.insert(-1, none)
        held = make_phi([none.result, words.result], [self.staged.preheader, self.staged.latch],
                        "in_flight")
        self.staged.loop.header.ops.insert(0, held)
        for wait in waits:
            wait.operands.append(held.result)
            wait.attributes["live"] = 1
