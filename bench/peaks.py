"""How fast this GPU is: what its memory and its arithmetic reach when nothing else holds them up.

Measured, not stated: clocks sink under load.  Memory by a copy that the driver makes, arithmetic by
kernels that do nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tritonc import driver
from tritonc.launch.cuda import Device
from tritonc.launch.packing import FORMATS, POINTER, packed
from tritonc.options import Options
from tritonc.source import SourceFile

_COPIED = 1 << 29  # bytes
_CONTENT = 0x35  # bytes that are numbers, as f16 too: zeros would cost no power
_BLOCKS = 16  # for each multiprocessor
_TURNS = 2000
_ROUNDS = 3
_SOURCE = """
kernel void f32_rate(const half* a, float* y, int n) {
  int r[1024] = get_global_range(0);
  float x[1024] = r;
  for (int i = 0; i < n; i += 1) {
    x = x * 0.5f + 1.5f; x = x * 0.5f + 2.5f; x = x * 0.5f + 1.5f; x = x * 0.5f + 2.5f;
    x = x * 0.5f + 1.5f; x = x * 0.5f + 2.5f; x = x * 0.5f + 1.5f; x = x * 0.5f + 2.5f;
  }
  *(y + r) = x;
}
kernel void f16_rate(const half* a, float* y, int n) {
  int r[128] = get_global_range(0);
  int k[64] = 0 ... 64;
  int c[128] = 0 ... 128;
  half A[128, 64] = *(a + (0 ... 128)[:, newaxis] * 64 + k);
  half B[64, 128] = *(a + k[:, newaxis] * 128 + c);
  float C[128, 128] = 0;
  for (int i = 0; i < n; i += 1)
    C += dot(A, B);
  *(y + r) = C[:, +];
}
"""
# Of one block in one turn.
_FLOPS = {"f32_rate": 2 * 8 * 1024, "f16_rate": 2 * 128 * 128 * 64}


class Measured(NamedTuple):
    """Per second: bytes that memory reads and writes, operations on f32, and on f16 with sums in
    f32 (by tensor cores, where there are some)."""

    memory: float
    f32: float
    f16: float


def measured_peaks(gpu: Device) -> Measured:
    """The peaks of an open GPU.  Raises CompileError."""
    result = driver.compile(SourceFile("peaks.tc", _SOURCE), Options(arch=gpu.target), ("ptx",))
    assert result.manifest is not None
    api = gpu.driver
    half = _COPIED // 2
    memory = int(gpu.call("allocate memory", api.cuMemAlloc(_COPIED)))
    try:
        gpu.call("clear memory", api.cuMemsetD8(memory, _CONTENT, _COPIED))
        copied = _seconds(gpu, partial(api.cuMemcpyDtoDAsync, memory + half, memory, half, 0))
        rates = {}
        for kernel in result.manifest["kernels"]:
            loaded, entry = gpu.load(result.outputs["ptx"].encode(), kernel["name"],
                                     kernel["dynamic_shared_bytes"])
            blocks = _BLOCKS * gpu.multiprocessors
            block = packed([POINTER, POINTER, FORMATS["i32"]], [memory, memory + half, _TURNS])
            seconds = _seconds(gpu, partial(gpu.start, entry, (blocks,), block, kernel["threads"],
                                            kernel["dynamic_shared_bytes"]))
            rates[kernel["name"]] = _FLOPS[kernel["name"]] * _TURNS * blocks / seconds
            api.cuModuleUnload(loaded)
        return Measured(2 * half / copied, rates["f32_rate"], rates["f16_rate"])
    finally:
        api.cuMemFree(memory)


def _seconds(gpu: Device, start: Callable[[], Any]) -> float:
    """The shortest time of what `start` puts on the default stream."""
    api = gpu.driver
    before, after = (gpu.call("make an event", api.cuEventCreate(0)) for _ in range(2))
    times = []
    for _ in range(_ROUNDS):
        gpu.call("record", api.cuEventRecord(before, 0))
        start()
        gpu.call("record", api.cuEventRecord(after, 0))
        gpu.call("run the kernel", api.cuEventSynchronize(after))
        times.append(float(gpu.call("take the time", api.cuEventElapsedTime(before, after))))
    for event in (before, after):
        api.cuEventDestroy(event)
    return min(times) * 1e-3
