import numpy as np


def steps(u, count, k):
    for _ in range(count):
        p = np.pad(u, 1)
        u = u + k * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)
    return u
