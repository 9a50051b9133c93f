"""Peers in Triton: attention by pointers, and decoding over a paged cache."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def attention(q, k, v, o, S, q_z, q_h, q_s, k_z, k_h, k_s, H, GROUP, W, scale, D: tl.constexpr,
              CAUSAL: tl.constexpr, WINDOW: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr):
    m = tl.program_id(0) * TM + tl.arange(0, TM)
    d = tl.arange(0, D)
    z, h = tl.program_id(1) // H, tl.program_id(1) % H
    q += z.to(tl.int64) * q_z + h * q_h
    o += z.to(tl.int64) * q_z + h * q_h
    k += z.to(tl.int64) * k_z + h // GROUP * k_h
    v += z.to(tl.int64) * k_z + h // GROUP * k_h
    tq = tl.load(q + m[:, None] * q_s + d[None, :], mask=(m < S)[:, None], other=0.0)
    acc = tl.zeros((TM, D), tl.float32)
    total = tl.zeros((TM,), tl.float32)
    top = tl.full((TM,), -1e30, tl.float32)
    scale *= 1.44269504
    first = 0
    last = S
    if CAUSAL:
        last = min(S, (tl.program_id(0) + 1) * TM)
    if WINDOW:
        first = max(0, tl.program_id(0) * TM - W + 1) // TN * TN
    for start in range(first, last, TN):
        n = start + tl.arange(0, TN)
        inside = (n < S)[:, None]
        tk = tl.load(k + n[:, None] * k_s + d[None, :], mask=inside, other=0.0)
        tv = tl.load(v + n[:, None] * k_s + d[None, :], mask=inside, other=0.0)
        s = tl.dot(tq, tk.T) * scale
        seen = n[None, :] < S
        if CAUSAL:
            seen = seen & (n[None, :] <= m[:, None])
        if WINDOW:
            seen = seen & (m[:, None] - n[None, :] < W)
        s = tl.where(seen, s, -float("inf"))
        now = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        shrink = tl.exp2(top - now)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(tv.dtype), tv, acc * shrink[:, None])
        top = now
    tl.store(o + m[:, None] * q_s + d[None, :], (acc / total[:, None]).to(o.dtype.element_ty),
             mask=(m < S)[:, None])


@triton.jit
def decode(q, k, v, table, lengths, part, tops, sums, H, HK, B, pages, chunk, scale,
           G: tl.constexpr, D: tl.constexpr, TN: tl.constexpr):
    shared, b, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    g = tl.arange(0, 16)
    d = tl.arange(0, D)
    row = b * H + shared * G + g
    length = tl.load(lengths + b)
    last = min(length, (z + 1) * chunk)
    tq = tl.load(q + row[:, None] * D + d[None, :], mask=(g < G)[:, None], other=0.0)
    acc = tl.zeros((16, D), tl.float32)
    total = tl.zeros((16,), tl.float32)
    top = tl.full((16,), -1e30, tl.float32)
    scale *= 1.44269504
    for start in range(z * chunk, last, TN):
        n = start + tl.arange(0, TN)
        page = tl.load(table + b * pages + n // 16, mask=n < last, other=0).to(tl.int64)
        at = ((page * 16 + n % 16) * HK + shared)[:, None] * D + d[None, :]
        tk = tl.load(k + at, mask=(n < last)[:, None], other=0.0)
        tv = tl.load(v + at, mask=(n < last)[:, None], other=0.0)
        s = tl.where((n < last)[None, :], tl.dot(tq, tk.T) * scale, -float("inf"))
        now = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        shrink = tl.exp2(top - now)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(tv.dtype), tv, acc * shrink[:, None])
        top = now
    to = z * B * H + row
    tl.store(tops + to, top, mask=g < G)
    tl.store(sums + to, total, mask=g < G)
    tl.store(part + to[:, None] * D + d[None, :], acc, mask=(g < G)[:, None])


@triton.jit
def merge(part, tops, sums, o, rows, SPLIT: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0)
    z = tl.arange(0, SPLIT)
    d = tl.arange(0, D)
    top = tl.load(tops + z * rows + row)
    weight = tl.exp2(top - tl.max(top, 0))
    total = tl.sum(weight * tl.load(sums + z * rows + row), 0)
    values = tl.load(part + (z * rows + row)[:, None] * D + d[None, :])
    acc = tl.sum(values * weight[:, None], 0) / total
    tl.store(o + row * D + d, acc.to(o.dtype.element_ty))
