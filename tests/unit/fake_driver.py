"""A CUDA driver and a torch that only remember: what launches ask of them, on any machine."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tritonc.launch import cuda_driver


class FakeDriver:
    """`launches` has what each was asked for; `status` is what the next ones return."""

    def __init__(self) -> None:
        self.launches: list[SimpleNamespace] = []
        self.loaded: list[tuple[int, bytes]] = []  # device, image
        self.filled: list[tuple[str, bytes]] = []
        self.waits: list[tuple[int, int]] = []
        self.contexts: list[int] = []
        self.statuses: list[int] = []
        self.complaint = b""  # what it has against PTX
        self.CUstream = int
        self.CUjit_option = SimpleNamespace(CU_JIT_ERROR_LOG_BUFFER=1,
                                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES=2)
        self.CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9)
        self.CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
        self.CUfunction_attribute = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

    def cuDeviceGet(self, index: int) -> Any:
        return 0, index

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return 0, device

    def cuCtxPushCurrent(self, context: int) -> Any:
        self.contexts.append(context)
        return (0,)

    def cuCtxPopCurrent(self) -> Any:
        return 0, self.contexts.pop()

    def cuCtxGetDevice(self) -> Any:
        return (0, self.contexts[-1]) if self.contexts else (201, None)

    def cuModuleLoadDataEx(self, image: bytes, count: int, options: Any, values: Any) -> Any:
        if self.complaint:
            values[0][: len(self.complaint)] = self.complaint
            return 218, None
        self.loaded.append((self.contexts[-1], image))
        return 0, "module"

    def cuModuleGetFunction(self, module: str, name: bytes) -> Any:
        return 0, f"{name.decode()} on {self.contexts[-1]}"

    def cuFuncSetAttribute(self, function: Any, attribute: int, value: int) -> Any:
        return (0,)

    def cuModuleGetGlobal(self, module: str, name: bytes) -> Any:
        return 0, name.decode(), 1 << 16

    def cuMemcpyHtoD(self, table: str, address: int, size: int) -> Any:
        self.filled.append((table, ctypes.string_at(address, size)))
        return (0,)

    def cuPointerGetAttribute(self, attribute: int, address: int) -> Any:
        return (0, 0) if address >= 4096 else (1, None)

    def cuEventCreate(self, flags: int) -> Any:
        return 0, "event"

    def cuEventRecord(self, event: str, stream: int) -> Any:
        self.recorded = stream
        return (0,)

    def cuStreamWaitEvent(self, stream: int, event: str, flags: int) -> Any:
        self.waits.append((stream, self.recorded))
        return (0,)

    def cuEventDestroy(self, event: str) -> Any:
        return (0,)

    def cuGetErrorString(self, status: int) -> Any:
        return 0, f"error {status}".encode()

    def cuLaunchKernel(self, function: Any, x: int, y: int, z: int, threads: int, one: int,
                       another: int, shared: int, stream: int, arguments: int, extra: int) -> Any:
        self.launches.append(SimpleNamespace(
            function=function, grid=(x, y, z), threads=threads, shared=shared, stream=stream,
            arguments=arguments, context=self.contexts[-1] if self.contexts else None))
        return (self.statuses.pop(0) if self.statuses else 0,)


def argument(launch: SimpleNamespace, index: int, kind: Any = ctypes.c_uint64) -> Any:
    """What the driver would read as an argument of the last launch."""
    address = ctypes.c_uint64.from_address(launch.arguments + 8 * index).value
    return kind.from_address(address).value


class FakeTensor:
    """As much of torch.Tensor as a launch reads."""

    is_cuda = True

    def __init__(self, address: int = 4096, dtype: Any = "float32", device: int = 0) -> None:
        self.address, self.dtype, self.index = address, sys.modules["torch"].__dict__[dtype], device

    def data_ptr(self) -> int:
        return self.address

    def get_device(self) -> int:
        return self.index


class _Dtype:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"torch.{self.name}"


def install(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """Put both in the places of the real ones."""
    driver = FakeDriver()
    monkeypatch.setattr(cuda_driver, "open_driver", lambda: driver)
    torch: Any = ModuleType("torch")
    torch.Tensor = FakeTensor
    for name in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "bool"):
        setattr(torch, name, _Dtype(name))
    monkeypatch.setitem(sys.modules, "torch", torch)
    return driver
