"""moved_tiles: which tiles at edges may begin earlier, and that results stay the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonc import driver
from tritonc.backend.memory.versions.moved_tiles import moved_tiles
from tritonc.launch.run_problems import run_problems
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

PROGRAM = (Path(__file__).parents[1] / "run" / "tiles_begin_earlier.tc").read_text(encoding="utf-8")
STORE = "*(c + rm[:, newaxis] * N + rn) = sum;"
START = "int rm[32] = get_global_range(0)"


def axes(text: str) -> list[int]:
    """The axes of the grid that `moved_tiles` finds, where the backend asks it."""
    options = Options(arch="sm_80", stop_after="unwrap_indices")
    made = driver.compile(SourceFile("x.tc", text), options, ("tir",))
    assert made.module is not None
    return [*moved_tiles(made.module.kernels[0])]


def test_axes_of_a_product() -> None:
    assert axes(PROGRAM) == [0, 1]


@pytest.mark.parametrize(("old", "new", "left"), [
    (STORE, STORE.replace("= sum", "= sum + (float)(0 ... 32)[:, newaxis]"), [1]),  # the place
    (STORE, STORE + " *(c + rn) = sum[+, :];", []),  # a sum of several rows; stores meet others
    (STORE, STORE + " *(c + get_program_id(0)) = sum[+, :][+];", []),
    (START, "int rm[32] = get_program_id(0) * 16 + 0 ... 32", [1]),  # tiles overlap
    ("rk[8] = 0 ... 8", "rk[8] = (0 ... 8) + get_program_id(0)", [1]),
    ("@((rm < M)[:, newaxis] && rn < N)", "@(rn < N)", [1]),  # rows behind M are stored too
    ("restrict const float* a", "const float* a", []),  # a may be what another program stores
    ("float sum[32, 32] = 0", "float sum[32, 32] = *(c + rm[:, newaxis] * N + rn)", []),
])
def test_what_hinders(old: str, new: str, left: list[int]) -> None:
    assert old in PROGRAM
    assert axes(PROGRAM.replace(old, new)) == left


@pytest.mark.parametrize("sizes", ["M = 72, N = 44, K = 20", "M = 33, N = 36, K = 8",
                                   "M = 40, N = 45, K = 20", "M = 31, N = 64, K = 9"])
def test_the_results_stay_the_same(sizes: str) -> None:
    text = PROGRAM.replace("M = 72, N = 44, K = 20", sizes)
    told = {"M": 65, "N": 65, "K": 64}  # tiles have room
    made = driver.compile(SourceFile("x.tc", text), Options(
        arch="sm_80", stop_after="specialize", sizes=told), ("tir",))
    problem = "\n".join(line for line in text.splitlines() if line.startswith("//!"))
    moved = f"{problem}\n{made.outputs['tir']}"
    assert "smin" in moved
    (outcome,) = run_problems(SourceFile("x.tir", moved), Options(), "tir", Diagnostics())
    assert outcome.ok, outcome.line()
