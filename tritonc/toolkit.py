"""Where cuda.h and the CUDA driver's library are, for programs that launch kernels.

The CUDA toolkit has both: the header, and a stub of libcuda to link with, so that building needs no
GPU.  conda has them too; the Python packages nvidia-cuda-runtime (CUDA 13) and
nvidia-cuda-runtime-cu12 have the header."""

import os
import shutil
import sys
from collections.abc import Iterator
from glob import glob

from tritonc.source import Note, fail

_HEADERS = ("include", "targets/*/include")
_LIBRARIES = ("lib64/stubs", "lib/stubs", "targets/*/lib/stubs", "lib64", "lib",
              "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib/wsl/lib", "lib/x64")
_IN_PACKAGES = ("nvidia/cu13/include", "nvidia/cuda_runtime/include")
_HOMES = ("/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda")


def header_folder() -> str:
    """The folder of cuda.h.  Raises CompileError if there is none."""
    for folder in _folders(_HEADERS, _IN_PACKAGES):
        if os.path.isfile(os.path.join(folder, "cuda.h")):
            return folder
    raise fail("no-toolkit", None, "cuda.h is not installed",
               Note("it comes with the CUDA toolkit, or `pip install nvidia-cuda-runtime-cu12`; "
                    "CUDA_HOME names the toolkit's folder"))


def library_folder() -> str:
    """The folder of libcuda.so, the driver's or its stub.  Raises CompileError if there is none."""
    for folder in _folders(_LIBRARIES, ()):
        if any(os.path.exists(os.path.join(folder, name)) for name in ("libcuda.so", "cuda.lib")):
            return folder
    raise fail("no-toolkit", None, "neither libcuda.so nor its stub is installed",
               Note("the stub comes with the CUDA toolkit (package cuda-driver-dev), libcuda.so "
                    "with the driver; CUDA_HOME names the toolkit's folder"),
               Note("a program that defines TRITONC_DLOPEN needs neither to link"))


def _folders(parts: tuple[str, ...], packages: tuple[str, ...]) -> Iterator[str]:
    """Where something can be: what the user names comes first, what the system has last."""
    for home in _homes():
        for part in parts:
            yield from sorted(glob(os.path.join(home, *part.split("/"))))
    for folder in sys.path:
        yield from (os.path.join(folder, *part.split("/")) for part in packages)
    for part in parts:
        yield from sorted(glob(os.path.join("/usr", *part.split("/"))))


def _homes() -> Iterator[str]:
    for variable in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"):
        if home := os.environ.get(variable):
            yield home
    if nvcc := shutil.which("nvcc"):
        yield os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    yield from _HOMES
    yield from sorted(glob("/usr/local/cuda-*"), reverse=True)
    yield sys.prefix
