"""Matrix products beside cuBLAS (torch) and Triton: TFLOP/s and ratios, each result checked.

    python bench/matmul.py [--dtype f32,bf16] [--size 1024,2048,4096] [--layout nn,nt,tn,tt]
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import torch
from harness import ROOT, build, interleaved, median, relative_error, spread

DTYPES = {"f32": ("float", torch.float32), "bf16": ("bfloat16", torch.bfloat16),
          "f16": ("half", torch.float16)}
TOLERANCE = {"f32": 1e-5, "bf16": 5e-3, "f16": 1e-3}


def source(layout: str, ctype: str) -> str:
    """The sample of that layout with another element type; the accumulator stays float."""
    name = "matmul" if layout == "nn" else f"matmul_{layout}"
    text = (ROOT / "samples" / f"{name}.tc").read_text()
    if ctype == "float":
        return text
    text = text.replace("float", ctype)
    return text.replace(f"{ctype} C[TM, TN]", "float C[TM, TN]")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--size", default="4096")
    parser.add_argument("--layout", default="nn")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--tune", default="", help="NAME=VALUE,...")
    parser.add_argument("--save", type=Path, default=None, help="a folder for the PTX")
    parser.add_argument("--arch", default="sm_90a")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    tune = {k: int(v) for k, v in (item.split("=") for item in options.tune.split(",") if item)}
    for dtype, layout in itertools.product(options.dtype.split(","), options.layout.split(",")):
        ctype, kind = DTYPES[dtype]
        kernel = build(source(layout, ctype), arch=options.arch, tune=tune)
        if options.save is not None:
            (options.save / f"matmul_{layout}_{dtype}.ptx").write_text(kernel.ptx)
        for text in options.size.split(","):
            sizes = [int(x) for x in text.split("x")]
            m, n, k = sizes * 3 if len(sizes) == 1 else sizes
            a = torch.randn(m, k, device="cuda").to(kind)
            b = torch.randn(k, n, device="cuda").to(kind)
            c = torch.full((m, n), float("nan"), device="cuda", dtype=kind)
            left = a.t().contiguous() if layout[0] == "t" else a
            right = b.t().contiguous() if layout[1] == "t" else b
            peer = (left.t() if layout[0] == "t" else left,
                    right.t() if layout[1] == "t" else right)
            kernel((m, n), left, right, c, m, n, k)
            torch.cuda.synchronize()
            error = relative_error(c, a.double() @ b.double() if m * n * k < 1 << 37
                                   else torch.matmul(*peer))
            times = interleaved({
                "tritonc": lambda: kernel((m, n), left, right, c, m, n, k),  # noqa: B023
                "cublas": lambda: torch.matmul(*peer),  # noqa: B023
            }, options.rounds)
            ours, theirs = median(times["tritonc"]), median(times["cublas"])
            flops = 2e-9 * m * n * k
            ok = "" if error <= TOLERANCE[dtype] else "  WRONG"
            print(f"{dtype} {layout} {m}x{n}x{k}: {flops / ours:7.1f} TFLOP/s, cuBLAS "
                  f"{flops / theirs:7.1f}, ratio {theirs / ours:.3f} (spread "
                  f"{spread(times['tritonc']):.3f}, {spread(times['cublas']):.3f}), error "
                  f"{error:.1e}{ok}, {kernel.manifest['threads']} threads, tile "
                  f"{kernel.manifest['tile']}", flush=True)


if __name__ == "__main__":
    main()
