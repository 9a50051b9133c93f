"""A kernel from a text, launched on tensors of torch.  Run: python examples/python/axpy.py"""

import torch

import tritonc

SOURCE = """
const tunable int T = {256, 512, 1024};

kernel void axpy(float a, const float* x, float* y, int n) {
  int r[T] = get_global_range(0);
  @(r < n) *(y + r) = a * *(x + r) + *(y + r);
}
"""

axpy = tritonc.compile(SOURCE)
x, y = torch.randn(10_000, device="cuda"), torch.randn(10_000, device="cuda")
wanted = 2.5 * x + y

axpy.launch(torch.cuda.current_stream(), x.numel(), 2.5, x, y, x.numel())

torch.testing.assert_close(y, wanted)
print(f"{axpy}: ok")
