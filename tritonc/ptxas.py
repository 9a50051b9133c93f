"""NVIDIA's assembler: from PTX to machine code for one GPU, where the tools are installed.

They come with the CUDA toolkit, or as the Python packages nvidia-cuda-nvcc (CUDA 13) and
nvidia-cuda-nvcc-cu12.  Compiling to PTX does not need them."""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tritonc.records import NamedTuple
from tritonc.source import CompileError, Note, fail

if TYPE_CHECKING:
    import subprocess

_IN_PACKAGES = ("nvidia/cu13/bin", "nvidia/cuda_nvcc/bin")


def find(given: str | None = None, tool: str = "ptxas") -> str:
    """The path of ptxas, or of a tool beside it: what is `given`, else where it is usually.

    Raises CompileError if it is not there."""
    if given is not None and tool == "ptxas":
        found = shutil.which(given)
        if found is None:
            raise fail("no-ptxas", None, f"there is no program '{given}'")
        return found
    beside = [os.path.dirname(shutil.which(given) or given)] if given is not None else []
    for folder in (*beside, *_folders()):
        found = shutil.which(tool, path=folder)
        if found is not None:
            return found
    raise fail("no-ptxas", None, f"{tool} is not installed: it is in no folder of PATH",
               Note("it comes with the CUDA toolkit, or `pip install nvidia-cuda-nvcc`; --ptxas "
                    "says where ptxas is"))


def _folders() -> Iterator[str | None]:
    """None is the PATH."""
    yield None
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield os.path.join(home, "bin")
    yield "/usr/local/cuda/bin"
    for folder in sys.path:
        yield from (os.path.join(folder, *name.split("/")) for name in _IN_PACKAGES)


def assemble(ptx: str, target: str, *, ptxas: str | None = None, line_info: bool = False) -> bytes:
    """The cubin of a module.  Raises CompileError if ptxas is missing or rejects the PTX."""
    flags = ["-lineinfo"] if line_info else []
    command = [find(ptxas), f"-arch={target}", *flags, "module.ptx", "-o", "out"]
    return _run(command, {"module.ptx": ptx.encode()})


class Resources(NamedTuple):
    """What a kernel needs: registers of a thread; bytes of its stack, of spills to it and from it,
    and of shared memory that the launch does not ask for."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


def resources(ptx: str, target: str, ptxas: str | None = None) -> dict[str, Resources]:
    """By kernel.  Raises CompileError if ptxas is missing or rejects the PTX."""
    command = [find(ptxas), "-v", f"-arch={target}", "module.ptx", "-o", "out"]
    return read_resources(_execute(command, {"module.ptx": ptx.encode()})[1])


def read_resources(text: str) -> dict[str, Resources]:
    """What `ptxas -v` says.

    >>> read_resources('''ptxas info    : Compiling entry function 'f' for 'sm_80'
    ... ptxas info    : Function properties for f
    ...     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
    ... ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 376 bytes cmem[0]''')
    {'f': Resources(registers=40, stack=8, spill_stores=4, spill_loads=12, shared=1024)}"""
    found = {}
    for part in text.split("Compiling entry function '")[1:]:
        def number(pattern: str, part: str = part) -> int:
            match = re.search(pattern, part)
            return int(match[1]) if match else 0

        found[part.partition("'")[0]] = Resources(
            number(r"Used (\d+) registers"), number(r"(\d+) bytes stack frame"),
            number(r"(\d+) bytes spill stores"), number(r"(\d+) bytes spill loads"),
            number(r"(\d+) bytes smem"))
    return found


def fatbin(modules: Mapping[str, tuple[str, bytes]], *, ptxas: str | None = None) -> bytes:
    """A fatbin of a module's PTX and machine code, by target: each GPU takes the machine code for
    it, a later one what its driver makes of the PTX."""
    files: dict[str, bytes] = {}
    images = []
    for target, (ptx, cubin) in modules.items():
        for kind, content in (("elf", cubin), ("ptx", ptx.encode())):
            files[f"{target}.{kind}"] = content
            images.append(f"--image3=kind={kind},sm={target.removeprefix('sm_')},"
                          f"file={target}.{kind}")
    return _run([find(ptxas, "fatbinary"), "--create=out", "--64", *images], files)


def version(target: str) -> int:
    """The number that the driver has for PTX of a target.

    >>> version("sm_90a")
    90
    """
    return int("".join(filter(str.isdigit, target)))


def _run(command: list[str], inputs: Mapping[str, bytes]) -> bytes:
    """What a tool writes to the file `out`."""
    return _execute(command, inputs)[0]


def _execute(command: list[str], inputs: Mapping[str, bytes]) -> tuple[bytes, str]:
    """What a tool writes to the file `out`, and what it says; it runs in a directory of its own, so
    that no name of this machine's gets into it."""
    import subprocess  # 3 ms that a compilation to PTX can spare
    import tempfile

    tool = os.path.basename(command[0])
    with tempfile.TemporaryDirectory(prefix="tritonc-") as directory:
        for name, content in inputs.items():
            with open(os.path.join(directory, name), "wb") as file:
                file.write(content)
        try:
            done = subprocess.run([os.path.abspath(command[0]), *command[1:]], cwd=directory,
                                  capture_output=True, text=True, errors="replace")
        except OSError as error:
            raise fail("no-ptxas", None, f"cannot run '{command[0]}': {error.strerror}") from None
        if done.returncode != 0:
            raise _rejected(tool, done)
        with open(os.path.join(directory, "out"), "rb") as file:
            return file.read(), done.stderr + done.stdout


def _rejected(tool: str, done: "subprocess.CompletedProcess[str]") -> CompileError:
    said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    first = said[0] if said else f"exit code {done.returncode}"
    return fail("ptxas-failed", None, f"{tool} fails: {first}", *(Note(line) for line in said[1:5]))
