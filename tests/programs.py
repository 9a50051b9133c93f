"""Programs of tests/run at other sizes, and after the backend.

A program's `//!` lines state one size.  Comment lines beside them state more, each with values of
sizes, tunables and macros that replace those of the problem:

    // also: M = 1, N = 17
    // also: M = 64, N = 64, TYPE = half
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from in_flight import touched_in_flight
from simulator.machine import handlers

from tritonc import driver
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.core import Kernel
from tritonc.launch.compare import differences
from tritonc.launch.data import Data, prepare
from tritonc.launch.interpreter import launch
from tritonc.launch.run_problems import (
    Outcome,
    kernel_of,
    read_problems,
    run_problems,
    with_defines,
)
from tritonc.options import Options
from tritonc.problem.lines import Problem
from tritonc.source import Diagnostics, SourceFile

ROOT = Path(__file__).parent.parent
PROGRAMS = sorted((ROOT / "tests" / "run").rglob("*.tc"))
PTXAS = shutil.which(os.environ.get("PTXAS", "ptxas")) or shutil.which(
    "ptxas", path="/usr/local/cuda/bin")
TARGETS = ("sm_75", "sm_80", "sm_90a")
_ALSO = re.compile(r"^// also: *(.*?) *$", re.MULTILINE)


@dataclass(frozen=True)
class Setting:
    """A program with values for its sizes, tunables and macros."""

    path: Path
    values: tuple[tuple[str, str], ...] = ()
    verify_each: bool = True

    @property
    def name(self) -> str:
        values = ",".join(f"{name}={text}" for name, text in self.values)
        return f"{self.path.stem}-{values}" if values else self.path.stem

    @property
    def source(self) -> SourceFile:
        return SourceFile(self.path.relative_to(ROOT).as_posix(),
                          self.path.read_text(encoding="utf-8"))

    def options(self, **more: Any) -> tuple[Options, dict[str, int]]:
        """Options and sizes; what names neither a size nor a tunable is a macro."""
        problems = read_problems(self.source, Options(), "tc", Diagnostics())
        sizes = {size.name for problem in problems for size in problem.sizes}
        tunables = set(re.findall(r"\btunable\s+int\w*\s+(\w+)", self.source.text))
        return Options(
            verify_each=self.verify_each, tune={n: int(v) for n, v in self.values if n in tunables},
            defines=tuple(f"{n}={v}" for n, v in self.values if n not in sizes | tunables),
            **more,
        ), {n: int(v) for n, v in self.values if n in sizes}


def settings(path: Path) -> list[Setting]:
    """What the program's `also:` lines state."""
    found = []
    for line in _ALSO.findall(path.read_text(encoding="utf-8")):
        pairs = [pair.partition("=") for pair in line.split(",")]
        found.append(Setting(path, tuple((n.strip(), v.strip()) for n, _, v in pairs)))
    return found


def interpret(setting: Setting) -> list[Outcome]:
    """The outcome of each problem, which are as the reference says."""
    options, sizes = setting.options()
    outcomes = problem_outcomes(setting.source, options, sizes)
    for outcome in outcomes:
        assert outcome.ok, outcome.line()
        assert not outcome.diagnostics
    return outcomes


def compiled(setting: Setting, target: str, kinds: tuple[str, ...] = ("manifest",),
             every: int = 1, make: Callable[..., driver.Result] = driver.compile
             ) -> Iterator[tuple[driver.Result, Data]]:
    """Each problem's compilation through the backend, and its data.  Of compilations that differ
    in their macros, the first and each `every`-th after it have the outputs of these kinds."""
    options, sizes = setting.options(arch=target)
    done: dict[tuple[str, ...], driver.Result] = {}
    for problem in read_problems(setting.source, options, "tc", Diagnostics()):
        own = with_defines(problem, options)
        if own.defines not in done:
            done[own.defines] = make(
                setting.source, own, ("manifest",) if len(done) % every else kinds)
        result = done[own.defines]
        assert result.module is not None
        yield result, prepare(problem, result.module, kernel_of(problem, result.module), sizes)


_MADE: dict[str, driver.Result] = {}  # the last few
_compile = driver.compile


def made(source: SourceFile, options: Options, kinds: tuple[str, ...], language: str = "tc"
         ) -> driver.Result:
    """What `driver.compile` gives, for who does not change it: settings that differ in sizes alone
    follow each other, and share one."""
    key = repr((source.name, source.text, options, kinds, language))
    if key not in _MADE:
        if len(_MADE) > 3:
            del _MADE[next(iter(_MADE))]
        _MADE[key] = _compile(source, options, kinds, language=language)
    return _MADE[key]


def problem_outcomes(source: SourceFile, options: Options, sizes: dict[str, int]) -> list[Outcome]:
    """The outcome of each problem of a source; what sizes share is compiled once."""
    with patch.object(driver, "compile", made):
        return list(run_problems(source, options, "tc", Diagnostics(), sizes=sizes))


def simulate(setting: Setting, target: str, kinds: tuple[str, ...] = ("manifest",), every: int = 1
             ) -> list[driver.Result]:
    """What the machine's operations compute is as the reference says, and nothing races.  Gives
    the compilations of the problems, which are not to be changed."""
    results = []
    for result, data in compiled(setting, target, kinds, every, made):
        check(result, data)
        results.append(result)
    return results


def simulated(result: driver.Result, problem: Problem, kernel: Kernel | None = None, **sizes: int
              ) -> None:
    """What the machine's operations compute is as the reference says, and nothing races."""
    assert result.module is not None
    data = prepare(problem, result.module, kernel or kernel_of(problem, result.module), sizes)
    check(result, data)


def check(result: driver.Result, data: Data) -> None:
    assert result.module is not None
    found = differences(data, launch(result.module, data, ALL_OPS, handlers()))
    assert not found, found


def ptxas(text: str, target: str, scratch: Path) -> str:
    """What ptxas -v says of PTX, which it takes, and in which nothing touches registers in flight.
    """
    assert not touched_in_flight(text)
    ptx = scratch / "kernel.ptx"
    ptx.write_text(text, encoding="utf-8")
    done = subprocess.run([PTXAS or "", "-v", f"-arch={target}", str(ptx), "-o", "/dev/null"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr
