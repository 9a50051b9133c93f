"""Attention in the suite: forward, backward and decoding; peers cuDNN, flash attention, Triton."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from suite_support import Kind, Launches, tiles, with_triton

try:
    import torch
except ImportError:  # compiling needs no torch
    torch = None  # type: ignore[assignment]

Sizes = Mapping[str, int]
FLAT = ((128, 128, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3), (128, 64, 8, 3))  # TM, TN, warps, stages


def _tiles(s: Sizes) -> Sequence[Mapping[str, int]]:
    return tiles((128, 128), (128, 64), (64, 64), (64, 128), names="TM TN")


def exact(q: Any, k: Any, v: Any, scale: float, seen: Callable[[Any, Any], Any] | None = None
          ) -> tuple[Any, Any]:
    """Attention of [B, H, S, D] in float, a head and some rows at a time; and the log of the sums.
    `seen` says by row and column what counts."""
    out = torch.empty(q.shape, device=q.device)
    lse = torch.empty(q.shape[:3], device=q.device)
    shared = q.shape[1] // k.shape[1]
    columns = torch.arange(k.shape[2], device=q.device)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            keys, values = k[b, h // shared].float(), v[b, h // shared].float()
            for first in range(0, q.shape[2], 4096):
                part = slice(first, first + 4096)
                s = q[b, h, part].float() @ keys.t() * scale
                if seen is not None:
                    rows = torch.arange(first, first + s.shape[0], device=q.device)
                    s.masked_fill_(~seen(rows[:, None], columns), float("-inf"))
                lse[b, h, part] = torch.logsumexp(s, 1)
                out[b, h, part] = torch.softmax(s, 1) @ values
    return out, lse


def causal(rows: Any, columns: Any) -> Any:
    return columns <= rows


def sdpa(q: Any, k: Any, v: Any, scale: float, is_causal: bool, back: Callable[[Any], Any]
         ) -> Launches:
    """cuDNN's and flash attention, whose results `back` brings into our order."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def run(backend: Any) -> Any:
        with sdpa_kernel(backend):
            return back(scaled_dot_product_attention(q, k, v, is_causal=is_causal, scale=scale,
                                                     enable_gqa=q.shape[1] != k.shape[1]))

    return {"cudnn": lambda: run(SDPBackend.CUDNN_ATTENTION),
            "flash": lambda: run(SDPBackend.FLASH_ATTENTION)}


def triton_attention(t: Any, q: Any, k: Any, v: Any, o: Any, is_causal: bool, window: int = 0
                     ) -> Launches:
    """Of views [B, H, S, D]."""
    def make(kit: Any) -> Launches:
        from suite_triton_attention import attention

        b, h, s, d = q.shape
        found = {}
        for tm, tn, warps, stages in FLAT:
            if d > 128 and tn > 64:
                continue
            found[f"triton {tm}x{tn} warps{warps}"] = kit.run(
                attention, (-(-s // tm), b * h, 1), q, k, v, o, s, *q.stride()[:3],
                *k.stride()[:3], h, h // k.shape[1], window, t.scale, D=d, CAUSAL=is_causal,
                WINDOW=window > 0, TM=tm, TN=tn, num_warps=warps, num_stages=stages)
        return found

    return with_triton(make)


def _heads(t: Any) -> tuple[Any, Any, Any]:
    return t.q.transpose(1, 2), t.k.transpose(1, 2), t.v.transpose(1, 2)


def _heads_peers(t: Any) -> Launches:
    found = sdpa(*_heads(t), t.scale, False, lambda y: y.transpose(1, 2))
    if t.D > 128:
        found = {**found, **triton_attention(t, *_heads(t), t.o.transpose(1, 2), False)}
    return found


def _flat(t: Any) -> tuple[Any, Any, Any]:
    return t.q[None], t.k[None], t.v[None]


def _lengths_inputs(t: Any) -> Mapping[str, Any]:
    if t.N == 3:
        starts = [0, 33, 40, 100]
    else:  # a sequence of the greatest length, then longer and longer ones
        parts = [t.L, *((t.T - t.L) * i * 2 // (t.N * (t.N - 1)) for i in range(1, t.N))]
        if t.N == 8:
            parts = [4096, 2048, 1024, 3072, 512, 2560, 1536, 1536]
        parts[-1] += t.T - sum(parts)
        starts = [0, *accumulate(parts)]
    return {"starts": torch.tensor(starts), "bounds": starts,
            "longest": max(b - a for a, b in pairwise(starts))}


def _lengths_want(t: Any) -> Mapping[str, Any]:
    parts = []
    for a, b in pairwise(t.bounds):
        q, k, v = (x[None, a:b].transpose(1, 2) for x in (t.q, t.k, t.v))
        parts.append(exact(q, k, v, t.scale, causal)[0][0].transpose(0, 1))
    return {"o": torch.cat(parts)}


def _lengths_peers(t: Any) -> Launches:
    return {"flash": lambda: torch.ops.aten._flash_attention_forward(
        t.q, t.k, t.v, t.starts, t.starts, t.longest, t.longest, 0.0, True, False,
        scale=t.scale)[0]}


def _window_want(t: Any) -> Mapping[str, Any]:
    return {"o": exact(*_flat(t), t.scale, lambda r, c: (c <= r) & (r - c < t.W))[0][0]}


def _window_peers(t: Any) -> Launches:
    q, k, v = (x[None].transpose(1, 2) for x in (t.q, t.k, t.v))

    def flash() -> Any:
        return torch.ops.aten._flash_attention_forward(
            q, k, v, None, None, t.S, t.S, 0.0, True, False, scale=t.scale,
            window_size_left=t.W - 1, window_size_right=0)[0][0].transpose(0, 1)

    return {"flash": flash, **triton_attention(t, *_flat(t), t.o[None], True, t.W)}


def _fp8_peers(t: Any) -> Launches:
    """No library of torch's has it: cuDNN's time on bfloat16 is what it has to beat."""
    q, k, v = (x.bfloat16()[None] for x in (t.q, t.k, t.v))
    runs = sdpa(q, k, v, t.scale, False, lambda y: y[0] * t.v_scale)
    return {"cudnn of bf16": runs["cudnn"]}


def _backward_inputs(t: Any) -> Mapping[str, Any]:
    q, k, v, go = (torch.randn(t.BH, t.S, t.D, device=t.device).bfloat16() for _ in range(4))
    found = {"q": q, "k": k, "v": v, "go": go}
    if t.device == "meta":
        return found
    o, lse = exact(q[None], k[None], v[None], 0.125, causal)
    return {**found, "o": o[0], "lse": lse[0]}


def _backward_want(t: Any) -> Mapping[str, Any]:
    found = {name: torch.empty(t.BH, t.S, t.D, device=t.device) for name in ("gq", "gk", "gv")}
    delta = (t.o.float() * t.go.float()).sum(2)
    rows = torch.arange(t.S, device=t.device)
    later = rows > rows[:, None]
    for h in range(t.BH):
        q, k, v, go = (x[h].float() for x in (t.q, t.k, t.v, t.go))
        p = torch.exp(q @ k.t() * t.scale - t.lse[h][:, None]).masked_fill_(later, 0)
        ds = p * (go @ v.t() - delta[h][:, None]) * t.scale
        found["gv"][h], found["gq"][h], found["gk"][h] = p.t() @ go, ds @ k, ds.t() @ q
    return {"delta": delta, **found}


def _backward_peers(t: Any) -> Launches:
    q, k, v, go = (x[None] for x in (t.q, t.k, t.v, t.go))
    ops, state = torch.ops.aten, {}  # of the forward pass, once

    def cudnn() -> Any:
        if "cudnn" not in state:
            state["cudnn"] = ops._scaled_dot_product_cudnn_attention(
                q, k, v, None, True, 0.0, True, False, scale=t.scale)
        out, lse, cq, ck, mq, mk, seed, offset, _ = state["cudnn"]
        found = ops._scaled_dot_product_cudnn_attention_backward(
            go, q, k, v, out, lse, seed, offset, None, cq, ck, mq, mk, 0.0, True, scale=t.scale)
        return (None, *found)

    def flash() -> Any:
        if "flash" not in state:
            state["flash"] = ops._scaled_dot_product_flash_attention(q, k, v, 0.0, True, False,
                                                                     scale=t.scale)
        out, lse, cq, ck, mq, mk, seed, offset, _ = state["flash"]
        return (None, *ops._scaled_dot_product_flash_attention_backward(
            go, q, k, v, out, lse, cq, ck, mq, mk, 0.0, True, seed, offset, scale=t.scale))

    return {"cudnn": cudnn, "flash": flash}


def _paged_inputs(t: Any) -> Mapping[str, Any]:
    pages = t.L // t.PAGE + 1
    count = t.B * pages
    table = torch.randperm(count, device=t.device) if t.device != "meta" else torch.zeros(
        count, device="meta")
    return {"table": table.reshape(t.B, pages),
            "lengths": t.L - torch.arange(t.B, device=t.device) % 7}


def _paged(t: Any) -> Mapping[str, Any]:
    out = torch.empty(t.B, t.H, t.D, device=t.device)
    for b in range(t.B):
        n = int(t.lengths[b])
        k, v = (x[t.table[b].long()].reshape(-1, t.HK, t.D)[:n].transpose(0, 1)[None]
                for x in (t.k, t.v))
        out[b] = exact(t.q[b][None, :, None], k, v, t.scale)[0][0, :, 0]
    return {"o": out}


def _paged_peers(t: Any) -> Launches:
    def make(kit: Any) -> Launches:
        from suite_triton_attention import decode, merge

        found = {}
        for tn, split, warps, stages in ((64, 4, 4, 3), (64, 8, 4, 3), (32, 8, 4, 4),
                                         (64, 16, 4, 3), (128, 16, 8, 2), (64, 32, 4, 3)):
            part = torch.empty(split, t.B, t.H, t.D, device=t.device)
            tops = torch.empty(split, t.B, t.H, device=t.device)
            sums = torch.empty_like(tops)
            chunk = -(-t.L // split // tn) * tn
            steps = [
                kit.run(decode, (t.HK, t.B, split), t.q, t.k, t.v, t.table, t.lengths, part, tops,
                        sums, t.H, t.HK, t.B, t.L // t.PAGE + 1, chunk, t.scale, G=t.G, D=t.D,
                        TN=tn, num_warps=warps, num_stages=stages),
                kit.run(merge, (t.B * t.H,), part, tops, sums, t.o, t.B * t.H, SPLIT=split, D=t.D,
                        num_warps=4)]
            found[f"triton {tn} split{split}"] = lambda steps=steps: kit.all_of(steps)
        return found

    return with_triton(make)


def forward(group: str, want: Any, peers: Any, **more: Any) -> Kind:
    return Kind(group, want=want, peers=peers, **{"tiles": _tiles, "hot": True, **more})


def _some(sizes: Sizes, macros: Sizes) -> bool:
    """Heads of 64 and 256 at one length only."""
    return macros["D"] == 128 or sizes["S"] == 4096


def _distances(t: Any) -> Any:
    """Places in the table of biases, by row and column."""
    at = torch.arange(t.S, device=t.q.device)
    return at - at[:, None] + t.S


def _relative_want(t: Any) -> Mapping[str, Any]:
    out = torch.empty(t.o.shape, device=t.q.device)
    bias = t.table.float()[:, _distances(t)]
    for z in range(t.Z):
        q, k, v = (x[z].transpose(0, 1).float() for x in (t.q, t.k, t.v))
        s = (q @ k.transpose(1, 2) * t.scale).add_(bias)
        out[z] = (s.softmax(2) @ v).transpose(0, 1)
    return {"o": out}


def _relative_peers(t: Any) -> Launches:
    bias = t.table[:, _distances(t)][None].expand(t.Z, -1, -1, -1)
    q, k, v = (x.transpose(1, 2) for x in (t.q, t.k, t.v))
    return {"torch, a mask": lambda: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, scale=t.scale).transpose(1, 2).contiguous()}


KINDS = {
    "attention_heads": forward(
        "attention", lambda t: {"o": exact(*_heads(t), t.scale)[0].transpose(1, 2)}, _heads_peers,
        variants=({"D": 128}, {"D": 64}, {"D": 256}), only=_some),
    "attention_causal": forward(
        "attention", lambda t: {"o": exact(t.q, t.k, t.v, t.scale, causal)[0]},
        lambda t: sdpa(t.q, t.k, t.v, t.scale, True, lambda y: y),
        variants=({"D": 128}, {"D": 64}), only=_some),
    "attention_grouped": forward(
        "attention", lambda t: {"o": exact(t.q, t.k, t.v, t.scale, causal)[0]},
        lambda t: sdpa(t.q, t.k, t.v, t.scale, True, lambda y: y), variants=({"D": 128},)),
    "attention_lengths": forward("attention", _lengths_want, _lengths_peers,
                                 inputs=_lengths_inputs, variants=({"D": 128},)),
    "attention_window": forward("attention, other forms", _window_want, _window_peers,
                                variants=({"D": 128},)),
    "attention_relative": forward("attention, other forms", _relative_want, _relative_peers,
                                  variants=({"D": 64},)),
    "attention_fp8": forward(
        "attention, other forms",
        lambda t: {"o": exact(*_flat(t), t.scale)[0][0] * t.v_scale}, _fp8_peers,
        variants=({"D": 128},)),
    "attention_backward": forward(
        "attention backward", _backward_want, _backward_peers, inputs=_backward_inputs,
        variants=({"D": 128}, {"D": 64}), tolerance=1.5e-2,
        tiles=lambda s: tiles((64, 64, 128, 64), (64, 64, 64, 64), (64, 128, 64, 128),
                             names="TM TN QM QN"),
        only=_some),
    "paged_decode": Kind("paged decode", want=_paged, peers=_paged_peers, inputs=_paged_inputs,
                         variants=({"D": 128, "G": 4},), limit=True,
                         tiles=lambda s: tiles((16,), (32,), (64,), (128,), names="TN")),
    "paged_decode_split": Kind("paged decode", want=_paged, peers=_paged_peers, limit=True,
                               inputs=_paged_inputs, variants=({"D": 128, "G": 4},),
                               tiles=lambda s: tiles((16,), (32,), (64,), (128,), names="TN")),
}
