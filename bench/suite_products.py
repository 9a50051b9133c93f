"""Products of float, half and bfloat16 in the suite: peers cuBLAS, and cublasLt's epilogues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from suite_support import Kind, Launches, tiles

try:
    import torch
    from torch.nn import functional
except ImportError:  # compiling needs no torch
    torch = functional = None  # type: ignore[assignment]

Sizes = Mapping[str, int]


def tiles_f32(s: Sizes) -> Sequence[Mapping[str, int]]:
    """Tiles that suit float on CUDA cores."""
    if s["N"] <= 16:
        return tiles((32, 16, 64), (16, 16, 64))
    if min(s["M"], s["N"]) <= 128 or s["M"] * s["N"] <= 1 << 18:
        return [*tiles((32, 32, 32), (32, 64, 32), (16, 32, 64)),
                {"TM": 32, "TN": 64, "TK": 64, "num_warps": 8}]
    return tiles((64, 64, 16), (64, 128, 16), (128, 64, 16), (32, 64, 32))


def tiles_half(s: Sizes) -> Sequence[Mapping[str, int]]:
    """Tiles that suit half on tensor cores."""
    if s["N"] <= 64:
        return tiles((32, 64, 64), (64, 32, 64), (64, 64, 64))
    if s["M"] <= 64:
        return tiles((64, 32, 64), (16, 32, 64), (64, 64, 64))
    if s["M"] * s["N"] <= 1 << 21:
        return tiles((64, 64, 64), (64, 128, 64), (128, 64, 64))
    return tiles((128, 256, 64), (128, 128, 64), (64, 256, 64))


def tiles_decode(s: Sizes) -> Sequence[Mapping[str, int]]:
    return tiles((16, 16, 256), (16, 32, 128), (32, 32, 128), (64, 32, 128))


def tiles_pair(s: Sizes) -> Sequence[Mapping[str, int]]:
    """Two accumulators."""
    return tiles((128, 128, 64), (64, 128, 64), (128, 64, 64))


def tiles_batch(s: Sizes) -> Sequence[Mapping[str, int]]:
    return tiles((128, 128, 64), (64, 128, 64), (64, 64, 64), (128, 256, 64))


def product(t: Any, name: str, a: Any, b: Any) -> Mapping[str, Any]:
    """The reference: in double for float where that takes no long time."""
    few = a.shape[-2] * b.shape[-1] * a.shape[-1] < 1 << 37
    kind = torch.float64 if a.dtype == torch.float32 and few else torch.float32
    return {name: a.to(kind) @ b.to(kind)}


def matmul(a: Callable[[Any], Any], b: Callable[[Any], Any], c: str) -> Callable[[Any], Launches]:
    return lambda t: {"cublas": lambda: torch.matmul(a(t), b(t), out=getattr(t, c))}


def plain(group: str, chosen: Any, **more: Any) -> Kind:
    """c = a @ b."""
    return Kind(group, want=lambda t: product(t, "c", t.a, t.b),
                peers=matmul(lambda t: t.a, lambda t: t.b, "c"), tiles=chosen, hot=True, **more)


def linear(group: str, chosen: Any, **more: Any) -> Kind:
    """y = x @ trans(w)."""
    return Kind(group, want=lambda t: product(t, "y", t.x, t.w.t()),
                peers=matmul(lambda t: t.x, lambda t: t.w.t(), "y"), tiles=chosen, hot=True, **more)


def epilogue(result: Callable[[Any, Any], Any], peers: Callable[[Any], Launches],
             turned: bool, chosen: Any = tiles_half) -> Kind:
    """y = result(t, x @ w); w is out x in if `turned`."""
    def want(t: Any) -> Mapping[str, Any]:
        return {"y": result(t, t.x.float() @ (t.w.t() if turned else t.w).float())}

    return Kind("epilogues", want=want, peers=peers, tiles=chosen, hot=True)


def _sgemm(t: Any) -> Mapping[str, Any]:
    c = t.c.double()
    c[:, :t.N] = t.alpha * (t.a[:, :t.K].double() @ t.b[:, :t.N].double()) + t.beta * c[:, :t.N]
    return {"c": c}


def _sgemm_peers(t: Any) -> Launches:
    a, b, c = t.a[:, :t.K], t.b[:, :t.N], t.c[:, :t.N]
    return {"cublas": lambda: (torch.addmm(c, a, b, beta=t.beta, alpha=t.alpha, out=c), None)[1]}


def _gelu_peers(t: Any) -> Launches:
    return {"cublaslt": lambda: torch._addmm_activation(t.bias, t.x, t.w, use_gelu=True),
            "torch": lambda: functional.gelu(torch.addmm(t.bias, t.x, t.w), approximate="tanh")}


def _relu_peers(t: Any) -> Launches:
    w = t.w.t()
    return {"cublaslt": lambda: torch._addmm_activation(t.bias, t.x, w),
            "torch": lambda: torch.addmm(t.bias, t.x, w).relu_()}


def _swiglu_want(t: Any) -> Mapping[str, Any]:
    y = torch.empty(t.M, t.N, device=t.device)
    x = t.x.float()
    for n in range(0, t.N, 4096):  # in pieces: as floats they are large
        piece = slice(n, n + 4096)
        y[:, piece] = functional.silu(x @ t.gate[piece].float().t()) * (x @ t.up[piece].float().t())
    return {"y": y}


def _swiglu_peers(t: Any) -> Launches:
    both = torch.cat((t.gate, t.up)).t()
    gate, up = t.gate.t(), t.up.t()

    def separate() -> Any:
        return functional.silu(t.x @ gate).mul_(t.x @ up)

    def together() -> Any:
        g, u = (t.x @ both).chunk(2, dim=1)
        return functional.silu(g).mul_(u)

    return {"torch separate": separate, "torch together": together}


def _scaled_peers(t: Any) -> Launches:
    return {"torch": lambda: (t.x @ t.w) * t.rows[:, None] * t.columns}


def _grouped_inputs(t: Any) -> Mapping[str, Any]:
    counts = [1024, 1536, 512, 768, 1280, 1024, 896, 1152] if t.G == 8 else [17, 0, 43]
    starts = [sum(counts[:i]) for i in range(t.G + 1)]
    return {"starts": torch.tensor(starts), "ends": torch.tensor(starts[1:], device=t.device).int(),
            "counts": counts}


def _grouped_want(t: Any) -> Mapping[str, Any]:
    parts = t.x.float().split(t.counts)
    return {"y": torch.cat([part @ w.float() for part, w in zip(parts, t.w, strict=True)])}


def _grouped_peers(t: Any) -> Launches:
    def loop() -> None:
        start = 0
        for count, w in zip(t.counts, t.w, strict=True):
            torch.matmul(t.x[start:start + count], w, out=t.y[start:start + count])
            start += count

    # the grouped product of torch wants the weights' inner axis next to one another
    w = t.w.transpose(1, 2).contiguous().transpose(1, 2)
    return {"torch grouped": lambda: torch._grouped_mm(t.x, w, offs=t.ends),
            "torch grouped rows": lambda: torch._grouped_mm(t.x, t.w, offs=t.ends), "cublas": loop}


def _moe_inputs(t: Any) -> Mapping[str, Any]:
    if t.BLOCKS == 5:
        blocks = [2, 1, 0, 2]
    else:  # uneven, as routers leave it
        blocks = [t.BLOCKS // t.E] * t.E
        for i in range(0, t.E - 1, 2):
            blocks[i] += 1
            blocks[i + 1] -= 1
    expert = [e for e, count in enumerate(blocks) for _ in range(count)]
    ends = [sum(blocks[:e + 1]) * t.T for e in range(t.E)]
    return {"expert": torch.tensor(expert), "ends": torch.tensor(ends, device=t.device).int(),
            "counts": [count * t.T for count in blocks]}


def _moe_want(t: Any) -> Mapping[str, Any]:
    parts = t.x.float().split(t.counts)
    return {"y": torch.cat([part @ w.float().t() for part, w in zip(parts, t.w, strict=True)])}


def _moe_peers(t: Any) -> Launches:
    def loop() -> None:
        start = 0
        for count, w in zip(t.counts, t.w, strict=True):
            if count:
                torch.matmul(t.x[start:start + count], w.t(), out=t.y[start:start + count])
            start += count

    return {"torch grouped": lambda: torch._grouped_mm(t.x, t.w.transpose(1, 2), offs=t.ends),
            "cublas": loop}


KINDS = {
    "matmul_f32": plain("fp32 products", tiles_f32),
    "sgemm": Kind("fp32 products", want=_sgemm, peers=_sgemm_peers, tiles=tiles_f32, hot=True),
    "matmul_f16": plain("half products", tiles_half),
    "linear_bf16": linear("half products", tiles_half),
    "matmul_strides": plain("half products", tiles_half),
    "gemv": Kind("decode products", want=lambda t: {"y": t.w.float() @ t.x.float()},
                 peers=lambda t: {"cublas": lambda: torch.mv(t.w, t.x, out=t.y)},
                 tiles=lambda s: tiles((2, 512), (4, 512), (8, 256), (4, 1024), names="TN TK")),
    "decode_linear": linear("decode products", tiles_decode),
    "linear_gelu": epilogue(lambda t, h: functional.gelu(h + t.bias, approximate="tanh"),
                            _gelu_peers, False),
    "linear_relu": epilogue(lambda t, h: (h + t.bias).relu(), _relu_peers, True),
    "linear_residual": epilogue(
        lambda t, h: h + t.residual,
        lambda t: {"cublas": lambda: torch.addmm(t.residual, t.x, t.w, out=t.y)}, False),
    "linear_swiglu": Kind("epilogues", want=_swiglu_want, peers=_swiglu_peers, tiles=tiles_pair,
                          hot=True),
    "linear_scaled": epilogue(lambda t, h: h * t.rows[:, None] * t.columns, _scaled_peers, False),
    "bmm": Kind("batched and grouped", want=lambda t: product(t, "c", t.a, t.b),
                peers=lambda t: {"cublas": lambda: torch.bmm(t.a, t.b, out=t.c)},
                tiles=tiles_batch, hot=True),
    "bmm_f32": Kind("batched and grouped", want=lambda t: product(t, "c", t.a, t.b),
                    peers=lambda t: {"cublas": lambda: torch.bmm(t.a, t.b, out=t.c)},
                    tiles=lambda s: tiles((64, 64, 16), (64, 128, 16), (128, 64, 16)), hot=True),
    "grouped_matmul": Kind("batched and grouped", want=_grouped_want, peers=_grouped_peers,
                           inputs=_grouped_inputs, tiles=tiles_batch, hot=True),
    "moe_experts": Kind("batched and grouped", want=_moe_want, peers=_moe_peers,
                        inputs=_moe_inputs, macros=lambda s: {"T": 64}, hot=True,
                        tiles=lambda s: tiles((128, 64), (256, 64), (64, 64), names="TN TK")),
    "gathered_matmul": Kind(
        "batched and grouped", want=lambda t: {"y": t.x[t.index.long()].float() @ t.w.float()},
        peers=lambda t: {"torch": lambda: t.x[t.index.long()] @ t.w}, tiles=tiles_half, hot=True),
}
