"""Peers in Triton: rows.  The obvious kernels, with a few configurations to choose from.

`each` makes launches of a kernel in several configurations, whose names begin with "triton"; the
fastest counts.  While `only_compile` is set they compile instead, with no GPU memory behind the
arguments, so that what compiles is in Triton's cache when a GPU is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from suite_support import power

only_compile = False
Launches = dict[str, Callable[[], Any]]


def run(kernel: Any, grid: Any, *arguments: Any, **meta: Any) -> Callable[[], Any]:
    """A launch; its tensors are what they are now."""
    def launch() -> None:
        if only_compile:
            kernel.warmup(*[a.dtype if isinstance(a, torch.Tensor) else a for a in arguments],
                          grid=(1, 1, 1), **meta)
        else:
            kernel[grid](*arguments, **meta)

    return launch


def all_of(steps: Sequence[Callable[[], Any]]) -> None:
    """One launch behind the other."""
    for step in steps:
        step()


def each(kernel: Any, grid: Any, arguments: Sequence[Any], **values: Sequence[int]) -> Launches:
    """Launches for each configuration: `values` has lists of equal length, by name; `warps` and
    `stages` are Triton's own.  `grid` may be a function of the configuration."""
    found: Launches = {}
    for row in zip(*values.values(), strict=True):
        meta = dict(zip(values, row, strict=True))
        name = "triton " + " ".join(f"{key}{value}" for key, value in meta.items())
        own = {{"warps": "num_warps", "stages": "num_stages"}.get(key, key): value
               for key, value in meta.items()}
        found[name] = run(kernel, grid(meta) if callable(grid) else grid, *arguments, **own)
    return found


def whole_rows(kernel: Any, count: int, columns: int, *arguments: Any) -> Launches:
    """A row for a program, in a block that holds it."""
    block = power(columns)
    warps = [w for w in (1, 4, 8, 16, 32) if 8 <= block // (32 * w) <= 128] or [4]
    return each(kernel, (count,), arguments, BLOCK=[block] * len(warps), warps=warps)


def looped_rows(kernel: Any, count: int, *arguments: Any) -> Launches:
    """A row for a program, in a loop over blocks."""
    return each(kernel, (count,), arguments, BLOCK=[1024, 2048, 4096, 8192, 8192, 16384],
                warps=[4, 4, 8, 8, 16, 16])


@triton.jit
def rms_norm(x, w, y, N, eps, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * N
    v = tl.load(x + row + n, mask=n < N, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, 0) / N + eps)
    f = tl.load(w + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(y + row + n, (v * scale * f).to(y.dtype.element_ty), mask=n < N)


@triton.jit
def add_rms_norm(x, r, w, h, y, N, eps, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0) * N
    v = tl.load(x + row + n, mask=n < N, other=0.0).to(tl.float32)
    v += tl.load(r + row + n, mask=n < N, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, 0) / N + eps)
    f = tl.load(w + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(h + row + n, v.to(h.dtype.element_ty), mask=n < N)
    tl.store(y + row + n, (v * scale * f).to(y.dtype.element_ty), mask=n < N)


@triton.jit
def layer_norm(x, w, b, y, mean, rstd, N, eps, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0) * N
    v = tl.load(x + row + n, mask=n < N, other=0.0).to(tl.float32)
    m = tl.sum(v, 0) / N
    d = tl.where(n < N, v - m, 0.0)
    r = tl.rsqrt(tl.sum(d * d, 0) / N + eps)
    tl.store(mean + tl.program_id(0), m)
    tl.store(rstd + tl.program_id(0), r)
    f = tl.load(w + n, mask=n < N, other=0.0).to(tl.float32)
    s = tl.load(b + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(y + row + n, (d * r * f + s).to(y.dtype.element_ty), mask=n < N)


@triton.jit
def layer_norm_backward(dy, x, w, mean, rstd, dx, pw, pb, M, N, ROWS: tl.constexpr,
                        BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    f = tl.load(w + n, mask=n < N, other=0.0).to(tl.float32)
    sw = tl.zeros((BLOCK,), tl.float32)
    sb = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * ROWS
    for row in range(first, min(first + ROWS, M)):
        m, r = tl.load(mean + row), tl.load(rstd + row)
        v = (tl.load(x + row * N + n, mask=n < N, other=0.0).to(tl.float32) - m) * r
        v = tl.where(n < N, v, 0.0)
        g = tl.load(dy + row * N + n, mask=n < N, other=0.0).to(tl.float32)
        sw += g * v
        sb += g
        g *= f
        d = (g - v * (tl.sum(v * g, 0) / N) - tl.sum(g, 0) / N) * r
        tl.store(dx + row * N + n, d.to(dx.dtype.element_ty), mask=n < N)
    tl.store(pw + tl.program_id(0) * N + n, sw, mask=n < N)
    tl.store(pb + tl.program_id(0) * N + n, sb, mask=n < N)


@triton.jit
def layer_norm_backward_x(dy, x, w, mean, rstd, dx, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    m, r = tl.load(mean + row), tl.load(rstd + row)
    v = (tl.load(x + row * N + n, mask=n < N, other=0.0).to(tl.float32) - m) * r
    v = tl.where(n < N, v, 0.0)
    g = tl.load(dy + row * N + n, mask=n < N, other=0.0).to(tl.float32)
    g *= tl.load(w + n, mask=n < N, other=0.0).to(tl.float32)
    d = (g - v * (tl.sum(v * g, 0) / N) - tl.sum(g, 0) / N) * r
    tl.store(dx + row * N + n, d.to(dx.dtype.element_ty), mask=n < N)


@triton.jit
def layer_norm_backward_w(dy, x, mean, rstd, dw, db, M, N, TM: tl.constexpr, TN: tl.constexpr):
    n = tl.program_id(0) * TN + tl.arange(0, TN)
    m = tl.arange(0, TM)
    sw = tl.zeros((TM, TN), tl.float32)
    sb = tl.zeros((TM, TN), tl.float32)
    for first in range(0, M, TM):
        rows = m + first
        inside = (rows[:, None] < M) & (n[None, :] < N)
        g = tl.load(dy + rows[:, None] * N + n[None, :], mask=inside, other=0.0).to(tl.float32)
        v = tl.load(x + rows[:, None] * N + n[None, :], mask=inside, other=0.0).to(tl.float32)
        v -= tl.load(mean + rows, mask=rows < M, other=0.0)[:, None]
        sw += g * v * tl.load(rstd + rows, mask=rows < M, other=0.0)[:, None]
        sb += g
    tl.store(dw + n, tl.sum(sw, 0).to(dw.dtype.element_ty), mask=n < N)
    tl.store(db + n, tl.sum(sb, 0).to(db.dtype.element_ty), mask=n < N)


def layer_norm_backward_apart(dy: Any, x: Any, w: Any, mean: Any, rstd: Any, dx: Any, dw: Any,
                              db: Any, m: int, n: int) -> Launches:
    """Rows and columns by a kernel each, as layer_norm_backward.tc."""
    of_x = whole_rows(layer_norm_backward_x, m, n, dy, x, w, mean, rstd, dx, n)
    of_w = each(layer_norm_backward_w, lambda c: (triton.cdiv(n, c["TN"]),),
                [dy, x, mean, rstd, dw, db, m, n], TM=[32, 64], TN=[32, 32], warps=[4, 8])
    return {f"{a} {b}": lambda steps=(one, two): all_of(steps)
            for a, one in of_x.items() for b, two in of_w.items()}


@triton.jit
def rms_norm_backward(dy, x, w, dx, pw, M, N, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    f = tl.load(w + n, mask=n < N, other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * ROWS
    for row in range(first, min(first + ROWS, M)):
        v = tl.load(x + row * N + n, mask=n < N, other=0.0).to(tl.float32)
        g = tl.load(dy + row * N + n, mask=n < N, other=0.0).to(tl.float32)
        r = tl.rsqrt(tl.sum(v * v, 0) / N + eps)
        total += g * v * r
        g *= f
        d = r * g - v * (r * r * r * (tl.sum(g * v, 0) / N))
        tl.store(dx + row * N + n, d.to(dx.dtype.element_ty), mask=n < N)
    tl.store(pw + tl.program_id(0) * N + n, total, mask=n < N)


@triton.jit
def column_sums(p, y, M, N, TM: tl.constexpr, TN: tl.constexpr):
    n = tl.program_id(0) * TN + tl.arange(0, TN)
    m = tl.arange(0, TM)
    total = tl.zeros((TM, TN), tl.float32)
    for first in range(0, M, TM):
        inside = (m[:, None] + first < M) & (n[None, :] < N)
        total += tl.load(p + (m + first)[:, None] * N + n[None, :], mask=inside, other=0.0)
    tl.store(y + n, tl.sum(total, 0).to(y.dtype.element_ty), mask=n < N)


def summed(partial: Any, y: Any) -> Callable[[], Any]:
    m, n = partial.shape
    return run(column_sums, (triton.cdiv(n, 32),), partial, y, m, n, TM=32, TN=32, num_warps=4)


def norm_backward(kernel: Any, arguments: Sequence[Any], sums: Sequence[Any], m: int, n: int,
                  *more: Any) -> Launches:
    """Rows in groups, whose partial sums a second kernel adds up."""
    found: Launches = {}
    for rows, warps in ((16, 8), (32, 8), (64, 16)):
        parts = triton.cdiv(m, rows)
        partial = [torch.empty(parts, n, device=arguments[0].device) for _ in sums]
        first = run(kernel, (parts,), *arguments, *partial, m, n, *more, ROWS=rows,
                    BLOCK=power(n), num_warps=warps)
        steps = [first, *(summed(p, y) for p, y in zip(partial, sums, strict=True))]
        found[f"triton rows{rows} warps{warps}"] = lambda steps=steps: all_of(steps)
    return found


@triton.jit
def softmax(x, y, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * N
    v = tl.load(x + row + n, mask=n < N, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row + n, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=n < N)


@triton.jit
def softmax_loop(x, y, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * N
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, N, BLOCK):
        v = tl.load(x + row + first + n, mask=first + n < N, other=-1e30).to(tl.float32)
        now = tl.maximum(top, v)
        total = total * tl.exp(top - now) + tl.exp(v - now)
        top = now
    most = tl.max(top, 0)
    scale = 1 / tl.sum(total * tl.exp(top - most), 0)
    for first in range(0, N, BLOCK):
        v = tl.load(x + row + first + n, mask=first + n < N, other=0.0).to(tl.float32)
        tl.store(y + row + first + n, (tl.exp(v - most) * scale).to(y.dtype.element_ty),
                 mask=first + n < N)


@triton.jit
def softmax_backward(y, dy, dx, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0) * N
    p = tl.load(y + row + n, mask=n < N, other=0.0)
    g = tl.load(dy + row + n, mask=n < N, other=0.0)
    tl.store(dx + row + n, p * (g - tl.sum(p * g, 0)), mask=n < N)


@triton.jit
def cross_entropy(x, label, loss, lse, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, N, BLOCK):
        v = tl.load(x + row * N + first + n, mask=first + n < N, other=-1e30).to(tl.float32)
        now = tl.maximum(top, v)
        total = total * tl.exp(top - now) + tl.exp(v - now)
        top = now
    most = tl.max(top, 0)
    s = tl.log(tl.sum(total * tl.exp(top - most), 0)) + most
    tl.store(lse + row, s)
    tl.store(loss + row, s - tl.load(x + row * N + tl.load(label + row)).to(tl.float32))


@triton.jit
def cross_entropy_backward(x, label, lse, dloss, dx, N, BLOCK: tl.constexpr):
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1).to(tl.int64)
    v = tl.load(x + row * N + n, mask=n < N, other=0.0).to(tl.float32)
    p = tl.exp(v - tl.load(lse + row))
    p = tl.where(n == tl.load(label + row), p - 1, p) * tl.load(dloss + row)
    tl.store(dx + row * N + n, p.to(dx.dtype.element_ty), mask=n < N)


@triton.jit
def quantise(x, q, scale, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0) * N
    v = tl.load(x + row + n, mask=n < N, other=0.0).to(tl.float32)
    s = tl.max(tl.abs(v), 0) / 127
    tl.store(scale + tl.program_id(0), s)
    r = v / s
    r = tl.where(r < 0, tl.ceil(r - 0.5), tl.floor(r + 0.5))
    tl.store(q + row + n, r.to(tl.int8), mask=n < N)


@triton.jit
def argmax_rows(x, best, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * N
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    place = tl.zeros((BLOCK,), tl.int32)
    for first in range(0, N, BLOCK):
        v = tl.load(x + row + first + n, mask=first + n < N, other=-float("inf"))
        place = tl.where(v > top, first + n, place)
        top = tl.maximum(top, v)
    most = tl.max(top, 0)
    tl.store(best + tl.program_id(0), tl.min(tl.where(top == most, place, 2147483647), 0))


@triton.jit
def running_sum(x, y, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * N
    before = 0.0
    for first in range(0, N, BLOCK):
        v = tl.load(x + row + first + n, mask=first + n < N, other=0.0)
        tl.store(y + row + first + n, before + tl.cumsum(v, 0), mask=first + n < N)
        before += tl.sum(v, 0)


@triton.jit
def top_k(x, values, columns, M, N, K, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    n = tl.arange(0, BLOCK)
    inside = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=inside, other=-float("inf"))
    for k in range(K):
        most, place = tl.max(v, 1, return_indices=True)
        tl.store(values + m * K + k, most, mask=m < M)
        tl.store(columns + m * K + k, place, mask=m < M)
        v = tl.where(n[None, :] == place[:, None], -float("inf"), v)


def flat(kernel: Any, count: int, *arguments: Any) -> Launches:
    """A flat range in blocks."""
    return each(kernel, lambda c: (triton.cdiv(count, c["BLOCK"]),), arguments,
                BLOCK=[512, 1024, 1024, 2048, 4096], warps=[4, 4, 8, 8, 8])
