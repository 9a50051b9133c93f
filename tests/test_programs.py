"""Programs of tests/run in depth: other sizes, every target, and machines that are simulated.

Without --thorough each program meets one target, in turn, unless another test simulates it; the IR
is verified after each pass for a third.  A third is assembled for the target, of compilations that
differ in macros each fifth.  Of other sizes, a third is interpreted that no other test simulates.
With it, all meet all targets.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import PROGRAMS, PTXAS, TARGETS, Setting, interpret, ptxas, settings, simulate

from tritonc.launch.run_problems import run_problems
from tritonc.options import NATIVE
from tritonc.source import Diagnostics

OTHERS = [setting for path in PROGRAMS for setting in settings(path)]
SIMULATED = ("computed_operands", "gathered_groups", "gathered_operand", "groups_of_weights",
             "zero_points")  # by tests of theirs, at all sizes
BY_NAME = [pytest.param(number, path, id=path.stem) for number, path in enumerate(PROGRAMS)]


def targets(number: int, thorough: bool) -> tuple[str, ...]:
    return TARGETS if thorough else (TARGETS[number % len(TARGETS)],)


@pytest.mark.parametrize("number, setting", [
    pytest.param(number, setting, id=setting.name) for number, setting in enumerate(OTHERS)])
def test_other_sizes(number: int, setting: Setting, thorough: bool) -> None:
    if (number % 3 or setting.path.stem in SIMULATED) and not thorough:
        pytest.skip("needs --thorough")
    interpret(setting)


@pytest.mark.parametrize("number, path", BY_NAME)
def test_simulated(number: int, path: Path, thorough: bool, tmp_path: Path) -> None:
    """After the backend the result is the same, no barrier is missing, and ptxas takes the code."""
    if path.stem in SIMULATED and not thorough:
        pytest.skip("needs --thorough")
    every = [Setting(path, verify_each=thorough or number % 3 == 0)]
    every += settings(path) if thorough else []
    assembled = PTXAS is not None and (thorough or number // len(TARGETS) % 3 == 0)
    for setting in every:
        for target in targets(number, thorough):
            # Beside "ll" kernels keep their operations, which for PTX alone they give up.
            results = simulate(setting, target, ("ll", "ptx") if assembled else ("manifest",),
                               1 if thorough else 5)
            for text in {result.outputs.get("ptx"): None for result in results}:
                if text is not None:
                    ptxas(text, target, tmp_path)


@pytest.mark.gpu
@pytest.mark.parametrize("setting", OTHERS, ids=lambda s: s.name)
def test_other_sizes_on_the_gpu(setting: Setting) -> None:
    interpreted = interpret(setting)
    options, sizes = setting.options(arch=NATIVE)
    outcomes = run_problems(setting.source, options, "tc", Diagnostics(), device="cuda",
                            sizes=sizes)
    for outcome, other in zip(outcomes, interpreted, strict=True):
        assert outcome.ok, outcome.line()
        assert outcome.after.keys() == other.after.keys()
