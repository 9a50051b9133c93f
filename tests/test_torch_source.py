"""--emit=torch: roles of parameters; the source built with torch, run with and without a GPU."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import tritonc
from host_tools import HOST, INCLUDE, ROOT, environment, need, run, stub

_DEFINED = re.compile(r'library\.def\("(.*)", ')
KERNEL = """\
kernel void f(%s) {
  int r[64] = get_global_range(0);
  @(r < N) *(y + r) = *(x + r);
}
"""
COPY = KERNEL % "const float* x, float* y, int N"


def schemas(text: str, *arguments: str) -> list[str]:
    done = tritonc("-", "--emit=torch", "-o", "-", *arguments, stdin=text.encode())
    assert done.code == 0, done.err
    return _DEFINED.findall(done.out)


def stated(*lines: str, kernel: str = COPY) -> str:
    return "".join(f"//! {line}\n" for line in (*lines, "expect: y = x")) + kernel


# --- what the operator computes, and what it takes ---


@pytest.mark.parametrize("lines, wanted", [
    (("size: N = 8", "range: N", "arg: x = randn(N)", "arg: y = empty(N)", "arg: N = N"),
     "f(Tensor x) -> Tensor"),
    # an array that holds something is changed in place
    (("size: N = 8", "range: N", "arg: x = randn(N)", "arg: y = randn(N)", "arg: N = N"),
     "f(Tensor x, Tensor(a1!) y) -> ()"),
    # multiples, sizes that follow from sizes, and others that no shape says
    (("size: A = 4, N = 2 * A", "range: N", "arg: x = randn(A * 3)", "arg: y = zeros(N)",
      "arg: N = N"), "f(Tensor x) -> Tensor"),
    (("size: N = 8, B = 2", "range: N", "arg: x = np.arange(8)", "arg: y = zeros((B, N // B))",
      "arg: N = N"), "f(Tensor x, SymInt N, SymInt B) -> Tensor"),
    # only made arrays: nothing says where
    (("size: N = 8", "range: N", "arg: x = zeros(N)", "arg: y = zeros(N)", "arg: N = N",
      "clobber: x"), "f(Tensor x, Tensor(a1!) y) -> ()"),
], ids=["made", "changed", "derived", "given", "nowhere"])
def test_roles(lines: tuple[str, ...], wanted: str) -> None:
    assert schemas(stated(*lines)) == [wanted]


def test_scratch_memory() -> None:
    """Its extent is rounded up: `-(-N // 128)` blocks."""
    assert schemas((HOST / "operators.tc").read_text())[1] == (
        "step(Tensor(a0!) y, Tensor x, bool flag, SymInt shift, float half_scale) -> Tensor")


def test_without_a_problem() -> None:
    assert schemas(COPY) == ["f(Tensor x, Tensor(a1!) y, SymInt N, SymInt range0) -> ()"]


def test_names() -> None:
    """Names that Python's grammar has, several kernels of which one does nothing, a prefix."""
    text = (KERNEL.replace("(x ", "(in ") % "const float* in, float* y, int in_, int N"
            + "kernel void nothing(int n) { }\n")
    assert schemas(text) == [
        "f(Tensor in__, Tensor(a1!) y, SymInt in_, SymInt N, SymInt range0) -> ()"]
    done = tritonc("-", "--emit=torch", "-o", "-", "--prefix=my-lib", stdin=COPY.encode())
    assert "TORCH_LIBRARY_FRAGMENT(my_lib, library)" in done.out


def test_macros_are_those_of_the_command_line() -> None:
    text = stated("define: T = 4", "size: N = 8", "range: N // T", "arg: x = randn(N)",
                  "arg: y = empty(N)", "arg: N = N")
    for flags, wanted in (((), 4), (("-DT=2",), 2)):
        done = tritonc("-", "--emit=torch", "-o", "-", *flags, stdin=text.encode())
        assert f"f_launch(tritonc_floor(v_N, Int({wanted})), stream" in done.out


@pytest.mark.parametrize("line, message", [
    ("range: 2 ** N", "an operator of torch computes sizes with + - * // % << >>"),
    ("range: P", "'P' is neither a size nor a number that the operator knows"),
    ("range: N +", "not an expression"),
])
def test_mistakes(line: str, message: str) -> None:
    text = stated("size: N = 8", line, "arg: x = randn(N)", "arg: y = empty(N)", "arg: N = N")
    done = tritonc("-", "--emit=torch", "-o", "-", stdin=text.encode())
    assert done.code == 1 and message in done.err and "<stdin>:2:" in done.err and not done.out


def test_arguments_that_are_not_the_kernels() -> None:
    text = stated("size: N = 8", "range: N", "arg: y = empty(N)", "arg: x = randn(N)")
    done = tritonc("-", "--emit=torch", "-o", "-", stdin=text.encode())
    assert done.code == 1 and "are not the parameters of kernel 'f'" in done.err
    text = stated("size: N = 8", "range: N", "arg: x = randn(N)", "arg: y = empty(N)", "arg: N = N",
                  kernel=COPY.replace("range(0)", "range(1)"))
    done = tritonc("-", "--emit=torch", "-o", "-", stdin=text.encode())
    assert done.code == 1 and "kernel 'f' divides 2 axes, but the range states 1" in done.err


def test_what_no_operator_can_do() -> None:
    table = ("__constant__ float* table = alloc_const float[4];\n"
             + COPY.replace("*(x + r)", "*(x + r) + *(table + r % 4)"))
    done = tritonc("-", "--emit=torch", "-o", "-", stdin=table.encode())
    assert done.code == 1 and "the host fills the constant table 'table'" in done.err
    text = stated("size: N = 8", "range: N", "arg: x = randn(N)", "arg: y = empty(N)", "arg: N = N",
                  kernel=COPY.replace("int N", "float N"))
    done = tritonc("-", "--emit=torch", "-o", "-", stdin=text.encode())
    assert done.code == 1 and "'N' is a size too, and the parameter is of type float" in done.err


# --- built with torch, on any machine ---


def build(torch: Any, folder: Path, source: Path, name: str, *flags: str,
          on_cpu: bool = False) -> Path:
    """The library of a source's operators.  `on_cpu`: they take tensors of the CPU."""
    need("g++")
    from torch.utils.cpp_extension import include_paths, library_paths

    done = tritonc(str(source), "--emit=torch", "-o", str(folder / f"{name}.cpp"), *flags)
    assert done.code == 0, done.err
    if on_cpu:
        text = (folder / f"{name}.cpp").read_text()
        assert ", CUDA, library" in text and "getStream(device).native_handle()" in text
        (folder / f"{name}.cpp").write_text(
            text.replace(", CUDA, library", ", CPU, library").replace(
                "guard.getStream(device).native_handle()", "(void *)guard.getStream(device).id()"))
    cuda = torch.version.cuda is not None
    libraries = ["-ltorch_cpu", "-lc10", *["-lc10_cuda"] * cuda]
    run("g++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
        *(word for path in (*include_paths("cuda" if cuda else "cpu"), INCLUDE)
          for word in ("-isystem", path)),
        f"{name}.cpp", "-o", f"lib{name}.so", *(f"-L{path}" for path in library_paths()),
        *libraries, cwd=folder)
    return folder / f"lib{name}.so"


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def operators(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("operators")
    torch.ops.load_library(str(build(torch, folder, HOST / "operators.tc", "operators")))
    return torch.ops.operators


def test_fake_tensors(torch: Any, operators: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    def bytes_of(*shape: int) -> Any:
        return torch.empty(*shape, device="cuda", dtype=torch.uint8)

    with FakeTensorMode():
        a, b = torch.empty(5, 8, device="cuda"), bytes_of(4, 9)
        c = operators.product(a, b, 2.0)
        assert (c.shape, c.dtype, str(c.device)) == ((5, 9), torch.float32, "cuda:0")
        y, x = torch.empty(300, device="cuda"), torch.empty(600, device="cuda")
        count = operators.step(y, x, True, 3, 0.1)
        assert (count.shape, count.dtype) == ((1,), torch.int32)
        for wrong in ((a, bytes_of(3, 9)), (y, b), (a, a), (bytes_of(5, 8), b)):
            with pytest.raises((RuntimeError, TypeError), match=r"needs|wrong size"):
                operators.product(*wrong, 2.0)


def test_exported_with_unknown_sizes(torch: Any, operators: Any) -> None:
    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, a: Any, b: Any) -> Any:
            return operators.product(a * 2, b, 1.0).relu()

    m, k, n = (torch.export.Dim(name, min=2) for name in "mkn")
    arguments = (torch.empty(6, 8, device="meta"),
                 torch.empty(4, 9, device="meta", dtype=torch.uint8))
    program = torch.export.export(Module(), arguments, dynamic_shapes=({0: m, 1: 2 * k},
                                                                       {0: k, 1: n}))
    found = program.module()(torch.empty(10, 12, device="meta"),
                             torch.empty(6, 7, device="meta", dtype=torch.uint8))
    assert found.shape == (10, 7)


def test_traced(torch: Any, operators: Any) -> None:
    """torch.compile's front end: one graph for all sizes, with the mutation in it."""
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")

    @torch.compile(fullgraph=True, dynamic=True, backend=counter)
    def f(y: Any, x: Any) -> Any:
        y = y + 1
        count = operators.step(y, x, True, 3, 0.5)
        return y * count

    for n in (10, 77):
        assert f(torch.empty(n, device="meta"), torch.empty(2 * n, device="meta")).shape == (n,)
    assert counter.frame_count == 1


ON_STUB = """
import ctypes, sys, threading
import torch
class Notes(ctypes.Structure):
    _fields_ = [("loads", ctypes.c_int), ("unloads", ctypes.c_int), ("launches", ctypes.c_int),
                ("name", ctypes.c_char * 64), ("grid", ctypes.c_uint * 3),
                ("threads", ctypes.c_uint), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("count", ctypes.c_uint),
                ("arguments", ctypes.c_void_p * 16), ("last", ctypes.c_int)]
driver = ctypes.CDLL("libcuda.so.1")
driver.cuInit(0)
notes = Notes.in_dll(driver, "stub")
torch.ops.load_library("liboperators.so")
operators = torch.ops.operators
def launched(count, call, *arguments):
    notes.count = count
    before = notes.launches
    result = call(*arguments)
    print(notes.launches - before, notes.name.decode(), notes.grid[0], notes.grid[1], notes.last)
    return result
a, b = torch.randn(40, 64), torch.zeros(32, 50, dtype=torch.uint8)
c = launched(7, operators.product, a, b, 0.5)
print(tuple(c.shape), c.is_contiguous())
launched(7, operators.product, a.t().contiguous().t(), b, 0.5)
count = launched(8, operators.step, torch.zeros(1000), torch.zeros(2000), True, 3, 0.1)
print(count)
launched(3, operators.plain, torch.zeros(8).half(), torch.zeros(8), 8, 8)
launched(3, operators.plain, torch.zeros(0).half(), torch.zeros(0), 0, 0)
thread = threading.Thread(target=launched, args=(7, operators.product, a, b, 0.5))
thread.start()
thread.join()
for call, arguments in ((operators.product, (a, b[1:], 0.5)), (operators.product, (a, b.int(), 1)),
                        (operators.step, (torch.zeros(4, 4).t()[0], torch.zeros(8), True, 0, 1.0)),
                        (operators.step, (torch.zeros(4), torch.zeros(8), True, 99999, 1.0)),
                        (operators.plain, (torch.zeros(8).half(), torch.zeros(8), 7, 8)),
                        (operators.plain, (torch.zeros(8).half(), torch.zeros(8), 8, -1))):
    before = notes.launches
    try:
        call(*arguments)
    except (RuntimeError, TypeError) as error:
        print(type(error).__name__, str(error).splitlines()[0], notes.launches - before)
torch.library.opcheck(operators.product.default, (a, b, 0.5), test_utils=(
    "test_schema", "test_faketensor"))
torch.library.opcheck(operators.step.default, (torch.zeros(8), torch.zeros(16), True, 3, 0.5))
"""


def test_on_the_stub(torch: Any, tmp_path: Path) -> None:
    """The launches themselves, on tensors of the CPU and a driver that runs nothing."""
    if torch.version.cuda is not None:
        pytest.skip("needs torch without CUDA")
    need("gcc", "g++")
    build(torch, tmp_path, HOST / "operators.tc", "operators", on_cpu=True)
    stub(tmp_path)
    done = subprocess.run([sys.executable, "-c", ON_STUB], cwd=tmp_path, text=True, timeout=120,
                          env=environment(LD_LIBRARY_PATH=str(tmp_path)), capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "1 product 2 2 1056964608", "(40, 50) True", "1 product 2 2 1056964608",
        "1 step 8 1 1000", "tensor([0], dtype=torch.int32)", "1 plain 1 1 8", "0 plain 1 1 8",
        "1 product 2 2 1056964608",
        "RuntimeError b has size 31 along dimension 0, where 32 is needed 0",
        "TypeError b needs elements of type Byte, found Int 0",
        "RuntimeError y is changed in place, so it has to be contiguous 0",
        "RuntimeError shift = 99999 is out of range 0",
        "RuntimeError kernel plain: n is not a multiple of 4 (CUresult 1) 0",
        "RuntimeError kernel plain: an extent of the range is negative (CUresult 1) 0"]


# --- on a GPU ---


@pytest.mark.gpu
def test_results(torch: Any, operators: Any) -> None:
    a = torch.randn(100, 64, device="cuda")
    b = torch.randint(0, 256, (32, 70), device="cuda", dtype=torch.uint8)
    want = 0.5 * a.double() @ b.double().repeat_interleave(2, 0)
    torch.testing.assert_close(operators.product(a, b, 0.5).double(), want, rtol=1e-4, atol=1e-2)
    y, x = torch.randn(5000, device="cuda"), torch.randn(10000, device="cuda")
    want = y + 0.5 * x[::2] + 3
    assert operators.step(y, x, True, 3, 0.5).item() == 5000
    torch.testing.assert_close(y, want)
    half = torch.randn(64, device="cuda").half()
    out = torch.zeros(64, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        operators.plain(half, out, 64, 64)
        assert torch.equal(out, half.float())
    compiled = torch.compile(lambda a, b: operators.product(a * 2, b, 0.5) + 1, fullgraph=True)
    want = a.double() @ b.double().repeat_interleave(2, 0) + 1
    torch.testing.assert_close(compiled(a, b).double(), want, rtol=1e-4, atol=2e-2)
    torch.library.opcheck(operators.product.default, (a, b, 0.5), test_utils=(
        "test_schema", "test_faketensor", "test_aot_dispatch_dynamic"))


PACKAGE = """
import sys
import torch
torch.ops.load_library("libmatmul.so")
class Module(torch.nn.Module):
    def forward(self, a, b):
        return torch.ops.matmul.matmul(a, b) * 2
m, k, n = (torch.export.Dim(name, min=2, max=4096) for name in "mkn")
a, b = torch.randn(64, 32, device="cuda"), torch.randn(32, 48, device="cuda")
program = torch.export.export(Module(), (a, b), dynamic_shapes=({0: m, 1: k}, {0: k, 1: n}))
torch._inductor.aoti_compile_and_package(program, package_path="model.pt2")
"""


@pytest.mark.gpu
def test_a_program_without_python(torch: Any, tmp_path: Path) -> None:
    """AOTInductor's package and the operator, in a program in C++."""
    need("g++")
    from torch.utils.cpp_extension import include_paths, library_paths

    build(torch, tmp_path, ROOT / "samples" / "matmul.tc", "matmul", "--arch=native", "--variants")
    run(sys.executable, "-c", PACKAGE, cwd=tmp_path)
    folders = library_paths("cuda")
    run("g++", "-std=c++20", "-O1",
        *(word for path in (*include_paths("cuda"), INCLUDE) for word in ("-isystem", path)),
        HOST / "package.cpp", "-o", "program", "-Wl,--no-as-needed", *(f"-L{f}" for f in folders),
        "-ltorch", "-ltorch_cpu", "-ltorch_cuda", "-lc10", "-lc10_cuda",
        *(f"-Wl,-rpath,{f}" for f in folders), "-ldl", cwd=tmp_path)
    assert run("./program", cwd=tmp_path).endswith("ok\n")
