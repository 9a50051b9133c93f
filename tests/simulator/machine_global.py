"""Accesses of global memory as the threads of an instance make them (see `machine`).

The interpreter's own steps do the work; what is added is who did it.  A scalar is loaded by all
threads, stored and changed atomically by the first one.  Such an atomic operation, or a scalar
store in a kernel that has them, may be what other instances wait for: all threads must be done with
what it guards, and none may begin before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from simulator.hazards import Hazards
from simulator.machine_state import Machine, holders, owners
from tritonc.interp.frame import Frame
from tritonc.interp.steps import step_of
from tritonc.ir.core import Op, Value
from tritonc.ir.numeric.formats import memory_dtype
from tritonc.ir.rules import pointee
from tritonc.ir.types import Tile, element, shape


def _load(machine: Machine, frame: Frame, op: Op) -> None:
    _plain(machine, frame, op)
    use(machine, frame, op, op.operands[0], frame.guard(op), write=False)


def _store(machine: Machine, frame: Frame, op: Op) -> None:
    _plain(machine, frame, op)
    if op.attributes.get("release"):
        _lock(machine, frame, op)
    use(machine, frame, op, op.operands[0], frame.guard(op), write=True)


def _atomic(machine: Machine, frame: Frame, op: Op) -> None:
    _plain(machine, frame, op)
    alone = not shape(op.operands[0].type)
    if alone:
        _lock(machine, frame, op)
    reads = op.attributes.get("kind") == "load"
    use(machine, frame, op, op.operands[0], frame.guard(op), write=not reads, once=True)
    if alone:
        machine.locked = True


def _plain(machine: Machine, frame: Frame, op: Op) -> None:
    """What the interpreter itself does."""
    if op not in machine.plain:
        step = step_of(replace(frame.launch, handlers={}), op)
        assert step is not None
        machine.plain[op] = step
    machine.plain[op](frame)


def _lock(machine: Machine, frame: Frame, op: Op) -> None:
    """The first thread tells other instances how far this one is."""
    if machine.others:
        frame.fail(op, "run-race", "other threads of the instance may still use memory that this "
                   f"{op.name} guards: no barrier stands between")


def use(machine: Machine, frame: Frame, op: Op, pointer: Value, active: Any, write: bool,
        once: bool = False) -> None:
    """Record an access to global memory, by the threads that the pointer's layout names; `once`
    by one for each element, as stores are."""
    t = pointer.type
    if isinstance(t, Tile) and t.layout is None:
        return
    threads = (owners if write or once else holders)(pointer)
    addresses = np.asarray(frame.read(pointer)).reshape(-1)
    if active is not None:
        where = np.asarray(active).reshape(-1)
        addresses, threads = addresses[where], threads[where]
    if (threads != 0).any():
        machine.others = True
        if machine.locked:
            frame.fail(op, "run-race", "another thread of the instance has taken a lock, and no "
                       f"barrier stands between that and this {op.name}")
    width = memory_dtype(element(pointee(t))).itemsize
    for buffer, which, index, inside in frame.memory.find(addresses, width, False):
        if buffer.base not in machine.memory:
            machine.memory[buffer.base] = Hazards(buffer.size)
        table, mine = machine.memory[buffer.base], threads[which]
        if inside is not None:
            index, mine = index[inside], mine[inside]
        wrong = (table.write if write else table.read)(index, width, mine)
        if wrong is not None:
            verb = "stores to" if write else "loads"
            at = buffer.base + int(index[int(np.argmax(wrong))]) * width
            frame.fail(op, "run-race", f"this {op.name} {verb} {frame.memory.place(at)}, which "
                       "another thread of the instance used, with no barrier between")


SIMULATED: dict[str, Callable[[Machine, Frame, Op], Any]] = {
    "load": _load, "store": _store, "atomic_rmw": _atomic, "atomic_cas": _atomic,
}
