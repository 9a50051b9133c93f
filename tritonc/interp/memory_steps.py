"""Loads, stores and atomic operations in the interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tritonc.interp import arrays
from tritonc.interp.elementwise import full
from tritonc.interp.frame import Frame, Launch, Step
from tritonc.ir.core import Op
from tritonc.ir.numeric.formats import register_dtype
from tritonc.ir.types import Element, element, shape


def load(launch: Launch, op: Op) -> Step:
    pointer, result = op.operands[0], op.result
    e = element(result.type)
    volatile, other = bool(op.attributes.get("volatile")), op.attributes.get("other")
    if other is not None:
        other = full(e, other)

    def step(frame: Frame) -> None:
        if volatile:
            frame.synchronised = True
        active = None if op.guard is None else frame.guard(op)
        if frame.undefined:
            frame.require(op, pointer, active, "the address of this load")
        found, mask = frame.gather(op, e, frame.values[pointer], active)
        if active is not None:
            if other is not None:
                found = np.where(active, found, other)
            else:
                mask = ~active if mask is None else mask | ~active
        frame.define(result, found, mask, op)

    return step


def store(launch: Launch, op: Op) -> Step:
    pointer, value = op.operands
    e = element(value.type)

    def step(frame: Frame) -> None:
        active = None if op.guard is None else frame.guard(op)
        if frame.undefined:
            frame.require(op, pointer, active, "the address of this store")
            frame.require(op, value, active, "the value stored here")
        frame.scatter(op, e, frame.values[pointer], frame.values[value], active)

    return step


def atomic(launch: Launch, op: Op) -> Step:
    """One element after the other, in row-major order."""
    pointer, *others = op.operands
    e, extents = element(op.result.type), shape(op.result.type)
    combine = _combination(op, e)

    def step(frame: Frame) -> None:
        frame.synchronised = True
        active = frame.guard(op)
        frame.require(op, pointer, active, "the address of this atomic operation")
        for value in others:
            frame.require(op, value, active, "an operand of this atomic operation")
        addresses = np.atleast_1d(frame.values[pointer])
        inputs = [np.atleast_1d(frame.values[v]) for v in others]
        old = np.zeros(addresses.shape, register_dtype(e))
        where = np.ones(addresses.shape, np.bool_) if active is None else np.atleast_1d(active)
        distinct = np.unique(addresses[where]).size == np.count_nonzero(where)
        for part in [where] if distinct else _one_by_one(where):
            before, unknown = frame.gather(op, e, addresses, part)
            if unknown is not None:
                frame.fail(op, "run-out-of-bounds", "this operation lies in a buffer's padding",
                           unknown)
            if op.attributes.get("kind") != "load":
                frame.scatter(op, e, addresses, combine(before, *inputs), part)
            old[part] = before[part]
        mask = None if active is None else ~active
        races = frame.launch.races
        if races is not None and not extents and where[0]:
            races.atomic(frame.instance.index, op, int(addresses[0]))
        frame.define(op.result, old if extents else old[0], mask, op)

    return step


def _one_by_one(where: Any) -> Any:
    for index in zip(*np.nonzero(where), strict=True):
        one = np.zeros(where.shape, np.bool_)
        one[index] = True
        yield one


def _combination(op: Op, e: Element) -> Callable[..., Any]:
    """What an atomic operation writes, from what lies in memory and its operands."""
    if op.name == "atomic_cas":
        return lambda old, compare, new: np.where(old == compare, new, old)
    kind = op.attributes["kind"]
    if kind in ("xchg", "store", "load"):
        return lambda old, new: new
    return lambda old, new: arrays.combine(e, kind, old, new)
