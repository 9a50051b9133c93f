"""An operand of a dot on its way to the instruction, whole or in slices of the dot's inner axis.

`slices` are bits of the operand's row-major index: they number the slices, which are made `ready`
one after the other.  With no bits there is one slice, the whole."""

from typing import Any

from tritonc.backend.layout.lower_conversions import part_type
from tritonc.backend.shared.shared_memory import allocate
from tritonc.ir.build import make_op
from tritonc.ir.core import Op, Value
from tritonc.ir.layouts.layout import Layout, SharedLayout, axis_bases
from tritonc.ir.layouts.shared_layout import transpose
from tritonc.ir.types import Buffer, Tile, scalar, shape, with_layout
from tritonc.source import Span


def slices_of(operand: Value, axis: int, bits: int) -> tuple[int, ...]:
    """The bits of an operand's row-major index that number the slices of its inner axis."""
    steps = axis_bases(shape(operand.type), axis)
    return steps[len(steps) - bits :]


class InMemory:
    """An operand in shared memory, whole, or one of the slices that bits `slices` number.

    What operations of `moves` made is stored as it was before, and the buffer is seen so.
    `rounds`: as a dot reads tf32 numbers."""

    def __init__(self, operand: Value, layout: SharedLayout, slices: tuple[int, ...],
                 buffers: list[Op], moves: tuple[str, ...], rounds: bool = False) -> None:
        span, source = operand.op.span if operand.op else None, operand
        views: list[Op] = []  # from the last
        while source.op is not None and source.op.name in moves and not slices:
            (before,) = source.op.operands
            if not isinstance(before.type, Tile):
                break
            view = Op(f"buffer_{source.op.name}", [], dict(source.op.attributes),
                      (Buffer(scalar(operand.type), layout.shape, 1, layout),), span=span)
            views.append(view)
            if source.op.name == "trans":
                order = source.op.attributes["permutation"]
                layout = transpose(layout, sorted(range(len(order)), key=lambda d: order[d]))
            else:
                layout = SharedLayout(shape(before.type), layout.offset, layout.alignment)
            source = before
        buffer = allocate(scalar(source.type), layout, span=span,
                          named=f"{source.name}_shared" if source.name else "shared")
        buffers.append(buffer)
        self.source, self.slices, self.span, self.rounds = source, slices, span, rounds
        self.buffer = self.seen = buffer.result
        self.views = views[::-1]
        for view in self.views:
            view.operands = [self.seen]
            self.seen = view.result

    def ready(self, index: int) -> list[Op]:
        """Operations that store slice `index`; then `seen` is it."""
        part: dict[str, Any] = {"bits": self.slices, "index": index} if self.slices else {}
        part |= {"round": True} if self.rounds else {}
        store = make_op("shared_store", [self.buffer, self.source], span=self.span, **part)
        return [store, *(self.views if index == 0 else [])]


class InRegisters:
    """An operand in a fragment layout in registers, likewise."""

    def __init__(self, operand: Value, layout: Layout, slices: tuple[int, ...], span: Span | None
                 ) -> None:
        self.move = make_op("convert_layout", [operand], with_layout(operand.type, layout),
                            span=span)
        self.seen = self.move.result
        self.seen.name = operand.name
        self.slices, self.span = slices, span

    def ready(self, index: int) -> list[Op]:
        """Operations that make slice `index`; then `seen` is it."""
        ops = [self.move] if index == 0 else []
        if self.slices:
            whole = self.move.result
            ops.append(make_op("tile_part", [whole], part_type(whole.type, self.slices),
                               span=self.span, bits=self.slices, index=index))
            self.seen = ops[-1].result
        return ops
