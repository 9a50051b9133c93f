"""Random kernels mean the same after each pass, alone and in line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from random_kernels import RandomKernel
from rewriting import CONTEXT, check_same_meaning, outcome, parse, same

from tritonc import pass_manager, passes
from tritonc.ir.core import Kernel
from tritonc.ir.syntax.text import print_kernel
from tritonc.ir.verify import verify
from tritonc.opt.loops.canonicalize_loops import canonicalize_loops

FUNCTIONS = list({row.name: row.function for row in passes.OPT}.items())


def prepared(seed: int) -> Kernel:
    return RandomKernel(seed).kernel


@pytest.mark.parametrize("seed", range(60))
def test_all_passes_in_line(seed: int) -> None:
    kernel = prepared(seed)
    hooks = pass_manager.Hooks(verify=lambda k, _: verify(k))
    check_same_meaning(
        kernel, lambda k: pass_manager.run(k, CONTEXT, passes.OPT, hooks=hooks), seeds=3)


@pytest.mark.parametrize("seed", range(60, 84))
def test_each_pass_after_the_ones_before(seed: int) -> None:
    """Finds the pass that is wrong, where the test above fails."""
    kernel = prepared(seed)
    wanted = outcome(kernel, 1)
    for row in passes.OPT:
        row.function(kernel, CONTEXT)
        verify(kernel, row.name)
        found = outcome(kernel, 1)
        if wanted is not None:
            assert found is not None and same(wanted, found), row.name


@pytest.mark.parametrize("name,function", FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_each_pass_alone_twice(name: str, function: passes.PassFunction) -> None:
    """A pass works on any kernel, and has nothing to do on its own result."""
    for seed in range(200, 208):
        kernel = prepared(seed)
        if name in ("strength_reduce", "licm", "hoist_addresses"):
            canonicalize_loops(kernel, CONTEXT)
        check_same_meaning(kernel, lambda k: function(k, CONTEXT), seeds=2)
        text = print_kernel(kernel)
        assert not function(kernel, CONTEXT), f"{name} changes its own result\n{text}"
        assert print_kernel(kernel) == text


def test_changed_is_told() -> None:
    """A pass that says that it changed nothing changed nothing."""
    for seed in range(300, 310):
        kernel = prepared(seed)
        for row in passes.OPT:
            before = print_kernel(kernel)
            if not row.function(kernel, CONTEXT):
                assert print_kernel(kernel) == before, row.name


def test_text_round_trip_after_the_passes() -> None:
    kernel = prepared(7)
    pass_manager.run(kernel, CONTEXT, passes.OPT)
    assert print_kernel(parse(print_kernel(kernel))) == print_kernel(kernel)


_PRINT = """
from random_kernels import RandomKernel
from tritonc import pass_manager, passes
from tritonc.ir.context import Context
from tritonc.ir.syntax.text import print_kernel
for seed in range(400, 410):
    kernel = RandomKernel(seed).kernel
    pass_manager.run(kernel, Context(), passes.OPT)
    print(print_kernel(kernel))
"""


def test_same_bytes_under_each_hash_seed() -> None:
    root = Path(__file__).parents[2]
    texts = set()
    for seed in ("0", "1", "77"):
        path = os.pathsep.join([str(root), str(Path(__file__).parent)])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        texts.add(subprocess.run([sys.executable, "-c", _PRINT], env=environment, check=True,
                                 capture_output=True, text=True).stdout)
    assert len(texts) == 1 and "kernel @k" in texts.pop()
