"""Attention forward beside cuDNN and flash attention (torch): TFLOP/s and ratios, results checked.

    python bench/attention.py [--head 128,64] [--causal 0,1] [--batch 128] [--length 4096] [--ieee]

With --triton the fastest of some kernels in Triton too (triton_attention.py).
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import torch
from harness import ROOT, build, interleaved, median, relative_error, spread
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--head", default="128,64")
    parser.add_argument("--causal", default="0,1")
    parser.add_argument("--batch", type=int, default=128, help="batch x heads")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--tune", default="", help="NAME=VALUE,...")
    parser.add_argument("--ieee", action="store_true",
                        help="without -ffast-math, which the peers are compiled with too")
    parser.add_argument("--triton", action="store_true", help="measure Triton too")
    options = parser.parse_args()
    tune = {k: int(v) for k, v in (item.split("=") for item in options.tune.split(",") if item)}
    torch.manual_seed(0)
    cases = list(itertools.product(map(int, options.head.split(",")),
                                   map(int, options.causal.split(","))))
    if options.triton:
        from triton_attention import choose, keys  # needs Triton
        from triton_peers import failures, working

        wanted = [key for head, causal in cases for key in keys(head, bool(causal))]
        print(f"Triton: {len(working('triton_attention', wanted))} kernels", flush=True)
        for name, why in failures("triton_attention", wanted).items():
            print(f"    not {name}: {why}")
    for head, causal in cases:
        source = ROOT / "samples" / f"attention{'_causal' if causal else ''}.tc"
        kernel = build(source, tune=tune, defines=(f"D={head}",), fast_math=not options.ieee)
        h, s = options.batch, options.length
        q, k, v = (torch.randn(1, h, s, head, device="cuda", dtype=torch.bfloat16)
                   for _ in range(3))
        out = torch.full_like(q, float("nan"))
        scale = head ** -0.5

        def ours() -> None:
            kernel((s, h), q, k, v, out, s, scale)  # noqa: B023

        def peer(backend: SDPBackend) -> torch.Tensor:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(
                    q, k, v, is_causal=bool(causal), scale=scale)  # noqa: B023

        ours()
        torch.cuda.synchronize()
        few = slice(0, 4)
        want = scaled_dot_product_attention(q[:, few].float(), k[:, few].float(),
                                            v[:, few].float(), is_causal=bool(causal), scale=scale)
        error = relative_error(out[:, few], want)
        runs: dict[str, Callable[[], Any]] = {
            "tritonc": ours, "cudnn": lambda: peer(SDPBackend.CUDNN_ATTENTION),
            "flash": lambda: peer(SDPBackend.FLASH_ATTENTION)}
        other, theirs = "", torch.full_like(q, float("nan"))
        if options.triton:
            found = choose(head, bool(causal), q, k, v, theirs)
            if found is not None:
                other, runs["triton"] = found
        times = interleaved(runs, 5)
        flops = 4e-9 * h * s * s * head / (2 if causal else 1)
        rate = {name: flops / median(values) for name, values in times.items()}
        line = ""
        if other:
            line = (f", Triton ({other}) {rate['triton']:6.1f}, ratio "
                    f"{rate['tritonc'] / rate['triton']:.3f}")
            error = max(error, relative_error(theirs[:, few], want))
        print(f"d={head} causal={causal} {h}x{s}: {rate['tritonc']:6.1f} TFLOP/s, cuDNN "
              f"{rate['cudnn']:6.1f}, flash {rate['flash']:6.1f}, ratio "
              f"{rate['tritonc'] / rate['cudnn']:.3f} (spread {spread(times['tritonc']):.3f})"
              f"{line}, error {error:.1e}{'' if error < 1e-2 else '  WRONG'}", flush=True)


if __name__ == "__main__":
    main()
