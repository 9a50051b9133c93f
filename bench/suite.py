"""The kernels that people write, beside the best peers: all of bench/suite on one GPU.

    python bench/suite.py [--filter REGEX] [--group TEXT] [--json FILE] [--picture FILE]
    python bench/suite.py --compile-only        # without a GPU and without torch
    python bench/suite.py --json new.json --compare old.json

Each file of bench/suite is a kernel as a user writes it at first.  It is compiled as it is
("default"), with variants among which the launch chooses (--variants) and, where its sizes are
known, with a few tiles and the sizes known ("known"); what is right is timed in turn with cuBLAS,
cuDNN, torch and Triton.  The ratio is the best peer's time by ours: 1 is as fast as the best, more
is faster.  `copy` is a copy that moves as many bytes as the kernel must.

Everything is compiled first, by as many processes as there are cores; then one process measures.
A process that ends or hangs is started again, and what broke it is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import suite_report
import suite_support
from suite_support import Workload
from suite_worker import Job, Worker, commit, do_all

COMPILE_LIMIT = 90.0  # seconds of one compilation
MEASURE_LIMIT = 40.0  # of one workload
TRITON_SHARE = 3  # of the cores, one in so many compiles Triton's kernels

Compiled = dict[tuple[Any, ...], Job]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only workloads whose names match")
    parser.add_argument("--group", default="", help="only groups whose names contain this")
    parser.add_argument("--sizes", type=Path, help="a file of other sizes (bench/other_sizes.txt)")
    parser.add_argument("--list", action="store_true", help="list the workloads and exit")
    parser.add_argument("--compile-only", action="store_true", help="compile, and say what came")
    parser.add_argument("--no-known", action="store_true", help="no tiles but the default's")
    parser.add_argument("--variants", type=int, default=0, metavar="N",
                        help="also with so many variants of each kernel, at most")
    parser.add_argument("--tiles", type=int, default=3, help="to try at most, with known sizes")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--least-ms", type=float, default=2.0, help="of a sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--json", type=Path, help="write all results to a file")
    parser.add_argument("--picture", type=Path, help="write the ratios as an SVG picture")
    parser.add_argument("--compare", type=Path, help="results of an earlier run to compare with")
    options = parser.parse_args()
    chosen = suite_support.workloads(options.filter, options.group, others=options.sizes)
    if options.list:
        for workload in chosen:
            print(f"{workload.kind.group}: {workload.name}")
        return
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tritonc-suite-") as folder:
        os.environ["CUDA_CACHE_PATH"] = f"{folder}/driver"
        os.environ["CUDA_CACHE_DISABLE"] = "0"  # the second load of a kernel is not compiled again
        os.environ["CUDA_CACHE_MAXSIZE"] = str(4 << 30)
        if options.compile_only:
            compiled = compile_all(chosen, options, Path(folder))
            suite_report.print_compiled(chosen, [
                compiled[_key(workload, {}, False)] for workload in chosen])
        else:
            rows = run(chosen, options, Path(folder))
            result = {"commit": commit(), "date": time.strftime("%Y-%m-%d %H:%M"),
                      **rows.pop(0), "seconds": time.perf_counter() - started, "rows": rows}
            finish(result, options)
    print(f"{time.perf_counter() - started:.0f} s")


def run(chosen: Sequence[Workload], options: argparse.Namespace, folder: Path) -> list[Job]:
    """What the machine is, then a row for each workload."""
    compiled = compile_all(chosen, options, folder)
    log = folder / "log"
    worker = Worker(log)
    about = worker.do({"do": "about"}, 120)
    print(", ".join(f"{k} {v}" for k, v in about.items() if k != "where"), flush=True)
    if "failed" in about:
        print(log.read_text()[-2000:])
        sys.exit("there is no GPU to measure on, or no torch; --compile-only needs neither")
    rows: list[Job] = [about]
    for workload in chosen:
        row = measure(worker, workload, compiled, options, folder)
        rows.append(row)
        print(suite_report.line(row), flush=True)
    worker.stop()
    return rows


def measure(worker: Worker, workload: Workload, compiled: Compiled, options: argparse.Namespace,
            folder: Path) -> Job:
    """A row of the table.  What breaks the process is left out at the next attempt."""
    ours = compiled[_key(workload, {}, False)]
    row: Job = {"name": workload.name, "group": workload.kind.group, "compiled": _short(ours)}
    if "failed" in ours:
        return {**row, "failed": f"does not compile: {ours['failed']}"}
    modules, known = {"ours": ours["at"]}, {}
    if options.variants:
        found = compiled[_key(workload, {}, False, options.variants)]
        if "failed" in found:
            row.setdefault("notes", []).append(f"variants: {found['failed']}")
        elif found["at"] != ours["at"]:
            modules["variants"] = found["at"]
    for tune in tunes(workload, options):
        found = compiled[_key(workload, tune, True)]
        if "failed" not in found and found["at"] not in modules.values():
            name = "known " + (" ".join(f"{k}={v}" for k, v in tune.items()) or "sizes")
            modules[name], known[name] = found["at"], _short(found)
    skip: list[str] = []
    for _ in range(3):
        started = time.perf_counter()
        found = worker.do({
            "do": "measure", "name": workload.name, "other_sizes": _other_sizes(options),
            "modules": modules, "skip": skip,
            "rounds": options.rounds, "least_ms": options.least_ms, "folder": str(folder),
        }, MEASURE_LIMIT)
        row["seconds"] = time.perf_counter() - started
        culprit = found.get("where", "").removesuffix(" timed")
        if "failed" not in found or not found.get("lost") or culprit in ("ours", "load", "start"):
            break
        if culprit in modules and culprit != "ours":
            modules.pop(culprit)
        skip.append(culprit)
    row |= found
    if skip:
        row.setdefault("notes", []).append(f"left out: {', '.join(skip)}")
    return suite_report.judged(row, workload, known)


def _other_sizes(options: argparse.Namespace) -> str | None:
    return str(options.sizes.resolve()) if options.sizes else None


def tunes(workload: Workload, options: argparse.Namespace) -> list[Job]:
    """Tunables to try beside the default: none but the sizes known, and some tiles."""
    return [] if options.no_known else [{}, *workload.tiles[:options.tiles]]


def _short(compiled: Job) -> Job:
    """What of a compilation is worth keeping."""
    return {key: compiled[key] for key in ("seconds", "load", "tunables", "meta", "kernels",
                                           "warnings") if key in compiled}


def _key(workload: Workload, tune: Job, known: bool, variants: int = 0) -> tuple[Any, ...]:
    """What distinguishes a compilation."""
    sizes = tuple(workload.sizes.items()) if known and not tune else ()
    return workload.stem, workload.defines, tuple(sorted(tune.items())), sizes, variants


def compile_all(chosen: Sequence[Workload], options: argparse.Namespace, folder: Path) -> Compiled:
    """What each compilation gave; on the way, the driver and Triton compile what is for them."""
    jobs: dict[tuple[Any, ...], Job] = {}
    whole = not options.compile_only
    for workload in chosen:
        known_tunes = [(tune, True, 0) for tune in tunes(workload, options)] if whole else []
        with_variants = [(dict[str, int](), False, options.variants)] * bool(options.variants)
        for tune, known, variants in [(dict[str, int](), False, 0), *with_variants, *known_tunes]:
            jobs[_key(workload, tune, known, variants)] = {
                "do": "compile", "stem": workload.stem, "defines": workload.defines, "tune": tune,
                "sizes": dict(workload.sizes) if known and not tune else {}, "arch": options.arch,
                "variants": variants, "options": dict(workload.kind.options), "folder": str(folder),
                "load": whole, "assemble": not whole}
    for key, job in jobs.items():
        job["key"] = key
    started, compiled = time.perf_counter(), {}
    first = sorted(jobs.values(), key=lambda job: bool(job["sizes"]))  # Triton waits for those
    for job, result in do_all(first, options.jobs, COMPILE_LIMIT, folder / "log"):
        compiled[job["key"]] = result
    print(f"{len(jobs)} compilations, {time.perf_counter() - started:.0f} s", flush=True)
    if whole:
        started = time.perf_counter()
        warm = [{"do": "warm", "name": w.name, "other_sizes": _other_sizes(options),
                 "at": compiled[_key(w, {}, False)]["at"]}
                for w in chosen if "at" in compiled[_key(w, {}, False)]]
        warm = list({job["name"]: job for job in warm}.values())
        count = max(1, options.jobs // 2)
        for job, result in do_all(warm, count, 2 * COMPILE_LIMIT, folder / "log"):
            for name, why in result.items():
                if name != "where":
                    print(f"    {job['name']}: {name}: {why}")
        print(f"Triton: {time.perf_counter() - started:.0f} s", flush=True)
    return compiled


def finish(result: Job, options: argparse.Namespace) -> None:
    """The table, the picture, the file, the comparison."""
    suite_report.print_table(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    if options.picture:
        options.picture.write_text(suite_report.picture(result))
    if options.compare:
        suite_report.print_comparison(json.loads(options.compare.read_text()), result)


if __name__ == "__main__":
    main()
