"""The same work, written differently: does the speed depend on how a kernel is written?

    python bench/ways.py [--group products,fp32,attention,memory] [--filter TEXT] [--size 4096,2048]
                         [--json FILE] [--compile-only] [--remarks] [--save FOLDER]

Each file of ways/products and ways/attention is a plain kernel with its problem.  It is checked in
float64 and measured beside the sample that computes the same, samples/matmul_bf16.tc or
samples/attention.tc, in turn, and compared by its rate: the flops that its problem states, over its
time.  Its line `// goal: 0.97` is the least ratio that is wanted; `// goal: 1.0 of blockwise` one
to a peer of torch.  Files whose goal names `float` too are measured with float for bfloat16.
Each folder of ways/memory has a kernel that memory limits, plain.tc, and ways to write it beside;
their rate is that of the bytes which the problem states.

--compile-only needs no GPU: it prints what is known of each kernel without one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from compiling import Compiled, assemble, bench_sizes, compile_source, problem_of

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(__file__).resolve().parent / "ways"
GROUPS = ("products", "fp32", "attention", "memory")
HEADS = (128, 64)
_GOAL = re.compile(r"^// goal: ([\d.]+)(?: of (\w+))?(?:, float ([\d.]+))?$", re.MULTILINE)


@dataclass
class Way:
    """One kernel to compile.  `plain` says that it is the sample itself."""

    group: str
    name: str
    variant: str  # what else tells it from others: a head's length
    about: str
    text: str = field(repr=False)
    goal: float = 1.0
    peer: str | None = None  # of torch: what to measure too; the goal is then relative to it
    defines: tuple[str, ...] = ()
    fast_math: bool = False
    plain: bool = False

    @property
    def label(self) -> str:
        return f"{self.name} {self.variant}".strip()


def as_float(text: str) -> str:
    """A product of bfloat16 as one of float, with the tiles and the tolerance of matmul.tc.

    >>> as_float("//! tolerance: 5e-3\\nconst tunable int TK = {32, 64, 128};\\nbfloat16* a")
    '//! tolerance: 2e-5\\nconst tunable int TK = {8, 16, 32, 64, 128};\\nfloat* a'
    """
    text = re.sub(r"^//! tolerance: .*$", "//! tolerance: 2e-5", text, flags=re.MULTILINE)
    text = text.replace("int TK = {32, 64, 128}", "int TK = {8, 16, 32, 64, 128}")
    return text.replace("bfloat16", "float")


def files(folder: str) -> list[Path]:
    return sorted((FOLDER / folder).glob("*.tc"))


def goal_of(text: str) -> tuple[float, str | None, float | None]:
    """(ratio, peer or None for the sample, ratio of the float version or None if there is none).

    >>> goal_of("// A b.\\n// goal: 0.97, float 0.95\\n"), goal_of("// goal: 1.0 of blockwise\\n")
    ((0.97, None, 0.95), (1.0, 'blockwise', None))
    """
    match = _GOAL.search(text)
    if match is None:
        raise ValueError("a line `// goal: RATIO` is missing")
    return float(match[1]), match[2], float(match[3]) if match[3] else None


def _way(path: Path, group: str) -> Way | None:
    text = path.read_text(encoding="utf-8")
    goal, peer, as_fp32 = goal_of(text)
    if group == "fp32":
        if as_fp32 is None:
            return None
        text, goal, peer = as_float(text), as_fp32, None
    return Way(group, path.stem, "", text.split("\n")[0].removeprefix("// "), text, goal, peer)


def listing(groups: tuple[str, ...], ieee: bool = False) -> list[Way]:
    """All ways of these groups, each group behind its plain sample."""
    found = []
    for group in groups:
        if group == "attention":
            sample = (ROOT / "samples" / "attention.tc").read_text(encoding="utf-8")
            for head in HEADS:
                own = [Way(group, "plain", "", "the sample", sample, peer="cudnn", plain=True),
                       *(w for p in files("attention") if (w := _way(p, group)))]
                for way in own:
                    way.variant = f"d{head}"
                    way.defines = (f"D={head}",)
                    way.fast_math = not ieee
                found += own
        elif group == "memory":
            for folder in sorted((FOLDER / group).iterdir()):
                own = [w for p in files(f"{group}/{folder.name}") if (w := _way(p, group))]
                for way in own:
                    way.variant, way.plain = folder.name, way.name == "plain"
                found += sorted(own, key=lambda way: not way.plain)
        else:
            sample = "matmul.tc" if group == "fp32" else "matmul_bf16.tc"
            text = (ROOT / "samples" / sample).read_text(encoding="utf-8")
            found.append(Way(group, "plain", "", "the sample", text, peer="cublas", plain=True))
            found += [w for p in files("products") if (w := _way(p, group))]
    return found


# --- compiling ------------------------------------------------------------------------------------


@dataclass
class Built:
    """What compiling a way gave; `failed` says why there is no kernel."""

    way: Way
    compiled: Compiled | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    failed: str | None = None


def machinery(ptx: str) -> dict[str, Any]:
    """How the kernel multiplies, how operands come, and whether a producer warp fetches them."""
    means = [name for name, pattern in (
        ("TMA", r"cp\.async\.bulk\.tensor\.\dd\.shared::cluster\.global"),
        ("bulk", r"cp\.async\.bulk\.shared::cluster\.global"),
        ("cp.async", r"cp\.async\.c[ag]\.shared")) if re.search(pattern, ptx)]
    units = [name for name, pattern in (
        ("wgmma", r"wgmma\.mma_async"), ("mma", r"\bmma\.sync"), ("fma", r"\bfma\.rn(\.f32|\.ftz)"))
        if re.search(pattern, ptx)]
    return {"copies": "+".join(means) or "none", "unit": units[0] if units else "none",
            "producer": "setmaxnreg.dec" in ptx}


def _expired(*_: object) -> None:
    raise TimeoutError("compiling takes too long")


def build(way: Way, arch: str, seconds: int, for_gpu: bool) -> Built:
    """Compile and assemble a way; in a process of a pool.  Raises nothing."""
    built = Built(way)
    signal.signal(signal.SIGALRM, _expired)
    signal.alarm(seconds)
    try:
        compiled = compile_source(way.text, arch=arch, defines=way.defines,
                                  fast_math=way.fast_math)
        built.compiled = compiled
        kernel = compiled.kernel
        built.facts = {
            "tile": [kernel["tunables"][n] for n in ("TM", "TN", "TK") if n in kernel["tunables"]]
            or kernel["tile"],
            "threads": kernel["threads"],
            "shared": kernel["shared_bytes"] + kernel["dynamic_shared_bytes"],
            "compile_seconds": round(compiled.seconds, 2), **machinery(compiled.ptx)}
        if for_gpu:
            _warm(compiled.ptx)
        assembly = assemble(compiled, arch)
        if assembly is not None:
            built.facts |= {
                "registers": assembly.registers, "spill_bytes": assembly.spill_bytes,
                "stack_bytes": assembly.stack_bytes, "advice": assembly.advice,
                "ptxas_seconds": round(assembly.seconds, 2)}
    except Exception as error:
        message = f"{type(error).__name__}: {error}"[:1000]
        if built.compiled is None:
            built.failed = message
        else:
            built.facts["ptxas_failed"] = message
    finally:
        signal.alarm(0)
    return built


def _warm(ptx: str) -> None:
    """Let the GPU's driver assemble the PTX, which its cache on disk then has."""
    try:
        from cuda.bindings import driver  # only where there is a GPU

        driver.cuInit(0)
        _, context = driver.cuDevicePrimaryCtxRetain(0)
        driver.cuCtxSetCurrent(context)
        log = bytearray(1 << 14)
        keys = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
                driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        driver.cuModuleLoadDataEx(ptx.encode() + b"\0", 2, keys, [log, len(log)])
    except Exception:
        pass  # the process that measures says what is wrong


def build_all(ways: list[Way], arch: str, jobs: int, seconds: int, for_gpu: bool) -> list[Built]:
    """Compile all, `jobs` at a time.  A way whose compilation ends its process fails alone."""
    done: dict[int, Built] = {}
    waiting = list(range(len(ways)))
    alone = False  # after a process has ended, one way a pool, as nobody knows which one did it
    while waiting:
        now = waiting[:1] if alone else waiting
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1 if alone else jobs, context) as pool:
            futures: dict[int, Future[Built]] = {
                i: pool.submit(build, ways[i], arch, seconds, for_gpu) for i in now}
            for index, future in futures.items():
                try:
                    done[index] = future.result()
                except BrokenProcessPool:
                    if alone:
                        done[index] = Built(ways[index], failed="the compiling process ended")
                    alone = True
        waiting = [i for i in waiting if i not in done]
    return [done[i] for i in range(len(ways))]


# --- measuring ------------------------------------------------------------------------------------


class Worker:
    """A process with the GPU, started anew after a kernel that took its context away."""

    def __init__(self) -> None:
        self.process: Any = None
        self.connection: Any = None

    def ask(self, task: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self.process is None or not self.process.is_alive():
            self._start()
            seconds += 120  # torch starts
        try:
            self.connection.send(task)
            if self.connection.poll(seconds):
                answer: dict[str, Any] = self.connection.recv()
                if answer.pop("lost"):
                    self.stop()
                return answer
            self.stop()
            return {"failed": f"no answer within {seconds:.0f} s"}
        except (EOFError, OSError):
            self.stop()
            return {"failed": "the measuring process ended"}

    def _start(self) -> None:
        self.stop()
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self) -> None:
        if self.connection is not None:
            self.connection.close()
        if self.process is not None:
            self.process.kill()
            self.process.join(20)
        self.process = self.connection = None


def _serve(connection: Any) -> None:
    from ways_gpu import serve  # imports torch, which the other processes do without

    serve(connection)


def tasks(built: list[Built], sizes: set[int], rounds: int) -> Iterator[tuple[Built, int, Any]]:
    """(way, its size, what to send), those of one plain kernel and size behind one another."""
    found = []
    for order, one in enumerate(built):
        try:
            problem = problem_of(one.way.text, one.way.defines)
            benches = bench_sizes(problem)
        except Exception as error:
            one.failed = one.failed or f"{type(error).__name__}: {error}"[:1000]
            benches = []
        if one.way.plain:
            continue
        for values in benches:
            memory = one.way.group == "memory"
            extent = 0 if memory else values["S" if one.way.group == "attention" else "N"]
            if memory or (extent in sizes and not (one.way.group == "fp32" and extent != 4096)):
                found.append((GROUPS.index(one.way.group), one.way.variant, -extent, order, one,
                              values))
    found.sort(key=lambda row: row[:4])
    before = None
    for _, variant, negative, _, one, values in found:
        plain = next(b for b in built if b.way.plain
                     and (b.way.group, b.way.variant) == (one.way.group, variant))
        same = bench_sizes(problem_of(plain.way.text))[0] if one.way.group == "memory" else (
            {"H": 32, "S": -negative} if one.way.group == "attention"
            else dict.fromkeys("MNK", -negative))
        sent = _task(plain, same, rounds)
        sent["key"] = f"{plain.way.group} {variant} {same}"
        if sent["key"] != before:
            before = sent["key"]
            yield plain, -negative, {**sent, "plain": sent}
        yield one, -negative, {**_task(one, values, rounds), "plain": sent}


def _task(built: Built, sizes: dict[str, int], rounds: int) -> dict[str, Any]:
    return {"text": built.way.text, "defines": built.way.defines, "sizes": sizes,
            "ptx": built.compiled.ptx if built.compiled else None,
            "kernel": built.compiled.kernel if built.compiled else None,
            "peer": built.way.peer, "rounds": rounds}


def measure(built: list[Built], options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each way and size, printed as it comes."""
    worker = Worker()
    rows = []
    sizes = {int(s) for s in options.size.split(",")}
    title = None
    for one, size, task in tasks(built, sizes, options.rounds):
        row = {"group": one.way.group, "way": one.way.name, "variant": one.way.variant,
               "size": size, "goal": one.way.goal, "goal_of": one.way.peer or "plain",
               "plain": one.way.plain, **one.facts}
        if one.compiled is None:
            row["failed"] = f"not compiled: {one.failed}"
        elif task["plain"]["ptx"] is None:
            row["failed"] = "the plain sample is not compiled"
        else:
            row |= worker.ask(task, options.timeout)
        if "failed" not in row:
            reached = row["ratio"] if one.way.plain or not one.way.peer else row.get("of_peer")
            row["reached"] = reached
            row["met"] = None if reached is None else round(reached, 3) >= one.way.goal
        if title != (one.way.group, one.way.variant, size):
            title = (one.way.group, one.way.variant, size)
            print(f"\n{' '.join(map(str, title))}\n{MEASURED}", flush=True)
        print(measured_line(row), flush=True)
        rows.append(row)
    worker.stop()
    return rows


MEASURED = (f"{'way':22} {'ratio':>6} {'goal':>5}      {'ms':>8} {'TFLOP/s':>7} {'peer':>6} "
            f"{'error':>7} {'tile':12} {'thr':>4} {'regs':>4} {'spill':>5} {'by':6} copies")


def measured_line(row: dict[str, Any]) -> str:
    name = row["way"]
    if "failed" in row:
        return f"{name:22} FAILED {' '.join(row['failed'].split())[:160]}"
    verdict = "" if row["plain"] else {True: "ok", False: "LESS", None: "?"}[row["met"]]
    goal = "" if row["plain"] else f"{row['goal']:.2f}"
    peer = f"{row['of_peer']:.3f}" if "of_peer" in row else ""
    registers = row.get("registers", row["driver_registers"])
    spill = row.get("spill_bytes", row["driver_local_bytes"])
    wrong = "  WRONG RESULT" if row["wrong"] else ""
    more = f"  ({row['no_peer']})" if "no_peer" in row else ""
    noisy = f"  spread {row['spread']:.3f}" if row["spread"] > 0.01 else ""
    return (f"{name:22} {row['ratio']:6.3f} {goal:>5} {verdict:4} {row['ms']:8.4f} "
            f"{row['tflops']:7.1f} {peer:>6} {row['error']:7.0e} "
            f"{'x'.join(map(str, row['tile'])):12} {row['threads']:4} {registers:4} {spill:5} "
            f"{row['unit']:6} {row['copies']}{'+producer' if row['producer'] else ''}"
            f"{wrong}{noisy}{more}")


def summary(rows: list[dict[str, Any]]) -> str:
    """How many goals were met, and the geometric mean of the ratios, by group and size."""
    lines = []
    for key in dict.fromkeys((r["group"], r["variant"], r["size"]) for r in rows):
        own = [r for r in rows if (r["group"], r["variant"], r["size"]) == key and not r["plain"]]
        ratios = [r["ratio"] for r in own if "ratio" in r]
        mean = statistics.geometric_mean(ratios) if ratios else float("nan")
        lines.append(
            f"{' '.join(map(str, key)):22} {sum(r.get('met') is True for r in own)} of {len(own)} "
            f"goals met, geometric mean {mean:.3f}, {sum('failed' in r for r in own)} failed, "
            f"{sum(bool(r.get('wrong')) for r in own)} wrong")
    return "\n".join(lines)


# --- the table without a GPU ----------------------------------------------------------------------


def compiled_table(built: list[Built], remarks: bool) -> None:
    plain: set[str] = set()
    title = None
    for one in built:
        if title != (one.way.group, one.way.variant):
            title = (one.way.group, one.way.variant)
            print(f"\n{' '.join(title)}\n{'way':22} {'tile':12} {'thr':>4} {'shared':>6} "
                  f"{'regs':>4} {'spill':>5} {'s':>5} {'as s':>5} {'by':6} copies")
        if one.failed is not None or one.compiled is None:
            print(f"{one.way.name:22} FAILED {one.failed}")
            continue
        facts = one.facts
        advice = "".join(f" {name}" for name in facts.get("advice", []))
        refused = f" REFUSED {facts['ptxas_failed']}" if "ptxas_failed" in facts else ""
        print(f"{one.way.name:22} {'x'.join(map(str, facts['tile'])):12} {facts['threads']:4} "
              f"{facts['shared']:6} {facts.get('registers', ''):>4} "
              f"{facts.get('spill_bytes', ''):>5} {facts['compile_seconds']:5.2f} "
              f"{facts.get('ptxas_seconds', ''):>5} {facts['unit']:6} {facts['copies']}"
              f"{'+producer' if facts['producer'] else ''}{advice}{refused}")
        if remarks:
            own = dict.fromkeys(one.compiled.remarks)
            if one.way.plain:
                plain = set(own)
            for text in own:
                if one.way.plain or text not in plain:
                    print(f"    {text}")
            for text in plain - set(own):
                print(f"    not as the sample: {text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--group", default=",".join(GROUPS), help=",".join(GROUPS))
    parser.add_argument("--filter", default="", help="a regular expression for names of ways")
    parser.add_argument("--size", default="8192,4096,2048", help="of those that bench: lines state")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=None, help="a file for all figures")
    parser.add_argument("--save", type=Path, default=None, help="a folder for the PTX")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--remarks", action="store_true",
                        help="with --compile-only: remarks that the sample's kernel does not have")
    parser.add_argument("--ieee", action="store_true", help="attention without -ffast-math")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) - 2))
    parser.add_argument("--timeout", type=int, default=60, help="seconds for one way")
    options = parser.parse_args()
    groups = tuple(options.group.split(","))
    if not set(groups) <= set(GROUPS):
        parser.error(f"groups are {', '.join(GROUPS)}")
    ways = [w for w in listing(groups, options.ieee)
            if w.plain or re.search(options.filter, w.name)]
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("CUDA_CACHE_PATH", cache)
        os.environ["CUDA_CACHE_DISABLE"] = "0"
        started = time.perf_counter()
        built = build_all(ways, options.arch, options.jobs, options.timeout,
                          not options.compile_only)
        print(f"{len(built)} kernels compiled in {time.perf_counter() - started:.0f} s", flush=True)
        if options.save is not None:
            options.save.mkdir(parents=True, exist_ok=True)
            for one in built:
                if one.compiled is not None:
                    name = "_".join([one.way.group, *one.way.label.split()])
                    (options.save / f"{name}.ptx").write_text(one.compiled.ptx)
        if options.compile_only:
            compiled_table(built, options.remarks)
            rows = [{**{k: v for k, v in asdict(one.way).items() if k != "text"}, **one.facts,
                     "failed": one.failed,
                     "remarks": one.compiled.remarks if one.compiled else []} for one in built]
            bad = any(row["failed"] or "ptxas_failed" in row for row in rows)
        else:
            rows = measure(built, options)
            print(f"\n{summary(rows)}\n{time.perf_counter() - started:.0f} s in all")
            bad = any("failed" in row or row["wrong"] for row in rows)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
