"""Launches in the interpreter, on arrays of the CPU: slow, and for tests of what uses a kernel."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tritonc.interp.interpreter import run
from tritonc.interp.memory import Memory
from tritonc.ir.core import Module
from tritonc.ir.types import Pointer
from tritonc.launch.python.kernel import Kernel

Bytes = npt.NDArray[np.uint8]


def launch(kernel: Kernel, module: Module, global_range: int | Sequence[int],
           arguments: Sequence[Bytes | float]) -> None:
    """Run `kernel`, of which `module` has the Triton-IR, on bytes of arrays and on numbers.

    Raises TypeError or ValueError for wrong arguments, and InterpreterError, a CompileError, for
    what the program does wrong."""
    memory = Memory()
    own = next(k for k in module.kernels if k.name == kernel.name)
    values: list[int | float] = []
    for parameter, value, argument in zip(kernel.parameters, own.parameters, arguments,
                                          strict=True):
        if isinstance(argument, np.ndarray):
            assert isinstance(value.type, Pointer)
            unit = np.dtype(f"u{value.type.element.bytes}")
            values.append(memory.allocate(argument.view(unit), parameter.name))
        else:
            values.append(parameter.number(argument))
    extents = global_range if isinstance(global_range, Sequence) else (global_range,)
    grid = tuple(-(-int(extent) // own.tile.get(axis, 1)) for axis, extent in enumerate(extents))
    if 0 not in grid:
        run(module, kernel.name, values, memory, grid)
    for argument, address in zip(arguments, values, strict=True):
        if isinstance(argument, np.ndarray):
            argument[:] = memory.read(int(address)).view(np.uint8)
