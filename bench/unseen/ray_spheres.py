import numpy as np


def trace(sphere, W, H):
    """Depth and steps of each pixel, in float32."""
    f = np.float32
    u, v = (np.arange(W, dtype=f) + f(0.5)) / f(W) * f(2) - f(1), (np.arange(H, dtype=f) + f(0.5)) / f(H) * f(2) - f(1)
    d = np.stack(np.broadcast_arrays(u[None, :], v[:, None], f(2)), axis=2)
    d = d / np.sqrt((d * d).sum(axis=2, keepdims=True))
    t, n, going = np.zeros((H, W), f), np.zeros((H, W), int), np.ones((H, W), bool)
    for _ in range(64):
        p = t[..., None] * d - np.array([0, 0, 4], f)
        near = np.minimum(1e9, np.min([np.sqrt(((p - s[:3]) ** 2).sum(axis=2)) - s[3] for s in sphere], axis=0))
        t, n = t + np.where(going, near, 0), n + going
        going = going & (near > 1e-3) & (t < 20)
    return t, n
