"""What the interpreter does for one operation: a closure per operation, made once per launch.

An operation with a `meaning` computes by it; memory, control and checks are here.  Beside its value
each step keeps `frame.undefined` right: `propagation` says which elements of a result depend on
which elements of the operands."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritonc.interp import arrays
from tritonc.interp.elementwise import past_width
from tritonc.interp.frame import Frame, Launch, Step
from tritonc.interp.memory_steps import atomic, load, store
from tritonc.interp.printf import formatted
from tritonc.interp.undefined import propagation
from tritonc.ir import rules
from tritonc.ir.core import Op, Value
from tritonc.ir.numeric.formats import register_dtype
from tritonc.ir.ops import OpInfo
from tritonc.ir.types import element, shape

_SHIFTS = ("shl", "lshr", "ashr")


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
    if launch.spread is None:
        return _computed(row, op, op.operands)
    if op in launch.spread.needless:
        return None
    return _computed(row, op, launch.spread.operands(op))


def _handled(handler: Callable[[Frame, Op], Any], op: Op) -> Step:
    results = op.results

    def step(frame: Frame) -> None:
        found = handler(frame, op)
        if found is not None:
            arrays_of = found if isinstance(found, tuple) else (found,)
            for result, array in zip(results, arrays_of, strict=True):
                frame.define(result, array)

    return step


# Operations with a meaning

def _computed(row: OpInfo, op: Op, operands: Sequence[Value]) -> Step:
    """`operands`: what is read, which may repeat in the result's shape."""
    compute, results = arrays.value_of(row, op), op.results
    propagate = propagation(row, op)
    divides = row.may_trap and row.rule is rules.same_int
    shifts, takes = op.name in _SHIFTS, op.name == "take"
    careful = op.guard is not None or shifts
    spread = list(operands) != op.operands

    def track(frame: Frame, inputs: list[Any]) -> None:
        """Keep the result's undefined elements."""
        values, undefined = frame.values, frame.undefined
        found = [undefined.get(v) for v in operands]
        mask: Any = None
        cause = None
        if any(found):
            mask = propagate([f and f[0] for f in found], inputs)
            if spread and mask is not None:
                mask = np.broadcast_to(mask, shape(op.result.type))
            cause = next(f[1] for f in found if f)
        if careful:
            active = frame.guard(op)
            wrong = past_width(op, inputs[1]) if shifts else None
            for extra in (None if active is None else ~active, wrong):
                if extra is not None and np.any(extra):
                    mask = extra if mask is None else mask | extra
                    cause = cause or op
        masks = mask if isinstance(mask, list) else [mask] * len(results)
        for result, mask in zip(results, masks, strict=True):
            frame.define(result, values[result], mask, cause)

    def step(frame: Frame) -> None:
        values = frame.values
        inputs = [values[v] for v in operands]
        if divides:
            _check_divisor(frame, op)
        if takes:
            _check_index(frame, op)
        found = compute(*inputs)
        found = found if isinstance(found, tuple) else (found,)
        for result, array in zip(results, found, strict=True):
            values[result] = array
        if careful or frame.undefined:
            track(frame, inputs)

    if careful or divides or not row.elementwise or len(operands) != 2 or len(results) != 1:
        return step
    result, (first, second) = op.result, operands

    def binary(frame: Frame) -> None:
        values = frame.values
        a, b = values[first], values[second]
        values[result] = compute(a, b)
        if frame.undefined:
            track(frame, [a, b])

    return binary


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


def _check_index(frame: Frame, op: Op) -> None:
    index, extent = frame.values[op.operands[1]], op.attributes["extent"]
    wrong = (index < 0) | (index >= extent)
    if np.any(wrong):
        unknown = frame.mask(op.operands[1])
        if unknown is not None:
            wrong = wrong & ~unknown
        if np.any(wrong):
            at = int(index[wrong].reshape(-1)[0])
            frame.fail(op, "run-out-of-bounds", f"the indices: {at} is not between 0 and "
                       f"{extent - 1}", wrong)


# Operations without: values

def _undef(launch: Launch, op: Op) -> None:
    extents = shape(op.result.type)
    zero = np.zeros(extents, register_dtype(element(op.result.type)))
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
        every = not undefined and some.all()
        for predicate, value in zip(predicates[1:], merged[1:], strict=True):
            holds = values[predicate]
            if every and not holds.any():
                continue
            found = np.where(holds, values[value], found)
            some = some | holds
        if every:
            values[op.result] = found
            return
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


def _assumed(op: Op, tests: Callable[[Any], list[tuple[Any, str]]]) -> Step:
    """The operand, of which none of the `tests` holds: masks, and what each says of an element."""
    operand = op.operands[0]

    def step(frame: Frame) -> None:
        array, unknown = frame.values[operand], frame.mask(operand)
        for wrong, what in tests(array):
            wrong = wrong if unknown is None else wrong & ~unknown
            if np.any(wrong):
                value = np.asarray(array)[wrong].reshape(-1)[0]
                frame.fail(op, "run-assumption", f"{'the value' if np.ndim(wrong) else 'value'} "
                           f"{value} is {what}", wrong)
        frame.define(op.result, array, *frame.unknown(operand))

    return step


def _assume_multiple(launch: Launch, op: Op) -> Step:
    n = op.attributes["n"]
    least, greatest = op.attributes.get("least"), op.attributes.get("greatest")

    def tests(array: Any) -> list[tuple[Any, str]]:
        wide = array.astype(np.int64)
        found = [(wide % n != 0, f"not a multiple of {n}")]
        if least is not None:
            found.append((wide < least, f"less than {least}"))
        if greatest is not None:
            found.append((wide > greatest, f"more than {greatest}"))
        return found

    return _assumed(op, tests)


def _assume_positive(launch: Launch, op: Op) -> Step:
    return _assumed(op, lambda array: [(~((array >= 2.0**-100) & (array <= 2.0**100)),
                                        "not between 2^-100 and 2^100")])


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
    "undef": _undef, "get_program_id": _program_id, "get_num_programs": _num_programs,
    "get_global_range": _global_range, "constant_table": _constant_table, "psi": _psi,
    "assume_multiple": _assume_multiple, "assume_positive": _assume_positive, "load": load,
    "store": store, "atomic_rmw": atomic, "atomic_cas": atomic, "memory_barrier": _nothing,
    "assume": _check("run-assumption", lambda op: "what is assumed here does not hold"),
    "assert": _check("run-assertion", lambda op: f"assertion failed: {op.attributes['message']}"),
    "printf": _printf}
