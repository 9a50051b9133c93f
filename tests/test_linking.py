"""Headers of several sources, and one header in several files, languages and libraries."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import tritonc
from host_tools import HOST, INCLUDE, build, need, run, stub


@pytest.fixture(autouse=True)
def _in_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def header(name: str, text: str, *arguments: str) -> None:
    Path(f"{name}.tc").write_text(text)
    done = tritonc(f"{name}.tc", "--emit=header", "--embed", "-o", f"{name}.h", *arguments)
    assert done.code == 0, done.err


LAUNCH = """\
#include "one.h"
#ifdef __cplusplus
extern "C"
#endif
CUresult launch_%(name)s(void);
CUresult launch_%(name)s(void) { return f_launch(1, NULL, (float *)64, 1); }
"""
MAIN = """\
#include "stub.h"
#include <stdio.h>
%(declared)s
int main(void) {
  CUcontext context;
  int wrong = 0;
  cuInit(0);
  stub_context(&context);
  cuCtxSetCurrent(context);
  stub.count = 2;
%(calls)s
  printf("%%d wrong, %%d loads, %%d launches\\n", wrong, stub.loads, stub.launches);
  return 0;
}
"""
KERNEL = "const tunable int T = {64, 256};\nkernel void f(float* x, int n) {\n" \
         "  int r[T] = get_global_range(0);\n  @(r < n) *(x + r) = V;\n}\n"


def main_of(*names: str) -> str:
    return MAIN % {
        "declared": "\n".join(f"CUresult launch_{name}(void);" for name in names),
        "calls": "\n".join(f"  wrong += launch_{name}() != CUDA_SUCCESS;" for name in names)}


@pytest.mark.parametrize("variants", [(), ("--tune=T=64", "--variant=T=256,n>=256")],
                         ids=["plain", "variants"])
def test_standards_share_one_load(variants: tuple[str, ...], tmp_path: Path) -> None:
    """C99, C11, C++11 with weak symbols, C++17 and C++20 with inline variables."""
    need("gcc", "g++")
    header("one", KERNEL, "-DV=1", *variants)
    library = stub(tmp_path)
    objects, names = [], []
    for standard in ("c99", "c11", "c++11", "c++17", "c++20"):
        name = standard.replace("+", "p")
        plus = "++" in standard
        Path(f"{name}.{'cpp' if plus else 'c'}").write_text(LAUNCH % {"name": name})
        build(tmp_path, f"{name}.o", "-c", f"{name}.{'cpp' if plus else 'c'}", f"-std={standard}",
              compiler="g++" if plus else "gcc")
        objects.append(f"{name}.o")
        names.append(name)
    for order in (objects, objects[::-1]):
        Path("main.c").write_text(main_of(*names))
        build(tmp_path, "main.o", "-c", "main.c")
        run("g++", "main.o", *order, library, "-o", "main", cwd=tmp_path)
        said = run("./main", cwd=tmp_path, LD_LIBRARY_PATH=".")
        assert said == "0 wrong, 1 loads, 5 launches\n"


def test_threads_with_inline_variables(tmp_path: Path) -> None:
    need("gcc", "g++")
    done = tritonc(str(HOST / "other.tc"), "--arch=sm_90a", "--emit=header", "--embed", "-o",
                   "other.h")
    assert done.code == 0, done.err
    library = stub(tmp_path)
    build(tmp_path, "another.o", "-c", HOST / "another.c")
    build(tmp_path, "threads", HOST / "threads.cpp", "-std=c++17", "another.o", library,
          "-pthread", compiler="g++")
    said = run("./threads", cwd=tmp_path, LD_LIBRARY_PATH=".")
    assert said == "0 wrong, 3 loads, 2400 launches\n"


@pytest.mark.parametrize("standard", ["c++11", "c++17"])
def test_libraries_have_their_own(standard: str, tmp_path: Path) -> None:
    """A shared library and a program with the same header, or with headers of the same names for
    other texts, load each for itself: what is hidden stays so."""
    need("g++")
    library = stub(tmp_path)
    for value, name in ((1, "a"), (2, "b"), (1, "c")):
        header("one", KERNEL, f"-DV={value}")
        Path(f"{name}.cpp").write_text(LAUNCH % {"name": name})
        shared = ["-shared", "-fPIC"] if name != "c" else ["-c"]
        output = f"lib{name}.so" if name != "c" else "c.o"
        build(tmp_path, output, f"{name}.cpp", f"-std={standard}", *shared, compiler="g++")
    Path("main.c").write_text(main_of("a", "b", "c", "a", "b", "c").replace(
        "CUresult launch_a(void);\nCUresult launch_b(void);\nCUresult launch_c(void);\n", "", 1))
    build(tmp_path, "main.o", "-c", "main.c")
    run("g++", "main.o", "c.o", "./liba.so", "./libb.so", library, "-o", "main", cwd=tmp_path)
    said = run("./main", cwd=tmp_path, LD_LIBRARY_PATH=".")
    assert said == "0 wrong, 3 loads, 6 launches\n"


@pytest.mark.parametrize("standard", ["c99", "c++11", "c++17"])
def test_two_sources_of_the_same_names(standard: str, tmp_path: Path) -> None:
    """In one file: prefixes tell them apart."""
    need("g++", "gcc")
    for folder, value in (("p", 1), ("q", 2)):
        Path(folder).mkdir()
        header(f"{folder}/k", KERNEL, f"-DV={value}", f"--prefix={folder}")
    Path("a.c").write_text("""\
#include "p/k.h"
#include "q/k.h"
CUresult both(void);
CUresult both(void) {
  CUresult code = p_f_launch(1, NULL, (float *)64, 1);
  return code != CUDA_SUCCESS ? code : q_f_launch(1, NULL, (float *)64, 1);
}
""")
    language = ["-x", "c++"] if "++" in standard else []
    build(tmp_path, "a.o", "-c", *language, "a.c", f"-std={standard}", "-Wconversion",
          compiler="g++" if language else "gcc")


def test_many_kernels_in_one_image(tmp_path: Path) -> None:
    """Sources that another includes, with variants: one image, one load, every entry found."""
    need("gcc")
    names = [f"k{i}" for i in range(24)]
    for name in names:
        Path(f"{name}.tc").write_text(f"kernel void {name}(float* x, int n) {{\n"
                                      "  int r[T] = get_global_range(0);\n"
                                      f"  @(r < n) *(x + r) = {name[1:]};\n}}\n")
    text = "const tunable int T = {64, 256};\n" + "".join(
        f'#include "{name}.tc"\n' for name in names)
    header("all", text, "--tune=T=64", "--variant=k7:T=256,n>=256", "--variant=k8:T=256,n>=256")
    calls = "".join(
        f"  wrong += {name}_launch({count}, NULL, (float *)64, {count}) != CUDA_SUCCESS\n"
        f'      || strcmp(stub.name, "{name}{suffix}") != 0;\n'
        for name in names for count in (100, 1000)
        for suffix in ["__v1" if name in ("k7", "k8") and count == 1000 else ""])
    Path("main.c").write_text('#include "all.h"\n' + MAIN % {"declared": "", "calls": calls})
    build(tmp_path, "main", "main.c", stub(tmp_path))
    said = run("./main", cwd=tmp_path, LD_LIBRARY_PATH=".")
    assert said == "0 wrong, 1 loads, 48 launches\n"


def test_kernels_whose_functions_would_have_one_name(tmp_path: Path) -> None:
    """`f_launch_variant` launches a variant of `f`, and chooses one of `f_launch`."""
    need("gcc", "g++")
    text = KERNEL + KERNEL.split("\n", 1)[1].replace(" f(", " f_launch(")
    header("one", text, "-DV=1", "--tune=T=64", "--variant=T=256,n>=256")
    Path("a.c").write_text("""\
#include "one.h"
int main(void) {
  return (int)f_launch_variant(1, 1, NULL, (float *)64, 256)
         + (int)f_launch__variant(1, (float *)64, 256)
         + f_launch__launch(1, NULL, (float *)64, 256) + f_launch(1, NULL, (float *)64, 1);
}
""")
    for compiler, language in (("gcc", []), ("g++", ["-x", "c++"])):
        run(compiler, "-Wall", "-Werror", "-isystem", INCLUDE, *language, "-c", "a.c", "-o", "a.o",
            cwd=tmp_path)


def test_microsofts_compiler(tmp_path: Path) -> None:
    """What MSVC compiles, by clang for Windows, as itself and as cl: builtins, shared symbols,
    lengths of strings."""
    clang = next(filter(shutil.which, ("clang", "clang-14", "clang-19")), "clang")
    need(clang)
    lines = "".join(f'  printf("%d %d", {n}, r);\n' for n in range(1500))
    header("long", f"kernel void g(float* x, int r) {{\n{lines}}}\n", "--device-assert")
    assert max(map(len, Path("long.h").read_text().split('"},'))) > 60000  # several parts
    header("one", KERNEL, "-DV=1", "--tune=T=64", "--variant=T=256,n>=256")
    Path("one.c").write_text('#include "long.h"\n' + LAUNCH % {"name": "one"})
    for number, language in enumerate(("c -std=c11", "c++ -std=c++14", "c++ -std=c++17")):
        for more in ((), ("-DTRITONC_DLOPEN",), ("-U__clang__",),
                     ("-DTRITONC_DLOPEN", "-U__clang__")):
            run(clang, "-x", *language.split(), *more, "-target", "x86_64-pc-windows-msvc",
                "-fms-compatibility", "-fms-extensions", "-fms-compatibility-version=19.40",
                "-Wall", "-Wextra", "-Werror", "-Wno-overlength-strings", "-nostdlibinc",
                "-ffreestanding", "-isystem", HOST / "msvc", "-isystem", INCLUDE, "-c", "one.c",
                "-o", f"{number}.obj", cwd=tmp_path)
