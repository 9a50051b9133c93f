"""Statements outside functions: they fill constant tables, at compile time.

    __constant__ int* delta = alloc_const int[512];
    for (int c = 0; c < 512; c++)
      delta[c] = (c / 3) * 64 + c % 3;

They are lowered as the statements of a function are, and the operations executed: scalars, and the
elements of tables.  A pointer is a table and an index.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tritonc.frontend import syntax
from tritonc.ir import numbers
from tritonc.ir.core import Op, Value
from tritonc.ir.ops import OPS
from tritonc.ir.types import Tile
from tritonc.sema.context import Context
from tritonc.sema.functions import check_reads
from tritonc.sema.scope import Table
from tritonc.sema.types import constants
from tritonc.sema.types.term import Refused
from tritonc.source import Span

MAX_STEPS = 400_000  # operations: 24 for each int that constant memory holds


def fill_tables(context: Context, statements: list[syntax.Statement]) -> None:
    """Execute the statements that stand outside functions, until one is wrong."""
    errors = context.diagnostics.errors
    for statement in statements:
        context.lower(statement)
    context.emit("ret")
    context.ssa.finish(context.kernel)
    check_reads(context)
    with suppress(Refused):
        for op in context.kernel.ops():
            if any(isinstance(result.type, Tile) for result in op.results):
                context.refuse("file-statement", _place(op), "statements outside functions compute "
                               "with scalars, and this is a tile")
        if context.diagnostics.errors == errors:
            _Run(context).run()


class _Run:
    """The operations of `context.kernel`, executed one after the other."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.values: dict[Value, Any] = {}
        self.tables = {table.name: table for table in context.unit.tables}

    def run(self) -> None:
        block, steps = self.context.kernel.entry, 0
        while block.terminator.name != "ret":
            self.straight(block.ops[:-1])
            last = block.terminator
            steps += len(block.ops)
            if steps > MAX_STEPS:
                self.context.refuse("constant-table", _place(last), "filling constant tables takes "
                                    f"more than {MAX_STEPS} steps: a loop that does not end?")
            taken = last.blocks[0 if len(last.blocks) == 1 or self.values[last.operands[0]] else 1]
            # All phis read what was before any of them.
            phis = [op for op in taken.ops if op.name == "phi"]
            self.values.update([(op.result, self.values[op.operands[op.blocks.index(block)]])
                                for op in phis])
            block = taken
        self.straight(block.ops[:-1])

    def straight(self, ops: list[Op]) -> None:
        values = self.values
        for op in ops:
            match op.name:
                case "phi":
                    pass
                case "undef":
                    values[op.result] = None
                case "constant":
                    values[op.result] = op.attributes["value"]
                case "constant_table":
                    values[op.result] = self.tables[op.attributes["symbol"]], 0
                case "addptr" if isinstance(values[op.operands[0]], tuple):
                    table, at = values[op.operands[0]]
                    values[op.result] = table, at + values[op.operands[1]]
                case "load":
                    data, at = self.element(op)
                    values[op.result] = data[at]
                case "store":
                    data, at = self.element(op)
                    data[at] = values[op.operands[1]]
                case "assert":
                    if not values[op.operands[0]]:
                        self.context.error("static-assertion", _place(op), "static assertion failed"
                                           + op.attributes["message"])
                case _:
                    self.compute(op)

    def compute(self, op: Op) -> None:
        operands = [self.values[v] for v in op.operands]
        try:
            if None not in operands:
                found = numbers.evaluate(OPS[op.name], op, operands)
                self.values.update(zip(op.results, found, strict=True))
                return
        except (numbers.NotFoldable, TypeError):
            pass  # the latter of a table's place
        constants.not_constant(self.context, _place(op), "a value that fills a constant table")
        raise Refused

    def element(self, op: Op) -> tuple[list[Any], int]:
        """The contents of a table and the index there that an access is about."""
        place = self.values[op.operands[0]]
        if not isinstance(place, tuple):
            self.context.refuse("file-statement", _place(op), "outside functions only elements of "
                                "constant tables can be accessed")
        entity: Table = place[0]
        table, at = entity.table, place[1]
        if not 0 <= at < table.count:
            self.context.refuse("constant-table", _place(op), f"index {at} is outside of table "
                                f"'{entity.name}', which has {table.count} elements")
        if table.data is None:
            if op.name == "load":
                self.context.refuse("not-a-constant", _place(op), f"the content of table "
                                    f"'{entity.name}' is not known yet; the host fills it, or a "
                                    "later statement")
            table.data = [0.0 if table.element.is_float else 0] * table.count
        return table.data, at


def _place(op: Op) -> Span:
    assert op.span is not None
    return op.span
