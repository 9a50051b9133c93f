"""The search space of the paper (section 5.3), exhaustively, at two of its sizes.

    python bench/paper_search.py [--depth TK[,TK]] [--build FOLDER | --built FOLDER]

Tiles of 32 to 128, micro-tiles of 8 to 32, nano-tiles of 1 to 4 along each axis, with the depths of
the kernel's own list or those given; everything else is left to the passes.  It is the space of
`tritonc tune --space=nesting`.  All candidates are timed at a glance; then the best of the rule for
micro- and nano-tiles, the best of the others and what is compiled by default are checked and
measured in turn by the method of the suite.  What comes out says how far default and rule are from
the best.  All candidates go to search.csv, the summary to search.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import paper_built
import suite_support
from suite_report import geometric
from suite_worker import ROOT, Job, Worker, commit

KERNEL = ROOT / "bench" / "paper" / "product_f32.tc"
SIZES = ("2048x2048x2048", "1760x128x1760")
TILES, NESTING = ("TM", "TN", "TK"), ("micro_rows", "micro_columns", "nano_rows", "nano_columns")
RULE = (16, 32, 4, 4)
FINALISTS = 6  # of the rule and of the others
Record = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", default="8,16,32", help="values of TK")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "paper")
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="only compile, to a folder")
    parser.add_argument("--built", type=Path, metavar="FOLDER", help="take compilations from there")
    parser.add_argument("--trust", action="store_true", help="though another compiler made them")
    parser.add_argument("--commit", default=commit(), help="the compiler's, for the summary")
    options = parser.parse_args()
    started = time.perf_counter()
    candidates = space([int(text) for text in options.depth.split(",")], options.arch)
    with tempfile.TemporaryDirectory(prefix="tritonc-search-") as folder:
        os.environ["CUDA_CACHE_PATH"] = f"{folder}/driver"
        os.environ["CUDA_CACHE_DISABLE"] = "0"
        os.environ["CUDA_CACHE_MAXSIZE"] = str(4 << 30)
        jobs = [{**_job(name, values), "arch": options.arch, "load": not options.build,
                 "cubin": bool(options.build)} for name, values in candidates.items()]
        place = options.build or options.built or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        made = paper_built.all_compiled(jobs, options.jobs, place, options.trust)
        compiling = time.perf_counter() - started
        print(f"{len(jobs)} compilations, {compiling:.0f} s", flush=True)
        if options.build:
            return
        records: list[dict[str, Any]] = []
        worker = Worker(Path(folder) / "log")
        gpu = worker.do({"do": "about"}, 60).get("gpu", "unknown")
        for size in SIZES:
            records += measured(worker, size, candidates, made, options, Path(folder))
        worker.stop()
    default = tuple(made["ours"]["tunables"][name] for name in TILES)
    summary = {"command": " ".join(["bench/paper_search.py", *sys.argv[1:]]),
               "seconds": round(time.perf_counter() - started), "compiling": round(compiling),
               "processes": options.jobs, "commit": options.commit, "gpu": gpu,
               "depths": options.depth,
               "sizes": [summarised([r for r in records if r["size"] == size], size, default)
                         for size in SIZES]}
    options.results.mkdir(parents=True, exist_ok=True)
    write(options.results / "search.csv", records)
    (options.results / "search.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1))


def space(depths: Sequence[int], arch: str) -> dict[str, Mapping[str, int]]:
    """The candidates by a name, which says whether micro- and nano-tiles are those of the rule;
    "ours" is what is compiled by default, for which nothing is given."""
    from tritonc.options import Options
    from tritonc.source import SourceFile
    from tritonc.tune.search.space import search_space

    found = search_space(SourceFile(str(KERNEL), KERNEL.read_text()), Options(arch=arch), "product",
                         nesting=True).candidates
    kept = [c for c in found if min(c["TM"], c["TN"]) >= 32 and c["TK"] in depths]
    return {"ours": {}} | {
        f"{'other' if any(n in c for n in NESTING) else 'rule'} {i}": c
        for i, c in enumerate(kept)}


def _job(name: str, values: Mapping[str, int]) -> Job:
    return {"do": "compile", "key": name, "collection": "paper", "stem": KERNEL.stem,
            "defines": (), "tune": dict(values), "options": {}, "sizes": {}}


def measured(worker: Worker, size: str, candidates: Mapping[str, Mapping[str, int]],
             made: Mapping[str, Job], options: argparse.Namespace, folder: Path
             ) -> list[dict[str, Any]]:
    """A record of each candidate at a size."""
    workload = next(w for w in suite_support.workloads(collection="paper")
                    if w.stem == KERNEL.stem and w.name.endswith(f" {size}"))
    found = worker.do({
        "do": "measure", "collection": "paper", "name": workload.name, "skip": ["triton", "cublas"],
        "modules": {name: job["at"] for name, job in made.items() if "failed" not in job},
        "rounds": options.rounds, "least_ms": 2.0, "folder": str(folder), "screen": FINALISTS}, 300)
    if "times" not in found:
        sys.exit(f"{size}: {found.get('failed')}")
    wrong = {name: job["failed"] for name, job in made.items() if "failed" in job} | found["wrong"]
    times = found["screened"] | {name: median(ms) for name, ms in found["times"].items()}
    return [{"size": size, "candidate": values or made[name]["tunables"],
             "by default": not values, "error": wrong.get(name, ""),
             "milliseconds": None if name in wrong else times.get(name)}
            for name, values in candidates.items()]


def nesting_of(record: Record) -> tuple[int, ...]:
    return tuple(record["candidate"].get(name, usual) for name, usual in zip(NESTING, RULE))


def tile_of(record: Record) -> tuple[int, ...]:
    return tuple(record["candidate"][name] for name in TILES)


def summarised(records: Sequence[Record], size: str, default: tuple[int, ...]) -> dict[str, Any]:
    """What a search says at one size: times in milliseconds, distances as ratios.

    >>> tile = {"TM": 64, "TN": 64, "TK": 8}
    >>> rows = [{"candidate": {**tile, **more}, "milliseconds": ms, "by default": ms == 1.8}
    ...         for ms, more in ((2.0, {}), (1.8, {}),
    ...                              (1.6, {"micro_rows": 32, "micro_columns": 16}))]
    >>> found = summarised(rows, "1x1x1", (64, 64, 8))
    >>> found["best nesting"], found["default tile by the best"], found["default by the best"]
    ((32, 16, 4, 4), 1.25, 1.125)
    """
    space = [r for r in records if not r["by default"]]
    timed = [r for r in space if r["milliseconds"] is not None]
    best = min(timed, key=_time)
    ruled = [r for r in timed if nesting_of(r) == RULE]
    of_rule = min(ruled, key=_time)
    by_default = next((_time(r) for r in records if r["by default"] and _time(r)), None)
    of_tile = next((_time(r) for r in ruled if tile_of(r) == default), None)
    losses, gains = [], []  # of the rule, and of the worst nesting, tile by tile
    for row in ruled:
        rivals = [_time(r) for r in timed if tile_of(r) == tile_of(row)]
        losses.append(_time(row) / min(rivals))
        gains.append(max(rivals) / _time(row))
    return {
        "size": size, "candidates": len(space), "timed": len(timed),
        "best": _time(best), "best tile": tile_of(best), "best nesting": nesting_of(best),
        "rule": _time(of_rule), "rule's tile": tile_of(of_rule),
        "rule by the best": round(_time(of_rule) / _time(best), 4),
        "default": by_default, "default by the best": _ratio(by_default, best),
        "default tile": default, "time of the default tile": of_tile,
        "default tile by the best": _ratio(of_tile, best),
        "rule by the best of its tile, mean": round(geometric(losses), 4),
        "rule by the best of its tile, worst": round(max(losses), 4),
        "worst nesting by the rule, worst": round(max(gains), 4),
        "tiles where the rule is best": sum(loss <= 1.005 for loss in losses),
        "tiles": len(losses)}


def _time(record: Record) -> float:
    return float(record["milliseconds"] or 0)


def _ratio(milliseconds: float | None, best: Record) -> float | None:
    return round(milliseconds / _time(best), 4) if milliseconds else None


def write(path: Path, records: Sequence[Record]) -> None:
    """All candidates but what is compiled by default, the fastest first at each size."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("size", *TILES, *NESTING, "milliseconds", "error"))
        space = [r for r in records if not r["by default"]]
        for r in sorted(space, key=lambda r: (r["size"], r["milliseconds"] or 1e9)):
            writer.writerow((r["size"], *tile_of(r), *nesting_of(r), r["milliseconds"],
                             r["error"].split("\n")[0]))


if __name__ == "__main__":
    main()
