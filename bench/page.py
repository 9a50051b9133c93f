"""The tables of docs/performance.md, from what ways.py and suite.py measured.

    python bench/ways.py --json ways.json
    python bench/suite.py --json suite.json
    python bench/page.py ways.json ... --suite suite.json [--before OLD.json ...]

Prints Markdown.  Needs no GPU.
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


def suite(rows: list[Row]) -> list[str]:
    """Each group's geometric means, beside the best peer of each workload."""
    lines = ["| group | workloads | default | variants | told | least |",
             "|---|---|---|---|---|---|"]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("default_ratio"):
            groups.setdefault(row["group"], []).append(row)
    for name, here in [*groups.items(), ("all", [r for rs in groups.values() for r in rs])]:
        least = min(here, key=lambda row: row["default_ratio"])
        chosen = geometric_mean(r.get("variants_ratio", r["default_ratio"]) for r in here)
        lines.append(f"| {name} | {len(here)} | "
                     f"{geometric_mean(r['default_ratio'] for r in here):.2f} | {chosen:.2f} | "
                     f"{geometric_mean(r['told_ratio'] for r in here):.2f} | "
                     f"{least['default_ratio']:.2f} {least['name']} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ways", type=Path, nargs="*")
    parser.add_argument("--before", type=Path, action="append", default=[])
    parser.add_argument("--suite", type=Path)
    given = parser.parse_args()
    if given.ways:
        print("\n".join(ways(read(given.ways), read(given.before))))
    if given.suite is not None:
        found = json.loads(given.suite.read_text())
        print("\n".join(["", *suite(found["rows"])]))


if __name__ == "__main__":
    main()
