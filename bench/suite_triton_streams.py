"""Peers in Triton: streams, histograms, and loops over tiles."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rope(x, cosine, sine, y, H, D: tl.constexpr, HEADS: tl.constexpr):
    h = tl.program_id(0) * HEADS + tl.arange(0, HEADS)
    s = tl.program_id(1)
    d = tl.arange(0, D // 2)
    c = tl.load(cosine + s * (D // 2) + d)
    z = tl.load(sine + s * (D // 2) + d)
    at = (s * H + h)[:, None] * D + d[None, :]
    inside = (h < H)[:, None]
    a = tl.load(x + at, mask=inside).to(tl.float32)
    b = tl.load(x + at + D // 2, mask=inside).to(tl.float32)
    tl.store(y + at, (a * c - b * z).to(y.dtype.element_ty), mask=inside)
    tl.store(y + at + D // 2, (b * c + a * z).to(y.dtype.element_ty), mask=inside)


@triton.jit
def swiglu(x, y, N, BLOCK: tl.constexpr):
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1)
    g = tl.load(x + row * 2 * N + n, mask=n < N).to(tl.float32)
    u = tl.load(x + row * 2 * N + N + n, mask=n < N).to(tl.float32)
    tl.store(y + row * N + n, (g / (1 + tl.exp(-g)) * u).to(y.dtype.element_ty), mask=n < N)


@triton.jit
def gelu_bias(x, bias, y, N, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < count).to(tl.float32)
    v += tl.load(bias + i % N, mask=i < count).to(tl.float32)
    tl.store(y + i, (0.5 * v * (1 + tl.erf(v * 0.70710678))).to(y.dtype.element_ty),
             mask=i < count)


@triton.jit
def dropout(x, residual, y, N, seed, p, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = (i + seed).to(tl.uint32)
    v = (v ^ (v >> 16)) * 0x45d9f3b
    v = (v ^ (v >> 16)) * 0x45d9f3b
    v = v ^ (v >> 16)
    uniform = v.to(tl.float32) * 2.3283064365386963e-10
    a = tl.load(x + i, mask=i < N).to(tl.float32)
    r = tl.load(residual + i, mask=i < N).to(tl.float32)
    tl.store(y + i, (r + tl.where(uniform < p, 0.0, a / (1 - p))).to(y.dtype.element_ty),
             mask=i < N)


@triton.jit
def embedding(token, table, y, N, BLOCK: tl.constexpr):
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = tl.program_id(0)
    row = tl.load(token + m).to(tl.int64) * N
    tl.store(y + m * N + n, tl.load(table + row + n, mask=n < N), mask=n < N)


@triton.jit
def transpose(x, y, M, N, TM: tl.constexpr, TN: tl.constexpr):
    m = tl.program_id(0) * TM + tl.arange(0, TM)
    n = tl.program_id(1) * TN + tl.arange(0, TN)
    at = tl.program_id(2) * M * N
    inside = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + at + m[:, None] * N + n[None, :], mask=inside)
    tl.store(y + at + n[:, None] * M + m[None, :], tl.trans(v), mask=tl.trans(inside))


@triton.jit
def split_heads(x, q, k, v, S, H, D: tl.constexpr, TS: tl.constexpr):
    s = tl.program_id(0) * TS + tl.arange(0, TS)
    h, b = tl.program_id(1), tl.program_id(2)
    d = tl.arange(0, D)
    inside = (s < S)[:, None]
    source = ((b * S + s) * 3 * H + h)[:, None] * D + d[None, :]
    target = ((b * H + h) * S + s)[:, None] * D + d[None, :]
    tl.store(q + target, tl.load(x + source, mask=inside), mask=inside)
    tl.store(k + target, tl.load(x + source + H * D, mask=inside), mask=inside)
    tl.store(v + target, tl.load(x + source + 2 * H * D, mask=inside), mask=inside)


@triton.jit
def adam(p, g, m, v, N, rate, beta1, beta2, eps, decay, correct1, correct2, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N
    grad = tl.load(g + i, mask=inside).to(tl.float32)
    m1 = beta1 * tl.load(m + i, mask=inside) + (1 - beta1) * grad
    v1 = beta2 * tl.load(v + i, mask=inside) + (1 - beta2) * grad * grad
    w = tl.load(p + i, mask=inside).to(tl.float32) * (1 - rate * decay)
    w -= rate * m1 * correct1 / (tl.sqrt(v1 * correct2) + eps)
    tl.store(m + i, m1, mask=inside)
    tl.store(v + i, v1, mask=inside)
    tl.store(p + i, w.to(p.dtype.element_ty), mask=inside)


@triton.jit
def bias_gradient(dy, db, M, N, PARTS, TM: tl.constexpr, TN: tl.constexpr):
    n = tl.program_id(0) * TN + tl.arange(0, TN)
    m = tl.program_id(1) * TM + tl.arange(0, TM)
    total = tl.zeros((TM, TN), tl.float32)
    for first in range(0, M, PARTS * TM):
        inside = (m[:, None] + first < M) & (n[None, :] < N)
        total += tl.load(dy + (m + first)[:, None] * N + n[None, :], mask=inside,
                         other=0.0).to(tl.float32)
    tl.atomic_add(db + n, tl.sum(total, 0), mask=n < N)


@triton.jit
def broadcast_chain(x, scale, shift, keep, residual, y, M, N, TM: tl.constexpr, TN: tl.constexpr):
    m = tl.program_id(0) * TM + tl.arange(0, TM)
    n = tl.program_id(1) * TN + tl.arange(0, TN)
    inside = (m[:, None] < M) & (n[None, :] < N)
    at = m[:, None] * N + n[None, :]
    s = tl.load(scale + m, mask=m < M)
    b = tl.load(shift + n, mask=n < N)
    k = tl.load(keep + n, mask=n < N).to(tl.float32)
    v = tl.load(x + at, mask=inside) * s[:, None] + b[None, :]
    t = 2 / (1 + tl.exp(-2 * v)) - 1
    tl.store(y + at, t * k[None, :] + tl.load(residual + at, mask=inside), mask=inside)
