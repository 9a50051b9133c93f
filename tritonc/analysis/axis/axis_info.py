"""Axis information: how integers and pointers run along each axis of a tile.

For each integer or pointer tile and each axis, three powers of two:

- *contiguity* c: along the axis, elements fall into runs of c whose values rise by one (for
  pointers: by one element), except that narrow integers may wrap within a run, at multiples of
  its divisibility;
- *divisibility* d: the value at the start of every such run, wherever along the other axes, is a
  multiple of d (for pointers: of d bytes);
- *constancy* k: elements fall into runs of k equal values.

Runs start at multiples of their length.  From these follow the width of memory accesses and the
choice of layouts.  It is the lattice of Triton's AxisInfo and of the `align` pass of 2021; the meet
is the greatest common divisor, and loops are solved by iteration from the top.

For `base + row[:, newaxis] * stride + column[newaxis, :]` of f32, with column a range of 64 and
stride a multiple of 4: along axis 1 contiguity is 64 and divisibility 16 bytes, so four elements
may be accessed at once."""

from collections.abc import Iterable
from functools import lru_cache, reduce
from math import gcd
from operator import attrgetter
from typing import Any

from tritonc.analysis.axis.axis_lattice import (
    TOP,
    AxisInfo,
    low_bit,
    meet,
    start_of,
    uniform,
    unknown,
)
from tritonc.analysis.axis.axis_rules import RULES, information
from tritonc.analysis.signs import Signs
from tritonc.ir.core import TYPE, Kernel, Op, Value
from tritonc.ir.types import Pointer, element, has_numbers, is_int, is_pointer, shape

__all__ = ["TOP", "AxisInfo", "Infos", "analyze", "known", "low_bit", "meet", "uniform", "unknown",
           "vector_length"]

_HAS_NUMBERS: Any = attrgetter("type.has_numbers")  # of a value
_MOST_DEPTH = 100  # operations that an answer about a new value looks through

Infos = dict[Value, AxisInfo]
Keys = dict[Op, tuple[object, ...]]


def analyze(kernel: Kernel) -> Infos:
    """Axis information of every integer and pointer value of the kernel.

    Passes change little of it: what was found before stays, but for what follows from operations
    that were others."""
    last, given = _last(kernel), [info.multiple_of for info in kernel.info]
    now = _keys(kernel)
    if now != last.keys or given != last.given:
        stale = _following(now, {op for op, key in now.items() if given != last.given
                                 or last.keys.get(op) != key})
        found = _given(kernel)
        for op in now:
            if op not in stale:
                for result in op.results:
                    if result in last.infos:
                        found[result] = last.infos[result]
        _solve(found, stale)
        last.given, last.keys, last.infos = given, now, found
    return dict(last.infos)


class _Last:
    def __init__(self) -> None:
        self.given: list[int] = []
        self.keys: Keys = {}
        self.infos: Infos = {}


@lru_cache(4)  # a kernel, and copies that are looked at meanwhile
def _last(kernel: Kernel) -> _Last:
    return _Last()


def _keys(kernel: Kernel) -> Keys:
    """All that integers and addresses depend on, by the operations that give them, which are equal
    to themselves alone."""
    found: Keys = {}
    for op in kernel.ops():
        if (results := op.results) and any(map(_HAS_NUMBERS, results)):
            key = op.guard, *op.operands, *map(TYPE, results)
            found[op] = (*key, *op.attributes, *op.attributes.values()) if op.attributes else key
    return found


def _following(ops: Iterable[Op], first: set[Op]) -> dict[Op, None]:
    """The operations of `first`, and those that follow from them, in the order of `ops`."""
    values = {result for op in first for result in op.results}
    rest, count = [*ops], -1
    while count < len(values):  # again around loops
        count, asked, rest = len(values), rest, []
        for op in asked:
            if values.isdisjoint(op.inputs()):
                rest.append(op)
            else:
                values.update(op.results)
    return {op: None for op in ops if op.results[0] in values}


def _given(kernel: Kernel) -> Infos:
    infos: Infos = {}
    for value, info in zip(kernel.parameters, kernel.info, strict=True):
        if is_pointer(value.type):
            natural = element(value.type)
            assert isinstance(natural, Pointer)
            align = low_bit(info.multiple_of) if info.multiple_of > 1 else natural.element.bytes
            infos[value] = unknown(value.type, max(align, natural.element.bytes))
        elif is_int(value.type):
            infos[value] = unknown(value.type, low_bit(info.multiple_of))
    return infos


def _solve(infos: Infos, among: Iterable[Op]) -> None:
    """Add what is known of the results of operations, which follow from what `infos` has."""
    signs = Signs()
    ops = [(op, [r for r in op.results if has_numbers(r.type)], op.inputs()) for op in among]
    stale: set[Value] | None = None  # what changed in the round before, behind what reads it
    ahead: set[Value] = set()  # what is read before it is made: around loops
    while stale is None or stale:
        changed: set[Value] = set()
        for op, results, inputs in ops:
            if stale is None:
                for v in inputs:
                    if v not in infos:
                        ahead.add(v)
            elif stale.isdisjoint(inputs) and changed.isdisjoint(inputs):
                continue
            for result in results:
                new = _transfer(op, result, infos, signs)
                old = infos.get(result)
                if new is not None and new != old:
                    infos[result] = new if old is None else meet(old, new)
                    if infos[result] != old:
                        changed.add(result)
        stale = changed & ahead


def known(infos: Infos, value: Value) -> AxisInfo:
    """The information of a value, which may have been made since `analyze`; `infos` grows."""
    pending = [value]
    while pending:
        op = pending[-1].op
        missing = [v for v in op.inputs() if v not in infos and has_numbers(v.type)] if (
            op is not None and op.name != "phi") else []
        if missing and len(pending) < _MOST_DEPTH:
            pending += missing
            continue
        top = pending.pop()
        if top not in infos:
            found = None if op is None or op.name == "phi" else _transfer(op, top, infos, Signs())
            infos[top] = found or unknown(top.type)
    return infos[value]


def distinct(infos: Infos, pointer: Value) -> bool:
    """Whether no two elements of a tile of pointers point to the same place."""
    info, extents = infos.get(pointer), shape(pointer.type)
    axes = [axis for axis, extent in enumerate(extents) if extent > 1]
    return info is not None and (
        not axes or (len(axes) == 1 and info.contiguity[axes[0]] == extents[axes[0]]))


def _transfer(op: Op, result: Value, infos: Infos, signs: Signs) -> AxisInfo | None:
    if op.name in RULES:
        operands = [infos.get(v) for v in op.operands]
        if None in operands and any(i is None and has_numbers(v.type)
                                    for i, v in zip(operands, op.operands, strict=True)):
            return None  # not reached yet
        return information(op, result.type, operands, signs)
    if op.name == "phi":
        known = [infos[v] for v in op.operands if v in infos]
        return reduce(meet, known) if known else None
    if op.name == "constant":
        value = op.attributes["value"]
        return uniform(result.type, low_bit(int(value)), int(value)) if isinstance(
            value, int) else unknown(result.type)
    return _load(op, result, infos)


def _load(op: Op, result: Value, infos: Infos) -> AxisInfo:
    """A load through equal pointers under equal guards gives equal values; nothing is known of what
    others give, unless it is supposed to be `whole` (`assumed_facts`)."""
    pointer = infos.get(op.operands[0]) if op.name == "load" else None
    guard = infos.get(op.guard) if op.guard is not None else None
    if pointer is None:
        return unknown(result.type)
    constancy = pointer.constancy
    if guard is not None and "whole" not in op.attributes:
        constancy = tuple(map(gcd, constancy, guard.constancy))
    ones = (1,) * len(constancy)
    return AxisInfo(ones, ones, constancy)


def vector_length(pointer: AxisInfo, guard: AxisInfo | None, axis: int, element_bytes: int,
                  limit_bytes: int = 16) -> int:
    """How many neighbours along `axis` one access may cover, from the meaning of the addresses."""
    run = min(pointer.contiguity[axis], limit_bytes // element_bytes)
    if guard is not None:
        run = min(run, guard.constancy[axis])
    while run > 1 and start_of(pointer, axis, run, element_bytes) < run * element_bytes:
        run //= 2
    return run
