import numpy as np


def trace(sphere, W, H):
    """Depth and steps of each pixel, in float32."""
    f = np.float32
    u, v = ((np.arange(n, dtype=f) + f(0.5)) / f(n) * f(2) - f(1) for n in (W, H))
    d = np.stack(np.broadcast_arrays(u[None, :], v[:, None], f(2)), axis=2)
    d = d / np.sqrt((d * d).sum(axis=2, keepdims=True))
    t, n, going = np.zeros((H, W), f), np.zeros((H, W), int), np.ones((H, W), bool)
    for _ in range(64):
        p = t[..., None] * d - np.array([0, 0, 4], f)
        near = np.full((H, W), 1e9)
        for s in sphere:
            near = np.minimum(near, np.sqrt(((p - s[:3]) ** 2).sum(axis=2)) - s[3])
        t, n = t + np.where(going, near, 0), n + going
        going = going & (near > 1e-3) & (t < 20)
    return t, n
