"""Faults put into passes on purpose, so that the reducer has bugs to reduce.

    TRITONC_FAULT=drops_atomics python tests/faults.py FILE       exit status 3: the fault shows

A fault changes the kernel after a pass, or fails there.  It shows where the compiler fails by it,
or the kernel does not compute after the passes what it computed before them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # so that the program runs where nothing is installed

import numpy as np  # noqa: E402
import random_programs  # noqa: E402
from fuzz import Hang, time_limit  # noqa: E402
from random_programs import Arrays, Difference, Settings, _passes  # noqa: E402
from random_programs import compare as random_programs_compare  # noqa: E402

from tritonc import driver, passes  # noqa: E402
from tritonc.interp.interpreter import InterpreterError  # noqa: E402
from tritonc.ir.context import Context  # noqa: E402
from tritonc.ir.core import Block, Kernel, Op  # noqa: E402
from tritonc.launch.data import prepare  # noqa: E402
from tritonc.launch.interpreter import launch  # noqa: E402
from tritonc.launch.run_problems import read_problems  # noqa: E402
from tritonc.options import Options  # noqa: E402
from tritonc.pass_manager import PassError, PassFunction  # noqa: E402
from tritonc.source import CompileError, Diagnostics, SourceFile  # noqa: E402

SHOWS = 3
SETTINGS = Settings(Options(arch="sm_80", fp_contract=False, warnings=("no-all",)), False)


class Injected(Exception):
    """What a fault raises."""


class Fault(NamedTuple):
    """What goes wrong after which pass, and a program in which that shows."""

    after: str
    change: Callable[[Kernel], None]
    program: str


def _ops(kernel: Kernel, name: str) -> Iterator[tuple[Block, Op]]:
    for block in kernel.blocks:
        yield from ((block, op) for op in [*block.ops] if op.name == name)


def swaps(name: str) -> Callable[[Kernel], None]:
    """Operands in the wrong order."""
    def change(kernel: Kernel) -> None:
        for _, op in _ops(kernel, name):
            op.operands = op.operands[::-1]
    return change


def becomes(name: str, other: str) -> Callable[[Kernel], None]:
    """One operation for another."""
    def change(kernel: Kernel) -> None:
        for _, op in _ops(kernel, name):
            op.name = other
    return change


def states(name: str, key: str, old: object, new: object) -> Callable[[Kernel], None]:
    """A wrong attribute."""
    def change(kernel: Kernel) -> None:
        for _, op in _ops(kernel, name):
            if op.attributes.get(key) == old:
                op.attributes[key] = new
    return change


def drops(name: str) -> Callable[[Kernel], None]:
    """An operation without a result that is lost."""
    def change(kernel: Kernel) -> None:
        for block, op in _ops(kernel, name):
            used = any(v in other.inputs() for b in kernel.blocks for other in b.ops
                       for v in op.results)
            if not used:
                block.ops.remove(op)
    return change


def fails(*names: str) -> Callable[[Kernel], None]:
    """An exception where a kernel has all of these operations."""
    def change(kernel: Kernel) -> None:
        if all(any(_ops(kernel, name)) for name in names):
            raise Injected(" ".join(names))
    return change


def unguarded(kernel: Kernel) -> None:
    """Stores without their guards."""
    for _, op in _ops(kernel, "store"):
        op.guard = None


def crossed(kernel: Kernel) -> None:
    """Branches that go the other way."""
    for block in kernel.blocks[1:]:
        end = block.ops[-1]
        if end.name == "cond_br" and not any(op.name == "phi" for op in block.ops):
            end.blocks = end.blocks[::-1]


def loses_a_guard_with_a_reduction(kernel: Kernel) -> None:
    if any(_ops(kernel, "reduce")):
        unguarded(kernel)


def deep(kernel: Kernel) -> None:
    """Fails on loops in loops, by the number of phis."""
    if sum(1 for _ in _ops(kernel, "phi")) > 3:
        raise Injected("phis")


FAULTS = {
    "subtracts_the_other_way": Fault("peephole", swaps("fsub"), "samples/softmax.tc"),
    "divides_the_other_way": Fault("cse", swaps("fdiv"), "samples/softmax.tc"),
    "maximum_for_sum": Fault("licm", states("reduce", "kind", "fadd", "fmax"),
                             "samples/row_sum.tc"),
    "least_for_greatest": Fault("cse", states("reduce", "kind", "fmax", "fmin"),
                                "samples/softmax.tc"),
    "or_for_and": Fault("dce", becomes("and", "or"), "samples/matmul.tc"),
    "less_for_at_most": Fault("peephole", states("icmp", "predicate", "slt", "sle"),
                              "samples/vector_add.tc"),
    "drops_stores": Fault("dce", drops("store"), "samples/transpose.tc"),
    "drops_atomics": Fault("dce", drops("atomic_rmw"), "tests/run/later_histogram.tc"),
    "adds_for_or": Fault("cse", states("atomic_rmw", "kind", "add", "or"),
                         "tests/run/later_histogram.tc"),
    "unguarded_stores": Fault("licm", unguarded, "samples/layer_norm.tc"),
    "unguarded_stores_by_sums": Fault("specialize", loses_a_guard_with_a_reduction,
                                      "samples/layer_norm.tc"),
    "crossed_branches": Fault("simplify_cfg", crossed, "tests/run/paper_mandelbrot.tc"),
    "fails_on_products": Fault("select_dots", fails("dot"), "samples/matmul.tc"),
    "fails_on_chained_products": Fault("specialize", fails("dot", "reduce"),
                                       "samples/attention.tc"),
    "fails_on_scans": Fault("split_scans", fails("scan"), "tests/run/later_scan_argmax.tc"),
    "fails_on_remainders": Fault("unwrap_indices", fails("srem", "dot"),
                                 "tests/run/later_conv.tc"),
    "fails_on_square_roots": Fault("assign_layouts", fails("sqrt", "reduce"),
                                   "tests/run/paper_batchnorm_forward.tc"),
    "fails_on_many_phis": Fault("unify_exits", deep, "samples/layer_norm.tc"),
    "fails_on_barriers": Fault("insert_barriers", fails("barrier", "shared_load"),
                               "samples/transpose.tc"),
    "subtracts_for_adds": Fault("licm", becomes("fadd", "fsub"), "samples/vector_add.tc"),
}


@contextmanager
def installed(name: str) -> Iterator[None]:
    """The compiler with a fault."""
    fault = FAULTS[name]

    def wrong(function: PassFunction) -> PassFunction:
        def run(kernel: Kernel, context: Context) -> bool:
            function(kernel, context)
            fault.change(kernel)
            return True
        return run

    kept = passes.OPT, passes.BACKEND
    passes.OPT, passes.BACKEND = (
        [row._replace(function=wrong(row.function)) if row.name == fault.after else row
         for row in rows] for rows in kept)
    try:
        yield
    finally:
        passes.OPT, passes.BACKEND = kept


def shows(text: str, seconds: float = 0.3) -> bool:
    """Whether the fault that is installed shows in a program, within so many seconds."""
    try:
        with time_limit(seconds):
            return _shows(text)
    except Hang:
        return False


def _shows(text: str) -> bool:
    source = SourceFile("fault.tc", text)
    try:
        lowered = driver.compile(source, replace(SETTINGS.options, stop_after=driver.LOWER),
                                 ("tir",))
        problem, *_ = read_problems(source, SETTINGS.options, "tc", Diagnostics())
        module = lowered.module
        assert module is not None
        kernel = next(k for k in module.kernels if problem.kernel in (None, k.name))
        module.kernels.remove(kernel)
        module.kernels.insert(0, kernel)
        data = prepare(problem, module, kernel, {})
        want = launch(module, data)
    except (CompileError, InterpreterError, StopIteration, AssertionError):
        return False
    exact, random_programs.compare = random_programs.compare, nearly
    try:
        _passes(module, data, want, SETTINGS)
    except CompileError:
        return False
    except (Difference, InterpreterError, PassError):
        return True
    finally:
        random_programs.compare = exact
    return False


def nearly(want: Arrays, got: Arrays, where: str, signs: bool = True) -> None:
    """Raise Difference where a buffer is another than passes may make it: sums of floats have no
    order, and the `signs` of zeros do not count."""
    for name, array in want.items():
        if array.dtype.kind != "f":
            random_programs_compare({name: array}, {name: got[name]}, where)
            continue
        size = max(1.0, float(np.nanmax(np.abs(array), initial=0, where=np.isfinite(array))))
        if not np.allclose(array, got[name], rtol=1e-2, atol=1e-2 * size, equal_nan=True):
            raise Difference(f"{where}: {name}")


def main() -> int:
    with installed(os.environ["TRITONC_FAULT"]):
        return SHOWS if shows(Path(sys.argv[1]).read_text(encoding="utf-8")) else 0


if __name__ == "__main__":
    sys.exit(main())
