"""Running a problem on a GPU, through the CUDA driver API (package cuda-bindings).

Each buffer lies between two guards of a known pattern: a kernel that writes past an end is found
out, though the GPU itself would not mind.  Reads past an end are the interpreter's to find.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tritonc.backend.target import TARGETS
from tritonc.ir.core import Module
from tritonc.ir.formats import from_memory, memory_dtype, to_memory
from tritonc.ir.types import Scalar
from tritonc.launch.data import Data, Value
from tritonc.source import fail

Array = npt.NDArray[Any]
_GUARD = 4096  # bytes before and after each buffer, at least; a multiple keeps the alignment
_PATTERN = 0xA5
_C_TYPES: dict[str, Any] = {
    "i1": ctypes.c_uint8, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32,
    "i64": ctypes.c_int64, "f32": ctypes.c_float, "tf32": ctypes.c_float, "f64": ctypes.c_double,
    "f16": ctypes.c_uint16, "bf16": ctypes.c_uint16, "f8e4m3": ctypes.c_uint8,
    "f8e5m2": ctypes.c_uint8,
}  # fmt: skip


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
        self._call("initialise CUDA", driver.cuInit(0))
        self.handle = self._call("find a GPU", driver.cuDeviceGet(index))
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
        context = self._call("open the GPU", self.driver.cuDevicePrimaryCtxRetain(self.handle))
        self._call("use the GPU", self.driver.cuCtxSetCurrent(context))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.driver.cuDevicePrimaryCtxRelease(self.handle)

    def _attribute(self, attribute: Any) -> int:
        return int(self._call("ask the GPU", self.driver.cuDeviceGetAttribute(attribute,
                                                                              self.handle)))

    def _call(self, what: str, result: tuple[Any, ...]) -> Any:
        """The values of a driver call.  Raises CompileError with CUDA's own name of the error."""
        status, *values = result
        if int(status) != 0:
            _, text = self.driver.cuGetErrorString(status)
            reason = text.decode() if isinstance(text, bytes) else str(status)
            raise fail("no-device" if what.endswith("GPU") or "CUDA" in what else "cuda-error",
                       None, f"cannot {what}: {reason}")
        return values[0] if len(values) == 1 else values

    def launch(self, ptx: str, module: Module, data: Data, threads: int, dynamic_shared: int = 0
               ) -> dict[str, Array]:
        """What every pointer argument holds after the kernel ran, in held form.

        `threads` is the size of a block, `dynamic_shared` the bytes of shared memory beyond what
        the PTX states.  Raises CompileError if the driver rejects the PTX or the launch, or if
        the kernel wrote outside of a buffer.
        """
        driver = self.driver
        loaded = self._load(ptx)
        try:
            entry = self._call(f"find kernel '{data.kernel.name}' in the PTX",
                               driver.cuModuleGetFunction(loaded, data.kernel.name.encode()))
            if dynamic_shared > 48 * 1024:
                limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._call("raise the shared memory limit",
                           driver.cuFuncSetAttribute(entry, limit, dynamic_shared))
            elements = {table.name: table.element for table in module.constants}
            for symbol, held in data.tables.items():
                self._fill_table(loaded, symbol, to_memory(elements[symbol], held))
            with self._buffers(data) as buffers:
                self._run(entry, data, buffers, threads, dynamic_shared)
                return {v.name: self._read(v, buffers[v.name]) for v in data.arguments if v.pointer}
        finally:
            driver.cuModuleUnload(loaded)

    def _load(self, ptx: str) -> Any:
        """The PTX as the driver compiles it; its complaint is the error's text."""
        driver = self.driver
        log = bytearray(1 << 14)
        options = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
                   driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        status, loaded = driver.cuModuleLoadDataEx(ptx.encode() + b"\0", len(options), options,
                                                   [log, len(log)])
        if int(status) != 0:
            text = bytes(log).split(b"\0")[0].decode("utf-8", "replace").strip()
            raise fail("cuda-error", None, f"the driver rejects the PTX: {text or status}")
        return loaded

    def _fill_table(self, loaded: Any, symbol: str, content: Array) -> None:
        address, size = self._call(f"find the table '{symbol}'",
                                   self.driver.cuModuleGetGlobal(loaded, symbol.encode()))
        content = np.ascontiguousarray(content)
        self._call("fill a table", self.driver.cuMemcpyHtoD(
            address, content.ctypes.data, min(content.nbytes, int(size))))

    @contextmanager
    def _buffers(self, data: Data) -> Iterator[dict[str, tuple[int, int, int]]]:
        """Device memory of each pointer argument: (address, bytes, guard), freed at the end."""
        driver = self.driver
        buffers: dict[str, tuple[int, int, int]] = {}
        allocated: list[int] = []
        try:
            for value in data.arguments:
                if not value.pointer:
                    continue
                stored = np.ascontiguousarray(to_memory(value.element, value.held))
                guard = -(-max(value.pad, 1) // _GUARD) * _GUARD
                whole = np.full(2 * guard + stored.nbytes, _PATTERN, np.uint8)
                whole[guard : guard + stored.nbytes] = stored.reshape(-1).view(np.uint8)
                base = int(self._call("allocate memory", driver.cuMemAlloc(whole.nbytes)))
                allocated.append(base)
                self._call("copy to the device",
                           driver.cuMemcpyHtoD(base, whole.ctypes.data, whole.nbytes))
                buffers[value.name] = base + guard, stored.nbytes, guard
            yield buffers
        finally:
            for base in allocated:
                driver.cuMemFree(base)

    def _run(self, entry: Any, data: Data, buffers: dict[str, tuple[int, int, int]], threads: int,
             dynamic_shared: int) -> None:
        if 0 in data.grid:
            return
        storage: list[Any] = []
        for value in data.arguments:
            if value.pointer:
                storage.append(ctypes.c_uint64(buffers[value.name][0]))
            else:
                storage.append(_scalar(value.element, value.held))
        addresses = np.array([ctypes.addressof(s) for s in storage], np.uint64)
        grid = (*data.grid, 1, 1)[:3]
        self._call("launch the kernel", self.driver.cuLaunchKernel(
            entry, *grid, threads, 1, 1, dynamic_shared, 0, addresses.ctypes.data, 0))
        self._call("run the kernel", self.driver.cuCtxSynchronize())

    def _read(self, value: Value, buffer: tuple[int, int, int]) -> Array:
        """The buffer's content; raises CompileError if a guard was written."""
        address, size, guard = buffer
        whole = np.empty(size + 2 * guard, np.uint8)
        self._call("copy from the device",
                   self.driver.cuMemcpyDtoH(whole.ctypes.data, address - guard, whole.nbytes))
        for part, start in ((whole[:guard], -guard), (whole[guard + size :], size)):
            touched = np.flatnonzero(part != _PATTERN)
            if touched.size:
                raise fail("out-of-bounds-write", value.span, f"the kernel wrote outside of "
                           f"'{value.name}', {int(touched[0]) + start} bytes from its start; it "
                           f"has {size} bytes")
        stored = whole[guard : guard + size].view(memory_dtype(value.element))
        return np.asarray(from_memory(value.element, stored)).reshape(np.shape(value.held))


def _scalar(element: Scalar, held: int | float) -> Any:
    """A scalar argument as the kernel's parameter takes it; short floats by their bits."""
    kind = _C_TYPES[element.name]
    if element.is_float and element.bits < 32:
        raw = to_memory(element, np.asarray([held], np.float32 if element.name != "f16"
                                            else np.float16))
        return kind(int(raw.view(f"u{element.bytes}")[0]))
    return kind(held)


