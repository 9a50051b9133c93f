"""What --dry-run, -v, -Rpass, -ftime-report and -ftime-trace say of a compilation."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tritonc import __version__, ptxas
from tritonc.cli.commandline import FLAGS_VARIABLE
from tritonc.cli.info_command import module, resources
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


def tell(result: Result, options: Options, path: str | None) -> None:
    """What -v says: what was decided, and what came of it; `path` is that of ptxas."""
    lines = [f"tritonc {__version__}, target {options.arch}"]
    if flags := os.environ.get(FLAGS_VARIABLE):
        lines.append(f"{FLAGS_VARIABLE}: {flags}")
    for name, value in result.tunables.items():
        lines.append(f"tunable {name} = {value} ({_origin(name, result)})")
    for name, value in result.bindings.meta.items():
        lines.append(f"meta-parameter {name} = {value} ({_origin(name, result)})")
    lines += result.variants.notes()
    found: Mapping[str, ptxas.Resources] = {}
    if ptx := result.outputs.get("ptx"):
        try:
            found = resources(ptx, options.arch, path)
        except CompileError as error:
            lines.append(f"the assembler refuses: {error.diagnostics[0].message}")
    if result.manifest is not None:
        lines += module(result.manifest, found)
    print("\n".join(lines), file=sys.stderr)


def _origin(name: str, result: Result) -> str:
    """Who chose the value of a tunable or meta-parameter."""
    who = result.bindings
    if name in who.chosen or any(name in own for own in who.chosen_meta.values()):
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
    for name, seconds in result.timings.items():
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
    total = sum(seconds for name, seconds in result.timings.items() if not name.startswith(" "))
    for name, seconds in (*result.timings.items(), ("total", total)):
        print(f"{seconds * 1e3:9.2f} ms  {name}", file=sys.stderr)
