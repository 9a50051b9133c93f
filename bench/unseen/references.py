import zlib

import numpy as np


def _philox(seed, c0, c1, c2, c3):
    c0, c1, c2, c3 = (np.asarray(c, dtype=np.uint64) for c in np.broadcast_arrays(c0, c1, c2, c3))
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((b >> np.uint64(32)) ^ c1 ^ np.uint64(k0), b & low,
                          (a >> np.uint64(32)) ^ c3 ^ np.uint64(k1), a & low)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def uniform(seed, count):
    w = _philox(seed, np.arange(count), 0, 0, 0)[0]
    w = w.astype(np.uint32).view(np.int32).astype(np.int64)
    return np.where(w < 0, -w - 1, w) * 4.6566127342e-10


def asian(seed, n, steps, drift, vol, strike):
    s, total = np.full(n, 100.0), np.zeros(n)
    for t in range(0, steps, 4):
        words = _philox(seed, np.arange(n), t, 0, 0)
        a, b, c, d = ((w >> np.uint64(8)).astype(np.float64) for w in words)
        q = 2.0**-24
        r0, r1 = np.sqrt(-2 * np.log((a + 1) * q)), np.sqrt(-2 * np.log((c + 1) * q))
        for z in (r0 * np.cos(2 * np.pi * b * q), r0 * np.sin(2 * np.pi * b * q),
                  r1 * np.cos(2 * np.pi * d * q), r1 * np.sin(2 * np.pi * d * q)):
            s = s * np.exp(drift + vol * z)
            total = total + s
    return np.maximum(total / steps - strike, 0)


def _taps(t):
    a, u = -0.75, 1 - t
    far = [((a * (v + 1) - 5 * a) * (v + 1) + 8 * a) * (v + 1) - 4 * a for v in (t, u)]
    near = [((a + 2) * v - (a + 3)) * v * v + 1 for v in (t, u)]
    return [far[0], near[0], near[1], far[1]]


def bicubic(src, oh, ow):
    _, h, w = src.shape
    fy, fx = (np.arange(oh) + 0.5) * h / oh - 0.5, (np.arange(ow) + 0.5) * w / ow - 0.5
    y0, x0 = np.floor(fy).astype(int), np.floor(fx).astype(int)
    wy, wx = _taps(fy - y0), _taps(fx - x0)
    out = 0
    for j in range(4):
        for i in range(4):
            y, x = np.clip(y0 - 1 + j, 0, h - 1), np.clip(x0 - 1 + i, 0, w - 1)
            out = out + wy[j][:, None] * wx[i] * src[:, y][:, :, x]
    return out


def sad_match(cur, ref):
    h, w = cur.shape
    all_ = []
    for dy in range(9):
        for dx in range(9):
            d = np.abs(cur - ref[dy:dy + h, dx:dx + w])
            all_.append(d.reshape(h // 8, 8, w // 8, 8).sum(axis=(1, 3)))
    s = np.stack(all_)
    return s.min(axis=0), s.argmin(axis=0)


def mandelbrot(w, h, limit):
    cx, cy = -2 + 3 * np.arange(w)[None, :] / w, -1.2 + 2.4 * np.arange(h)[:, None] / h
    x, y, n = np.zeros((h, w)), np.zeros((h, w)), np.zeros((h, w), dtype=np.int64)
    alive = np.ones((h, w), dtype=bool)
    for _ in range(limit):
        xx, yy = x * x, y * y
        alive &= xx + yy <= 4
        x, y = np.where(alive, xx - yy + cx, x), np.where(alive, 2 * x * y + cy, y)
        n += alive
    return n


def crc32(data):
    return np.array([zlib.crc32(bytes(row.astype(np.uint8))) for row in data])


def biquads(x, k):
    for o in (0, 5):
        u = v = np.zeros(x.shape[1])
        y = np.zeros_like(x, dtype=np.float64)
        for t in range(x.shape[0]):
            y[t] = k[o] * x[t] + u
            u, v = k[o + 1] * x[t] - k[o + 3] * y[t] + v, k[o + 2] * x[t] - k[o + 4] * y[t]
        x = y
    return x


def bits(x):
    x = np.asarray(x).astype(np.uint32)
    return sum((x >> np.uint32(i)) & np.uint32(1) for i in range(32)).astype(np.int64)


def smith_waterman(query, subjects):
    result = []
    for s in subjects:
        h = np.zeros((len(query) + 1, len(s) + 1), dtype=np.int64)
        for i in range(1, len(query) + 1):
            for j in range(1, len(s) + 1):
                score = 3 if query[i - 1] == s[j - 1] else -2
                h[i, j] = max(0, h[i - 1, j - 1] + score, h[i - 1, j] - 2, h[i, j - 1] - 2)
        result.append(h.max())
    return np.array(result)
