"""Rows in the suite: norms, softmax, cross-entropy, reductions; peers torch and Triton."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from suite_support import Kind, Launches, elsewise, power, tiles, with_triton

try:
    import torch
    from torch.nn import functional
except ImportError:  # compiling needs no torch
    torch = functional = None  # type: ignore[assignment]

Sizes = Mapping[str, int]


def tiles_row(s: Sizes) -> Sequence[Mapping[str, int]]:
    """Tiles of a loop over a row: the whole row, and less."""
    whole = min(16384, power(s["N"], 512))
    return tiles(*((n,) for n in {1024, whole, max(512, whole // 2), max(512, whole // 4)}),
                 names="TN")


def _warps(s: Sizes) -> Sequence[Mapping[str, int]]:
    """Warps of a row that is one tile."""
    return [{"num_warps": n} for n in (4, 8, 16)]


def whole(s: Sizes) -> Mapping[str, int]:
    """The macro of a tile that holds a row."""
    return {"TN": power(s["N"])}


def row(want: Callable[[Any], Mapping[str, Any]], peers: Callable[[Any], Launches], chosen: Any,
        **more: Any) -> Kind:
    return Kind("rows", want=want, peers=peers, tiles=chosen, **more)


def _rms(t: Any) -> Any:
    x = t.x.float()
    return x * (x.square().mean(1, keepdim=True) + t.eps).rsqrt() * t.w.float()


def _add_rms(t: Any) -> Mapping[str, Any]:
    h = t.x.float() + t.residual.float()
    return {"h": h, "y": h * (h.square().mean(1, keepdim=True) + t.eps).rsqrt() * t.w.float()}


def _add_rms_peers(t: Any) -> Launches:
    return with_triton(lambda k: k.whole_rows(k.add_rms_norm, t.M, t.N, t.x, t.residual, t.w, t.h,
                                              t.y, t.N, t.eps))


def _layer(t: Any) -> Mapping[str, Any]:
    x = t.x.double()
    mean = x.mean(1)
    rstd = ((x - mean[:, None]).square().mean(1) + t.eps).rsqrt()
    return {"y": (x - mean[:, None]) * rstd[:, None] * t.w + t.b, "mean": mean, "rstd": rstd}


def _layer_peers(t: Any) -> Launches:
    return {
        "torch": lambda: functional.layer_norm(t.x, (t.N,), t.w, t.b, t.eps),
        **with_triton(lambda k: k.whole_rows(k.layer_norm, t.M, t.N, t.x, t.w, t.b, t.y, t.mean,
                                             t.rstd, t.N, t.eps))}


def _layer_backward(t: Any) -> Mapping[str, Any]:
    v = (t.x.float() - t.mean[:, None]) * t.rstd[:, None]
    dy = t.dy.float()
    g = dy * t.w.float()
    dx = (g - v * (v * g).mean(1, keepdim=True) - g.mean(1, keepdim=True)) * t.rstd[:, None]
    return {"dx": dx, "dw": (dy * v).sum(0), "db": dy.sum(0)}


def _layer_backward_peers(t: Any) -> Launches:
    w = t.w
    mean, rstd = t.mean[:, None], t.rstd[:, None]

    def torchs() -> Any:
        return torch.ops.aten.native_layer_norm_backward(
            t.dy, t.x, [t.N], mean, rstd, w, w, [True, True, True])[0]

    fused = with_triton(lambda k: k.norm_backward(
        k.layer_norm_backward, [t.dy, t.x, t.w, t.mean, t.rstd, t.dx], [t.dw, t.db], t.M, t.N))
    if hasattr(t, "R"):
        return {"torch": torchs, **fused}
    return {"torch": torchs, **elsewise(fused), **with_triton(
        lambda k: k.layer_norm_backward_apart(t.dy, t.x, t.w, t.mean, t.rstd, t.dx, t.dw, t.db,
                                              t.M, t.N))}


def _rms_backward(t: Any) -> Mapping[str, Any]:
    x, dy = t.x.float(), t.dy.float()
    r = (x.square().mean(1, keepdim=True) + t.eps).rsqrt()
    g = dy * t.w.float()
    return {"dx": r * g - x * r ** 3 * (g * x).mean(1, keepdim=True), "dw": (dy * x * r).sum(0)}


def _softmax_peers(t: Any, *kernels: str) -> Launches:
    def tritons(k: Any) -> Launches:
        found = {}
        if t.N <= 65536:
            found |= k.whole_rows(k.softmax, t.M, t.N, t.x, t.y, t.N)
        if t.N > 16384:
            found |= k.looped_rows(k.softmax_loop, t.M, t.x, t.y, t.N)
        return found

    return {"torch": lambda: torch.softmax(t.x, 1), **with_triton(tritons)}


def _entropy(t: Any) -> Mapping[str, Any]:
    lse = torch.cat([torch.logsumexp(x.float(), 1) for x in t.x.split(1024)])
    return {"loss": lse - t.x.gather(1, t.label.long()[:, None])[:, 0].float(), "lse": lse}


def _entropy_peers(t: Any) -> Launches:
    label = t.label.long()
    return {"torch": lambda: functional.cross_entropy(t.x, label, reduction="none"),
            **with_triton(lambda k: k.looped_rows(k.cross_entropy, t.M, t.x, t.label, t.loss,
                                                  t.lse, t.N))}


def _entropy_inputs(t: Any) -> Mapping[str, Any]:
    x = torch.randn(t.M, t.N, device=t.device).bfloat16()
    if t.device == "meta":
        return {"x": x}
    return {"x": x, "lse": torch.cat([torch.logsumexp(part.float(), 1) for part in x.split(1024)])}


def _entropy_backward(t: Any) -> Mapping[str, Any]:
    dx = torch.exp(t.x.float() - t.lse[:, None])
    dx.scatter_add_(1, t.label.long()[:, None], torch.full((t.M, 1), -1.0, device=t.device))
    return {"dx": dx * t.dloss[:, None]}


def _entropy_backward_peers(t: Any) -> Launches:
    label = t.label.long()[:, None]

    def torchs() -> Any:
        p = torch.exp(t.x - t.lse[:, None])
        p.scatter_add_(1, label, torch.full_like(t.dloss, -1)[:, None])
        return p * t.dloss[:, None]

    return {"torch": torchs, **with_triton(lambda k: k.each(
        k.cross_entropy_backward, lambda c: (-(-t.N // c["BLOCK"]), t.M),
        [t.x, t.label, t.lse, t.dloss, t.dx, t.N],
        BLOCK=[1024, 2048, 4096, 8192], warps=[4, 4, 8, 8]))}


def _quantised(t: Any) -> Mapping[str, Any]:
    x = t.x.float()
    s = x.abs().amax(1) / 127
    v = x / s[:, None]
    return {"scale": s, "q": (v.sign() * (v.abs() + 0.5).floor()).to(torch.int8)}


def _top(t: Any) -> Mapping[str, Any]:
    values, columns = t.x.topk(t.K, 1)
    return {"values": values, "columns": columns.int()}


def _top_peers(t: Any) -> Launches:
    return {"torch": lambda: torch.topk(t.x, t.K, 1), **with_triton(lambda k: k.each(
        k.top_k, lambda c: (-(-t.M // c["ROWS"]),),
        [t.x, t.values, t.columns, t.M, t.N, t.K], ROWS=[4, 8, 16, 32],
        BLOCK=[power(t.N)] * 4, warps=[4, 4, 4, 8]))}


KINDS = {
    "rms_norm": row(
        lambda t: {"y": _rms(t)},
        lambda t: {"torch": lambda: functional.rms_norm(t.x, (t.N,), t.w, t.eps),
                   **with_triton(lambda k: k.whole_rows(k.rms_norm, t.M, t.N, t.x, t.w, t.y, t.N,
                                                        t.eps))}, tiles_row),
    "add_rms_norm": row(_add_rms, _add_rms_peers, _warps, macros=whole),
    "layer_norm": row(_layer, _layer_peers, tiles_row),
    "layer_norm_backward": row(
        _layer_backward, _layer_backward_peers,
        lambda s: [{"TN": n, "TR": r, "TC": c} for n, r, c in
                   ((4096, 32, 64), (4096, 16, 128), (2048, 64, 32), (4096, 64, 64))],
        tolerance=1.5e-2),
    "layer_norm_backward_fused": row(
        _layer_backward, _layer_backward_peers, _warps,
        macros=lambda s: {"TN": power(s["N"]), "R": 32}, zeroed=("dw", "db"), tolerance=1.5e-2),
    "rms_norm_backward": row(
        _rms_backward,
        lambda t: with_triton(lambda k: k.norm_backward(
            k.rms_norm_backward, [t.dy, t.x, t.w, t.dx], [t.dw], t.M, t.N, t.eps)),
        _warps, macros=lambda s: {"TN": power(s["N"]), "R": 32}, zeroed=("dw",), tolerance=1e-2),
    "softmax": row(lambda t: {"y": torch.softmax(t.x, 1)}, _softmax_peers, tiles_row),
    "softmax_whole": row(lambda t: {"y": torch.softmax(t.x.float(), 1)}, _softmax_peers, _warps,
                         macros=whole),
    "softmax_backward": row(
        lambda t: {"dx": t.y * (t.dy - (t.dy * t.y).sum(1, keepdim=True))},
        lambda t: {"torch": lambda: torch._softmax_backward_data(t.dy, t.y, 1, torch.float32),
                   **with_triton(lambda k: k.whole_rows(k.softmax_backward, t.M, t.N, t.y, t.dy,
                                                        t.dx, t.N))}, _warps, macros=whole),
    "cross_entropy": row(_entropy, _entropy_peers, tiles_row),
    "cross_entropy_backward": row(_entropy_backward, _entropy_backward_peers, tiles_row,
                                  inputs=_entropy_inputs),
    "quantise_rows": row(
        _quantised,
        lambda t: with_triton(lambda k: k.whole_rows(k.quantise, t.M, t.N, t.x, t.q, t.scale,
                                                     t.N)),
        _warps, macros=whole, tolerance=1e-5, units=1),
    "argmax_rows": row(
        lambda t: {"best": t.x.argmax(1).int()},
        lambda t: {"torch": lambda: torch.argmax(t.x, 1),
                   **with_triton(lambda k: k.looped_rows(k.argmax_rows, t.M, t.x, t.best, t.N))},
        tiles_row),
    "running_sum": row(
        lambda t: {"y": torch.cumsum(t.x.double(), 1)},
        lambda t: {"torch": lambda: torch.cumsum(t.x, 1, out=t.y),
                   **with_triton(lambda k: k.looped_rows(k.running_sum, t.M, t.x, t.y, t.N))},
        tiles_row, tolerance=5e-5),
    "top_k": row(_top, _top_peers, lambda s: tiles((4,), (8,), (16,), (32,), names="TM"),
                 macros=lambda s: {"TN": power(s["N"])}),
    "top_k_large": row(
        lambda t: {"values": t.x.topk(t.KEPT, 1).values},
        lambda t: {"torch": lambda: torch.topk(t.x, t.KEPT, 1)[0]}, tiles_row,
        macros=lambda s: {"KEPT": 16}),
}
