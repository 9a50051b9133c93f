"""What machine operations do: the interpreter's handlers for a kernel in the backend.

    interp.run(module, name, arguments, memory, grid, table=ALL_OPS, handlers=handlers())

A value of the interpreter is a whole tile, so that a kernel with a barrier too few would still
compute the right thing.  Here each access to shared memory is made by the threads that the layouts
name, and what only happens to work in one order of threads is an error, located at the operation
that comes too early:

  - reading what another thread wrote since the last barrier, writing what another one read or wrote
  - reading bytes that this buffer did not write since it was allocated: they were never written, or
    belong to another buffer, whose `offset` gives it the same bytes
  - touching a stage into which a copy is in flight; what a copy brings belongs, from its wait on,
    to the thread that started it, so that others need a barrier after the wait
  - using the result of a product in flight (`wgmma`), or overwriting what it reads; letting it read
    what threads wrote without a fence between, and a barrier after that (`machine_tensor`)
  - the same of global memory: a load of what another thread of the instance stored, and a lock that
    one thread takes or gives back while others may still use what it guards (`machine_global`)

Shared memory is one array of bytes where buffers have offsets; before, each is on its own.  With
`check=False` the operations only compute, for kernels whose barriers are not yet inserted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np

from simulator import clusters, hazards, machine_global, machine_tensor
from simulator.hazards import Threads
from simulator.machine_state import ALL, Copy, Machine, View, holders, owners
from tritonc.interp import arrays
from tritonc.interp.frame import Frame, Handler, Step
from tritonc.interp.undefined import dot_undefined, either
from tritonc.ir.core import Op, Value
from tritonc.ir.types import Buffer, Tile, shape

Simulated = Callable[[Machine, Frame, Op], Any]
MULTIPROCESSORS = 2  # few, so that blocks that stay for several instances have several


def handlers(check: bool = True) -> dict[str, Handler]:
    """A handler for each machine operation, and for those that reach global memory.

    `check`: report accesses with too few barriers.
    """
    plain: dict[Op, Step] = {}

    def handler(simulated: Simulated) -> Handler:
        def handle(frame: Frame, op: Op) -> Any:
            machine = frame.instance.state.get("machine")
            if machine is None:
                machine = frame.instance.state["machine"] = Machine(check, plain)
            return simulated(machine, frame, op)

        return handle

    table = dict(_SIMULATED)
    table |= machine_tensor.SIMULATED
    if check:
        table |= machine_global.SIMULATED
    return {name: handler(simulated) for name, simulated in table.items()}


# ---- buffers


def _buffer_stage(machine: Machine, frame: Frame, op: Op) -> Any:
    view: View = frame.read(op.operands[0])
    frame.require(op, op.operands[1], None, "the number of this stage")
    stage = int(frame.read(op.operands[1]))
    if not 0 <= stage < len(view.offsets):
        frame.fail(op, "run-out-of-bounds", f"stage {stage} of {len(view.offsets)}")
    return (view.at(view.offsets[stage : stage + 1]),)


def _buffer_trans(machine: Machine, frame: Frame, op: Op) -> Any:
    view: View = frame.read(op.operands[0])
    order = [0, *(d + 1 for d in op.attributes["permutation"])]
    return (view.at(view.offsets.transpose(order)),)


def _buffer_reshape(machine: Machine, frame: Frame, op: Op) -> Any:
    view: View = frame.read(op.operands[0])
    t = op.result.type
    assert isinstance(t, Buffer)
    return (view.at(view.offsets.reshape(len(view.offsets), *t.shape)),)


# ---- tiles to and from buffers


def _shared_store(machine: Machine, frame: Frame, op: Op) -> None:
    view: View = frame.read(op.operands[0])
    value, *some = op.operands[1:]
    if not all(frame.read(condition) for condition in some):
        return
    array, undefined, threads = frame.read(value), frame.undefined.get(value), owners(value)
    extents = shape(value.type)
    if "bits" in op.attributes:
        places = _part(op, value, op.attributes["index"])
        if view.offsets.shape[1:] == extents:
            view = view.at(view.offsets.reshape(1, -1)[:, places])
        extents = view.offsets.shape[1:]
        array, threads = np.asarray(array).reshape(-1)[places], threads[places]
        if undefined is not None:
            undefined = (np.asarray(undefined[0]).reshape(-1)[places], undefined[1])
    machine.overwrites(frame, op, view, threads, extents)
    machine.put(view, array, undefined, threads)


def _shared_load(machine: Machine, frame: Frame, op: Op) -> None:
    view: View = frame.read(op.operands[0])
    _load(machine, frame, op, view)


def _load(machine: Machine, frame: Frame, op: Op, view: View) -> None:
    frame.define(op.result, *machine.get(frame, op, view, holders(op.result),
                                         shape(op.result.type)))


def _load_slice(machine: Machine, frame: Frame, op: Op) -> None:
    view: View = frame.read(op.operands[0])
    index, axis = op.attributes["index"], op.attributes["axis"]
    _load(machine, frame, op, view.at(np.take(view.offsets, [index], axis + 1)))


def _tile_part(machine: Machine, frame: Frame, op: Op) -> None:
    places = _part(op, op.operands[0], op.attributes["index"])
    array, (mask, cause) = frame.read(op.operands[0]), frame.unknown(op.operands[0])
    extents = shape(op.result.type)
    frame.define(op.result, np.asarray(array).reshape(-1)[places].reshape(extents),
                 None if mask is None else np.asarray(mask).reshape(-1)[places].reshape(extents),
                 cause)


def _join_parts(machine: Machine, frame: Frame, op: Op) -> None:
    size = prod(shape(op.result.type))
    array = np.empty(size, np.asarray(frame.read(op.operands[0])).dtype)
    mask, cause = np.zeros(size, np.bool_), None
    for index, part in enumerate(op.operands):
        places = _part(op, op.result, index)
        array[places] = np.asarray(frame.read(part)).reshape(-1)
        if part in frame.undefined:
            unknown, cause = frame.unknown(part)
            mask[places] = np.asarray(unknown).reshape(-1)
    extents = shape(op.result.type)
    frame.define(op.result, array.reshape(extents), mask.reshape(extents), cause)


def _part(op: Op, whole: Value, index: int) -> Any:
    """The row-major numbers of a part's elements."""
    return _chosen(prod(shape(whole.type)), (*op.attributes["bits"],), index)


@cache
def _chosen(size: int, bits: tuple[int, ...], index: int) -> Any:
    numbers = np.arange(size)
    chosen = [(numbers & bit != 0) == bool(index >> i & 1) for i, bit in enumerate(bits)]
    return np.flatnonzero(np.logical_and.reduce(chosen))


def _gather(machine: Machine, frame: Frame, op: Op) -> None:
    source, index = op.operands
    places, unknown = _indices(frame, op, index, prod(shape(source.type)))
    found = np.asarray(frame.read(source)).reshape(-1)[places]
    above, cause = frame.unknown(source)
    mask = unknown if above is None else either([np.asarray(above).reshape(-1)[places], unknown])
    frame.define(op.result, found, mask, cause or op)


def _shift_lanes(machine: Machine, frame: Frame, op: Op) -> None:
    axis, by, wrap = op.attributes["shift"]
    extent = shape(op.result.type)[axis]
    places = np.arange(extent) + by
    places = places % extent if wrap else np.clip(places, 0, extent - 1)
    above, cause = frame.unknown(op.operands[0])
    mask = None if above is None else np.asarray(above).take(places, axis)
    frame.define(op.result, np.asarray(frame.read(op.operands[0])).take(places, axis), mask, cause)


def _shared_gather(machine: Machine, frame: Frame, op: Op) -> None:
    view: View = frame.read(op.operands[0])
    places, unknown = _indices(frame, op, op.operands[1], view.offsets.size)
    chosen = view.at(view.offsets.reshape(-1)[places])
    found, mask, cause = machine.get(frame, op, chosen, holders(op.result),
                                     shape(op.result.type))
    frame.define(op.result, found, either([mask, unknown]), cause or op)


def _shared_atomic(machine: Machine, frame: Frame, op: Op) -> None:
    buffer, index, value = op.operands
    view: View = frame.read(buffer)
    active = frame.guard(op)
    frame.require(op, index, active, "an index of this atomic operation")
    frame.require(op, value, active, "an operand of this atomic operation")
    places, given = (np.asarray(frame.read(v)).reshape(-1) for v in (index, value))
    if active is not None:
        places, given = (a[np.asarray(active).reshape(-1)] for a in (places, given))
    if ((places < 0) | (places >= view.offsets.size)).any():
        frame.fail(op, "run-out-of-bounds", "an index of this atomic operation is outside of the "
                   f"buffer's {view.offsets.size} elements")
    touched = np.unique(places)
    chosen = view.at(view.offsets.reshape(-1)[touched])
    threads = np.array([hazards.ATOMIC], np.int16)
    held, undefined, cause = machine.get(frame, op, chosen, threads, touched.shape)
    total = dict(zip(touched.tolist(), held))
    e, kind = view.element, op.attributes["kind"]
    for place, one in zip(places.tolist(), given):
        total[place] = arrays.combine(e, kind, total[place], one)
    machine.overwrites(frame, op, chosen, threads, touched.shape)
    machine.put(chosen, np.array([total[place] for place in touched.tolist()], held.dtype),
                None if undefined is None or cause is None else (undefined, cause), threads)


def _indices(frame: Frame, op: Op, index: Value, size: int) -> tuple[Any, Any]:
    """The places, and where none is known: there it is the first."""
    places, unknown = frame.read(index), frame.mask(index)
    if unknown is not None:
        places = np.where(unknown, 0, places)
    wrong = (places < 0) | (places >= size)
    if wrong.any():
        frame.fail(op, "run-out-of-bounds", f"the index: not below {size}", wrong)
    return places, unknown


def _dot(machine: Machine, frame: Frame, op: Op) -> None:
    _read_late(machine, frame, op)
    found, masks, causes = [], [], []
    for i, operand in enumerate(op.operands):
        if isinstance(operand.type, Buffer):
            array, mask, cause = machine.get(frame, op, frame.read(operand),
                                             _dot_readers(op, i, operand.type),
                                             shape(operand.type))
        else:
            array, (mask, cause) = frame.read(operand), frame.unknown(operand)
        found.append(array)
        masks.append(mask)
        causes.append(cause)
    mask = dot_undefined(op, masks)
    cause = next((c for c, m in zip(causes, masks, strict=True) if m is not None), None)
    frame.define(op.result, arrays.dot(op, *found), mask, cause)


def _read_late(machine: Machine, frame: Frame, dot: Op) -> None:
    """The loads of a dot's operands that it makes itself read what they read before."""
    stack = [value.op for value in dot.operands]
    while stack:
        op = stack.pop()
        if op is None or not op.attributes.keys() & {"late", "piecewise"}:
            continue
        if op.name == "shared_load":
            machine.get(frame, dot, frame.read(op.operands[0]), holders(op.result),
                        shape(op.result.type))
        else:
            stack += [value.op for value in op.operands]


def _dot_readers(op: Op, i: int, buffer: Buffer) -> Threads:
    """The threads that read each element of a dot's operand, flat."""
    result = op.result.type
    if op.name != "fma_dot" or not isinstance(result, Tile) or result.layout is None:
        return ALL
    rows = hazards.dot_readers(result.layout, i)
    rows = rows.reshape(*buffer.shape[:-2], buffer.shape[-2 + i])
    return np.broadcast_to(np.expand_dims(rows, -1 if i == 0 else -2), buffer.shape).reshape(-1)


# ---- synchronisation


def _cluster_arrive(machine: Machine, frame: Frame, op: Op) -> None:
    """From here on peers may write to the mailboxes at any time."""
    for mailbox in op.operands:
        view: View = frame.read(mailbox)
        machine.untouched(frame, op, view, view.places.shape, write=True)
        view.put(view.space.in_flight, True)
    clusters.cluster_arrive(frame, op)


def _cluster_reduce(machine: Machine, frame: Frame, op: Op) -> None:
    """The sum itself is one operation; its end is a barrier of all threads of all blocks."""
    clusters.cluster_reduce(frame, op)
    assert frame.pause is not None
    ready, go_on = frame.pause

    def met() -> None:
        go_on()
        machine.barrier()
        for mailbox in op.operands[1:]:
            view: View = frame.read(mailbox)
            view.put(view.space.in_flight, False)

    frame.pause = ready, met


def _async_copy(machine: Machine, frame: Frame, op: Op) -> None:
    view: View = frame.read(op.operands[0])
    pointer, *some = op.operands[1:]
    for condition in some:
        frame.require(op, condition, None, "whether this copy is wanted")
        if not frame.read(condition):
            return
    active = frame.guard(op)
    frame.require(op, pointer, active, "the address of this copy")
    addresses = frame.read(pointer)
    held, undefined = frame.gather(op, view.element, addresses, active)
    machine.overwrites(frame, op, view, owners(pointer), shape(pointer.type))
    if machine.check:
        machine_global.use(machine, frame, op, pointer, active, write=False)
    view.put(view.space.in_flight, True)
    machine.opened.append(Copy(op, view, addresses, active, held, undefined, owners(pointer)))


def _async_commit(machine: Machine, frame: Frame, op: Op) -> None:
    machine.groups.append(machine.opened)
    machine.opened = []


def _async_wait(machine: Machine, frame: Frame, op: Op) -> None:
    while len(machine.groups) > op.attributes["pending"]:
        for copy in machine.groups.popleft():
            machine.land(frame, copy, everybody=False)


_SIMULATED: dict[str, Simulated] = {
    "get_num_multiprocessors": lambda machine, frame, op: np.int32(MULTIPROCESSORS),
    "first_warp": lambda machine, frame, op: np.bool_(True),
    "own_program": lambda machine, frame, op: np.bool_(True),  # both, one after the other
    "device_fence": lambda machine, frame, op: None,  # matters to other programs
    "alloc_shared": lambda machine, frame, op: (machine.allocate(frame, op),),
    "buffer_stage": _buffer_stage, "buffer_trans": _buffer_trans,
    "buffer_reshape": _buffer_reshape,
    "shared_store": _shared_store, "shared_load": _shared_load,
    "load_slice": _load_slice,
    "tile_part": _tile_part, "join_parts": _join_parts,
    "shared_atomic": _shared_atomic,
    "gather": _gather, "shift_lanes": _shift_lanes, "shared_gather": _shared_gather,
    "fma_dot": _dot, "mma_dot": _dot,
    "get_cluster_rank": lambda machine, frame, op: clusters.get_cluster_rank(frame, op),
    "cluster_arrive": _cluster_arrive, "cluster_reduce": _cluster_reduce,
    "group_barrier": lambda machine, frame, op: machine.group_barrier(),
    "order_barrier": lambda machine, frame, op: None,  # all warpgroups do everything at once here
    **dict.fromkeys(("barrier", "memory_barrier"), lambda machine, frame, op: machine.barrier()),
    "async_copy": _async_copy, "async_commit": _async_commit, "async_wait": _async_wait,
}
