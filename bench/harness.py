"""Measuring kernels beside their peers on one GPU: what the scripts of this folder share.

A chip that works hard slows down, so peers are measured in turn, one launch each, with idle gaps,
and compared as ratios of medians.  Inputs are random normal numbers; each result is checked against
a float64 (or float32) reference of torch in the same run.  Needs torch; Triton where a peer is
Triton.
"""

from __future__ import annotations

import ctypes
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from compiling import compile_source
from cuda.bindings import driver

ROOT = Path(__file__).resolve().parent.parent
GAP_SECONDS = 0.02  # of rest between measurements


def call(result: tuple[Any, ...]) -> Any:
    """The value of a driver call; raises RuntimeError if it failed."""
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(str(status))
    return values[0] if values else None


@dataclass
class Kernel:
    """A compiled kernel, loaded; `compile_seconds` is the time that tritonc took."""

    entry: Any
    manifest: dict[str, Any]
    ptx: str
    compile_seconds: float

    def __call__(self, extents: tuple[int, ...], *arguments: Any) -> None:
        """Launch over a global range on torch's current stream."""
        held: list[Any] = []
        for argument, parameter in zip(arguments, self.manifest["parameters"], strict=True):
            if isinstance(argument, torch.Tensor):
                held.append(ctypes.c_uint64(argument.data_ptr()))
            elif parameter["type"] in ("float", "double"):
                held.append({"float": ctypes.c_float, "double": ctypes.c_double}[
                    parameter["type"]](argument))
            else:
                held.append(ctypes.c_int64(argument))
        addresses = (ctypes.c_void_p * len(held))(*[ctypes.addressof(h) for h in held])
        tile = self.manifest["tile"]
        grid = [-(-n // t) for n, t in zip(extents, tile, strict=True)]
        grid += [1] * (3 - len(grid))
        call(driver.cuLaunchKernel(self.entry, *grid, self.manifest["threads"], 1, 1,
                                   self.manifest["dynamic_shared_bytes"],
                                   torch.cuda.current_stream().cuda_stream,
                                   ctypes.addressof(addresses), 0))

    def resources(self) -> tuple[int, int]:
        """Registers of a thread; bytes of its local memory (stack and spills), by the driver."""
        names = driver.CUfunction_attribute
        return (call(driver.cuFuncGetAttribute(names.CU_FUNC_ATTRIBUTE_NUM_REGS, self.entry)),
                call(driver.cuFuncGetAttribute(names.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                                               self.entry)))


def build(source: str | Path, name: str | None = None, arch: str = "sm_90a",
          **options: Any) -> Kernel:
    """Compile a file (or a text) and load it.  `options` are fields of tritonc's Options."""
    compiled = compile_source(source, name, arch, **options)
    return load(compiled.ptx, compiled.kernel, compiled.seconds)


def load(ptx: str, kernel: dict[str, Any], compile_seconds: float = 0.0) -> Kernel:
    """Load PTX, and of it the kernel of that entry of the manifest."""
    torch.cuda.init()
    torch.cuda.current_stream()
    log = bytearray(1 << 14)
    keys = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
            driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    status, module = driver.cuModuleLoadDataEx(ptx.encode() + b"\0", 2, keys, [log, len(log)])
    if int(status):
        text = bytes(log).split(b"\0")[0].decode("utf-8", "replace")
        raise RuntimeError(text or str(status))
    entry = call(driver.cuModuleGetFunction(module, kernel["entry"].encode()))
    if kernel["dynamic_shared_bytes"]:
        limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call(driver.cuFuncSetAttribute(entry, limit, kernel["dynamic_shared_bytes"]))
    return Kernel(entry, kernel, ptx, compile_seconds)


def interleaved(candidates: dict[str, Callable[[], Any]], rounds: int = 8,
                least_ms: float = 4.0, gap: float = GAP_SECONDS) -> dict[str, list[float]]:
    """Milliseconds per launch, the candidates in turn, `gap` seconds apart, by CUDA events.

    A sample is a CUDA graph of as many launches as take `least_ms`, so that what it costs the host
    to start one is left out.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    graphs = {}
    for name, run in candidates.items():
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        once = milliseconds(run)
        count = max(1, min(200, math.ceil(least_ms / max(once, 1e-3))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                run()
        graphs[name] = graph, count
        graph.replay()
    for _ in range(rounds):
        for name, (graph, count) in graphs.items():
            times[name].append(milliseconds(graph.replay) / count)
            time.sleep(gap)
    return times


def milliseconds(run: Callable[[], Any]) -> float:
    """The device's time of one call."""
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def median(values: list[float]) -> float:
    return statistics.median(values)


def spread(values: list[float]) -> float:
    """Half the distance of the quartiles, relative to the median."""
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / 2 / middle


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    """||got - want|| / ||want||, in float64."""
    a, b = got.double(), want.double()
    return float((a - b).norm() / b.norm())
