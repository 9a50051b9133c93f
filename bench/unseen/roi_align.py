import numpy as np


def roi_align(x, roi, image, S, C):
    """Mean of 2 x 2 bilinear samples in each of S x S bins; x is [N, H, W, C]."""
    N, H, W, _ = x.shape
    y = np.zeros((len(roi), S, S, C))
    for r, (x1, y1, x2, y2) in enumerate(roi):
        for by in range(S):
            for bx in range(S):
                for s in range(4):
                    fy = y1 + (by + (s // 2 + 0.5) / 2) * (y2 - y1) / S
                    fx = x1 + (bx + (s % 2 + 0.5) / 2) * (x2 - x1) / S
                    fy, fx = min(max(fy, 0), H - 1), min(max(fx, 0), W - 1)
                    a, b = int(fy), int(fx)
                    c, d = min(a + 1, H - 1), min(b + 1, W - 1)
                    u, v = fy - a, fx - b
                    p = x[image[r]]
                    y[r, by, bx] += ((p[a, b] * (1 - v) + p[a, d] * v) * (1 - u) + (p[c, b] * (1 - v) + p[c, d] * v) * u) / 4
    return y
