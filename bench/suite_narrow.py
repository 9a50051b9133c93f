"""Products of narrow numbers in the suite: 4- and 8-bit weights, 8-bit floats with factors.

The peer of packed weights is cuBLAS on weights of 16 bits: whoever packs them wants to be faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from suite_support import Kind, Launches, tiles

try:
    import torch
except ImportError:  # compiling needs no torch
    torch = None  # type: ignore[assignment]

Sizes = Mapping[str, int]


def _tiles(s: Sizes) -> Sequence[Mapping[str, int]]:
    if s["M"] <= 16:
        return tiles((16, 16, 128), (16, 32, 128), (16, 64, 64), (16, 32, 64))
    if s["M"] <= 128:
        return tiles((64, 32, 64), (32, 64, 64), (128, 32, 64), (64, 64, 64))
    return tiles((128, 128, 64), (128, 64, 64), (64, 128, 64))


def _tiles_fp8(s: Sizes) -> Sequence[Mapping[str, int]]:
    if s["M"] <= 128:
        return tiles((64, 64, 128), (64, 128, 128), (128, 64, 128))
    return tiles((128, 256, 128), (128, 128, 128), (64, 256, 128))


def _weights(t: Any) -> Any:
    """The weights of `int4_linear` as bfloat16, out x in."""
    w = t.w.int()
    q = torch.stack((w & 15, w >> 4), 2).reshape(t.N, t.K) - 8
    return (q * t.scale.float().repeat_interleave(128, 1)).bfloat16()


def _weights_of_words(t: Any) -> Any:
    """Those of `int4_words` as half, in x out."""
    shift = torch.arange(8, device=t.device)[:, None] * 4
    q = ((t.w[:, None] >> shift) & 15).reshape(t.K, t.N) - 8
    return (q * t.scale.float().repeat_interleave(t.G, 0)).half()


def _weights_of_rows(t: Any) -> Any:
    """Those of `int4_gemv` as bfloat16, out x in."""
    q = ((t.w[:, :, None] >> (torch.arange(8, device=t.device) * 4)) & 15).reshape(t.N, t.K) - 8
    return (q * t.scale.float().repeat_interleave(128, 1)).bfloat16()


def _cublas(x: Any, w: Any, out: Any) -> Launches:
    """x @ w of 16-bit weights."""
    return {"cublas of 16 bits": lambda: torch.matmul(x, w, out=out)}


def _int8(t: Any) -> Launches:
    return _cublas(t.x, (t.w * t.scale[:, None]).bfloat16().t(), t.y)


def _int8_product(t: Any) -> Launches:
    b = t.b.t()
    plain, turned = torch.bfloat16, b.contiguous()
    factors = (t.ra[:, None] * t.rb).to(plain)
    return {"cublas int8": lambda: torch._int_mm(t.a, b) * factors,
            "cublas int8 rows": lambda: torch._int_mm(t.a, turned) * factors}


def _rowwise(t: Any) -> Launches:
    ra, rb = t.ra[:, None].contiguous(), t.rb[None, :].contiguous()
    b = t.b.t()
    return {"cublaslt": lambda: torch._scaled_mm(t.a, b, scale_a=ra, scale_b=rb,
                                                 out_dtype=torch.bfloat16, use_fast_accum=False)}


def _blockwise(t: Any) -> Launches:
    """cublasLt wants the factors of `a` one column behind the other."""
    b = t.b.t()
    sa = t.sa.t().contiguous().t()
    rows, columns = t.sb.shape
    padded = torch.zeros(rows, -(-columns // 4) * 4, device=t.device)
    padded[:, :columns] = t.sb
    sb = padded[:, :columns]

    def old() -> Any:
        return torch._scaled_mm(t.a, b, scale_a=sa, scale_b=sb.t(), out_dtype=torch.bfloat16,
                                use_fast_accum=False)

    def new(factors: Any) -> Any:
        from torch.nn.functional import ScalingType, scaled_mm

        return scaled_mm(t.a, b, sa, ScalingType.BlockWise1x128, factors,
                         ScalingType.BlockWise128x128, output_dtype=torch.bfloat16)

    return {"cublaslt blockwise": old, "cublaslt recipe": lambda: new(sb),
            "cublaslt recipe turned": lambda: new(sb.t())}


def _block_want(t: Any) -> Mapping[str, Any]:
    a = t.a.float() * t.sa.repeat_interleave(128, 1)
    b = t.b.float() * t.sb.repeat_interleave(128, 0)[:t.N].repeat_interleave(128, 1)
    return {"y": a @ b.t()}


KINDS = {
    "int4_linear": Kind("narrow weights", tiles=_tiles, hot=True,
                        want=lambda t: {"y": t.x.float() @ _weights(t).float().t()},
                        peers=lambda t: _cublas(t.x, _weights(t).t(), t.y)),
    "int4_words": Kind("narrow weights", tiles=_tiles, hot=True,
                       want=lambda t: {"y": t.x.float() @ _weights_of_words(t).float()},
                       peers=lambda t: _cublas(t.x, _weights_of_words(t), t.y)),
    "int4_gemv": Kind("narrow weights", hot=True,
                      tiles=lambda s: tiles((2, 128), (4, 128), (4, 64), (8, 32), names="TN TW"),
                      want=lambda t: {"y": _weights_of_rows(t).float() @ t.x.float()},
                      peers=lambda t: _cublas(_weights_of_rows(t), t.x, t.y), tolerance=2e-2),
    "int8_linear": Kind("narrow weights", tiles=_tiles, hot=True,
                        want=lambda t: {"y": t.x.float() @ t.w.float().t() * t.scale},
                        peers=_int8),
    "int8_matmul": Kind("narrow weights", hot=True,
                        tiles=lambda s: tiles((128, 256, 128), (128, 128, 128), (64, 256, 128)),
                        want=lambda t: {"y": (t.a.float() @ t.b.float().t()) * t.ra[:, None]
                                        * t.rb}, peers=_int8_product),
    "fp8_rowwise": Kind("fp8", tiles=_tiles_fp8, hot=True,
                        want=lambda t: {"y": (t.a.float() @ t.b.float().t()) * t.ra[:, None]
                                        * t.rb}, peers=_rowwise),
    "fp8_block": Kind("fp8", hot=True,
                      tiles=lambda s: tiles((128, 128), (64, 128), (64, 64), (32, 128),
                                           names="TM TN"),
                      want=_block_want, peers=_blockwise),
}
