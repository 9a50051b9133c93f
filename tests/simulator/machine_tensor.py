"""Products and copies that run beside the threads: wgmma and TMA loads (see `machine`).

*wgmma* reads its buffers at any time until it has been waited for, and its result is there only
then: until the wait, all its elements count as undefined.

*TMA loads* are simulated by what the hardware does, not by what a layout says: a box of the
tensor goes to shared memory row by row, and bits 4 to 6 of a byte's address are XORed with bits 7
to 9 (fewer for narrower swizzles).  A layout that says otherwise gives wrong results here too.  The
bytes count at a stage; a wait for the stage's phase makes them visible to the thread that
waits.  Stores of boxes read their buffers at any time until they have been waited for.

Both go to shared memory by another way than the threads' own accesses (PTX ISA, "proxies"): what a
thread wrote must be fenced by it and then be followed by a barrier.  What a thread *read* needs the
barrier only.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as pairs
from math import prod
from typing import Any

import numpy as np

from simulator.hazards import GROUP_BITS, NOBODY, RELEASED
from simulator.machine_state import (
    ALL,
    FENCED,
    FIRST,
    SEEN,
    UNFENCED,
    Copy,
    Extents,
    Machine,
    Product,
    Stage,
    TensorMap,
    Undefined,
    View,
)
from tritonc.interp import arrays
from tritonc.interp.frame import Frame
from tritonc.interp.undefined import dot_undefined
from tritonc.ir.core import Op, Value
from tritonc.ir.types import SCALARS, Buffer, shape


def _fenced(machine: Machine, frame: Frame, op: Op, view: View, extents: Extents) -> None:
    """Report elements whose last writes by threads are not yet seen by the other way."""
    machine.race(frame, op, view.any(view.space.proxy), extents,
                 f"what this {op.name} uses: threads wrote it, with no proxy_fence and barrier "
                 "between")


def _proxy_fence(machine: Machine, frame: Frame, op: Op) -> None:
    for space in machine.spaces():
        space.proxy[space.proxy == UNFENCED] = FENCED


# ---- wgmma


def _wgmma(machine: Machine, frame: Frame, op: Op) -> None:
    part, columns = (slice(*op.attributes.get(name, (None,))) for name in ("inner", "columns"))
    asked = columns if "columns" in op.attributes else slice(op.attributes.get("asked"))
    views: list[View] = []
    found, masks, causes = [], [], []
    for i, operand in enumerate(op.operands):
        array, unknown = _known(machine, frame, operand)
        if isinstance(operand.type, Buffer):
            axes = (..., part) if i == 0 else (..., part, asked)
            view: View = array.at(array.offsets[axes])
            extents = view.offsets.shape[1:]
            _fenced(machine, frame, op, view, extents)
            array, *rest = machine.get(frame, op, view, ALL, extents)
            unknown = (rest[0], rest[1]) if rest[0] is not None and rest[1] is not None else None
            if i == 1 and (left_out := array.shape[-1] - shape(op.result.type)[-1]) < 0:
                array, unknown = _wider(array, unknown, -left_out, op)
            view.space.products.reshape(-1, view.element.bytes)[view.places] += 1
            views.append(view)
        elif i == 0:
            array = array[..., part]
        found.append(array)
        masks.append(None if unknown is None else unknown[0])
        causes.append(None if unknown is None else unknown[1])
    result, mask = arrays.dot(op, *found), dot_undefined(op, masks)
    cause = next((c for c in causes if c is not None), op)
    product = Product(op, result, None if mask is None else (mask, cause), views)
    machine.products.append(product)
    frame.define(op.result, result, np.ones(result.shape, np.bool_), op)


def _known(machine: Machine, frame: Frame, value: Value) -> tuple[Any, Undefined | None]:
    """A value as products see it, which read the results of those before them in flight."""
    array = frame.read(value)
    for product in machine.products:
        if product.result is array:
            return array, product.undefined
    return array, frame.undefined.get(value)


def _wider(array: Any, unknown: Any, columns: int, op: Op) -> tuple[Any, Any]:
    """With columns that nobody reads, as nobody asks for what they give."""
    mask, cause = unknown or (np.zeros(array.shape, np.bool_), op)
    more = [(0, 0)] * (array.ndim - 1) + [(0, columns)]
    return np.pad(array, more), (np.pad(mask, more, constant_values=True), cause)


def _wgmma_wait(machine: Machine, frame: Frame, op: Op) -> None:
    while len(machine.products) > op.attributes["pending"]:
        product = machine.products.popleft()
        for view in product.views:
            view.space.products.reshape(-1, view.element.bytes)[view.places] -= 1
            view.space.hazards.read(view.places, view.element.bytes, ALL)
        machine.ended.append(product)
    for value, result in zip(op.operands, op.results, strict=False):
        array, unknown = frame.read(value), frame.undefined.get(value)
        for product in machine.ended:
            if product.result is array:
                unknown = product.undefined
        frame.define(result, array, *(unknown or ()))


# ---- TMA loads


def _claim_slot(machine: Machine, frame: Frame, op: Op) -> Any:
    """The cell is written, so that whoever reads it needs a barrier."""
    machine.serial += 1
    machine.engine.slots[machine.serial] = {}
    view: View = frame.read(op.operands[0])
    machine.overwrites(frame, op, view, FIRST, view.offsets.shape)
    machine.put(view, np.full(view.offsets.shape, machine.serial), None, FIRST, SEEN)
    return np.int64(machine.serial)


def _release_slot(machine: Machine, frame: Frame, op: Op) -> None:
    engine = machine.engine
    if any(stage.copies for stage in engine.stages()):
        frame.fail(op, "run-race", "a copy that reads a map of this slot is in flight")
    if any(stage.awaited is not None for stage in engine.stages()):
        frame.fail(op, "run-too-long", "a copy that is waited for was never started")
    if engine.stores:
        frame.fail(op, "run-race", "a store that reads a map of this slot is in flight")
    del engine.slots[int(frame.read(op.operands[0]))]


def _tensor_map(machine: Machine, frame: Frame, op: Op) -> None:
    _, base, extent0, extent1, stride, *depth = op.operands
    box = op.attributes["box"]
    if op.attributes.get("short"):
        box = box[0], int(frame.read(depth.pop()))
    for value in op.operands[1:]:
        frame.require(op, value, None, "a field of this map")
    found = TensorMap(int(frame.read(base)), (int(frame.read(extent0)), int(frame.read(extent1))),
                      int(frame.read(stride)), SCALARS[op.attributes["element"]],
                      tuple(box), op.attributes["swizzle"],
                      tuple(int(frame.read(v)) for v in depth))
    machine.engine.made[op.attributes["index"]] = found


def _publish_maps(machine: Machine, frame: Frame, op: Op) -> None:
    engine, cell = machine.engine, frame.read(op.operands[2])
    machine.get(frame, op, cell, ALL, cell.offsets.shape)
    for index in op.attributes["indices"]:
        engine.slots[int(frame.read(op.operands[0]))][index] = engine.made.pop(index)


def _check_map(frame: Frame, op: Op, tensor: TensorMap) -> None:
    """A map that no copy uses may hold anything."""
    if any(n % 16 for n in (tensor.base, tensor.stride, *tensor.depth)):
        frame.fail(op, "run-misaligned", f"misaligned map: base {tensor.base:#x} and stride "
                   f"{tensor.stride} are not both multiples of 16")
    if min(tensor.extents) < 1 or not 0 <= tensor.stride < 1 << 40 or max(tensor.box) > 256:
        frame.fail(op, "run-out-of-bounds", f"no such map: extents {tensor.extents}, stride "
                   f"{tensor.stride}, box {tensor.box}")


def _init_barriers(machine: Machine, frame: Frame, op: Op) -> None:
    view: View = frame.read(op.operands[0])
    extents = view.offsets.shape
    threads = np.zeros(view.offsets.size, np.int16)
    machine.overwrites(frame, op, view, threads, extents)
    machine.put(view, np.zeros(extents, np.int64), None, threads, SEEN)
    machine.engine.barriers[view.serial] = {int(first): Stage() for first in view.offsets[:, 0]}


def _stage(machine: Machine, view: View) -> Stage:
    return machine.engine.barriers[view.serial][int(view.offsets[0, 0])]


def _expect_full(machine: Machine, frame: Frame, op: Op) -> None:
    if _off(frame, op):
        return
    stage = _stage(machine, frame.read(op.operands[0]))
    if stage.expected is not None:
        frame.fail(op, "run-race", "the phase before has not ended")
    stage.expected = op.attributes["bytes"] + sum(int(frame.read(v)) for v in op.operands[1:])


def _arrive_full(machine: Machine, frame: Frame, op: Op) -> None:
    if _off(frame, op):
        return
    view: View = frame.read(op.operands[0])
    machine.get(frame, op, view, ALL, view.offsets.shape)
    stage = _stage(machine, view)
    if stage.expected is not None:
        frame.fail(op, "run-race", "copies to this stage are under way")
    stage.phases, stage.awaited = stage.phases + 1, None


def _off(frame: Frame, op: Op) -> bool:
    """Whether the guard of a scalar operation does not hold."""
    active = frame.guard(op)
    return active is not None and not bool(active)


def _tma_load(machine: Machine, frame: Frame, op: Op) -> None:
    if _off(frame, op):
        return
    buffer, full = (frame.read(v) for v in op.operands[:2])
    tensor, (start0, *others) = _mapped(machine, frame, op, 2)
    if "nothing" in op.attributes and others[0] == op.attributes["box"][1]:
        tensor, _ = _mapped(machine, frame, op, 2, op.attributes["nothing"])
    if not tensor.piece([start0, *others])[1].any():  # a GPU touches the base of the tensor then
        frame.gather(op, buffer.element, np.array([tensor.base]), np.array([True]))
    for panel in range(op.attributes["panels"]):
        addresses, active = tensor.piece([start0 + panel * tensor.box[0], *others])
        held, undefined = frame.gather(op, buffer.element, addresses, active)
        view = _panel(buffer, panel, tensor, op.attributes.get("row"), op.attributes["panels"])
        machine.overwrites(frame, op, view, FIRST, held.shape)
        _fenced(machine, frame, op, view, held.shape)
        view.put(view.space.in_flight, True)
        _stage(machine, full).copies.append(
            Copy(op, view, addresses, active, held, undefined, FIRST))
    stage = _stage(machine, full)
    if "row" in op.attributes:
        stage.short.append((op, buffer))
    if stage.awaited is not None and stage.expected == _arriving(stage):
        _land(machine, frame, stage)


def _tma_store(machine: Machine, frame: Frame, op: Op) -> None:
    """Stores at once what the buffer holds, and then counts as one that reads it."""
    buffer: View = frame.read(op.operands[0])
    tensor, (start0, *others) = _mapped(machine, frame, op, 1)
    box0, box1 = tensor.box
    views: list[tuple[View, int]] = []
    groups = op.attributes.get("groups", 1)
    for panel, group in pairs(range(op.attributes["panels"]), range(groups)):
        thread = group << GROUP_BITS
        addresses, active = tensor.piece([start0 + panel * box0, others[0] + group * box1,
                                          *others[1:]])
        view = _panel(buffer, panel * groups + group, tensor)
        _fenced(machine, frame, op, view, active.shape)
        held, *unknown = machine.get(frame, op, view, np.array([thread], np.int16),
                                     active.shape)
        if unknown[0] is not None and (unknown[0] & active).any():
            frame.fail(op, "run-undefined", "elements of this store are undefined",
                       unknown[0] & active)
        frame.scatter(op, buffer.element, addresses, held, active)
        view.space.products.reshape(-1, view.element.bytes)[view.places] += 1
        views.append((view, thread))
    machine.engine.stores.append(views)


def _store_wait(machine: Machine, frame: Frame, op: Op) -> None:
    """The first thread waits: the others must meet it before they write there."""
    stores = machine.engine.stores
    while len(stores) > op.attributes["pending"]:
        for view, thread in stores.popleft():
            view.space.products.reshape(-1, view.element.bytes)[view.places] -= 1
            view.space.hazards.read(view.places, view.element.bytes,
                                    np.array([thread], np.int16))


def _mapped(machine: Machine, frame: Frame, op: Op, slot: int, index: int | None = None
            ) -> tuple[TensorMap, list[int]]:
    """The map that an operation names by operand `slot`, or that of the index, and where its box
    starts."""
    for value in op.operands[slot + 1 :]:
        frame.require(op, value, None, "where this box starts")
    number, *starts = (int(frame.read(v)) for v in op.operands[slot:])
    tensor = machine.engine.slots[number][op.attributes["index"] if index is None else index]
    _check_map(frame, op, tensor)
    if starts[0] * tensor.element.bytes % 16:  # an H200 takes it for an illegal instruction
        frame.fail(op, "run-misaligned", f"a box begins at element {starts[0]} of a row, which is "
                   "no multiple of 16 bytes")
    return tensor, starts


def _panel(buffer: View, number: int, tensor: TensorMap, row: int | None = None, panels: int = 1
           ) -> View:
    """Where each element of a box goes: rows one after the other, swizzled; from a `row` on, if
    the buffer has more of them."""
    size = tensor.element.bytes
    before = number * prod(tensor.box) if row is None else (
        row * tensor.box[0] + number * buffer.offsets.size // panels)
    first = buffer.start + (int(buffer.offsets.min()) + before) * size
    assert first % 128 == 0, "a box begins at a multiple of 128 bytes"
    plain = first + np.arange(tensor.box[0] * tensor.box[1], dtype=np.int64) * size
    mask = max(tensor.swizzle // 16 - 1, 0)
    rows = ((plain ^ ((plain >> 7 & mask) << 4)) // size).reshape(tensor.box[::-1])
    return buffer.at(rows[np.newaxis], 0)


def _arrive_empty(machine: Machine, frame: Frame, op: Op) -> None:
    """Buffers that nothing in flight reads are as if no thread had read them, once acquired."""
    if _off(frame, op):
        return
    view: View = frame.read(op.operands[0])
    machine.get(frame, op, view, ALL, view.offsets.shape)
    for operand in op.operands[1:]:
        buffer: View = frame.read(operand)
        machine.race(frame, op, buffer.any(buffer.space.products), buffer.offsets.shape,
                     "what this arrive_empty gives away: a product in flight reads it")
        readers = buffer.of(buffer.space.hazards.reader)
        buffer.put(buffer.space.hazards.reader, np.where(readers == NOBODY, readers, RELEASED))
    stage, engine = _stage(machine, view), machine.engine
    engine.releases += 1
    stage.phases, stage.released = stage.phases + 1, engine.releases


def _wait_empty(machine: Machine, frame: Frame, op: Op) -> None:
    if _off(frame, op):
        return
    view: View = frame.read(op.operands[0])
    machine.get(frame, op, view, ALL, view.offsets.shape)
    stage = _stage(machine, view)
    if stage.phases % 2 == int(frame.read(op.operands[1])) or any(
            other.awaited is not None and other.awaited < stage.released
            for other in machine.engine.stages()):
        frame.fail(op, "run-too-long", f"'{op.name}' waits forever: nothing releases this stage")
    for operand in op.operands[2:]:
        buffer: View = frame.read(operand)
        readers = buffer.of(buffer.space.hazards.reader)
        buffer.put(buffer.space.hazards.reader, np.where(readers == RELEASED, NOBODY, readers))


def _wait_full(machine: Machine, frame: Frame, op: Op) -> None:
    view: View = frame.read(op.operands[0])
    extents = view.offsets.shape
    machine.get(frame, op, view, ALL, extents)
    stage, parity = _stage(machine, view), int(frame.read(op.operands[1]))
    if stage.phases % 2 != parity:
        return  # that phase ended long ago
    if stage.expected is None and "producer_warps" in frame.launch.kernel.attributes:
        stage.awaited = machine.engine.releases
        return
    if stage.expected is None or stage.expected != _arriving(stage):
        frame.fail(op, "run-too-long", f"'{op.name}' waits forever: {stage.expected or 0} bytes "
                   f"are expected, {_arriving(stage)} will arrive")
    _land(machine, frame, stage)


def _arriving(stage: Stage) -> int:
    """Bytes of the copies under way."""
    return sum(copy.held.size * copy.view.element.bytes for copy in stage.copies)


def _land(machine: Machine, frame: Frame, stage: Stage) -> None:
    for copy in stage.copies:
        machine.land(frame, copy, everybody=True)
    for op, buffer in stage.short:  # nobody brings some of its rows
        absent = np.ones(buffer.space.size // buffer.element.bytes, np.bool_)
        for copy in stage.copies:
            if copy.view.serial == buffer.serial:
                absent[copy.view.places] = False
        left = buffer.places[absent[buffer.places]][np.newaxis]
        view = buffer.at(left, 0)
        nothing = np.zeros(left.size, next((
            copy.held.dtype for copy in stage.copies if copy.view.serial == buffer.serial),
            stage.copies[0].held.dtype))
        machine.put(view, nothing, (np.ones(left.size, np.bool_), op), ALL, SEEN)
        view.put(view.space.hazards.writer, np.int16(NOBODY))
    stage.phases += 1
    stage.expected, stage.copies, stage.short, stage.awaited = None, [], [], None


SIMULATED: dict[str, Callable[[Machine, Frame, Op], Any]] = {
    "wgmma": _wgmma, "wgmma_wait": _wgmma_wait, "proxy_fence": _proxy_fence,
    "claim_slot": _claim_slot, "release_slot": _release_slot, "tensor_map": _tensor_map,
    "publish_maps": _publish_maps,
    "init_barriers": _init_barriers, "expect_full": _expect_full, "arrive_full": _arrive_full,
    "tma_load": _tma_load,
    "wait_full": _wait_full, "arrive_empty": _arrive_empty, "wait_empty": _wait_empty,
    "tma_store": _tma_store, "store_wait": _store_wait,
    **dict.fromkeys(("order_wait", "order_arrive"), lambda machine, frame, op: None),
}
