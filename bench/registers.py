"""Registers, spills and times of the assembler: every kernel of a list of sources, at its defaults.

    python bench/registers.py [FILE...] [--arch sm_90a,...] [--least] [--json OUT]

Without files: all of the repository.  A line for each kernel and target that spills, that
the assembler refuses or repairs (C75xx, C76xx), that takes long, or whose estimate is more than a
sixth below what it takes; then totals.  `--all` prints every kernel.  `--least` finds the fewest
registers with which the assembler does not spill, by bisection, and compares the estimate with
these: the assembler takes more than it needs where that lets loads begin early.  Times are those of
a processor.  Needs ptxas.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from time import process_time
from typing import Any

from tritonc import driver, ptxas
from tritonc.analysis.registers.pressure import pressure
from tritonc.launch.run_problems import read_problems, with_defines
from tritonc.options import Options
from tritonc.source import CompileError, Diagnostics, SourceFile

ROOT = Path(__file__).parent.parent
TARGETS = "sm_75,sm_80,sm_86,sm_89,sm_90a,sm_100a,sm_120a"
LONG_COMPILE, LONG_ASSEMBLE = 2.0, 3.0  # seconds
BELOW = 0.85  # of the real number
SERIALIZED = "C7514"  # of products on wgmma, all of a function


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--arch", default=TARGETS)
    parser.add_argument("--tune", default="", help="NAME=VALUE,...")
    parser.add_argument("-D", action="append", default=[], dest="defines")
    parser.add_argument("--least", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tune = {k: int(v) for k, v in (item.split("=") for item in options.tune.split(",") if item)}
    files = options.files or sources()
    tasks = [(path, arch) for path in files for arch in options.arch.split(",")]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for found in pool.map(measure, *zip(*tasks, strict=True), repeat(tune),
                              repeat(options.defines), repeat(options.least)):
            rows += found
            for row in found:
                if options.all or row["faults"]:
                    print(line(row), flush=True)
    summary(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return any(row["spills"] or "refused" in row["faults"] or SERIALIZED in row["faults"]
               for row in rows)


def sources() -> list[Path]:
    """The programs of the repository."""
    return [path for folder in ("samples", "tests/run", "tests/host", "examples", "bench")
            for path in sorted((ROOT / folder).rglob("*.tc"))]


def measure(path: Path, arch: str, tune: dict[str, int], defines: list[str],
            least: bool) -> list[dict[str, Any]]:
    """A row for each kernel of the source."""
    started = process_time()
    name = str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
    row: dict[str, Any] = {"file": name, "arch": arch, "kernel": "", "spills": 0, "faults": []}
    try:
        result = compile_plainly(path, Options(arch=arch, tune=tune, defines=tuple(defines)))
    except CompileError as error:
        row["faults"] = [f"not compiled: {error.diagnostics[0].message}"]
        return [row]
    except driver.InternalError as error:
        row["faults"] = [f"bug: {error}"]
        return [row]
    row["compile_s"] = round(process_time() - started, 2)
    if row["compile_s"] > LONG_COMPILE:
        row["faults"] = [f"compiled in {row['compile_s']} s"]
    ptx = result.outputs["ptx"]
    started = children()
    log, code = assemble(ptx, arch)
    row["assemble_s"] = round(children() - started, 2)
    if row["assemble_s"] > LONG_ASSEMBLE:
        row["faults"] = [*row["faults"], f"assembled in {row['assemble_s']} s"]
    if code:
        row["faults"] = [*row["faults"], "refused", log.strip().splitlines()[0][:100]]
        return [row]
    advisories = sorted(set(re.findall(r"C7[56]\d\d", log)))
    resources = ptxas.read_resources(log)
    rows = []
    assert result.module is not None
    for kernel in result.module.kernels:
        used = resources[kernel.name]
        estimate = pressure(kernel)
        faults = [*row["faults"], *advisories]
        spills = used.spill_stores + used.spill_loads
        if spills:
            faults.append(f"spills {used.spill_stores} + {used.spill_loads} bytes")
        cap = cap_of(kernel.attributes)
        real = used.registers
        if least:
            real = fewest(ptx, arch, kernel.name, used.registers)
        if estimate.registers < BELOW * real:
            faults.append("estimate is low")
        rows.append({**row, "kernel": kernel.name, "registers": used.registers, "cap": cap,
                     "warps": kernel.attributes.get("num_warps"), "stack": used.stack,
                     "min_blocks": kernel.attributes.get("min_blocks"), "least": real,
                     "estimate": estimate.registers, "spills": spills, "faults": faults,
                     "tunables": dict(result.tunables)})
    return rows


def compile_plainly(path: Path, options: Options, kind: str = "ptx") -> driver.Result:
    """As `tritonc FILE` does; with the macros of its first problem where it needs them."""
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    options = replace(options, include_dirs=(str(path.parent),))
    try:
        return driver.compile(source, options, (kind,))
    except CompileError:
        first = next(iter(read_problems(source, options, "tc", Diagnostics())), None)
        if first is None or not first.defines:
            raise
        return driver.compile(source, with_defines(first, options), (kind,))


def children() -> float:
    """Seconds of the processor that finished programs took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cap_of(attributes: dict[str, Any]) -> int:
    """Registers that the launch bounds leave a thread."""
    threads = 32 * (attributes["num_warps"] + attributes.get("producer_warps", 0))
    blocks = max(1, attributes.get("min_blocks") or 1)
    return min(255, 65536 // (threads * blocks) // 8 * 8)


def assemble(ptx: str, arch: str, *flags: str) -> tuple[str, int]:
    """What ptxas -v says, and its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "module.ptx")
        file.write_text(ptx, encoding="utf-8")
        done = subprocess.run([ptxas.find(), "-v", f"-arch={arch}", *flags, str(file), "-o",
                               str(Path(folder, "out"))], capture_output=True, text=True)
        return done.stderr + done.stdout, done.returncode


def fewest(ptx: str, arch: str, kernel: str, most: int) -> int:
    """The fewest registers, to 4, with which a kernel does not spill."""
    free = re.sub(r"^\.(minnctapersm|maxnreg) .*\n", "", ptx, flags=re.MULTILINE)
    at = free.index(".reqntid", free.index(f".entry {kernel}("))
    if "setmaxnreg" in ptx:
        return most

    def spills(count: int) -> bool:
        log, code = assemble(f"{free[:at]}.maxnreg {count}\n{free[at:]}", arch)
        used = ptxas.read_resources(log).get(kernel)
        return bool(code) or used is None or used.spill_stores + used.spill_loads > 0

    low, high = 16, 255
    if spills(high):
        return 256
    high = min(high, most) if not spills(most) else high
    while high - low > 4:
        middle = (low + high) // 2
        low, high = (middle, high) if spills(middle) else (low, middle)
    return high


def line(row: dict[str, Any]) -> str:
    of = f"{row['file']}:{row['kernel']} {row['arch']}"
    if "registers" not in row:
        return f"{of}: {'; '.join(row['faults'])}"
    return (f"{of}: warps {row['warps']}, cap {row['cap']}, estimate {row['estimate']}, least "
            f"{row['least']}, real {row['registers']}, "
            f"{row['compile_s']} s + {row['assemble_s']} s; {'; '.join(row['faults'])}")


def summary(rows: list[dict[str, Any]]) -> None:
    done = [row for row in rows if "registers" in row]
    spilled = [row for row in done if row["spills"]]
    refused = [row for row in rows if "registers" not in row]
    low = [row for row in done if "estimate is low" in row["faults"]]
    ratios = sorted(row["estimate"] / row["least"] for row in done)
    print(f"{len(done)} kernels: {len(spilled)} spill, {len(refused)} not assembled, "
          f"{len(low)} with a low estimate, "
          f"{sum(SERIALIZED in row['faults'] for row in done)} with serialised products")
    if ratios:
        print("estimate / registers: " + ", ".join(
            f"{q}%: {ratios[min(len(ratios) - 1, len(ratios) * q // 100)]:.2f}"
            for q in (0, 10, 25, 50, 75, 90, 100)))


if __name__ == "__main__":
    sys.exit(main())
