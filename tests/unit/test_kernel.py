"""Launches from Python, as far as the driver would see them."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver, FakeTensor, argument, install

import tritonc
from tritonc.launch.python import dlpack
from tritonc.launch.python.launcher import Launcher
from tritonc.launch.python.parameters import Parameter

ADD = """
kernel void add(const float* x, align(16) float* y, multiple_of(8) int n, unsigned short k,
                half a, bfloat16 b, double d, bool c) {
  int r[64] = get_global_range(0);
  @(r < n) *(y + r) = *(x + r) + k + a + b + c + d;
}
"""
RIGHT: tuple[Any, ...] = (16, 65535, 0.5, 1.0, 2.5, True)


@pytest.fixture(scope="module")
def kernel() -> tritonc.Kernel:
    return tritonc.compile(ADD, "sm_80")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, kernel: tritonc.Kernel) -> FakeDriver:
    return install(monkeypatch)


def fresh(kernel: tritonc.Kernel) -> tritonc.Kernel:
    """The kernel before its first launch."""
    return tritonc.Module(kernel.ptx, kernel.module.manifest)["add"]


class Interface:
    def __init__(self, address: int = 8192, typestr: str = "<f4", **more: Any) -> None:
        self.__cuda_array_interface__ = {"data": (address, False), "typestr": typestr, **more}


class OnCpu:
    """NumPy's own DLPack, which no kernel can read."""

    def __init__(self) -> None:
        self.array = np.zeros(4, np.float32)
        self.__dlpack__ = self.array.__dlpack__
        self.__dlpack_device__ = self.array.__dlpack_device__


def test_what_the_driver_is_asked_for(kernel: tritonc.Kernel, driver: FakeDriver) -> None:
    """The first launch goes the careful way, the second the short one."""
    kernel = fresh(kernel)
    for stream in (0, None, SimpleNamespace(cuda_stream=5), 5):
        kernel.launch(stream, 100, FakeTensor(4100), FakeTensor(8192), *RIGHT)
        last = driver.launches[-1]
        assert (last.function, last.grid, last.shared) == ("add on 0", (2, 1, 1), 0)
        assert (last.threads, last.stream) == (kernel.threads, 5 if stream else 0)
        assert [argument(last, 0), argument(last, 1)] == [4100, 8192]
        assert argument(last, 2, ctypes.c_int) == 16
        assert [argument(last, i, ctypes.c_uint16) for i in (3, 4, 5)] == [65535, 0x3800, 0x3F80]
        assert argument(last, 6, ctypes.c_double) == 2.5 and argument(last, 7, ctypes.c_bool)
    assert len(driver.loaded) == 1 and driver.loaded[0][1].startswith(b"// tritonc: {")


def test_the_short_way_is_taken(kernel: tritonc.Kernel, driver: FakeDriver,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fresh(kernel)
    arguments = FakeTensor(), FakeTensor(), *RIGHT
    kernel.launch(0, 64, *arguments)
    monkeypatch.setattr("tritonc.launch.python.arrays.read", None)
    kernel.launch(0, 64, *arguments)
    with pytest.raises(TypeError, match="not callable"):
        kernel.launch(0, 65, *arguments)  # a new range is looked at


def test_two_devices(kernel: tritonc.Kernel, driver: FakeDriver) -> None:
    kernel = fresh(kernel)
    for device in (0, 1, 0, 1):
        tensor = FakeTensor(device=device)
        kernel.launch(0, 64, tensor, tensor, *RIGHT)
        assert driver.launches[-1].function == f"add on {device}"
    assert [device for device, _ in driver.loaded] == [0, 1]


def test_a_context_is_made_current_where_it_is_not(kernel: tritonc.Kernel, driver: FakeDriver
                                                   ) -> None:
    kernel = fresh(kernel)
    driver.statuses = [201]
    kernel.launch(0, 64, FakeTensor(device=1), FakeTensor(device=1), *RIGHT)
    assert [launch.context for launch in driver.launches] == [None, 1] and not driver.contexts
    driver.statuses = [700]
    with pytest.raises(tritonc.LaunchError, match="cannot launch kernel 'add': error 700"):
        kernel.launch(0, 64, FakeTensor(device=1), FakeTensor(device=1), *RIGHT)
    assert len(driver.launches) == 3


def test_ptx_that_the_driver_rejects(kernel: tritonc.Kernel, driver: FakeDriver) -> None:
    driver.complaint = b"line 7: no"
    with pytest.raises(tritonc.CompileError) as caught:
        fresh(kernel).launch(0, 64, FakeTensor(), FakeTensor(), *RIGHT)
    assert str(caught.value) == (
        "\ntritonc: error: the driver rejects the PTX: line 7: no [cuda-error]")


@pytest.mark.parametrize("index, wrong, error, text", [
    (0, lambda: FakeTensor(dtype="int32"), TypeError, "needs elements of float32, found int32"),
    (0, 4096, TypeError, "argument 'x' of kernel 'add': found an int"),
    (0, OnCpu, TypeError, "found a test_kernel.OnCpu, which is not on a GPU"),
    (0, lambda: Interface(64), TypeError, "address 0x40 is in no memory of a GPU"),
    (0, lambda: Interface(typestr=">f4"), TypeError, "elements of type '>f4'"),
    (0, lambda: Interface(typestr="<f8"), TypeError, "needs elements of float32, found float64"),
    (1, lambda: Interface(mask=1), TypeError, "an array with a mask"),
    (1, lambda: Interface(data=(8192, True)), ValueError, "read-only"),
    (0, lambda: FakeTensor(0), ValueError, "'x' .* it is null or empty"),
    (1, lambda: Interface(0), ValueError, "'y' .* it is null or empty"),
    (1, lambda: FakeTensor(4100), ValueError, "'y' .* 0x1004 is not a multiple of 16"),
    (1, lambda: FakeTensor(device=1), ValueError, "it is on GPU 1, and 'x' on GPU 0"),
    (2, 12, ValueError, "'n' .* 12 is not a multiple of 8"),
    (2, 1 << 31, ValueError, "2147483648 is no int"),
    (2, 8.0, TypeError, "needs a number without fraction, found 8.0 of type float"),
    (3, -1, ValueError, "-1 is no unsigned short"),
    (4, 1e6, ValueError, "is no half"),
    (6, "2.5", TypeError, "'double' needs a number, found '2.5' of type str"),
])  # fmt: skip
def test_wrong_arguments(kernel: tritonc.Kernel, driver: FakeDriver, index: int, wrong: Any,
                         error: type[Exception], text: str) -> None:
    """Nothing is launched, be it the first launch or a later one."""
    value = wrong() if callable(wrong) else wrong
    right = [FakeTensor(), FakeTensor(), *RIGHT]
    changed = [*right[:index], value, *right[index + 1 :]]
    kernel = fresh(kernel)
    with pytest.raises(error, match=text):
        kernel.launch(0, 64, *changed)
    kernel.launch(0, 64, *right)
    with pytest.raises(error, match=text):
        kernel.launch(0, 64, *changed)
    assert len(driver.launches) == 1


@pytest.mark.parametrize("extents, error, text", [
    (-1, ValueError, "axis 0 is -1; it can be 0 to"),
    ((1, 2, 3, 4), ValueError, "divides 1 axes, but the global range has 4"),
    ((), ValueError, "divides 1 axes, but the global range has 0"),
    ((1, 65536), ValueError, "axis 1 is 65536"),
    (2**31, ValueError, "it can be 0 to 2147483647"),
    (2.5, TypeError, "an integer, found 2.5"),
])  # fmt: skip
def test_wrong_ranges(kernel: tritonc.Kernel, driver: FakeDriver, extents: Any,
                      error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        kernel.launch(0, extents, FakeTensor(), FakeTensor(), *RIGHT)
    assert not driver.launches


def test_ranges(kernel: tritonc.Kernel, driver: FakeDriver) -> None:
    kernel = fresh(kernel)
    for extents, grid in ((1, (1, 1, 1)), (65, (2, 1, 1)), ((64, 3), (1, 3, 1)), ([64], (1, 1, 1))):
        for _ in range(2):
            kernel.launch(0, extents, FakeTensor(), FakeTensor(), *RIGHT)
            assert driver.launches[-1].grid == grid
    before = len(driver.launches)
    for _ in range(2):
        kernel.launch(0, 0, FakeTensor(), FakeTensor(), *RIGHT)
        kernel.launch(0, (5, 0), FakeTensor(), FakeTensor(), *RIGHT)
    assert len(driver.launches) == before


def test_a_range_is_looked_at_once(kernel: tritonc.Kernel, driver: FakeDriver,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """However it says the same: a tuple of one was looked at in every launch."""
    kernel = fresh(kernel)
    looks: list[Any] = []
    grid = Launcher._grid
    monkeypatch.setattr(Launcher, "_grid", lambda *given: (looks.append(given), grid(*given))[1])
    for extents in (64, (64,), (64,), 64):
        kernel.launch(0, extents, FakeTensor(), FakeTensor(), *RIGHT)
    assert len(driver.launches) == 4 and len(looks) == 1


def test_wrong_counts_and_streams(kernel: tritonc.Kernel, driver: FakeDriver) -> None:
    with pytest.raises(TypeError, match="takes 8 arguments, x, y, n, k, a, b, d, c; found 1"):
        kernel.launch(0, 64, FakeTensor())
    with pytest.raises(TypeError, match="a stream is a number, None or a library's stream"):
        kernel.launch("0", 64, FakeTensor(), FakeTensor(), *RIGHT)


def test_array_interfaces_wait_for_their_stream(kernel: tritonc.Kernel, driver: FakeDriver) -> None:
    kernel = fresh(kernel)
    kernel.launch(7, 64, Interface(8196, stream=9), Interface(), *RIGHT)
    assert argument(driver.launches[0], 0) == 8196
    kernel.launch(7, 64, Interface(stream=7), Interface(stream=None), *RIGHT)
    assert driver.waits == [(7, 9)]


def test_dlpack_of_numpy() -> None:
    """Capsules of both versions, of which NumPy makes the second since 2.1; read and left as they
    are."""
    array = np.arange(6, dtype=np.float32)[2:]
    versions = [{}, {"max_version": (1, 0)}][:1 + (np.lib.NumpyVersion(np.__version__) >= "2.1.0")]
    for given in versions:
        capsule = array.__dlpack__(**given)
        for _ in range(2):
            found = dlpack.unpack(capsule)
            assert found[:6] == (array.ctypes.data, dlpack.CPU, 0, dlpack.FLOAT, 32, 1)
    with pytest.raises(TypeError, match="without a DLPack tensor"):
        dlpack.unpack("x")
    array.setflags(write=False)
    for given in versions[1:]:
        assert dlpack.unpack(array.__dlpack__(**given)).read_only


class Exporter:
    """Memory of a GPU by DLPack, from before its versions or of them."""

    def __init__(self, code: int = dlpack.FLOAT, bits: int = 32, versions: bool = True) -> None:
        self.versions = versions
        tensor = dlpack._DLTensor(8192, dlpack.CUDA, 0, 1, code, bits, 1, None, None, 256)
        self.raw = dlpack._Versioned(1, 1, None, None, 0, tensor) if versions else tensor
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, 0

    def __dlpack__(self, *, stream: int, **more: Any) -> Any:
        if more and not self.versions:
            raise TypeError("unexpected keyword")
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                       ctypes.c_void_p]
        name = b"dltensor_versioned" if self.versions else b"dltensor"
        return new(ctypes.addressof(self.raw), name, None)


@pytest.mark.parametrize("versions", [True, False])
def test_dlpack_of_a_gpu(kernel: tritonc.Kernel, driver: FakeDriver, versions: bool) -> None:
    kernel = fresh(kernel)
    x, y = Exporter(versions=versions), Exporter(versions=versions)
    kernel.launch(0, 64, x, y, *RIGHT)
    kernel.launch(7, 64, x, y, *RIGHT)
    assert x.streams == [1, 7]  # DLPack's name for the default stream is 1
    assert argument(driver.launches[0], 0) == 8192 + 256
    for wrong, text in ((Exporter(dlpack.BFLOAT, 16, versions), "found bfloat16"),
                        (Exporter(dlpack.FLOAT8_E5M2, 8, versions), "found float8_e5m2"),
                        (Exporter(5, 64, versions), "elements of DLPack type 5 with 64 bits")):
        with pytest.raises(TypeError, match=text):
            kernel.launch(0, 64, wrong, y, *RIGHT)


def test_bounds() -> None:
    row = {"name": "n", "type": "unsigned int", "at_least": 1, "at_most": 9}
    parameter = Parameter.read(row)
    assert parameter.number(9) == 9
    for wrong, text in ((0, "0 is less than 1"), (10, "10 is more than 9"),
                        (2**32 - 1, "is less than 1")):
        with pytest.raises(ValueError, match=text):
            parameter.number(wrong)


def test_empty_arrays(kernel: tritonc.Kernel, driver: FakeDriver) -> None:
    """Where the kernel would look at nothing, they are as good as others."""
    kernel = fresh(kernel)
    for _ in range(2):
        kernel.launch(0, 64, FakeTensor(0), FakeTensor(0), 0, *RIGHT[1:])
        kernel.launch(0, 64, FakeTensor(0), FakeTensor(0), -8, *RIGHT[1:])
    assert len(driver.launches) == 4
    kernel.launch(0, 0, FakeTensor(0), FakeTensor(0), *RIGHT)
    assert len(driver.launches) == 4


def test_tables(driver: FakeDriver) -> None:
    module = tritonc.compile_module("""
__constant__ float* w = alloc_const float[2];
kernel void f(float* y) { int r[2] = get_global_range(0); *(y + r) = *(w + r); }""", "sm_80")
    with pytest.raises(ValueError, match="2 elements of type float, 8 bytes, found 4"):
        module.fill_table("w", np.zeros(1, np.float32))
    with pytest.raises(KeyError, match="no constant table 'v'; it has w"):
        module.fill_table("v", b"")
    first, second = np.array([[1, 2], [3, 4]], np.float32)
    module.fill_table("w", first)
    assert not driver.filled
    module["f"].launch(0, 2, FakeTensor())
    module.fill_table("w", second)
    assert driver.filled == [("w", first.tobytes()), ("w", second.tobytes())]
