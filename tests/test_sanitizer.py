"""NVIDIA's compute-sanitizer finds nothing in samples and products, or in every program.

Needs it, and a GPU.  Every program, by 16 processes:

    python -m pytest --gpu --thorough -n 16 tests/test_sanitizer.py

memcheck: accesses outside of buffers.  racecheck: hazards in shared memory.  synccheck: barriers
that not all threads reach.  initcheck: reads of global memory that nothing wrote.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SANITIZER = shutil.which("compute-sanitizer") or shutil.which(
    "compute-sanitizer", path="/usr/local/cuda/bin")
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
PROGRAMS = [*sorted((ROOT / "samples").glob("*.tc")),
            *(ROOT / "tests" / "run" / f"{name}.tc" for name in (
                "later_attention", "later_dot", "language/expressions_products"))]
# Four to a process: starting it takes longer than what it looks at.
GROUPS = [PROGRAMS[start : start + 4] for start in range(0, len(PROGRAMS), 4)]
OTHERS = ("bench/suite", "tests/run")

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(SANITIZER is None,
                                                  reason="needs compute-sanitizer")]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("folder", OTHERS)
@pytest.mark.parametrize("start", range(24))
def test_every_other_program(start: int, folder: str, tool: str, thorough: bool) -> None:
    if not thorough:
        pytest.skip("needs --thorough")
    paths = [path for path in sorted((ROOT / folder).rglob("*.tc")) if path not in PROGRAMS]
    look(paths[start::24], "native", tool)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("arch", ["native", "sm_80"])
@pytest.mark.parametrize("paths", GROUPS, ids=lambda paths: "+".join(p.stem for p in paths))
def test_sanitizer_finds_nothing(paths: list[Path], arch: str, tool: str) -> None:
    look(paths, arch, tool)


def look(paths: list[Path], arch: str, tool: str) -> None:
    done = subprocess.run(
        [SANITIZER or "", "--tool", tool, "--error-exitcode", "9", sys.executable, "-m",
         "tritonc.cli.main", "test", *map(str, paths), "--device=cuda", f"--arch={arch}"],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join(
            [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout or "0 hazards displayed" in done.stdout
    assert done.stdout.count(": ok (cuda") >= len(paths), done.stdout
