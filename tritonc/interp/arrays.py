"""Triton-IR's arithmetic on NumPy arrays: what the interpreter computes.

`MEANINGS` holds the functions that an operation's `meaning` names as `m.something`: those of
`elementwise`, and here those across elements.  Their arrays are in the working form of
`ir.formats`; `evaluate` brings operands into it and results back to the held form, wrapped or
rounded once.

Sums (`dot`, `reduce`, `scan`) accumulate in float64 and round once: the program does not state an
order, and this is the value that every order approximates.  Functions of the library are computed
in float64 too, then rounded."""

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tritonc.interp import elementwise
from tritonc.interp.elementwise import fmax, fmin, unsigned
from tritonc.ir import combiner, rules
from tritonc.ir.combiner import Combiner
from tritonc.ir.core import Op, Value
from tritonc.ir.numeric import formats
from tritonc.ir.ops import OPS, OpInfo
from tritonc.ir.types import I1, TF32, Element, element, scalar, shape

# Operations that move their operands as they are.
_MOVES = (rules.choose, rules.predicates, rules.bit_cast)
# On bools these are what they are on their working form.
_BITWISE: dict[str, np.ufunc] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def evaluate(row: OpInfo, op: Op, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The results of an operation that has a meaning, from held arrays to held arrays."""
    found = value_of(row, op)(*operands)
    return found if isinstance(found, tuple) else (found,)


def value_of(row: OpInfo, op: Op) -> Callable[..., Any]:
    """The result of an operation, a tuple of several, as a function of its operands: all that is
    known beforehand is decided beforehand."""
    meaning = row.meaning
    assert meaning is not None, f"{row.name} has no meaning of its own"
    bound = partial(meaning, MEANINGS, op)
    if not row.elementwise or row.rule in _MOVES:
        return bound
    kinds = {element(value.type) for value in (*op.operands, *op.results)}
    if kinds == {I1} and op.name in _BITWISE:
        return _BITWISE[op.name]
    others = [element(o.type) if formats.works_in_another_form(element(o.type)) else None
              for o in op.operands]
    if len(op.results) > 1:
        raise NotImplementedError(f"{row.name} has several results to fit")
    kind = op.result.type
    rounds = element(kind).is_float and formats.works_in_another_form(element(kind))
    dtype = formats.register_dtype(element(kind))

    def fitted(*operands: Any) -> Any:
        if any(others):
            operands = tuple(a if e is None else formats.working(e, a)
                             for e, a in zip(others, operands, strict=True))
        found = bound(*operands)
        return found if found.dtype == dtype and not rounds else formats.fit(kind, found)

    return fitted


# Across elements

_UFUNC: dict[str, np.ufunc] = {
    "add": np.add, "mul": np.multiply, "fadd": np.add, "fmul": np.multiply,
    "smin": np.minimum, "smax": np.maximum, "umin": np.minimum, "umax": np.maximum,
    "fmin": np.fmin, "fmax": np.fmax,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def combine(e: Element, kind: str, a: Any, b: Any) -> Any:
    """Held arrays combined element by element, as a reduction of that kind does."""
    if kind in ("fmin", "fmax"):
        return (fmin if kind == "fmin" else fmax)(a, b)
    forms = [formats.working(e, x) for x in (a, b)]
    if kind[0] == "u":
        forms = [x.view(formats.UNSIGNED[x.dtype.itemsize]) for x in forms]
    return formats.fit(e, _UFUNC[kind](*forms))


def _prepared(op: Op, a: Any) -> Any:
    """The operand of a reduction in the type that it accumulates in."""
    e = element(op.operands[0].type)
    if e.is_float:
        return a.astype(np.float64)
    return unsigned(op, a) if op.attributes["kind"][0] == "u" else formats.working(e, a)


def reduce(op: Op, a: Any) -> Any:
    kind, axes = op.attributes["kind"], tuple(op.attributes["axes"])
    a = _prepared(op, a)
    # Where NumPy begins with 0, a sum of zeros below zero is not below.
    start: dict[str, Any] = {"initial": -0.0} if kind == "fadd" else {}
    found = _UFUNC[kind].reduce(a, axis=axes, **_accumulator(kind, a), **start)
    if kind in ("fmin", "fmax") and np.any(found == 0):
        some = np.any if kind == "fmin" else np.all
        negative = some(np.signbit(a) | (a != 0) if kind == "fmax" else np.signbit(a) & (a == 0),
                        axis=axes)
        found = np.where(found == 0, np.where(negative, -0.0, 0.0), found)
    return formats.fit(op.result.type, found)


def _accumulator(kind: str, a: Any) -> dict[str, Any]:
    return {"dtype": a.dtype} if kind in ("add", "mul") else {}  # NumPy would widen


def scan(op: Op, a: Any) -> Any:
    kind, axis = op.attributes["kind"], op.attributes["axis"]
    a = _prepared(op, a)
    if op.attributes.get("reverse"):
        a = np.flip(a, axis)
    found = _UFUNC[kind].accumulate(a, axis=axis, **_accumulator(kind, a))
    if op.attributes.get("reverse"):
        found = np.flip(found, axis)
    return formats.fit(op.result.type, found)


Arrays = list[Any]


def combine_with(function: Combiner, a: Arrays, b: Arrays) -> Arrays:
    """Held arrays combined element by element by a function, a before b."""
    values: dict[Value, Any] = dict(zip(function.parameters, [*a, *b], strict=True))
    for op in function.ops:
        found = evaluate(OPS[op.name], op, [values[v] for v in op.operands])
        values.update(zip(op.results, found, strict=True))
    extents = np.shape(a[0])
    return [np.broadcast_to(values[r], extents) for r in function.results]


def reduce_with(op: Op, *values: Any) -> tuple[Any, ...]:
    function = combiner.read(op.attributes["function"])
    return tuple(reduce_along(op, list(values), lambda a, b: combine_with(function, a, b)))


def scan_with(op: Op, *values: Any) -> tuple[Any, ...]:
    function = combiner.read(op.attributes["function"])
    return tuple(scan_along(op, list(values), lambda a, b: combine_with(function, a, b)))


def reduce_along(op: Op, columns: Arrays, join: Callable[[Arrays, Arrays], Arrays]) -> Arrays:
    """Neighbours combine first, then neighbours of the results; a last one alone waits."""
    left = [np.moveaxis(v, op.attributes["axis"], 0) for v in columns]
    while len(left[0]) > 1:
        even = len(left[0]) // 2 * 2
        pairs = join([v[0:even:2] for v in left], [v[1:even:2] for v in left])
        left = [np.concatenate((p, v[even:])) for p, v in zip(pairs, left, strict=True)]
    return [v[0] for v in left]


def scan_along(op: Op, columns: Arrays, join: Callable[[Arrays, Arrays], Arrays]) -> Arrays:
    """By doubling: each element with the one so many before it, 1, 2, 4 and so on."""
    axis, back = op.attributes["axis"], -1 if op.attributes.get("reverse") else 1
    found = [np.moveaxis(v, axis, 0)[::back].copy() for v in columns]
    step = 1
    while step < len(found[0]):
        later = join([v[:-step] for v in found], [v[step:] for v in found])
        found = [np.concatenate((v[:step], p)) for v, p in zip(found, later, strict=True)]
        step *= 2
    return [np.moveaxis(v[::back], 0, axis) for v in found]


def take(op: Op, a: Any, index: Any) -> Any:
    """An index that is outside, of which the caller has said where it matters, is the nearest."""
    axis = op.attributes["axis"]
    return np.take_along_axis(a, np.clip(index, 0, a.shape[axis] - 1).astype(np.int64), axis)


def histogram(op: Op, a: Any) -> Any:
    """How often each number below the extent is among the elements."""
    extent = op.attributes["extent"]
    inside = a[(a >= 0) & (a < extent)].reshape(-1)
    (count,) = shape(op.result.type)  # more than the extent, if it is padded
    return np.bincount(inside, minlength=count).astype(np.int32)


def dot(op: Op, a: Any, b: Any, c: Any) -> Any:
    e, to = scalar(op.operands[0].type), scalar(op.result.type)
    a = -a if op.attributes.get("minus") else a
    if e.is_float:
        if e == TF32:
            a, b = formats.round_to_tf32(a), formats.round_to_tf32(b)
        total = np.matmul(a.astype(np.float64), b.astype(np.float64))
        total += c
        return formats.fit(op.result.type, total)
    if e.bits <= 16 and a.shape[-1] < 1 << 20:  # exact in float64, and faster
        found = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    else:
        found = np.matmul(a.astype(np.int64), b.astype(np.int64))
    return formats.fit(op.result.type, found.astype(formats.register_dtype(to)) + c)


MEANINGS = SimpleNamespace(**vars(elementwise), reduce=reduce, scan=scan, take=take, dot=dot,
                           histogram=histogram, reduce_with=reduce_with, scan_with=scan_with)
