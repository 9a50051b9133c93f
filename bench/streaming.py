"""Bandwidth-bound samples beside a copy and beside torch: GB/s and ratios, results checked.

    python bench/streaming.py [--rows 16384] [--columns 1024,4096,8192,12345]
"""

from __future__ import annotations

import argparse

import torch
from harness import ROOT, build, interleaved, median, relative_error

SAMPLES = ROOT / "samples"


def report(name: str, bytes_moved: int, times: dict[str, list[float]], error: float) -> None:
    """One line: our bandwidth, the copy's and torch's, and ratios of bandwidth and time."""
    ours = bytes_moved / median(times["tritonc"]) * 1e-6
    copy = 2 * COPY / median(times["copy"]) * 1e-6
    theirs = bytes_moved / median(times["torch"]) * 1e-6
    print(f"{name}: {ours:6.0f} GB/s, copy {copy:6.0f}, torch {theirs:6.0f}, of copy "
          f"{ours / copy:.3f}, of torch {ours / theirs:.3f}, error {error:.1e}", flush=True)


COPY = 1 << 30  # bytes of the copy that is measured beside each


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--columns", default="1024,4096,8192,12345")
    options = parser.parse_args()
    torch.manual_seed(0)
    source = torch.randn(COPY // 4, device="cuda")
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)

    n = 1 << 28
    x, y, z = (torch.randn(n, device="cuda") for _ in range(3))
    add = build(SAMPLES / "vector_add.tc")
    times = interleaved({"tritonc": lambda: add((n,), x, y, z, n), "copy": copy,
                         "torch": lambda: torch.add(x, y, out=z)})
    add((n,), x, y, z, n)
    report(f"vector_add {n}", 12 * n, times, relative_error(z, x + y))
    relu = build(SAMPLES / "relu.tc")
    times = interleaved({"tritonc": lambda: relu((n,), x, z, n), "copy": copy,
                         "torch": lambda: torch.clamp(x, min=0, out=z)})
    relu((n,), x, z, n)
    report(f"relu {n}", 8 * n, times, relative_error(z, x.clamp(min=0)))
    transpose = build(SAMPLES / "transpose.tc")
    m = options.rows
    for columns in map(int, options.columns.split(",")):
        a = torch.randn(m, columns, device="cuda")
        b, c = torch.empty(columns, m, device="cuda"), torch.empty(m, columns, device="cuda")
        times = interleaved({"tritonc": lambda: transpose((m, columns), a, b, m, columns),  # noqa: B023
                             "copy": copy, "torch": lambda: b.copy_(a.t())})  # noqa: B023
        transpose((m, columns), a, b, m, columns)
        report(f"transpose {m}x{columns}", 8 * m * columns, times, relative_error(b, a.t()))
        power = 1 << (columns - 1).bit_length()
        softmax = build(SAMPLES / "softmax.tc", tune={"TM": 1, "TN": power})
        times = interleaved({"tritonc": lambda: softmax((m,), a, c, m, columns),  # noqa: B023
                             "copy": copy,
                             "torch": lambda: torch.softmax(a, 1, out=c)})  # noqa: B023
        softmax((m,), a, c, m, columns)
        report(f"softmax {m}x{columns}", 8 * m * columns, times,
               relative_error(c, torch.softmax(a, 1)))


if __name__ == "__main__":
    main()
