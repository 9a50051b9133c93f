"""Running a problem on a GPU, through the CUDA driver API (package cuda-bindings).

Each buffer lies between two guards of a known pattern: a kernel that writes past an end is found
out, though the GPU itself would not mind.  Reads past an end are the interpreter's to find."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tritonc.ir.core import Module
from tritonc.ir.numeric.formats import from_memory, memory_dtype, to_memory
from tritonc.launch import cuda_driver
from tritonc.launch.data import Data, Value
from tritonc.launch.packing import FORMATS, POINTER, Block, number, packed
from tritonc.records import NamedTuple
from tritonc.source import CompileError, fail

Array = npt.NDArray[Any]
_GUARD = 4096  # bytes before and after each buffer, at least; a multiple keeps the alignment
_PATTERN = 0xA5
# Of a multiprocessor: f32, and dense f16 on tensor cores.  Source: NVIDIA's architecture papers.
_FLOPS_PER_CLOCK: dict[tuple[int, int], tuple[int, int]] = {
    (7, 0): (128, 1024), (7, 5): (128, 1024), (8, 0): (128, 2048), (8, 6): (256, 1024),
    (8, 9): (256, 1024), (9, 0): (256, 4096), (10, 0): (256, 8192), (12, 0): (256, 1024),
}  # fmt: skip


class Buffer(NamedTuple):
    """Device memory of one argument: address, bytes, and bytes of guard before and after it."""

    address: int
    size: int
    guard: int


class Peaks(NamedTuple):
    """What a GPU does per second at the clocks that its driver states: bytes of its memory,
    operations on f32 and on dense f16 by tensor cores (0: it has none), cycles of all its
    multiprocessors together."""

    memory: float
    f32: float
    tensor: float
    cycles: float


class Device:
    """One GPU and its primary context; use it in a `with` statement.

    Raises CompileError where there is no CUDA driver, package or device."""

    def __init__(self, index: int = 0) -> None:
        self.driver: Any = cuda_driver.open_driver()
        self.handle = self.call("find a GPU", self.driver.cuDeviceGet(index))
        self.capability = cuda_driver.capability(self.driver, self.handle)

    @property
    def target(self) -> str:
        """The name of the target for this GPU: its own, or the newest whose PTX it runs."""
        return cuda_driver.target_of(self.capability)

    def __enter__(self) -> "Device":
        context = self.call("open the GPU", self.driver.cuDevicePrimaryCtxRetain(self.handle))
        self.call("use the GPU", self.driver.cuCtxSetCurrent(context))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.driver.cuDevicePrimaryCtxRelease(self.handle)

    def _attribute(self, attribute: Any) -> int:
        return int(self.call("ask the GPU", self.driver.cuDeviceGetAttribute(attribute,
                                                                              self.handle)))

    def call(self, what: str, result: tuple[Any, ...]) -> Any:
        """The values of a driver call.  Raises CompileError with CUDA's own words for the error."""
        return cuda_driver.values(self.driver, what, result)

    @property
    def multiprocessors(self) -> int:
        return self._attribute(
            self.driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)

    @property
    def name(self) -> str:
        """As the driver calls it, such as "NVIDIA H200"."""
        text = self.call("ask the GPU", self.driver.cuDeviceGetName(128, self.handle))
        return str(bytes(text).split(b"\0")[0].decode("utf-8", "replace"))

    def peaks(self) -> Peaks:
        attribute = self.driver.CUdevice_attribute
        clock = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * 1e3
        memory = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1e3
        bus = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8
        cores, tensor = _FLOPS_PER_CLOCK.get(self.capability, (256, 0))
        cycles = clock * self.multiprocessors
        return Peaks(2 * memory * bus, cycles * cores, cycles * tensor, cycles)

    def launch(self, ptx: str, module: Module, data: Data, threads: int, dynamic_shared: int = 0,
               cluster: int = 1) -> dict[str, Array]:
        """What every pointer argument holds after the kernel ran, in held form.

        `threads` is the size of a block, `dynamic_shared` the bytes of shared memory beyond what
        the PTX states, `cluster` how many blocks compute one program.  Raises CompileError if the
        driver rejects the PTX or the launch, or if the kernel wrote outside of a buffer."""
        loaded, entry = self.load(ptx.encode(), data.kernel.name, dynamic_shared)
        try:
            self.fill_tables(loaded, module, data)
            with self.buffers(data) as buffers:
                self.start(entry, data.grid, arguments(data, buffers), threads, dynamic_shared,
                           cluster=cluster)
                self.call("run the kernel", self.driver.cuCtxSynchronize())
                return {v.name: self.read(v, buffers[v.name]) for v in data.arguments if v.pointer}
        finally:
            self.driver.cuModuleUnload(loaded)

    def load(self, image: bytes, kernel: str, dynamic_shared: int) -> tuple[Any, Any]:
        """A module from PTX, which the driver compiles, or from machine code; and its kernel.

        Raises CompileError with what the driver has to say against it."""
        loaded = cuda_driver.load(self.driver, image)
        return loaded, cuda_driver.entry(self.driver, loaded, kernel, dynamic_shared)

    def fill_tables(self, loaded: Any, module: Module, data: Data) -> None:
        """Put the problem's constant tables into a loaded module."""
        elements = {table.name: table.element for table in module.constants}
        for symbol, held in data.tables.items():
            cuda_driver.fill_table(self.driver, loaded, symbol,
                                   to_memory(elements[symbol], held).tobytes())

    @contextmanager
    def buffers(self, data: Data) -> Iterator[dict[str, Buffer]]:
        """Device memory of each pointer argument, freed at the end."""
        driver = self.driver
        buffers: dict[str, Buffer] = {}
        allocated: list[int] = []
        try:
            for value in data.arguments:
                if not value.pointer:
                    continue
                stored = np.ascontiguousarray(to_memory(value.element, value.held))
                guard = -(-max(value.pad, 1) // _GUARD) * _GUARD
                whole = np.full(2 * guard + stored.nbytes, _PATTERN, np.uint8)
                whole[guard : guard + stored.nbytes] = stored.reshape(-1).view(np.uint8)
                base = int(self.call("allocate memory", driver.cuMemAlloc(whole.nbytes)))
                allocated.append(base)
                self.call("copy to the device",
                           driver.cuMemcpyHtoD(base, whole.ctypes.data, whole.nbytes))
                buffers[value.name] = Buffer(base + guard, stored.nbytes, guard)
            yield buffers
        finally:
            for base in allocated:
                driver.cuMemFree(base)

    def start(self, entry: Any, grid: tuple[int, ...], arguments: Block, threads: int,
              dynamic_shared: int, stream: Any = 0, cluster: int = 1) -> None:
        """Launch a kernel over `grid` with what `arguments` made; wait for nothing."""
        if 0 not in grid:
            x, y, z = (*grid, 1, 1)[:3]
            self.call("launch the kernel", self.driver.cuLaunchKernel(
                entry, x, y, z * cluster, threads, 1, 1, dynamic_shared, stream,
                arguments.address, 0))

    def read(self, value: Value, buffer: Buffer) -> Array:
        """The buffer's content in held form; raises CompileError if a guard was written."""
        whole = np.empty(buffer.size + 2 * buffer.guard, np.uint8)
        stored = self.read_raw(value, buffer, whole).view(memory_dtype(value.element))
        return np.asarray(from_memory(value.element, stored)).reshape(np.shape(value.held))

    def read_raw(self, value: Value, buffer: Buffer, whole: Array) -> Array:
        """The buffer's bytes, read into `whole`, which has room for the guards too."""
        address, size, guard = buffer
        self.call("copy from the device",
                  self.driver.cuMemcpyDtoH(whole.ctypes.data, address - guard, whole.nbytes))
        for part, start in ((whole[:guard], -guard), (whole[guard + size :], size)):
            touched = np.flatnonzero(part != _PATTERN)
            if touched.size:
                raise fail("out-of-bounds-write", value.span, f"the kernel wrote outside of "
                           f"'{value.name}', {int(touched[0]) + start} bytes from its start; it "
                           f"has {size} bytes")
        return whole[guard : guard + size]


def device_count() -> int:
    try:
        gpu = Device()
        return int(gpu.call("count GPUs", gpu.driver.cuDeviceGetCount()))
    except CompileError:
        return 0


def arguments(data: Data, buffers: Mapping[str, Buffer]) -> Block:
    """The arguments in the memory of the host, for `Device.start`."""
    return packed(
        [POINTER if value.pointer else FORMATS[value.element.name] for value in data.arguments],
        [buffers[value.name].address if value.pointer else number(value.element, value.held)
         for value in data.arguments])
