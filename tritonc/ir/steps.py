"""What the interpreter does for one operation: a closure per operation, made once per launch.

An operation with a `meaning` computes by it; memory, control and checks are here.  Beside its value
each step keeps `frame.undefined` right: `_propagation` says which elements of a result depend on
which elements of the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritonc.ir import arrays, rules
from tritonc.ir.core import Op
from tritonc.ir.formats import held_dtype
from tritonc.ir.frame import WAIT, Frame, Launch, Step
from tritonc.ir.ops import OpInfo
from tritonc.ir.printf import formatted
from tritonc.ir.types import Element, element, shape

Masks = list[Any]  # one per operand; None where no element is undefined
_SHIFTS = ("shl", "lshr", "ashr")
_ABSORBING = {"and": 0, "or": -1}  # the number that decides the result alone


def step_of(launch: Launch, op: Op) -> Step | None:
    """The step of an operation; None where its value is known before the start."""
    handler = launch.handlers.get(op.name)
    if handler is not None:
        return _handled(handler, op)
    special = _SPECIAL.get(op.name)
    if special is not None:
        return special(launch, op)
    row = launch.table[op.name]
    if row.meaning is None:
        raise NotImplementedError(f"the interpreter knows no meaning and no handler of '{op.name}'")
    if not op.operands:
        launch.constants[op.result] = arrays.evaluate(row, op, ())[0]
        return None
    return _computed(row, op)


def _handled(handler: Callable[[Frame, Op], Any], op: Op) -> Step:
    results = op.results

    def step(frame: Frame) -> Any:
        found = handler(frame, op)
        if found is WAIT:
            return WAIT
        if found is not None:
            arrays_of = found if isinstance(found, tuple) else (found,)
            for result, array in zip(results, arrays_of, strict=True):
                frame.define(result, array)
        return None

    return step


# Operations with a meaning

def _computed(row: OpInfo, op: Op) -> Step:
    evaluate = arrays.evaluator(row, op)
    operands, results = op.operands, op.results
    propagate = _propagation(row, op)
    divides = row.may_trap and row.rule is rules.same_int
    shifts = op.name in _SHIFTS
    careful = op.guard is not None or shifts

    def step(frame: Frame) -> None:
        values, undefined = frame.values, frame.undefined
        inputs = [values[v] for v in operands]
        if divides:
            _check_divisor(frame, op)
        for result, array in zip(results, evaluate(inputs), strict=True):
            values[result] = array
        if not undefined and not careful:
            return
        found = [undefined.get(v) for v in operands]
        mask = cause = None
        if any(found):
            mask = propagate([f and f[0] for f in found], inputs)
            cause = next(f[1] for f in found if f)
        if careful:
            active = frame.guard(op)
            wrong = arrays.past_width(op, inputs[1]) if shifts else None
            for extra in (None if active is None else ~active, wrong):
                if extra is not None and np.any(extra):
                    mask = extra if mask is None else mask | extra
                    cause = cause or op
        for result in results:
            frame.define(result, values[result], mask, cause)

    return step


def _check_divisor(frame: Frame, op: Op) -> None:
    zero = frame.values[op.operands[1]] == 0
    if np.any(zero):
        active, unknown = frame.guard(op), frame.mask(op.operands[1])
        if active is not None:
            zero = zero & active
        if unknown is not None:
            zero = zero & ~unknown
        if np.any(zero):
            frame.fail(op, "run-division-by-zero", "the quotient: division by zero"
                       if np.ndim(zero) else "division by zero", zero)


def _propagation(row: OpInfo, op: Op) -> Callable[[Masks, Sequence[Any]], Any]:
    """The mask of undefined result elements, from those of the operands, one of which exists."""
    rule = row.rule
    if rule is rules.choose:
        return _choose_undefined
    if op.name in _ABSORBING:
        return lambda masks, inputs: _absorbing_undefined(_ABSORBING[op.name], masks, inputs)
    if row.elementwise:
        return lambda masks, inputs: _either(masks)
    if rule in (rules.splat, rules.broadcast, rules.reshape, rules.transpose):
        assert row.meaning is not None
        meaning = row.meaning
        return lambda masks, inputs: meaning(arrays, op, masks[0])
    if rule is rules.reduce:
        return lambda masks, inputs: np.any(masks[0], axis=tuple(op.attributes["axes"]))
    if rule is rules.arg_reduce:
        return lambda masks, inputs: np.any(masks[0], axis=op.attributes["axis"])
    if rule is rules.scan:
        return lambda masks, inputs: np.logical_or.accumulate(masks[0], op.attributes["axis"])
    if rule is rules.dot:
        return lambda masks, inputs: _dot_undefined(op, masks)
    return lambda masks, inputs: _moved(row, op, masks)


def _moved(row: OpInfo, op: Op, masks: Masks) -> Any:
    """One operand whose elements only move takes its mask along; else nothing is certain."""
    extents = shape(op.result.type)
    if len(masks) == 1 and row.meaning is not None:
        mask = row.meaning(arrays, op, masks[0])
        if np.shape(mask) == extents and mask.dtype == np.bool_:
            return mask
    return np.ones(extents, np.bool_)


def _either(masks: Masks) -> Any:
    found = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found


def _choose_undefined(masks: Masks, inputs: Sequence[Any]) -> Any:
    condition, a, b = (False if mask is None else mask for mask in masks)
    return np.where(inputs[0], a, b) | condition


def _absorbing_undefined(absorbing: int, masks: Masks, inputs: Sequence[Any]) -> Any:
    """Undefined, unless the other operand is defined and decides alone."""
    a, b = (False if mask is None else mask for mask in masks)
    x, y = ((i == bool(absorbing)) if i.dtype == np.bool_ else (i == absorbing) for i in inputs)
    return (a & (b | ~y)) | (b & (a | ~x))


def _dot_undefined(op: Op, masks: Masks) -> Any:
    a, b, c = masks
    found = np.zeros(shape(op.result.type), np.bool_)
    if a is not None:
        found |= np.any(a, axis=-1)[..., :, np.newaxis]
    if b is not None:
        found |= np.any(b, axis=-2)[..., np.newaxis, :]
    return found if c is None else found | c


# Operations without: values

def _undef(launch: Launch, op: Op) -> None:
    extents = shape(op.result.type)
    zero = np.zeros(extents, held_dtype(element(op.result.type)))
    launch.constants[op.result] = zero if extents else zero[()]
    launch.undefined[op.result] = (np.ones(extents, np.bool_) if extents else np.True_, op)


def _program_id(launch: Launch, op: Op) -> Step:
    axis = op.attributes["axis"]

    def step(frame: Frame) -> None:
        index = frame.instance.index
        frame.values[op.result] = np.int32(index[axis] if axis < len(index) else 0)

    return step


def _num_programs(launch: Launch, op: Op) -> None:
    axis = op.attributes["axis"]
    launch.constants[op.result] = np.int32(launch.grid[axis] if axis < len(launch.grid) else 1)


def _global_range(launch: Launch, op: Op) -> Step:
    axis, extent = op.attributes["axis"], op.attributes["extent"]
    first = np.arange(extent, dtype=np.int32)

    def step(frame: Frame) -> None:
        index = frame.instance.index
        number = index[axis] if axis < len(index) else 0
        frame.values[op.result] = first + np.int32(number * extent)

    return step


def _constant_table(launch: Launch, op: Op) -> None:
    buffer = launch.memory.symbols[op.attributes["symbol"]]
    launch.constants[op.result] = np.int64(buffer.base)


def _psi(launch: Launch, op: Op) -> Step:
    predicates, merged = op.operands[0::2], op.operands[1::2]

    def step(frame: Frame) -> None:
        values, undefined = frame.values, frame.undefined
        some = values[predicates[0]]
        found = values[merged[0]]
        for predicate, value in zip(predicates[1:], merged[1:], strict=True):
            holds = values[predicate]
            found = np.where(holds, values[value], found)
            some = some | holds
        mask, cause = (None, None) if some.all() else (~some, op)
        if undefined and any(v in undefined for v in op.operands):
            mask = np.zeros(np.shape(found), np.bool_) if mask is None else mask
            for predicate, value in zip(predicates, merged, strict=True):
                theirs, unknown = undefined.get(value), undefined.get(predicate)
                mask = np.where(values[predicate], theirs[0] if theirs else False, mask)
                mask = mask | unknown[0] if unknown else mask
                known = theirs or unknown
                cause = cause or (known[1] if known else None)
        frame.define(op.result, found, mask, cause)

    return step


def _assume_multiple(launch: Launch, op: Op) -> Step:
    operand, n = op.operands[0], op.attributes["n"]
    least = op.attributes.get("least")

    def step(frame: Frame) -> None:
        array, unknown = frame.values[operand], frame.mask(operand)
        wide = array.astype(np.int64)
        tests = [(wide % n != 0, f"no multiple of {n}")]
        if least is not None:
            tests.append((wide < least, f"less than {least}"))
        for wrong, what in tests:
            wrong = wrong if unknown is None else wrong & ~unknown
            if np.any(wrong):
                value = np.asarray(array)[wrong].reshape(-1)[0]
                frame.fail(op, "run-assumption", f"{'the value' if np.ndim(wrong) else 'value'} "
                           f"{value} is {what}", wrong)
        found = frame.undefined.get(operand)
        frame.define(op.result, array, *(found or ()))

    return step


# Memory

def _load(launch: Launch, op: Op) -> Step:
    pointer, result = op.operands[0], op.result
    e = element(result.type)
    volatile, other = bool(op.attributes.get("volatile")), op.attributes.get("other")
    if other is not None:
        other = arrays.full(e, other)

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


def _store(launch: Launch, op: Op) -> Step:
    pointer, value = op.operands
    e = element(value.type)

    def step(frame: Frame) -> None:
        active = None if op.guard is None else frame.guard(op)
        if frame.undefined:
            frame.require(op, pointer, active, "the address of this store")
            frame.require(op, value, active, "the value stored here")
        frame.scatter(op, e, frame.values[pointer], frame.values[value], active)

    return step


def _atomic(launch: Launch, op: Op) -> Step:
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
        old = np.zeros(addresses.shape, held_dtype(e))
        where = np.ones(addresses.shape, np.bool_) if active is None else np.atleast_1d(active)
        distinct = np.unique(addresses[where]).size == np.count_nonzero(where)
        for part in [where] if distinct else _one_by_one(where):
            before, unknown = frame.gather(op, e, addresses, part)
            if unknown is not None:
                frame.fail(op, "run-out-of-bounds", "this operation lies in a buffer's padding",
                           unknown)
            after = combine(before, *inputs)
            frame.scatter(op, e, addresses, after, part)
            old[part] = before[part]
        mask = None if active is None else ~active
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
    if kind == "xchg":
        return lambda old, new: new
    return lambda old, new: arrays.combine(e, kind, old, new)


# Checks

def _check(name: str, message: Callable[[Op], str]) -> Callable[[Launch, Op], Step]:
    def make(launch: Launch, op: Op) -> Step:
        condition = op.operands[0]

        def step(frame: Frame) -> None:
            active = frame.guard(op)
            frame.require(op, condition, active, f"the condition of this {op.name}")
            wrong = ~frame.values[condition]
            wrong = wrong if active is None else wrong & active
            if np.any(wrong):
                frame.fail(op, name, message(op), wrong)

        return step

    return make


def _printf(launch: Launch, op: Op) -> Step:
    """Tiles print once for each element, in row-major order."""
    def step(frame: Frame) -> None:
        active = frame.guard(op)
        for value in op.operands:
            frame.require(op, value, active, "a value printed here")
        holds = np.True_ if active is None else active
        columns = np.broadcast_arrays(*(frame.values[v] for v in op.operands), holds)
        for *row, holds in zip(*(column.reshape(-1) for column in columns), strict=True):
            if holds:
                launch.output(formatted(op, row))

    return step


def _nothing(launch: Launch, op: Op) -> None:
    """Memory is always up to date here."""


_SPECIAL: dict[str, Callable[[Launch, Op], Step | None]] = {
    "undef": _undef,
    "get_program_id": _program_id,
    "get_num_programs": _num_programs,
    "get_global_range": _global_range,
    "constant_table": _constant_table,
    "psi": _psi,
    "assume_multiple": _assume_multiple,
    "load": _load,
    "store": _store,
    "atomic_rmw": _atomic,
    "atomic_cas": _atomic,
    "memory_barrier": _nothing,
    "assume": _check("run-assumption", lambda op: "what is assumed here does not hold"),
    "assert": _check("run-assertion", lambda op: f"assertion failed: {op.attributes['message']}"),
    "printf": _printf,
}
