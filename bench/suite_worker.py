"""A process that compiles or measures for suite.py: a line of JSON in, lines of JSON out.

`Workers` are the other side: such processes, started again when one ends or hangs, so that no
failure of a compiler, an assembler or a kernel ends the run.  Jobs are dictionaries; "do" says
which of `JOBS`.  While a job runs, its process says where it is, and the last of that is known when
it ends the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

Job = dict[str, Any]
Say = Callable[[str], None]


# in the process that works

def commit() -> str:
    """The commit that is measured, `-dirty` if files differ from it."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT,
                          capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def compile_file(job: Job, say: Say) -> Job:
    """Compile a file; write PTX and manifest to the folder; say what came of it."""
    import suite_support

    from tritonc import driver
    from tritonc.options import Options
    from tritonc.source import SourceFile

    path = suite_support.source(job["stem"], job.get("collection", "suite"))
    source = SourceFile(str(path), path.read_text())
    options = Options(arch=job["arch"], defines=tuple(job["defines"]), tune=job["tune"],
                      sizes=job["sizes"], tuning=job.get("tuning"),
                      variants=job.get("variants", 0), small_clusters=True, **job["options"])
    started, busy = time.perf_counter(), time.process_time()
    result = driver.compile(source, options, ("ptx", "manifest"))
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    ptx, manifest = result.outputs["ptx"], result.manifest
    stem = hashlib.sha256(ptx.encode()).hexdigest()[:20]
    place = Path(job["folder"]) / stem
    place.with_suffix(".ptx").write_text(ptx)
    place.with_suffix(".json").write_text(json.dumps(manifest))
    found = {
        "at": str(place), "seconds": seconds, "busy": busy,
        "tunables": dict(result.tunables), "meta": dict(result.bindings.meta),
        "warnings": [f"{d.name}: {d.message}" for d in result.diagnostics],
        "remarks": [(r.pass_name, r.message, r.missed) for r in result.remarks],
        "kernels": [{key: k[key] for key in ("name", "tile", "threads", "shared_bytes",
                                             "dynamic_shared_bytes")} for k in manifest["kernels"]],
    }
    if job.get("cubin"):
        from tritonc import ptxas

        say("ptxas")
        place.with_suffix(".cubin").write_bytes(ptxas.assemble(ptx, job["arch"]))
    if job.get("assemble"):
        say("ptxas")
        found["assembled"] = assemble(ptx, job["arch"])
    if job.get("load"):
        say("load")
        found["load"] = load(ptx, manifest)
    return found


def assemble(ptx: str, arch: str) -> Job:
    """What NVIDIA's assembler says: registers, spills and advice by kernel; its time."""
    import tempfile

    from tritonc import ptxas

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "m.ptx").write_text(ptx)
        started, busy = time.perf_counter(), _children()
        done = subprocess.run([ptxas.find(), "-v", f"-arch={arch}", "m.ptx", "-o", "m.cubin"],
                              cwd=folder, capture_output=True, text=True)
        seconds, busy = time.perf_counter() - started, _children() - busy
    text = done.stdout + done.stderr
    if done.returncode:
        return {"seconds": seconds, "busy": busy, "failed": text.strip()[:300], "kernels": {},
                "advice": []}
    kernels = {name: {"registers": r.registers, "spills": r.spill_stores + r.spill_loads,
                      "stack": r.stack}
               for name, r in ptxas.read_resources(text).items()}
    return {"seconds": seconds, "busy": busy, "kernels": kernels,
            "advice": sorted(set(re.findall(r"\((C7\d+)\)", text)))}


def _children() -> float:
    """Seconds of the processor that processes took which have ended."""
    times = os.times()
    return times.children_user + times.children_system


def load(ptx: str, manifest: Job) -> Job:
    """Have the driver compile the PTX, which its cache on disk then holds."""
    from tritonc.launch import cuda_driver
    from tritonc.launch.python.kernel import Module

    started = time.perf_counter()
    module = Module(ptx, manifest)
    driver = cuda_driver.open_driver()
    for kernel in module:
        module.entry(driver, 0, kernel)
    return {"seconds": time.perf_counter() - started}


def _workload(job: Job, name: str = "") -> Any:
    import suite_support

    sizes = Path(job["other_sizes"]) if job.get("other_sizes") else None
    return next(w for w in suite_support.workloads(
        collection=job.get("collection", "suite"), others=sizes)
        if w.name == (name or job["name"]))


def warm(job: Job, say: Say) -> Job:
    """Compile a workload's kernels in Triton, which its cache on disk then holds."""
    try:
        import suite_triton
    except ImportError:  # then nothing is compared with it
        return {}
    from suite_measure import case_of, types_of

    workload = _workload(job)
    manifest = json.loads(Path(job["at"]).with_suffix(".json").read_text())
    case = case_of(workload, types_of(manifest), "meta")
    suite_triton.only_compile = True
    failed = {}
    for name, run in workload.kind.peers(case).items():
        if name.startswith("triton"):
            say(name)
            try:
                run()
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}".split("\n")[0][:160]
    return failed


def measure(job: Job, say: Say) -> Job:
    """Measure a workload.  `lost`: the context does not work any more."""
    import suite_measure
    import torch

    say("load")
    modules = {}
    for name, place in job["modules"].items():
        try:
            module = _module(place)
            modules[name] = module.kernels, module.manifest
        except Exception as error:
            if name == "ours":
                return {"failed": f"{type(error).__name__}: {error}"[:300]}
    found: Job
    try:
        found = suite_measure.measure(_workload(job), modules, job["rounds"], job["least_ms"],
                                      job["skip"], say,
                                      {name: _workload(job, other)
                                       for name, other in job.get("others", {}).items()},
                                      job.get("screen", 0))
    except Exception as error:
        import traceback

        traceback.print_exc()
        found = {"failed": f"{type(error).__name__}: {error}"[:300]}
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except Exception:
        found["lost"] = True
    return found


@cache
def _module(place: str) -> Any:
    """What was compiled, loaded: machine code if it is there, else PTX."""
    from tritonc.launch.python.kernel import Module

    path = Path(place)
    image = path.with_suffix(".cubin")
    text: Any = (_Image(image.read_bytes()) if image.exists()
                 else path.with_suffix(".ptx").read_text())
    module = Module(text, json.loads(path.with_suffix(".json").read_text()))
    module.entry(_driver(), 0, next(iter(module)))
    return module


class _Image(bytes):
    """Machine code where a module expects text."""

    def encode(self) -> bytes:
        return bytes(self)


def _driver() -> Any:
    from tritonc.launch import cuda_driver

    return cuda_driver.open_driver()


def about(job: Job, say: Say) -> Job:
    """The machine and the peers' versions."""
    import torch

    found = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(0),
             "cudnn": torch.backends.cudnn.version()}
    try:
        import triton

        found["triton"] = triton.__version__
    except ImportError:
        found["triton"] = "none"
    if job.get("peaks"):
        from peaks import measured_peaks

        from tritonc.launch.cuda import Device

        with Device() as gpu:
            found["peaks"] = measured_peaks(gpu)._asdict()
    return found


JOBS = {"compile": compile_file, "warm": warm, "measure": measure, "about": about}


def main() -> None:
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        job = json.loads(line)
        try:
            result = JOBS[job["do"]](job, lambda text: print(json.dumps({"at": text}),
                                                             file=channel))
        except Exception as error:
            result = {"failed": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps({"result": result}), file=channel)


# in the process that asks

class Worker:
    """A process that does one job after the other."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.process: subprocess.Popen[str] | None = None
        self.lines: queue.Queue[str | None] = queue.Queue()

    def _start(self) -> subprocess.Popen[str]:
        if self.process is None or self.process.poll() is not None:
            self.lines = queue.Queue()
            with self.log.open("a") as log:
                self.process = subprocess.Popen(
                    [sys.executable, str(Path(__file__).resolve())], stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=log, text=True)
            threading.Thread(target=_listen, args=(self.process, self.lines), daemon=True).start()
        return self.process

    def do(self, job: Job, limit: float) -> Job:
        """The job's result.  "failed" says why there is none, "where" what was done last."""
        process, where = self._start(), "start"
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
        except OSError:
            self.stop()
            return {"failed": "the process ended", "where": where, "lost": True}
        end = time.monotonic() + limit
        while True:
            try:
                line = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                self.stop()
                return {"failed": f"no result after {limit:.0f} s ({where})", "where": where,
                        "lost": True}
            if line is None:
                self.stop()
                return {"failed": f"the process ended ({where})", "where": where, "lost": True}
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if "result" in said:
                result: Job = said["result"]
                result.setdefault("where", where)
                if result.get("lost"):
                    self.stop()
                return result
            where = said.get("at", where)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            self.process = None


def _listen(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def do_all(jobs: Iterable[Job], count: int, limit: float, log: Path) -> Iterator[tuple[Job, Job]]:
    """Each job with its result, as they end, by `count` processes that end with it."""
    waiting: queue.Queue[Job] = queue.Queue()
    done: queue.Queue[tuple[Job, Job]] = queue.Queue()
    number = 0
    for job in jobs:
        waiting.put(job)
        number += 1

    def work() -> None:
        worker = Worker(log)
        with contextlib.suppress(queue.Empty):
            while True:
                job = waiting.get_nowait()
                done.put((job, worker.do(job, limit)))
        worker.stop()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(count, number))]
    for thread in threads:
        thread.start()
    for _ in range(number):
        yield done.get()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
