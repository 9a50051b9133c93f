"""Peers in Triton: stencils, routers, networks, gathers and atomics, each the obvious kernel."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def life(x, y, H, W, TM: tl.constexpr, TN: tl.constexpr):
    h = tl.program_id(0) * TM + tl.arange(0, TM)
    w = tl.program_id(1) * TN + tl.arange(0, TN)
    inside = (h < H)[:, None] & (w < W)[None, :]
    n = tl.zeros((TM, TN), tl.int32)
    for i in tl.static_range(-1, 2):
        for j in tl.static_range(-1, 2):
            if i != 0 or j != 0:
                r, c = (h + i + H) % H, (w + j + W) % W
                n += tl.load(x + r[:, None] * W + c[None, :], mask=inside, other=0).to(tl.int32)
    own = tl.load(x + h[:, None] * W + w[None, :], mask=inside, other=0)
    alive = (n == 3) | ((own == 1) & (n == 2))
    tl.store(y + h[:, None] * W + w[None, :], alive.to(tl.uint8), mask=inside)


@triton.jit
def route_two(x, gates, chosen, M, E: tl.constexpr, ROWS: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    e = tl.arange(0, E)
    t = tl.load(x + m[:, None] * E + e[None, :], mask=(m < M)[:, None], other=0.0)
    p = tl.exp(t - tl.max(t, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    first, i = tl.max(p, 1, return_indices=True)
    rest = tl.where(e[None, :] == i[:, None], -1.0, p)
    second, j = tl.max(rest, 1, return_indices=True)
    tl.store(gates + m * 2, first / (first + second), mask=m < M)
    tl.store(gates + m * 2 + 1, second / (first + second), mask=m < M)
    tl.store(chosen + m * 2, i, mask=m < M)
    tl.store(chosen + m * 2 + 1, j, mask=m < M)


@triton.jit
def compact(x, y, count, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < N, other=0.0)
    one = (v > 0).to(tl.int32)
    place = tl.cumsum(one, 0) - one
    start = tl.atomic_add(count, tl.sum(one, 0))
    tl.store(y + start + place, v, mask=v > 0)


@triton.jit
def hadamard(x, y, M, N: tl.constexpr, LOG: tl.constexpr, ROWS: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    n = tl.arange(0, N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=(m < M)[:, None], other=0.0)
    for s in tl.static_range(LOG):
        t = tl.permute(tl.reshape(v, (ROWS, N >> (s + 1), 2, 1 << s)), (0, 1, 3, 2))
        a, b = tl.split(t)
        v = tl.reshape(tl.permute(tl.join(a + b, a - b), (0, 1, 3, 2)), (ROWS, N))
    tl.store(y + m[:, None] * N + n[None, :], v * (N ** -0.5), mask=(m < M)[:, None])


@triton.jit
def near(x, h, w, H, W):
    r = tl.minimum(tl.maximum(h, 0), H - 1)
    c = tl.minimum(tl.maximum(w, 0), W - 1)
    return tl.load(x + r[:, None] * W + c[None, :])


@triton.jit
def order(a, b):
    return tl.minimum(a, b), tl.maximum(a, b)


@triton.jit
def median(x, y, H, W, TM: tl.constexpr, TN: tl.constexpr):
    h = tl.program_id(0) * TM + tl.arange(0, TM)
    w = tl.program_id(1) * TN + tl.arange(0, TN)
    a, b, c = near(x, h - 1, w - 1, H, W), near(x, h - 1, w, H, W), near(x, h - 1, w + 1, H, W)
    d, e, f = near(x, h, w - 1, H, W), near(x, h, w, H, W), near(x, h, w + 1, H, W)
    g, i, j = near(x, h + 1, w - 1, H, W), near(x, h + 1, w, H, W), near(x, h + 1, w + 1, H, W)
    a, b = order(a, b)
    b, c = order(b, c)
    c, d = order(c, d)
    d, e = order(d, e)
    e, f = order(e, f)
    f, g = order(f, g)
    g, i = order(g, i)
    i, j = order(i, j)
    a, b = order(a, b)
    b, c = order(b, c)
    c, d = order(c, d)
    d, e = order(d, e)
    e, f = order(e, f)
    f, g = order(f, g)
    g, i = order(g, i)
    a, b = order(a, b)
    b, c = order(b, c)
    c, d = order(c, d)
    d, e = order(d, e)
    e, f = order(e, f)
    f, g = order(f, g)
    a, b = order(a, b)
    b, c = order(b, c)
    c, d = order(c, d)
    d, e = order(d, e)
    e, f = order(e, f)
    a, b = order(a, b)
    b, c = order(b, c)
    c, d = order(c, d)
    d, e = order(d, e)
    tl.store(y + h[:, None] * W + w[None, :], e, mask=(h < H)[:, None] & (w < W)[None, :])


@triton.jit
def blur(x, y, H, W, R, TM: tl.constexpr, TN: tl.constexpr):
    h = tl.program_id(0) * TM + tl.arange(0, TM)
    w = tl.program_id(1) * TN + tl.arange(0, TN)
    total = tl.zeros((TM, TN), tl.float32)
    for i in range(-R, R + 1):
        for j in range(-R, R + 1):
            total += near(x, h + i, w + j, H, W)
    count = (2 * R + 1) * (2 * R + 1)
    tl.store(y + h[:, None] * W + w[None, :], total / count,
             mask=(h < H)[:, None] & (w < W)[None, :])


@triton.jit
def _greater(a, b):
    return tl.maximum(a, b)


@triton.jit
def prefix_max(x, y, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + i, tl.associative_scan(tl.load(x + i), 0, _greater))


@triton.jit
def bitonic(x, y, M, N: tl.constexpr, ROWS: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = m[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at, mask=(m < M)[:, None], other=0.0)
    tl.store(y + at, tl.sort(v, dim=1), mask=(m < M)[:, None])


@triton.jit
def nearest(x, c, place, distance, N, K, TN: tl.constexpr, TK: tl.constexpr):
    i = tl.program_id(0) * TN + tl.arange(0, TN)
    px = tl.load(x + i * 3, mask=i < N, other=0.0)
    py = tl.load(x + i * 3 + 1, mask=i < N, other=0.0)
    pz = tl.load(x + i * 3 + 2, mask=i < N, other=0.0)
    best = tl.full((TN,), float("inf"), tl.float32)
    at = tl.zeros((TN,), tl.int32)
    for k in range(0, K, TK):
        j = k + tl.arange(0, TK)
        dx = px[:, None] - tl.load(c + j * 3, mask=j < K, other=0.0)[None, :]
        dy = py[:, None] - tl.load(c + j * 3 + 1, mask=j < K, other=0.0)[None, :]
        dz = pz[:, None] - tl.load(c + j * 3 + 2, mask=j < K, other=0.0)[None, :]
        d = tl.where((j < K)[None, :], dx * dx + dy * dy + dz * dz, float("inf"))
        least, which = tl.min(d, 1, return_indices=True)
        at = tl.where(least < best, k + which, at)
        best = tl.minimum(best, least)
    tl.store(place + i, at, mask=i < N)
    tl.store(distance + i, tl.sqrt(best), mask=i < N)


@triton.jit
def max_pool(x, y, H, W, TM: tl.constexpr, TN: tl.constexpr):
    h = tl.program_id(0) * TM + tl.arange(0, TM)
    w = tl.program_id(1) * TN + tl.arange(0, TN)
    plane = tl.program_id(2)
    P, Q = (H + 1) // 2, (W + 1) // 2
    most = tl.full((TM, TN), -float("inf"), tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            r, c = h * 2 + i - 1, w * 2 + j - 1
            inside = ((r >= 0) & (r < H))[:, None] & ((c >= 0) & (c < W))[None, :]
            v = tl.load(x + (plane * H + r)[:, None] * W + c[None, :], mask=inside,
                        other=-float("inf"))
            most = tl.maximum(most, v)
    tl.store(y + (plane * P + h)[:, None] * Q + w[None, :], most,
             mask=(h < P)[:, None] & (w < Q)[None, :])


@triton.jit
def upsample(x, y, H, W, TM: tl.constexpr, TN: tl.constexpr):
    h = tl.program_id(0) * TM + tl.arange(0, TM)
    w = tl.program_id(1) * TN + tl.arange(0, TN)
    plane = tl.program_id(2)
    r = tl.minimum(tl.maximum((h + 0.5) * 0.5 - 0.5, 0.0), H - 1.0)
    c = tl.minimum(tl.maximum((w + 0.5) * 0.5 - 0.5, 0.0), W - 1.0)
    r0, c0 = r.to(tl.int32), c.to(tl.int32)
    r1, c1 = tl.minimum(r0 + 1, H - 1), tl.minimum(c0 + 1, W - 1)
    fr, fc = (r - r0)[:, None], (c - c0)[None, :]
    inside = (h < 2 * H)[:, None] & (w < 2 * W)[None, :]
    top = x + ((plane * H + r0) * W)[:, None]
    bottom = x + ((plane * H + r1) * W)[:, None]
    a = tl.load(top + c0[None, :], mask=inside, other=0.0) * (1 - fc)
    a += tl.load(top + c1[None, :], mask=inside, other=0.0) * fc
    b = tl.load(bottom + c0[None, :], mask=inside, other=0.0) * (1 - fc)
    b += tl.load(bottom + c1[None, :], mask=inside, other=0.0) * fc
    tl.store(y + ((plane * 2 * H + h) * 2 * W)[:, None] + w[None, :], a * (1 - fr) + b * fr,
             mask=inside)


@triton.jit
def sparse_rows(start, column, value, x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    first, end = tl.load(start + row), tl.load(start + row + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(first, end, BLOCK):
        i = k + tl.arange(0, BLOCK)
        c = tl.load(column + i, mask=i < end, other=0)
        total += tl.load(value + i, mask=i < end, other=0.0) * tl.load(x + c, mask=i < end,
                                                                       other=0.0)
    tl.store(y + row, tl.sum(total, 0))


@triton.jit
def segment_sum(x, segment, y, N, D, TM: tl.constexpr, TN: tl.constexpr):
    n = tl.program_id(0) * TM + tl.arange(0, TM)
    d = tl.program_id(1) * TN + tl.arange(0, TN)
    inside = (n < N)[:, None] & (d < D)[None, :]
    v = tl.load(x + n[:, None] * D + d[None, :], mask=inside, other=0.0)
    s = tl.load(segment + n, mask=n < N, other=0)
    tl.atomic_add(y + s[:, None] * D + d[None, :], v, mask=inside, sem="relaxed")


@triton.jit
def bins(x, counts, low, high, N, PARTS, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    total = tl.zeros((64,), tl.int32)
    scale = 64 / (high - low)
    for start in range(first, N, PARTS * BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < N, other=float("inf"))
        inside = (v >= low) & (v < high)
        bin = tl.minimum(tl.where(inside, (v - low) * scale, 0.0).to(tl.int32), 63)
        total += tl.histogram(bin, 64, mask=inside)
    tl.atomic_add(counts + tl.arange(0, 64), total)


@triton.jit
def pixel_shuffle(x, y, C, R, H, W, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = i % (W * R)
    h = i // (W * R) % (H * R)
    c = i // (W * R) // (H * R)
    source = ((c * R + h % R) * R + w % R) * H * W + h // R * W + w // R
    tl.store(y + i, tl.load(x + source, mask=i < N), mask=i < N)


@triton.jit
def wave(x, y, D, H, W, k, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w, h, d = i % W, i // W % H, i // (W * H)
    inside = i < D * H * W
    left, right = (w + W - 1) % W, (w + 1) % W
    up, down = (h + H - 1) % H, (h + 1) % H
    front, back = (d + D - 1) % D, (d + 1) % D
    c = tl.load(x + i, mask=inside)
    s = tl.load(x + (d * H + h) * W + left, mask=inside)
    s += tl.load(x + (d * H + h) * W + right, mask=inside)
    s += tl.load(x + (d * H + up) * W + w, mask=inside)
    s += tl.load(x + (d * H + down) * W + w, mask=inside)
    s += tl.load(x + (front * H + h) * W + w, mask=inside)
    s += tl.load(x + (back * H + h) * W + w, mask=inside)
    tl.store(y + i, c + k * (s - 6 * c), mask=inside)
