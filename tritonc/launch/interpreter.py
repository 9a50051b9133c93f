"""Running a problem in the interpreter of Triton-IR."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any

import numpy.typing as npt

from tritonc.interp.frame import Step, Warn
from tritonc.interp.interpreter import FORWARD, STEP_LIMIT, Handler, Memory, run
from tritonc.ir.core import Block, Module, Op
from tritonc.ir.numeric.formats import from_memory, to_memory
from tritonc.ir.ops import OPS, OpInfo
from tritonc.launch.data import Data
from tritonc.records import dataclass
from tritonc.source import fail

MOST_PROGRAMS = 1 << 22  # an empty program takes some 10 us: the better part of a minute


@dataclass(frozen=True)
class Running:
    """How the interpreter runs: the order of programs, the most operations of one, whether races
    between programs are errors, the steps of a debugger, and who takes warnings (see
    `interpreter.run`)."""

    order: str = FORWARD
    max_steps: int = STEP_LIMIT
    races: bool = True
    after: Mapping[Block | Op, Sequence[Step]] = field(default_factory=dict)
    warn: Warn | None = None


def launch(module: Module, data: Data, table: Mapping[str, OpInfo] = OPS,
           handlers: Mapping[str, Handler] | None = None, running: Running | None = None
           ) -> dict[str, npt.NDArray[Any]]:
    """What every pointer argument holds after the kernel ran, in held form.

    Raises InterpreterError for what the program does wrong: an access outside of a buffer, a use
    of an undefined element."""
    if prod(data.grid) > MOST_PROGRAMS:
        raise fail("problem-expression", data.problem.span, f"the interpreter would run "
                   f"{prod(data.grid)} programs; its limit is {MOST_PROGRAMS}")
    if late := next((op for op in data.kernel.ops() if op.name not in table), None):
        raise fail("ir-stage", late.span, f"'{late.name}' is an operation of the backend; the "
                   "interpreter runs Triton-IR of earlier stages, as --stop-after=lower writes it")
    memory = Memory()
    elements = {table.name: table.element for table in module.constants}
    for symbol, held in data.tables.items():
        memory.define(symbol, to_memory(elements[symbol], held))
    arguments: list[int | float] = []
    for value in data.arguments:
        if value.pointer:
            stored = to_memory(value.element, value.held)
            arguments.append(memory.allocate(stored, value.name, value.pad))
        else:
            arguments.append(value.held)
    if 0 not in data.grid:
        how = running or Running(races=handlers is None)
        run(module, data.kernel.name, arguments, memory, data.grid, table=table, handlers=handlers,
            step_limit=how.max_steps, order=how.order, races=how.races, after=how.after,
            warn=how.warn)
    return {
        value.name: from_memory(value.element, memory.read(int(address)))
        for value, address in zip(data.arguments, arguments, strict=True) if value.pointer}
