"""`tritonc bench`: a torch expression beside a kernel, and what it says of peaks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tritonc import driver
from tritonc.launch.data import Data, prepare
from tritonc.launch.run_problems import read_problems
from tritonc.options import Options
from tritonc.source import CompileError, Diagnostics, SourceFile
from tritonc.tune.timing.bench import _line
from tritonc.tune.timing.cuda_device import CudaDevice
from tritonc.tune.timing.measure import measure
from tritonc.tune.timing.torch_peer import PEER, BesideTorch
from tritonc.tune.workers.jobs import Code, Job, Measured, Wrong

SOURCE = SourceFile("add.tc", """\
//! size: N = 1000
//! range: N
//! arg: x = randn(N)
//! arg: y = zeros(N)
//! arg: n = N
//! expect: y = x + 1
//! flops: N
//! bytes: 8 * N
kernel void add(const float* x, float* y, int n) {
  int r[1024] = get_global_range(0);
  @(r < n) *(y + r) = *(x + r) + 1;
}
""")
CODE = Code({}, "1", b"", 128, 0, (1024,))


class FakeTensor:
    """Of NumPy, as far as the peer's data and results need one."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __add__(self, other: float) -> FakeTensor:
        return FakeTensor(self.content + other)

    def to(self, dtype: Any) -> FakeTensor:
        return FakeTensor(self.content.astype(dtype))

    def numpy(self) -> Any:
        return self.content

    cuda = cpu = double = lambda self: self


class FakeDevice:
    """Takes a millisecond for a kernel."""

    def data(self, code: Code, size: Mapping[str, int]) -> Data:
        options = Options()
        (problem,) = read_problems(SOURCE, options, "tc", Diagnostics())
        module = driver.compile(SOURCE, options, ("manifest",)).module
        assert module is not None
        return prepare(problem, module, module.kernels[0], size)

    def check(self, code: Code, size: Mapping[str, int]) -> tuple[list[str], float]:
        return [], 1.0

    def milliseconds(self, code: Code, size: Mapping[str, int], launches: int) -> float:
        return 1.0


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As much of torch as a peer uses; events are two milliseconds apart."""
    made = cast(Any, ModuleType("torch"))
    made.Tensor, made.from_numpy, made.float32 = FakeTensor, FakeTensor, np.float32
    event = SimpleNamespace(record=lambda: None, synchronize=lambda: None,
                            elapsed_time=lambda end: 2.0)
    made.cuda = SimpleNamespace(
        is_available=lambda: True, synchronize=lambda: None, set_device=lambda index: None,
        Event=lambda enable_timing: event, graph=lambda graph: nullcontext(),
        CUDAGraph=lambda: SimpleNamespace(replay=lambda: None))
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


def beside(expression: str) -> BesideTorch:
    return BesideTorch(cast(CudaDevice, FakeDevice()), 0, expression)


def test_the_peer_is_measured_in_turn() -> None:
    found = measure(beside("x + (n - 999)"), Job((PEER, CODE), {}, 2))
    assert found == Measured(((2.0, 2.0), (1.0, 1.0)))
    (problem,) = read_problems(SOURCE, Options(), "tc", Diagnostics())
    line = _line(problem, "add", {"N": 1000}, found, "no choice", (1e9, 16e6), "x + 1")
    assert line.ok and line.text == (
        "add N=1000: 1 ms (spread 0.0%), 1e-06 TFLOP/s (0.00 of the peak), 0.008 GB/s (0.50 of the "
        "peak) (no choice); 2.000 times as fast as x + 1, 2 ms")


@pytest.mark.parametrize("expression, message", [
    ("x + 2", "the result is not what is expected of 'y'"),
    ("x.nothing", "AttributeError"), ("x +", "invalid syntax"),
])
def test_a_peer_that_does_something_else(expression: str, message: str) -> None:
    try:
        found = measure(beside(expression), Job((PEER, CODE), {}, 2))
        text = found.reason if isinstance(found, Wrong) else ""
    except CompileError as error:
        text = error.diagnostics[0].message
    assert text.startswith("--against") and message in text


def test_peaks_come_from_kernels_that_only_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    peaks = importlib.import_module("peaks")
    source = SourceFile("peaks.tc", peaks._SOURCE)
    ptx = driver.compile(source, Options(arch="sm_90a"), ("ptx",)).outputs["ptx"]
    _, f32, f16 = ptx.split(".visible .entry")
    assert f32.count("fma.rn.f32") % 8 == 0 and "wgmma.mma_async" in f16
    assert "ld.global" not in f32
