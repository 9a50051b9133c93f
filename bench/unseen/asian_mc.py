import numpy as np


def asian(paths, steps, seed, s0, strike, drift, vol):
    """Payoffs of an Asian call, with the same PCG hash and Box-Muller as the kernel."""
    M = 0xFFFFFFFF
    st = (np.arange(paths, dtype=np.int64) * 9781 + seed) & M
    ls = np.full(paths, np.log(s0))
    acc = np.zeros(paths)

    def nxt(st):
        st = (st * 747796405 + 2891336453) & M
        w = ((st >> ((st >> 28) + 4)) ^ st) * 277803737 & M
        return st, (w >> 22) ^ w

    for _ in range(steps):
        st, a = nxt(st)
        st, b = nxt(st)
        u = ((a >> 8) + 0.5) / (1 << 24)
        v = (b >> 8) / (1 << 24)
        ls = ls + drift + vol * np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
        acc += np.exp(ls)
    return np.maximum(acc / steps - strike, 0)
