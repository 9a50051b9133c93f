"""Channels: how what a loop stores to shared memory gets there when a pipeline brings it.

A channel is one store of the loop, and the means by which its data comes ahead of time:

    BOXES      TMA loads: one thread starts the load of a box, whose bytes a barrier counts
    COPIES     cp.async: each thread copies pieces that are contiguous in both memories
    TRANSPOSED cp.async to a buffer of its own, as loaded; the thread that copied an element stores
               it to its place when the iteration ends
    REGISTERS  loads where copies would start, stores when the iteration ends

Each channel of a loop has its own means: what hinders one does not hinder the others.

cp.async can copy loads whose elements go to shared memory as they are, in whole pieces."""

from enum import Enum, auto
from math import prod
from typing import TYPE_CHECKING

from tritonc.analysis.axis import axis_info
from tritonc.analysis.values import fills_zeros
from tritonc.backend.layout import layout_choice
from tritonc.backend.layout.access import shared_accesses
from tritonc.backend.pipeline.staged_loop import StagedLoop, source_load
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import Buffer, Scalar, Tile, scalar
from tritonc.records import dataclass

if TYPE_CHECKING:
    from tritonc.backend.pipeline.tma.tma_access import Strip

TRANSPOSED = "it is transposed on the way, so it passes through registers"


class Means(Enum):
    BOXES = auto()
    COPIES = auto()
    TRANSPOSED = auto()
    REGISTERS = auto()


@dataclass
class Boxes:
    """A tile as boxes of a tensor: `panels` of them side by side along axis 0 of the tensor.

    `below`: of a tile in parts, those below the first, each with as many boxes of the same map;
    `short`: the axis of the tensor along which nobody reads what it lacks of the tile, so that
    boxes leave it out."""

    load: Op
    element: Scalar  # of the buffer
    strip: "Strip"
    swizzle: int
    box: tuple[int, int]
    panels: int
    below: "tuple[Strip, ...]" = ()
    short: int | None = None

    @property
    def strips(self) -> "tuple[Strip, ...]":
        return self.strip, *self.below

    @property
    def bytes(self) -> int:
        return len(self.strips) * self.panels * prod(self.box) * self.element.bytes

    def values(self) -> list[Value]:
        """What maps, starts and steps are computed from."""
        return [v for strip in self.strips for v in strip.values()]

    def moving(self, place: Block, cfg: Cfg) -> list[Value]:
        """What the starts are computed from that is not there before the loop behind `place`."""
        return [v for strip in self.strips for v in strip.moving(place, cfg)]


@dataclass
class Channel:
    """One store of a loop.  `load`: what copies bring in its place; `boxes`: as such;
    `transposed`: the buffer where each thread finds what it loaded."""

    store: Op
    means: Means
    load: Op | None = None
    boxes: Boxes | None = None
    transposed: Op | None = None
    why: str = ""  # what hinders copies, where it goes through registers

    @property
    def copied(self) -> bool:
        return self.means in (Means.COPIES, Means.TRANSPOSED)

    @property
    def stored(self) -> bool:
        """Whether threads store it, when the iteration ends."""
        return self.means in (Means.TRANSPOSED, Means.REGISTERS)


def by_threads(store: Op, staged: StagedLoop, infos: axis_info.Infos) -> Channel:
    """The best channel that threads can serve."""
    load = copied_load(store, staged, infos)
    if isinstance(load, str):
        return Channel(store, Means.REGISTERS, why=load)
    return Channel(store, Means.COPIES, load)


def copied_load(store: Op, staged: StagedLoop, infos: axis_info.Infos) -> Op | str:
    """The load whose work and the store's cp.async does as well; if there is no such, why."""
    load = source_load(store)
    if load is None:
        return "the loaded value is changed before the product uses it"
    if not any(load in block.ops for block in staged.always):
        return "it is not loaded in every iteration"
    if store.attributes.get("round"):
        return "it is rounded to tf32"
    if not fills_zeros(load):
        return "masked elements are not zero"
    if load.attributes.get("volatile"):
        return "the load is volatile"
    pointer = load.operands[0]
    width = copy_width(pointer, load.guard, store.operands[0], infos)
    t, info = pointer.type, infos.get(pointer)
    if width < 4 or info is None or not isinstance(t, Tile) or t.layout is None:
        return "fewer than 4 bytes are known to be contiguous, aligned and equally masked"
    # Narrow copies of what is contiguous in memory but not in the buffer ask for the same sectors
    # again and again.
    size = scalar(pointee(t)).bytes
    guard = infos.get(load.guard) if load.guard is not None else None
    access = layout_choice.Access(t.shape, info, guard, size)
    copied = min(width // size, access.width(t.layout))
    if layout_choice.sector_share(t.layout, access.axis, size, copied) < access.share(t.layout):
        return TRANSPOSED
    return load


def copy_width(pointer: Value, guard: Value | None, buffer: Value, infos: axis_info.Infos) -> int:
    """The bytes of each piece: contiguous in a thread's registers, in global and shared memory."""
    t, b = pointer.type, buffer.type
    info = infos.get(pointer)
    assert isinstance(t, Tile) and isinstance(b, Buffer)
    if t.layout is None or b.layout is None or info is None:
        return 0
    size = b.element.bytes
    accesses = shared_accesses(t.layout, b.layout, size * 8)
    index = b.layout.at(1) if b.layout.size > 1 else 0  # the neighbour in shared memory
    axis = next((d for d, n in enumerate(t.layout.coordinates(index)) if n), 0)
    mask = infos.get(guard) if guard is not None else None
    reach = axis_info.vector_length(info, mask, axis, size)
    if any(list(a.registers) != sorted(a.registers) for a in accesses.accesses):
        return 0  # the buffer has another order inside its words
    width = min(reach, accesses.vector) * size
    return width if width in (4, 8, 16) else 0
