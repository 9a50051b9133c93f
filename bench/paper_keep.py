"""What `paper.py --try` found, into the tuning files beside the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paper_points import Point
from suite_support import Workload

from tritonc import driver
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune import tuning_file
from tritonc.tune.tuning_file import Entry

NAMES = {"default": "ours"}


def keep(point: Point, rows: Sequence[Mapping[str, Any]], compiled: Mapping[str, Any], arch: str
         ) -> None:
    """The best of our candidates of each kernel of a point, of `rows`, as an entry."""
    own = [row for row in rows if row["candidate"] in ("default", "told", "whole", "split")]
    found = [(point.workload, own)]
    found += [(workload, [row for row in rows if row["candidate"] == name])
              for name, workload in point.others.items() if workload.tiles]
    for workload, candidates in found:
        if candidates:
            best = min(candidates, key=lambda row: float(row["milliseconds"]))
            _add(workload, best, compiled[best["name"]], arch)


def _add(workload: Workload, best: Mapping[str, Any], made: Mapping[str, Any], arch: str) -> None:
    source = SourceFile(str(workload.path), workload.path.read_text(encoding="utf-8"))
    tokens = driver.preprocess(source, Options(defines=workload.defines), Diagnostics()).tokens
    entry = Entry(made["kernels"][0]["name"], arch, dict(workload.sizes), workload.defines,
                  tuning_file.source_hash(tokens), best["gpu"], float(best["milliseconds"]),
                  {**made["tunables"], **made["meta"]})
    path = Path(tuning_file.beside(str(workload.path)))
    old = tuning_file.read(str(path)) if path.exists() else []
    path.write_text(tuning_file.render(tuning_file.merge(old, [entry])), encoding="utf-8")
