"""What --dry-run, -v, -Rpass, -ftime-report and -ftime-trace say of a compilation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tritonc import __version__, ptxas
from tritonc.cli.commandline import FLAGS_VARIABLE
from tritonc.options import Options
from tritonc.result import Result
from tritonc.source import CompileError


def plan(path: str, written: Sequence[str], options: Options, others: Sequence[str],
         programs: Sequence[str]) -> Iterator[str]:
    """What a compilation would do, a line each; `others` are further GPUs."""
    yield f"tritonc {__version__}, target {', '.join((options.arch, *others))}"
    yield f"read {path}"
    if options.tuning:
        yield f"read {options.tuning}"
    for program in programs:
        yield f"run {program}"
    for name in written:
        yield f"write {name}"


def tell(result: Result, options: Options, ptxas_path: str | None = None) -> None:
    """What -v says: what was decided that the source leaves open."""
    lines = [f"tritonc {__version__}, target {options.arch}"]
    if flags := os.environ.get(FLAGS_VARIABLE):
        lines.append(f"{FLAGS_VARIABLE}: {flags}")
    for name, value in result.tunables.items():
        lines.append(f"tunable {name} = {value} ({_origin(name, result)})")
    for name, value in result.bindings.meta.items():
        lines.append(f"meta-parameter {name} = {value} ({_origin(name, result)})")
    for kernel in (result.manifest or {}).get("kernels", []):
        lines.append(f"kernel {kernel['name']}: {kernel['threads']} threads, "
                     f"{kernel['shared_bytes'] + kernel['dynamic_shared_bytes']} bytes of shared "
                     f"memory, tile {kernel['tile']}")
        if small := kernel.get("small"):
            few, many = (", ".join(f"{k} = {v}" for k, v in of["tunables"].items())
                         for of in (small, kernel))
            lines.append(f"  grids of at most {small['most']} tiles run {few}; larger ones {many}")
        for number, variant in enumerate(kernel.get("variants", []), 1):
            values = ", ".join(f"{k} = {v}" for k, v in variant["tunables"].items())
            lines.append(f"  variant {number}, {variant['entry']}: {variant['threads']} threads, "
                         f"tile {variant['tile']}, {values}")
    lines += result.variants.notes()
    print("\n".join([*lines, *_registers(result, options.arch, ptxas_path)]), file=sys.stderr)


def _registers(result: Result, arch: str, path: str | None) -> Iterator[str]:
    """What the assembler says of the kernels, where it is at hand."""
    if "ptx" not in result.outputs:
        return
    try:
        found = ptxas.resources(result.outputs["ptx"], arch, path)
    except CompileError as error:
        if error.diagnostics[0].name != "no-ptxas":
            yield f"the assembler refuses: {error.diagnostics[0].message}"
        return
    for name, used in found.items():
        spilled = used.spill_stores + used.spill_loads
        yield (f"kernel {name}: {used.registers} registers, "
               f"{f'{spilled} bytes of spills' if spilled else 'no spills'} (ptxas)")


def _origin(name: str, result: Result) -> str:
    """Who chose the value of a tunable or meta-parameter."""
    who = result.bindings
    if name in {**who.chosen, **who.chosen_meta, **who.general_meta}:
        return "the cost model's choice" + (
            f"; {len(who.refused)} of what it tried did not compile" if who.refused else "")
    if name not in who.tuned:
        return "given"
    entry = who.tuned[name]
    size = "".join(f" {key}={value}" for key, value in sorted(entry.size.items()))
    return f"{who.tuning}: {entry.kernel}{size} on {entry.device}"


def time_trace(result: Result) -> str:
    """The stages and in them the passes, as Chrome's trace viewer and Perfetto read them: the
    array format of complete events, times in microseconds."""
    import json  # only where it is asked for

    events: list[dict[str, Any]] = []
    stage = inner = end = 0.0
    for name, seconds in result.timings:
        if not name.startswith(" "):
            stage, inner = end, end
            end = stage + seconds
        start = inner if name.startswith(" ") else stage
        events.append({"name": name.strip(), "ph": "X", "pid": 1, "tid": 1,
                       "ts": round(start * 1e6), "dur": round(seconds * 1e6)})
        inner += seconds if name.startswith(" ") else 0
    return json.dumps(events) + "\n"


def time_report(result: Result) -> None:
    """What -ftime-report prints: a line for each stage and pass, then the sum of the stages."""
    total = sum(seconds for name, seconds in result.timings if not name.startswith(" "))
    for name, seconds in (*result.timings, ("total", total)):
        print(f"{seconds * 1e3:9.2f} ms  {name}", file=sys.stderr)
