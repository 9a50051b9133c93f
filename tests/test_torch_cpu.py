"""Operators of torch on tensors of the CPU, which the interpreter runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
SAMPLES = Path(__file__).parent.parent / "samples"


@pytest.fixture(scope="module")
def product() -> Any:
    import tritonc.torch

    return tritonc.torch.op(
        "tritonc_cpu::product", SAMPLES / "matmul_bf16.tc", cpu=True, arch="sm_90a",
        outputs={"c": lambda a, b: a.new_empty(a.shape[0], b.shape[1])},
        scalars={"M": lambda a: a.shape[0], "N": lambda b: b.shape[1], "K": lambda a: a.shape[1]},
        range=lambda a, b: (a.shape[0], b.shape[1]),
        flops=lambda a, b: 2 * a.shape[0] * b.numel())


def test_products(product: Any) -> None:
    a, b = torch.randn(40, 24).bfloat16(), torch.randn(24, 72).bfloat16()
    torch.testing.assert_close(product(a, b), a @ b, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(product(b.t(), a.t()), b.t() @ a.t(), rtol=2e-2, atol=2e-2)
    assert product(a[:0], b).shape == (0, 72)
    torch.library.opcheck(product, (a, b))
    with pytest.raises(TypeError, match=r"argument 'a' .* needs elements of bfloat16"):
        product(a.float(), b)


def test_flops(product: Any) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    a, b = torch.randn(8, 16).bfloat16(), torch.randn(16, 24).bfloat16()
    with FlopCounterMode(display=False) as counter:
        product(a, b)
    assert counter.get_total_flops() == 2 * 8 * 16 * 24


def test_changed_in_place() -> None:
    import tritonc.torch

    step = tritonc.torch.op("tritonc_cpu::step", """
kernel void step(float a, const unsigned char* x, float* y, int n) {
  int r[64] = get_global_range(0);
  @(r < n) *(y + r) = a * *(x + r) + *(y + r);
}
""", cpu=True, scalars={"n": lambda x: x.numel()}, range=lambda x: x.numel())
    x, y = torch.arange(100, dtype=torch.uint8), torch.ones(100)
    assert step(0.5, x, y) is None
    torch.testing.assert_close(y, 0.5 * x + 1)
    with pytest.raises(Exception, match="out of bounds"):
        step(0.5, x, y[:50])


def test_a_kernel_without_its_source(tmp_path: Path) -> None:
    import tritonc
    import tritonc.torch

    path = tmp_path / "add.ptx"
    path.write_text(tritonc.compile(SAMPLES / "vector_add.tc", arch="sm_80").ptx)
    with pytest.raises(TypeError, match="only a kernel with its source"):
        tritonc.torch.op("tritonc_cpu::add", tritonc.load(path), range=lambda x: 1, cpu=True)
