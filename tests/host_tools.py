"""Building host programs in tests: where cuda.h, the driver and the compilers are."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).parent.parent
HOST = ROOT / "tests" / "host"
TRITONC = f"{shlex.quote(sys.executable)} -m tritonc.cli.main"


def _include_folders() -> Iterator[Path]:
    for variable in ("CUDA_INCLUDE", "CUDA_HOME", "CUDA_PATH"):
        if variable in os.environ:
            yield Path(os.environ[variable]) / ("" if variable == "CUDA_INCLUDE" else "include")
    for folder in sys.path:
        yield Path(folder) / "nvidia" / "cuda_runtime" / "include"
        yield Path(folder) / "nvidia" / "cu13" / "include"
    yield Path("/usr/local/cuda/include")


INCLUDE = next((f for f in _include_folders() if (f / "cuda.h").is_file()), None)


def need(*programs: str) -> None:
    """Skip the test unless the programs and cuda.h are there."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    if INCLUDE is None:
        pytest.skip("needs cuda.h: pip install nvidia-cuda-runtime-cu12")


def environment(**variables: str) -> dict[str, str]:
    """This process's, in which TRITONC finds this tree."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **variables}


def run(*command: object, cwd: Path, **variables: str) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, text=True, timeout=300,
                          env=environment(**variables), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done.stdout


def write_program(folder: Path) -> Path:
    """A program `tritonc` in the folder, which is this tree's."""
    program = folder / "tritonc"
    program.write_text(f'#!/bin/sh\nexec {TRITONC} "$@"\n')
    program.chmod(0o755)
    return program


def build(folder: Path, output: str, *words: object, compiler: str = "gcc") -> None:
    """Compile in `folder` with all warnings as errors."""
    standard = "-std=c99" if compiler in ("gcc", "cc") else "-std=c++11"
    run(compiler, standard, "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-isystem",
        INCLUDE, f"-I{HOST}", "-I.", *words, "-o", output, cwd=folder)


def stub(folder: Path) -> Path:
    """The driver that runs nothing, as folder/libcuda.so.1; returns its path."""
    library = folder / "libcuda.so.1"
    library.write_bytes(_stub())
    library.chmod(0o755)
    return library


@cache
def _stub() -> bytes:
    with TemporaryDirectory() as folder:
        run("gcc", "-shared", "-fPIC", "-O1", "-isystem", INCLUDE, HOST / "stub.c",
            "-Wl,-soname,libcuda.so.1", "-pthread", "-o", "stub.so", cwd=Path(folder))
        return (Path(folder) / "stub.so").read_bytes()


def driver() -> str:
    """The path of the real driver's library."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(r"libcuda\.so\.1 .*=> (.*)", listed)
    if found:
        return found[1]
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), "/usr/local/nvidia/lib64",
               "/usr/lib64", "/usr/lib/x86_64-linux-gnu"]
    path = next((Path(f) / "libcuda.so.1" for f in folders if (Path(f) / "libcuda.so.1").exists()),
                None)
    if path is None:
        pytest.skip("needs libcuda.so.1")
    return str(path)
