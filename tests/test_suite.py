"""bench/suite: each workload's problem is right in the interpreter, and the tables fit the files.

Problems run as the compiler's cost model makes them, at the sizes that they state.  On a GPU,
bench/suite.py checks them at the sizes that it measures.
"""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tritonc.launch.run_problems import run_problems
from tritonc.meta_parameters import BY_NAME as META
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "bench" / "suite").glob("*.tc"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_problems_are_right(path: Path) -> None:
    diagnostics = Diagnostics()
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    for outcome in run_problems(source, Options(), "tc", diagnostics):
        assert outcome.ok, outcome.line()
    assert [d.message for d in diagnostics.items] == []


def test_tables_name_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setattr(sys, "path", [*sys.path])  # which the scripts extend
    import suite_support

    assert {path.stem for path in FILES} <= set(suite_support.kinds())
    assert all(suite_support.source(stem).exists() for stem in suite_support.kinds())
    found = suite_support.workloads()
    assert len({workload.name for workload in found}) == len(found)
    for workload in found:
        for stage in workload.problem.stages:
            assert all(workload.number(text) > 0 for text in stage.range), workload.name
        for text in (workload.problem.flops, workload.problem.bytes):
            assert text is None or workload.number(text) > 0, workload.name
        assert workload.kind.group in suite_support.GROUPS
        text = workload.path.read_text(encoding="utf-8")
        known = {*re.findall(r"tunable int (\w+)", text), *META}
        assert all(set(tile) <= known for tile in workload.tiles), workload.name
        macros = set(re.findall(r"#ifndef (\w+)", text))
        assert set(workload.macros) <= macros, workload.name


@pytest.mark.parametrize("sizes", [None, ROOT / "bench" / "other_sizes.txt"])
def test_a_worker_finds_the_workload_of_a_job(
        sizes: Path | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the suite asks of the process that measures, without a GPU: of whatever sizes, it gets
    the workload that was named, alone."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    import suite
    import suite_support
    import suite_worker

    measured = []

    def measure(workload: Any, modules: Any, rounds: int, least_ms: float, skip: Any, say: Any,
                others: Any, screen: int) -> dict[str, Any]:
        measured.append((workload.name, modules, others))
        return {"failed": "not measured"}

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "suite_measure", SimpleNamespace(measure=measure))
    monkeypatch.setattr(suite_worker, "_module", lambda place: SimpleNamespace(
        kernels={}, manifest=place))
    worker = SimpleNamespace(do=lambda job, limit: suite_worker.measure(
        job, lambda text: None) | {"lost": False})
    options = Namespace(variants=0, no_known=True, rounds=3, least_ms=1, sizes=sizes)
    found = suite_support.workloads("softmax ", others=sizes)
    for one in found:
        key = suite._key(one, {}, False)
        row = suite.measure(worker, one, {key: {"at": "here"}}, options, tmp_path)  # type: ignore
        assert row["failed"] == "not measured"
    assert measured == [(one.name, {"ours": ({}, "here")}, {}) for one in found]
    assert len(found) > 2
