"""What a launch costs the host, beside a launch of Triton and one of cuda-core.

    python bench/launch.py [--repeats 300]

All launch a vector addition of 1024 floats with the same four arguments on torch's current stream:
little work for the GPU, so that the host is what is measured.  A repeat is 100 launches in a row,
then a wait that is not counted; the ways take turns.  What is printed is the median time of a
launch, the spread of the middle half, and the ratio to Triton's usual call.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tritonc
import tritonc.torch

LAUNCHES = 100
N = 1024
ROOT = Path(__file__).resolve().parent.parent
Launch = Callable[[], Any]


class Interface:
    """An array of another library than torch."""

    def __init__(self, tensor: Any) -> None:
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


def ours(x: Any, y: Any, z: Any) -> dict[str, Launch]:
    kernel = tritonc.compile(ROOT / "samples" / "vector_add.tc", tunables={"T": N})
    launch, stream = kernel.launch, torch.cuda.current_stream().cuda_stream
    current = torch.cuda.current_stream
    operator = tritonc.torch.op("bench::add", kernel, outputs={"z": lambda x: torch.empty_like(x)},
                                scalars={"N": lambda x: x.numel()}, range=lambda x: x.numel())
    a, b, c = Interface(x), Interface(y), Interface(z)
    return {
        "tritonc launch": lambda: launch(stream, N, x, y, z, N),
        "tritonc launch, array interfaces": lambda: launch(stream, N, a, b, c, N),
        "tritonc launch, asking torch for its stream": lambda: launch(current(), N, x, y, z, N),
        "tritonc torch op": lambda: operator(x, y),
        "torch.add (for comparison)": lambda: torch.add(x, y),
    }


def triton(x: Any, y: Any, z: Any) -> dict[str, Launch]:
    try:
        from triton_rows import add_kernel
    except ImportError:
        return {}
    compiled = add_kernel[(1,)](x, y, z, N, BLOCK=N)
    runner = compiled[(1, 1, 1)]

    def add(x: Any, y: Any) -> Any:
        z = torch.empty_like(x)
        add_kernel[(1,)](x, y, z, N, BLOCK=N)
        return z

    operator = torch.library.custom_op("bench::triton_add", add, mutates_args=(),
                                       device_types="cuda", schema="(Tensor x, Tensor y) -> Tensor")
    return {"triton": lambda: add_kernel[(1,)](x, y, z, N, BLOCK=N),
            "triton, compiled kernel": lambda: runner(x, y, z, N, N),
            "triton in an operator of torch": lambda: operator(x, y)}


def cuda_core(x: Any, y: Any, z: Any) -> dict[str, Launch]:
    core = find_cuda_core()
    if core is None:
        return {}
    device = core.Device()
    device.set_current()
    kernel = tritonc.compile(ROOT / "samples" / "vector_add.tc", tunables={"T": N})
    entry = core.ObjectCode.from_ptx(kernel.ptx.encode()).get_kernel(kernel.entry)
    config = core.LaunchConfig(grid=1, block=kernel.threads)
    stream, n = device.default_stream, np.int32(N)
    return {"cuda-core": lambda: core.launch(stream, config, entry, x.data_ptr(), y.data_ptr(),
                                             z.data_ptr(), n)}


def find_cuda_core() -> Any:
    """The package cuda-core, whose place has changed; None where it is not."""
    for name in ("cuda.core", "cuda.core.experimental"):
        try:
            core = importlib.import_module(name)
        except ImportError:
            continue
        if hasattr(core, "ObjectCode"):
            return core
    return None


def measure(ways: dict[str, Launch], repeats: int) -> dict[str, list[float]]:
    """Microseconds of a launch, by way, one number for each repeat."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    gc.disable()
    for repeat in range(repeats + 20):  # the first 20 warm up
        for name, launch in ways.items():
            started = time.perf_counter()
            for _ in range(LAUNCHES):
                launch()
            elapsed = time.perf_counter() - started
            torch.cuda.synchronize()
            if repeat >= 20:
                times[name].append(elapsed / LAUNCHES * 1e6)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=300)
    repeats = parser.parse_args().repeats
    x, y, z = (torch.randn(N, device="cuda") for _ in range(3))
    ways = {**triton(x, y, z), **cuda_core(x, y, z), **ours(x, y, z)}
    for name, launch in ways.items():
        z.zero_()
        made = launch()
        torch.cuda.synchronize()
        if not torch.equal(made if isinstance(made, torch.Tensor) else z, x + y):
            raise SystemExit(f"{name}: wrong result")
    times = measure(ways, repeats)
    base = statistics.median(times["triton"]) if "triton" in times else None
    for name, found in times.items():
        middle = statistics.median(found)
        low, _, high = statistics.quantiles(found, n=4)
        ratio = f"  {middle / base:.2f} of triton" if base else ""
        print(f"{name:44} {middle:6.2f} us ({low:.2f} to {high:.2f}){ratio}")
    if base is None:
        print("triton not measured: the package is not installed")


if __name__ == "__main__":
    main()
