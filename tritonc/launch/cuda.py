"""Running a problem on a GPU, through the CUDA driver API (package cuda-bindings).

Each buffer lies between two guards of a known pattern: a kernel that writes past an end is found
out, though the GPU itself would not mind.  Reads past an end are the interpreter's to find.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tritonc.backend.target import TARGETS
from tritonc.ir.core import Module
from tritonc.ir.formats import from_memory, memory_dtype, to_memory
from tritonc.ir.types import Scalar
from tritonc.launch.data import Data, Value
from tritonc.source import CompileError, fail

Array = npt.NDArray[Any]
_GUARD = 4096  # bytes before and after each buffer, at least; a multiple keeps the alignment
_PATTERN = 0xA5
# Of a multiprocessor: f32, and dense f16 on tensor cores.  Source: NVIDIA's architecture papers.
_FLOPS_PER_CLOCK: dict[tuple[int, int], tuple[int, int]] = {
    (7, 0): (128, 1024), (7, 5): (128, 1024), (8, 0): (128, 2048), (8, 6): (256, 1024),
    (8, 9): (256, 1024), (9, 0): (256, 4096), (10, 0): (256, 8192), (12, 0): (256, 1024),
}  # fmt: skip
_C_TYPES: dict[str, Any] = {
    "i1": ctypes.c_uint8, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32,
    "i64": ctypes.c_int64, "f32": ctypes.c_float, "tf32": ctypes.c_float, "f64": ctypes.c_double,
    "f16": ctypes.c_uint16, "bf16": ctypes.c_uint16, "f8e4m3": ctypes.c_uint8,
    "f8e5m2": ctypes.c_uint8,
}  # fmt: skip


class Buffer(NamedTuple):
    """Device memory of one argument: address, bytes, and bytes of guard before and after it."""

    address: int
    size: int
    guard: int


class Device:
    """One GPU and its primary context; use it in a `with` statement.

    Raises CompileError where there is no CUDA driver, package or device.
    """

    def __init__(self, index: int = 0) -> None:
        try:
            from cuda.bindings import driver  # optional: only who has a GPU needs the package
        except ImportError:
            raise fail("no-device", None, "running on a GPU needs the package cuda-bindings: "
                       "pip install tritonc[gpu]") from None
        self.driver: Any = driver
        self.call("initialise CUDA", driver.cuInit(0))
        self.handle = self.call("find a GPU", driver.cuDeviceGet(index))
        attribute = driver.CUdevice_attribute
        self.capability: tuple[int, int] = (
            self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        )

    @property
    def target(self) -> str:
        """The name of the target for this GPU: its own, or the newest whose PTX it runs."""
        mine = self.capability[0] * 10 + self.capability[1]
        older = [t for t in TARGETS.values() if t.capability <= mine
                 and (t.capability == mine or not t.name.endswith("a"))]
        return max(older, key=lambda t: (t.capability, t.name)).name

    def __enter__(self) -> Device:
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
        """The values of a driver call.  Raises CompileError with CUDA's own name of the error."""
        status, *values = result
        if int(status) != 0:
            _, text = self.driver.cuGetErrorString(status)
            reason = text.decode() if isinstance(text, bytes) else str(status)
            raise fail("no-device" if what.endswith("GPU") or "CUDA" in what else "cuda-error",
                       None, f"cannot {what}: {reason}")
        return values[0] if len(values) == 1 else values

    @property
    def name(self) -> str:
        """As the driver calls it, such as "NVIDIA H200"."""
        text = self.call("ask the GPU", self.driver.cuDeviceGetName(128, self.handle))
        return str(bytes(text).split(b"\0")[0].decode("utf-8", "replace"))

    def peaks(self) -> tuple[float, float, float]:
        """Bytes/s of memory, FLOP/s of f32, and of dense f16 on tensor cores (0: none), at the
        clocks that the driver states."""
        attribute = self.driver.CUdevice_attribute
        clock = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * 1e3
        multiprocessors = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        memory = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1e3
        bus = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8
        cores, tensor = _FLOPS_PER_CLOCK.get(self.capability, (256, 0))
        return 2 * memory * bus, clock * multiprocessors * cores, clock * multiprocessors * tensor

    def launch(self, ptx: str, module: Module, data: Data, threads: int, dynamic_shared: int = 0
               ) -> dict[str, Array]:
        """What every pointer argument holds after the kernel ran, in held form.

        `threads` is the size of a block, `dynamic_shared` the bytes of shared memory beyond what
        the PTX states.  Raises CompileError if the driver rejects the PTX or the launch, or if
        the kernel wrote outside of a buffer.
        """
        loaded, entry = self.load(ptx.encode(), data.kernel.name, dynamic_shared)
        try:
            self.fill_tables(loaded, module, data)
            with self.buffers(data) as buffers:
                self.start(entry, data.grid, arguments(data, buffers), threads, dynamic_shared)
                self.call("run the kernel", self.driver.cuCtxSynchronize())
                return {v.name: self.read(v, buffers[v.name]) for v in data.arguments if v.pointer}
        finally:
            self.driver.cuModuleUnload(loaded)

    def load(self, image: bytes, kernel: str, dynamic_shared: int) -> tuple[Any, Any]:
        """A module from PTX, which the driver compiles, or from machine code; and its kernel.

        Raises CompileError with what the driver has to say against it.
        """
        driver = self.driver
        log = bytearray(1 << 14)
        options = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
                   driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        status, loaded = driver.cuModuleLoadDataEx(image + b"\0", len(options), options,
                                                   [log, len(log)])
        if int(status) != 0:
            text = bytes(log).split(b"\0")[0].decode("utf-8", "replace").strip()
            raise fail("cuda-error", None, f"the driver rejects the PTX: {text or status}")
        entry = self.call(f"find kernel '{kernel}' in the PTX",
                          driver.cuModuleGetFunction(loaded, kernel.encode()))
        if dynamic_shared > 48 * 1024:
            limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.call("raise the shared memory limit",
                      driver.cuFuncSetAttribute(entry, limit, dynamic_shared))
        return loaded, entry

    def fill_tables(self, loaded: Any, module: Module, data: Data) -> None:
        """Put the problem's constant tables into a loaded module."""
        elements = {table.name: table.element for table in module.constants}
        for symbol, held in data.tables.items():
            self._fill_table(loaded, symbol, to_memory(elements[symbol], held))

    def _fill_table(self, loaded: Any, symbol: str, content: Array) -> None:
        address, size = self.call(f"find the table '{symbol}'",
                                   self.driver.cuModuleGetGlobal(loaded, symbol.encode()))
        content = np.ascontiguousarray(content)
        self.call("fill a table", self.driver.cuMemcpyHtoD(
            address, content.ctypes.data, min(content.nbytes, int(size))))

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

    def start(self, entry: Any, grid: tuple[int, ...], storage: list[Any], threads: int,
              dynamic_shared: int, stream: Any = 0) -> None:
        """Launch a kernel over `grid` with what `arguments` made; wait for nothing."""
        if 0 in grid:
            return
        addresses = np.array([ctypes.addressof(s) for s in storage], np.uint64)
        self.call("launch the kernel", self.driver.cuLaunchKernel(
            entry, *(*grid, 1, 1)[:3], threads, 1, 1, dynamic_shared, stream,
            addresses.ctypes.data, 0))

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
    """How many GPUs there are; 0 without the driver or its package."""
    try:
        gpu = Device()
        return int(gpu.call("count GPUs", gpu.driver.cuDeviceGetCount()))
    except CompileError:
        return 0


def arguments(data: Data, buffers: Mapping[str, Buffer]) -> list[Any]:
    """The arguments in the memory of the host, for `Device.start`."""
    return [ctypes.c_uint64(buffers[value.name].address) if value.pointer
            else _scalar(value.element, value.held) for value in data.arguments]


def _scalar(element: Scalar, held: int | float) -> Any:
    """A scalar argument as the kernel's parameter takes it; short floats by their bits."""
    kind = _C_TYPES[element.name]
    if element.is_float and element.bits < 32:
        raw = to_memory(element, np.asarray([held], np.float32 if element.name != "f16"
                                            else np.float16))
        return kind(int(raw.view(f"u{element.bytes}")[0]))
    return kind(held)


