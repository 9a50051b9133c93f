"""compute_tables: what a table in constant memory says is computed, where a short formula does.

    for (int c = 0; c < C; c++)
      delta[c] = c * H * W + (c % 3 - 1) * W + c / 3 % 3 - 1;

    %d = load (addptr (splat %delta), %c)
      ->  %d = (H * W + W) * %c + (1 - 3 * W) * (%c / 3) - 3 * (%c / 9) - W - 1

The digits of an index whose places count r, s, ...: c % r, c / r % s, and so on.  A table in which
each digit counts by a step of its own is a sum of quotients of the index, as is every table of the
taps of a filter.  It is found in the contents; zeros at the end may be such as nobody wrote.

A load from constant memory takes a cycle for each of the addresses that lanes have, and the first
one a way to memory, before the copies can start whose addresses follow from it (an H200, task 4 of
the paper's shift convolutions: docs/paper.md).  A single number for all lanes stays a load.
"""

from __future__ import annotations

from collections.abc import Sequence

from tritonc.analysis.values import SPREADS, defined_by, origin
from tritonc.ir.build import Builder, replace_each
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.numeric.numbers import fit
from tritonc.ir.types import I32, Tile, scalar, with_element
from tritonc.records import NamedTuple

MOST = 2  # quotients, three instructions each


class _Formula(NamedTuple):
    """start + sum of factor * (index / divisor), for indices below `known`, and then 0."""

    known: int
    start: int
    terms: tuple[tuple[int, int], ...]  # divisor and factor


def compute_tables(kernel: Kernel, context: Context) -> bool:
    """Compute the elements of such tables in place of loads."""
    formulas = {name: formula_of(table.data) for name, table in context.tables.items()
                if table.element == I32 and table.data}

    def computed(load: Op, build: Builder) -> Value | None:
        if not isinstance(load.result.type, Tile) or load.attributes:  # such as volatile
            return None
        table = _table(load.operands[0])
        if (formula := formulas.get(table)) is None:
            return None
        index = _index(build, load.operands[0])
        assert index is not None
        context.remark("compute_tables", f"table '{table}' is computed: its elements follow from "
                       "their index", load.span)
        return _value(build, formula, index, context.tables[table].count)

    return bool(formulas) and replace_each(kernel, "load", computed)


def formula_of(data: Sequence[int | float]) -> _Formula | None:
    """The formula of a table, if it is a short one.

    >>> formula_of([0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 0])
    _Formula(known=10, start=0, terms=((1, 1), (3, 7), (6, 80)))
    """
    left = [int(value) for value in data]
    while len(left) > 1 and not left[-1]:
        left.pop()
    count, divisor, digits = len(left), 1, list[tuple[int, int]]()
    while len(left) > 1:
        step = left[1] - left[0]
        radix = next((i for i in range(2, len(left)) if left[i] - left[i - 1] != step), len(left))
        if len(digits) > MOST or any(
                value != left[i - i % radix] + i % radix * step for i, value in enumerate(left)):
            return None
        digits.append((divisor, step))
        divisor, left = divisor * radix, left[::radix]
    terms, less = [], 0  # digit i of an index n is n / d[i] - radix * (n / d[i + 1])
    for i, (divisor, step) in enumerate(digits):
        terms.append((divisor, step - less))
        if i + 1 < len(digits):
            less = step * (digits[i + 1][0] // divisor)
    return _Formula(count, left[0], tuple(term for term in terms if term[1]))


def _table(pointer: Value) -> str:
    """The name of the table in which a pointer's elements are; "" if it is in none."""
    base = defined_by(origin(pointer, (*SPREADS, "trans", "addptr")), "constant_table")
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
    if index.op is not None and index.op.name in (*SPREADS, "trans"):
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
