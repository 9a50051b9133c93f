"""How long a cold compilation takes, beside a cold `triton.compile` of the same kernel.

    python bench/compile_time.py [--runs 9] [--python PYTHON_WITH_TRITON]

Each run is a new process, from its start to the PTX in a file: `tritonc samples/matmul.tc -o FILE`,
and a script that compiles the same matrix product (float, the same tile) with Triton into a fresh
cache.  Runs alternate.  What is printed is the median, the spread and the ratio of medians.  Triton
(package triton) compiles without a GPU, and runs ptxas as its last stage, which tritonc leaves to
the driver; without the package only tritonc is measured.
"""

from __future__ import annotations

import argparse
import os
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


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """The wall time of a process."""
    started = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def has_triton(python: str) -> bool:
    done = subprocess.run([python, "-c", "import triton"], capture_output=True)
    return done.returncode == 0


def report(name: str, times: list[float]) -> None:
    print(f"{name:8} median {statistics.median(times):.3f} s, "
          f"from {min(times):.3f} to {max(times):.3f} s, {len(times)} runs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--python", default=sys.executable, help="one that has triton")
    arguments = parser.parse_args()
    peer = has_triton(arguments.python)
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        script, output = Path(directory) / "peer.py", str(Path(directory) / "out.ptx")
        script.write_text(PEER)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
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
        print(f"ratio    {statistics.median(ours) / statistics.median(theirs):.2f}")
    else:
        print("triton   not measured: the package is not installed")


if __name__ == "__main__":
    main()
