"""Matrix products in Triton, the peer of `matmul.py`: by pointers and by descriptors.

Both are the forms of Triton's own tutorials (03, grouped; 09, persistent with device descriptors),
with a few configurations to choose the fastest of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

CONFIGURATIONS = [  # tile m, n, bytes of k, stages, warps
    (128, 256, 128, 3, 8), (128, 128, 128, 4, 4), (128, 128, 128, 4, 8), (64, 128, 128, 4, 4),
    (64, 64, 128, 5, 4), (128, 256, 128, 4, 8),
]
ON_CORES = [  # for float32 in IEEE arithmetic, by pointers, which descriptors never beat there
    (64, 64, 128, 3, 4), (128, 64, 128, 3, 4), (128, 128, 128, 3, 8), (64, 128, 64, 3, 4),
    (128, 128, 64, 4, 4),
]
GROUP = 8


@triton.jit
def _place(instance, rows, columns, GROUP: tl.constexpr):
    band = GROUP * columns
    first = instance // band * GROUP
    high = min(rows - first, GROUP)
    return first + instance % band % high, instance % band // high


@triton.jit
def by_pointers(a, b, c, M, N, K, am, ak, bk, bn, TM: tl.constexpr, TN: tl.constexpr,
                TK: tl.constexpr, GROUP: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr):
    row, column = _place(tl.program_id(0), tl.cdiv(M, TM), tl.cdiv(N, TN), GROUP)
    rm = (row * TM + tl.arange(0, TM)) % M
    rn = (column * TN + tl.arange(0, TN)) % N
    rk = tl.arange(0, TK)
    pa = a + rm[:, None] * am + rk[None, :] * ak
    pb = b + rk[:, None] * bk + rn[None, :] * bn
    total = tl.zeros((TM, TN), ACC)
    for k in range(0, tl.cdiv(K, TK)):
        x = tl.load(pa, mask=rk[None, :] < K - k * TK, other=0.0)
        y = tl.load(pb, mask=rk[:, None] < K - k * TK, other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION)
        pa += TK * ak
        pb += TK * bk
    m = row * TM + tl.arange(0, TM)
    n = column * TN + tl.arange(0, TN)
    tl.store(c + m[:, None] * N + n[None, :], total.to(c.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def by_descriptors(a, b, c, M, N, K, A_TURNED: tl.constexpr, B_TURNED: tl.constexpr,
                   TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, GROUP: tl.constexpr,
                   ACC: tl.constexpr, PRECISION: tl.constexpr,
                   BLOCKS: tl.constexpr):
    if A_TURNED:
        da = tl.make_tensor_descriptor(a, [K, M], [M, 1], [TK, TM])
    else:
        da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [TM, TK])
    if B_TURNED:
        db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [TN, TK])
    else:
        db = tl.make_tensor_descriptor(b, [K, N], [N, 1], [TK, TN])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [TM, TN])
    rows, columns = tl.cdiv(M, TM), tl.cdiv(N, TN)
    for instance in tl.range(tl.program_id(0), rows * columns, BLOCKS, flatten=True):
        row, column = _place(instance, rows, columns, GROUP)
        total = tl.zeros((TM, TN), ACC)
        for k in range(0, tl.cdiv(K, TK)):
            x = da.load([k * TK, row * TM]).T if A_TURNED else da.load([row * TM, k * TK])
            y = db.load([column * TN, k * TK]).T if B_TURNED else db.load([k * TK, column * TN])
            total = tl.dot(x, y, total, input_precision=PRECISION)
        dc.store([row * TM, column * TN], total.to(c.dtype.element_ty))


def fastest(left: torch.Tensor, right: torch.Tensor, c: torch.Tensor, layout: str,
            milliseconds: Callable[[Callable[[], Any]], float]
            ) -> tuple[str, Callable[[], Any]] | None:
    """The fastest of all configurations that compile: its name, and a launch; None without any.

    `left` and `right` as stored; `layout` says which is stored transposed.
    """
    turned = layout[0] == "t", layout[1] == "t"
    m, n = c.shape
    k = left.shape[0] if turned[0] else left.shape[1]
    size = left.element_size()
    accumulator = tl.int32 if left.dtype == torch.int8 else tl.float32
    precision = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"  # of float32
    strides = ((1, m) if turned[0] else (k, 1)) + ((1, k) if turned[1] else (n, 1))
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    triton.set_allocator(lambda size, alignment, stream: torch.empty(
        size, device="cuda", dtype=torch.int8))
    found: list[tuple[float, str, Callable[[], Any]]] = []
    exact = left.dtype == torch.float32 and precision == "ieee"
    for tm, tn, deep, stages, warps in ON_CORES if exact else CONFIGURATIONS:
        tk = deep // size
        tiles = triton.cdiv(m, tm) * triton.cdiv(n, tn)
        common = {"TM": tm, "TN": tn, "TK": tk, "GROUP": GROUP, "ACC": accumulator,
                  "PRECISION": precision, "num_stages": stages, "num_warps": warps}

        def pointers(common: Any = common, tiles: int = tiles) -> None:
            by_pointers[(tiles,)](left, right, c, m, n, k, *strides, **common)

        def descriptors(common: Any = common, tiles: int = tiles) -> None:
            by_descriptors[(min(tiles, blocks),)](
                left, right, c, m, n, k, *turned, BLOCKS=min(tiles, blocks), **common)

        kinds = [("pointers", pointers), ("descriptors", descriptors)]
        for name, run in kinds[:1] if exact else kinds:
            try:
                run()
                torch.cuda.synchronize()
            except Exception:  # too large, or nothing that this Triton can do
                continue
            times = [milliseconds(run) for _ in range(3)]
            found.append((min(times), f"{name} {tm}x{tn}x{tk}", run))
    if not found:
        return None
    _, name, run = min(found, key=lambda row: row[0])
    return name, run
