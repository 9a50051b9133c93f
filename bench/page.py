"""The tables of docs/performance.md and docs/notes/ways.md, from measurements.

    python bench/ways.py --json ways.json
    python bench/suite.py --json suite.json
    python bench/page.py ways.json ... --suite suite.json [--before OLD.json ...]
    python bench/page.py --suite suite.json --others other.json --picture docs/groups.svg

Prints Markdown; --picture draws the table of groups.  Needs no GPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def geometric_mean(numbers: Iterable[float]) -> float:
    """The mean of ratios; 0 of none.

    >>> round(geometric_mean([0.5, 2.0]), 3)
    1.0
    """
    found = [log(max(number, 1e-9)) for number in numbers]
    return exp(sum(found) / len(found)) if found else 0.0


def read(paths: Sequence[Path]) -> list[Row]:
    return [row for path in paths for row in json.loads(path.read_text())]


def key(row: Row) -> tuple[str, str, str, int]:
    return row["group"], row["way"], row["variant"], row["size"]


def ways(rows: list[Row], before: list[Row]) -> list[str]:
    """For each group and size: how many goals are met, and each way's ratio to the plain kernel."""
    old = {key(row): row for row in before}
    lines: list[str] = []
    places = list(dict.fromkeys((row["group"], row["variant"], row["size"]) for row in rows))
    lines += ["| what, how large | ways | goals met | geometric mean | before | least |",
              "|---|---|---|---|---|---|"]
    for group, variant, size in places:
        here = [row for row in rows if (row["group"], row["variant"], row["size"]) == (
            group, variant, size) and not row["plain"] and row.get("ratio")]
        then = [old[key(row)]["ratio"] for row in here if old.get(key(row), {}).get("ratio")]
        if not here:
            continue
        least = min(here, key=lambda row: row["ratio"])
        was = f"{geometric_mean(then):.2f}" if len(then) == len(here) else ""
        lines.append(f"| {group} {variant} {size} | {len(here)} | {sum(r['met'] for r in here)} | "
                     f"{geometric_mean(r['ratio'] for r in here):.2f} | {was} | "
                     f"{least['ratio']:.2f} {least['way']} |")
    for group, variant, size in places:
        lines += ["", f"### {group} {variant} {size}".replace("  ", " "), "",
                  "| way | ratio | goal | before |", "|---|---|---|---|"]
        for row in rows:
            if (row["group"], row["variant"], row["size"]) != (group, variant, size):
                continue
            was = old.get(key(row), {}).get("ratio")
            ratio = f"{row['ratio']:.2f}" if row.get("ratio") else "failed"
            lines.append(f"| {row['way']} | {ratio} | {row['goal']} | "
                         f"{f'{was:.2f}' if was else ''} |")
    return lines


def grouped(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """The workloads of each group, and of all groups."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    return [*groups.items(), ("all", [row for found in groups.values() for row in found])]


def means(rows: list[Row], others: list[Row]) -> dict[str, float]:
    """The geometric means of a group's workloads: by one entry for all sizes; of the same kernels
    at `others`, which are sizes that are not the suite's; where they were measured, by variants and
    with known sizes."""
    found = {"one entry": geometric_mean(row["default_ratio"] for row in rows)}
    if others:
        found["other sizes"] = geometric_mean(row["default_ratio"] for row in others)
    for name, field in (("variants", "variants_ratio"), ("sizes known", "known_ratio")):
        if any(row.get(field, row["default_ratio"]) != row["default_ratio"] for row in rows):
            found[name] = geometric_mean(row.get(field, row["default_ratio"]) for row in rows)
    return found


def suite(rows: list[Row], others: list[Row]) -> list[str]:
    """Each group's geometric means, beside the best peer of each workload."""
    beside, lines = dict(grouped(others)), list[str]()
    names = [*means(rows, others)]
    lines += [f"| group | workloads | {' | '.join(names)} | slowest |",
              "|" + "---|" * (len(names) + 3)]
    for group, here in grouped(rows):
        least = min(here, key=lambda row: row["default_ratio"])
        found = means(here, beside.get(group, []))
        ratios = " | ".join(f"{found[name]:.2f}" if name in found else "" for name in names)
        lines.append(f"| {group} | {len(here)} | {ratios} | "
                     f"{least['default_ratio']:.2f} {least['name']} |")
    return lines


COLOURS = {"one entry": "#4477aa", "other sizes": "#ee7733", "variants": "#66ccee",
           "sizes known": "#228833"}


def picture(rows: list[Row], others: list[Row]) -> str:
    """The same as an SVG: bars for each group, and a line where the best peer is."""
    left, scale = 190, 230
    groups, beside = grouped(rows), dict(grouped(others))
    names = [*means(rows, others)]
    step = 11 * len(names) + 7
    height = 50 + step * len(groups)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']
    for place, name in enumerate(names):
        lines += [f'<rect x="{left + 110 * place}" y="8" width="10" height="10" '
                  f'fill="{COLOURS[name]}"/>',
                  f'<text x="{left + 16 + 110 * place}" y="17">{name}</text>']
    lines += [f'<line x1="{left + scale}" x2="{left + scale}" y1="28" y2="{height - 4}" '
              'stroke="black"/>',
              f'<text x="{left + scale + 4}" y="38">1.0: as fast as the best peer</text>']
    for number, (name, here) in enumerate(groups):
        top = 44 + step * number
        lines.append(f'<text x="{left - 8}" y="{top + step // 2}" text-anchor="end">{name}</text>')
        for mode, ratio in means(here, beside.get(name, [])).items():
            y = top + 11 * names.index(mode)
            lines += [f'<rect x="{left}" y="{y}" width="{ratio * scale:.0f}" height="10" '
                      f'fill="{COLOURS[mode]}"/>',
                      f'<text x="{left + ratio * scale + 4:.0f}" y="{y + 9}" '
                      f'font-size="10">{ratio:.2f}</text>']
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ways", type=Path, nargs="*")
    parser.add_argument("--before", type=Path, action="append", default=[])
    parser.add_argument("--suite", type=Path)
    parser.add_argument("--others", type=Path, help="the suite at other sizes")
    parser.add_argument("--picture", type=Path, help="write the suite's groups as an SVG")
    given = parser.parse_args()
    if given.ways:
        print("\n".join(ways(read(given.ways), read(given.before))))
    if given.suite is not None:
        rows, others = (
            [row for row in json.loads(path.read_text())["rows"] if row.get("default_ratio")]
            if path is not None else [] for path in (given.suite, given.others))
        print("\n".join(["", *suite(rows, others)]))
        if given.picture is not None:
            given.picture.write_text(picture(rows, others), encoding="utf-8")


if __name__ == "__main__":
    main()
