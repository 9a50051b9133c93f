"""Tiles at edges that may begin earlier, so that they are full.

A grid of tiles of T elements covers N with ceil(N / T) programs, of which the last one may have
less to do than the others, under masks.  Where N is at least T it can begin at N - T instead, and
be full: what it computes beside its own its neighbour computes too, and both store the same.  So no
program takes a body for edges, for which all others would wait, and masks go.

    %start = mul %program, 128          ->     %start = smin (mul %program, 128), (N - 128)

That is right if what is stored for an element follows from its index alone, and nothing is stored
from N on: the program's number is only asked for where tiles begin, and no operation mixes elements
along that axis, or reads what the launch stores.  All programs of an axis must take the same body,
so that sums are rounded alike.
"""

from __future__ import annotations

from collections.abc import Mapping

from tritonc.analysis.aliases import pointer_roots, stores_may_reach
from tritonc.analysis.axis import axis_info
from tritonc.analysis.values import conditions, int_of, origin
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.ops import CONTROL
from tritonc.ir.types import Tile, same_axes, shape
from tritonc.records import NamedTuple

_MIXED = -1  # elements of several indices


class Moved(NamedTuple):
    """Tiles of `extent` elements along an axis of the grid, which begin at `starts`; `limit`: what
    their indices are compared with."""

    extent: int
    starts: tuple[Value, ...]
    limit: Value


def moved_tiles(kernel: Kernel) -> dict[int, Moved]:
    """The axes of the grid whose last tiles may begin earlier; nothing but for products, whose
    programs take long."""
    ops = list(kernel.ops())
    loads, stores = ([op for op in ops if op.name == name] for name in ("load", "store"))
    others = [op for op in ops if op.effects - {CONTROL} and op not in (*loads, *stores)]
    if not any(op.name == "dot" for op in ops) or any(op.name != "assume" for op in others) or any(
            op.attributes.get("volatile") for op in loads) or stores_may_reach(
            kernel, kernel.blocks, loads, pointer_roots(kernel)):
        return {}
    readers, infos = uses(kernel), axis_info.analyze(kernel)
    found = {axis: _moved(ops, axis, readers, infos) for axis in range(3)}
    return {axis: moved for axis, moved in found.items() if moved is not None}


def _moved(ops: list[Op], axis: int, readers: Mapping[Value, list[Op]], infos: axis_info.Infos
           ) -> Moved | None:
    asked = [op for op in ops if op.attributes.get("axis") == axis
             and op.name in ("get_program_id", "get_num_programs")]
    starts = list(dict.fromkeys(reader for op in asked for reader in readers.get(op.result, ())))
    extents = {int_of(v) for op in starts for v in op.operands if op.name == "mul"}
    extent = next((n for n in extents if n is not None), 0)
    if extent < 2 or extents != {extent, None} or any(
            op.name != "mul" for op in starts) or any(op.name != "get_program_id" for op in asked):
        return None
    along: dict[Value, int] = {}  # of tiles whose elements have indices: along which of their axes
    for op in starts:
        for splat in readers.get(op.result, ()):
            for index in readers.get(splat.results[0], ()) if splat.name == "splat" else [splat]:
                if index.name != "add" or shape(index.result.type) != (extent,) or not any(
                        _counts(v, extent) for v in index.operands):
                    return None
                along[index.result] = 0
    seeds = set(along)
    while True:  # loops carry tiles
        known = len(along)
        for op in ops:
            for result in op.results:
                if result not in along and (where := _where(op, along)) is not None:
                    along[result] = where
        if len(along) == known:
            break
    tests = [op for op in ops if op.name == "icmp" and op.attributes["predicate"] == "slt"
             and origin(op.operands[0], ("reshape", "broadcast")) in seeds]
    limits = {origin(op.operands[1]) for op in tests}  # behind which nothing is stored
    if len(limits) != 1 or not all(_each(op, along, seeds, infos) for op in ops) or not all(
            op.guard is not None and any(v.op in tests for v in conditions(
                op.guard, ("broadcast", "reshape"))) for op in ops if op.name == "store"):
        return None
    limit = limits.pop()
    return Moved(extent, tuple(op.result for op in starts), limit) if limit.op is None else None


def _counts(value: Value, extent: int) -> bool:
    op = value.op
    return op is not None and op.name == "range" and (
        op.attributes["start"], op.attributes["stop"]) == (0, extent)


def _where(op: Op, along: Mapping[Value, int]) -> int | None:
    """The axis of what an operation makes along which elements have indices; None if there is
    none, _MIXED if it is not one."""
    found: set[int] = set()
    for number, value in enumerate(op.inputs()):
        if value not in along:
            continue
        axis, t = along[value], op.results[0].type if op.results else value.type
        if axis == _MIXED:
            return _MIXED
        if op.name == "reshape":
            places = same_axes(shape(value.type), shape(t))
            axis = places.index(axis) if places is not None and axis in places else _MIXED
        elif op.name == "trans":
            axis = op.attributes["permutation"].index(axis)
        elif op.name == "dot":
            rank = len(shape(t))
            axis = axis if number == 2 or (number < 2 and axis == rank - 2 + number) else _MIXED
        elif op.name not in ("phi", "load", "broadcast") and not op.info.elementwise:
            axis = _MIXED
        found.add(axis)
    return None if not found else found.pop() if len(found) == 1 else _MIXED


def _each(op: Op, along: Mapping[Value, int], seeds: set[Value], infos: axis_info.Infos) -> bool:
    """Whether an operation does the same with each element of an index, wherever in a tile it is:
    what has no index is the same for all."""
    if op.name == "store" and op.operands[0] not in along:
        return False
    inputs = op.inputs()
    axes = {along[v] for v in (*inputs, *op.results) if v in along}
    if not axes or (op.results and op.results[0] in seeds):
        return True
    if _MIXED in axes:
        return False
    if op.name in ("reshape", "trans", "broadcast", "dot") and op.results[0] in along and (
            op.name != "dot" or op.operands[2] in along):
        return True
    (axis,) = axes if len(axes) == 1 else (_MIXED,)
    checked = inputs[2:] if op.name == "dot" else inputs
    return axis != _MIXED and all(v in along or _same(v, axis, infos) for v in checked)


def _same(value: Value, axis: int, infos: axis_info.Infos) -> bool:
    """Whether all elements of a tile along an axis are equal."""
    t, op, info = value.type, value.op, infos.get(value)
    if not isinstance(t, Tile) or t.shape[axis] == 1:
        return True
    if op is not None and op.name in ("splat", "constant"):
        return True
    if op is not None and op.name == "broadcast" and shape(op.operands[0].type)[axis] == 1:
        return True
    if op is not None and op.name in ("cmpp", "and", "or"):
        return all(_same(v, axis, infos) for v in op.operands)
    return info is not None and info.constancy[axis] >= t.shape[axis]
