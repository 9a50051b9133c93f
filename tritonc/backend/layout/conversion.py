"""Planning how a tile changes from one register layout to another.

Both layouts put each bit of an element's index into one bit of the place.  Compare the two places:

* Every lane and warp bit agrees: a thread already has what it needs, in other registers.  `Rename`.

      >>> from tritonc.ir.layouts.layout import Layout
      >>> lanes = (4, 8, 16, 32, 64)
      >>> plan_conversion(Layout((128,), (1, 2), lanes, ()), Layout((128,), (2, 1), lanes, ()), 32)
      Rename(sources=(0, 2, 1, 3))

* Every warp bit of the source agrees (or is replicated): the warp has what it needs.  Bits move
  between registers and lanes, `Shuffle` (`shuffle.py`).

* Otherwise, or where shuffles cost more, through shared memory, `Shared`: store, barrier, load,
  with a swizzle that leaves no bank conflict on either side (`swizzle.py`).

Source: the conversions of "Linear Layouts" (Zhou et al., 2025), where the idea of comparing places
comes from."""

from collections.abc import Sequence
from functools import cache

from tritonc.backend.layout.access import (
    SharedAccesses,
    bank_conflicts,
    phase_lanes,
    shared_accesses,
)
from tritonc.backend.layout.shuffle import Shuffle, plan_shuffle
from tritonc.backend.layout.swizzle import conversion_buffer
from tritonc.ir.core import Op, Value
from tritonc.ir.layouts import f2
from tritonc.ir.layouts.layout import LANE_BITS, WARP_SIZE, Layout, SharedLayout, axis_bases
from tritonc.ir.types import Tile, element
from tritonc.records import NamedTuple

BARRIERS_COST = 40
"""Two barriers and the latency of a load, in passes over the banks: an estimate, not measured."""


class Rename(NamedTuple):
    """No data moves: register i of the destination is register `sources[i]` of the source."""

    sources: tuple[int, ...]


class Shared(NamedTuple):
    """Through a buffer of `layout` in shared memory, once for each part of the tile that `bits` of
    its row-major index number.

    The threads that hold a part store it (`part_holders`), without copies; all threads wait, and
    load it.  Before the next part is stored, all threads must have loaded."""

    source: Layout
    destination: Layout
    layout: SharedLayout
    element_bits: int
    bits: tuple[int, ...]

    @property
    def sides(self) -> tuple[tuple[SharedAccesses, int], ...]:
        """The stores and the loads of a part, with their bank conflicts."""
        parts = [(part_layout(side, self.bits), once)
                 for side, once in ((self.source, True), (self.destination, False))]
        return tuple((shared_accesses(part, self.layout, self.element_bits, once),
                      bank_conflicts(part, self.layout, self.element_bits)) for part, once in parts)

    @property
    def bytes(self) -> int:
        return self.layout.size * self.element_bits // 8


Plan = Rename | Shuffle | Shared


@cache
def plan_conversion(source: Layout, destination: Layout, element_bits: int) -> Plan:
    """The cheapest way to bring a tile from layout `source` to `destination`.

    `element_bits`: 1 to 64; fewer than 8 travel as 8."""
    if source.shape != destination.shape or len(source.warp) != len(destination.warp):
        raise ValueError(f"no conversion from {source} to {destination}: other shape or warps")
    if source.thread == destination.thread:
        return Rename(_renamed(source, destination))
    bits = max(8, element_bits)
    shuffle = plan_shuffle(source, destination, bits)
    if shuffle is not None and shuffle.shuffles == 0:
        return shuffle
    shared = plan_shared(source, destination, bits)
    if shuffle is None or shuffle_cost(shuffle, bits) > _shared_cost(shared):
        return shared
    return shuffle


def plan_of(op: Op) -> Plan:
    """How a `convert_layout` of tiles with layouts moves its elements."""
    return plan_conversion(layout_of(op.operands[0]), layout_of(op.result),
                           element(op.result.type).bits)


def layout_of(value: Value) -> Layout:
    assert isinstance(value.type, Tile) and value.type.layout is not None
    return value.type.layout


def _renamed(source: Layout, destination: Layout) -> tuple[int, ...]:
    place = {basis: 1 << bit for bit, basis in enumerate(source.register) if basis}
    columns = [place.get(basis, 0) for basis in destination.register]
    return tuple(f2.apply(columns, register) for register in range(destination.registers))


def shuffle_cost(plan: Shuffle, element_bits: int) -> float:
    """In shuffles: those, like passes over the banks, go out one per cycle; selections two."""
    return (plan.shuffles + plan.selects / 2) * max(1, element_bits // 32)


def _shared_cost(plan: Shared) -> float:
    """In passes over the banks."""
    transfers = sum(
        len(side.accesses) * (WARP_SIZE >> phase_lanes(side.vector * plan.element_bits)) * conflicts
        for side, conflicts in plan.sides)
    return (transfers + BARRIERS_COST) * (1 << len(plan.bits))


def plan_shared(source: Layout, destination: Layout, element_bits: int,
                maximum_bytes: int | None = None) -> Shared:
    """The conversion through shared memory.  Right for any two layouts of one shape.

    `maximum_bytes` bounds the buffer, if there is one, as far as parts can be made that small.
    Parts are numbered by bits that both layouts have in registers; then by others that the
    destination has there, and threads of the source store in turn."""
    own = [basis for basis in destination.register if basis]
    left = [basis for basis in own if basis not in source.register]
    left += [basis for basis in source.register if basis in own]
    repeated: list[int] = []
    size = source.size * element_bits // 8
    while maximum_bytes is not None and size >> len(repeated) > maximum_bytes and left:
        repeated.append(left.pop())
    buffer = conversion_buffer(part_layout(source, repeated), part_layout(destination, repeated),
                               element_bits)
    return Shared(source, destination, buffer, element_bits, tuple(repeated))


def part_layout(layout: Layout, removed: Sequence[int]) -> Layout:
    """The layout of one part when bits `removed` of the index number the parts.

    Threads that differ in such a bit hold different parts; seen from one part, they hold copies."""
    table: dict[int, int] = {0: 0}
    shape = []
    for axis, extent in enumerate(layout.shape):
        shape.append(extent >> sum(basis in removed for basis in axis_bases(layout.shape, axis)))
    for axis in range(len(shape)):
        kept = [basis for basis in axis_bases(layout.shape, axis) if basis not in removed]
        table.update(zip(kept, axis_bases((*shape,), axis)))
    return Layout(
        tuple(shape),
        tuple(table[basis] for basis in layout.register if basis not in removed),
        tuple(table.get(basis, 0) for basis in layout.lane),
        tuple(table.get(basis, 0) for basis in layout.warp))


def part_registers(layout: Layout, removed: Sequence[int], index: int) -> tuple[int, ...]:
    """The registers of part `index`, in the order of the part's own registers."""
    kept = [1 << bit for bit, basis in enumerate(layout.register) if basis not in removed]
    fixed = f2.apply(_places(layout.register, removed), index)
    return tuple(fixed | f2.apply(kept, register) for register in range(1 << len(kept)))


def part_holders(layout: Layout, removed: Sequence[int]) -> tuple[int, ...]:
    """Bits of a thread's number, and for each part what they are in threads that hold it first.

    >>> part_holders(Layout((8,), (2,), (1, 0, 4, 0, 0), (0,)), (2, 4))
    (62, 0, 0, 4, 4)
    """
    places = _places(layout.thread, removed)
    copies = layout.replicated_lanes | layout.replicated_warps << LANE_BITS
    return (copies | sum(places), *(f2.apply(places, i) for i in range(1 << len(removed))))


def _places(bases: tuple[int, ...], wanted: Sequence[int]) -> list[int]:
    """For each of `wanted` the bit that has it, as a power of two; 0 if none has."""
    return [1 << bases.index(basis) if basis in bases else 0 for basis in wanted]
