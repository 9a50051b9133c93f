"""The loop of a pipeline with TMA loads: what waits, releases stages and counts phases."""

from tritonc.analysis.values import needed
from tritonc.backend.dots.together import cycles
from tritonc.backend.pipeline.expander import Expander
from tritonc.backend.pipeline.staged_loop import widen
from tritonc.backend.shared.shared_memory import allocation, allocations
from tritonc.ir.build import make_op
from tritonc.ir.cfg import add_incoming, make_phi
from tritonc.ir.core import Op, Value
from tritonc.ir.types import I1, Tile

SHORT = 512  # cycles of a warpgroup's products: those of 128 x 256 x 64, shared by two, are not


class TmaLoop(Expander):
    """`products`: the channels that feed each; `full` and `empty`: its barriers; `separate`:
    whether a warp of its own shall make the copies."""

    products: list[list[int]]
    separate = False
    full: list[Value]
    empty: list[Value]

    def fill(self, product: int, stage: Value, ahead: int) -> list[Op]:
        """The copies of what one product reads."""
        raise NotImplementedError

    @property
    def apart(self) -> bool:
        """Whether each product has its own barriers, and warps release its stages."""
        return self.separate or len(self.products) > 1

    def depth(self, product: int) -> int:
        """How many stages the buffers of a product have."""
        return self.stages

    def phis(self, ahead: dict[Value, Value]) -> dict[Value, Value]:
        lead = super().phis(ahead)
        header, preheader = self.staged.loop.header, self.staged.preheader
        self.phase = make_phi([self.number(0)], [preheader], "phase")
        self.copied = make_phi([self.number(self.distance)], [preheader], "iteration_ahead")
        self.next_phase = make_phi([self.number(0)], [preheader], "next_phase")
        header.ops[:0] = [self.phase, self.copied, *([self.next_phase] if self.apart else [])]
        return lead

    def wait(self) -> list[Op]:
        return [] if self.apart else [*self.arrival(0), *super().wait()]

    def arrival(self, product: int) -> list[Op]:
        """What makes this iteration's operands of one product be there."""
        read, _, phase, _ = self.clock(product)
        view = widen(self.full[product], self.depth(product), read.result, 0)
        return [view, make_op("wait_full", [view.result, phase.result])]

    def clock(self, product: int) -> tuple[Op, Op, Op, Op]:
        """The stages of a product to read and to write, and their phases."""
        return self.stage_phis[0], self.stage_phis[1], self.phase, self.next_phase

    def copies_place(self) -> int:
        """Behind the start of a product: tensor cores need not wait for the first warp."""
        for at, op in enumerate(self.staged.body.ops):
            if op.name == "wgmma" and not self.apart and not isinstance(op.operands[0].type, Tile):
                return at + 1
        return super().copies_place()

    def hand_over(self) -> None:
        """Around each product: its operands are there; a later one's are copied; it has read."""
        body = self.staged.body
        roots = [allocation(store.operands[0])[0] for store in self.staged.stores]
        for i, members in enumerate(self.products):
            read, write, *_ = self.clock(i)
            own = [roots[m] for m in members]
            readers = [op for op in body.ops if op.name in ("wgmma", "shared_load")
                       and not allocations(op).isdisjoint(own)]
            starts = [op for op in readers if op.name == "wgmma"]
            for start in starts[1:]:
                # A half that begins when the one before is done with: the wait is over at once,
                # and the assembler moves no instruction over it, which would take registers.
                at = body.ops.index(start)
                if any(op.name == "wgmma_wait" for op in body.ops[body.ops.index(starts[0]) : at]):
                    body.ops[at:at] = self.arrival(i)
            ends = [op for op in body.ops if op in readers or (op.name == "wgmma_wait" and any(
                start.result in op.operands for start in readers))]
            arrival, at = self.arrival(i), body.ops.index(readers[0])
            body.ops[at:at] = arrival
            at = body.ops.index(arrival[0]) if not self.distance else 1 + body.ops.index(
                next((op for op in readers if op.name == "wgmma"), readers[-1]))
            copies = self.fill(i, write.result, self.distance)
            behind = body.ops[at:]  # where boxes of this iteration begin goes before its copies
            first = needed(behind, [v for op in copies for v in op.inputs()])
            body.ops[at:] = [*first, *copies, *(op for op in behind if op not in first)]
            view = widen(self.empty[i], self.depth(i), read.result, 0)
            at = body.ops.index(ends[-1]) + 1
            body.ops[at:at] = [view, make_op("arrive_empty", [
                view.result, *(root.result for root in own)])]

    def body(self, lead: dict[Value, Value]) -> None:
        super().body(lead)
        if self.apart:
            self.hand_over()
        latch = self.staged.latch
        step = make_op("add", [self.copied.result, self.number(1)])
        phase = self.flip_phase(self.stage_phis[0].operands[-1], self.phase.result)
        latch.ops[-1:-1] = [step, *phase]
        following = [(self.copied, step.result), (self.phase, phase[-1].result)]
        if self.apart:
            phase = self.flip_phase(self.stage_phis[1].operands[-1], self.next_phase.result)
            latch.ops[-1:-1] = phase
            following.append((self.next_phase, phase[-1].result))
        for phi, value in following:
            add_incoming(phi, value, latch)

    def flip_phase(self, stage: Value, phase: Value) -> list[Op]:
        """The phase of `stage`, which follows one in `phase`: it flips with stage 0."""
        wraps = make_op("icmp", [stage, self.number(0)], predicate="eq")
        other = make_op("xor", [phase, self.number(1)])
        return [wraps, other, make_op("select", [wraps.result, other.result, phase])]

    def keep_in_flight(self) -> bool:
        """Where warps release stages, which they do when a product has ended, other warps' products
        fill the time until the next one starts, unless they are short, or threads compute an
        operand meanwhile."""
        if not self.separate:
            return super().keep_in_flight()
        body = self.staged.body
        busy = any(op.name == "shared_load" for op in body.ops) or cycles(
            body, self.kernel.attributes["num_warps"]) < SHORT \
            or self.kernel.attributes.get("pingpong", 1) > 1
        if not busy or self.distance > self.stages - 2 or not super().keep_in_flight():
            return False
        self.release_later()
        return True

    def release_later(self) -> None:
        """Stages are released when the products that read them have ended, an iteration later."""
        staged, (read, _) = self.staged, self.stage_phis
        no, yes = (make_op("constant", [], I1, value=value) for value in (False, True))
        self.kernel.entry.ops[:0] = [no, yes]
        before = make_phi([self.number(0), read.result], [staged.preheader, staged.latch],
                          "stage_in_flight")
        ran = make_phi([no.result, yes.result], [staged.preheader, staged.latch], "ran")
        staged.loop.header.ops[:0] = [before, ran]
        places = [staged.body, staged.exit]
        for release in [op for op in staged.body.ops if op.name == "arrive_empty"]:
            for block in places:
                views = [make_op("buffer_stage", [allocation(v)[0].result, before.result],
                                 ahead=-1) for v in release.operands]
                later = make_op("arrive_empty", [view.result for view in views], guard=ran.result)
                at = block.ops.index(next(op for op in block.ops if op.name == "wgmma_wait")) + 1
                block.ops[at:at] = [*views, later]
            staged.body.ops.remove(release)
