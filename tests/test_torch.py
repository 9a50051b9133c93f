"""Operators of torch: eager, compiled, dynamic shapes, autograd, exported; on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parent.parent
AXPY = """
kernel void axpy(float a, const float* x, float* y, int n) {
  int r[128] = get_global_range(0);
  @(r < n) *(y + r) = a * *(x + r) + *(y + r);
}
"""


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def add(torch: Any) -> Any:
    import tritonc.torch

    return tritonc.torch.op(
        "tritonc_test::add", ROOT / "samples" / "vector_add.tc",
        outputs={"z": lambda x: torch.empty_like(x)}, scalars={"N": lambda x: x.numel()},
        range=lambda x: x.numel(), backward=lambda ctx, gradient: (gradient, gradient))


@pytest.fixture(scope="module")
def axpy(torch: Any) -> Any:
    import tritonc.torch

    return tritonc.torch.op("tritonc_test::axpy", AXPY, scalars={"n": lambda x: x.numel()},
                            range=lambda x: x.numel())


def data(torch: Any, *shape: int, **more: Any) -> tuple[Any, Any]:
    return (torch.randn(*shape, device="cuda", **more), torch.randn(*shape, device="cuda", **more))


def test_eager(torch: Any, add: Any) -> None:
    for shape in ((1000,), (1,), (0,), (33, 77)):
        x, y = data(torch, *shape)
        assert torch.equal(add(x, y), x + y)
    x, y = data(torch, 33, 77)
    assert torch.equal(add(x.t(), y.t()), (x + y).t())


def test_other_streams(torch: Any, add: Any) -> None:
    x, y = data(torch, 1 << 20)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        z = add(x, y)
        assert torch.equal(z, x + y)


def test_mutation(torch: Any, axpy: Any) -> None:
    x, y = data(torch, 1000)
    want = 2.5 * x + y
    assert axpy(2.5, x, y) is None
    torch.testing.assert_close(y, want)
    with pytest.raises(ValueError, match="has to be contiguous"):
        axpy(1.0, x, y.view(2, 500).t())


def test_opcheck(torch: Any, add: Any, axpy: Any) -> None:
    """torch's own checks of schema, fake rule and autograd."""
    torch.library.opcheck(add, data(torch, 100, requires_grad=True))
    torch.library.opcheck(axpy, (2.0, *data(torch, 100)))


def test_compiled(torch: Any, add: Any, axpy: Any) -> None:
    @torch.compile(fullgraph=True)
    def f(x: Any, y: Any) -> Any:
        z = add(x * 2, y) + 1
        axpy(3.0, x, z)
        return z.relu()

    x, y = data(torch, 64, 32)
    torch.testing.assert_close(f(x, y), (2 * x + y + 1 + 3 * x).relu())


def test_compiled_once_for_dynamic_shapes(torch: Any, add: Any) -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("inductor")
    f = torch.compile(lambda x, y: add(x, y).sin(), fullgraph=True, dynamic=True, backend=counter)
    for n in (100, 1000, 12345):
        x, y = data(torch, n)
        torch.testing.assert_close(f(x, y), (x + y).sin())
    assert counter.frame_count == 1


@pytest.mark.parametrize("compiled", [False, True])
def test_autograd(torch: Any, add: Any, compiled: bool) -> None:
    f = torch.compile(add, fullgraph=True) if compiled else add
    x, y = data(torch, 100, requires_grad=True)
    (f(x, y) * y).sum().backward()
    torch.testing.assert_close(x.grad, y)
    torch.testing.assert_close(y.grad, x + 2 * y)


def test_autograd_function(torch: Any, axpy: Any) -> None:
    """The operator as a part of somebody's own autograd.Function, compiled too."""
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: float) -> Any:
            ctx.factor = factor
            y = torch.zeros_like(x)
            axpy(factor, x, y)
            return y

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            result = torch.zeros_like(gradient)
            axpy(ctx.factor, gradient.contiguous(), result)
            return result, None

    def f(x: Any) -> Any:
        return Scale.apply(x, 3.0).square().sum()

    for function in (f, torch.compile(f, fullgraph=True)):
        x, _ = data(torch, 100, requires_grad=True)
        function(x).backward()
        torch.testing.assert_close(x.grad, 18 * x.detach())


def module(torch: Any, add: Any) -> Any:
    class Twice(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, y: Any) -> Any:
            return add(x, y) * 2

    return Twice()


def exported(torch: Any, add: Any) -> Any:
    n = torch.export.Dim("n", max=1 << 20)
    return torch.export.export(module(torch, add), data(torch, 64), dynamic_shapes=({0: n}, {0: n}))


def test_export(torch: Any, add: Any, tmp_path: Path) -> None:
    path = tmp_path / "add.pt2"
    torch.export.save(exported(torch, add), path)
    loaded = torch.export.load(path).module()
    for n in (5, 1000):
        x, y = data(torch, n)
        torch.testing.assert_close(loaded(x, y), 2 * (x + y))


AHEAD_OF_TIME = """
import sys
import torch
import tritonc.torch

add = tritonc.torch.op(
    "tritonc_test::add", sys.argv[1], outputs={"z": lambda x: torch.empty_like(x)},
    scalars={"N": lambda x: x.numel()}, range=lambda x: x.numel())

class Twice(torch.nn.Module):
    def forward(self, x, y):
        return add(x, y) * 2

def data(n):
    return torch.randn(n, device="cuda"), torch.randn(n, device="cuda")

n = torch.export.Dim("n", max=1 << 20)
program = torch.export.export(Twice(), data(64), dynamic_shapes=({0: n}, {0: n}))
print("exported", flush=True)
package = torch._inductor.aoti_compile_and_package(program, package_path="add.pt2")
print("compiled", flush=True)
loaded = torch._inductor.aoti_load_package(package)
print("loaded", flush=True)
for n in (5, 1000):
    x, y = data(n)
    torch.testing.assert_close(loaded(x, y), 2 * (x + y))
print("ran", flush=True)
"""


def run_ahead_of_time(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which says how far it came if native code ends it."""
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program,
         str(ROOT / "samples" / "vector_add.tc")], cwd=folder, capture_output=True, text=True,
        timeout=300, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])})


def test_ahead_of_time(torch: Any, tmp_path: Path) -> None:
    """AOTInductor: a shared library that calls the operator."""
    done = run_ahead_of_time(tmp_path, AHEAD_OF_TIME)
    if done.returncode < 0:  # such as by a C++ compiler that links its own libstdc++ into it
        plain = AHEAD_OF_TIME.replace("return add(x, y) * 2", "return (x + y) * 2")
        assert plain != AHEAD_OF_TIME
        if run_ahead_of_time(tmp_path, plain).returncode == done.returncode:
            pytest.skip("needs a C++ compiler (CXX) whose libraries torch can load")
    assert done.returncode == 0 and done.stdout.split()[-1] == "ran", (
        f"exit code {done.returncode}\n{done.stdout}{done.stderr[-6000:]}")


def test_wrong_arguments(torch: Any, add: Any) -> None:
    x, y = data(torch, 10)
    with pytest.raises(TypeError, match=r"argument 'x' of kernel 'vector_add': .* float32"):
        add(x.double(), y)
    with pytest.raises((TypeError, ValueError), match="'y'"):
        add(x, y.int())
