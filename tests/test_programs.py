"""Programs of tests/run in depth: other sizes, every target, and machines that are simulated.

Without --thorough each program meets one simulated target, in turn, and every other one is
assembled for one; with it, for all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import (
    PROGRAMS,
    PTXAS,
    TARGETS,
    Setting,
    assemble,
    interpret,
    settings,
    simulate,
)

from tritonc.launch.run_problems import run_problems
from tritonc.options import NATIVE
from tritonc.source import Diagnostics

OTHERS = [setting for path in PROGRAMS for setting in settings(path)]
BY_NAME = [pytest.param(number, path, id=path.stem) for number, path in enumerate(PROGRAMS)]


def targets(number: int, thorough: bool) -> tuple[str, ...]:
    return TARGETS if thorough else (TARGETS[number % len(TARGETS)],)


@pytest.mark.parametrize("setting", OTHERS, ids=lambda s: s.name)
def test_other_sizes(setting: Setting) -> None:
    interpret(setting)


@pytest.mark.parametrize("number, path", BY_NAME)
def test_simulated(number: int, path: Path, thorough: bool) -> None:
    """After the backend the result is the same, and no barrier is missing."""
    every = [Setting(path), *(settings(path) if thorough else ())]
    for setting in every:
        for target in targets(number, thorough):
            simulate(setting, target)


@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
@pytest.mark.parametrize("number, path", BY_NAME)
def test_assembled(number: int, path: Path, thorough: bool, tmp_path: Path) -> None:
    if number % 2 and not thorough:
        pytest.skip("needs --thorough")
    for target in targets(number // 2 + 1, thorough):
        assemble(Setting(path), target, tmp_path)


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
