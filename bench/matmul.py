"""Matrix products beside cuBLAS (torch) and Triton: TFLOP/s and ratios, each result checked.

    python bench/matmul.py [--dtype f32,bf16] [--size 1024,2048,4096] [--layout nn,nt,tn,tt]

Peers: torch.matmul (with TF32 allowed for tf32), torch._scaled_mm for e4m3, with fast accumulation
where --fast-math compiles with -ffast-math, torch._int_mm for s8; with --triton the fastest of some
kernels in Triton (triton_matmul.py), all of which are compiled before anything is measured.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from harness import ROOT, build, interleaved, median, relative_error, spread


class Kind(NamedTuple):
    """Types of operands and result in Triton-C and in torch; the largest relative error."""

    operand: str
    accumulator: str
    result: str
    stored: torch.dtype
    out: torch.dtype
    tolerance: float


KINDS = {
    "f32": Kind("float", "float", "float", torch.float32, torch.float32, 1e-5),
    "bf16": Kind("bfloat16", "float", "bfloat16", torch.bfloat16, torch.bfloat16, 5e-3),
    "f16": Kind("half", "float", "half", torch.float16, torch.float16, 1e-3),
    "tf32": Kind("float", "float", "float", torch.float32, torch.float32, 1e-3),
    "e4m3": Kind("float8_e4m3", "float", "bfloat16", torch.float8_e4m3fn, torch.bfloat16, 5e-3),
    "s8": Kind("int8", "int", "int", torch.int8, torch.int32, 0.0),
}


def source(layout: str, dtype: str) -> str:
    """The sample of that layout with other element types."""
    name = "matmul" if layout == "nn" else f"matmul_{layout}"
    text = (ROOT / "samples" / f"{name}.tc").read_text()
    kind = KINDS[dtype]
    head, _, body = text.partition("kernel void")
    body = body.replace("float* c", f"{kind.result}* c").replace(
        "float* pc", f"{kind.result}* pc").replace("float C[", f"{kind.accumulator} C[")
    for name in ("const float* a", "const float* b", "const float* pa", "const float* pb",
                 "float A[", "float B["):
        body = body.replace(name, name.replace("float", kind.operand))
    if dtype == "tf32":
        body = body.replace("trans(A)", "trans((tf32) A)").replace("trans(B)", "trans((tf32) B)")
        body = body.replace("dot(A,", "dot((tf32) A,").replace(", B)", ", (tf32) B)")
    return f"{head}kernel void{body}"


def operands(dtype: str, m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random normal numbers; of s8 rounded ones of deviation 20."""
    a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
    if dtype == "s8":
        a, b = (torch.round(20 * x).clamp(-127, 127) for x in (a, b))
    return a.to(KINDS[dtype].stored), b.to(KINDS[dtype].stored)


def cublas(dtype: str, a: torch.Tensor, b: torch.Tensor, fast: bool = False
           ) -> Callable[[], torch.Tensor]:
    """The peer for operands seen as M x K and K x N, however they are stored."""
    if dtype == "e4m3":
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16,
                                        use_fast_accum=fast)
    if dtype == "s8":
        return lambda: torch._int_mm(a, b)
    return lambda: torch.matmul(a, b)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="f32", help=",".join(KINDS))
    parser.add_argument("--size", default="4096", help="N or MxNxK, several with commas")
    parser.add_argument("--layout", default="nn")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--tune", default="", help="NAME=VALUE,...")
    parser.add_argument("--fast-math", action="store_true", help="compile with -ffast-math")
    parser.add_argument("--triton", action="store_true", help="measure Triton too")
    parser.add_argument("--save", type=Path, default=None, help="a folder for the PTX")
    parser.add_argument("--arch", default="sm_90a")
    options = parser.parse_args()
    torch.manual_seed(0)
    tune = {k: int(v) for k, v in (item.split("=") for item in options.tune.split(",") if item)}
    if options.triton:
        _compile_peers(options)
    for dtype, layout in itertools.product(options.dtype.split(","), options.layout.split(",")):
        kind = KINDS[dtype]
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        kernel = build(source(layout, dtype), arch=options.arch, tune=tune,
                       fast_math=options.fast_math)
        if options.save is not None:
            (options.save / f"matmul_{layout}_{dtype}.ptx").write_text(kernel.ptx)
        for text in options.size.split(","):
            m, n, k = _extents(text)
            a, b = operands(dtype, m, n, k)
            c = torch.zeros((m, n), device="cuda", dtype=kind.out)
            c.fill_(77 if dtype == "s8" else float("nan"))
            left = a.t().contiguous() if layout[0] == "t" else a
            right = b.t().contiguous() if layout[1] == "t" else b
            # peers that take one layout only get that one
            peer = cublas(dtype, left.t() if layout[0] == "t" and kind.stored.itemsize > 1 else a,
                          right.t() if layout[1] == "t" else
                          b if kind.stored.itemsize > 1 else b.t().contiguous().t(),
                          options.fast_math)
            kernel((m, n), left, right, c, m, n, k)
            torch.cuda.synchronize()
            want = _expected(dtype, a, b, peer)
            error = relative_error(c, want)
            runs: dict[str, Callable[[], Any]] = {
                "tritonc": lambda: kernel((m, n), left, right, c, m, n, k),  # noqa: B023
                "cublas": peer}
            other, theirs = "", torch.zeros_like(c)
            if options.triton:
                from triton_matmul import choose, keys  # needs Triton

                found = choose(keys(kind.stored, kind.out, layout, m, n, k, options.fast_math),
                               left, right, theirs)
                if found is not None:
                    other, runs["triton"] = found
            times = interleaved(runs, options.rounds)
            rate = {name: 2e-9 * m * n * k / median(values) for name, values in times.items()}
            line = (f"{dtype} {layout} {m}x{n}x{k}: {rate['tritonc']:7.1f} TFLOP/s, cuBLAS "
                    f"{rate['cublas']:7.1f}, ratio {rate['tritonc'] / rate['cublas']:.3f}")
            if other:
                line += (f", Triton ({other}) {rate['triton']:7.1f}, ratio "
                         f"{rate['tritonc'] / rate['triton']:.3f}")
                error = max(error, relative_error(theirs, want))
            print(f"{line} (spread {', '.join(f'{spread(v):.3f}' for v in times.values())}), "
                  f"error {error:.1e}{'' if error <= kind.tolerance else '  WRONG'}, "
                  f"{kernel.manifest['threads']} threads, tile {kernel.manifest['tile']}",
                  flush=True)


def _extents(text: str) -> tuple[int, int, int]:
    """M, N and K of "N" or "MxNxK"."""
    sizes = [int(x) for x in text.split("x")]
    m, n, k = sizes * 3 if len(sizes) == 1 else sizes
    return m, n, k


def _compile_peers(options: argparse.Namespace) -> None:
    """Compile and try every kernel of Triton that the products may choose."""
    from triton_matmul import keys  # needs Triton
    from triton_peers import failures, working

    wanted = []
    for dtype, layout, text in itertools.product(
            options.dtype.split(","), options.layout.split(","), options.size.split(",")):
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        kind = KINDS[dtype]
        wanted += keys(kind.stored, kind.out, layout, *_extents(text), options.fast_math)
    count = len(working("triton_matmul", wanted))
    print(f"Triton: {count} kernels", flush=True)
    for name, why in failures("triton_matmul", wanted).items():
        print(f"    not {name}: {why}")


def _expected(dtype: str, a: torch.Tensor, b: torch.Tensor,
              peer: Callable[[], torch.Tensor]) -> torch.Tensor:
    """In double precision where that takes no long time, otherwise as the peer says."""
    if a.shape[0] * a.shape[1] * b.shape[1] < 1 << 37:
        return a.double() @ b.double()
    return peer()


if __name__ == "__main__":
    main()
