"""Kernels without products by many combinations of tunables and warps: the data of `tune/model`.

    python bench/sweep.py --out FILE [--seconds 70] [--part 0/2] [--filter REGEX] [--each 20]

Each line of FILE is JSON: a kernel ("unit": file and macros), what each candidate was compiled
to, and for each size the milliseconds of each candidate, whose results agree with the default's.
All cores compile while one process measures; what is not done in time is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import suite_support
from suite_support import BENCH, Kind, Workload

Row = dict[str, Any]
WARPS = (1, 2, 4, 8, 16)
EACH = (1, 64)  # elements of a thread, about
SIZES = 3  # of a kernel
COMPILE_ERRORS = 200  # characters
KNOWN: dict[tuple[str, str], Workload] = {}  # which processes share that begin later


def units(pattern: str) -> list[tuple[str, tuple[str, ...], list[Workload]]]:
    """A name, macros and sizes of each kernel without products."""
    found: dict[tuple[str, str, tuple[str, ...]], list[Workload]] = {}
    others = BENCH / "other_sizes.txt"
    for one in [*suite_support.workloads(), *suite_support.workloads(others=others), *_unseen()]:
        text = re.sub(r"//.*", "", one.path.read_text())
        if not re.search(r"\bdot\s*\(|\bdot_|mma", text) and re.search(pattern, one.stem):
            found.setdefault((one.collection, one.stem, one.defines), []).append(one)
            KNOWN[one.collection, one.name] = one
    return [(stem, defines, sorted({w.name: w for w in all_}.values(), key=_work))
            for (_, stem, defines), all_ in found.items()]


def _work(one: Workload) -> float:
    return float(one.number(one.problem.bytes or "0"))


def _unseen() -> Iterator[Workload]:
    """Those that say sizes to measure; nothing of their results but that all tiles agree."""
    kind = Kind("unseen", lambda t: {}, lambda t: {})
    for path in sorted((BENCH / "unseen").glob("*.tc")):
        problem = suite_support.read(path.read_text())
        for line in problem.bench:
            sizes = dict[str, int]()
            for name, text in {**problem.sizes, **line}.items():
                sizes[name] = eval(text, {"__builtins__": {}}, sizes)
            macros = {k: eval(v, {"__builtins__": {}}, {}) for k, v in problem.defines.items()}
            yield Workload(path.stem, kind, problem, sizes, macros, {}, "unseen")


def compiled(stem: str, collection: str, defines: Sequence[str], options: Mapping[str, Any],
             tune: Mapping[str, int], folder: str, more: int = 0) -> Row:
    """A combination as machine code; `more`: of the default, candidates beside it."""
    from tritonc import driver, ptxas
    from tritonc.options import Options
    from tritonc.source import SourceFile

    path = suite_support.BENCH / collection / f"{stem}.tc"
    path = path if path.exists() else suite_support.source(stem)
    try:
        result = driver.compile(SourceFile(str(path), path.read_text()), Options(
            arch="sm_90a", defines=tuple(defines), tune=dict(tune), small_clusters=not tune,
            **options), ("ptx", "manifest"))
        place = Path(folder) / f"{abs(hash((stem, tuple(defines), *sorted(tune.items())))):x}"
        place.with_suffix(".ptx").write_text(result.outputs["ptx"])
        done = subprocess.run(
            [ptxas.find(), "-v", "-arch=sm_90a", f"{place}.ptx", "-o", f"{place}.cubin"],
            capture_output=True, text=True, check=True)
        place.with_suffix(".json").write_text(json.dumps(result.manifest))
    except Exception as error:
        return {"tune": dict(tune), "failed": f"{type(error).__name__}: {error}"[:COMPILE_ERRORS]}
    resources = ptxas.read_resources(done.stdout + done.stderr)
    row: Row = {"tune": dict(tune), "at": str(place), "kernels": [
        {key: kernel[key] for key in ("name", "tile", "threads", "shared_bytes",
                                      "dynamic_shared_bytes", "tunables")}
        | {"registers": resources[kernel["entry"]].registers,
           "spills": resources[kernel["entry"]].spill_loads} for kernel in
        result.manifest["kernels"]]}
    if more:
        lists = {k: [*v] for k, v in result.bindings.lists.items()}
        row |= {"lists": lists, "chosen": dict(result.tunables), "entries": [
            {**variant["tunables"]} for kernel in result.manifest["kernels"]
            for variant in kernel.get("variants", [])]}
        row["more"] = candidates(stem, row, more)
    return row


def candidates(stem: str, base: Row, count: int) -> list[dict[str, int]]:
    """Combinations around the chosen one, and those of other entries, each once."""
    lists, chosen = base["lists"], {k: base["chosen"][k] for k in base["lists"]}
    drawn = random.Random(stem)
    threads = max(kernel["threads"] for kernel in base["kernels"])

    def near(name: str, most: int) -> list[int]:
        values = sorted(lists[name])
        place = values.index(chosen[name]) if chosen[name] in values else len(values) // 2
        return values[max(0, place - most):place + most + 1]

    size = 1.0
    for value in chosen.values():
        size *= value
    found: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}

    def add(one: Mapping[str, int]) -> None:
        found.setdefault(tuple(sorted(one.items())), dict(one))

    add(chosen)
    for warps in WARPS:
        if threads // 4 <= 32 * warps <= 4 * threads:
            add({**chosen, "num_warps": warps})
    for name in lists:
        for value in near(name, 2):
            add({**chosen, name: value})
    entries = [{k: v for k, v in one.items() if k in lists or k in ("num_warps", "min_blocks")}
               for one in base["entries"]]
    for one in drawn.sample(entries, min(len(entries), count // 2)):
        add({**chosen, **one})
    for _ in range(20 * count):
        if len(found) >= count:
            break
        tile = {name: drawn.choice(near(name, 3)) for name in lists}
        share = 1.0
        for name, value in tile.items():
            share *= value / chosen[name]
        warps = drawn.choice(WARPS)
        if size <= 16 or EACH[0] <= size * share / (32 * warps) <= EACH[1]:
            add({**tile, "num_warps": warps})
    return [*found.values()][:count + 4]


def measure_all(channel: Any) -> None:
    """A process that measures: tasks in, rows out."""
    import suite_measure as sm
    import torch
    from suite_worker import _module

    while (task := channel.recv()) is not None:
        where, rows = task
        try:
            channel.send(_measured(sm, torch, _module, KNOWN[where], rows))
        except Exception as error:
            channel.send({"failed": f"{type(error).__name__}: {error}"[:COMPILE_ERRORS]})
            torch.cuda.synchronize()  # raises, and ends the process, where the context is lost
        torch.cuda.empty_cache()


def _measured(sm: Any, torch: Any, module: Any, workload: Workload, rows: Sequence[Row]) -> Row:
    """Milliseconds of each candidate; what is wrong with others."""
    torch.manual_seed(0)
    base = module(rows[0]["at"])
    case = sm.case_of(workload, sm.types_of(base.manifest))
    copies = max(1, min(16, -(-sm.BEYOND_L2 // max(1, case.bytes))))
    cases = [case, *(case.clone() for _ in range(copies - 1))]
    want: dict[str, Any] = {}
    samplers, wrong = {}, {}
    best = 1e9
    for number, row in enumerate(rows):
        kernels = module(row["at"]).kernels
        trial = case.clone()
        sm.launcher(workload, kernels, trial)()
        torch.cuda.synchronize()
        if number == 0:
            want = {name: getattr(trial, name).clone() for name in workload.problem.outputs}
        _, complaint = sm.error_of(workload, trial, None, want, 20)
        if complaint and number:
            wrong[number] = complaint
            continue
        runs = [sm.launcher(workload, kernels, one) for one in cases]
        runs[0]()
        once = min(sm._milliseconds(runs[0]), sm._milliseconds(runs[-1]))
        best = min(best, once)
        if once > 6 * best + 0.02:
            wrong[number] = f"slow: {once:.4f}"
            continue
        samplers[number] = sm.Sampler(runs, 0.5)
    times = sm.in_turn(samplers, 4 if best < 2 else 2, 0.0002)
    found: Row = {"ms": {number: min(values) for number, values in times.items()},
                  "median": {number: sorted(values)[len(values) // 2]
                             for number, values in times.items()}, "wrong": wrong}
    if workload.problem.bytes:
        copy = sm.Sampler(sm.copy_runs(int(_work(workload))), 0.5)
        found["copy"] = min(copy.sample() for _ in range(4))
    with contextlib.suppress(Exception):  # where there is one entry
        found["taken"] = sm._taken(workload, base.kernels, case)
    return found


class Measurer:
    """A process that is started again when it ends or hangs."""

    def __init__(self) -> None:
        self.process: Any = None

    def do(self, workload: Workload, rows: Sequence[Row], limit: float) -> Row:
        if self.process is None or not self.process.is_alive():
            self.channel, other = multiprocessing.Pipe()
            self.process = multiprocessing.Process(target=measure_all, args=(other,), daemon=True)
            self.process.start()
            other.close()
        try:
            self.channel.send(((workload.collection, workload.name), rows))
            if self.channel.poll(limit):
                found: Row = self.channel.recv()
                return found
        except (OSError, EOFError) as error:
            self.stop()
            return {"failed": f"lost: {error}"}
        self.stop()
        return {"failed": f"no result after {limit:.0f} s"}

    def stop(self) -> None:
        self.process.kill()
        self.process.join(5)
        self.process = None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=70.0)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--filter", default="")
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    part, parts = map(int, options.part.split("/"))
    chosen = units(options.filter)
    random.Random(1).shuffle(chosen)
    macros = Counter[tuple[str, str]]()  # of one file: two are enough
    chosen = [one for one in chosen if macros.update([key := (one[0], one[2][0].collection)])
              or macros[key] <= 2]
    chosen = chosen[part::parts]
    measurer = Measurer()
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(
            options.jobs, initializer=os.nice, initargs=(5,)) as pool:
        bases: dict[Future[Row], int] = {}
        left: dict[int, tuple[Row, list[Future[Row]]]] = {}

        def submit(number: int, tune: Mapping[str, int], more: int = 0) -> Future[Row]:
            stem, defines, all_ = chosen[number]
            return pool.submit(compiled, stem, all_[0].collection, defines,
                               dict(all_[0].kind.options), tune, folder, more)

        ahead = iter(range(len(chosen)))

        def begin(count: int) -> None:
            for number, _ in zip(ahead, range(count)):
                bases[submit(number, {}, options.each)] = number

        begin(2 * options.jobs)
        while (bases or left) and time.monotonic() < end:
            waiting = [*bases, *(f for _, futures in left.values() for f in futures
                                 if not f.done())]
            ready = [n for n, (_, futures) in left.items() if all(f.done() for f in futures)]
            if not ready:
                wait(waiting, 1.0, "FIRST_COMPLETED")
            for future in [f for f in bases if f.done()]:
                number, base = bases.pop(future), future.result()
                if "failed" in base:
                    print("base", chosen[number][0], base["failed"], flush=True)
                    begin(1)
                    continue
                left[number] = base, [submit(number, one) for one in base.pop("more")]
            for number in ready[:1]:
                base, futures = left.pop(number)
                begin(1)
                stem, defines, sizes = chosen[number]
                rows = [base, *(f.result() for f in futures)]
                good = [i for i, row in enumerate(rows) if "failed" not in row]
                result: Row = {"stem": stem, "collection": sizes[0].collection,
                               "defines": defines, "group": sizes[0].kind.group,
                               "rows": rows, "sizes": []}
                if len(sizes) > SIZES:
                    sizes = [sizes[i * (len(sizes) - 1) // (SIZES - 1)] for i in range(SIZES)]
                for one in sizes:
                    left_s = end - time.monotonic()
                    if left_s < 1:
                        break
                    found = measurer.do(one, [rows[i] for i in good], min(15.0, left_s))
                    for key in ("ms", "median", "wrong"):
                        if key in found:
                            found[key] = {good[int(i)]: v for i, v in found[key].items()}
                    result["sizes"].append({"sizes": dict(one.sizes), "macros": dict(one.macros),
                                            "range": [one.number(r) for s in one.problem.stages[:1]
                                                      for r in s.range],
                                            "bytes": _work(one), **found})
                    print(f"{end - time.monotonic():5.1f} {one.name}", len(found.get("ms", [])),
                          found.get("failed", ""), flush=True)
                with options.out.open("a") as file:
                    file.write(json.dumps(result) + "\n")
        for process in [*(pool._processes or {}).values()]:
            process.kill()
    print("done", len(left), "left")


if __name__ == "__main__":
    main()
