"""Peers in Triton: what its builtins do with a tile, and reductions and scans by functions."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rows_of(N: tl.constexpr, ROWS: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    return m, m[:, None] * N + tl.arange(0, N)[None, :]


@triton.jit
def sort(x, y, M, N: tl.constexpr, ROWS: tl.constexpr):
    m, at = rows_of(N, ROWS)
    v = tl.load(x + at, mask=(m < M)[:, None], other=0.0)
    tl.store(y + at, tl.sort(v, dim=1), mask=(m < M)[:, None])


@triton.jit
def topk_values(x, values, M, N: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr):
    m, at = rows_of(N, ROWS)
    v = tl.load(x + at, mask=(m < M)[:, None], other=0.0)
    to = m[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(values + to, tl.topk(v, K, 1), mask=(m < M)[:, None])


@triton.jit
def topk(x, values, places, M, N: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr):
    # A number whose order is that of the floats, above its place counted down.
    m, at = rows_of(N, ROWS)
    v = tl.load(x + at, mask=(m < M)[:, None], other=0.0)
    bits = v.to(tl.int32, bitcast=True)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    key = (bits.to(tl.int64) << 32) | (N - 1 - tl.arange(0, N))[None, :].to(tl.int64)
    best = tl.topk(key, K, 1)
    bits = (best >> 32).to(tl.int32)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    to = m[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(values + to, bits.to(tl.float32, bitcast=True), mask=(m < M)[:, None])
    tl.store(places + to, N - 1 - best.to(tl.int32), mask=(m < M)[:, None])


@triton.jit
def gather(x, order, y, M, N: tl.constexpr, ROWS: tl.constexpr):
    m, at = rows_of(N, ROWS)
    v = tl.load(x + at, mask=(m < M)[:, None], other=0.0)
    i = tl.load(order + at, mask=(m < M)[:, None], other=0)
    tl.store(y + at, tl.gather(v, i, 1), mask=(m < M)[:, None])


@triton.jit
def cumsum(x, y, M, N: tl.constexpr, ROWS: tl.constexpr):
    m, at = rows_of(N, ROWS)
    v = tl.load(x + at, mask=(m < M)[:, None], other=0.0)
    tl.store(y + at, tl.cumsum(v, 1), mask=(m < M)[:, None])


@triton.jit
def histogram(x, counts, N: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x + row * N + tl.arange(0, N))
    tl.store(counts + row * 256 + tl.arange(0, 256), tl.histogram(v, 256))


@triton.jit
def after(af, av, bf, bv):
    return af * bf, av * bf + bv


@triton.jit
def steps(f, x, y, M, N: tl.constexpr, ROWS: tl.constexpr):
    m, at = rows_of(N, ROWS)
    tf = tl.load(f + at, mask=(m < M)[:, None], other=0.0) + 0.5
    tx = tl.load(x + at, mask=(m < M)[:, None], other=0.0)
    _, s = tl.associative_scan((tf, tx), 1, after)
    tl.store(y + at, s, mask=(m < M)[:, None])


@triton.jit
def merge(am, s, bm, t):
    m = tl.maximum(am, bm)
    return m, s * tl.exp(am - m) + t * tl.exp(bm - m)


@triton.jit
def lse_merge(x, y, M, N: tl.constexpr, ROWS: tl.constexpr):
    m, at = rows_of(N, ROWS)
    v = tl.load(x + at, mask=(m < M)[:, None], other=0.0)
    top, total = tl.reduce((v, v * 0 + 1), 1, merge)
    tl.store(y + m, top + tl.log(total), mask=m < M)


@triton.jit
def lse_two(x, y, M, N: tl.constexpr, ROWS: tl.constexpr):
    m, at = rows_of(N, ROWS)
    v = tl.load(x + at, mask=(m < M)[:, None], other=0.0)
    top = tl.max(v, 1)
    tl.store(y + m, top + tl.log(tl.sum(tl.exp(v - top[:, None]), 1)), mask=m < M)


@triton.jit
def moments(an, am, a2, bn, bm, b2):
    n = an + bn
    d = bm - am
    part = bn / n
    return n, am + d * part, a2 + b2 + d * d * an * part


@triton.jit
def welford(x, mean, variance, M, N: tl.constexpr, ROWS: tl.constexpr):
    m, at = rows_of(N, ROWS)
    v = tl.load(x + at, mask=(m < M)[:, None], other=0.0)
    _, mu, m2 = tl.reduce((v * 0 + 1, v, v * 0), 1, moments)
    tl.store(mean + m, mu, mask=m < M)
    tl.store(variance + m, m2 / N, mask=m < M)


@triton.jit
def argmax(x, most, place, M, N: tl.constexpr, ROWS: tl.constexpr):
    m, at = rows_of(N, ROWS)
    v = tl.load(x + at, mask=(m < M)[:, None], other=0.0)
    top, where = tl.max(v, 1, return_indices=True)
    tl.store(most + m, top, mask=m < M)
    tl.store(place + m, where, mask=m < M)
