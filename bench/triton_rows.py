"""Streaming kernels in Triton, the peers of `streaming.py`: the obvious ones, as in its tutorials.

A row is one program with a block of the next power of two; warps as the softmax tutorial chooses
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 1024  # elements of a program of an elementwise kernel, as in the vector addition tutorial
SQUARE = 64  # side of a transposed tile


@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where(v > 0, v, 0.0), mask=at < n)


@triton.jit
def transpose_kernel(x, y, M, N, T: tl.constexpr):
    m, n = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1) * T + tl.arange(0, T)
    inside = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=inside)
    tl.store(y + n[:, None] * M + m[None, :], tl.trans(v), mask=tl.trans(inside))


@triton.jit
def softmax_kernel(x, y, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0) * N
    v = tl.load(x + row + n, mask=n < N, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row + n, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=n < N)


@triton.jit
def layer_norm_kernel(x, w, b, y, N, eps, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0) * N
    v = tl.load(x + row + n, mask=n < N, other=0.0).to(tl.float32)
    d = tl.where(n < N, v - tl.sum(v, 0) / N, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / N + eps)
    found = d * scale * tl.load(w + n, mask=n < N).to(tl.float32) + tl.load(
        b + n, mask=n < N).to(tl.float32)
    tl.store(y + row + n, found.to(y.dtype.element_ty), mask=n < N)


@triton.jit
def row_sum_kernel(x, y, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * N + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(y + tl.program_id(0), tl.sum(v, 0).to(y.dtype.element_ty))


@triton.jit
def running_sum_kernel(x, y, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0) * N
    v = tl.load(x + row + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(y + row + n, tl.cumsum(v, 0).to(y.dtype.element_ty), mask=n < N)


@triton.jit
def masked_softmax_kernel(x, mask, y, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0) * N
    on = tl.load(mask + row + n, mask=n < N, other=0) != 0
    v = tl.load(x + row + n, mask=n < N, other=0.0).to(tl.float32)
    v = tl.where(on, v, -float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row + n, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=n < N)


@triton.jit
def cross_entropy_kernel(x, label, loss, N, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0) * N
    v = tl.load(x + row + n, mask=n < N, other=-float("inf")).to(tl.float32)
    highest = tl.max(v, 0)
    total = tl.sum(tl.exp(v - highest), 0)
    picked = tl.load(x + row + tl.load(label + tl.program_id(0))).to(tl.float32)
    tl.store(loss + tl.program_id(0),
             (tl.log(total) + highest - picked).to(loss.dtype.element_ty))


def rows(kernel: Any, *arguments: Any, count: int, columns: int) -> Callable[[], Any]:
    """A launch of a kernel of rows."""
    block = triton.next_power_of_2(columns)
    warps = 4 if block < 2048 else 8 if block < 4096 else 16
    return lambda: kernel[(count,)](*arguments, BLOCK=block, num_warps=warps)


def flat(kernel: Any, *arguments: torch.Tensor) -> Callable[[], Any]:
    """A launch of an elementwise kernel."""
    n = arguments[0].numel()
    return lambda: kernel[(triton.cdiv(n, BLOCK),)](*arguments, n, BLOCK=BLOCK)


def transpose(x: torch.Tensor, y: torch.Tensor) -> Callable[[], Any]:
    """A launch of the transposition."""
    m, n = x.shape
    return lambda: transpose_kernel[(triton.cdiv(m, SQUARE), triton.cdiv(n, SQUARE))](
        x, y, m, n, T=SQUARE)
