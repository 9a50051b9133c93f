import numpy as np


def dequantise(x):
    x = np.ascontiguousarray(np.asarray(x).astype(np.uint8))
    d = x[:, :2].copy().view(np.float16).astype(np.float64)
    q = x[:, 2:].astype(int)
    return np.concatenate(((q & 15) - 8, (q >> 4) - 8), axis=1) * d
