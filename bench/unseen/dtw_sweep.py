import numpy as np


def dtw(a, b):
    """Dynamic time warping distances of the rows of a and b."""
    B, N = a.shape
    M = b.shape[1]
    D = np.full((B, N + 1, M + 1), np.inf)
    D[:, 0, 0] = 0
    for i, j in np.ndindex(N, M):
        least = np.minimum(np.minimum(D[:, i, j], D[:, i, j + 1]), D[:, i + 1, j])
        D[:, i + 1, j + 1] = np.abs(a[:, i] - b[:, j]) + least
    return D[:, N, M]
