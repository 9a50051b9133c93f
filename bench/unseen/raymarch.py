import numpy as np


def march(H, W):
    f = np.float32
    dx = np.broadcast_to((np.arange(W, dtype=f) + f(0.5)) / f(W) * f(2) - f(1), (H, W))
    dy = np.broadcast_to(((np.arange(H, dtype=f) + f(0.5)) / f(H) * f(2) - f(1))[:, None], (H, W))
    inv = 1 / np.sqrt(dx * dx + dy * dy + 1)
    dx, dy, dz = dx * inv, dy * inv, inv
    t, n = np.zeros((H, W), f), np.zeros((H, W), np.int64)
    go = np.ones((H, W), bool)
    while go.any():
        px, py, pz = t * dx, t * dy, t * dz - f(3)
        d = np.minimum(np.sqrt(px * px + py * py + pz * pz) - 1, f(1.5) - py) * f(0.5)
        t = np.where(go, t + d, t)
        n = np.where(go, n + 1, n)
        go = go & (d > f(0.002)) & (t < 20) & (n < 200)
    return t, n
