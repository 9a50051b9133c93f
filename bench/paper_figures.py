"""The four figures of the paper, drawn from the measured points by matplotlib, as SVG."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from paper_points import GROUPS, read_points

matplotlib.use("svg")
from matplotlib import pyplot as plt

Rows = Sequence[Mapping[str, str]]
COLOURS = {"tuned": "#1f5fa8", "known": "#4f93d8", "default": "#9fc5ee", "cublas": "#6aa84f",
           "cudnn": "#6aa84f", "triton": "#e08a2e", "naive": "#999999", "ceiling": "#6aa84f",
           "split": "#0b2f59", "whole": "#7f9fc4"}
NAMES = {"tuned": "tritonc, tuned", "known": "sizes known", "default": "tritonc",
         "cublas": "cuBLAS", "cudnn": "cuDNN, best layout", "triton": "Triton",
         "naive": "shift kernel + cuBLAS", "ceiling": "1x1 convolution (the ceiling)",
         "split": "tritonc, with split-K", "whole": "tritonc, without split-K"}


def draw(folder: Path) -> list[Path]:
    """Draw what there are points of; the files."""
    rows = read_points(folder)
    machine = json.loads((folder / "machine.json").read_text())
    plt.rcParams.update({"svg.hashsalt": "paper", "font.size": 8, "svg.fonttype": "none"})
    made = []
    for number, make in ((1, _roofline), (8, _products), (10, _convolutions), (11, _shifts)):
        mine = [row for row in rows if row["figure"] == str(number)]
        if mine:
            path = folder / f"figure_{number}.svg"
            figure = make(mine, machine)
            figure.tight_layout(rect=(0, 0.03, 1, 1))
            figure.text(0.01, 0.005, measured_by(mine, machine), fontsize=6, color="#666666")
            figure.savefig(path, metadata={"Date": None})
            plt.close(figure)
            made.append(path)
    return made


def measured_by(rows: Rows, machine: Mapping[str, Any]) -> str:
    """The GPUs and commits of some points; the command, where one run measured all of them."""
    gpus = ", ".join(dict.fromkeys(row["gpu"] for row in rows))
    commits = ", ".join(dict.fromkeys(row["commit"] for row in rows))
    command = machine.get("runs", {}).get(commits)
    return f"{gpus}, commit {commits}" + (f": python {command}" if command else "")


def _roofline(rows: Rows, machine: Mapping[str, Any]) -> Any:
    figure, axes = plt.subplots(figsize=(5.5, 4))
    intensity = sorted({float(row["intensity"]) for row in rows})
    peaks = machine["peaks"]
    low, high = intensity[0] * 0.8, intensity[-1] * 1.25
    ridge = peaks["f32"] / peaks["memory"]
    line = [x for x in (low, ridge, high) if low <= x <= high]
    axes.plot(line, [min(peaks["f32"], x * peaks["memory"]) * 1e-12 for x in line], "k-",
              label="roofline (measured peaks)")
    for name in ("tuned", "known", "default", "cublas", "triton"):
        mine = sorted((float(r["intensity"]), float(r["tflops"])) for r in rows
                      if r["candidate"] == name)
        if mine:
            axes.plot(*zip(*mine), "o-", color=COLOURS[name], label=NAMES[name], markersize=4)
    axes.set(xscale="log", yscale="log", xlabel="Arithmetic intensity (FLOP/byte)",
             ylabel="TFLOP/s", title=f"C = A B^T, 1760 x 1760 x N, float, {machine['gpu']}")
    axes.legend()
    axes.grid(True, which="both", alpha=0.2)
    return figure


def _bars(axes: Any, rows: Rows, places: Sequence[str], names: Sequence[str]) -> None:
    """A group of bars for each place, one for each candidate that was measured."""
    found = {(row["point"], row["candidate"]): float(row["tflops"]) for row in rows}
    names = [name for name in names if any((place, name) in found for place in places)]
    width = 0.8 / max(1, len(names))
    for i, name in enumerate(names):
        axes.bar([x + (i - (len(names) - 1) / 2) * width for x in range(len(places))],
                 [found.get((place, name), 0) for place in places], width,
                 color=COLOURS[name], label=NAMES[name])
    axes.set_xticks(range(len(places)), places, rotation=35, ha="right")
    axes.set_ylabel("TFLOP/s")
    axes.grid(True, axis="y", alpha=0.2)


def _legend(axes: Any, columns: int) -> None:
    """Above the bars, which it would hide."""
    axes.set_title(axes.get_title(), pad=40 if columns < 7 else 24)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=columns, frameon=False)


def _products(rows: Rows, machine: Mapping[str, Any]) -> Any:
    kinds = [kind for kind in ("float", "half", "bfloat16") if any(r["type"] == kind for r in rows)]
    figure, panels = plt.subplots(len(kinds), 1, figsize=(9, 3.2 * len(kinds)), squeeze=False)
    for (axes,), kind in zip(panels, kinds):
        mine = [row for row in rows if row["type"] == kind]
        measured = {row["point"] for row in mine}
        places = [label for size in GROUPS if (label := "x".join(map(str, size))) in measured]
        _bars(axes, mine, places, ("tuned", "known", "default", "split", "whole", "cublas",
                                   "triton"))
        axes.set_title(f"Products M x N x K, {kind}, {machine['gpu']}")
        _legend(axes, 7)
    return figure


def _convolutions(rows: Rows, machine: Mapping[str, Any]) -> Any:
    kinds = [kind for kind in ("float", "half") if any(row["type"] == kind for row in rows)]
    figure, panels = plt.subplots(1, len(kinds), figsize=(4.8 * len(kinds), 3.4), squeeze=False)
    for axes, kind in zip(panels[0], kinds):
        mine = [row for row in rows if row["type"] == kind]
        _bars(axes, mine, sorted({row["point"] for row in mine}),
              ("tuned", "known", "default", "cudnn", "triton"))
        axes.set_title(f"Implicit matrix product, {kind}, {machine['gpu']}")
        _legend(axes, 3)
    return figure


def _shifts(rows: Rows, machine: Mapping[str, Any]) -> Any:
    figure, axes = plt.subplots(figsize=(5.5, 3.4))
    mine = [row for row in rows if "1x1" not in row["point"]]
    _bars(axes, mine, sorted({row["point"] for row in mine}),
          ("naive", "tuned", "known", "default", "triton", "ceiling"))
    axes.set_title(f"Shift convolution, float, {machine['gpu']}")
    _legend(axes, 3)
    return figure
