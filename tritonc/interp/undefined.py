"""Which elements of a result are undefined, from those of the operands: what the interpreter keeps
beside each value."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from tritonc.interp import arrays
from tritonc.ir import combiner, rules
from tritonc.ir.core import Op, Value
from tritonc.ir.ops import OPS, OpInfo
from tritonc.ir.types import shape

Masks = list[Any]  # one per operand; None where no element is undefined
_ABSORBING = {"and": 0, "or": -1}  # the number that decides the result alone


def propagation(row: OpInfo, op: Op) -> Callable[[Masks, Sequence[Any]], Any]:
    """The mask of undefined result elements, from those of the operands, one of which exists; of a
    function's results a list of such."""
    rule = row.rule
    if rule is rules.choose:
        return _of_choice
    if op.name in _ABSORBING:
        return lambda masks, inputs: _of_absorbing(_ABSORBING[op.name], masks, inputs)
    if row.elementwise:
        return lambda masks, inputs: either(masks)
    if op.name == "scale":  # whether it happens is a scalar
        return lambda masks, inputs: np.broadcast_to(either(masks), shape(op.result.type))
    if rule in (rules.splat, rules.broadcast, rules.reshape, rules.transpose):
        assert row.meaning is not None
        meaning = row.meaning
        return lambda masks, inputs: meaning(arrays.MEANINGS, op, masks[0])
    if rule is rules.reduce:
        return lambda masks, inputs: np.any(masks[0], axis=tuple(op.attributes["axes"]))
    if rule in (rules.reduce_with, rules.scan_with):
        return lambda masks, inputs: _of_function(op, masks, inputs)
    if rule is rules.scan:
        return lambda masks, inputs: _of_scan(op, masks[0])
    if rule is rules.take:
        return lambda masks, inputs: _of_take(op, masks, inputs)
    if rule is rules.dot:
        return lambda masks, inputs: dot_undefined(op, masks)
    return lambda masks, inputs: _moved(row, op, masks)


def _of_scan(op: Op, mask: Any) -> Any:
    axis = op.attributes["axis"]
    if not op.attributes.get("reverse"):
        return np.logical_or.accumulate(mask, axis)
    return np.flip(np.logical_or.accumulate(np.flip(mask, axis), axis), axis)


def _of_function(op: Op, masks: Masks, inputs: Sequence[Any]) -> Any:
    """The function on elements and masks: what it does not choose does not matter."""
    function, k = combiner.read(op.attributes["function"]), len(inputs)
    columns = [*inputs, *(np.zeros(np.shape(v), np.bool_) if m is None else m
                          for m, v in zip(masks, inputs, strict=True))]

    def join(before: list[Any], behind: list[Any]) -> list[Any]:
        values = dict(zip(function.parameters, [*before[:k], *behind[:k]], strict=True))
        found: dict[Value, Any] = dict(
            zip(function.parameters, [*before[k:], *behind[k:]], strict=True))
        for step in function.ops:
            row, given = OPS[step.name], [values[v] for v in step.operands]
            unknown = [found.get(v) for v in step.operands]
            values.update(zip(step.results, arrays.evaluate(row, step, given), strict=True))
            if any(mask is not None for mask in unknown):
                found.update(dict.fromkeys(step.results, propagation(row, step)(unknown, given)))
        extents = np.shape(before[0])
        return [*(np.broadcast_to(values[r], extents) for r in function.results),
                *(np.broadcast_to(found.get(r, np.False_), extents) for r in function.results)]

    along = arrays.reduce_along if op.name == "reduce_with" else arrays.scan_along
    return along(op, columns, join)[k:]


def _of_take(op: Op, masks: Masks, inputs: Sequence[Any]) -> Any:
    found = np.zeros(shape(op.result.type), np.bool_) if masks[1] is None else masks[1]
    return found if masks[0] is None else found | arrays.take(op, masks[0], inputs[1])


def _moved(row: OpInfo, op: Op, masks: Masks) -> Any:
    """One operand whose elements only move takes its mask along; else nothing is certain.  Words of
    neighbours are undefined where all of these are: the parts of a word are computed apart."""
    extents = shape(op.result.type)
    if len(masks) == 1 and row.meaning is not None:
        mask = row.meaning(arrays.MEANINGS, op, masks[0])
        if np.shape(mask) == extents and mask.dtype == np.bool_:
            return mask
        if op.name == "pack":
            return masks[0].reshape(*extents, -1).all(-1)
        if op.name == "unpack":
            return np.repeat(masks[0], extents[-1] // masks[0].shape[-1], -1)
    return np.ones(extents, np.bool_)


def either(masks: Masks) -> Any:
    known = [mask for mask in masks if mask is not None]
    return reduce(or_, known) if known else None


def _of_choice(masks: Masks, inputs: Sequence[Any]) -> Any:
    condition, a, b = (False if mask is None else mask for mask in masks)
    return np.where(inputs[0], a, b) | condition


def _of_absorbing(absorbing: int, masks: Masks, inputs: Sequence[Any]) -> Any:
    """Undefined, unless the other operand is defined and decides alone."""
    a, b = (False if mask is None else mask for mask in masks)
    x, y = ((i == bool(absorbing)) if i.dtype == np.bool_ else (i == absorbing) for i in inputs)
    return (a & (b | ~y)) | (b & (a | ~x))


def dot_undefined(op: Op, masks: Masks) -> Any:
    """Which elements of a dot's result are undefined; None if none is."""
    a, b, c = masks
    if a is None and b is None and c is None:
        return None
    found = np.zeros(shape(op.result.type), np.bool_)
    if a is not None:
        found |= np.any(a, axis=-1)[..., :, np.newaxis]
    if b is not None:
        found |= np.any(b, axis=-2)[..., np.newaxis, :]
    return found if c is None else found | c
