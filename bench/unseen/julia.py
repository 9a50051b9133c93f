import numpy as np


def julia(H, W, cx, cy, limit):
    y, x = np.mgrid[0:H, 0:W]
    z = (x / W * 3 - 1.5) + 1j * (y / H * 2 - 1)
    n = np.zeros((H, W))
    for _ in range(limit):
        live = np.abs(z) <= 2
        z = np.where(live, z * z + complex(cx, cy), z)
        n += live
    return n
