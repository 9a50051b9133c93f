"""bench/paper: what `make paper` does without a GPU, and its tables.

On a GPU the same command checks each kernel at the sizes of the paper before it times it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "bench" / "paper"
FILES = [*FOLDER.glob("*.tc"), *FOLDER.glob("*.tir")]


def test_every_kernel_is_right_in_the_interpreter() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "paper.py"), "--check"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = re.findall(r"^(\w+): .*: ok \(interpreter", done.stdout, re.MULTILINE)
    assert {path.stem for path in FILES} <= set(verdicts)


def test_points_are_those_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setattr(sys, "path", [*sys.path])  # which the scripts extend
    import paper
    import paper_kernels
    import paper_points
    import suite_support

    stems = {path.stem for path in FILES if not path.stem.startswith("listing")}
    assert set(suite_support.kinds("paper")) == stems
    points = paper_points.points()
    count = {(figure, kind): len([p for p in points if (p.figure, p.type) == (figure, kind)])
             for figure in paper_points.FIGURES for kind in ("float", "half", "bfloat16")}
    assert count[1, "float"] == 6 and count[8, "float"] == len(paper_points.GROUPS) == 16
    assert count[8, "half"] == count[8, "bfloat16"] == 16
    assert count[10, "float"] == 7 and count[10, "half"] == 6 and count[11, "float"] == 10
    tasks = {p.label: p for p in points if p.figure == 10 and p.type == "float"}
    first = tasks["task 1"]
    assert first.flops == 2 * 4 * 112 * 112 * 128 * 64 * 9 and dict(first.workload.sizes) == {
        "F": 128}
    assert paper_kernels.task_of(tasks["task 7"].workload.own) == 7
    assert {"ours", "told"} <= set(paper.builds(first))


def test_points_replace_those_measured_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path
                                              ) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    import paper_points

    row = dict.fromkeys(paper_points.COLUMNS, "1")
    paper_points.write_points(tmp_path, [row, {**row, "point": "2"}], {"gpu": "none"})
    paper_points.write_points(tmp_path, [{**row, "candidate": "new"}], {"gpu": "none"})
    found = [(r["point"], r["candidate"]) for r in paper_points.read_points(tmp_path)]
    assert found == [("2", "1"), ("1", "new")]
