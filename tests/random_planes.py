"""Random convolutions of images that lie plane by plane, [batch, channel, row, column]: see
`random_products`.  Rows are pixels, columns filters; taps lie side by side in memory, with strides
of pixels and of weights, masks at both ends of a row and of the image."""

from __future__ import annotations

import random

from random_products import Product


def planes(seed: int) -> Product:
    """A convolution by loops over taps and channels in some order."""
    rng = random.Random(f"planes {seed}")
    tp, tn, tc = rng.choice((16, 32, 64, 128)), rng.choice((16, 32, 64)), rng.choice((16, 16, 32))
    step, taps, high = rng.choice((1, 2, 2, 3)), rng.randrange(1, 5), rng.randrange(1, 4)
    pad, top = rng.randrange(-1, 3), rng.randrange(-1, 3)
    w = rng.choice((4, 8, 8, 16, 16, 24, 32, rng.randrange(1, 30)))
    h, b = rng.randrange(1, 6), rng.randrange(1, 4)
    c = rng.choice((8, 16, 16, 24, 32, rng.randrange(1, 40)))
    k = rng.choice((8, 16, 32, rng.randrange(1, 2 * tn)))
    q, p = max(1, w // step), max(1, h // step)
    rows, columns = f"{step} * p + r - {top}", f"{step} * q + s - {pad}"
    clamped = rng.random() < 0.2
    inside = rng.choice(("mok && h >= 0 && h < H && u >= 0 && u < W",
                         "mok && (unsigned)h < H && (unsigned)u < W",
                         "h >= 0 && u > -1 && h < H && u <= W - 1 && mok"))
    if clamped:
        rows, columns, inside = (f"clamp({rows}, 0, H - 1)", f"clamp({columns}, 0, W - 1)", "mok")
    upper = rng.random() < 0.15
    if upper:
        inside += " && u >= h"
    loops = ["for (int r = 0; r < R; r++) {".replace("R", str(high)),
             "for (int s = 0; s < S; s++) {".replace("S", str(taps)),
             "for (int c0 = 0; c0 < C; c0 += TC) {"]
    order = rng.choice(((0, 1, 2), (0, 1, 2), (2, 0, 1), (0, 2, 1), (1, 0, 2)))
    shape, weights, spec = rng.choice((
        ("K, C, R, S", "((k * C + c[:, newaxis]) * R + r) * S + s", "kcrs"),
        ("K, C, R, S", "((k * C + c[:, newaxis]) * R + r) * S + s", "kcrs"),
        ("R, S, C, K", "((r * S + s) * C + c[:, newaxis]) * K + k", "rsck"),
        ("C, K, R, S", "((c[:, newaxis] * K + k) * R + r) * S + s", "ckrs"),
        ("S, K, C, R", "((s * K + k) * C + c[:, newaxis]) * R + r", "skcr")))
    kind = rng.choice(("half", "half", "bfloat16", "float"))
    turned = rng.random() < 0.3
    product = "acc = dot(trans(f), trans(a), acc);" if turned else "acc = dot(a, f, acc);"
    text = f"""\
//! size: B = {b}, C = {c}, H = {h}, W = {w}, K = {k}, P = {p}, Q = {q}, R = {high}, S = {taps}
//! range: B * P * Q, K
//! arg: x = randn(B, C, H, W) : {kind}
//! arg: w = randn({shape}) : {kind}
//! arg: y = zeros(B, K, P, Q)
{chr(10).join(f'//! arg: {v} = {v}' for v in 'BCHWKPQ')}
//! let: i = np.arange(P)[:, None] * {step} + np.arange(R) - {top}
//! let: j = np.arange(Q)[:, None] * {step} + np.arange(S) - {pad}
//! let: t = x[:, :, np.clip(i, 0, H - 1)][:, :, :, :, np.clip(j, 0, W - 1)]
//! let: in_i = (i >= 0) & (i < H) | {clamped}
//! let: in_j = (j >= 0) & (j < W) | {clamped}
//! let: upper = (np.clip(j, 0, W - 1) >= np.clip(i, 0, H - 1)[:, :, None, None]) | {not upper}
//! let: v = np.where(in_i[:, :, None, None] & in_j & upper, t, 0)
//! expect: y = np.einsum("bcprqs,{spec}->bkpq", v, w)
//! tolerance: 0.05
#define TP {tp}
#define TN {tn}
#define TC {tc}
#define R {high}
#define S {taps}
kernel void product(const {kind}* x, const {kind}* w, float* y, int B, int C, int H, int W, int K,
                    int P, int Q) {{
  int m[TP] = get_global_range(0), k[TN] = get_global_range(1);
  int b[TP] = m / (P * Q), p[TP] = {rng.choice(('m % (P * Q) / Q', 'm / Q % P'))}, q[TP] = m % Q;
  bool mok[TP] = m < B * P * Q;
  float acc[{'TN, TP' if turned else 'TP, TN'}] = 0;
  {loops[order[0]]} {loops[order[1]]} {loops[order[2]]}
    int h[TP] = {rows}, u[TP] = {columns}, c[TC] = c0 + 0 ... TC;
    bool inside[TP] = {inside};
    {kind} a[TP, TC] = inside[:, newaxis] && c < C
        ? x[((b[:, newaxis] * C + c) * H + h[:, newaxis]) * W + u[:, newaxis]] : 0;
    {kind} f[TC, TN] = (c < C)[:, newaxis] && k < K ? w[{weights}] : 0;
    {product}
  }} }} }}
  @(mok[:, newaxis] && k < K)
    y[(b[:, newaxis] * K + k) * P * Q + (p * Q + q)[:, newaxis]] = {
        'trans(acc)' if turned else 'acc'};
}}
"""
    forced = (("wgmma", 1), ("num_warps", rng.choice((4, 8)))) if rng.random() < 0.3 else ()
    return Product(text, forced, rng.choice(("sm_90a", "sm_90a", "sm_80")))
