"""What `paper.py --try` found, into the tuning files beside the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paper_points import Point
from suite_support import Workload

from tritonc import stages
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune import tuning_file
from tritonc.tune.tuning_file import Entry


def keep(point: Point, rows: Sequence[Mapping[str, Any]], compiled: Mapping[str, Any], arch: str
         ) -> None:
    """The best of our candidates of a point, of `rows`, as an entry."""
    candidates = [row for row in rows if row["candidate"] in ("known", "whole", "split")]
    if candidates:
        best = min(candidates, key=lambda row: float(row["milliseconds"]))
        _add(point.workload, best, compiled[best["name"]], arch)


def values_of(workload: Workload) -> dict[str, int] | None:
    """The values that a tuning file has for exactly these sizes."""
    path = Path(tuning_file.beside(str(workload.path)))
    entries = tuning_file.read(str(path)) if path.exists() else []
    return next((dict(entry.tunables) for entry in entries if entry.size == dict(workload.sizes)
                 and entry.defines == workload.defines), None)


def _add(workload: Workload, best: Mapping[str, Any], made: Mapping[str, Any], arch: str) -> None:
    source = SourceFile(str(workload.path), workload.path.read_text(encoding="utf-8"))
    tokens = stages.preprocess(source, Options(defines=workload.defines), Diagnostics()).tokens
    entry = Entry(made["kernels"][0]["name"], arch, dict(workload.sizes), workload.defines,
                  tuning_file.source_hash(tokens), best["gpu"], float(best["milliseconds"]),
                  {name: value for name, value in {**made["tunables"], **made["meta"]}.items()
                   if (name, value) != ("cluster_k", 1)})
    path = Path(tuning_file.beside(str(workload.path)))
    old = tuning_file.read(str(path)) if path.exists() else []
    path.write_text(tuning_file.render(tuning_file.merge(old, [entry])), encoding="utf-8")
