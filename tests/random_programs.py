"""Random well-defined programs of Triton-C, and whether they mean the same at every stage.

    python tests/campaign.py programs --hours 1       interpreted around the passes
    python tests/campaign.py gpu --hours 1            the GPU against the interpreter
    python tests/campaign.py programs --replay 17     prints program 17 and what becomes of it

A program is a complete file that states its data.  It has scalars and tiles of many types, nested
control flow over scalars and under tile predicates, loops with break and continue, functions,
masked loads and stores, memory written and read again, atomics, reductions, scans and products,
structs, generic functions, and reductions by functions of its own.  The oracle, which shares
nothing with the compiler but its parser, says what it computes.
It is well defined by construction: every variable has a value, indices are inside of buffers, no
divisor is 0, no shift reaches the width.  And its result does not depend on what the compiler may
choose: floats are added in one order, or are small integers; the buffer of approximate results,
`rough`, never decides anything.  So all other buffers must be equal bit for bit, but for the bits
of NaNs, and for what is added to a product of floats, whose sum machines may begin with it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # so that the program runs where nothing is installed

import oracle  # noqa: E402
from random_statements import program  # noqa: E402
from simulator import machine as simulate  # noqa: E402

from tritonc import driver, pass_manager, passes  # noqa: E402
from tritonc.backend.target.machine_ops import ALL_OPS  # noqa: E402
from tritonc.backend.target.target import find  # noqa: E402
from tritonc.interp.interpreter import InterpreterError  # noqa: E402
from tritonc.ir.context import Context  # noqa: E402
from tritonc.ir.core import Module, Op  # noqa: E402
from tritonc.ir.syntax.text import print_kernel  # noqa: E402
from tritonc.ir.types import is_float  # noqa: E402
from tritonc.ir.verify import Known, VerifyError, verify  # noqa: E402
from tritonc.launch.data import Data, prepare  # noqa: E402
from tritonc.launch.interpreter import launch  # noqa: E402
from tritonc.launch.run_problems import read_problems  # noqa: E402
from tritonc.options import Options  # noqa: E402
from tritonc.source import CompileError, Diagnostics, SourceFile  # noqa: E402

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
LIMIT = "its elements are needed under more than 64 conditions"
TOLERANCE = 1e-3  # of rough results, whose terms are a few hundred at most
ORDERS = 4  # a product's sum in a third order, against how far two orders are apart


class Difference(Exception):
    """A stage changed what a program computes, or it never was what the oracle says."""


class Refused(Exception):
    """The compiler takes no program that is as nested as this one."""


# Meta-parameters that are forced on some programs for sm_90a.
FORCED: dict[str, tuple[int, ...]] = {
    "num_warps": (1, 2, 4, 8), "num_stages": (1, 2, 3), "group": (1, 2), "min_blocks": (0, 1, 2),
    "wgmma": (0, 1), "slices": (1, 2), "tma_load": (0, 1), "tma_store": (0, 1),
    "persistent": (0, 1), "continued": (0, 1), "producer": (0, 1),
}  # fmt: skip


@dataclass
class Settings:
    """Under what a program is compiled: drawn from its seed."""

    options: Options
    every_pass: bool

    @staticmethod
    def draw(seed: int, every_pass: bool) -> Settings:
        rng = random.Random(f"settings {seed}")
        arch = rng.choice(("sm_75", "sm_80", "sm_80", "sm_90a", "sm_90a"))
        # Contraction rounds once what the interpreter rounds twice.
        level = rng.choice((0, 1, 2, 2, 2, 3))
        forced = {name: rng.choice(values) for name, values in FORCED.items()
                  if arch == "sm_90a" and rng.random() < 0.3}
        return Settings(Options(arch=arch, opt_level=level, fp_contract=False, tune=forced,
                                warnings=("no-all",)), every_pass)


def analysed(text: str, options: Options) -> tuple[Module, Data]:
    """A program as semantic analysis leaves it, and its data."""
    source = SourceFile("random.tc", text)
    lowered = replace(options, stop_after=driver.LOWER)
    try:
        result = driver.compile(source, lowered, ("tir",))
    except CompileError as error:
        if all(LIMIT in item.message for item in error.diagnostics):
            raise Refused from error
        raise
    assert result.module is not None
    (problem,) = read_problems(source, options, "tc", Diagnostics())
    return result.module, prepare(problem, result.module, result.module.kernels[0], {})


def compare(want: Arrays, got: Arrays, where: str, signs: bool = True,
            other_order: Arrays | None = None) -> None:
    """Raise Difference unless the buffers are equal; rough results, nearly; zeros, in their signs
    too if `signs`.  An element that differs in `other_order` may differ that much, ORDERS times."""
    for name, array in want.items():
        other = got[name]
        if array.dtype.kind != "f":
            same = array == other
        else:
            with np.errstate(all="ignore"):
                same = array == other
                if signs:
                    same &= np.signbit(array) == np.signbit(other)
                same |= np.isnan(array) & np.isnan(other)
                if name == "rough":
                    near = np.abs(array.astype(np.float64) - other) <= TOLERANCE
                    same = same | near
        if other_order is not None:
            with np.errstate(all="ignore"):
                first, second, found = (np.asarray(each[name], np.float64)
                                        for each in (want, other_order, got))
                same = same | (np.abs(found - first) <= ORDERS * np.abs(second - first)) \
                    & (first != second)
        if not same.all():
            at = int(np.flatnonzero(~same)[0])
            raise Difference(f"{where}: {name}[{at}] is {other.reshape(-1)[at]}, should be "
                             f"{array.reshape(-1)[at]}; {np.count_nonzero(~same)} differ")


def ask_oracle(text: str, data: Data, want: Arrays) -> None:
    """Raise Difference unless the oracle computes the same."""
    given = {argument.name: argument.held for argument in data.arguments}
    found = oracle.run(text, data.kernel.name, given, data.grid)
    with_signs = {name: array.view(found[name].dtype) if array.dtype.kind == "i" else array
                  for name, array in want.items()}
    compare(found, with_signs, "against the oracle")


def check(text: str, settings: Settings) -> int:
    """Run a program by the oracle, before and after passes.  Gives how often it ran.

    Raises Difference, and whatever the compiler or the interpreter raises.
    """
    module, data = analysed(text, settings.options)
    want = launch(module, data)
    ask_oracle(text, data, want)
    try:
        return 2 + _passes(module, data, want, settings)
    except (Difference, InterpreterError, VerifyError):
        if settings.every_pass:
            raise
    # Find the pass that is wrong.
    module, data = analysed(text, settings.options)
    _passes(module, data, want, Settings(settings.options, every_pass=True))
    raise Difference("it cannot be seen twice")


def _passes(module: Module, data: Data, want: Arrays, settings: Settings) -> int:
    options, kernel = settings.options, module.kernels[0]
    # The order of a product's sum, to which c in c - a @ b may belong, decides its zeros' signs.
    signs = not any(op.name == "dot" and is_float(op.result.type)
                    for block in kernel.blocks for op in block.ops)
    context = Context(target=find(options.arch, options.ptx),
                      contract=options.fp_contract, meta=dict(options.tune))
    runs = 0
    known: Known = {}

    def run(label: str) -> None:
        nonlocal runs
        runs += 1
        handlers = simulate.handlers(check=label == "insert_barriers")
        data.kernel = kernel
        try:
            compare(want, launch(module, data, ALL_OPS, handlers), f"after {label}", signs)
        except CompileError as error:
            raise Difference(f"after {label}: {error}\n{print_kernel(kernel)}") from error

    def after(label: str, _: Any, changed: bool) -> None:
        if changed and settings.every_pass:
            verify(kernel, table=ALL_OPS, known=known)
            run(label)

    hooks = pass_manager.Hooks(after=after)
    for part in (passes.OPT, passes.BACKEND):
        pass_manager.run(kernel, context, part, level=options.opt_level, hooks=hooks)
        verify(kernel, table=ALL_OPS, known=known)
        last = part[-1].name
        if not (settings.every_pass and last == "insert_barriers"):
            run(last)
    return runs


def _from_the_first(meanings: Any, op: Op, a: Any, b: Any, c: Any) -> Any:
    """A product that adds its terms one by one to c, each rounded."""
    if not is_float(op.result.type):
        return meanings.dot(op, a, b, c)
    for k in range(a.shape[-1]):
        c = meanings.dot(op, a[..., k : k + 1], b[..., k : k + 1, :], c)
    return c


def in_other_order(text: str, options: Options) -> Arrays | None:
    """The results where a value that is added to a product of floats begins the product's sum, as
    it may after the passes of `opt`; None without such a product."""
    module, data = analysed(text, options)
    kernel = data.kernel = module.kernels[0]
    context = Context(target=find(options.arch, options.ptx), contract=options.fp_contract)
    pass_manager.run(kernel, context, passes.OPT, level=options.opt_level)
    if not any(op.name == "dot" and is_float(op.result.type) for op in kernel.ops()):
        return None
    return launch(module, data, {
        **ALL_OPS, "dot": ALL_OPS["dot"]._replace(meaning=_from_the_first)})


def check_on_gpu(text: str, settings: Settings, device: Any) -> int:
    """Compile a program for the GPU at hand, run it there, and compare."""
    options = replace(settings.options, arch=device.target)
    module, data = analysed(text, options)
    want = launch(module, data)
    result = driver.compile(SourceFile("random.tc", text), options, ("ptx",))
    assert result.manifest is not None and result.module is not None
    entry = result.manifest["kernels"][0]
    got = device.launch(result.outputs["ptx"], result.module, data, entry["threads"],
                        entry["dynamic_shared_bytes"])
    compare(want, got, "on the GPU", other_order=in_other_order(text, options))
    return 2


def check_on_threads(text: str, settings: Settings) -> str:
    """Compile a program to LLVM IR, run that on simulated threads, and compare.  Gives the target.
    """
    sys.path.insert(0, str(ROOT / "tests" / "unit"))
    from test_emit_sources import in_some_order

    options = settings.options
    module, data = analysed(text, options)
    want = launch(module, data)
    result = driver.compile(SourceFile("random.tc", text), options, ("ll",))
    assert result.module is not None
    data.kernel = result.module.kernels[0]
    compare(want, in_some_order(result.outputs["ll"], data), "on threads",
            other_order=in_other_order(text, options))
    return options.arch


@dataclass
class Report:
    """What became of many programs."""

    programs: int = 0
    runs: int = 0
    refused: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)

    def text(self) -> str:
        refused = f", {self.refused} refused" if self.refused else ""
        return (f"{self.programs} programs, {self.runs} runs, {len(self.failures)} failures"
                + refused
                + "".join(f"\n  {seed}: {what}" for seed, what in self.failures))


def run_many(seeds: Iterable[int], every_pass: bool, device: Any = None,
             tell: Callable[[str], None] | None = None) -> Report:
    """Check the programs of some seeds."""
    report = Report()
    for seed in seeds:
        report.programs += 1
        try:
            text, settings = program(seed), Settings.draw(seed, every_pass)
            report.runs += (check(text, settings) if device is None
                            else check_on_gpu(text, settings, device))
        except Refused:
            report.refused += 1
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            report.failures.append((seed, what.split("\n")[0]))
            if tell:
                tell(f"program {seed}: {what[:2000]}")
        if tell and report.programs % 500 == 0:
            tell(report.text().split("\n")[0])
    return report
