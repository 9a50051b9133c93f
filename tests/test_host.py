"""The host side without a GPU: headers compiled and run on a stub of the driver, examples built."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from command import tritonc
from host_tools import HOST, INCLUDE, ROOT, TRITONC, build, need, run, stub, write_program

from tritonc import stages
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune.tuning_file import Entry, beside, render, source_hash

EXAMPLES = ROOT / "examples" / "cpp"


@pytest.fixture(autouse=True)
def _in_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compiled(source: Path, *arguments: str) -> None:
    done = tritonc(str(source), *arguments)
    assert done.code == 0, done.err


@cache
def header(source: Path, *arguments: str) -> str:
    done = tritonc(str(source), "--emit=header", *arguments, "-o", "-")
    assert done.code == 0, done.err
    return done.out


def write_other_header() -> None:
    """other.h, of a kernel with much shared memory, with its PTX."""
    Path("other.h").write_text(header(HOST / "other.tc", "--arch=sm_90a", "--embed"))


# --- headers ---


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang", "clang++"])
def test_headers_compile_without_a_warning(compiler: str, tmp_path: Path) -> None:
    """Several in one file, with kernels of every type and names that C++ reserves."""
    need(compiler)
    Path("kernels.h").write_text(header(HOST / "kernels.tc"))
    Path("again.h").write_text(header(HOST / "kernels.tc", "--embed", "--prefix=again-"))
    Path("types.h").write_text(header(ROOT / "tests" / "run" / "language" / "types.tc"))
    lines = [f'#include "{name}.h"\n' for name in ("kernels", "again", "types", "kernels")]
    Path("a.c").write_text("".join(lines) + "int main(void) { return again__f_tile0 - 48; }\n")
    language = ["-x", "c++"] if "++" in compiler else []
    for flag in ("-DTRITONC_HALF=short", "-DTRITONC_DLOPEN"):
        standard = "-std=c++11" if language else "-std=c99"
        run(compiler, standard, *"-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror".split(),
            flag, "-isystem", INCLUDE, *language, "-c", "a.c", "-o", "a.o", cwd=tmp_path)


def test_launching_logic(tmp_path: Path) -> None:
    """Grids, error codes, one load per context, tables: tests/host/logic.c."""
    need("gcc")
    compiled(HOST / "kernels.tc", "--header", "kernels.h", "-o", "kernels.ptx")
    write_other_header()
    library = stub(tmp_path)
    build(tmp_path, "logic", HOST / "logic.c", library)
    assert run("./logic", "kernels.ptx", cwd=tmp_path, LD_LIBRARY_PATH=".") == "ok\n"


def test_threads_and_files_share_one_load(tmp_path: Path) -> None:
    """Three contexts, twelve threads, a file in C and one in C++: three loads."""
    need("gcc", "g++")
    write_other_header()
    library = stub(tmp_path)
    build(tmp_path, "another.o", "-c", HOST / "another.c")
    build(tmp_path, "threads", HOST / "threads.cpp", "another.o", library, "-pthread",
          compiler="g++")
    said = run("./threads", cwd=tmp_path, LD_LIBRARY_PATH=".")
    assert said == "0 wrong, 3 loads, 2400 launches\n"
    assert run("./threads", "many", cwd=tmp_path, LD_LIBRARY_PATH=".").startswith("0 wrong")


def test_the_driver_is_opened_when_first_needed(tmp_path: Path) -> None:
    """With TRITONC_DLOPEN the program needs no driver to link or to start."""
    need("gcc")
    write_other_header()
    Path("late.c").write_text("""
#define TRITONC_DLOPEN
#include "other.h"
int main(void) {
  uint16_t *h = (uint16_t *)64;
  return other_launch(0, 1, NULL, h, h, h, 64) * 1000 + other_launch(1, 1, NULL, h, h, h, 64);
}
""")
    build(tmp_path, "late", "late.c", "-ldl")
    needed = run("readelf", "-d", "late", cwd=tmp_path)
    assert "NEEDED" in needed and "libcuda" not in needed
    environment = {**os.environ, "LD_LIBRARY_PATH": "."}
    codes = []
    for _ in range(2):
        codes.append(subprocess.run(["./late"], env=environment).returncode)
        stub(tmp_path)
    assert codes[1] == 3  # CUDA_ERROR_NOT_INITIALIZED: the stub was asked, and cuInit not called
    # CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, 303, or what a driver that is installed here says
    assert codes[0] in (303 % 256, 3, 201)


CHECKED = """
#define TRITONC_CHECK_POINTERS
#include "kernels.h"
#include "stub.h"
int main(void) {
  const char *reason = "";
  int *device = (int *)64, *host = (int *)0xbad000;
  if (optional_check(1, device, NULL, 1, NULL) != CUDA_ERROR_NOT_INITIALIZED)
    return 1;
  cuInit(0);
  if (optional_check(1, device, NULL, 1, NULL) || optional_check(0, host, host, 1, NULL))
    return 2;
  stub.asked = 0;
  if (optional_launch(1, NULL, host, device, 1) != CUDA_ERROR_INVALID_VALUE || stub.asked != 1)
    return 3;
  if (optional_check(1, device, host, 1, &reason) != CUDA_ERROR_INVALID_VALUE)
    return 4;
  return puts(reason) < 0;
}
"""


def test_pointers_are_checked_if_asked_for(tmp_path: Path) -> None:
    """An array of the CPU is found out before the launch."""
    need("gcc", "g++")
    compiled(HOST / "kernels.tc", "--header", "kernels.h", "-o", "kernels.ptx")
    library = stub(tmp_path)
    Path("checked.c").write_text(CHECKED)
    for compiler, language in (("gcc", []), ("g++", ["-x", "c++"])):
        build(tmp_path, "checked", *language, "checked.c", "-x", "none", library,
              compiler=compiler)
        assert run("./checked", cwd=tmp_path, LD_LIBRARY_PATH=".") == (
            "bias is in no memory that the GPU reaches\n")


def test_module_and_kernel_names() -> None:
    Path("my-kernels.v2.tc").write_text("kernel void f(int* y) { *y = 1; }\n")
    compiled(Path("my-kernels.v2.tc"), "--header", "x.h", "--embed")
    text = Path("x.h").read_text()
    assert "my_kernels_v2_load(char *log" in text and " f_launch(CUstream stream, int *y)" in text
    assert Path("my-kernels.v2.ptx").exists()
    compiled(Path("my-kernels.v2.tc"), "--emit=header", "--prefix=p", "-o", "x.h")
    text = Path("x.h").read_text()
    assert "p_load_file(" in text and " p_f_launch(" in text and "p_load(char" not in text


def test_modules_of_one_name_do_not_share_state() -> None:
    Path("k.tc").write_text("kernel void f(int* y) { *y = V; }\n")
    tags = []
    for value in (1, 2, 1):
        done = tritonc("k.tc", f"-DV={value}", "--emit=header", "--embed", "-o", "-")
        (first,) = [line for line in done.out.split("\n") if line.startswith("#ifndef tritonc_k")]
        tags.append(first)
    assert tags[0] == tags[2] != tags[1]


# --- machine code ---


def test_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    need("ptxas", "fatbinary")
    Path("k.tc").write_text("kernel void f(int* y) { *y = 1; }\n")
    compiled(Path("k.tc"), "--emit=ptx,cubin,fatbin,header", "--embed=cubin")
    cubin, fatbin = Path("k.cubin").read_bytes(), Path("k.fatbin").read_bytes()
    assert cubin[:4] == b"\x7fELF" and len(fatbin) > len(cubin) // 4
    assert '"\\177ELF' in Path("k.h").read_text()
    compiled(Path("k.tc"), "-o", "again.cubin", f"--ptxas={shutil.which('ptxas')}")
    assert Path("again.cubin").read_bytes() == cubin


def test_machine_code_for_several_targets() -> None:
    need("ptxas", "fatbinary")
    Path("k.tc").write_text("kernel void f(int* y) { *y = 1; }\n")
    compiled(Path("k.tc"), "--arch=sm_80,sm_90a", "-o", "k.fatbin", "--header=k.h",
             "--embed=fatbin")
    fatbin = Path("k.fatbin").read_bytes()
    assert fatbin.count(b"\x7fELF") == 2 and fatbin.count(b".target sm_") in (0, 2)
    matmul = str(ROOT / "samples" / "matmul.tc")
    Path("h.tc").write_text(Path(matmul).read_text().replace("float*", "half*").replace(
        "float A", "half A").replace("float B", "half B"))
    done = tritonc("h.tc", "--arch=sm_80,sm_90a", "-o", "k.fatbin")
    assert done.code == 1 and "is launched differently for the targets: threads is" in done.err
    assert tritonc("k.tc", "--arch=sm_80,sm_90a", "-S").code == 2
    assert tritonc("k.tc", "--arch=sm_80,sm_1", "-o", "k.fatbin").code == 2


def test_machine_code_without_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    from tritonc import ptxas

    Path("k.tc").write_text("kernel void f(int* y) { *y = 1; }\n")
    done = tritonc("k.tc", "--emit=cubin", "--ptxas=./none")
    assert done.code == 1 and "there is no program './none'" in done.err
    monkeypatch.setattr(ptxas, "_folders", lambda: iter(["/nowhere"]))
    done = tritonc("k.tc", "--emit=ptx,cubin")
    assert done.code == 1 and "ptxas is not installed" in done.err and "--ptxas" in done.err
    Path("fails").write_text("#!/bin/sh\necho 'line 3: no such instruction' >&2\nexit 3\n")
    Path("fails").chmod(0o755)
    done = tritonc("k.tc", "--emit=cubin", "--ptxas=./fails")
    assert done.code == 1 and "fails fails: line 3: no such instruction" in done.err
    assert sorted(os.listdir()) == ["fails", "k.tc"]


# --- make and CMake ---


def times(*paths: Path) -> list[int]:
    return [path.stat().st_mtime_ns for path in paths]


def write_tuning(source: Path, kernel: str, **tunables: int) -> None:
    """The tuning file beside a source, as if those values had been measured."""
    text = SourceFile(str(source), source.read_text())
    tokens = stages.preprocess(text, Options(), Diagnostics()).tokens
    entry = Entry(kernel, "sm_80", {}, (), source_hash(tokens), "GPU", 1.0, tunables)
    Path(beside(str(source))).write_text(render([entry]))


def test_make_builds_again_what_changed(tmp_path: Path) -> None:
    need("gcc", "make")
    folder = shutil.copytree(EXAMPLES / "make", tmp_path / "make")
    words = ["make", f"TRITONC={TRITONC}", f"CUDA_INCLUDE={INCLUDE}",
             f"LIBCUDA={stub(tmp_path)}"]
    run(*words, cwd=folder)
    made = [folder / name for name in ("saxpy.ptx", "saxpy.h", "saxpy")]
    before = times(*made)
    assert "up to date" in run(*words, cwd=folder) and times(*made) == before
    for tile in (256, 512):  # the first tuning file, and another
        write_tuning(folder / "saxpy.tc", "saxpy", T=tile)
        run(*words, cwd=folder)
        assert all(new > old for new, old in zip(times(*made), before, strict=True))
        assert f"saxpy_tile0 = {tile}" in (folder / "saxpy.h").read_text()
        before = times(*made)
    assert "up to date" in run(*words, cwd=folder)
    before = times(*made)
    header = folder / "range.h"
    header.write_text(header.read_text().replace("HIGHEST 4.0f", "HIGHEST 3.0f"))
    run(*words, cwd=folder)
    assert all(new > old for new, old in zip(times(*made), before, strict=True))
    assert "0f40400000" in (folder / "saxpy.ptx").read_text().lower()  # 3.0
    header.write_text("#define LOWEST }\n")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode != 0 and "saxpy.tc" in done.stderr
    assert not any(path.exists() for path in made[:2])  # nobody takes them for new
    assert subprocess.run([*words, "-q"], cwd=folder, capture_output=True).returncode == 1
    assert "0 wrong" not in run(*words, "clean", cwd=folder)


def test_nvcc_builds_kernels_of_both_languages(tmp_path: Path) -> None:
    need("nvcc", "gcc", "make")
    folder = shutil.copytree(EXAMPLES / "nvcc", tmp_path / "nvcc")
    os.symlink(stub(tmp_path), tmp_path / "libcuda.so")
    words = ["make", f"TRITONC={TRITONC}", f"LIBCUDA=-L{tmp_path} -lcuda"]
    run(*words, cwd=folder)
    assert (folder / "softmax").exists() and "up to date" in run(*words, cwd=folder)


def test_meson_builds_again_what_changed(tmp_path: Path) -> None:
    need("gcc", "meson", "ninja")
    folder = shutil.copytree(EXAMPLES / "make", tmp_path / "make")
    os.symlink(stub(tmp_path), tmp_path / "libcuda.so")
    path = f"{write_program(tmp_path).parent}{os.pathsep}{os.environ['PATH']}"
    run("meson", "setup", "build", f"-Dtoolkit_include={INCLUDE}", f"-Dtoolkit_lib={tmp_path}",
        cwd=folder, PATH=path)
    run("ninja", "-C", "build", cwd=folder, PATH=path)
    assert (folder / "build" / "saxpy").exists() and (folder / "build" / "saxpy.ptx").exists()
    assert "no work to do" in run("ninja", "-C", "build", cwd=folder, PATH=path)
    header = folder / "range.h"
    header.write_text(header.read_text().replace("HIGHEST 4.0f", "HIGHEST 3.0f"))
    run("ninja", "-C", "build", cwd=folder, PATH=path)
    assert "0f40400000" in (folder / "build" / "saxpy.ptx").read_text().lower()  # 3.0


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_cmake_builds_again_what_changed(generator: str, tmp_path: Path, thorough: bool) -> None:
    if generator != "Ninja" and not thorough:
        pytest.skip("needs --thorough")
    need("g++", "cmake", "ninja" if generator == "Ninja" else "make")
    folder = shutil.copytree(EXAMPLES / "cmake", tmp_path / "with space")
    program = write_program(tmp_path)
    directory = tritonc("--cmake-dir").out.strip()
    assert Path(directory) == ROOT / "tritonc" / "cmake"
    run("cmake", "-G", generator, "-B", "build", f"-DTritonc_DIR={directory}",
        f"-DTritonc_EXECUTABLE={program}", f"-DTritonc_CUDA_INCLUDE={INCLUDE}",
        f"-DTritonc_CUDA_DRIVER={stub(tmp_path)}", cwd=folder)
    run("cmake", "--build", "build", cwd=folder)
    header = folder / "build" / "matmul_kernel-tritonc" / "matmul.h"
    made = header, folder / "build" / "matmul"
    before = times(*made)
    run("cmake", "--build", "build", cwd=folder)
    assert times(*made) == before
    tile = 32 if "matmul_tunable_TK = 64" in header.read_text() else 64
    write_tuning(folder / "matmul.tc", "matmul", TK=tile)  # the first one
    run("cmake", "--build", "build", cwd=folder)
    assert f"matmul_tunable_TK = {tile}" in header.read_text()
    tiles = folder / "tiles.h"
    tiles.write_text(tiles.read_text().replace("TK = {32, 64}", "TK = {16}"))
    run("cmake", "--build", "build", cwd=folder)
    assert all(new > old for new, old in zip(times(*made), before, strict=True))
    assert "matmul_tunable_TK = 16" in header.read_text()
    if generator == "Ninja":  # what does not change the header builds no program
        before = times(*made)
        tiles.write_text("// The same.\n" + tiles.read_text())
        run("cmake", "--build", "build", cwd=folder)
        assert times(*made) == before


PROJECT = """\
cmake_minimum_required(VERSION 3.21)
project(kernels LANGUAGES NONE)
find_package(Tritonc REQUIRED)
tritonc_add_kernel(one sub/k.tc PTX out.ptx PREFIX p DEFINES "V=(1 + 2)" INCLUDES inc
  OPTIONS -O3 --arch=sm_75)
tritonc_add_kernel(two sub/k.tc EMBED ARCH sm_90a DEFINES V=4 INCLUDES inc)
"""


def test_arguments_in_cmake(tmp_path: Path) -> None:
    need("cmake", "ninja")
    for name, text in (("CMakeLists.txt", PROJECT), ("inc/k.h", "#define K 5\n"),
                       ("sub/k.tc", '#include "k.h"\nkernel void f(int* y) { *y = V + K; }\n')):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    program = write_program(tmp_path)
    run("cmake", "-G", "Ninja", "-B", "b", f"-DTritonc_DIR={ROOT / 'tritonc' / 'cmake'}",
        f"-DTritonc_EXECUTABLE={program}", cwd=tmp_path)
    run("cmake", "--build", "b", cwd=tmp_path)
    ptx, one = Path("b/out.ptx").read_text(), Path("b/one-tritonc/k.h").read_text()
    assert ".target sm_75" in ptx and ", 8;" in ptx and "p_f_launch(" in one
    two = Path("b/two-tritonc/k.h").read_text()
    assert ".target sm_90a" in two and ", 9;" in two and not Path("b/two-tritonc/k.ptx").exists()
    assert "no work to do" in run("cmake", "--build", "b", cwd=tmp_path)


AWKWARD = ["with space.h", "hash#.h", "dollar$.h", "percent%.h", "tab\there.h", "plain.h"]


@pytest.mark.parametrize("tool", ["make", "ninja"])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names_of_dependencies(name: str, tool: str) -> None:
    """A change of the included file, whatever its name, and nothing else, makes the output old."""
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}")
    if tool == "ninja" and "\t" in name:
        pytest.skip("ninja's reader of rules knows no tabs in names")
    Path("k.tc").write_text(f'#include "{name}"\nkernel void f(int* y) {{ *y = 1; }}\n')
    Path(name).write_text("// 1\n")
    compiled(Path("k.tc"), "-E", "-MD", "-MP", "-o", "out.i")
    if tool == "make":
        Path("Makefile").write_text("out.i: k.tc\n\t@touch out.i; echo made\n-include out.d\n")
        command = ["make", "-s"]
    else:
        Path("build.ninja").write_text(
            "rule copy\n command = cp saved.d out.d && touch out.i && echo made\n"
            " depfile = out.d\n deps = gcc\nbuild out.i: copy k.tc\n")
        shutil.copy("out.d", "saved.d")
        command = ["ninja"]
        run(*command, cwd=Path())  # ninja reads the rule when it has run the command
    assert "made" not in run(*command, cwd=Path()).split()
    later = Path("out.i").stat().st_mtime + 2
    os.utime(name, (later, later))
    assert "made" in run(*command, cwd=Path()).split()


@pytest.mark.parametrize("name", ["semi;colon.h", "pi|pe.h", "new\nline.h"])
def test_names_that_no_rule_can_hold(name: str) -> None:
    """A rule that make would read otherwise is an error, and nothing is written."""
    Path(name).write_text("")
    Path("k.tc").write_text("kernel void f(int* y) { *y = 1; }\n")
    done = tritonc("k.tc", "-include", name, "-MD", "-o", "x.ptx")
    assert done.code == 1 and "a rule of make cannot name" in done.err
    assert not Path("x.ptx").exists()
    assert tritonc("k.tc", "-include", name, "-o", "x.ptx").code == 0


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """What the compiler writes of such a name is as legible as can be, and no rule is wrong."""
    folder = os.fsencode(tmp_path) + b"/d\xff"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system wants UTF-8")
    name = os.fsdecode(folder + b"/k.tc")
    Path(name).write_text("kernel void f(int* y) { *y = 1; }\n")
    for option in ("-lineinfo", "-g", "-E", "--remarks=r.json"):
        compiled(Path(name), option, "-o", "out")
    compiled(Path(name), "-MD", "-o", "out.ptx")
    assert os.fsencode(name) in Path("out.d").read_bytes()


def test_outputs_with_awkward_names() -> None:
    need("make")
    Path("a b.h").write_text("")
    Path("k.tc").write_text('#include "a b.h"\n')
    target = "o $#%.i"
    compiled(Path("k.tc"), "-E", "-MD", "-MF", "d", "-o", target)
    Path("Makefile").write_text("include d\no\\ $$\\#\\%.i:\n\t@echo '$?'\n")
    for path in ("k.tc", "a b.h"):
        os.utime(path, (1, 1))
    os.utime(target, (2, 2))
    assert "up to date" in run("make", "-r", target, cwd=Path())
    os.utime("a b.h", (3, 3))
    assert run("make", "-r", target, cwd=Path()).strip() == "a b.h"


def test_one_rule_for_all_outputs() -> None:
    Path("k.tc").write_text("kernel void f(int* y) { *y = 1; }\n")
    compiled(Path("k.tc"), "-o", "x.ptx", "--header", "include-k.h", "-MD")
    assert Path("x.d").read_text() == "x.ptx include-k.h: \\\n  k.tc\n"
    assert tritonc("k.tc", "-o", "x.ptx", "-MD", "-MF", "x.ptx").code == 2


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.tc")), ids=lambda path: path.stem)
def test_kernels_of_the_examples_do_what_they_state(path: Path) -> None:
    done = tritonc("run", str(path))
    assert done.code == 0 and ": ok (" in done.out and not done.err


# --- writing ---


def test_outputs_that_would_not_change_keep_their_time() -> None:
    Path("k.tc").write_text("kernel void f(int* y) { *y = V; }\n")
    files = [Path("k.ptx"), Path("k.h"), Path("k.d")]
    words = ("--header", "k.h", "-MD", "--if-changed")
    compiled(Path("k.tc"), "-DV=1", *words)
    for path in files:
        os.utime(path, ns=(1, 1))
    compiled(Path("k.tc"), "-DV=1", *words)
    assert times(*files) == [1, 1, 1]
    compiled(Path("k.tc"), "-DV=2", *words)
    assert [t == 1 for t in times(*files)] == [False, True, True]  # the manifest is the same
    compiled(Path("k.tc"), "-DV=2", *words[:-1])
    assert 1 not in times(*files)


def test_what_errors_remove() -> None:
    """Outputs of a wrong source, but nothing that it reads; what is wrong usage touches no file."""
    Path("k.tc").write_text('#include "c.h"\nkernel void f(int* y) { *y = V; }\n')
    included = "#ifndef V\n#define V 1\n#endif\n"
    Path("c.h").write_text(included)

    def before() -> None:
        for name in ("k.ptx", "k.h", "k.d"):
            Path(name).write_text("old")

    for words, left in ((("-o", "c.h"), ["k.d", "k.h", "k.ptx"]),
                        (("--header", "c.h"), ["k.d", "k.h"]),
                        (("--header=k.h", "-MD", "-DV=}"), ["k.d"])):
        before()
        assert tritonc("k.tc", *words).code == 1
        assert sorted(os.listdir()) == sorted(["c.h", "k.tc", *left])
        assert Path("c.h").read_text() == included
    before()
    for words in (("--embed",), ("--prefix=x",), ("--header=k.ptx",),
                  ("--emit=ptx", "--stop-after=cse"), ("--header=-", "-o", "-"),
                  ("--header=k.h", "--embed=elf")):
        assert tritonc("k.tc", *words).code == 2, words
    assert {name: Path(name).read_text() for name in os.listdir()} == {
        "k.tc": Path("k.tc").read_text(), "c.h": included, "k.ptx": "old", "k.h": "old",
        "k.d": "old"}
