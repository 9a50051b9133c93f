"""Kernels launched from Python on a GPU, on arrays of several libraries."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritonc

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parent.parent
TABLE = """
__constant__ float* weights = alloc_const float[4];
kernel void scale(float* restrict y) {
  int r[4] = get_global_range(0);
  *(y + r) = *(weights + r);
}
"""
ALIGNED = """
kernel void fill(align(16) float* y, multiple_of(8) int n, float v) {
  int r[64] = get_global_range(0);
  @(r < n) *(y + r) = v;
}
"""


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def add() -> Any:
    return tritonc.compile(ROOT / "samples" / "vector_add.tc")


class Interface:
    """A tensor by its array interface alone."""

    def __init__(self, tensor: Any, **changes: Any) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, **changes}


class Exporter:
    """A tensor by DLPack alone; before version 1.0, which takes no `max_version`."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, stream: int) -> Any:
        return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("kind", [lambda t: t, Interface, Exporter])
def test_every_kind_of_array(torch: Any, add: Any, kind: Any) -> None:
    x, y, z = (torch.randn(1000, device="cuda") for _ in range(3))
    for stream in (None, 0, torch.cuda.current_stream(), torch.cuda.Stream()):
        torch.cuda.synchronize()
        z.zero_()
        torch.cuda.synchronize()
        add.launch(stream, 1000, kind(x), kind(y), kind(z), 1000)
        torch.cuda.synchronize()
        assert torch.equal(z, x + y)


def test_cuda_core(torch: Any, add: Any) -> None:
    core = pytest.importorskip("cuda.core")
    if not hasattr(core, "Device"):  # before version 0.5
        core = pytest.importorskip("cuda.core.experimental")
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    x, y, z = (torch.randn(1000, device="cuda") for _ in range(3))
    torch.cuda.synchronize()
    add.launch(stream, 1000, x, y, z, 1000)
    stream.sync()
    assert torch.equal(z, x + y)


def test_bfloat16_scalars_and_arrays(torch: Any) -> None:
    kernel = tritonc.compile("kernel void f(bfloat16* y, bfloat16 a, half* h, half b, bool c) {\n"
                             "int r[32] = get_global_range(0); *(y + r) = a;\n"
                             "*(h + r) = c ? b : 0; }")
    y = torch.zeros(32, device="cuda", dtype=torch.bfloat16)
    h = torch.zeros(32, device="cuda", dtype=torch.float16)
    kernel.launch(0, 32, y, 1.00390625, h, 0.1, True)
    assert (y == torch.tensor(1.00390625).bfloat16().item()).all()
    assert (h == torch.tensor(0.1).half().item()).all()


def test_wrong_arguments(torch: Any, add: Any) -> None:
    x, y, z = (torch.zeros(1001, device="cuda") for _ in range(3))
    for wrong, error, text in (
        ((x, y, z), TypeError, "takes 4 arguments, x, y, z, N; found 3"),
        ((x, y.cpu(), z, 5), TypeError, "'y' of kernel 'vector_add': found a tensor on device"),
        ((x, y, z.int(), 5), TypeError, "needs elements of float32, found int32"),
        ((x, y, np.zeros(5, np.float32), 5), TypeError, "'z'"),
        ((x, y, z, 2.5), TypeError, "'N'"),
        ((x, y, z, 1 << 40), ValueError, "'N'"),
        ((x, y, Interface(z, data=(z.data_ptr(), True)), 5), ValueError, "read-only"),
        ((x, y, Interface(z, data=(64, False)), 5), TypeError, "no memory of a GPU"),
    ):
        for _ in range(2):  # before and after a launch that is right
            with pytest.raises(error, match=text):
                add.launch(0, 5, *wrong)
            add.launch(0, 5, x, y, z, 5)


def test_promises_are_checked(torch: Any) -> None:
    kernel = tritonc.compile(ALIGNED)
    y = torch.zeros(100, device="cuda")
    for _ in range(2):
        kernel.launch(0, 16, y[4:], 16, 1.0)
        with pytest.raises(ValueError, match=r"'y' .* not a multiple of 16"):
            kernel.launch(0, 16, y[1:], 16, 1.0)
        with pytest.raises(ValueError, match=r"'n' .* not a multiple of 8"):
            kernel.launch(0, 16, y, 15, 1.0)
    assert y.sum() == 16


def test_threads_launch_at_once(torch: Any, add: Any) -> None:
    wrong = []

    def work(seed: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for n in range(1, 300):
                x = torch.full((n,), float(seed), device="cuda")
                z = torch.empty_like(x)
                add.launch(stream, n, x, x, z, n)
                if not bool((z == 2 * seed).all()):
                    wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_thread_that_has_no_context(torch: Any, add: Any) -> None:
    x, y, z = (torch.ones(100, device="cuda") for _ in range(3))
    thread = threading.Thread(target=lambda: add.launch(0, 100, x, y, z, 100))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert (z == 2).all()


def test_tables(torch: Any) -> None:
    kernel = tritonc.compile(TABLE)
    y = torch.zeros(4, device="cuda")
    kernel.module.fill_table("weights", np.arange(4, dtype=np.float32))
    kernel.launch(0, 4, y)
    assert y.tolist() == [0, 1, 2, 3]
    torch.cuda.synchronize()
    kernel.module.fill_table("weights", np.full(4, 7, dtype=np.float32))
    kernel.launch(0, 4, y)
    assert y.tolist() == [7, 7, 7, 7]


def test_loaded_from_a_file(torch: Any, add: Any, tmp_path: Path) -> None:
    (tmp_path / "add.ptx").write_text(add.ptx)
    x, z = torch.ones(10, device="cuda"), torch.zeros(10, device="cuda")
    tritonc.load(tmp_path / "add.ptx").launch(0, 10, x, x, z, 10)
    assert z.tolist() == [2] * 10


