"""One launch of a kernel from Python, in microseconds.

`launch` is a function made for its kernel, which reads torch's tensors in a loop that looks at
nothing twice.  Whatever that loop does not understand, mistakes among them, `Launcher.prepare`
looks at with care.  Both end in one call of the driver."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tritonc.launch import cuda_driver
from tritonc.launch.packing import Block, layout
from tritonc.launch.python import arrays
from tritonc.launch.python.memory import WORKSPACE
from tritonc.launch.python.parameters import Parameter
from tritonc.records import NamedTuple
from tritonc.variants.choice import MOST_INDEX, MOST_PROGRAMS, block_shape, reach

Range = int | Sequence[int]
_CACHED = 1024  # grids and streams that a kernel remembers


class LaunchError(RuntimeError):
    """The driver refused a launch, or a kernel before it failed."""


class _Prepared(NamedTuple):
    """A launch whose arguments are packed.  `grid` is () where there is nothing to do."""

    device: int
    entry: Any
    start: Callable[..., tuple[Any]]
    grid: tuple[int, ...]
    stream: Any
    block: Block
    keep: list[Any]


class Entry:
    """What launches need to know of a kernel: a row of the manifest.  `load` gives the driver's
    handle on a device; it takes the driver, the device and the entry."""

    def __init__(self, row: Mapping[str, Any], load: "Callable[[Any, int, Entry], Any]") -> None:
        self.name: str = row["name"]
        self.entry: str = row["entry"]
        self.workspace: int = row.get("workspace", 0)  # bytes of memory for sums, of each program
        self.parameters = tuple(Parameter.read(p) for p in (
            *row["parameters"], *[WORKSPACE] * (self.workspace > 0)))
        self.threads: int = row["threads"]
        self.cluster: int = row.get("cluster", 1)  # blocks that compute one program
        self.dynamic_shared: int = row["dynamic_shared_bytes"]
        self.tile: tuple[int, ...] = tuple(row["tile"])
        self.programs: int = row.get("programs", 1)  # of a block
        self.load = load


class Launcher:
    def __init__(self, kernel: Entry) -> None:
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
        handle = handle_of(stream)
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
                    cuda_driver.wait_for(driver, found.after, handle)
                    keep.append(found.keep)
                    numbers.append(found.address)
                else:
                    numbers.append(parameter.number(value))
            except (TypeError, ValueError) as error:
                raise self._wrong(parameter, error) from None
        if grid:
            for parameter, number in zip(kernel.parameters, numbers, strict=True):
                if parameter.pointer and not number:
                    try:
                        parameter.check_null(numbers, kernel.parameters)
                    except ValueError as error:
                        raise self._wrong(parameter, error) from None
        device = home[0] if home is not None else cuda_driver.current_device(driver)
        if device not in self.entries:
            self.entries[device] = (kernel.load(driver, device, kernel), driver.cuLaunchKernel)
        if not self.tensors:
            self._remember_tensors(arguments)
        try:
            block = self.blocks.pop()
        except IndexError:
            block = Block(self.count)
        self.pack_into(block.memory, block.start, *numbers)
        return _Prepared(device, *self.entries[device], grid, self.stream(driver, handle), block,
                         keep)

    def _wrong(self, parameter: Parameter, error: Exception) -> Exception:
        return type(error)(f"argument '{parameter.name}' of kernel '{self.kernel.name}': {error}")

    def _grid(self, extents: Range) -> tuple[int, ...]:
        """The blocks along each axis, and the threads of one; () if there is none."""
        kernel = self.kernel
        given = (extents,) if not isinstance(extents, Sequence) else tuple(extents)
        if not len(kernel.tile) <= len(given) <= 3:
            raise ValueError(f"kernel '{kernel.name}' divides {len(kernel.tile)} axes, but the "
                             f"global range has {len(given)}")
        grid = []
        for axis, extent in enumerate(given):
            if not hasattr(extent, "__index__"):
                raise TypeError(f"the global range of axis {axis} is an integer, found {extent!r}")
            tile = kernel.tile[axis] if axis < len(kernel.tile) else 1
            limit = MOST_PROGRAMS[axis] // (kernel.cluster if axis == 2 else 1)
            most = min(limit * tile, reach(tile, axis), MOST_INDEX)
            if not 0 <= int(extent) <= most:
                raise ValueError(f"the global range of axis {axis} is {extent}; it can be 0 to "
                                 f"{most}")
            grid.append(-(-int(extent) // tile))
        x, y, z = (*grid, 1, 1)[:3]
        shape = block_shape(kernel.threads, kernel.programs, (*kernel.tile, 1)[0],
                            int((*given, 1)[0]))
        found = () if 0 in grid else (x, y, z * kernel.cluster, *shape)
        if len(self.grids) >= _CACHED:
            self.grids.clear()
        self.grids[given] = found
        if len(given) == 1:
            self.grids[given[0]] = found
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
            with cuda_driver.context(driver, prepared.device):
                (status,) = prepared.start(
                    prepared.entry, *prepared.grid, kernel.dynamic_shared, prepared.stream,
                    prepared.block.address, 0)
        if int(status) != 0:
            raise LaunchError(f"cannot launch kernel '{self.kernel.name}': "
                              f"{cuda_driver.words(driver, status)}")


def single_launch(launcher: Launcher) -> Callable[..., None]:
    """`Kernel.launch`.  What it reads at every launch are variables of its own."""
    kernel, pack_into, blocks = launcher.kernel, launcher.pack_into, launcher.blocks
    entries, grids, streams = launcher.entries, launcher.grids, launcher.streams
    converters, checked = launcher.converters, launcher.checked
    dynamic_shared, count = kernel.dynamic_shared, launcher.count
    first = next((i for i, p in enumerate(kernel.parameters) if p.pointer), 0)

    def launch(stream: Any, global_range: Range, *arguments: Any) -> None:
        """Start the kernel over `global_range`, an extent or one for each axis, on a stream.

        `stream` is a number (0: the default stream), None for the same, or any library's stream.
        Pointers take arrays on one GPU: torch tensors, and what has `__cuda_array_interface__` or
        speaks DLPack; keep them until the stream is done.  Scalars take numbers.

        Raises TypeError and ValueError for what the kernel cannot take, before anything is
        launched; LaunchError; CompileError if the driver rejects the PTX."""
        keep: list[Any] = []
        try:
            grid = grids[global_range]
            values = [*arguments]
            device = arguments[first].get_device()
            entry, start = entries[device]
            for index, dtype, multiple in launcher.tensors:
                tensor = values[index]
                values[index] = address = tensor.data_ptr()
                if (tensor.dtype is not dtype or not address or address % multiple
                        or tensor.get_device() != device):
                    raise ValueError
            for index, convert in converters:
                values[index] = convert(values[index])
            for index, parameter in checked:
                parameter.check_number(values[index])
            if type(stream) is not int:
                stream = handle_of(stream)
            queue = streams[stream]
            block = blocks.pop() if blocks else Block(count)
            pack_into(block.memory, block.start, *values)
        except Exception:
            # Not seen before, or wrong.
            prepared = launcher.prepare(stream, global_range, arguments)
            device, entry, start, grid, queue, block, keep = prepared
        if grid:
            status = start(entry, *grid, dynamic_shared, queue, block.address, 0)[0]
            if status:
                launcher.again(status, _Prepared(device, entry, start, grid, queue, block, keep))
        blocks.append(block)

    return launch


def _device_of(driver: Any, found: arrays.DeviceArray) -> int | None:
    """The device that an array is on; None for an empty one."""
    if found.device is not None or not found.address:
        return found.device
    ordinal = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status, device = driver.cuPointerGetAttribute(ordinal, found.address)
    if int(status) != 0:
        raise TypeError(f"address {found.address:#x} is in no memory of a GPU")
    return int(device)


def handle_of(stream: Any) -> int:
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
