"""compute_tables: entries of tables in constant memory are there when copies need them.

    for (int c = 0; c < C; c++)
      delta[c] = c * H * W + (c % 3 - 1) * W + c / 3 % 3 - 1;

Constant memory brings a line of a table when the first thread asks for it, so copies whose
addresses follow from an entry wait for two accesses, one after the other, in front of a loop and in
each of its steps.

In a loop of products on CUDA cores a small table is read in shared memory, where it lies from the
preheader on.  In front of the loop an element of it is computed, if a short formula gives it:

    %d = load (addptr (splat %delta), %c)
      ->  %d = (H * W + W) * %c + (1 - 3 * W) * (%c / 3) - 3 * (%c / 9) - W - 1

The digits of an index whose places count r, s, ...: c % r, c / r % s, and so on.  A table in which
each digit counts by a step of its own is a sum of quotients of the index, as is every table of the
taps of a filter.  It is found in the contents; zeros at the end may be such as nobody wrote.

H200, the paper's shift convolutions: 1.03 times as fast where a block has few steps (tasks 4, 5),
1.00 to 1.01 elsewhere.  With entries that are computed in loops, too, convolutions took up to 1.05
times as long.  A single number for all lanes stays a load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tritonc.analysis.values import SPREADS, defined_by, origin
from tritonc.backend.layout import layout_choice
from tritonc.backend.shared.allocate_shared import fits
from tritonc.backend.shared.shared_memory import LEFT
from tritonc.ir.build import Builder, make_op, replace_each
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import ConstantTable, Kernel, Op, Value
from tritonc.ir.layouts.shared_layout import row_major
from tritonc.ir.numeric.numbers import fit
from tritonc.ir.types import CONSTANT, I32, Buffer, Pointer, Tile, scalar, shape, with_element
from tritonc.records import NamedTuple

MOST_QUOTIENTS = 2  # three instructions each
MOST_KEPT = 1 << 10  # elements in shared memory
_SPREADS = (*SPREADS, "trans", "convert_layout")


class _Formula(NamedTuple):
    """start + sum of factor * (index / divisor), for indices below `known`, and then 0."""

    known: int
    start: int
    terms: tuple[tuple[int, int], ...]  # divisor and factor


def compute_tables(kernel: Kernel, context: Context) -> bool:
    """Keep small tables in shared memory for loops, and compute their entries before loops."""
    cfg = Cfg(kernel)
    small = {table.name: table for table in context.tables.values()
             if table.element == I32 and table.count <= MOST_KEPT}
    kept = {name: formula_of(small[name].data or []) for loop in cfg.loops
            for name in _keep(kernel, loop, small, context.target.shared_per_block - LEFT)}

    def computed(load: Op, build: Builder) -> Value | None:
        if not isinstance(load.result.type, Tile) or build.block in cfg.innermost:
            return None
        table = _table(load)
        if (formula := kept.get(table)) is None:
            return None
        index = _index(build, load.operands[0])
        assert index is not None
        context.remark("compute_tables", f"entries of table '{table}' follow from their index: "
                       "the first ones are computed, not loaded", load.span)
        return _value(build, formula, index, small[table].count)

    replace_each(kernel, "load", computed)
    return bool(kept)


def _keep(kernel: Kernel, loop: Loop, tables: Mapping[str, ConstantTable], room: int) -> list[str]:
    """Let a loop read tables in shared memory, if it has products on CUDA cores; their names."""
    body, before = loop.latch, loop.preheader
    if body is None or before is None or all(op.name != "fma_dot" for op in body.ops):
        return []
    loads = {op: _table(op) for op in body.ops if _table(op) in tables
             and isinstance(op.result.type, Tile)}
    buffers: dict[str, Value] = {}
    for op, name in loads.items():
        places = sum(_places(tables[n]) for n in {*buffers, name})
        if name not in buffers and fits(kernel, room, places * I32.bytes):
            end = Builder(before, len(before.ops) - 1, op.span)
            buffers[name] = _filled(kernel, end, tables[name])
    found: dict[Value, Value] = {}
    build, old = Builder(body), body.ops
    body.ops = []
    for op in old:
        buffer = buffers.get(loads.get(op, ""))
        if buffer is None:
            build.insert(op)
            continue
        index = _index(build, op.operands[0])
        assert index is not None
        last = build.constant(shape(buffer.type)[0] - 1, index.type)  # of an iteration too far
        found[op.result] = build.value("shared_gather", buffer, build.value("and", index, last))
    kernel.replace(found)
    return [*buffers]


def _places(table: ConstantTable) -> int:
    return 1 << (table.count - 1).bit_length()


def _filled(kernel: Kernel, build: Builder, table: ConstantTable) -> Value:
    """A buffer that holds a table from the builder's place on."""
    places = _places(table)
    buffer = make_op("alloc_shared", [], Buffer(I32, (places,), 1, row_major((places,))))
    buffer.result.name = table.name
    kernel.entry.ops.insert(0, buffer)
    tile = Tile(I32, (places,), layout_choice.plain((places,), kernel.attributes["num_warps"]))
    index = build.value("range", type=tile, start=0, stop=places)
    inside = build.value("icmp", index, build.constant(table.count, tile), predicate="ult")
    pointer = Pointer(I32, CONSTANT)
    start = build.value("constant_table", type=pointer, symbol=table.name)
    pointers = build.value("splat", start, type=with_element(tile, pointer))
    loaded = build.value("load", build.value("addptr", pointers, index), guard=inside)
    build.emit("shared_store", buffer.result, loaded)
    return buffer.result


def formula_of(data: Sequence[int | float]) -> _Formula | None:
    """The formula of a table, if it is a short one.

    >>> formula_of([0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 0])
    _Formula(known=10, start=0, terms=((1, 1), (3, 7), (6, 80)))
    """
    left = [int(value) for value in data]
    if not left:  # the host fills it
        return None
    while len(left) > 1 and not left[-1]:
        left.pop()
    known, divisor, digits = len(left), 1, list[tuple[int, int]]()
    while len(left) > 1:
        step = left[1] - left[0]
        radix = next((i for i in range(2, len(left)) if left[i] - left[i - 1] != step), len(left))
        if len(digits) > MOST_QUOTIENTS or any(
                value != left[i - i % radix] + i % radix * step for i, value in enumerate(left)):
            return None
        digits.append((divisor, step))
        divisor, left = divisor * radix, left[::radix]
    terms, less = [], 0  # digit i of an index n is n / d[i] - radix * (n / d[i + 1])
    for i, (divisor, step) in enumerate(digits):
        terms.append((divisor, step - less))
        if i + 1 < len(digits):
            less = step * (digits[i + 1][0] // divisor)
    return _Formula(known, left[0], tuple(term for term in terms if term[1]))


def _table(load: Op) -> str:
    """The name of the table that a load reads; "" for others."""
    if load.name != "load" or load.attributes.get("volatile"):
        return ""
    base = defined_by(origin(load.operands[0], (*_SPREADS, "addptr")), "constant_table")
    return base.attributes["symbol"] if base is not None else ""


def _index(build: Builder, pointer: Value) -> Value | None:
    """How far a pointer is from the start of its table; None at the start."""
    op = pointer.op
    assert op is not None
    if op.name == "constant_table":
        return None
    before = _index(build, op.operands[0])
    if op.name != "addptr":
        return before and build.value(op.name, before, type=with_element(op.result.type, I32),
                                      **op.attributes)
    offset = _narrow(build, op.operands[1])
    return offset if before is None else build.value("add", before, offset)


def _narrow(build: Builder, index: Value) -> Value:
    """An index in 32 bits, which hold those of a table; what spreads a scalar spreads it then."""
    if index.op is not None and index.op.name in _SPREADS:
        source = _narrow(build, index.op.operands[0])
        return build.value(index.op.name, source, type=with_element(index.type, I32),
                           **index.op.attributes)
    bits = scalar(index.type).bits
    return index if bits == 32 else build.value("truncate" if bits > 32 else "sext", index,
                                                type=with_element(index.type, I32))


def _value(build: Builder, formula: _Formula, index: Value, count: int) -> Value:
    def number(value: int) -> Value:
        return build.constant(fit(I32, value), index.type)

    value = number(formula.start)
    for divisor, factor in formula.terms:
        place = index if divisor == 1 else build.value("udiv", index, number(divisor))
        value = build.value("add", value, build.value("mul", place, number(factor)))
    if formula.known == count:
        return value
    inside = build.value("icmp", index, number(formula.known), predicate="ult")
    return build.value("select", inside, value, number(0))
