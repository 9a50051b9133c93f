"""Attention forward in Triton, the peer of `attention.py`, in the form of Triton's tutorial 06.

Descriptors made by the host, running maxima and sums of powers of two, and under a causal mask a
loop over the blocks that need none before one over those that do.  With `warp_specialize` such
kernels do not end, with Triton 3.6 on an H200.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from triton_peers import fastest, working

CONFIGURATIONS = [  # queries and keys of a block, stages, warps
    (128, 128, 2, 8), (128, 128, 3, 8), (128, 128, 2, 4), (128, 64, 2, 4), (128, 64, 3, 4),
    (128, 64, 4, 4), (64, 128, 2, 4), (64, 128, 3, 4), (64, 64, 3, 4), (64, 64, 4, 4),
    (128, 32, 4, 4),
]


@triton.jit
def _over_keys(total, sums, most, x, k, v, origin, first, last, scale, rows, BN: tl.constexpr,
               MASKED: tl.constexpr):
    for start in tl.range(first, last, BN):
        start = tl.multiple_of(start, BN)
        scores = tl.dot(x, k.load([origin + start, 0]).T)
        if MASKED:
            columns = start + tl.arange(0, BN)
            scores = scores * scale + tl.where(rows[:, None] >= columns[None, :], 0, -1.0e6)
            now = tl.maximum(most, tl.max(scores, 1))
            scores -= now[:, None]
        else:
            now = tl.maximum(most, tl.max(scores, 1) * scale)
            scores = scores * scale - now[:, None]
        powers = tl.math.exp2(scores)
        shrink = tl.math.exp2(most - now)
        sums = sums * shrink + tl.sum(powers, 1)
        total = tl.dot(powers.to(v.dtype), v.load([origin + start, 0]), total * shrink[:, None])
        most = now
    return total, sums, most


@triton.jit
def forward(q, k, v, out, length, scale, BM: tl.constexpr, BN: tl.constexpr,
            HEAD: tl.constexpr, CAUSAL: tl.constexpr):
    block = tl.program_id(0)
    origin = tl.program_id(1) * length
    rows = block * BM + tl.arange(0, BM)
    scale *= 1.44269504  # 1 / log(2)
    most = tl.full((BM,), -float("inf"), tl.float32)
    sums = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, HEAD), tl.float32)
    x = q.load([origin + block * BM, 0])
    free = block * BM if CAUSAL else length
    total, sums, most = _over_keys(total, sums, most, x, k, v, origin, 0, free, scale, rows, BN,
                                   False)
    if CAUSAL:
        total, sums, most = _over_keys(total, sums, most, x, k, v, origin, free, free + BM, scale,
                                       rows, BN, True)
    out.store([origin + block * BM, 0], (total / sums[:, None]).to(out.dtype))


class Key(NamedTuple):
    """A kernel."""

    configuration: tuple[int, int, int, int]
    head: int
    causal: bool

    @property
    def name(self) -> str:
        bm, bn, stages, warps = self.configuration
        return f"{bm}x{bn}, {stages} stages, {warps} warps"


def keys(head: int, causal: bool) -> list[Key]:
    """The kernels to choose from."""
    return [Key(row, head, causal) for row in CONFIGURATIONS if not causal or row[0] >= row[1]]


def launch(key: Key, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor
           ) -> Callable[[], None]:
    """A launch of a kernel on tensors of 1 x heads x length x head."""
    bm, bn, stages, warps = key.configuration
    _, heads, length, head = q.shape
    by_query = [TensorDescriptor(x, [heads * length, head], [head, 1], [bm, head])
                for x in (q, out)]
    by_key = [TensorDescriptor(x, [heads * length, head], [head, 1], [bn, head]) for x in (k, v)]
    grid = triton.cdiv(length, bm), heads
    return lambda: forward[grid](by_query[0], *by_key, by_query[1], length, head ** -0.5,
                                 BM=bm, BN=bn, HEAD=head, CAUSAL=key.causal,
                                 num_stages=stages, num_warps=warps)


def trial(key: Key) -> None:
    """Compile a kernel, and run it on a small problem."""
    q, k, v = (torch.randn(1, 2, 512, key.head, device="cuda", dtype=torch.bfloat16)
               for _ in range(3))
    out = torch.full_like(q, float("nan"))
    launch(key, q, k, v, out)()
    want = torch.nn.functional.scaled_dot_product_attention(
        q.float(), k.float(), v.float(), is_causal=key.causal)
    if not float((out.float() - want).norm()) < 1e-2 * float(want.norm()):
        raise ValueError("wrong result")


def choose(head: int, causal: bool, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
           out: torch.Tensor) -> tuple[str, Callable[[], None]] | None:
    """The fastest of the kernels that work: its name, and a launch; None if none does."""
    runs = {key.name: launch(key, q, k, v, out)
            for key in working("triton_attention", keys(head, causal))}
    if not runs:
        return None
    name = fastest(runs)
    return name, runs[name]
