"""Random programs mean the same around every pass, and so do those that once did not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import random_programs
from random_programs import Difference, Settings, check, check_on_gpu, compare, program, run_many
from simulator import machine as simulate

from tritonc import passes
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.core import Kernel, Module
from tritonc.ir.ops import OPS
from tritonc.launch.data import Data
from tritonc.launch.interpreter import launch
from tritonc.options import Options
from tritonc.sema.predicates import guards

EVERY = Settings(Options(fp_contract=False), every_pass=True)
FOUND = {
    "a division whose own guard has no value in the padding": """
//! range: 1
//! arg: x = randint(0, 99, 33)
//! arg: y = zeros(33)
//! arg: n = 7
//! expect: y = np.where(x / (x % 8 + 1) > 3, x % n, 0)
kernel void f(int* x, int* y, int n) {
  int v[33] = *(x + 0 ... 33);
  if (v / ((v & 7) + 1) > 3)
    *(y + 0 ... 33) = v % n;
}
""",
}


@pytest.mark.parametrize("first", range(0, 16, 4))
def test_random_programs(first: int) -> None:
    report = run_many(range(first, first + 4), every_pass=True)
    assert not report.failures, report.text()
    assert report.runs > 5 * 6


def test_programs_depend_on_their_seed_alone() -> None:
    assert program(5) == program(5) != program(6)


def test_orders_of_a_sum_are_no_error() -> None:
    """But no element may differ that is the same in two orders, or by more than a few times."""
    want, other = ({"y": np.array([1, third], np.float32)} for third in (3, 3.25))
    compare(want, {"y": np.array([1, 2.5], np.float32)}, "here", other_order=other)
    for wrong in ([1.25, 3], [1, 9]):
        with pytest.raises(Difference):
            compare(want, {"y": np.array(wrong, np.float32)}, "here", other_order=other)


def test_a_wrong_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def dce(kernel: Kernel, context: Any) -> bool:
        """Loses the last store."""
        for block in kernel.blocks:
            for op in reversed(block.ops):
                if op.name == "store":
                    block.ops.remove(op)
                    return True
        return False

    rows = [row._replace(function=dce) if row.name == "dce" else row for row in passes.OPT]
    monkeypatch.setattr(passes, "OPT", rows)
    for every in (False, True):
        with pytest.raises(Difference, match="after dce: "):
            check(next(iter(FOUND.values())), Settings(EVERY.options, every))


@pytest.mark.parametrize("text", FOUND.values(), ids=list(FOUND))
def test_programs_that_were_compiled_wrongly(text: str) -> None:
    check(text, EVERY)


class Machine:
    """Stands for a GPU: simulates it, and may be wrong in one element."""

    target = "sm_90a"

    def __init__(self, wrong: bool) -> None:
        self.wrong = wrong

    def launch(self, ptx: str, module: Module, data: Data, threads: int, shared: int) -> Any:
        assert ".entry k(" in ptx and threads % 32 == 0
        after = launch(module, data, ALL_OPS, simulate.handlers())
        if self.wrong:
            after["counters"][3] += 1
        return after


def test_comparison_with_a_gpu() -> None:
    assert check_on_gpu(program(1), EVERY, Machine(wrong=False)) == 2
    with pytest.raises(Difference, match=r"on the GPU: counters\[3\]"):
        check_on_gpu(program(1), EVERY, Machine(wrong=True))


def test_the_oracle_knows_what_the_language_says() -> None:
    """No pass runs here but those that a program cannot do without."""
    for seed in range(40, 50):
        check(program(seed), Settings(replace(EVERY.options, opt_level=0), False))


@pytest.mark.parametrize("name, new", [
    ("srem", lambda m, op, a, b: a - b * (a // b)),  # rounds down
    ("smin", lambda m, op, a, b: a),
    ("ashr", lambda m, op, a, b: a),
])
def test_the_oracle_sees_a_mistake_before_all_passes(
        name: str, new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
//! range: 1
//! arg: x = [-7, 5, -9, 8]
//! arg: y = zeros(4)
//! expect: y = y
kernel void f(int* x, int* y) {
  int r[4] = 0 ... 4, v[4] = *(x + r);
  *(y + r) = v % 4 + min(v, 2) + (v >> 1);
}
"""
    assert check(text, EVERY) > 2
    monkeypatch.setitem(OPS, name, OPS[name]._replace(meaning=new))
    with pytest.raises(Difference, match=r"against the oracle: y\["):
        check(text, EVERY)


def test_programs_that_nest_too_deeply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "_MOST", 0)
    monkeypatch.setattr(random_programs, "LIMIT", random_programs.LIMIT.replace("64", "0"))
    report = run_many(range(12), every_pass=False)
    assert report.refused and not report.failures, report.text()
