"""samples/softmax.tc as an operator of torch, compiled and differentiated.

Run: python examples/python/softmax.py
"""

from pathlib import Path

import torch

import tritonc.torch

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


def keep_result(ctx, inputs, output):
    ctx.save_for_backward(output)


def backward(ctx, gradient):
    (y,) = ctx.saved_tensors
    return y * (gradient - (gradient * y).sum(1, keepdim=True))


softmax = tritonc.torch.op(
    "examples::softmax", SAMPLES / "softmax.tc",
    outputs={"y": lambda x: torch.empty_like(x)},
    scalars={"M": lambda x: x.shape[0], "N": lambda x: x.shape[1]},
    range=lambda x: x.shape[0],
    backward=backward, setup_context=keep_result)


@torch.compile(fullgraph=True, dynamic=True)
def loss(x, w):
    return (softmax(x) * w).sum()


for shape in ((128, 1000), (37, 64)):
    x, w = torch.randn(shape, device="cuda", requires_grad=True), torch.randn(shape, device="cuda")
    loss(x, w).backward()
    ours, x.grad = x.grad, None
    (torch.softmax(x, 1) * w).sum().backward()
    torch.testing.assert_close(ours, x.grad)
print("softmax: ok")
