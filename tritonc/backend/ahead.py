"""PTX of one kernel while passes go on with the next: threads run LLVM, which needs no Python.

Where kernels may get other names later, or be left out, only long ones are begun, as that may be
work for nothing.  Where none can, each is, and gives up its operations, which take ten times the
memory of its PTX.  The PTX depends on the kernels alone, not on which thread was first."""

from collections.abc import Sequence

from tritonc.backend import llvm, parts
from tritonc.backend.assemble import Task
from tritonc.backend.target.target import Target
from tritonc.ir.core import ConstantTable, Kernel, Module
from tritonc.options import Options
from tritonc.source import CompileError


class Ahead:
    """`final`: all kernels that begin stay, with their names."""

    def __init__(self, constants: list[ConstantTable], target: Target, options: Options,
                 final: bool) -> None:
        self._constants, self._target, self._options = constants, target, options
        # By their names then; a text is what another process has made.
        self._begun: dict[tuple[Kernel, str], Task | str] = {}
        self.final = final
        self._made: list[str] = []
        self._left: list[Kernel] = []  # which call functions that stay

    def begin(self, kernel: Kernel) -> None:
        """After all passes of the kernel."""
        try:
            text = self._emit([kernel])
        except CompileError:
            return  # `ptx` finds that again
        if parts.stands_alone(text) and (self.final or parts.is_long(
                text.partition(parts.KERNEL)[2])):
            self._begun[kernel, kernel.name] = Task(text, self._target, self._options)
            if self.final:
                kernel.blocks.clear()

    def known(self, kernel: Kernel) -> str | None:
        """Its PTX, if that was begun."""
        found = self._begun.get((kernel, kernel.name))
        return found.result() if isinstance(found, Task) else found

    def tell(self, kernel: Kernel, ptx: str) -> None:
        self._begun[kernel, kernel.name] = ptx

    def settle(self, kernels: Sequence[Kernel]) -> list[Kernel]:
        """Make the PTX of these, which keep their names: first of those that have not begun.  What
        comes back is needed for the PTX of the whole module."""
        others = [kernel for kernel in kernels if (kernel, kernel.name) not in self._begun]
        text = self._emit(others) if others else ""
        if others and parts.stands_alone(text):
            self._made += self._parts(text)
            others = []
        self._left += others
        self._made += [found for kernel in kernels if (found := self.known(kernel)) is not None]
        self._begun.clear()
        return others

    def ptx(self) -> str:
        """The PTX of all kernels that were settled."""
        self._made[:0] = self._parts(self._emit(self._left)) if self._left else []
        return parts.join(self._made)

    def _parts(self, text: str) -> list[str]:
        tasks = [Task(part, self._target, self._options) for part in parts.split(text)]
        return [task.result() for task in tasks]

    def _emit(self, kernels: Sequence[Kernel]) -> str:
        return llvm.emit(Module([*kernels], self._constants), self._target, self._options)
