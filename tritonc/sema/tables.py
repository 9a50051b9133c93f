"""Statements outside functions: they fill constant tables, at compile time.

    __constant__ int* delta = alloc_const int[512];
    for (int c = 0; c < 512; c++)
      delta[c] = (c / 3) * 64 + c % 3;

They are lowered as the statements of a function are, and the operations executed: scalars, and the
elements of tables.  A pointer is a table and an index."""

from contextlib import suppress
from typing import Any

from tritonc.frontend import syntax
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.numeric import numbers
from tritonc.ir.ops import OPS
from tritonc.ir.types import Tile
from tritonc.records import NamedTuple
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
    if context.diagnostics.errors != errors:
        return  # what stands for a wrong expression has no place
    with suppress(Refused):
        for op in context.kernel.ops():
            if any(isinstance(result.type, Tile) for result in op.results):
                context.refuse("file-statement", _place(op), "statements outside functions compute "
                               "with scalars, and this is a tile")
        _Run(context).run()


class _Pointer(NamedTuple):
    entity: Table
    at: int


class _Run:
    """The operations of `context.kernel`, executed one after the other."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.values: dict[Value, Any] = {}  # None: undefined
        self.tables = {table.name: table for table in context.unit.tables}

    def run(self) -> None:
        block: Block | None = self.context.kernel.entry
        steps = 0
        while block is not None:
            steps += len(block.ops)
            if steps > MAX_STEPS:
                self.context.refuse("constant-table", _place(block.terminator), "filling constant "
                                    f"tables takes more than {MAX_STEPS} steps: a loop that does "
                                    "not end?")
            block = self.through(block)

    def through(self, block: Block) -> Block | None:
        """Execute a block; gives the next one."""
        values = self.values
        for op in block.ops:
            if op.name == "phi":
                continue
            operands = [values[v] for v in op.inputs()]
            if None in operands:
                self.context.refuse("uninitialized", _place(op), "this reads what has no value yet")
            if op.guard is not None and not values[op.guard]:
                values.update(dict.fromkeys(op.results))
                continue
            match op.name:
                case "ret":
                    return None
                case "br" | "cond_br":
                    target = op.blocks[0 if len(op.blocks) == 1 or operands[0] else 1]
                case "undef":
                    values[op.result] = None
                case "constant":
                    values[op.result] = op.attributes["value"]
                case "constant_table":
                    values[op.result] = _Pointer(self.tables[op.attributes["symbol"]], 0)
                case "addptr" if isinstance(operands[0], _Pointer):
                    entity, at = operands[0]
                    values[op.result] = _Pointer(entity, at + operands[1])
                case "load":
                    data, at = self.element(op, operands[0])
                    values[op.result] = data[at]
                case "store":
                    data, at = self.element(op, operands[0])
                    data[at] = operands[1]
                case "assert":
                    if not operands[0]:
                        self.context.error("static-assertion", _place(op), "static assertion failed"
                                           + op.attributes["message"])
                case _:
                    self.compute(op, operands)
        # All phis read what was before any of them.
        phis = [op for op in target.ops if op.name == "phi"]
        values.update([(op.result, values[op.operands[op.blocks.index(block)]]) for op in phis])
        return target

    def compute(self, op: Op, operands: list[Any]) -> None:
        with suppress(numbers.NotFoldable):
            if not any(isinstance(operand, _Pointer) for operand in operands):
                found = numbers.evaluate(OPS[op.name], op, operands)
                self.values.update(zip(op.results, found, strict=True))
                return
        constants.not_constant(self.context, _place(op), "a value that fills a constant table")
        raise Refused

    def element(self, op: Op, pointer: Any) -> tuple[list[Any], int]:
        """The contents of a table and the index there that an access is about."""
        if not isinstance(pointer, _Pointer):
            self.context.refuse("file-statement", _place(op), "outside functions only elements of "
                                "constant tables can be accessed")
        entity, at = pointer
        table = entity.table
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
