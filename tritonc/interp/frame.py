"""What the interpreter keeps: the launch, its instances, the frames that hold values.

Handlers of machine operations and the steps of ordinary ones (`interp.steps`) work on a `Frame`."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NoReturn

import numpy as np

from tritonc.interp.memory import BadAccess, Buffer, Memory
from tritonc.interp.races import Race, Races
from tritonc.interp.spread import Spread
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.numeric.formats import from_memory, memory_dtype, register_dtype, to_memory
from tritonc.ir.ops import OpInfo
from tritonc.ir.types import Element
from tritonc.records import dataclass
from tritonc.source import CompileError, Diagnostic, Note

Undefined = tuple[Any, Op]  # a mask of a value's shape, and the operation that began it
Step = Callable[["Frame"], Any]
Handler = Callable[["Frame", Op], Any]
Warn = Callable[..., None]  # name, place, message, notes


class InterpreterError(CompileError):
    """What the program did wrong while it ran."""


@dataclass(eq=False)
class Plan:
    """A block made ready: its steps, and what follows."""

    position: int  # in the kernel
    steps: list[Step]
    terminator: Op
    targets: "list[Plan]" = field(default_factory=list)
    moves: list[list[tuple[Value, Value]]] = field(default_factory=list)  # phis, per target
    pauses: bool = False  # whether a step may


@dataclass(eq=False)
class Launch:
    """What all instances share."""

    kernel: Kernel
    memory: Memory
    grid: tuple[int, ...]
    table: Mapping[str, OpInfo]
    handlers: Mapping[str, Handler]
    step_limit: int
    output: Callable[[str], Any]
    entry: Plan | None = None
    constants: dict[Value, Any] = field(default_factory=dict)
    undefined: dict[Value, Undefined] = field(default_factory=dict)  # of the constants
    races: Races | None = None  # None where nobody looks for them
    interleaved: bool = False  # every instance has its turn after each block
    changes: int = 0  # of memory, as far as `races` looks
    spread: Spread | None = None  # None where every value is kept as it is
    plans: list[tuple[Plan, list[Op | None]]] = field(default_factory=list)  # operations by step
    warn: Warn | None = None  # takes what is amiss and goes on


@dataclass(eq=False)
class Cluster:
    """What the blocks of one cluster share: the parts of sums that they have given, by operation
    and how many times it ran before, then by block; and the blocks that have ended."""

    size: int
    given: dict[tuple[Op, int], dict[int, Any]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)


class Instance:
    """One instance of the kernel: its index in the grid.  Where a cluster of blocks computes one,
    the part of block `rank`."""

    def __init__(self, index: tuple[int, ...], rank: int = 0, cluster: Cluster | None = None
                 ) -> None:
        self.index = index
        self.rank = rank
        self.cluster = cluster
        self.state: dict[Any, Any] = {}  # for handlers


class Frame:
    """The values of an instance, and what handlers and steps need of it."""

    __slots__ = ("at", "idle", "instance", "launch", "overflowed", "pause", "steps",
                 "synchronised", "undefined", "values")

    def __init__(self, launch: Launch, instance: Instance, values: dict[Value, Any],
                 undefined: dict[Value, Undefined]) -> None:
        self.launch = launch
        self.instance = instance
        self.values = values
        self.undefined = undefined
        self.overflowed: dict[Value, tuple[Any, Op]] = {}  # elements that depend on an overflow
        self.steps = 0
        # Set by a step that waits for other instances: whether it may go on, and what follows.
        self.pause: tuple[Callable[[], bool], Callable[[], None]] | None = None
        self.at: Op | None = None  # where it waits
        self.idle = False  # and that nothing of its own changed since it waited last
        self.synchronised = False  # has executed an atomic since its last iteration of a loop

    @property
    def memory(self) -> Memory:
        return self.launch.memory

    def read(self, value: Value) -> Any:
        """The array of a value, some elements of which may be undefined."""
        return self.values[value]

    def unknown(self, value: Value) -> tuple[Any, Op | None]:
        """Which elements of a value are undefined, and since which operation; None for none."""
        return self.undefined.get(value, (None, None))

    def mask(self, value: Value) -> Any:
        """Which elements of a value are undefined; None for none."""
        return self.unknown(value)[0]

    def define(self, value: Value, array: Any, undefined: Any = None,
               cause: Op | None = None) -> None:
        """Give a value its array; elements of the mask `undefined` are so because of `cause`."""
        self.values[value] = array
        if undefined is not None and np.any(undefined):
            assert cause is not None
            self.undefined[value] = (undefined, cause)
        elif self.undefined:
            self.undefined.pop(value, None)

    def require(self, op: Op, value: Value, active: Any, use: str) -> None:
        """Report an undefined element of `value` where `active` (None: everywhere) holds."""
        mask, cause = self.unknown(value)
        if cause is not None:
            bad = mask if active is None else mask & active
            if np.any(bad):
                self.fail(op, "run-undefined", f"{use} is undefined", bad, _reason(cause, value))

    def guard(self, op: Op) -> Any:
        """The mask under which an operation takes effect; None for everywhere."""
        if op.guard is None:
            return None
        self.require(op, op.guard, None, "the guard of this operation")
        found = self.values[op.guard]
        return None if found.all() else found

    def fail(self, op: Op, name: str, message: str, where: Any = None, *notes: Note) -> NoReturn:
        """Raise InterpreterError; `where` is a mask, the first element of which is named."""
        if where is not None and np.ndim(where):
            first = np.unravel_index(int(np.argmax(where)), np.shape(where))
            message = f"element [{', '.join(map(str, first))}] of {message}"
        index = ", ".join(map(str, self.instance.index))
        inside = Note(f"in instance ({index}) of kernel '{self.launch.kernel.name}'")
        raise InterpreterError([Diagnostic(name, "error", message, op.span, (*notes, inside))])

    def gather(self, op: Op, e: Element, addresses: Any, active: Any) -> tuple[Any, Any]:
        """Load elements `e`: held array and mask of those from a buffer's padding, or None.

        Elements where `active` (None: everywhere) does not hold are zero."""
        dtype = memory_dtype(e)
        flat = _active(addresses, active)
        raw: Any = None
        undefined = None
        try:
            for buffer, which, index, inside in self.memory.find(flat, dtype.itemsize, False):
                if inside is not None:
                    undefined = np.zeros(flat.shape, np.bool_) if undefined is None else undefined
                    undefined[which] = ~inside
                    index = np.where(inside, index, 0)
                    found = np.where(inside, buffer.view(dtype)[index], dtype.type(0))
                else:
                    found = buffer.view(dtype).take(index)
                if self.launch.races is not None and op.name == "load":
                    self._note_load(self.launch.races, op, buffer,
                                    index if inside is None else index[inside], dtype.itemsize)
                if isinstance(which, slice):
                    raw = found
                else:
                    raw = np.zeros(flat.shape, dtype) if raw is None else raw
                    raw[which] = found
        except BadAccess as bad:
            self._bad_access(op, bad, np.shape(addresses), active)
        except Race as race:
            self.fail(op, "run-race", str(race), None, *race.notes)
        held = np.zeros(0, register_dtype(e)) if raw is None else from_memory(e, raw)
        return (_scattered(held, addresses, active),
                None if undefined is None else _scattered(undefined, addresses, active))

    def scatter(self, op: Op, e: Element, addresses: Any, array: Any, active: Any) -> None:
        """Store held elements `e` where `active` (None: everywhere) holds."""
        dtype = memory_dtype(e)
        raw = _active(to_memory(e, array), active)
        flat = _active(addresses, active)
        try:
            for buffer, which, index, _ in self.memory.find(flat, dtype.itemsize, True):
                if self.launch.races is not None:
                    self._note_store(self.launch.races, op, buffer, index, raw[which])
                buffer.view(dtype)[index] = raw[which]
        except BadAccess as bad:
            self._bad_access(op, bad, np.shape(addresses), active)
        except Race as race:
            self.fail(op, "run-race", str(race), None, *race.notes)

    def _note_load(self, races: Races, op: Op, buffer: Buffer, index: Any, size: int) -> None:
        if len(index) == 1 and races.touches(buffer.base + int(index[0]) * size):
            return
        races.load(self.instance.index, op, buffer, index, size)

    def _note_store(self, races: Races, op: Op, buffer: Buffer, index: Any, raw: Any) -> None:
        bits = np.dtype(f"u{raw.dtype.itemsize}")
        changed = buffer.view(raw.dtype)[index].view(bits) != raw.view(bits)
        self.launch.changes += bool(changed.any())
        if op.name != "store":
            return
        address = buffer.base + int(index[0]) * raw.dtype.itemsize
        if len(index) == 1 and races.touches(address):
            races.atomic(self.instance.index, op, address)
        elif changed.any():
            races.store(self.instance.index, op, buffer, index[changed], raw.dtype.itemsize)

    def _bad_access(self, op: Op, bad: BadAccess, shape: tuple[int, ...], active: Any) -> NoReturn:
        at = bad.element if active is None else int(np.flatnonzero(active)[bad.element])
        found = np.unravel_index(at, shape)
        place = f"element [{', '.join(map(str, found))}] " if shape else ""
        kind = {"run-out-of-bounds": f"{op.name} out of bounds: ",
                "run-misaligned": f"misaligned {op.name}: ",
                "run-constant-store": f"{op.name} to constant memory: "}[bad.name]
        unmasked = shape and op.guard is None and bad.name == "run-out-of-bounds"
        note = Note("this access has no mask; '@(condition)' before the statement, or 'condition ? "
                    "*p : 0', limits it to elements where the condition holds")
        self.fail(op, bad.name, f"{kind}{place}{bad.message}", None, *([note] if unmasked else []))


def _active(a: Any, active: Any) -> Any:
    """The elements of an array where `active` (None: everywhere) holds, flat."""
    return a.reshape(-1) if active is None else np.asarray(a)[active].reshape(-1)


def _scattered(found: Any, like: Any, active: Any) -> Any:
    """`found`, in the shape of `like`; where `active` is given, at its elements, else zeros."""
    if active is None:
        return found.reshape(like.shape) if like.shape else found[0]
    spread = np.zeros(like.shape, found.dtype)
    spread[active] = found
    return spread if like.shape else spread[()]


def _reason(cause: Op, value: Value) -> Note:
    what = {
        "undef": "it was never assigned",
        "load": "this load was masked off there, or read the padding of a buffer",
        "psi": "no predicate of these values holds there",
    }.get(cause.name, f"it is undefined since this '{cause.name}'")
    if cause.name in ("shl", "lshr", "ashr"):
        what = "it was shifted past the width of its type"
    return Note(what, cause.span)
