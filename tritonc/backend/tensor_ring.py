"""The rewriting of a staged loop into a pipeline with tensor copies (see `tensor_pipeline`)."""

from __future__ import annotations

from dataclasses import dataclass

from tritonc.backend.linear import emit
from tritonc.backend.machine_ops import ALL_OPS
from tritonc.backend.ring import Rewrite
from tritonc.backend.staged_loop import widen
from tritonc.backend.tensor_access import Strip, available, claim, make_map
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.shared_layout import row_major
from tritonc.ir.types import I32, I64, Buffer, Scalar, Tile


@dataclass
class Operand:
    """An operand that boxes bring: `panels` of them side by side along axis 0 of the tensor."""

    load: Op
    element: Scalar  # of the buffer
    strip: Strip
    swizzle: int
    box: tuple[int, int]
    panels: int


class TensorRewrite(Rewrite):
    """The pipeline with tensor copies and a ring of barriers that count bytes."""

    accesses: list[Operand]
    place: Block

    def prologue(self) -> dict[Value, Value]:
        """Maps and barriers, then the first copies."""
        staged = self.staged
        claimed = claim(self.kernel, self.place)
        self.slot = claimed.slot.result
        self.ring_buffer = make_op("alloc_shared", [], Buffer(I64, (1,), self.stages,
                                                              row_major((1,))), table=ALL_OPS,
                                   pinned=True)
        self.ring_buffer.result.name = "ring"
        self.kernel.entry.ops.insert(0, self.ring_buffer)
        before = Block("")
        b = Builder(before, span=self.span)
        cfg = Cfg(self.kernel)
        self.maps: list[int] = []
        self.outside: dict[tuple[int, int], Value] = {}
        self.starts: dict[tuple[int, int], Value] = {}
        for i, access in enumerate(self.accesses):
            once = all(available(v, self.place, cfg) for v in access.strip.map_values())
            number, outside = make_map(claimed, None if once else b, access.strip,
                                       access.element, access.box, access.swizzle)
            self.maps.append(number)
            self.outside.update(((i, axis), value) for axis, value in outside.items())
            for axis, start in enumerate(access.strip.starts):
                if start.terms:
                    self.starts[i, axis] = emit(b, start, I32)
        staged.preheader.ops[-1:-1] = before.ops
        self.start_ring([make_op("proxy_fence", [], table=ALL_OPS),
                         make_op("ring_init", [self.ring_buffer.result], table=ALL_OPS)])
        return self.first_copies()

    def start_ring(self, ops: list[Op]) -> None:
        """Place what makes the ring's barriers."""
        self.staged.preheader.ops[-1:-1] = ops

    def first_copies(self) -> dict[Value, Value]:
        """Start those before the loop.  Returns each phi's value `distance` turns on."""
        return super().prologue()

    def copies(self, mapping: dict[Value, Value], stage: Value, ahead: int) -> list[Op]:
        """One iteration's copies: the box of its turn."""
        ops, runs = self.iteration(mapping)
        block = Block("")
        b = Builder(block, span=self.span)
        turn = self.leading_turn(ahead)
        barrier = widen(self.ring_buffer.result, self.stages, stage, ahead)
        b.insert(barrier)
        b.insert(make_op("ring_expect", [barrier.result], guard=runs, table=ALL_OPS,
                         bytes=sum(self.bytes(s) for s in self.staged.stores)))
        for i, (access, store) in enumerate(zip(self.accesses, self.staged.stores, strict=True)):
            view = widen(store.operands[0], self.stages, stage, ahead)
            b.insert(view)
            starts = []
            for axis in (0, 1):
                start = b.value("mul", turn, b.constant(access.strip.steps[axis], I32))
                if (i, axis) in self.starts:
                    start = b.value("add", start, self.starts[i, axis])
                if (i, axis) in self.outside:
                    start = b.value("add", start, self.outside[i, axis])
                starts.append(start)
            b.insert(make_op("tensor_copy", [view.result, barrier.result, self.slot, *starts],
                             guard=runs, span=access.load.span, table=ALL_OPS, index=self.maps[i],
                             panels=access.panels, box=access.box))
        return [*ops, *block.ops]

    @staticmethod
    def bytes(store: Op) -> int:
        """The bytes of one operand of one iteration."""
        t = store.operands[0].type
        assert isinstance(t, Buffer)
        return t.stage_bytes

    def leading_turn(self, ahead: int) -> Value:
        """The number of the iteration whose operands are copied."""
        return self.turns.result if self.ring else self.number(ahead)

    def phis(self, ahead: dict[Value, Value]) -> dict[Value, Value]:
        lead = super().phis(ahead)
        header, preheader = self.staged.loop.header, self.staged.preheader
        self.phase = Op("phi", [self.number(0)], {}, (I32,), blocks=[preheader])
        self.turns = Op("phi", [self.number(self.distance)], {}, (I32,), blocks=[preheader])
        self.phase.result.name, self.turns.result.name = "phase", "turn_ahead"
        header.ops[:0] = [self.phase, self.turns]
        return lead

    def wait(self) -> list[Op]:
        view = widen(self.ring_buffer.result, self.stages, self.ring[0].result, 0)
        return [view, make_op("ring_wait", [view.result, self.phase.result], table=ALL_OPS)]

    def copies_place(self) -> int:
        """Behind the start of a product: tensor cores need not wait for the first warp."""
        for at, op in enumerate(self.staged.body.ops):
            if op.name == "wgmma" and not isinstance(op.operands[0].type, Tile):
                return at + 1
        return super().copies_place()

    def body(self, lead: dict[Value, Value]) -> None:
        super().body(lead)
        latch = self.staged.latch
        step = make_op("add", [self.turns.result, self.number(1)])
        # the phase turns when the stage to read returns to 0
        after = self.ring[0].operands[-1]
        wraps = make_op("icmp", [after, self.number(0)], predicate="eq")
        other = make_op("xor", [self.phase.result, self.number(1)])
        phase = make_op("select", [wraps.result, other.result, self.phase.result])
        latch.ops[-1:-1] = [step, wraps, other, phase]
        for phi, value in ((self.turns, step.result), (self.phase, phase.result)):
            phi.operands.append(value)
            phi.blocks.append(latch)

    def end(self) -> None:
        """Each copy that was started is waited for: its iteration runs."""
