"""PTX of one kernel while passes go on with the next: threads run LLVM, which needs no Python.

Where kernels may get other names later, or be left out, only long ones are begun, as that may be
work for nothing.  Where none can, each is, and gives up its operations, which take ten times the
memory of its PTX.  The PTX depends on the kernels alone, not on which thread was first."""

import gc
from collections.abc import Sequence

from tritonc.backend import llvm, parts
from tritonc.backend.assemble import Task
from tritonc.backend.ptxas_faults import worked_around
from tritonc.backend.target.target import Target
from tritonc.ir.core import ConstantTable, Kernel, Module
from tritonc.options import Options
from tritonc.source import CompileError

_WAITING = 64  # kernels that are text, but not PTX yet
_COLLECTED = 32  # kernels between collections of garbage, 1 to 2 MB each


class Ahead:
    """`final`: all kernels that begin stay, with their names."""

    def __init__(self, constants: list[ConstantTable], target: Target, options: Options,
                 final: bool) -> None:
        self._constants, self._target, self._options = constants, target, options
        self._begun: dict[tuple[Kernel, str], Task] = {}  # by their names then
        self._told: dict[tuple[Kernel, str], str] = {}  # what another process has made
        self._final = final

    def begin(self, kernel: Kernel) -> None:
        """After all passes of the kernel."""
        try:
            text = self._emit([kernel])
        except CompileError:
            return  # `ptx` finds that again
        if parts.stands_alone(text) and (self._final or parts.is_long(
                text.partition(parts.KERNEL)[2])):
            if len(self._begun) >= _WAITING:
                [*self._begun.values()][-_WAITING].join()
            self._begun[kernel, kernel.name] = Task(text, self._target, self._options)
            if self._final:
                kernel.blocks.clear()
                if len(self._begun) % _COLLECTED == 0:
                    gc.collect()  # of operations, and of what passes leave
                    gc.freeze()  # the next collection need not look at what stays

    def known(self, kernel: Kernel) -> str | None:
        """Its PTX, if that was begun."""
        task = self._begun.get((kernel, kernel.name))
        return task.result() if task is not None else self._told.get((kernel, kernel.name))

    def tell(self, kernel: Kernel, ptx: str) -> None:
        self._told[kernel, kernel.name] = ptx

    def ptx(self, kernels: Sequence[Kernel]) -> str:
        """The PTX of the module that these have come to be: first those that have not begun."""
        gc.unfreeze()
        made = self._begun.keys() | self._told.keys()
        others = [kernel for kernel in kernels if (kernel, kernel.name) not in made]
        tasks = [Task(part, self._target, self._options)
                 for part in (parts.split(self._emit(others)) if others else ())]
        begun = [found for kernel in kernels if (found := self.known(kernel)) is not None]
        return worked_around(parts.join([*(task.result() for task in tasks), *begun]),
                             self._options)

    def _emit(self, kernels: Sequence[Kernel]) -> str:
        return llvm.emit(Module([*kernels], self._constants), self._target, self._options)
