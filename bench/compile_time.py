"""How long a cold compilation takes, beside a cold `triton.compile` of the same kernel.

    python bench/compile_time.py [--runs 9] [--python PYTHON_WITH_TRITON]

Each run is a new process, from its start to the PTX in a file: `tritonc samples/matmul.tc -o FILE`,
and a script that compiles the same matrix product (float, the same tile) with Triton into a fresh
cache.  Runs alternate.  Printed are medians, spreads and the ratio of medians, of wall time and of
processor time, which other programs disturb less.  Triton (package triton) compiles without a GPU,
and runs ptxas as its last stage, which tritonc leaves to the driver; without the package only
tritonc is measured.  Then follows where tritonc's time goes: stages of a compilation, and imports.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEER = '''
import sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def matmul(a, b, c, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    rm = tl.program_id(0) * TM + tl.arange(0, TM)
    rn = tl.program_id(1) * TN + tl.arange(0, TN)
    rk = tl.arange(0, TK)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = b + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for k in range(K, 0, -TK):
        x = tl.load(pa, mask=(rm < M)[:, None] & (rk < k)[None, :], other=0.0)
        y = tl.load(pb, mask=(rk < k)[:, None] & (rn < N)[None, :], other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        pa += TK
        pb += TK * N
    tl.store(c + rm[:, None] * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :])

signature = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32",
             "TM": "constexpr", "TN": "constexpr", "TK": "constexpr"}
constants = {"TM": 64, "TN": 128, "TK": 16}
source = ASTSource(fn=matmul, signature=signature, constexprs=constants)
compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32))
open(sys.argv[1], "w").write(compiled.asm["ptx"])
'''


Times = list[tuple[float, float]]


def seconds(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """The wall time and the processor time of a process."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, busy


def has_triton(python: str) -> bool:
    done = subprocess.run([python, "-c", "import triton"], capture_output=True)
    return done.returncode == 0


def report(name: str, times: Times) -> None:
    for what, values in zip(("wall", "processor"), zip(*times)):
        print(f"{name:8} {what:9} median {statistics.median(values):.3f} s, "
              f"from {min(values):.3f} to {max(values):.3f} s, {len(values)} runs")


def where(command: list[str], environment: dict[str, str]) -> None:
    """Print the longest stages of a compilation, and the longest imports by package."""
    told = subprocess.run([*command, "-ftime-report"], env=environment, check=True,
                          capture_output=True, text=True).stderr
    stages = re.findall(r"^ *([\d.]+) ms  (\S.*)$", told, re.MULTILINE)
    print("\nstages, ms: " + ", ".join(
        f"{name} {float(ms):.0f}" for ms, name in stages if float(ms) >= 1))
    told = subprocess.run([command[0], "-X", "importtime", *command[1:]], env=environment,
                          check=True, capture_output=True, text=True).stderr
    packages: dict[str, float] = {}
    for own, name in re.findall(r"^import time: *(\d+) \| *\d+ \| *(\S+)$", told, re.MULTILINE):
        package = ".".join(name.split(".")[: 2 if name.startswith("tritonc") else 1])
        packages[package] = packages.get(package, 0) + int(own) / 1000
    longest = sorted(packages.items(), key=lambda row: -row[1])[:12]
    print(f"imports, ms: {sum(packages.values()):.0f} in all; "
          + ", ".join(f"{name} {ms:.0f}" for name, ms in longest))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--python", default=sys.executable, help="one that has triton")
    arguments = parser.parse_args()
    peer = has_triton(arguments.python)
    ours: Times = []
    theirs: Times = []
    with tempfile.TemporaryDirectory() as directory:
        script, output = Path(directory) / "peer.py", str(Path(directory) / "out.ptx")
        script.write_text(PEER)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
            filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode
        for run in range(arguments.runs + 1):  # the first warms the file cache and is not counted
            fresh = {**environment, "TRITON_CACHE_DIR": str(Path(directory) / f"cache{run}")}
            commands = [(ours, [sys.executable, "-m", "tritonc.cli.main",
                                str(ROOT / "samples" / "matmul.tc"), "-o", output])]
            if peer:
                commands.append((theirs, [arguments.python, str(script), output]))
            for times, command in commands:
                took = seconds(command, fresh)
                if run:
                    times.append(took)
        report("tritonc", ours)
        if peer:
            report("triton", theirs)
            ratios = [statistics.median(a) / statistics.median(b)
                      for a, b in zip(zip(*ours), zip(*theirs))]
            print(f"ratio    {ratios[0]:.2f} of wall time, {ratios[1]:.2f} of processor time")
        else:
            print("triton   not measured: the package is not installed")
        where(commands[0][1], environment)


if __name__ == "__main__":
    main()
