"""Accesses side by side that take every n-th element each, as those of the fields of records do.

    x[3 * i], x[3 * i + 1], x[3 * i + 2]         points of three floats: 12 bytes from i to i + 1

Each of them alone moves one element at a time.  A thread that has four neighbours of i has 48 bytes
in a row, which LLVM moves by three accesses of 16 where it knows that the first one is aligned.

    x[2 * j[i]], x[2 * j[i] + 1]                  pairs anywhere: 8 bytes each

Of records anywhere each is moved by itself, if there are two or four fields of an aligned access.
"""

from collections.abc import Collection, Iterable
from math import gcd, prod
from typing import NamedTuple

from tritonc.analysis.affine import Affine, Affinity
from tritonc.analysis.axis.axis_info import Infos
from tritonc.analysis.runs import Runs
from tritonc.analysis.values import defined_by, int_of, is_uniform
from tritonc.analysis.windows import ACCESS_BYTES, Window, windows
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import Tile, scalar, shape

_MOST_BYTES = 64  # of a thread in a row


class Record(NamedTuple):
    """A field of records: `begin` bytes behind the first one that is accessed, `step` bytes from
    one neighbour along `axis` to the next; of `run` neighbours whole accesses bring all fields.
    Fields of one `number` lie in the same records.  Those anywhere have no axis (-1)."""

    number: int
    axis: int
    begin: int
    step: int
    run: int


def fields(ops: Iterable[Op], affinity: Affinity) -> dict[Op, tuple[Record, Affine]]:
    """Loads, or stores, of the same records among operations of a block, with their addresses."""
    groups: dict[object, tuple[int, list[tuple[Op, Record, Affine]]]] = {}
    for op in ops:
        if op.name not in ("load", "store") or not isinstance(op.operands[0].type, Tile) \
                or (form := affinity.of(op.operands[0])) is None or form.base is None:
            continue
        size = scalar(pointee(op.operands[0].type)).bytes
        steps = {s.constant: d for d, s in enumerate(form.strides) if s.constant}
        step = min(steps, default=0)
        run = ACCESS_BYTES // gcd(ACCESS_BYTES, step * size)
        if step < 2 or run * step * size > _MOST_BYTES:
            continue
        begin = form.offset.constant_term
        key = (op.name, form.base, form.strides, frozenset(form.offset.symbolic),
               op.operands[0].type, op.guard)
        number, group = groups.setdefault(key, (len(groups), []))
        record = Record(number, steps[step], begin * size, step * size, run)
        group.append((op, record, form))
    return {op: (record, form) for _, group in groups.values()
            if len({record.begin for _, record, _ in group}) > 1
            for op, record, form in group}


def pairs(ops: Iterable[Op]) -> dict[Op, tuple[Op, int, int]]:
    """Loads, or stores, of two or four neighbours from places that may be anywhere: with each, the
    access of the first one, how many elements behind it, and how many neighbours there are."""
    groups: dict[object, dict[int, Op]] = {}
    for op in ops:
        made = defined_by(op.operands[0], "addptr") if op.name in ("load", "store") else None
        if made is None or not isinstance(made.result.type, Tile) or not is_uniform(
                made.operands[0]) or op.attributes.get("volatile"):
            continue
        index, begin = made.operands[1], 0
        while (added := defined_by(index, "add")) is not None and (
                n := int_of(added.operands[1])) is not None:
            index, begin = added.operands[0], begin + n
        groups.setdefault((op.name, made.operands[0], index, op.guard), {}).setdefault(begin, op)
    found: dict[Op, tuple[Op, int, int]] = {}
    for group in groups.values():
        size = scalar(pointee(next(iter(group.values())).operands[0].type)).bytes
        for count in (n for n in (4, 2) if n * size <= ACCESS_BYTES):
            for begin, first in group.items():
                parts = [group.get(begin + i) for i in range(count)]
                if begin % count == 0 and None not in parts and first not in found:
                    found.update((op, (first, i, count)) for i, op in enumerate(parts) if op)
    return found


def unaligned(record: Record, form: Affine, infos: Infos) -> dict[Value, int] | None:
    """What would have to be multiples so that the first record of each run begins at a whole
    access; None where that is not enough."""
    assert form.base is not None
    size = scalar(pointee(form.base.type)).bytes
    terms = [*form.offset.symbolic]
    terms += [term for d, s in enumerate(form.strides) if d != record.axis for term in s.terms]
    found = {} if _every(form.base, infos) % ACCESS_BYTES == 0 else {form.base: ACCESS_BYTES}
    for values, n in sorted(terms, key=lambda term: len(term[0])):
        starts = prod(_start(v, record.axis, infos) * found.get(v, 1) for v in values)
        if (known := gcd(ACCESS_BYTES, n * size * starts)) < ACCESS_BYTES:
            if not values:
                return None
            factor = next((v for v in values if v.op is None), values[0])  # a parameter is tested
            found[factor] = ACCESS_BYTES // known * _every(factor, infos) * found.get(factor, 1)
    return found


def records(known: Runs, blocks: Iterable[Block]) -> dict[Op, Record]:
    """The accesses without masks of which a thread that has a run of records makes whole ones."""
    found = {op: record for block in blocks
             for op, (record, form) in fields(block.ops, known).items()
             if op.guard is None and not op.attributes.get("volatile")
             and unaligned(record, form, known.infos) == {}}
    numbers: dict[Op, int] = {}
    begin = 1 + max((record.number for record in found.values()), default=-1)
    for op, (first, place, count) in (one for block in blocks for one in pairs(block.ops).items()):
        size = scalar(pointee(op.operands[0].type)).bytes
        if op.guard is None and op not in found and _every(
                first.operands[0], known.infos) % (count * size) == 0:
            number = numbers.setdefault(first, begin + len(numbers))
            found[op] = Record(number, -1, place * size, count * size, 1)
    return found


def places(kernel: Kernel, infos: Infos, blocks: Collection[Block] | None = None
           ) -> tuple[dict[Op, Window], dict[Op, Record]]:
    """The windows of loads and stores, and the fields of records, which have none of their own."""
    known, blocks = Runs(infos), kernel.blocks if blocks is None else blocks
    found, apart = windows(kernel, known, blocks), records(known, blocks)
    return {op: one for op, one in found.items() if one.step == 1 or op not in apart}, apart


def _start(value: Value, axis: int, infos: Infos) -> int:
    """What divides a value, or the beginnings of its runs along an axis; of a range, which has one
    axis wherever it lies, its beginning."""
    info, axes = infos.get(value), len(shape(value.type))
    if info is None or not axes:
        return _every(value, infos)
    axis = axis if axis < axes else 0
    return info.start_divisibility(axis, info.contiguity[axis])


def _every(value: Value, infos: Infos) -> int:
    return infos[value].every if value in infos else 1
