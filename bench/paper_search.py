"""The search space of the paper (section 5.3), exhaustively, at two of its sizes.

    python bench/paper_search.py [--budget SECONDS] [--results FOLDER]

Tiles of 32 to 128, micro-tiles of 8 to 32, nano-tiles of 1 to 4 along each axis, and the depths of
the kernel's own list; everything else is left to the passes.  `tritonc tune --space=nesting` does
the search; this says how far what is compiled by default, and the rule for micro- and nano-tiles,
are from the best.  All candidates go to search.csv, the summary to search.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suite_worker import ROOT

KERNEL = ROOT / "bench" / "paper" / "product_f32.tc"
SIZES = ({"M": 2048, "N": 2048, "K": 2048}, {"M": 1760, "N": 128, "K": 1760})
TILES, NESTING = ("TM", "TN", "TK"), ("micro_rows", "micro_columns", "nano_rows", "nano_columns")
RULE = (16, 32, 4, 4)
Record = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, help="seconds; the search is then no longer whole")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "paper")
    options = parser.parse_args()
    text = re.sub(r"(tunable int T[MN] = )\{.*?\}", r"\1{32, 64, 128}", KERNEL.read_text())
    with tempfile.TemporaryDirectory(prefix="tritonc-search-") as folder:
        source = Path(folder) / "product.tc"
        source.write_text(text)
        command = [sys.executable, "-m", "tritonc", "tune", str(source), "--space=nesting",
                   f"--arch={options.arch}", "--within=0",
                   *("--set=" + ",".join(f"{k}={v}" for k, v in size.items()) for size in SIZES)]
        command += [f"--budget={options.budget:g}"] if options.budget else []
        command += [f"--jobs={options.jobs}"] if options.jobs else []
        started = time.perf_counter()
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        seconds = time.perf_counter() - started
        if code == 3:
            sys.exit("there is no GPU to measure on")
        default = default_tile(source, options.arch)
        records = [json.loads(line) for line in
                   source.with_suffix(".tune.journal").read_text().splitlines()]
    summary = {"seconds": round(seconds), "sizes": [
        summarised([r for r in records if r["size"] == size], size, default) for size in SIZES]}
    options.results.mkdir(parents=True, exist_ok=True)
    write(options.results / "search.csv", records)
    (options.results / "search.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1))


def default_tile(source: Path, arch: str) -> tuple[int, ...]:
    """What the cost model takes where it is told nothing."""
    from tritonc import driver
    from tritonc.options import Options
    from tritonc.source import SourceFile

    found = driver.compile(SourceFile(str(source), source.read_text()), Options(arch=arch),
                           ("tir",)).tunables
    return tuple(found[name] for name in TILES)


def nesting_of(record: Record) -> tuple[int, ...]:
    return tuple(record["candidate"].get(name, usual) for name, usual in zip(NESTING, RULE))


def tile_of(record: Record) -> tuple[int, ...]:
    return tuple(record["candidate"][name] for name in TILES)


def summarised(records: Sequence[Record], size: Mapping[str, int], default: tuple[int, ...]
               ) -> dict[str, Any]:
    """What a search says at one size: times in milliseconds, distances as ratios.

    >>> rows = [{"candidate": {"TM": 64, "TN": 64, "TK": 8, **more}, "milliseconds": ms}
    ...         for ms, more in ((2.0, {}), (1.6, {"micro_rows": 32, "micro_columns": 16}))]
    >>> found = summarised(rows, {"M": 1}, (64, 64, 8))
    >>> found["best nesting"], found["default"] / found["best"]
    ((32, 16, 4, 4), 1.25)
    """
    timed = [r for r in records if r["milliseconds"] is not None]
    best = min(timed, key=lambda r: r["milliseconds"])
    ruled = [r for r in timed if nesting_of(r) == RULE]
    of_rule = min(ruled, key=lambda r: r["milliseconds"])
    by_default = next((r for r in ruled if tile_of(r) == default), None)
    losses = []  # of the rule, tile by tile
    for row in ruled:
        rivals = [r["milliseconds"] for r in timed if tile_of(r) == tile_of(row)]
        losses.append(row["milliseconds"] / min(rivals))
    return {
        "size": dict(size), "candidates": len(records), "timed": len(timed),
        "best": best["milliseconds"], "best tile": tile_of(best), "best nesting": nesting_of(best),
        "rule": of_rule["milliseconds"], "rule's tile": tile_of(of_rule),
        "default": by_default["milliseconds"] if by_default else None, "default tile": default,
        "rule by the best": round(of_rule["milliseconds"] / best["milliseconds"], 4),
        "rule by the best of its tile, worst": round(max(losses), 4),
        "tiles where the rule is best": sum(loss <= 1.005 for loss in losses),
        "tiles": len(losses)}


def write(path: Path, records: Sequence[Record]) -> None:
    """All candidates, the fastest first at each size."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("size", *TILES, *NESTING, "milliseconds", "error"))
        for r in sorted(records, key=lambda r: (r["size"]["N"], r["milliseconds"] or 1e9)):
            writer.writerow(("x".join(map(str, r["size"].values())), *tile_of(r), *nesting_of(r),
                             r["milliseconds"], r["error"].split("\n")[0]))


if __name__ == "__main__":
    main()
