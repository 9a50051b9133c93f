"""Bandwidth-bound samples beside a copy, torch and Triton: GB/s and ratios, results checked.

    python bench/streaming.py [--dtype f32,bf16] [--rows 16384] [--columns 1024,4096,8192,12345]

The copy is a kernel of torch's (x * 1), of float32 numbers, 1 GiB, beside each kernel in the same
run: copy_ would use the copy engine, which is slower.  "like copy" moves as many bytes as the
kernel.  Rows of a kernel that are no longer than its largest tile are one tile.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
import triton_rows as peers
from harness import ROOT, Kernel, build, interleaved, median, relative_error, spread
from torch.nn import functional

DTYPES = {"f32": ("float", torch.float32, 1e-5), "bf16": ("bfloat16", torch.bfloat16, 1e-2)}
COPY = 1 << 30  # bytes of the copy
FLAT = 1 << 28  # numbers of an elementwise kernel
TILE = 8192  # bytes of a tile of rows, at least, if a row has fewer
ROUNDS, LEAST_MS, GAP_SECONDS = 6, 2.0, 0.004  # memory at its limit does not heat the chip much
SUMMED = 4096  # elements of a tile of rows that are only added up, at most


def sample(name: str, ctype: str, path: str = "samples/{}.tc", **tune: int) -> Kernel:
    """The kernel with its arrays of another type; what it computes in stays float."""
    text = (ROOT / path.format(name)).read_text()
    for qualifier in ("const float*", "float*"):
        text = text.replace(qualifier, qualifier.replace("float", ctype))
    return build(text, name, tune=tune)


class Bench:
    """The copy, and what every kernel is compared with."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.ctype, self.kind, self.tolerance = DTYPES[dtype]
        self.source = torch.randn(COPY // 4, device="cuda")
        self.target = torch.empty_like(self.source)

    def randn(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda").to(self.kind)

    def compare(self, name: str, moved: int, ours: Callable[[], Any], torchs: Callable[[], Any],
                triton: Callable[[], Any], found: torch.Tensor, want: torch.Tensor) -> None:
        """One line: our bandwidth, and our speed relative to the copy's, to that of a copy that
        moves as much, torch's and Triton's."""
        found.fill_(float("nan"))
        ours()
        error = relative_error(found, want)
        source, target = self.source[: moved // 8], self.target[: moved // 8]
        times = interleaved({
            "tritonc": ours, "copy": lambda: torch.mul(self.source, 1, out=self.target),
            "like copy": lambda: torch.mul(source, 1, out=target), "torch": torchs,
            "triton": triton}, ROUNDS, LEAST_MS, GAP_SECONDS)
        middle = {key: median(values) for key, values in times.items()}
        speed = {key: moved / ms * 1e-6 for key, ms in middle.items()}
        speed["copy"] = 2 * COPY / middle["copy"] * 1e-6
        speed["like copy"] = 8 * source.numel() / middle["like copy"] * 1e-6
        ratios = ", ".join(f"of {peer} {speed['tritonc'] / speed[peer]:.3f}"
                           for peer in ("copy", "like copy", "torch", "triton"))
        spreads = "/".join(f"{spread(values):.3f}" for values in times.values())
        print(f"{self.dtype} {name}: {speed['tritonc']:5.0f} GB/s (copy {speed['copy']:.0f}), "
              f"{ratios}, spreads {spreads}, error {error:.1e}"
              f"{'' if error <= self.tolerance else '  WRONG'}", flush=True)

    def flat(self) -> None:
        """vector_add and relu."""
        x, y, z = (self.randn(FLAT) for _ in range(3))
        size = x.element_size()
        add, relu = sample("vector_add", self.ctype), sample("relu", self.ctype)
        self.compare(f"vector_add {FLAT}", 3 * size * FLAT, lambda: add((FLAT,), x, y, z, FLAT),
                     lambda: torch.add(x, y, out=z), peers.flat(peers.add_kernel, x, y, z), z,
                     x + y)
        self.compare(f"relu {FLAT}", 2 * size * FLAT, lambda: relu((FLAT,), x, z, FLAT),
                     lambda: torch.clamp(x, min=0, out=z), peers.flat(peers.relu_kernel, x, z), z,
                     x.clamp(min=0))

    def rows(self, m: int, n: int) -> None:
        """transpose, softmax, layer_norm and row_sum of m rows of n numbers."""
        x, y, t, s = self.randn(m, n), self.randn(m, n), self.randn(n, m), self.randn(m)
        w, b = self.randn(n), self.randn(n)
        turn = sample("transpose", self.ctype)
        whole = 1 << (n - 1).bit_length()
        tile = {"TM": max(1, min(8, TILE // (whole * x.element_size()))), "TN": whole}
        softmax, norm = (sample(name, self.ctype, **tile) for name in ("softmax", "layer_norm"))
        total = sample("row_sum", self.ctype, TM=tile["TM"], TN=min(whole, SUMMED))
        moved, shape = 2 * x.element_size() * m * n, f"{m}x{n}"
        self.compare(f"transpose {shape}", moved, lambda: turn((m, n), x, t, m, n),
                     lambda: t.copy_(x.t()), peers.transpose(x, t), t, x.t())
        self.compare(f"softmax {shape}", moved, lambda: softmax((m,), x, y, m, n),
                     lambda: torch.softmax(x, 1, out=y),
                     peers.rows(peers.softmax_kernel, x, y, n, count=m, columns=n), y,
                     torch.softmax(x.float(), 1))
        self.compare(f"layer_norm {shape}", moved, lambda: norm((m,), x, w, b, y, m, n, 1e-5),
                     lambda: functional.layer_norm(x, (n,), w, b, 1e-5),
                     peers.rows(peers.layer_norm_kernel, x, w, b, y, n, 1e-5, count=m, columns=n),
                     y, functional.layer_norm(x.float(), (n,), w.float(), b.float(), 1e-5))
        self.compare(f"row_sum {shape}", moved // 2, lambda: total((m,), x, s, m, n),
                     lambda: torch.sum(x, 1, out=s),
                     peers.rows(peers.row_sum_kernel, x, s, n, count=m, columns=n), s,
                     x.double().sum(1))

    def more_rows(self, m: int, n: int) -> None:
        """running_sum, masked_softmax and cross_entropy of m rows of n numbers."""
        x, y, loss = self.randn(m, n), self.randn(m, n), self.randn(m)
        mask = (torch.rand(m, n, device="cuda") < 0.7).to(torch.uint8)
        label = torch.randint(0, n, (m,), device="cuda", dtype=torch.int32)
        label64, off = label.long(), mask == 0
        whole, size, shape = 1 << (n - 1).bit_length(), x.element_size(), f"{m}x{n}"
        sums, softmax, entropy = (
            sample(name, self.ctype, "bench/rows.tc", TN=whole)
            for name in ("running_sum", "masked_softmax", "cross_entropy"))
        self.compare(f"running_sum {shape}", 2 * size * m * n, lambda: sums((m,), x, y, n),
                     lambda: torch.cumsum(x, 1, out=y),
                     peers.rows(peers.running_sum_kernel, x, y, n, count=m, columns=n), y,
                     torch.cumsum(x.double(), 1))
        lowest = float("-inf")
        self.compare(f"masked_softmax {shape}", (2 * size + 1) * m * n,
                     lambda: softmax((m,), x, mask, y, n),
                     lambda: torch.softmax(x.masked_fill(off, lowest), 1, out=y),
                     peers.rows(peers.masked_softmax_kernel, x, mask, y, n, count=m, columns=n),
                     y, torch.softmax(x.float().masked_fill(off, lowest), 1))
        self.compare(f"cross_entropy {shape}", size * m * n,
                     lambda: entropy((m,), x, label, loss, n),
                     lambda: functional.cross_entropy(x, label64, reduction="none"),
                     peers.rows(peers.cross_entropy_kernel, x, label, loss, n, count=m, columns=n),
                     loss, functional.cross_entropy(x.float(), label64, reduction="none"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="f32,bf16")
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--columns", default="1024,4096,8192,12345")
    options = parser.parse_args()
    torch.manual_seed(0)
    for dtype in options.dtype.split(","):
        bench = Bench(dtype)
        bench.flat()
        for columns in map(int, options.columns.split(",")):
            bench.rows(options.rows, columns)
            bench.more_rows(options.rows, columns)


if __name__ == "__main__":
    main()
