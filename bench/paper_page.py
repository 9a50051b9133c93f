"""The tables of docs/paper.md, from the measured points."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paper_points import GROUPS, read_points
from suite_report import geometric

BEGIN, END = "<!-- measured: bench/paper.py --draw -->", "<!-- end -->"
OURS = ("default", "told", "tuned", "split")
PEERS = ("cublas", "cudnn", "triton")
VENDORS = ("cublas", "cudnn")
Rows = Sequence[Mapping[str, str]]


def rewrite(page: Path, results: Path) -> None:
    """Put the tables into the page, between their marks."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END, 1)[1]
    page.write_text(f"{before}{BEGIN}\n{tables(results)}{END}{after}", encoding="utf-8",
                    newline="\n")


def tables(results: Path) -> str:
    """What is measured, as Markdown."""
    rows = read_points(results)
    machine = json.loads((results / "machine.json").read_text())
    commits = ", ".join(dict.fromkeys(row["commit"] for row in rows))
    lines = [f"{machine['gpu']}, torch {machine['torch']}, cuDNN {machine['cudnn']}, Triton "
             f"{machine['triton']}, commits {commits}.  Milliseconds.", ""]
    lines += _goals(rows)
    for figure, kind, title in (
            ("1", "float", "Figure 1: C = A B^T, 1760 x 1760 x N, float"),
            ("8", "float", "Figure 8: products M x N x K, float"),
            ("8", "half", "Figure 8, half"), ("8", "bfloat16", "Figure 8, bfloat16"),
            ("10", "float", "Figure 10: dense convolution, float"),
            ("10", "half", "Figure 10, half")):
        mine = [row for row in rows if (row["figure"], row["type"]) == (figure, kind)]
        if mine:
            lines += _table(title, mine, figure)
    shifts = [row for row in rows if row["figure"] == "11"]
    if shifts:
        lines += _shifts(shifts)
    return "\n".join(lines) + "\n"


class Goal(NamedTuple):
    """What points of some figures and a type shall reach: the geometric mean, and each."""

    name: str
    figures: tuple[str, ...]
    type: str
    mean: float
    each: float


GOALS = (Goal("products, float", ("1", "8"), "float", 1.1, 1.0),
         Goal("dense convolutions, float", ("10",), "float", 1.1, 0.9),
         Goal("dense convolutions, half", ("10",), "half", 0.95, 0.0),
         Goal("shift convolutions, of the 1x1 convolution", ("11",), "float", 0.97, 0.0))


def _goals(rows: Rows) -> list[str]:
    """Which goals are met, our best of each point by the vendor's time, or by the ceiling's."""
    lines = ["| goal | wanted: mean, each | points | geometric mean | least | below |",
             "|---|---|---|---|---|---|"]
    for goal in GOALS:
        ratios = {}
        mine = [row for row in rows if row["figure"] in goal.figures and row["type"] == goal.type
                and "1x1" not in row["point"]]
        for point, found in _times(mine).items():
            best = min(found[name] for name in OURS if name in found)
            peers = [found[name] for name in (*VENDORS, "ceiling") if name in found]
            if peers:
                ratios[point] = min(peers) / best
        if ratios:
            limit = goal.each or goal.mean
            below = ", ".join(f"{point} {ratio:.2f}" for point, ratio in ratios.items()
                              if round(ratio, 2) < limit)
            lines.append(f"| {goal.name} | {goal.mean}, {goal.each or 'any'} | {len(ratios)} | "
                         f"{geometric(list(ratios.values())):.2f} | {min(ratios.values()):.2f} | "
                         f"{below} |")
    return [*lines, ""]


def _times(rows: Rows) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row["point"], {})[row["candidate"]] = float(row["milliseconds"])
    order = {"x".join(map(str, size)): place for place, size in enumerate(GROUPS)}
    return dict(sorted(found.items(), key=lambda pair: (
        order.get(pair[0], 0), [int(n) for n in re.findall(r"\d+", pair[0])])))


def _table(title: str, rows: Rows, figure: str) -> list[str]:
    times = _times(rows)
    columns = [name for name in (*OURS, "whole", *PEERS)
               if any(name in found for found in times.values())]
    lines = [f"### {title}", "", f"![{title}](paper/figure_{figure}.svg)" if "half" not in title
             and "bfloat16" not in title else "", "",
             "| | " + " | ".join(columns) + " | TFLOP/s | of the vendor | of the best peer |",
             "|---" * (len(columns) + 4) + "|"]
    vendor, every = [], []
    rates = {(row["point"], row["candidate"]): row["tflops"] for row in rows}
    for point, found in times.items():
        mine = {name: found[name] for name in OURS if name in found}
        peers = {name: found[name] for name in PEERS if name in found}
        best = min(mine, key=lambda name: mine[name])
        cells = [f"{found[name]:.4f}" if name in found else "" for name in columns]
        ratio = min((ms for name, ms in peers.items() if name in VENDORS), default=0) / mine[best]
        overall = min(peers.values(), default=0) / mine[best]
        vendor.append(ratio)
        every.append(overall)
        lines.append(f"| {point} | " + " | ".join(cells) + f" | {rates[point, best]} | {ratio:.2f} "
                     f"| {overall:.2f} |")
    lines += [f"| geometric mean {'| ' * len(columns)}| | {geometric(vendor):.2f} | "
              f"{geometric(every):.2f} |", ""]
    return [line for i, line in enumerate(lines) if line or i == 0 or lines[i - 1]]


def _shifts(rows: Rows) -> list[str]:
    times = _times(rows)
    lines = ["### Figure 11: shift convolution, float", "",
             "![Shift convolution](paper/figure_11.svg)", "",
             "| | default | told | tuned | triton | naive | ceiling | cuBLAS 1x1 | of the ceiling "
             "| of naive |", "|---|---|---|---|---|---|---|---|---|---|"]
    ceilings, naives = [], []
    for point, found in times.items():
        if "1x1" in point:
            continue
        found["library"] = times.get(f"{point}, 1x1", {}).get("cublas", 0.0)
        best = min(found[name] for name in OURS if name in found)
        cells = [f"{found[name]:.4f}" if found.get(name) else "" for name in
                 ("default", "told", "tuned", "triton", "naive", "ceiling", "library")]
        ceilings.append(found.get("ceiling", 0) / best)
        naives.append(found.get("naive", 0) / best)
        lines.append(f"| {point} | {' | '.join(cells)} | {ceilings[-1]:.2f} | {naives[-1]:.2f} |")
    lines += [f"| geometric mean | | | | | | | | {geometric(ceilings):.2f} | "
              f"{geometric(naives):.2f} |", ""]
    return lines
