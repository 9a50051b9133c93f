"""What `tritonc.torch.op` registers, by the roles of a kernel's parameters.  torch is a fake."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake_driver import FakeDriver, FakeTensor, argument, install

import tritonc

SCALE = """
kernel void scale(float a, const float* x, float* y, float* z, int n, bool c, unsigned long s) {
  int r[64] = get_global_range(0);
  @(r < n && c) *(y + r) = a * *(x + r) + s;
  @(r < n) *(z + r) = 0;
}
"""


class Tensor(FakeTensor):
    """With as much shape as the rules below want."""

    device = SimpleNamespace(type="cuda")

    def __init__(self, address: int = 4096, n: int = 100, contiguous: bool = True) -> None:
        super().__init__(address)
        self.n, self.is_whole = n, contiguous

    def is_contiguous(self) -> bool:
        return self.is_whole

    def contiguous(self) -> Tensor:
        return Tensor(self.address + 64, self.n)


class CustomOp:
    """A `torch.library.CustomOpDef`."""

    def __init__(self, name: str, run: Any, **settings: Any) -> None:
        self.name, self.run, self.settings = name, run, settings
        self.gradient: Any = None

    def register_fake(self, fake: Any) -> None:
        self.fake = fake

    def register_autograd(self, backward: Any, *, setup_context: Any) -> None:
        self.gradient = backward, setup_context


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    driver = install(monkeypatch)
    torch: Any = sys.modules["torch"]
    torch.library = SimpleNamespace(custom_op=CustomOp)
    torch._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 70 + device)
    counter = SimpleNamespace(register_flop_formula=lambda operator: lambda rule: rule)
    monkeypatch.setitem(sys.modules, "torch.utils", cast(Any, SimpleNamespace()))
    monkeypatch.setitem(sys.modules, "torch.utils.flop_counter", cast(Any, counter))
    real = sys.modules.pop("tritonc.torch", None)
    yield driver
    sys.modules.pop("tritonc.torch", None)  # which has the fake
    vars(tritonc).pop("torch", None)
    if real is not None:
        sys.modules["tritonc.torch"] = vars(tritonc)["torch"] = real


@pytest.fixture(scope="module")
def kernel() -> tritonc.Kernel:
    return tritonc.compile(SCALE, "sm_80")


def register(kernel: tritonc.Kernel, **changes: Any) -> Any:
    import tritonc.torch

    roles = {"outputs": {"z": lambda x: Tensor(8192, x.n)}, "scalars": {"n": lambda x: x.n},
             "range": lambda x, z: max(x.n, z.n), **changes}
    return tritonc.torch.op("mine::scale", kernel, **roles)


def test_schema_and_settings(kernel: tritonc.Kernel, driver: FakeDriver) -> None:
    custom = register(kernel)
    assert custom.name == "mine::scale" and custom.gradient is None
    assert custom.settings == {
        "mutates_args": ["y"], "device_types": "cuda",
        "schema": "(float a, Tensor x, Tensor(a2!) y, bool c, SymInt s) -> Tensor"}
    both = register(kernel, outputs={"y": lambda x: Tensor(), "z": lambda x: Tensor()})
    assert both.settings["schema"] == "(float a, Tensor x, bool c, SymInt s) -> (Tensor, Tensor)"
    none = register(kernel, outputs={}, range=lambda: 1)
    assert none.settings["schema"].endswith("-> ()") and none.settings["mutates_args"] == ["y", "z"]


def test_running(kernel: tritonc.Kernel, driver: FakeDriver) -> None:
    """Outputs are made, scalars computed, tensors made contiguous; on torch's current stream."""
    made = register(kernel).run(2.0, Tensor(4096), Tensor(12288), True, 5)
    (launch,) = driver.launches
    assert made.address == 8192 and launch.stream == 70 and launch.grid == (2, 1, 1)
    assert [argument(launch, index) for index in (1, 2, 3, 6)] == [4096, 12288, 8192, 5]
    assert argument(launch, 4) & 0xFFFFFFFF == 100
    register(kernel).run(2.0, Tensor(contiguous=False), Tensor(), True, 5)
    assert argument(driver.launches[-1], 1) == 4096 + 64
    register(kernel, strided=["x"]).run(2.0, Tensor(contiguous=False), Tensor(), True, 5)
    assert argument(driver.launches[-1], 1) == 4096
    with pytest.raises(ValueError, match="changes 'y', which has to be contiguous"):
        register(kernel).run(2.0, Tensor(), Tensor(contiguous=False), True, 5)


def test_the_fake_launches_nothing(kernel: tritonc.Kernel, driver: FakeDriver) -> None:
    made = register(kernel).fake(2.0, Tensor(n=7), Tensor(), True, 5)
    assert made.n == 7 and not driver.launches
    both = register(kernel, outputs={"y": lambda x: Tensor(), "z": lambda x: Tensor()})
    assert len(both.fake(2.0, Tensor(), True, 5)) == 2
    assert register(kernel, outputs={}).fake(2.0, Tensor(), Tensor(), Tensor(), True, 5) is None


def test_gradients(kernel: tritonc.Kernel, driver: FakeDriver) -> None:
    def backward(ctx: Any, gradient: Any) -> Any: ...

    found, set_up = register(kernel, backward=backward).gradient
    saved: list[Any] = []
    context = SimpleNamespace(save_for_backward=lambda *tensors: saved.extend(tensors))
    x, y = Tensor(), Tensor()
    set_up(context, (2.0, x, y, True, 5), None)
    assert found is backward and saved == [x, y]
    assert register(kernel, backward=backward, setup_context=max).gradient == (backward, max)
    with pytest.raises(TypeError, match="setup_context without backward"):
        register(kernel, setup_context=max)


@pytest.mark.parametrize("changes, text", [
    ({"outputs": {"q": len}}, "outputs: the kernel has no parameter 'q', only a, x, y"),
    ({"outputs": {"n": len}}, "outputs: 'n' is of type int"),
    ({"outputs": {"x": len}}, "outputs: the kernel writes nothing to 'x'"),
    ({"scalars": {"x": len}}, "scalars: 'x' is of type const float \\*"),
    ({"scalars": {"n": lambda q: 1}}, r"scalars\['n'\] reads 'q', which is none of a, x, y, c, s"),
    ({"scalars": {"n": lambda z: 1}}, r"scalars\['n'\] reads 'z', which is none of"),
    ({"range": lambda n: 1}, "range reads 'n', which is none of a, x, y, c, s, z"),
    ({"strided": ["s"]}, "strided: 's' is of type unsigned long long"),
])  # fmt: skip
def test_roles_that_do_not_fit(kernel: tritonc.Kernel, driver: FakeDriver, changes: Any, text: str
                               ) -> None:
    with pytest.raises(TypeError, match=f"operator 'mine::scale': {text}"):
        register(kernel, **changes)
