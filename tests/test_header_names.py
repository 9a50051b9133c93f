"""Whatever a source calls its parameters and kernels, its header compiles as C and as C++."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from host_tools import INCLUDE, ROOT, need, run

from tritonc.launch.hosts.header import header

FLAGS = {"gcc": ["-std=c99"], "g++": ["-std=c++11"]}
WORD = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]*\b")


def kernel(name: str, parameters: list[str]) -> dict[str, Any]:
    """A kernel's entry in a manifest, with parameters of each kind in turn."""
    kinds: list[dict[str, Any]] = [
        {"type": "const float *", "access": "read", "multiple_of": 4},
        {"type": "half *", "access": "read write", "multiple_of": 2},
        {"type": "long long"}, {"type": "int", "multiple_of": 8}, {"type": "unsigned char"},
        {"type": "bfloat16"}, {"type": "float8_e4m3"}]
    return {"name": name, "entry": name, "threads": 32, "shared_bytes": 0,
            "dynamic_shared_bytes": 0, "tile": [64, 32, 2], "tunables": {"T": 64},
            "assumptions": [], "parameters": [
                {"name": parameter, **kinds[i % len(kinds)]}
                for i, parameter in enumerate(parameters)]}


def text(kernels: list[dict[str, Any]], module: str = "names") -> str:
    return header({"compiler": "tritonc", "target": "sm_80", "ptx": "7.5", "kernels": kernels,
                   "constants": []}, module, image="// PTX")


def words(folder: Path) -> list[str]:
    """Identifiers that a header, cuda.h or a keyword of C or C++ could fall over."""
    assert INCLUDE is not None
    runtime = "".join((ROOT / "tritonc" / "launch" / "hosts" / name).read_text()
                      for name in ("platform.h", "runtime.h"))
    ours = WORD.findall(runtime + text([kernel("k", list("abcdefg"))]))
    cuda = (INCLUDE / "cuda.h").read_text(errors="replace")
    (folder / "runtime.c").write_text(f"#define TRITONC_DLOPEN\n{runtime}")
    macros = run("gcc", "-dM", "-E", "-I", INCLUDE, "runtime.c", cwd=folder)
    theirs = [*re.findall(r"^#define (\w+)", macros, re.M),
              *re.findall(r"CUDAAPI (\w+)\(", cuda), *re.findall(r"^\} (\w+);", cuda, re.M)]
    # Names of the compiler itself, as __GNUC__, are no names that Triton-C gives to parameters.
    return sorted({word for word in [*ours, *theirs] if not word.startswith("__")})


@pytest.mark.parametrize("compiler", FLAGS)
def test_names_of_parameters(compiler: str, tmp_path: Path) -> None:
    need(compiler, "gcc")
    found = words(tmp_path)
    assert {"grid", "range", "uint16_t", "memcpy", "tritonc_launch"} <= set(found)
    kernels = [kernel(f"k{at}", found[at : at + 40]) for at in range(0, len(found), 40)]
    (tmp_path / "names.h").write_text(text(kernels))
    (tmp_path / "host.c").write_text('#include "names.h"\nint main(void) { return 0; }\n')
    language = "c" if compiler == "gcc" else "c++"
    run(compiler, "-x", language, *FLAGS[compiler], "-fsyntax-only", "-Wno-unused", "-I", INCLUDE,
        "-I", tmp_path, "host.c", cwd=tmp_path)


@pytest.mark.parametrize("compiler", FLAGS)
def test_names_of_kernels_and_modules(compiler: str, tmp_path: Path) -> None:
    """A kernel or module `tritonc` shares a prefix with the functions of runtime.h."""
    need(compiler, "gcc")
    names = [*{*words(tmp_path), "tritonc", "tritonc_", "int", "main", "names", "cu", "unix"}]
    (tmp_path / "names.h").write_text(text([kernel(name, ["x", "n"]) for name in names]))
    (tmp_path / "tritonc.h").write_text(text([kernel("of_its_own", ["x"])], "tritonc"))
    (tmp_path / "host.c").write_text(
        '#include "names.h"\n#include "tritonc.h"\nint main(void) { return 0; }\n')
    language = "c" if compiler == "gcc" else "c++"
    run(compiler, "-x", language, *FLAGS[compiler], "-fsyntax-only", "-Wno-unused", "-I", INCLUDE,
        "-I", tmp_path, "host.c", cwd=tmp_path)
