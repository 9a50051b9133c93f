"""Running a lowered program as LLVM IR, and its PTX."""

from __future__ import annotations

from typing import Any

import numpy as np
from simt import Machine
from sketch import Program

from tritonc.backend import assemble, llvm
from tritonc.backend.target.target import find
from tritonc.interp.memory import Memory
from tritonc.ir.numeric.formats import memory_dtype, to_memory
from tritonc.ir.types import Pointer, is_pointer
from tritonc.options import Options


def execute(program: Program, target: str = "sm_80", **options: Any) -> dict[str, Any]:
    """What each buffer holds after the LLVM IR ran, in memory form."""
    return launch(program, target, **options)[0]


def launch(program: Program, target: str = "sm_80", kind: type[Machine] = Machine,
           **options: Any) -> tuple[dict[str, Any], Machine]:
    """What `execute` gives, and the machine after the run."""
    memory = Memory()
    numbers = []
    for parameter, argument in zip(program.kernel.parameters, program.arguments, strict=True):
        if is_pointer(parameter.type):
            pointed = parameter.type
            assert isinstance(pointed, Pointer)
            stored = np.ascontiguousarray(to_memory(pointed.element, argument))
            argument = memory.allocate(stored.view(memory_dtype(pointed.element)), parameter.name)
        numbers.append(argument)
    buffers = list(memory.buffers)
    for table in program.module.constants:
        memory.define_table(table)
    text = llvm.emit(program.module, find(target), Options(**options))
    machine = kind(text, memory, program.kernel.threads)
    machine.launch(program.kernel.name, numbers, program.grid)
    return {b.name: b.array for b in buffers}, machine


def ptx(program: Program, target: str, **options: Any) -> str:
    made = Options(**options)
    return assemble.assemble(llvm.emit(program.module, find(target), made), find(target), made)
