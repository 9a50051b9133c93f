"""PTX of one kernel while passes go on with the next: threads run LLVM, which needs no Python.

A kernel whose text is long is a module of its own.  If it gets another name later, or is left out,
that was work for nothing; the PTX depends on the kernels alone, not on which thread was first."""

from collections.abc import Callable, Sequence

from tritonc.backend import llvm, parts
from tritonc.backend.assemble import Task, assemble
from tritonc.backend.ptxas_faults import worked_around
from tritonc.backend.target.target import Target
from tritonc.ir.core import ConstantTable, Kernel, Module
from tritonc.options import Options
from tritonc.source import CompileError


class Ahead:
    def __init__(self, constants: list[ConstantTable], target: Target, options: Options) -> None:
        self._constants, self._target, self._options = constants, target, options
        self._begun: dict[tuple[Kernel, str], Callable[[], str]] = {}  # by their names then

    def begin(self, kernel: Kernel) -> None:
        """After all passes of the kernel."""
        try:
            text = self._emit([kernel])
        except CompileError:
            return  # `ptx` finds that again
        if parts.is_long(text.partition(parts.KERNEL)[2]) and parts.stands_alone(text):
            self._begun[kernel, kernel.name] = Task(text, self._target, self._options).result

    def known(self, kernel: Kernel) -> str | None:
        """Its PTX, if that was begun."""
        begun = self._begun.get((kernel, kernel.name))
        return begun and begun()

    def tell(self, kernel: Kernel, ptx: str) -> None:
        self._begun[kernel, kernel.name] = lambda: ptx

    def ptx(self, kernels: Sequence[Kernel]) -> str:
        """The PTX of the module that these have come to be."""
        tasks, others = list[Callable[[], str]](), list[Kernel]()
        for kernel in (*kernels, None):
            task = self._begun.get((kernel, kernel.name)) if kernel is not None else None
            if kernel is not None and task is None:
                others.append(kernel)
                continue
            if others:
                text, others = self._emit(others), []
                if self._begun and not parts.stands_alone(text):  # others may have its functions
                    return assemble(self._emit(kernels), self._target, self._options)
                tasks += [Task(part, self._target, self._options).result
                          for part in parts.split(text)]
            tasks += [task] if task is not None else []
        return worked_around(parts.join([task() for task in tasks]), self._options)

    def _emit(self, kernels: Sequence[Kernel]) -> str:
        return llvm.emit(Module([*kernels], self._constants), self._target, self._options)
