"""What an instance has beside its values while machine operations are simulated.

`Machine` holds shared memory, the copies and products in flight and who used global memory.  Its
methods move tiles to and from buffers and report what is wrong (see `machine`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator import hazards
from simulator.hazards import GROUPS, MANY, NOBODY, Hazards, Indices, Threads
from tritonc.backend.shared.shared_memory import buffer_bytes, pitch
from tritonc.interp.frame import Frame, Step
from tritonc.ir.core import Op, Value
from tritonc.ir.layouts.shared_layout import row_major
from tritonc.ir.numeric.formats import from_memory, memory_dtype, to_memory
from tritonc.ir.types import Buffer, Scalar, Tile

Undefined = tuple[Any, Op]  # a mask, and the operation that began it
Extents = tuple[int, ...]

# How far a write by the threads is on its way to wgmma and TMA loads, their own *proxy*.
SEEN, FENCED, UNFENCED = 0, 1, 2


@dataclass(eq=False)
class Space:
    """Bytes of shared memory."""

    size: int

    def __post_init__(self) -> None:
        self.size += -self.size % 16
        self.bytes = np.zeros(self.size, np.uint8)
        self.buffer = np.zeros(self.size, np.int32)  # serial number of the buffer that wrote it
        self.undefined = np.zeros(self.size, np.bool_)  # the value written was
        self.in_flight = np.zeros(self.size, np.bool_)  # a copy to here has not been waited for
        self.products = np.zeros(self.size, np.int16)  # products and stores in flight read it
        self.proxy = np.zeros(self.size, np.uint8)  # SEEN, FENCED, UNFENCED
        self.hazards = Hazards(self.size)


@dataclass(frozen=True, eq=False)
class View:
    """A buffer or a part of it, as the value of an operand."""

    space: Space
    serial: int
    start: int  # the byte where the buffer begins
    element: Scalar
    offsets: Indices  # in elements, of each element: stages, then the tile's axes

    def at(self, offsets: Indices, start: int | None = None) -> View:
        """Other elements of the same buffer."""
        return View(self.space, self.serial, self.start if start is None else start, self.element,
                    offsets)

    @cached_property
    def places(self) -> Indices:
        """The elements' numbers in the space, flat."""
        places: Indices = self.offsets.reshape(-1) + self.start // self.element.bytes
        return places

    def of(self, table: npt.NDArray[Any]) -> Any:
        """The entries of one of the space's tables: a row of bytes for each element."""
        return hazards.rows(table, self.places, self.element.bytes)

    def any(self, table: npt.NDArray[Any]) -> Any:
        """The mask of elements with an entry that is not zero; None if there is none."""
        if 16 * self.offsets.size > table.size and not table.any():
            return None
        found = self.of(table)
        return found.any(axis=1) if found.any() else None

    def put(self, table: npt.NDArray[Any], entries: Any) -> None:
        """Set their entries to a number, to one for each element, or to rows."""
        some = np.atleast_2d(np.asarray(entries, table.dtype))
        hazards.set_rows(table, self.places,
                         np.broadcast_to(some, (len(some), self.element.bytes)))


@dataclass(eq=False)
class Copy:
    """A copy in flight: from `addresses` (under `active`) what was there when it began."""

    op: Op
    view: View
    addresses: Any
    active: Any
    held: Any
    undefined: Any
    threads: Threads


@dataclass(eq=False)
class Product:
    """A wgmma: its result, which elements of that are undefined, and what it reads."""

    op: Op
    result: Any
    undefined: Undefined | None
    views: list[View]


@dataclass(frozen=True)
class TensorMap:
    """Extents in elements, strides of axes 1 and more in bytes; axis 0 is the contiguous one."""

    base: int
    extents: tuple[int, int]
    stride: int
    element: Scalar
    box: tuple[int, int]
    swizzle: int
    depth: tuple[int, ...] = ()  # the strides of axes from 2 on

    def piece(self, starts: list[int]) -> tuple[Any, Any]:
        """The addresses of a box's elements, and which of them are inside."""
        x = starts[0] + np.arange(self.box[0])
        y = (starts[1] + np.arange(self.box[1]))[:, np.newaxis]
        active = (x >= 0) & (x < self.extents[0]) & (y >= 0) & (y < self.extents[1])
        active &= min([0, *starts[2:]]) >= 0
        addresses = self.base + x * np.int64(self.element.bytes) + y * np.int64(self.stride)
        return addresses + sum(map(mul, starts[2:], self.depth)), active


@dataclass(eq=False)
class Stage:
    """A stage of a multi-stage buffer: how many phases have ended, and what the present one waits
    for."""

    phases: int = 0
    expected: int | None = None  # bytes, once a thread has said so
    copies: list[Copy] = field(default_factory=list)
    short: list[tuple[Op, View]] = field(default_factory=list)  # buffers that some of them fill
    released: int = 0  # when, as the engine counts
    awaited: int | None = None  # since when: copies that another warp starts come later in the text


@dataclass(eq=False)
class Engine:
    """What the copy engine knows: maps of slots that are claimed, and barriers by their serials."""

    slots: dict[int, dict[int, TensorMap]] = field(default_factory=dict)
    made: dict[int, TensorMap] = field(default_factory=dict)  # not published yet
    barriers: dict[int, dict[int, Stage]] = field(default_factory=dict)  # by first offset
    releases: int = 0
    # in flight: what each reads, and the thread that made it
    stores: deque[list[tuple[View, int]]] = field(default_factory=deque)

    def stages(self) -> list[Stage]:
        return [stage for stages in self.barriers.values() for stage in stages.values()]


@dataclass(eq=False)
class Machine:
    """The state of one instance.  `check`: whether to report accesses with too few barriers."""

    check: bool
    plain: dict[Op, Step]  # the interpreter's own steps, of all instances
    serial: int = 0
    shared: Space | None = None  # of all buffers with an offset
    alone: list[Space] = field(default_factory=list)  # of those without
    causes: dict[int, Op] = field(default_factory=dict)  # buffer -> what stored undefined elements
    opened: list[Copy] = field(default_factory=list)  # copies of no group yet
    groups: deque[list[Copy]] = field(default_factory=deque)
    products: deque[Product] = field(default_factory=deque)
    ended: deque[Product] = field(default_factory=lambda: deque(maxlen=64))
    memory: dict[int, Hazards] = field(default_factory=dict)  # of global buffers, by base
    others: bool = False  # threads but the first used global memory since the last barrier
    locked: bool = False  # the first thread took a lock since then
    engine: Engine = field(default_factory=Engine)

    def spaces(self) -> list[Space]:
        return self.alone if self.shared is None else [self.shared, *self.alone]

    def allocate(self, frame: Frame, op: Op) -> View:
        """A buffer that holds nothing yet."""
        t, start = op.result.type, op.attributes.get("offset", 0)
        assert isinstance(t, Buffer)
        self.serial += 1
        if "offset" in op.attributes:
            if self.shared is None:
                self.shared = Space(_extent(frame))
            space = self.shared
        else:
            space = Space(buffer_bytes(op))
            self.alone.append(space)
        layout = t.layout or row_major(t.shape)
        assert start % max(layout.alignment, t.element.bytes) == 0, "a misaligned buffer"
        index = hazards.offsets(layout)
        stages = np.arange(t.stages).reshape(-1, *[1] * index.ndim) * (
            pitch(op) // t.element.bytes)
        if "pitch" in op.attributes:
            stages = stages[::-1]
        return View(space, self.serial, start, t.element, stages + index)

    # ---- reports

    def race(self, frame: Frame, op: Op, wrong: Any, extents: Extents, message: str) -> None:
        """Report the elements `wrong`, if any."""
        if self.check and wrong is not None and wrong.any():
            frame.fail(op, "run-race", message, wrong.reshape(extents))

    def untouched(self, frame: Frame, op: Op, view: View, extents: Extents,
                  write: bool) -> None:
        """Report elements that something in flight still writes, or reads if this is a write."""
        self.race(frame, op, view.any(view.space.in_flight), extents,
                  f"what this {op.name} uses: a copy into it is in flight")
        if write:
            self.race(frame, op, view.any(view.space.products), extents,
                      f"what this {op.name} overwrites: a product or a store in flight reads it")

    def overwrites(self, frame: Frame, op: Op, view: View, threads: Threads,
                   extents: Extents) -> None:
        """Report what may not be overwritten by `threads` yet."""
        self.untouched(frame, op, view, extents, write=True)
        wrong = view.space.hazards.would_conflict(view.places, view.element.bytes, threads)
        self.race(frame, op, wrong, extents, f"what this {op.name} overwrites: another thread used "
                  "it, with no barrier between")

    # ---- moving tiles

    def put(self, view: View, held: Any, undefined: Undefined | None, threads: Threads,
            proxy: int = UNFENCED) -> None:
        """Elements are written by `threads`."""
        space, width = view.space, view.element.bytes
        space.hazards.write(view.places, width, threads)
        raw = np.ascontiguousarray(to_memory(view.element, held)).reshape(-1)
        view.put(space.bytes, raw.view(np.uint8).reshape(-1, width))
        view.put(space.buffer, view.serial)
        view.put(space.proxy, proxy)
        mask: Any = False
        if undefined is not None:
            mask, self.causes[view.serial] = undefined
            mask = np.asarray(mask).reshape(-1, 1)
        view.put(space.undefined, mask)

    def get(self, frame: Frame, op: Op, view: View, threads: Threads,
            extents: Extents) -> tuple[Any, Any, Op | None]:
        """Elements read by `threads`: held array in a tile's shape, mask of undefined, cause."""
        self.untouched(frame, op, view, extents, write=False)
        wrong = view.space.hazards.read(view.places, view.element.bytes, threads)
        self.race(frame, op, wrong, extents, f"what this {op.name} reads: another thread wrote it, "
                  "with no barrier between")
        stranger = view.of(view.space.buffer) != view.serial
        if stranger.any():
            frame.fail(op, "run-shared-memory", f"what this {op.name} reads: nothing was stored "
                       "there, or another buffer has overwritten it",
                       stranger.any(axis=1).reshape(extents))
        raw = view.of(view.space.bytes).reshape(-1).view(memory_dtype(view.element))
        unknown = view.any(view.space.undefined)
        mask = None if unknown is None else unknown.reshape(extents)
        return (from_memory(view.element, raw).reshape(extents), mask,
                self.causes.get(view.serial))

    def barrier(self) -> None:
        """All threads have met."""
        for space in self.spaces():
            space.hazards.clear()
            space.proxy[space.proxy == FENCED] = SEEN
        for table in self.memory.values():
            table.clear()
        self.others = self.locked = False

    def group_barrier(self) -> None:
        """The threads of each warpgroup have met."""
        for space in self.spaces():
            space.hazards.meet()
            space.proxy[(space.proxy == FENCED) & (space.hazards.writer <= GROUPS)] = SEEN

    def land(self, frame: Frame, copy: Copy, everybody: bool) -> None:
        """What a copy brings is there: for the thread that started it, or for all that waited."""
        view = copy.view
        held, _ = frame.gather(copy.op, view.element, copy.addresses, copy.active)
        now, then = (to_memory(view.element, one) for one in (held, copy.held))
        changed = (now != then) & ((now == now) | (then == then))  # a NaN is one still
        self.race(frame, copy.op, changed, changed.shape, "what this copy reads: it was stored to "
                  "while the copy was in flight")
        view.put(view.space.in_flight, False)
        self.put(view, copy.held, None if copy.undefined is None else (copy.undefined, copy.op),
                 copy.threads, SEEN if everybody else UNFENCED)
        if everybody:
            view.put(view.space.hazards.writer, np.int16(NOBODY))


def _extent(frame: Frame) -> int:
    """Bytes of shared memory: up to the end of the last buffer."""
    ends = [0]
    for op in frame.launch.kernel.ops():
        if op.name == "alloc_shared" and "offset" in op.attributes:
            t = op.result.type
            assert isinstance(t, Buffer)
            ends.append(op.attributes["offset"] + buffer_bytes(op))
    return max(ends)


# ---- who uses a value's elements

FIRST = np.zeros(1, np.int16)  # the thread that acts for the block where one does
ALL = np.full(1, MANY, np.int16)


def owners(value: Value) -> Threads:
    """The thread that acts for each element; the first one, if no layout is known."""
    t = value.type
    if not isinstance(t, Tile):
        return FIRST
    return np.zeros(t.size, np.int16) if t.layout is None else hazards.owners(t.layout)


def holders(value: Value) -> Threads:
    """The thread or threads that hold each element."""
    t = value.type
    if not isinstance(t, Tile):
        return ALL
    return np.zeros(t.size, np.int16) if t.layout is None else hazards.holders(t.layout)
