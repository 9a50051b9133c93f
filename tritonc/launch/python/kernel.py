"""Kernels that Python launches, on arrays of any library.

    kernel = tritonc.compile("axpy.tc")
    kernel.launch(stream, n, 2.5, x, y, n)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from tritonc.launch import cuda_driver
from tritonc.launch.python.choosing import Chooser, launch_function
from tritonc.launch.python.launcher import Entry, Launcher, Range, handle_of, single_launch
from tritonc.launch.python.memory import Memory
from tritonc.launch.python.parameters import Parameter
from tritonc.records import NamedTuple
from tritonc.render import rendered
from tritonc.source import CompileError
from tritonc.variants.choice import count, is_in_memory
from tritonc.variants.variant import required

if TYPE_CHECKING:
    from tritonc.ir import core as ir

class Plan(NamedTuple):
    """Variants that are not compiled: `kernels` has for each kernel what the manifest would say of
    them, and `compile` makes a module with other tunables."""

    kernels: Mapping[str, Mapping[str, Any]]
    compile: "Callable[[Mapping[str, int], str], Module]"  # by tunables, the kernel's name


class Module:
    """What one source compiles to: its kernels by name, in `kernels`."""

    def __init__(self, ptx: str, manifest: Mapping[str, Any], plan: Plan | None = None,
                 lower: "Callable[[], ir.Module] | None" = None) -> None:
        self.ptx = ptx
        self.plan = plan
        self.lower = lower  # makes the Triton-IR for the interpreter
        self.compiled: dict[tuple[tuple[str, int], ...], Module] = {}  # by tunables
        self.manifest = manifest
        self._lock = Lock()
        self._loaded: dict[int, Any] = {}  # by device
        self._tables: dict[str, bytes] = {}
        self.kernels = {row["name"]: Kernel(self, row) for row in manifest["kernels"]}

    def __getitem__(self, name: str) -> "Kernel":
        return self.kernels[name]

    def __iter__(self) -> "Iterator[Kernel]":
        return iter(self.kernels.values())

    def fill_table(self, name: str, content: Any) -> None:
        """Fill a constant table from host memory: an object with the buffer protocol.

        Later launches see the content; wait for earlier ones first.  Raises KeyError, ValueError.
        """
        tables = {row["name"]: row for row in self.manifest["constants"]}
        if name not in tables:
            raise KeyError(f"the source has no constant table '{name}'; it has "
                           f"{', '.join(tables) or 'none'}")
        row = tables[name]
        wanted = Parameter.read({"name": name, "type": row["type"]}).size * row["count"]
        data = bytes(memoryview(content))
        if len(data) != wanted:
            raise ValueError(f"table '{name}' has {row['count']} elements of type {row['type']}, "
                             f"{wanted} bytes, found {len(data)} bytes")
        for module in self.compiled.values():
            module.fill_table(name, content)
        with self._lock:
            self._tables[name] = data
            for device, loaded in self._loaded.items():
                driver = cuda_driver.open_driver()
                with cuda_driver.context(driver, device):
                    cuda_driver.fill_table(driver, loaded, name, data)

    def variant(self, name: str, tunables: Mapping[str, int]) -> "Kernel":
        """A kernel with other tunables, of a module of its own.  Raises CompileError."""
        assert self.plan is not None
        key = tuple(sorted(tunables.items()))
        if key not in self.compiled:
            module = self.plan.compile(tunables, name)
            for table, data in self._tables.items():
                module.fill_table(table, data)
            self.compiled[key] = module
        kernel = self.compiled[key][name]
        in_memory = "memory_k" in tunables  # `api._with_tunables` makes it a variant
        return kernel.variants[0] if in_memory and kernel.variants else kernel

    def entry(self, driver: Any, device: int, kernel: Entry) -> Any:
        """The driver's handle of a kernel on a device, where the module is loaded at first use.

        Raises CompileError if the driver rejects the PTX."""
        with self._lock, cuda_driver.context(driver, device):
            if device not in self._loaded:
                try:
                    loaded = cuda_driver.load(driver, self.ptx.encode())
                except CompileError as error:
                    raise rendered(error) from None
                for name, data in self._tables.items():
                    cuda_driver.fill_table(driver, loaded, name, data)
                self._loaded[device] = loaded
            return cuda_driver.entry(driver, self._loaded[device], kernel.entry,
                                     kernel.dynamic_shared)


class Kernel(Entry):
    """One kernel.  `launch(stream, global_range, *arguments)` runs it.

    `variants` are kernels of the same name and parameters.  `launch` chooses among them and the
    kernel itself, which is number 0.  A variant that is only planned is compiled at its first
    launch, or when you read `variants`."""

    def __init__(self, module: Module, row: Mapping[str, Any]) -> None:
        super().__init__(row, module.entry)
        self.module = module
        self.tunables: Mapping[str, int] = row["tunables"]
        self.assumptions: Sequence[str] = row["assumptions"]
        self.launch = single_launch(Launcher(self))
        own = {key: value for key, value in row.items() if key not in ("variants", "choice")}
        self._variants: list[Kernel | None] = [Kernel(module, {**own, **variant})
                                               for variant in row.get("variants", ())]
        self._row = row
        if module.plan is not None and self.name in module.plan.kernels:
            planned = module.plan.kernels[self.name]
            beside = row.get("variants", ())  # its own programs, several to a block
            self._row = {**row, **planned, "variants": [*planned["variants"], *beside]}
            self._variants = [*[None] * len(planned["variants"]), *self._variants]
        self._launches = [self.launch, *(
            self._launch_in_memory(number) if is_in_memory(self._row["variants"][number - 1]) else
            self._first_launch(number) if variant is None else variant.launch
            for number, variant in enumerate(self._variants, 1))]
        self._chooser: Chooser | None = None
        if self._variants:
            self._chooser = Chooser(self._row, self.parameters)
            self.launch = launch_function(self._chooser, self._launches)

    def _first_launch(self, number: int) -> Callable[..., None]:
        """The launch of a variant that is compiled then; further ones are its own."""
        def launch(stream: Any, global_range: Range, *arguments: Any) -> None:
            self._compiled(number)
            self._launches[number](stream, global_range, *arguments)

        return launch

    def _launch_in_memory(self, number: int) -> Callable[..., None]:
        """The launch of a variant whose blocks add up in memory: torch's.  For arrays of others it
        is a launch without."""
        memory = Memory()
        first = next((i for i, p in enumerate(self.parameters) if p.pointer), 0)

        def launch(stream: Any, global_range: Range, *arguments: Any) -> None:
            if len(arguments) != len(self.parameters):
                return self._launches[0](stream, global_range, *arguments)  # which says so
            variant, found = self._compiled(number), None
            if variant.workspace:
                extents = global_range if isinstance(global_range, Sequence) else (global_range,)
                floats = count(variant.tile, [*map(int, extents)]) * variant.workspace // 4
                found = memory.of(handle_of(stream), arguments[first], floats)
            if found is None:
                without = self.variant(global_range, *arguments)
                return self._launches[without](stream, global_range, *arguments)
            variant.launch(stream, global_range, *arguments, found)

        return launch

    def _compiled(self, number: int) -> "Kernel":
        """A variant, compiled if it is not yet; the kernel itself if it cannot be."""
        found = self._variants[number - 1]
        if found is None:
            planned = self._row["variants"][number - 1]
            try:
                found = self.module.variant(self.name, planned["tunables"])
                if found.tile != tuple(planned["tile"]) or any(
                        fact not in planned["requires"]
                        for fact in required(self._row, found._row)):
                    found = self
            except CompileError:
                found = self
            self._variants[number - 1] = found
            if not is_in_memory(planned):
                self._launches[number] = found._launches[0] if found is self else found.launch
        return found

    @property
    def variants(self) -> "tuple[Kernel, ...]":
        """The other variants; those that wait for a launch are compiled now."""
        return tuple(self._compiled(number + 1) for number in range(len(self._variants)))

    def variant(self, global_range: Range, *arguments: Any) -> int:
        """The number of the variant that `launch` chooses for these arguments, of those that take
        no memory for sums.

        Raises TypeError for a wrong range, or where the choice needs an integer."""
        return 0 if self._chooser is None else self._chooser.number(global_range, arguments)

    def launch_variant(self, number: int, stream: Any, global_range: Range, *arguments: Any
                       ) -> None:
        """Launch the variant of this number.

        Raises ValueError if it does not exist or may not run with these arguments, and what
        `launch` raises."""
        if not 0 <= number < len(self._launches):
            raise ValueError(f"kernel '{self.name}' has variants 0 to {len(self._variants)}, not "
                             f"{number}")
        if number and self._chooser is not None and len(arguments) == len(self.parameters):
            extents = self._chooser.extents(global_range)
            if not self._chooser.allowed(extents, arguments)[number]:
                raise ValueError(f"variant {number} of kernel '{self.name}' requires what does not "
                                 "hold for these arguments")
        self._launches[number](stream, global_range, *arguments)

    @property
    def ptx(self) -> str:
        return self.module.ptx

    def __repr__(self) -> str:
        parameters = ", ".join(f"{p.type}{'' if p.pointer else ' '}{p.name}"
                               for p in self.parameters)
        return f"<kernel {self.name}({parameters}) for {self.module.manifest['target']}>"
