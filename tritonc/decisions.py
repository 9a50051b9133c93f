"""What -v and -ftime-report say of a compilation, on standard error."""

from __future__ import annotations

import os
import sys

from tritonc import __version__
from tritonc.commandline import FLAGS_VARIABLE
from tritonc.driver import Result
from tritonc.options import Options


def tell(result: Result, options: Options) -> None:
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
    print("\n".join(lines), file=sys.stderr)


def _origin(name: str, result: Result) -> str:
    """Who chose the value of a tunable or meta-parameter."""
    who = result.bindings
    if name in who.chosen:
        return "the cost model's choice"
    if name not in who.tuned:
        return "given"
    entry = who.tuned[name]
    size = "".join(f" {key}={value}" for key, value in sorted(entry.size.items()))
    return f"{who.tuning}: {entry.kernel}{size} on {entry.device}"


def time_report(result: Result) -> None:
    total = sum(seconds for name, seconds in result.timings if not name.startswith(" "))
    for name, seconds in (*result.timings, ("total", total)):
        print(f"{seconds * 1e3:9.2f} ms  {name}", file=sys.stderr)
