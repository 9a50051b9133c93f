"""Kernels that Python launches, on arrays of any library.

    kernel = tritonc.compile("axpy.tc")
    kernel.launch(stream, n, 2.5, x, y, n)

Launching one takes microseconds, so `launch` is a function made for its kernel, which reads
torch's tensors in a loop that looks at nothing twice.  Whatever that loop does not understand,
mistakes among them, `_Launcher.prepare` looks at with care.  Both end in one call of the driver.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from tritonc.launch import arrays, cuda_driver
from tritonc.launch.choosing import Chooser, launch_function
from tritonc.launch.memory import WORKSPACE, Memory
from tritonc.launch.packing import Block, layout
from tritonc.launch.parameters import Parameter
from tritonc.render import rendered
from tritonc.source import CompileError
from tritonc.variants.choice import MOST_PROGRAMS, is_in_memory
from tritonc.variants.variant import required

if TYPE_CHECKING:
    from tritonc.ir import core as ir

Range = int | Sequence[int]
_CACHED = 1024  # grids and streams that a kernel remembers


class LaunchError(RuntimeError):
    """The driver refused a launch, or a kernel before it failed."""


class Plan(NamedTuple):
    """Variants that are not compiled: `kernels` has for each kernel what the manifest would say of
    them, and `compile` makes a module with other tunables."""

    kernels: Mapping[str, Mapping[str, Any]]
    compile: Callable[[Mapping[str, int], str], Module]  # by tunables, the kernel's name


class Module:
    """What one source compiles to: its kernels by name, in `kernels`."""

    def __init__(self, ptx: str, manifest: Mapping[str, Any], plan: Plan | None = None,
                 lower: Callable[[], ir.Module] | None = None) -> None:
        self.ptx = ptx
        self.plan = plan
        self.lower = lower  # makes the Triton-IR for the interpreter
        self.compiled: dict[tuple[tuple[str, int], ...], Module] = {}  # by tunables
        self.manifest = manifest
        self._lock = Lock()
        self._loaded: dict[int, Any] = {}  # by device
        self._tables: dict[str, bytes] = {}
        self.kernels = {row["name"]: Kernel(self, row) for row in manifest["kernels"]}

    def __getitem__(self, name: str) -> Kernel:
        return self.kernels[name]

    def __iter__(self) -> Iterator[Kernel]:
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
                with _context(driver, device):
                    _fill(driver, loaded, name, data)

    def variant(self, name: str, tunables: Mapping[str, int]) -> Kernel:
        """A kernel with other tunables, of a module of its own.  Raises CompileError."""
        assert self.plan is not None
        key = tuple(sorted(tunables.items()))
        if key not in self.compiled:
            module = self.plan.compile(tunables, name)
            for table, data in self._tables.items():
                module.fill_table(table, data)
            self.compiled[key] = module
        kernel = self.compiled[key][name]
        return kernel.variants[0] if kernel.variants else kernel  # `api._with_tunables` says which

    def entry(self, driver: Any, device: int, kernel: Kernel) -> Any:
        """The driver's handle of a kernel on a device, where the module is loaded at first use.

        Raises CompileError if the driver rejects the PTX.
        """
        with self._lock, _context(driver, device):
            if device not in self._loaded:
                try:
                    loaded = cuda_driver.load(driver, self.ptx.encode())
                except CompileError as error:
                    raise rendered(error) from None
                for name, data in self._tables.items():
                    _fill(driver, loaded, name, data)
                self._loaded[device] = loaded
            return cuda_driver.entry(driver, self._loaded[device], kernel.entry,
                                     kernel.dynamic_shared)


class Kernel:
    """One kernel.  `launch(stream, global_range, *arguments)` runs it.

    `variants` are kernels of the same name and parameters.  `launch` chooses among them and the
    kernel itself, which is number 0.  A variant that is only planned is compiled at its first
    launch, or when you read `variants`.
    """

    def __init__(self, module: Module, row: Mapping[str, Any]) -> None:
        self.module = module
        self.name: str = row["name"]
        self.entry: str = row["entry"]
        self.workspace: int = row.get("workspace", 0)  # bytes of memory for sums, of each instance
        self.parameters = tuple(Parameter.read(p) for p in (
            *row["parameters"], *[WORKSPACE] * (self.workspace > 0)))
        self.threads: int = row["threads"]
        self.cluster: int = row.get("cluster", 1)  # blocks that compute one instance
        self.dynamic_shared: int = row["dynamic_shared_bytes"]
        self.tile: tuple[int, ...] = tuple(row["tile"])
        self.tunables: Mapping[str, int] = row["tunables"]
        self.assumptions: Sequence[str] = row["assumptions"]
        self.launch = _launch_function(_Launcher(self))
        own = {key: value for key, value in row.items() if key not in ("variants", "choice")}
        self._variants: list[Kernel | None] = [Kernel(module, {**own, **variant})
                                               for variant in row.get("variants", ())]
        self._row = row
        if not self._variants and module.plan is not None and self.name in module.plan.kernels:
            self._row = {**row, **module.plan.kernels[self.name]}
            self._variants = [None] * len(self._row["variants"])
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
                tiles = prod(-(-int(extent) // part) for extent, part in zip(extents, variant.tile))
                found = memory.of(_handle(stream), arguments[first], tiles * variant.workspace // 4)
            if found is None:
                without = self.variant(global_range, *arguments)
                return self._launches[without](stream, global_range, *arguments)
            variant.launch(stream, global_range, *arguments, found)

        return launch

    def _compiled(self, number: int) -> Kernel:
        """A variant, compiled if it is not yet; the kernel itself if it cannot be."""
        found = self._variants[number - 1]
        if found is None:
            planned = self._row["variants"][number - 1]
            try:
                found = self.module.variant(self.name, planned["tunables"])
                if found.tile != tuple(planned["tile"]) or required(self._row, found._row):
                    found = self
            except CompileError:
                found = self
            self._variants[number - 1] = found
            if not is_in_memory(planned):
                self._launches[number] = found._launches[0]
        return found

    @property
    def variants(self) -> tuple[Kernel, ...]:
        """The other variants; those that wait for a launch are compiled now."""
        return tuple(self._compiled(number + 1) for number in range(len(self._variants)))

    def variant(self, global_range: Range, *arguments: Any) -> int:
        """The number of the variant that `launch` chooses for these arguments, of those that take
        no memory for sums.

        Raises TypeError for a wrong range, or where the choice needs an integer.
        """
        return 0 if self._chooser is None else self._chooser.number(global_range, arguments)

    def launch_variant(self, number: int, stream: Any, global_range: Range, *arguments: Any
                       ) -> None:
        """Launch the variant of this number.

        Raises ValueError if it does not exist or may not run with these arguments, and what
        `launch` raises.
        """
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


class _Prepared(NamedTuple):
    """A launch whose arguments are packed.  `grid` is () where there is nothing to do."""

    device: int
    entry: Any
    start: Callable[..., tuple[Any]]
    grid: tuple[int, ...]
    stream: Any
    block: Block
    keep: list[Any]


class _Launcher:
    """What launches of one kernel share."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.count = len(kernel.parameters)
        self.pack_into = layout([p.format for p in kernel.parameters]).pack_into
        # By device: the driver's handle of the kernel, and the function that launches it.
        self.entries: dict[int, tuple[Any, Callable[..., tuple[Any]]]] = {}
        self.grids: dict[Range, tuple[int, ...]] = {}  # by global range
        self.streams: dict[int, Any] = {}  # by handle
        self.blocks: list[Block] = []  # that no launch uses now
        # (index, torch dtype, multiple) of each pointer; empty until torch's tensors were seen
        self.tensors: list[tuple[int, Any, int]] = []
        self.converters = [(i, p.converter) for i, p in enumerate(kernel.parameters)
                           if not p.pointer and p.converter is not None]
        self.checked = [(i, p) for i, p in enumerate(kernel.parameters) if p.is_checked]

    def prepare(self, stream: Any, extents: Range, arguments: tuple[Any, ...]) -> _Prepared:
        """Any launch, or an error that says what is wrong with it."""
        kernel = self.kernel
        if len(arguments) != self.count:
            names = ", ".join(p.name for p in kernel.parameters)
            raise TypeError(f"kernel '{kernel.name}' takes {self.count} arguments, {names}; found "
                            f"{len(arguments)}")
        try:
            grid = self.grids[extents]
        except (KeyError, TypeError):  # new, or a list
            grid = self._grid(extents)
        handle = _handle(stream)
        driver = cuda_driver.open_driver()
        numbers: list[int | float] = []
        keep: list[Any] = []
        home: tuple[int, str] | None = None
        for parameter, value in zip(kernel.parameters, arguments, strict=True):
            try:
                if parameter.pointer:
                    found = arrays.read(value, handle)
                    parameter.check_array(found)
                    device = _device_of(driver, found)
                    if device is not None:
                        home = home or (device, parameter.name)
                        if device != home[0]:
                            raise ValueError(f"it is on GPU {device}, and '{home[1]}' on GPU "
                                             f"{home[0]}")
                    _order(driver, found.after, handle)
                    keep.append(found.keep)
                    numbers.append(found.address)
                else:
                    numbers.append(parameter.number(value))
            except (TypeError, ValueError) as error:
                raise type(error)(f"argument '{parameter.name}' of kernel '{kernel.name}': "
                                  f"{error}") from None
        device = home[0] if home is not None else _current_device(driver)
        if device not in self.entries:
            self.entries[device] = (kernel.module.entry(driver, device, kernel),
                                    driver.cuLaunchKernel)
        if not self.tensors:
            self._remember_tensors(arguments)
        try:
            block = self.blocks.pop()
        except IndexError:
            block = Block(self.count)
        self.pack_into(block.memory, block.start, *numbers)
        return _Prepared(device, *self.entries[device], grid, self.stream(driver, handle), block,
                         keep)

    def _grid(self, extents: Range) -> tuple[int, ...]:
        """How many instances lie along each axis; () if there is none."""
        kernel = self.kernel
        given = (extents,) if not isinstance(extents, Sequence) else tuple(extents)
        if not len(kernel.tile) <= len(given) <= 3:
            raise ValueError(f"kernel '{kernel.name}' divides {len(kernel.tile)} axes, the global "
                             f"range has {len(given)}")
        grid = []
        for axis, extent in enumerate(given):
            if not hasattr(extent, "__index__"):
                raise TypeError(f"the global range of axis {axis} is an integer, found {extent!r}")
            tile = kernel.tile[axis] if axis < len(kernel.tile) else 1
            count = -(-int(extent) // tile)
            limit = MOST_PROGRAMS[axis] // (kernel.cluster if axis == 2 else 1)
            if not int(extent) >= 0 or count > limit:
                raise ValueError(f"the global range of axis {axis} is {extent}; it can be 0 to "
                                 f"{limit * tile}")
            grid.append(count)
        x, y, z = (*grid, 1, 1)[:3]
        found = () if 0 in grid else (x, y, z * kernel.cluster)
        if len(self.grids) >= _CACHED:
            self.grids.clear()
        self.grids[given[0] if len(given) == 1 else given] = found
        return found

    def stream(self, driver: Any, handle: int) -> Any:
        """The driver's object for a stream, which it takes faster than a number."""
        if handle not in self.streams:
            if len(self.streams) >= _CACHED:
                self.streams.clear()
            self.streams[handle] = driver.CUstream(handle)
        return self.streams[handle]

    def _remember_tensors(self, arguments: tuple[Any, ...]) -> None:
        """Let the next launch take torch's tensors the short way, if these were."""
        torch = sys.modules.get("torch")
        pointers = [i for i, p in enumerate(self.kernel.parameters) if p.pointer]
        if torch is not None and all(isinstance(arguments[i], torch.Tensor) for i in pointers):
            parameters = self.kernel.parameters
            self.tensors = [(i, getattr(torch, parameters[i].dtype), parameters[i].multiple)
                            for i in pointers]

    def again(self, status: Any, prepared: _Prepared) -> None:
        """After a launch that failed: once more in the context of its device, or an error."""
        driver = cuda_driver.open_driver()
        if int(status) in cuda_driver.NO_CONTEXT:
            kernel = self.kernel
            with _context(driver, prepared.device):
                (status,) = prepared.start(
                    prepared.entry, *prepared.grid, kernel.threads, 1, 1, kernel.dynamic_shared,
                    prepared.stream, prepared.block.address, 0)
        if int(status) != 0:
            raise LaunchError(f"cannot launch kernel '{self.kernel.name}': "
                              f"{cuda_driver.words(driver, status)}")


def _launch_function(launcher: _Launcher) -> Callable[..., None]:
    """`Kernel.launch`.  What it reads at every launch are variables of its own."""
    kernel, pack_into, blocks = launcher.kernel, launcher.pack_into, launcher.blocks
    entries, grids, streams = launcher.entries, launcher.grids, launcher.streams
    converters, checked, threads = launcher.converters, launcher.checked, kernel.threads
    dynamic_shared, count = kernel.dynamic_shared, launcher.count
    first = next((i for i, p in enumerate(kernel.parameters) if p.pointer), 0)

    def launch(stream: Any, global_range: Range, *arguments: Any) -> None:
        """Start the kernel over `global_range`, an extent or one for each axis, on a stream.

        `stream` is a number (0: the default stream), None for the same, or any library's stream.
        Pointers take arrays on one GPU: torch tensors, and what has `__cuda_array_interface__` or
        speaks DLPack; keep them until the stream is done.  Scalars take numbers.

        Raises TypeError and ValueError for what the kernel cannot take, before anything is
        launched; LaunchError; CompileError if the driver rejects the PTX.
        """
        keep: list[Any] = []
        try:
            grid = grids[global_range]
            values = [*arguments]
            device = arguments[first].get_device()
            entry, start = entries[device]
            for index, dtype, multiple in launcher.tensors:
                tensor = values[index]
                values[index] = address = tensor.data_ptr()
                if (tensor.dtype is not dtype or address % multiple
                        or tensor.get_device() != device):
                    raise ValueError
            for index, convert in converters:
                values[index] = convert(values[index])
            for index, parameter in checked:
                parameter.check_number(values[index])
            if type(stream) is not int:
                stream = _handle(stream)
            queue = streams[stream]
            block = blocks.pop() if blocks else Block(count)
            pack_into(block.memory, block.start, *values)
        except Exception:
            # Not seen before, or wrong.
            prepared = launcher.prepare(stream, global_range, arguments)
            device, entry, start, grid, queue, block, keep = prepared
        if grid:
            x, y, z = grid
            status = start(entry, x, y, z, threads, 1, 1, dynamic_shared, queue, block.address,
                           0)[0]
            if status:
                launcher.again(status, _Prepared(device, entry, start, grid, queue, block, keep))
        blocks.append(block)

    return launch


@contextmanager
def _context(driver: Any, device: int) -> Iterator[None]:
    """The device's primary context, current inside."""
    context = cuda_driver.primary_context(driver, device)
    cuda_driver.values(driver, "use the GPU", driver.cuCtxPushCurrent(context))
    try:
        yield
    finally:
        driver.cuCtxPopCurrent()


def _current_device(driver: Any) -> int:
    """The device of the calling thread; the first where it has none yet."""
    status, device = driver.cuCtxGetDevice()
    return int(device) if int(status) == 0 else 0


def _device_of(driver: Any, found: arrays.DeviceArray) -> int | None:
    """The device that an array is on; None for an empty one."""
    if found.device is not None or not found.address:
        return found.device
    ordinal = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status, device = driver.cuPointerGetAttribute(ordinal, found.address)
    if int(status) != 0:
        raise TypeError(f"address {found.address:#x} is in no memory of a GPU")
    return int(device)


def _order(driver: Any, after: int | None, stream: int) -> None:
    """Let `stream` wait for what is on stream `after` now."""
    if after is None or after == (stream or 1):
        return
    event = cuda_driver.values(driver, "make an event", driver.cuEventCreate(
        int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)))
    try:
        cuda_driver.values(driver, "record an event", driver.cuEventRecord(event, after))
        cuda_driver.values(driver, "wait for a stream",
                           driver.cuStreamWaitEvent(stream, event, 0))
    finally:
        driver.cuEventDestroy(event)


def _handle(stream: Any) -> int:
    """A stream of any library as the driver's number for it.  Raises TypeError."""
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "handle", "ptr"):  # torch, cuda-core and Numba, CuPy
        found = getattr(stream, name, None)
        if found is not None:
            return int(getattr(found, "value", found) or 0)
    if hasattr(stream, "__cuda_stream__"):
        _, handle = stream.__cuda_stream__()
        return int(handle)
    raise TypeError(f"a stream is a number, None or a library's stream, found {stream!r}")


def _fill(driver: Any, loaded: Any, name: str, data: bytes) -> None:
    held = array("B", data)
    address, _ = held.buffer_info()
    cuda_driver.fill_table(driver, loaded, name, address, len(data))
