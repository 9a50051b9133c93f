"""What the scripts of this folder use of tritonc: compile, assemble, read problems.

Needs neither a GPU nor torch.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritonc import driver, ptxas
from tritonc.launch.data import bench_sizes, size_values
from tritonc.launch.run_problems import read_problems
from tritonc.options import Options
from tritonc.problem.lines import Problem
from tritonc.source import CompileError, Diagnostics, SourceFile

__all__ = ["Assembly", "CompileError", "Compiled", "Problem", "assemble", "bench_sizes",
           "compile_source", "problem_of", "size_values"]


@dataclass
class Compiled:
    """A kernel as PTX: its entry of the manifest, and what passes remarked about it."""

    ptx: str
    kernel: dict[str, Any]
    remarks: list[str]  # "done: ..." or "missed: ..." with the pass's name behind
    seconds: float


@dataclass
class Assembly:
    """What ptxas says of a kernel.  `advice` are its C75xx and C76xx messages."""

    registers: int
    spill_bytes: int  # stores and loads
    stack_bytes: int
    advice: list[str]
    seconds: float


def _file(source: str | Path) -> SourceFile:
    if isinstance(source, Path):
        return SourceFile(str(source), source.read_text())
    return SourceFile("bench.tc", source)


def compile_source(source: str | Path, name: str | None = None, arch: str = "sm_90a",
                   **options: Any) -> Compiled:
    """Compile a file (or a text); of its kernels the one called `name`, or the first.

    `options` are fields of tritonc's Options.  Raises CompileError.
    """
    started = time.perf_counter()
    result = driver.compile(_file(source), Options(arch=arch, **options), ("ptx", "manifest"))
    seconds = time.perf_counter() - started
    assert result.manifest is not None
    kernels = result.manifest["kernels"]
    kernel = next(k for k in kernels if name is None or k["name"] == name)
    remarks = [f"{'missed' if r.missed else 'done'}: {r.message} [{r.pass_name}]"
               for r in result.remarks]
    return Compiled(result.outputs["ptx"], kernel, remarks, seconds)


def assemble(compiled: Compiled, arch: str = "sm_90a", timeout: float = 120) -> Assembly | None:
    """What ptxas makes of the PTX; None where ptxas is not installed.

    Raises RuntimeError where ptxas rejects the PTX, or takes longer than `timeout` seconds.
    """
    try:
        program = ptxas.find()
    except CompileError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.ptx"
        path.write_text(compiled.ptx)
        started = time.perf_counter()
        try:
            done = subprocess.run(
                [program, "-v", f"-arch={arch}", str(path), "-o", str(Path(folder) / "cubin")],
                capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"ptxas takes longer than {timeout:.0f} s") from None
        seconds = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError("ptxas: " + " ".join((done.stderr or done.stdout).split())[:400])
    found = ptxas.read_resources(done.stderr)[compiled.kernel["entry"]]
    advice = sorted(set(re.findall(r"\b(C7[56]\d\d)\b", done.stderr)))
    return Assembly(found.registers, found.spill_stores + found.spill_loads, found.stack, advice,
                    seconds)


def problem_of(source: str | Path, defines: tuple[str, ...] = ()) -> Problem:
    """The first problem of a source, with these macros instead of its own.  Raises CompileError."""
    return read_problems(_file(source), Options(defines=defines), "tc", Diagnostics())[0]
