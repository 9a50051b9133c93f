"""Triton's peers of the kernels of bench/paper: the same algorithms, some tiles of each."""

from __future__ import annotations

from typing import Any

import suite_triton
import torch
import triton
import triton.language as tl
from suite_triton import Launches, each

CORES = [  # tiles m, n, k, warps, stages for float in IEEE arithmetic
    (64, 64, 32, 4, 3), (128, 64, 32, 4, 3), (128, 128, 16, 8, 3), (64, 128, 16, 4, 3)]
FEW_ON_CORES = [(32, 32, 64, 4, 4), (32, 64, 32, 4, 4), (64, 32, 32, 4, 4), (32, 16, 64, 4, 4),
                (64, 64, 32, 4, 3)]
TENSOR = [(128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4), (64, 128, 64, 4, 4)]
FEW_ON_TENSOR = [(64, 64, 128, 4, 4), (64, 32, 128, 4, 5), (64, 16, 128, 4, 5), (32, 32, 128, 4, 5)]
FEW = 1 << 20  # results; fewer take smaller tiles


def _tiles(t: Any, rows: int, columns: int, cores: bool) -> dict[str, list[int]]:
    few = rows * columns < FEW or min(rows, columns) < 64
    table = {(True, False): CORES, (True, True): FEW_ON_CORES, (False, False): TENSOR,
             (False, True): FEW_ON_TENSOR}[cores, few]
    return dict(zip(("TM", "TN", "TK", "warps", "stages"), map(list, zip(*table))))


def _grid(rows: int, columns: int) -> Any:
    return lambda meta: (triton.cdiv(rows, meta["TM"]), triton.cdiv(columns, meta["TN"]))


@triton.jit
def product(d, w, c, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
            PRECISION: tl.constexpr):
    rm = tl.program_id(0) * TM + tl.arange(0, TM)
    rn = tl.program_id(1) * TN + tl.arange(0, TN)
    rk = tl.arange(0, TK)
    pd = d + rm[:, None] + rk[None, :] * M
    pw = w + rn[None, :] + rk[:, None] * N
    total = tl.zeros((TM, TN), tl.float32)
    for k in range(0, K, TK):
        x = tl.load(pd, mask=(rm < M)[:, None] & (rk[None, :] < K - k), other=0.0)
        y = tl.load(pw, mask=(rn < N)[None, :] & (rk[:, None] < K - k), other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION)
        pd += TK * M
        pw += TK * N
    tl.store(c + rm[:, None] + rn[None, :] * M, total.to(c.dtype.element_ty),
             mask=(rm < M)[:, None] & (rn < N)[None, :])


def products(t: Any) -> Launches:
    found = _tiles(t, t.M, t.N, t.d.dtype == torch.float32)
    return each(product, _grid(t.M, t.N), (t.d, t.w, t.c, t.M, t.N, t.K), **found,
                PRECISION=["ieee"] * len(found["TM"]))


@triton.jit
def conv_table(x, table, w, y, M, N, DEPTH, Q, B, ROW, TM: tl.constexpr, TN: tl.constexpr,
               TK: tl.constexpr):
    rm = tl.program_id(0) * TM + tl.arange(0, TM)
    rn = tl.program_id(1) * TN + tl.arange(0, TN)
    rk = tl.arange(0, TK)
    px = x + rm // (Q * B) * ROW + rm % (Q * B)
    pw = w + rk[:, None] * N + rn[None, :]
    total = tl.zeros((TM, TN), tl.float32)
    for k in range(0, DEPTH, TK):
        d = tl.load(table + k + rk, mask=rk < DEPTH - k, other=0)
        v = tl.load(px[:, None] + d[None, :], mask=(rm < M)[:, None] & (rk < DEPTH - k)[None, :],
                    other=0.0)
        f = tl.load(pw, mask=(rk < DEPTH - k)[:, None] & (rn < N)[None, :], other=0.0)
        total = tl.dot(v, f, total, input_precision="ieee")
        pw += TK * N
    tl.store(y + rm[:, None] + rn[None, :] * M, total,
             mask=(rm < M)[:, None] & (rn < N)[None, :])


def conv_f32(t: Any) -> Launches:
    width = t.Q + t.S - 1
    c, r, s = (torch.arange(n, device=t.device) for n in (t.C, t.R, t.S))
    table = (((c[:, None, None] * (t.P + t.R - 1) + r[:, None]) * width + s) * t.B).reshape(-1)
    rows = t.P * t.Q * t.B
    return each(conv_table, _grid(rows, t.F),
                (t.x, table.int(), t.w, t.y, rows, t.F, t.C * t.R * t.S, t.Q, t.B, width * t.B),
                **_tiles(t, rows, t.F, True))


@triton.jit
def conv_steps(x, w, y, M, N, C, R, S, P, Q, TM: tl.constexpr, TN: tl.constexpr,
               TK: tl.constexpr):
    rm = tl.program_id(0) * TM + tl.arange(0, TM)
    rn = tl.program_id(1) * TN + tl.arange(0, TN)
    rk = tl.arange(0, TK)
    wide = (Q + S - 1) * C
    line = rm // Q
    px = x + ((line // P * (P + R - 1) + line % P) * wide + rm % Q * C)[:, None] + rk[None, :]
    pw = w + rn[None, :] * (R * S * C) + rk[:, None]
    total = tl.zeros((TM, TN), tl.float32)
    steps = S * C // TK
    for i in range(0, R * steps):
        v = tl.load(px + i // steps * wide + i % steps * TK, mask=(rm < M)[:, None], other=0.0)
        f = tl.load(pw + i * TK, mask=(rn < N)[None, :], other=0.0)
        total = tl.dot(v, f, total)
    tl.store(y + rm[:, None] * N + rn[None, :], total.to(y.dtype.element_ty),
             mask=(rm < M)[:, None] & (rn < N)[None, :])


def conv_half(t: Any) -> Launches:
    rows = t.P * t.Q * t.B
    found = _tiles(t, rows, t.F, False)
    found["TK"] = [min(k, 64 if t.S * t.C % 64 == 0 else 32) for k in found["TK"]]
    return each(conv_steps, _grid(rows, t.F),
                (t.x, t.w, t.y, rows, t.F, t.C, t.R, t.S, t.P, t.Q), **found)


@triton.jit
def shift_table(a, table, b, c, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    rm = tl.program_id(0) * TM + tl.arange(0, TM)
    rn = tl.program_id(1) * TN + tl.arange(0, TN)
    rk = tl.arange(0, TK)
    total = tl.zeros((TM, TN), tl.float32)
    for k in range(0, K, TK):
        d = tl.load(table + k + rk, mask=rk < K - k, other=0)
        v = tl.load(a + rm[:, None] + d[None, :], mask=(rm < M)[:, None] & (rk < K - k)[None, :],
                    other=0.0)
        f = tl.load(b + (k + rk)[:, None] * N + rn[None, :],
                    mask=(rk < K - k)[:, None] & (rn < N)[None, :], other=0.0)
        total = tl.dot(v, f, total, input_precision="ieee")
    tl.store(c + rm[:, None] + rn[None, :] * M, total, mask=(rm < M)[:, None] & (rn < N)[None, :])


def shift(t: Any) -> Launches:
    return each(shift_table, _grid(t.M, t.F), (t.a, t.deltas.int(), t.b, t.c, t.M, t.F, t.C),
                **_tiles(t, t.M, t.F, True))


__all__ = ["conv_f32", "conv_half", "products", "shift", "suite_triton"]
