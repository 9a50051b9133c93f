"""The tables of docs/paper.md, from the measured points."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paper_points import FEW, GROUPS, TRANSFORMER, points, read_points
from suite_report import geometric

BEGIN, END = "<!-- measured: bench/paper.py --draw -->", "<!-- end -->"
OURS = ("default", "known", "tuned", "split")
PEERS = ("cublas", "cudnn", "triton")
VENDORS = ("cublas", "cudnn")
CEILING, NAIVE = 0.97, 2.0  # of a shift convolution: one of them is wanted
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
             f"{machine['triton']}, {'commits' if ',' in commits else 'commit'} {commits}.  "
             "Milliseconds.", ""]
    lines += _run(machine) + _missed(rows, machine) + _goals(rows)
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
    lines += _split(rows)
    if (results / "search.json").exists():
        lines += _search(json.loads((results / "search.json").read_text()))
    return "\n".join(lines) + "\n"


def _run(machine: Mapping[str, Any]) -> list[str]:
    """The last run's command, and how long it took."""
    run = machine.get("run")
    if not run:
        return []
    return [f"`python {run['command']}`: {run['points']} points in {run['seconds']} s of wall "
            "time, compilations by this compiler, by Triton and by the driver included.", ""]


def _missed(rows: Rows, machine: Mapping[str, Any]) -> list[str]:
    """The points without a figure, or with one of an earlier run."""
    there = {" ".join((row["figure"], row["type"], row["point"])) for row in rows}
    missed = machine.get("missed", {})
    reasons: dict[str, list[str]] = {}
    for point in points():
        if point.name not in there:
            reasons.setdefault(f"Not measured ({missed.get(point.name, 'not run')})", []).append(
                point.name)
    for name, why in missed.items():
        if name in there:
            reasons.setdefault(f"Of an earlier run, since the last left it out ({why})",
                               []).append(name)
    return [line for why, names in reasons.items() for line in (
        f"{why}: figure {', '.join(names)}.", "")]


class Goal(NamedTuple):
    """What points of some figures and a type shall reach: the geometric mean, and each."""

    name: str
    figures: tuple[str, ...]
    type: str
    mean: float = 0.0
    each: float = 0.0


GOALS = (Goal("products, float", ("1", "8"), "float", 1.1, 1.0),
         Goal("products, half", ("8",), "half"), Goal("products, bfloat16", ("8",), "bfloat16"),
         Goal("dense convolutions, float", ("10",), "float", 1.1, 0.9),
         Goal("dense convolutions, half", ("10",), "half", 0.95),
         Goal("shift convolutions, of the 1x1 convolution", ("11",), "float", CEILING))


def _goals(rows: Rows) -> list[str]:
    """Which goals are met, our best of each point by the vendor's time, or by the ceiling's."""
    lines = ["| of the vendor's library | wanted: mean, each | points | geometric mean | least "
             "| below |", "|---|---|---|---|---|---|"]
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
            wanted = f"{goal.mean}, {goal.each or 'any'}" if goal.mean else "said for each"
            lines.append(f"| {goal.name} | {wanted} | {len(ratios)} | "
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
             "\"naive\" is a kernel that shifts and cuBLAS behind it; \"ceiling\" is our tuned 1x1 "
             f"convolution.  Wanted is {CEILING} of the ceiling, or {NAIVE:g} times as fast as "
             "naive.", "",
             "| | default | known | tuned | triton | naive | ceiling | cuBLAS 1x1 | of the ceiling "
             "| of naive | of cuBLAS 1x1 | meets |", "|---" * 12 + "|"]
    of: dict[str, list[float]] = {"ceiling": [], "naive": [], "library": []}
    for point, found in times.items():
        if "1x1" in point:
            continue
        found["library"] = times.get(f"{point}, 1x1", {}).get("cublas", 0.0)
        best = min(found[name] for name in OURS if name in found)
        cells = [f"{found[name]:.4f}" if found.get(name) else "" for name in
                 ("default", "known", "tuned", "triton", "naive", "ceiling", "library")]
        for name, ratios in of.items():
            ratios.append(found.get(name, 0) / best)
        last = [ratios[-1] for ratios in of.values()]
        lines.append(f"| {point} | {' | '.join(cells)} | " + " | ".join(f"{r:.2f}" for r in last)
                     + f" | {_met(*last[:2])} |")
    means = [geometric(ratios) for ratios in of.values()]
    lines += [f"| geometric mean {'| ' * 7}| " + " | ".join(f"{mean:.2f}" for mean in means)
              + f" | {_met(*means[:2])} |", ""]
    return lines


def _met(ceiling: float, naive: float) -> str:
    """Which of the two conditions hold, as rounded as they are printed.

    >>> _met(0.966, 1.4), _met(0.5, 2.0), _met(0.9, 1.9)
    ('the first', 'the second', 'neither')
    """
    first, second = round(ceiling, 2) >= CEILING, round(naive, 2) >= NAIVE
    return ("both" if second else "the first") if first else "the second" if second else "neither"


def _split(rows: Rows) -> list[str]:
    """Products of few columns by the best tile for blocks that share the sum, and for those that
    do not."""
    lines = []
    transformer = {"x".join(map(str, size)) for size, group in GROUPS.items()
                   if group == TRANSFORMER}
    for kind in ("float", "half", "bfloat16"):
        mine = [row for row in rows if row["figure"] == "8" and row["type"] == kind]
        values = {(row["point"], row["candidate"]): row["values"] for row in mine}
        for point, found in _times(mine).items():
            few = int(point.split("x")[1]) <= FEW
            if not few or not {"split", "whole", "cublas"} <= set(found):
                continue
            split = values.get((point, "split"), "")
            blocks = dict(pair.split("=") for pair in split.split()).get("cluster_k", "")
            name = f"**{point}**" if point in transformer else point
            whole, with_split, cublas = (found[key] for key in ("whole", "split", "cublas"))
            lines.append(f"| {kind} {name} | {whole:.4f} | {with_split:.4f} | {blocks} | "
                         f"{cublas:.4f} | {cublas / whole:.2f} | {cublas / with_split:.2f} |")
    if not lines:
        return []
    return ["### Split-K, with and without", "",
            "The shapes of few columns, of which the paper's transformer shapes stand in bold: the "
            "best tile without clusters, and the best with blocks of a cluster that share K.", "",
            "| | without | with | blocks of a cluster | cublas | of cuBLAS without "
            "| of cuBLAS with |", "|---|---|---|---|---|---|---|", *lines, ""]


def _search(found: Mapping[str, Any]) -> list[str]:
    """The exhaustive search of section 5.3."""
    def tile(values: Sequence[int]) -> str:
        return " x ".join(map(str, values))

    def nest(values: Sequence[int]) -> str:
        return f"micro {tile(values[:2])}, nano {tile(values[2:])}"

    lines = ["### Section 5.3: the exhaustive search", "",
             "Tiles of 32 to 128 along each axis, TK of " + found["depths"].replace(",", ", ")
             + "; micro-tiles of 8 to 32, nano-tiles of 1 to 4, of which those nest that the "
             f"32 threads of a warp fill.  `{found.get('command', 'bench/paper_search.py')}`, "
             f"{found.get('gpu', '')}, commit "
             f"{found.get('commit', 'unknown')}: {found['seconds']} s of wall time for both sizes, "
             f"{found.get('compiling', '?')} s of them for compilations by "
             f"{found.get('processes', '?')} processes.  All candidates: "
             "[paper/search.csv](paper/search.csv).", "",
             "| | " + " | ".join(one["size"] for one in found["sizes"]) + " |",
             "|---" * (1 + len(found["sizes"])) + "|"]
    rows = (
        ("candidates, of them timed", lambda s: f"{s['candidates']}, {s['timed']}"),
        ("the best of all", lambda s: f"{s['best']:.4f} ms: tile {tile(s['best tile'])}, "
         f"{nest(s['best nesting'])}"),
        ("the best with the rule's micro- and nano-tiles",
         lambda s: f"{s['rule']:.4f} ms: tile {tile(s['rule' + chr(39) + 's tile'])}; "
         f"{_percent(s['rule by the best'])}"),
        ("the default tile", lambda s: f"{s['time of the default tile']:.4f} ms: "
         f"{tile(s['default tile'])}; {_percent(s['default tile by the best'])}"),
        ("what is compiled by default (two tiles, by the number of programs)",
         lambda s: f"{s['default']:.4f} ms; {_percent(s['default by the best'])}"),
        ("tiles where the rule is the best nesting, within 0.5 %",
         lambda s: f"{s['tiles where the rule is best']} of {s['tiles']}"),
        ("the rule from the best nesting of its tile: mean, worst",
         lambda s: f"{_percent(s['rule by the best of its tile, mean'])}, "
         f"{_percent(s['rule by the best of its tile, worst'])}"),
        ("the worst nesting from the rule, of a tile", lambda s: _percent(
            s["worst nesting by the rule, worst"])),
    )
    for name, say in rows:
        try:
            lines.append(f"| {name} | " + " | ".join(say(one) for one in found["sizes"]) + " |")
        except (KeyError, TypeError):  # a summary of an earlier version
            continue
    return [*lines, ""]


def _percent(ratio: float) -> str:
    """How much longer.

    >>> _percent(1.0113), _percent(2.886)
    ('1.1 % longer', '189 % longer')
    """
    more = (ratio - 1) * 100
    return f"{more:.1f} % longer" if more < 10 else f"{more:.0f} % longer"
