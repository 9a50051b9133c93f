"""The points of the paper's four figures, and the file of what was measured of each."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import suite_support
from paper_kernels import task_of
from suite_support import Workload

FIGURES = (1, 8, 10, 11)
COLUMNS = ("figure", "type", "point", "candidate", "milliseconds", "spread", "tflops", "error",
           "intensity", "values", "gpu", "commit", "date")
SQUARE, RECURRENT, TRANSFORMER, OTHER = "square", "DeepSpeech2", "transformer", "like DeepSpeech2"
GROUPS = {  # figure 8: products by (M, N, K)
    (512, 512, 512): SQUARE, (1024, 1024, 1024): SQUARE, (2048, 2048, 2048): SQUARE,
    (35, 8457, 1760): RECURRENT, (6144, 32, 1536): RECURRENT, (3072, 128, 1024): RECURRENT,
    (1760, 128, 1760): RECURRENT, (7680, 64, 2560): RECURRENT, (1760, 7133, 1760): RECURRENT,
    (512, 32, 512): TRANSFORMER, (512, 32, 2048): TRANSFORMER, (2048, 32, 512): TRANSFORMER,
    (2560, 16, 2560): OTHER, (2560, 32, 2560): OTHER, (2560, 64, 2560): OTHER,
    (2560, 128, 2560): OTHER,
}  # fmt: skip


# Where few programs share a long sum: the tuned kernel without split-K, and with it, by clusters
# of blocks that each take a part of the sum.
SPLIT = {"whole": {"cluster_k": 1}, "split 2": {"cluster_k": 2}, "split 4": {"cluster_k": 4}}
FEW = 128  # columns


@dataclass(frozen=True)
class Point:
    """One place of a figure's axis.  `others` are measured beside it, `variants` are the tuned
    kernel with other values of some tunables."""

    figure: int
    label: str
    type: str
    workload: Workload
    flops: float
    bytes: float = 0.0
    others: Mapping[str, Workload] = field(default_factory=dict)
    variants: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.figure} {self.type} {self.label}"

    @property
    def intensity(self) -> float:
        """Operations for each byte that memory must move at least; 0 where nobody asks."""
        return self.flops / self.bytes if self.bytes else 0.0


def points() -> list[Point]:
    """All points, figure after figure."""
    found: list[Point] = []
    every = suite_support.workloads(collection="paper")
    products = {tuple(w.sizes.values()): w for w in every if w.stem == "product_f32"}
    naive = {task_of(w.own): w for w in every if w.stem == "shift_naive"}
    for w in every:
        task = f"task {task_of(w.own)}"
        sizes = tuple(w.sizes.values())
        label = "x".join(map(str, sizes))
        flops = float(w.number(w.problem.flops or "0"))
        if w.stem == "product_f32":
            moved = float(w.number(w.problem.bytes or "0"))
            if sizes in GROUPS:
                found.append(Point(8, label, "float", w, flops, moved,
                                   variants=SPLIT if sizes[1] <= FEW else {}))
            if sizes[0] == sizes[2] == 1760 and sizes[1] <= 512:
                found.append(Point(1, label, "float", w, flops, moved))
        elif w.stem == "product_half" and sizes in GROUPS:
            found.append(Point(8, label, str(w.own["TYPE"]), w, flops,
                               variants=SPLIT if sizes[1] <= FEW else {}))
        elif w.stem in ("conv_f32", "conv_half"):
            found.append(Point(10, task, "half" if "half" in w.stem else "float", w, flops))
        elif w.stem == "shift_f32":
            own = w.own
            ceiling = products[own["H"] * own["W"] * own["B"], w.sizes["F"], own["C"]]
            found.append(Point(11, task, "float", w, flops, others={
                "naive": naive[task_of(own)], "ceiling": ceiling}))
            found.append(Point(11, f"{task}, 1x1", "float", ceiling, flops))
    return sorted(found, key=lambda point: point.figure)


def write_points(folder: Path, rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]
                 ) -> None:
    """Rows into points.csv, where they replace those of their points; what the machine is, and what
    was "skipped" until it is measured, into machine.json."""
    folder.mkdir(parents=True, exist_ok=True)
    new = {_place(row) for row in rows}
    kept = [row for row in read_points(folder) if _place(row) not in new]
    every = sorted([*kept, *rows], key=lambda row: (int(row["figure"]), row["type"]))
    with (folder / "points.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(every)
    machine = folder / "machine.json"
    known = json.loads(machine.read_text()) if machine.exists() else {}
    known |= {k: v for k, v in about.items() if k not in ("where", "commit")}
    if run := known.get("run"):  # of each commit the last one
        known["runs"] = {**known.get("runs", {}), run["commit"]: run["command"]}
    measured = {" ".join(place) for place in new}
    missed = {**known.get("missed", {}), **known.pop("skipped", {})}
    known["missed"] = {name: why for name, why in missed.items() if name not in measured}
    machine.write_text(json.dumps(known, indent=1) + "\n")


def read_points(folder: Path) -> list[dict[str, str]]:
    """The rows of points.csv, if there is one."""
    path = folder / "points.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def values_measured(folder: Path, point: Point, candidate: str) -> dict[str, int] | None:
    """The tunables of a candidate that was measured before."""
    for row in read_points(folder):
        if _place(row) == (str(point.figure), point.type, point.label) and (
                row["candidate"] == candidate and "=" in row["values"]):
            return {name: int(value) for name, value in (
                pair.split("=") for pair in row["values"].split())}
    return None


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    return str(row["figure"]), str(row["type"]), str(row["point"])
