"""The evaluation of the MAPL 2019 paper on Triton once more, on the GPU of this machine.

    make paper                       all figures, with the tuned values of bench/paper/*.tune.json
    make paper TUNE=1                searches for these values first
    python bench/paper.py --figure 8,10 --filter REGEX --rounds 5
    python bench/paper.py --draw     the figures again, from the measured points

The kernels are those of bench/paper, peers cuBLAS, cuDNN and Triton; each result is checked.  Every
point goes to docs/paper/points.csv, where it replaces the one measured before; the figures are
drawn from that file, by matplotlib if it is installed.  Each kernel is measured as it is compiled
by itself ("default"), with sizes known ("known"), and with tuned values ("tuned").

Without a GPU, or without torch, every kernel is checked in the interpreter at small sizes instead.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import paper_built
import paper_keep
import paper_page
import paper_tries
from paper_points import FEW, FIGURES, Point, points, values_measured, write_points
from suite_report import spread
from suite_support import Workload
from suite_worker import ROOT, Job, Worker, commit, do_all

FOLDER = ROOT / "bench" / "paper"
RESULTS = ROOT / "docs" / "paper"
MEASURE_LIMIT = 30.0  # seconds of one point
WARM_LIMIT = 60.0  # seconds of one point's kernels in Triton
SCREENED = 4  # candidates of a kind that are measured with care, of those that are tried
CANDIDATES = {"ours": "default"}  # as the points name them


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", default=",".join(map(str, FIGURES)), help="numbers, by commas")
    parser.add_argument("--filter", default="", help="only points whose names match")
    parser.add_argument("--check", action="store_true", help="only the check in the interpreter")
    parser.add_argument("--draw", action="store_true", help="only draw the figures")
    parser.add_argument("--tune", action="store_true", help="search for tuned values first")
    parser.add_argument("--try", dest="tries", nargs="?", const="all", choices=("all", "near"),
                        help="measure some hundred candidates at each size, some with split-K, and "
                        "keep the best in the tuning files: minutes where --tune takes hours; "
                        "'near': those that differ in one value from the best known")
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="only compile, to a folder: "
                        "no GPU is needed")
    parser.add_argument("--built", type=Path, metavar="FOLDER", help="take compilations from there "
                        "that this compiler made")
    parser.add_argument("--trust", action="store_true", help="or another one")
    parser.add_argument("--budget", type=float, default=240, help="seconds of the search for the "
                        "sizes of one kind of a kernel; 0: all candidates, which takes hours")
    parser.add_argument("--cluster", help="search on the workers of this dask scheduler")
    parser.add_argument("--no-triton", action="store_true", help="leave the peers in Triton out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=0, help="begin no point after so many "
                        "seconds; what is left out is named. 0: measure all")
    parser.add_argument("--least-ms", type=float, default=2.0, help="of a sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--commit", default=commit(), help="the compiler's, for the points")
    options = parser.parse_args()
    started = options.started = time.perf_counter()
    missing = [] if options.build else what_is_missing()
    chosen = [point for point in points() if str(point.figure) in options.figure.split(",")
              and re.search(options.filter, point.workload.name)]
    if options.draw:
        draw(options)
    elif options.build:
        options.build.mkdir(parents=True, exist_ok=True)
        print(f"{len(compile_all(chosen, options, options.build)[0])} compilations")
    elif options.check or missing:
        good = check(options.filter)
        for text in missing:
            print(f"not measured: {text}")
        if not good:
            sys.exit(1)
    else:
        if options.tune:
            tune(chosen, options)
        with tempfile.TemporaryDirectory(prefix="tritonc-paper-") as folder:
            os.environ["CUDA_CACHE_PATH"] = f"{folder}/driver"
            os.environ["CUDA_CACHE_DISABLE"] = "0"
            measure_all(chosen, options, Path(folder))
        draw(options)
    print(f"{time.perf_counter() - started:.0f} s")


def what_is_missing() -> list[str]:
    """What a measurement needs and is not here."""
    missing = [f"the Python package '{name}'" for name in ("torch", "cuda.bindings")
               if _lacks(name)]
    if not missing:
        import torch

        if not torch.cuda.is_available():
            missing.append("a GPU")
    else:
        missing.append("a GPU was not looked for")
    return missing


def _lacks(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError:
        return True


def check(pattern: str = "") -> bool:
    """Each problem of bench/paper in the interpreter, at the small sizes that it states."""
    from tritonc.launch.run_problems import run_problems
    from tritonc.options import Options
    from tritonc.source import CompileError, Diagnostics, SourceFile

    good = True
    for path in sorted([*FOLDER.glob("*.tc"), *FOLDER.glob("*.tir")]):
        if not re.search(pattern, path.stem):
            continue
        source = SourceFile(str(path), path.read_text())
        for defines in ((), ("TYPE=bfloat16",)) if path.stem == "product_half" else ((),):
            options = Options(defines=defines)
            name = " -D".join((path.stem, *defines))
            try:
                for outcome in run_problems(source, options, path.suffix[1:], Diagnostics()):
                    print(f"{name}: {outcome.line()}", flush=True)
                    good &= outcome.ok
            except CompileError as error:
                print(f"{name}: {error}")
                good = False
    return good


def tune(chosen: list[Point], options: argparse.Namespace) -> None:
    """`tritonc tune` for each kernel with the macros of its tasks, at the sizes of its points:
    those of few columns together, since every candidate is measured at all sizes of a search."""
    wanted: dict[tuple[Path, tuple[str, ...], bool], dict[str, None]] = {}
    for point in chosen:
        for workload in (point.workload, *point.others.values()):
            sizes = ",".join(f"{name}={value}" for name, value in workload.sizes.items())
            few = min(workload.sizes.values()) <= FEW
            wanted.setdefault((workload.path, workload.defines, few), {})[sizes] = None
    for (path, defines, _), sizes in wanted.items():
        command = [sys.executable, "-m", "tritonc", "tune", str(path), f"--arch={options.arch}",
                   "--within=0", f"--jobs={options.jobs}", *(f"-D{text}" for text in defines),
                   *(f"--set={text}" for text in sizes)]
        if options.budget:
            command.append(f"--budget={options.budget:g}")
        if options.cluster:
            command.append(f"--cluster={options.cluster}")
        print(" ".join(command[3:]), flush=True)
        subprocess.run(command, cwd=ROOT, check=False)


def builds(point: Point, tries: str | None = None) -> dict[str, Job]:
    """The compilations of a point by candidate.  Of those whose names begin with the same word the
    best is measured: "whole" and "split" are the tiles to try, without split-K and with it."""
    found: dict[str, Job] = {"ours": _job(point.workload),
                             "known": _job(point.workload, known=True)}
    if tries:
        for values in paper_tries.of_workload(point.workload) if tries == "all" else near(point):
            text = " ".join(f"{key}={n}" for key, n in values.items())
            kind = "split" if values.get("cluster_k", 1) > 1 else "whole"
            found[f"{kind} {text}"] = _tried(point.workload, values, tries)
        for name, workload in point.others.items():
            found[name] = _best_known(workload)
        return found
    values = paper_keep.values_of(point.workload)
    if values is not None:
        found["tuned"] = _given(point.workload, values)
    for name, workload in point.others.items():
        found[name] = _best_known(workload)
    for name, change in point.variants.items():
        base = _best_known(point.workload)
        kind = name.split()[0]
        measured = values_measured(RESULTS, point, kind) or values_measured(
            RESULTS, replace(point, type="half"), kind)  # a tile that suits it better
        if measured:
            found[kind] = _given(point.workload, measured)
        else:
            found[name] = {**base, "tune": {**base["tune"], **change}}
    return found


def near(point: Point) -> list[dict[str, int]]:
    """Candidates like the best of those that were measured."""
    bases = [paper_keep.values_of(point.workload),
             *(values_measured(RESULTS, point, name) for name in ("whole", "split")),
             *(paper_keep.values_of(other) for name, other in point.others.items()
               if name == "ceiling")]  # the same product
    return paper_tries.near([base for base in bases if base],
                            paper_tries.space_of(point.workload), "half" in point.workload.stem)


def _best_known(workload: Workload) -> Job:
    """The compilation with tuned values, or with the sizes known."""
    values = paper_keep.values_of(workload)
    return _given(workload, values) if values else _job(workload, known=True)


def _given(workload: Workload, values: Mapping[str, int], known: bool = True) -> Job:
    """A compilation with given values and known sizes, as what takes a tuning file's is; what they
    do not say is the passes' choice, and not the model's."""
    return {**_job(workload, known), "tune": {"cluster_k": 1, **values}}


def _tried(workload: Workload, values: Mapping[str, int], tries: str) -> Job:
    """A candidate.  Where there are hundreds, all sizes of a kernel share a compilation, but those
    of which no multiple makes accesses wide."""
    odd = any(size % 8 for size in workload.sizes.values())
    return _given(workload, values, tries == "near" or odd)


def _job(workload: Workload, known: bool = False) -> Job:
    return {"do": "compile", "collection": "paper", "stem": workload.stem,
            "defines": workload.defines, "tune": {}, "options": {},
            "sizes": dict(workload.sizes) if known else {}}


def compile_all(chosen: list[Point], options: argparse.Namespace, folder: Path
                ) -> tuple[dict[str, Job], dict[tuple[int, str], str]]:
    """All compilations of some points by their keys; the key of each point's candidate."""
    jobs: dict[str, Job] = {}
    keys: dict[tuple[int, str], str] = {}
    for index, point in enumerate(chosen):
        for name, job in builds(point, options.tries).items():
            key = json.dumps(job, sort_keys=True)
            keys[index, name] = key
            jobs.setdefault(key, {**job, "arch": options.arch, "key": key,
                                  "load": not options.build, "cubin": bool(options.build)})
    limit = paper_built.TRY_LIMIT if options.tries else paper_built.COMPILE_LIMIT
    return (paper_built.all_compiled(list(jobs.values()), options.jobs, folder, options.trust,
                                     limit), keys)


def measure_all(chosen: list[Point], options: argparse.Namespace, folder: Path) -> None:
    """Compile everything, by all processors; then one process measures a point after the other."""
    options.results.mkdir(parents=True, exist_ok=True)
    worker = Worker(folder / "log")
    about: Job = {}
    start = threading.Thread(target=lambda: about.update(worker.do(
        {"do": "about", "peaks": any(point.figure == 1 for point in chosen)}, 120)))
    start.start()  # while others compile
    started = time.perf_counter()
    compiled, keys = compile_all(chosen, options, options.built or folder)
    print(f"{len(compiled)} compilations, {time.perf_counter() - started:.0f} s", flush=True)
    if not options.no_triton:
        _warm(chosen, compiled, keys, options, folder)
    start.join()
    if "failed" in about and about.get("where"):  # the peaks are of figure 1 alone
        about = worker.do({"do": "about"}, 120)
    about["commit"] = options.commit
    print(", ".join(f"{k} {v}" for k, v in about.items() if k != "where"), flush=True)
    if "failed" in about:
        sys.exit((folder / "log").read_text()[-2000:])
    rows: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    for index, point in enumerate(chosen):
        passed = time.perf_counter() - options.started
        mine = {name: compiled[key] for (i, name), key in keys.items() if i == index}
        if options.limit and passed > options.limit:
            found: list[dict[str, Any]] | str = f"{passed:.0f} s had passed"
        else:
            found = attempted(worker, point, mine, options, folder, about)
        if isinstance(found, str):
            skipped[point.name] = found
            print(f"figure {point.name}: skipped: {found}", flush=True)
        else:
            rows += found
        about["run"] = {"command": " ".join(["bench/paper.py", *sys.argv[1:]]),
                        "points": index + 1 - len(skipped), "commit": options.commit,
                        "seconds": round(time.perf_counter() - options.started)}
        write_points(options.results, rows, {**about, "skipped": skipped})
    worker.stop()


def attempted(worker: Worker, point: Point, compiled: dict[str, Job], options: argparse.Namespace,
              folder: Path, about: Job) -> list[dict[str, Any]] | str:
    """The rows of a point, or why there are none: one that fails does not end the run."""
    try:
        return measure(worker, point, compiled, options, folder, about) or "nothing was timed"
    except Exception as error:
        traceback.print_exc()
        worker.stop()  # who knows what it would answer next
        return f"{type(error).__name__}: {error}".split("\n")[0][:160]


def _warm(chosen: list[Point], compiled: dict[str, Job], keys: dict[tuple[int, str], str],
          options: argparse.Namespace, folder: Path) -> None:
    started = time.perf_counter()
    jobs = {point.workload.name: {"do": "warm", "collection": "paper",
                                  "name": point.workload.name, "at": found["at"]}
            for index, point in enumerate(chosen)
            if "at" in (found := compiled[keys[index, "ours"]])}
    for job, result in do_all(list(jobs.values()), max(1, options.jobs * 2 // 3),
                              WARM_LIMIT, folder / "log"):
        for name, why in result.items():
            if name != "where":
                print(f"    {job['name']}: {name}: {why}")
    print(f"Triton: {time.perf_counter() - started:.0f} s", flush=True)


def measure(worker: Worker, point: Point, compiled: dict[str, Job], options: argparse.Namespace,
            folder: Path, about: Job) -> list[dict[str, Any]]:
    """The rows of a point; what breaks the process is left out at the next attempt."""
    failed = {name: job["failed"] for name, job in compiled.items() if "failed" in job}
    modules = {name: job["at"] for name, job in compiled.items() if "failed" not in job}
    first: dict[str, str] = {}  # of those that are equal
    for name in [n for n in modules if n in ("known", "tuned") or options.tries]:
        same = first.setdefault(modules[name], next(
            n for n in modules if modules[n] == modules[name]))
        if same != name:
            failed[name] = f"same as {same}"
            del modules[name]
    print(f"figure {point.name}", end="", flush=True)
    if "ours" not in modules:
        raise RuntimeError(failed["ours"])
    skip = ["triton"] if options.no_triton else []
    for _ in range(3):
        found = worker.do({
            "do": "measure", "collection": "paper", "name": point.workload.name,
            "others": {name: point.others[name.split()[0]].name for name in modules
                       if name.split()[0] in point.others},
            "modules": modules, "skip": skip, "rounds": options.rounds,
            "screen": SCREENED if options.tries else 0,
            "least_ms": options.least_ms, "folder": str(folder)}, MEASURE_LIMIT)
        culprit = found.get("where", "").removesuffix(" timed")
        if "failed" not in found or not found.get("lost") or culprit in ("load", "start", "ours"):
            break
        modules.pop(culprit, None)
        skip.append(culprit)
    if "times" not in found:
        print()
        raise RuntimeError(found.get("failed", "nothing was timed"))
    rows = []
    for name, values in found["times"].items():
        made = compiled.get(name, {})
        rows.append({
            "name": name, "figure": point.figure, "point": point.label, "type": point.type,
            "candidate": CANDIDATES.get(name, name.split()[0]),
            "milliseconds": f"{median(values):.6g}", "spread": f"{spread(values):.4f}",
            "tflops": f"{point.flops / median(values) * 1e-9:.4g}",
            "error": f"{found['errors'].get(name, 0):.2e}", "intensity": f"{point.intensity:.4g}",
            "values": " ".join(f"{k}={v}" for k, v in {
                **made.get("tunables", {}), **made.get("meta", {})}.items()
                if (k, v) != ("cluster_k", 1)) or name,
            "gpu": about["gpu"], "commit": about["commit"], "date": time.strftime("%Y-%m-%d")})
    for name in ("known", "tuned"):  # the same kernel need not be measured twice
        same = failed.get(name, "").removeprefix("same as ")
        like = next((r for r in rows if r["candidate"] == CANDIDATES.get(same, same)), None)
        if like is not None:
            rows.append({**like, "candidate": name})
            failed.pop(name)
    if options.tries:
        with (options.results / "tries.jsonl").open("a") as file:
            file.write(json.dumps({"figure": point.figure, "point": point.label,
                                   "type": point.type, "times": found.get("screened")}) + "\n")
        paper_keep.keep(point, rows, compiled, options.arch)
        mine = [row for row in rows if row["candidate"] in ("default", "known", "whole", "split")]
        rows += [{**min(mine, key=lambda row: float(row["milliseconds"])), "candidate": "tuned"}
                 for _ in mine[:1]]
    times = {row["candidate"]: float(row["milliseconds"]) for row in rows}
    peers = {k: v for k, v in times.items() if k in ("cublas", "cudnn", "triton")}
    best = min((v for k, v in times.items() if k in ("default", "known", "tuned", "split")),
               default=0)
    said = " ".join(f"{name} {ms:.4f}" for name, ms in times.items())
    if peers and best:
        said += f"  ratio {min(peers.values()) / best:.2f}"
    wrong = {**failed, **found.get("wrong", {})}
    complaints = "; ".join(f"{k}: {v}" for k, v in wrong.items()
                           if k not in skip and k.split()[0] not in skip
                           and not v.startswith("same as"))
    print(f": {said} {found.get('failed', '')} {complaints}", flush=True)
    return rows


def draw(options: argparse.Namespace) -> None:
    """The tables of docs/paper.md; the figures, if matplotlib is there."""
    if options.results == RESULTS:
        paper_page.rewrite(RESULTS.parent / "paper.md", RESULTS)
    try:
        import paper_figures
    except ImportError:
        print("no figures drawn: matplotlib is not installed (pip install -e '.[paper]')")
        return
    for path in paper_figures.draw(options.results):
        print(path)


if __name__ == "__main__":
    main()
