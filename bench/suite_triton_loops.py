"""Peers in Triton: histograms, sorts, and loops over tiles and points."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def histogram(x, counts, N, PARTS, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    total = tl.zeros((256,), tl.int32)
    for start in range(first, N, PARTS * BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < N, other=0).to(tl.int32)
        total += tl.histogram(v, 256, mask=i < N)
    tl.atomic_add(counts + tl.arange(0, 256), total)


@triton.jit
def sort_rows(x, y, N: tl.constexpr, ROWS: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    n = tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    tl.store(y + at, tl.sort(tl.load(x + at), dim=1))


@triton.jit
def sort_some(x, y, M, N, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    n = tl.arange(0, BLOCK)
    at = m[:, None] * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + at, mask=inside, other=float("inf"))
    tl.store(y + at, tl.sort(v, dim=1), mask=inside)


@triton.jit
def rank_some(x, y, M, N, BLOCK: tl.constexpr):
    """By counting, as rank_rows.tc does."""
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0) * N
    v = tl.load(x + row + n, mask=n < N, other=float("inf"))
    before = (v[None, :] < v[:, None]) | ((v[None, :] == v[:, None]) & (n[None, :] < n[:, None]))
    tl.store(y + row + tl.sum(before.to(tl.int32), 1), v, mask=n < N)


@triton.jit
def at(x, h, w, H, W):
    inside = ((h >= 0) & (h < H))[:, None] & ((w >= 0) & (w < W))[None, :]
    return tl.load(x + h[:, None] * W + w[None, :], mask=inside, other=0.0)


@triton.jit
def stencil(x, y, H, W, edge, corner, TM: tl.constexpr, TN: tl.constexpr):
    h = tl.program_id(0) * TM + tl.arange(0, TM)
    w = tl.program_id(1) * TN + tl.arange(0, TN)
    total = (1 - 4 * edge - 4 * corner) * at(x, h, w, H, W)
    total += edge * (at(x, h - 1, w, H, W) + at(x, h + 1, w, H, W) + at(x, h, w - 1, H, W)
                     + at(x, h, w + 1, H, W))
    total += corner * (at(x, h - 1, w - 1, H, W) + at(x, h - 1, w + 1, H, W)
                       + at(x, h + 1, w - 1, H, W) + at(x, h + 1, w + 1, H, W))
    tl.store(y + h[:, None] * W + w[None, :], total,
             mask=(h < H)[:, None] & (w < W)[None, :])


@triton.jit
def n_body(x, y, z, mass, ax, ay, az, N, soft, TI: tl.constexpr, TJ: tl.constexpr):
    i = tl.program_id(0) * TI + tl.arange(0, TI)
    xi = tl.load(x + i, mask=i < N, other=0.0)
    yi = tl.load(y + i, mask=i < N, other=0.0)
    zi = tl.load(z + i, mask=i < N, other=0.0)
    sx = tl.zeros((TI, TJ), tl.float32)
    sy = tl.zeros((TI, TJ), tl.float32)
    sz = tl.zeros((TI, TJ), tl.float32)
    for first in range(0, N, TJ):
        j = first + tl.arange(0, TJ)
        dx = tl.load(x + j, mask=j < N, other=0.0)[None, :] - xi[:, None]
        dy = tl.load(y + j, mask=j < N, other=0.0)[None, :] - yi[:, None]
        dz = tl.load(z + j, mask=j < N, other=0.0)[None, :] - zi[:, None]
        m = tl.load(mass + j, mask=j < N, other=0.0)
        r = tl.rsqrt(dx * dx + dy * dy + dz * dz + soft)
        f = m[None, :] * r * r * r
        sx += f * dx
        sy += f * dy
        sz += f * dz
    tl.store(ax + i, tl.sum(sx, 1), mask=i < N)
    tl.store(ay + i, tl.sum(sy, 1), mask=i < N)
    tl.store(az + i, tl.sum(sz, 1), mask=i < N)


@triton.jit
def selective_scan(x, dt, a, b, c, y, L, E, NS: tl.constexpr, TE: tl.constexpr):
    e = tl.program_id(0) * TE + tl.arange(0, TE)
    n = tl.arange(0, NS)
    ta = tl.load(a + e[:, None] * NS + n[None, :], mask=(e < E)[:, None], other=0.0)
    h = tl.zeros((TE, NS), tl.float32)
    for t in range(L):
        row = tl.program_id(1).to(tl.int64) * L + t
        tx = tl.load(x + row * E + e, mask=e < E, other=0.0)
        td = tl.load(dt + row * E + e, mask=e < E, other=0.0)
        tb = tl.load(b + row * NS + n)
        tc = tl.load(c + row * NS + n)
        h = tl.exp(td[:, None] * ta) * h + (td * tx)[:, None] * tb[None, :]
        tl.store(y + row * E + e, tl.sum(h * tc[None, :], 1), mask=e < E)


@triton.jit
def depthwise(x, w, y, C, H, W, TM: tl.constexpr, TN: tl.constexpr):
    h = tl.program_id(0) * TM + tl.arange(0, TM)
    v = tl.program_id(1) * TN + tl.arange(0, TN)
    plane = tl.program_id(2)
    channel = plane % C
    x += plane * H * W
    acc = tl.zeros((TM, TN), tl.float32)
    for r in range(7):
        for s in range(7):
            acc += at(x, h + r - 3, v + s - 3, H, W) * tl.load(w + channel * 49 + r * 7 + s)
    tl.store(y + plane * H * W + h[:, None] * W + v[None, :], acc,
             mask=(h < H)[:, None] & (v < W)[None, :])


@triton.jit
def depthwise_time(x, w, bias, y, L, E, TM: tl.constexpr, TN: tl.constexpr):
    t = tl.program_id(0) * TM + tl.arange(0, TM)
    e = tl.program_id(1) * TN + tl.arange(0, TN)
    batch = tl.program_id(2) * L
    inside = (t < L)[:, None] & (e < E)[None, :]
    acc = tl.zeros((TM, TN), tl.float32)
    acc += tl.load(bias + e, mask=e < E, other=0.0).to(tl.float32)[None, :]
    for s in tl.static_range(4):
        u = t + s - 3
        v = tl.load(x + (batch + u)[:, None] * E + e[None, :], mask=inside & (u >= 0)[:, None],
                    other=0.0).to(tl.float32)
        acc += v * tl.load(w + e * 4 + s, mask=e < E, other=0.0).to(tl.float32)[None, :]
    acc = acc / (1 + tl.exp(-acc))
    tl.store(y + (batch + t)[:, None] * E + e[None, :], acc.to(y.dtype.element_ty), mask=inside)


@triton.jit
def mandelbrot(times, H, W, left, low, step, limit, TM: tl.constexpr, TN: tl.constexpr):
    h = tl.program_id(0) * TM + tl.arange(0, TM)
    w = tl.program_id(1) * TN + tl.arange(0, TN)
    zero = tl.zeros((TM, TN), tl.float32)
    cr = zero + (left + step * w)[None, :]
    ci = zero + (low + step * h)[:, None]
    zr, zi = zero, zero
    count = tl.zeros((TM, TN), tl.int32)
    running = zr == 0
    i = 0
    while (i < limit) & (tl.max(running.to(tl.int32)) > 0):
        t = zr * zr - zi * zi + cr
        u = 2 * zr * zi + ci
        zr = tl.where(running, t, zr)
        zi = tl.where(running, u, zi)
        count += running.to(tl.int32)
        running = running & (zr * zr + zi * zi <= 4)
        i += 1
    tl.store(times + h[:, None] * W + w[None, :], count, mask=(h < H)[:, None] & (w < W)[None, :])


@triton.jit
def search_sorted(table, x, place, N, R, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < N, other=0.0)
    low = tl.zeros((BLOCK,), tl.int32)
    high = low + R
    while tl.max((low < high).to(tl.int32)) > 0:
        middle = (low + high) // 2
        less = tl.load(table + middle, mask=low < high, other=0.0) < v
        going = low < high
        low = tl.where(going & less, middle + 1, low)
        high = tl.where(going & (less == 0), middle, high)
    tl.store(place + i, low, mask=i < N)
