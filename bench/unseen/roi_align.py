import numpy as np


def roi_align(x, roi, image, S, C):
    """Mean of 2 x 2 bilinear samples in each of S x S bins; x is [N, H, W, C]."""
    _, H, W, _ = x.shape
    y = np.zeros((len(roi), S, S, C))
    for r, (x1, y1, x2, y2) in enumerate(roi):
        p = x[image[r]]
        for by, bx, s in np.ndindex(S, S, 4):
            fy = min(max(y1 + (by + (s // 2 + 0.5) / 2) * (y2 - y1) / S, 0), H - 1)
            fx = min(max(x1 + (bx + (s % 2 + 0.5) / 2) * (x2 - x1) / S, 0), W - 1)
            a, b = int(fy), int(fx)
            c, d = min(a + 1, H - 1), min(b + 1, W - 1)
            u, v = fy - a, fx - b
            top = p[a, b] * (1 - v) + p[a, d] * v
            low = p[c, b] * (1 - v) + p[c, d] * v
            y[r, by, bx] += (top * (1 - u) + low * u) / 4
    return y
