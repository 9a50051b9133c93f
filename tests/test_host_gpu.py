"""Host programs on a GPU: the examples, and a program that uses a header in every way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import tritonc
from host_tools import HOST, INCLUDE, ROOT, TRITONC, build, driver, need, run, write_program

pytestmark = pytest.mark.gpu
EXAMPLES = ROOT / "examples" / "cpp"


def kernel(folder: Path, source: Path, *arguments: str) -> None:
    done = tritonc(str(source), *arguments)
    assert done.code == 0, done.err


def test_a_header_in_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("gcc", "g++", "ptxas", "fatbinary")
    monkeypatch.chdir(tmp_path)
    add = ROOT / "samples" / "vector_add.tc"
    shutil.copy(ROOT / "tests" / "run" / "constant_table.tc", "table.tc")
    kernel(tmp_path, add, "--emit=header", "--embed", "-o", "add.h")
    for kind in ("cubin", "fatbin"):
        kernel(tmp_path, add, "--emit=header", f"--embed={kind}", f"--prefix={kind}",
               "--arch=native", "-o", f"{kind}.h")
    kernel(tmp_path, HOST / "other.tc", "--arch=native", "--emit=header", "--embed", "-o",
           "other.h")
    kernel(tmp_path, Path("table.tc"), "--header", "table.h")
    Path("broken.ptx").write_text(Path("table.ptx").read_text().replace("ret;", "return;"))
    for flag, link in ((), [driver()]), (("-DTRITONC_DLOPEN",), ["-ldl", driver()]):
        build(tmp_path, "gpu", *flag, HOST / "gpu.cpp", *link, "-pthread", compiler="g++")
        said = run("./gpu", "broken.ptx", cwd=tmp_path)
        print(said)
        assert said.endswith("ok\n")


def test_make(tmp_path: Path) -> None:
    need("gcc", "make")
    folder = shutil.copytree(EXAMPLES / "make", tmp_path / "make")
    said = run("make", "run", f"TRITONC={TRITONC}", f"CUDA_INCLUDE={INCLUDE}",
               f"LIBCUDA={driver()}", "ARCH=native", cwd=folder)
    assert " 0 wrong" in said, said


def test_nvcc(tmp_path: Path) -> None:
    need("nvcc", "make")
    folder = shutil.copytree(EXAMPLES / "nvcc", tmp_path / "nvcc")
    library = Path(driver())
    (tmp_path / "libcuda.so").symlink_to(library)
    said = run("make", "run", f"TRITONC={TRITONC}", f"LIBCUDA=-L{tmp_path} -lcuda", cwd=folder)
    assert " 0 wrong" in said, said


def test_cmake(tmp_path: Path) -> None:
    need("g++", "cmake")
    folder = shutil.copytree(EXAMPLES / "cmake", tmp_path / "cmake")
    program = write_program(tmp_path)
    run("cmake", "-B", "build", f"-DTritonc_DIR={ROOT / 'tritonc' / 'cmake'}",
        f"-DTritonc_EXECUTABLE={program}", f"-DTritonc_CUDA_INCLUDE={INCLUDE}",
        f"-DTritonc_CUDA_DRIVER={driver()}", "-DARCH=native", cwd=folder)
    run("cmake", "--build", "build", cwd=folder)
    said = run("build/matmul", cwd=folder)
    assert " 0 wrong" in said and "a is not aligned to 16 bytes" in said, said
