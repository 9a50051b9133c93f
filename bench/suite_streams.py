"""Streams in the suite: what reads, computes a little and writes; peers torch and Triton."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from suite_support import Kind, Launches, tiles, with_triton

try:
    import torch
    from torch.nn import functional
except ImportError:  # compiling needs no torch
    torch = functional = None  # type: ignore[assignment]

Sizes = Mapping[str, int]


def choices(names: str, *rows: tuple[int, ...]) -> Callable[[Sizes], Sequence[Mapping[str, int]]]:
    return lambda sizes: tiles(*rows, names=names)


def stream(want: Callable[[Any], Mapping[str, Any]], peers: Callable[[Any], Launches], tried: Any,
           **more: Any) -> Kind:
    return Kind("streams", want=want, peers=peers, tiles=tried, **more)


def streams() -> Any:
    """Triton's kernels of this kind."""
    import suite_triton_streams

    return suite_triton_streams


def _rope(t: Any) -> Mapping[str, Any]:
    a, b = t.x.float().chunk(2, 2)
    c, s = t.cosine[:, None], t.sine[:, None]
    return {"y": torch.cat((a * c - b * s, b * c + a * s), 2)}


def _rope_peers(t: Any) -> Launches:
    c, s = (torch.cat((v, v), 1)[:, None].bfloat16() for v in (t.cosine, t.sine))

    def torchs() -> Any:
        a, b = t.x.chunk(2, 2)
        return t.x * c + torch.cat((-b, a), 2) * s

    return {"torch": torchs, **with_triton(lambda k: k.each(
        streams().rope, lambda g: (-(-t.H // g["HEADS"]), t.S),
        [t.x, t.cosine, t.sine, t.y, t.H, t.D], HEADS=[4, 8, 16, 32], warps=[4, 4, 4, 8]))}


def _swiglu_peers(t: Any) -> Launches:
    def torchs() -> Any:
        g, u = t.x.chunk(2, 1)
        return functional.silu(g).mul_(u)

    return {"torch": torchs, **with_triton(lambda k: k.each(
        streams().swiglu, lambda g: (-(-t.N // g["BLOCK"]), t.M), [t.x, t.y, t.N],
        BLOCK=[512, 1024, 2048, 4096], warps=[4, 4, 8, 8]))}


def _mask(t: Any) -> Any:
    """Which elements the hash keeps; of the unsigned 32-bit arithmetic in 64 bits."""
    low = (1 << 32) - 1
    v = (torch.arange(t.N, device=t.device) + t.seed) & low
    for _ in range(2):
        v = ((v ^ (v >> 16)) * 0x45d9f3b) & low
    v = v ^ (v >> 16)
    return v.float() * 2.0 ** -32 >= t.p


def _dropout_peers(t: Any) -> Launches:
    # torch draws other numbers, so that its time is comparable, and its result is not
    return with_triton(lambda k: k.flat(streams().dropout, t.N, t.x, t.residual, t.y, t.N, t.seed,
                                        t.p))


def _adam(t: Any) -> Mapping[str, Any]:
    g = t.g.float()
    m = t.beta1 * t.m + (1 - t.beta1) * g
    v = t.beta2 * t.v + (1 - t.beta2) * g * g
    p = t.p.float() * (1 - t.rate * t.decay)
    return {"m": m, "v": v,
            "p": p - t.rate * m * t.correct1 / ((v * t.correct2).sqrt() + t.eps)}


def _adam_peers(t: Any) -> Launches:
    return with_triton(lambda k: k.flat(
        streams().adam, t.N, t.p, t.g, t.m, t.v, t.N, t.rate, t.beta1, t.beta2, t.eps, t.decay,
        t.correct1, t.correct2))


def _bias_peers(t: Any) -> Launches:
    def tritons(k: Any) -> Launches:
        found = {}
        for tm, tn, parts, warps in ((32, 64, 32, 4), (32, 128, 32, 4), (16, 256, 32, 8),
                                     (64, 64, 16, 4)):
            go = k.run(streams().bias_gradient, (-(-t.N // tn), parts, 1), t.dy, t.db, t.M, t.N,
                       parts, TM=tm, TN=tn, num_warps=warps)
            found[f"triton {tm}x{tn}"] = lambda go=go: (t.db.zero_(), go(), None)[2]
        return found

    return {"torch": lambda: t.dy.sum(0), **with_triton(tritons)}


def _tiles(kernel: str, *arguments: Any, m: int, n: int, z: int = 1, square: bool = True
           ) -> Launches:
    """Tiles of rows and columns."""
    rows = ([32, 64, 64, 128], [32, 64, 32, 64]) if square else ([1, 2, 4, 8], [1024, 1024, 512,
                                                                              256])
    return with_triton(lambda k: k.each(
        getattr(streams(), kernel), lambda g: (-(-m // g["TM"]), -(-n // g["TN"]), z), arguments,
        TM=rows[0], TN=rows[1], warps=[4, 4, 4, 8]))


KINDS = {
    "rope": stream(_rope, _rope_peers, choices("TH", (4,), (8,), (16,), (32,)),
                   variants=({"D": 128}, {"D": 64})),
    "swiglu": stream(
        lambda t: {"y": functional.silu(t.x[:, :t.N].float()) * t.x[:, t.N:].float()},
        _swiglu_peers, choices("TN", (512,), (1024,), (2048,), (4096,))),
    "gelu_bias": stream(
        lambda t: {"y": functional.gelu(t.x.float() + t.bias.float())},
        lambda t: {"torch": lambda: functional.gelu(t.x + t.bias),
                   **with_triton(lambda k: k.flat(streams().gelu_bias, t.M * t.N, t.x, t.bias, t.y,
                                                  t.N, t.M * t.N))},
        choices("T", (512,), (1024,), (2048,), (4096,)), tolerance=1.5e-2),
    "dropout": stream(
        lambda t: {"y": t.residual.float() + torch.where(_mask(t), t.x.float() / (1 - t.p), 0.0)},
        _dropout_peers, choices("T", (512,), (1024,), (2048,), (4096,))),
    "embedding": stream(
        lambda t: {"y": t.table[t.token.long()]},
        lambda t: {"torch": lambda: torch.index_select(t.table, 0, t.token, out=t.y),
                   **with_triton(lambda k: k.each(
                       streams().embedding, lambda g: (t.M, -(-t.N // g["BLOCK"])),
                       [t.token, t.table, t.y, t.N], BLOCK=[512, 1024, 2048, 4096],
                       warps=[1, 2, 4, 4]))},
        choices("TM TN", (1, 1024), (2, 1024), (4, 512), (1, 2048))),
    "transpose": stream(
        lambda t: {"y": t.x.t().contiguous()},
        lambda t: {"torch": lambda: t.y.copy_(t.x.t()),
                   **_tiles("transpose", t.x, t.y, t.M, t.N, m=t.M, n=t.N)},
        choices("TM TN", (32, 32), (64, 64), (32, 64), (128, 32))),
    "transpose_half": stream(
        lambda t: {"y": t.x.transpose(1, 2).contiguous()},
        lambda t: {"torch": lambda: t.y.copy_(t.x.transpose(1, 2)),
                   **_tiles("transpose", t.x, t.y, t.M, t.N, m=t.M, n=t.N, z=t.B)},
        choices("TM TN", (64, 64), (32, 64), (128, 64), (64, 128))),
    "split_heads": stream(
        lambda t: {name: t.x[:, :, i].transpose(1, 2).contiguous()
                   for i, name in enumerate("qkv")},
        lambda t: {"torch": lambda: t.x.permute(2, 0, 3, 1, 4).contiguous()[0],
                   **with_triton(lambda k: k.each(
                       streams().split_heads, lambda g: (-(-t.S // g["TS"]), t.H, t.B),
                       [t.x, t.q, t.k, t.v, t.S, t.H, t.D], TS=[16, 32, 64, 128],
                       warps=[4, 4, 8, 8]))},
        choices("TS", (16,), (32,), (64,), (128,)), variants=({"D": 128},)),
    "adam": stream(_adam, _adam_peers, choices("T", (256,), (512,), (1024,), (2048,)),
                   tolerance=5e-3),
    "bias_gradient": stream(
        lambda t: {"db": t.dy.float().sum(0)}, _bias_peers,
        choices("TM TN", (32, 64), (16, 128), (32, 128), (16, 256)), zeroed=("db",),
        tolerance=1e-2),
    "broadcast_chain": stream(
        lambda t: {"y": torch.tanh(t.x * t.scale[:, None] + t.shift) * t.keep + t.residual},
        lambda t: {"torch": lambda: torch.tanh(t.x * t.scale[:, None] + t.shift) * t.keep
                   + t.residual,
                   **_tiles("broadcast_chain", t.x, t.scale, t.shift, t.keep, t.residual, t.y, t.M,
                            t.N, m=t.M, n=t.N, square=False)},
        choices("TM TN", (1, 1024), (2, 512), (4, 256), (1, 512))),
}
