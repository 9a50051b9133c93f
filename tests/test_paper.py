"""bench/paper: what `make paper` does without a GPU, and its tables.

On a GPU the same command checks each kernel at the sizes of the paper before it times it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tritonc import driver
from tritonc.options import Options
from tritonc.source import SourceFile

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "bench" / "paper"
FILES = [*FOLDER.glob("*.tc"), *FOLDER.glob("*.tir")]


def test_every_kernel_is_right_in_the_interpreter() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "paper.py"), "--check"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = re.findall(r"^(\w+).*: ok \(interpreter", done.stdout, re.MULTILINE)
    assert {path.stem for path in FILES} <= set(verdicts)
    assert "product_half -DTYPE=bfloat16: " in done.stdout


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["listing_1.tc", "listing_4.tc", "listing_7.tir", "listing_8.tc"])
def test_the_listings_compile(name: str, arch: str) -> None:
    """As printed but for what the head of each file names."""
    path = FOLDER / name
    source = SourceFile(name, path.read_text(encoding="utf-8"))
    made = driver.compile(source, Options(arch=arch), ("ptx",), language=path.suffix[1:])
    assert ".entry" in made.outputs["ptx"]


def test_what_is_tried_nests_in_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    import paper
    import paper_points
    import paper_tries

    for point in paper_points.points():
        found = paper_tries.of_workload(point.workload)
        assert 10 < len(found) < 500 and len(paper.builds(point, "all")) > len(found)
    few = next(p for p in paper_points.points() if p.label == "2560x16x2560" and p.type == "float")
    assert {"TM": 64, "TN": 16, "TK": 16, "cluster_k": 8} in paper_tries.of_workload(few.workload)
    assert not any("cluster_k" in row for row in paper_tries.tries(4096, 4096, 4096, {
        "TM": (64,), "TN": (64,), "TK": (16,)}))


def test_compilations_are_kept_and_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    import paper_built

    job = {"key": "k", "do": "compile", "collection": "paper", "stem": "shift_naive", "defines": (),
           "tune": {}, "options": {}, "sizes": {}, "arch": "sm_80"}
    made = paper_built.all_compiled([job], 1, tmp_path)
    assert Path(made["k"]["at"]).with_suffix(".ptx").exists()
    monkeypatch.setattr(paper_built, "do_all", lambda jobs, *rest: iter(jobs))
    again = paper_built.all_compiled([{**job, "key": "l"}], 1, tmp_path)
    assert again["l"]["at"] == made["k"]["at"]  # not compiled again
    assert len((tmp_path / paper_built.INDEX).read_text().splitlines()) == 1


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
    assert {"ours", "known"} <= set(paper.builds(first))


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


def test_every_figure_says_what_measured_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    import paper_points

    rows = paper_points.read_points(ROOT / "docs" / "paper")
    for number in paper_points.FIGURES:
        text = (ROOT / "docs" / "paper" / f"figure_{number}.svg").read_text(encoding="utf-8")
        mine = [row for row in rows if row["figure"] == str(number)]
        assert mine
        for row in mine:
            assert row["gpu"] in text and f"commit {row['commit']}: python bench/paper.py" in text


def test_the_search_says_how_far_the_rule_is_from_the_best(monkeypatch: pytest.MonkeyPatch,
                                                           tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    import paper_search

    tile = {"TM": 64, "TN": 64, "TK": 8}
    nesting = dict(zip(paper_search.NESTING, (32, 16, 4, 4), strict=True))
    size = "1x1x1"
    records = [{"size": size, "candidate": values, "milliseconds": ms, "error": error,
                "by default": ms == 1.8}
               for values, ms, error in ((tile, 2.0, ""), ({**tile, **nesting}, 1.6, ""),
                                         (tile, 1.8, ""),
                                         ({**tile, "TK": 16}, None, "it does not run\n"))]
    found = paper_search.summarised(records, size, (64, 64, 8))
    assert found["best nesting"] == (32, 16, 4, 4) and found["rule by the best"] == 1.25
    assert (found["candidates"], found["timed"]) == (3, 2)
    assert found["tiles where the rule is best"] == 0 and found["default"] == 1.8
    assert found["default tile by the best"] == 1.25
    paper_search.write(tmp_path / "search.csv", records)
    assert len((tmp_path / "search.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize("stem", ["product_f32", "conv_f32", "shift_f32"])
def test_large_tiles_on_cuda_cores_have_two_blocks(stem: str) -> None:
    """One of 129 registers would leave half of a multiprocessor without work at each barrier."""
    path = FOLDER / f"{stem}.tc"
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    options = Options(arch="sm_90a", tune={"TM": 128, "TN": 128, "TK": 16})
    assert ".minnctapersm 2" in driver.compile(source, options, ("ptx",)).outputs["ptx"]


def test_slices_of_a_product_on_wgmma_are_stored() -> None:
    """Where what wgmma leaves has an axis of slices, which the stored tile has not."""
    path = FOLDER / "conv_half.tc"
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    options = Options(arch="sm_90a", tune={"TM": 64, "TN": 64, "TK": 64, "slices": 2},
                      defines=("C=64", "R=1", "S=1", "P=14", "Q=14", "B=4"))
    assert "wgmma" in driver.compile(source, options, ("ptx",)).outputs["ptx"]


def test_a_point_that_fails_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path
                                                 ) -> None:
    """The others are measured, and the page names it with the reason."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    import argparse
    import json
    from types import SimpleNamespace

    import paper
    import paper_page
    import paper_points

    chosen = [p for p in paper_points.points() if p.figure == 8 and p.type == "float"][:2]

    def measure(worker: object, point: paper_points.Point, *rest: object) -> list[dict[str, str]]:
        if point is chosen[0]:
            raise RuntimeError("no result after 30 s (ours timed)")
        return [{**dict.fromkeys(paper_points.COLUMNS, "1"), "figure": "8", "type": "float",
                 "point": point.label, "candidate": name} for name in ("default", "cublas")]

    monkeypatch.setattr(paper, "Worker", lambda log: SimpleNamespace(
        do=lambda job, limit: {"gpu": "none", "torch": "", "cudnn": "", "triton": ""},
        stop=lambda: None))
    monkeypatch.setattr(paper, "compile_all", lambda *rest: ({}, {}))
    monkeypatch.setattr(paper, "measure", measure)
    options = argparse.Namespace(results=tmp_path, built=None, no_triton=True, started=0.0, limit=0,
                                 commit="1")
    paper.measure_all(chosen, options, tmp_path)
    machine = json.loads((tmp_path / "machine.json").read_text())
    assert machine["missed"] == {chosen[0].name: "RuntimeError: no result after 30 s (ours timed)"}
    assert machine["run"]["points"] == 1
    page = paper_page.tables(tmp_path)
    assert "(RuntimeError: no result after 30 s (ours timed)): figure 8 float 512x512x512." in page
    assert f"| {chosen[1].label} | 1.0000 |" in page
