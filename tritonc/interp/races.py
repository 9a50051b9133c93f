"""Races between instances: two of them touch a byte, one stores there, and nothing orders them.

Instances have no order among themselves but by atomic operations on scalars (and stores to what
such operations touch): an instance that releases passes on all that it has done to the one that
acquires the same address later.  This is the happens-before relation of vector clocks, kept as in
FastTrack (Flanagan and Freund, 2009): for each element of a buffer the last instance that changed
it and the last two that read it, each with its clock then.

Atomic operations themselves race with nothing here, nor does a store that changes nothing: that
several instances store the same is common, and harmless."""

from math import prod
from typing import Any

import numpy as np

from tritonc.interp.memory import Buffer
from tritonc.ir.core import Op
from tritonc.records import dataclass
from tritonc.source import Note

_NOBODY = -1
Index = tuple[int, ...]  # of an instance
Times = Any  # an array with a clock for each instance; None for "of nobody anything"


class Race(Exception):
    """Two instances that nothing orders."""

    def __init__(self, message: str, *notes: Note) -> None:
        super().__init__(message)
        self.notes = notes


@dataclass(eq=False)
class _Log:
    """Who did something to each element last: the instance, its clock, the number of the place."""

    who: Any
    when: Any
    where: Any

    @classmethod
    def of(cls, size: int) -> "_Log":
        return cls(np.full(size, _NOBODY, np.int32), np.zeros(size, np.int32),
                   np.zeros(size, np.int32))

    def note(self, at: Any, who: int, when: int, where: int) -> None:
        self.who[at], self.when[at], self.where[at] = who, when, where


@dataclass(eq=False)
class _Shadow:
    """Of a buffer."""

    grain: int  # bytes
    stores: _Log
    loads: _Log
    others: _Log  # loads of another instance than the last


class Races:
    """What is known of the accesses of a launch.  `instances` is their number."""

    def __init__(self, grid: tuple[int, ...]) -> None:
        self.grid = grid
        self.instances = prod(grid)
        self.shadows: dict[Buffer, _Shadow] = {}
        self.read_only: set[int] = set()  # addresses of buffers that nothing can store to
        self.places: list[Op] = []
        self.numbers: dict[Op, int] = {}
        self.clocks: dict[int, int] = {}
        self.known: dict[int, Times] = {}  # what each instance has acquired
        self.released: dict[int, Times] = {}  # by address

    def number(self, index: tuple[int, ...]) -> int:
        return int(np.ravel_multi_index(index, self.grid, order="F"))

    def name(self, number: int) -> str:
        index = np.unravel_index(number, self.grid, order="F")
        return f"instance ({', '.join(map(str, index))})"

    # --- order ---

    def atomic(self, instance: Index, op: Op, address: int) -> None:
        """An atomic operation on a scalar, or a store to what such operations touch."""
        order = op.attributes.get("order", "acq_rel" if op.name != "store" else "release")
        me = self.number(instance)
        if order in ("acquire", "acq_rel") and address in self.released:
            mine, theirs = self.known.get(me), self.released[address]
            self.known[me] = theirs.copy() if mine is None else np.maximum(mine, theirs)
        if order in ("release", "acq_rel"):
            clock = self.clocks.get(me, 1)
            known = self.known.get(me)
            passed = np.zeros(self.instances, np.int32) if known is None else known.copy()
            passed[me] = clock
            before = self.released.get(address)
            self.released[address] = passed if before is None else np.maximum(passed, before)
            self.clocks[me] = clock + 1

    def touches(self, address: int) -> bool:
        """Whether the address orders instances."""
        return address in self.released

    # --- accesses ---

    def load(self, instance: Index, op: Op, buffer: Buffer, index: Any, size: int) -> None:
        if buffer.constant or buffer.base in self.read_only:
            return
        me, shadow, at, where = self._about(instance, op, buffer, index, size)
        self._check(op, buffer, shadow, shadow.stores, at, me, "stored")
        last = shadow.loads.who[at]
        moved = at[(last != me) & (last != _NOBODY)]
        shadow.others.note(moved, *(known[moved] for known in (
            shadow.loads.who, shadow.loads.when, shadow.loads.where)))
        shadow.loads.note(at, me, self.clocks.get(me, 1), where)

    def store(self, instance: Index, op: Op, buffer: Buffer, index: Any, size: int) -> None:
        """`index`: of the elements that change."""
        me, shadow, at, where = self._about(instance, op, buffer, index, size)
        self._check(op, buffer, shadow, shadow.stores, at, me, "stored")
        self._check(op, buffer, shadow, shadow.loads, at, me, "loaded")
        self._check(op, buffer, shadow, shadow.others, at, me, "loaded")
        shadow.stores.note(at, me, self.clocks.get(me, 1), where)

    def _about(self, instance: Index, op: Op, buffer: Buffer, index: Any, size: int
               ) -> tuple[int, _Shadow, Any, int]:
        shadow = self.shadows.get(buffer)
        if shadow is None:
            grain = buffer.array.itemsize
            logs = (_Log.of(buffer.array.size) for _ in range(3))
            shadow = self.shadows[buffer] = _Shadow(grain, *logs)
        if size == shadow.grain:
            at = np.asarray(index)
        else:
            first = np.asarray(index) * size // shadow.grain
            at = (first[:, None] + np.arange(max(size // shadow.grain, 1))).reshape(-1)
        if op not in self.numbers:
            self.numbers[op] = len(self.places)
            self.places.append(op)
        return self.number(instance), shadow, at, self.numbers[op]

    def _check(self, op: Op, buffer: Buffer, shadow: _Shadow, log: _Log, at: Any, me: int,
               did: str) -> None:
        who = log.who[at]
        others = (who != _NOBODY) & (who != me)
        if not others.any():
            return
        known = self.known.get(me)
        if known is not None:
            others &= log.when[at] > known[who]
            if not others.any():
                return
        first = int(at[int(np.argmax(others))])
        them, place = int(log.who[first]), self.places[int(log.where[first])]
        byte = first * shadow.grain
        does = "stores to" if op.name == "store" else "loads"
        raise Race(f"a race: this {does} {buffer.name} + {byte}, where {self.name(them)} has "
                   f"{did}, and nothing orders the two instances",
                   Note(f"{self.name(them)} has {did} here", place.span),
                   Note("an atomic operation on a scalar, such as a lock or a flag, orders "
                        "instances"))
