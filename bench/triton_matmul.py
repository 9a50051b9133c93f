"""Matrix products in Triton, the peer of `matmul.py`: by pointers and by descriptors.

Both are the forms of Triton's own tutorials (03, grouped; 09, persistent with descriptors of the
host), with some configurations to choose the fastest of.  Kernels of the second form with
`warp_specialize` compile for 4 warps and do not end, with Triton 3.6 on an H200.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from triton_peers import fastest, working

POINTERS, DESCRIPTORS = "pointers", "descriptors"
LARGE = [  # kind, tile m, n, bytes of k, stages, warps
    (DESCRIPTORS, 128, 256, 128, 3, 8), (DESCRIPTORS, 128, 256, 128, 4, 8),
    (DESCRIPTORS, 128, 128, 128, 4, 4), (DESCRIPTORS, 128, 128, 128, 4, 8),
    (POINTERS, 128, 256, 128, 3, 8), (POINTERS, 128, 128, 128, 4, 8),
]
SMALL = [
    (DESCRIPTORS, 128, 128, 128, 4, 4), (DESCRIPTORS, 64, 128, 128, 4, 4),
    (DESCRIPTORS, 64, 128, 256, 3, 4), (DESCRIPTORS, 64, 64, 256, 4, 4),
    (DESCRIPTORS, 64, 32, 256, 5, 4), (DESCRIPTORS, 64, 16, 256, 6, 4),
    (POINTERS, 128, 128, 128, 4, 4), (POINTERS, 64, 128, 128, 4, 4),
    (POINTERS, 64, 128, 256, 3, 4), (POINTERS, 64, 64, 256, 4, 4), (POINTERS, 64, 32, 256, 5, 4),
    (POINTERS, 32, 64, 256, 5, 4), (POINTERS, 32, 32, 256, 6, 4), (POINTERS, 32, 32, 512, 4, 4),
    (POINTERS, 64, 16, 256, 5, 4), (POINTERS, 16, 64, 256, 5, 4), (POINTERS, 16, 32, 512, 4, 4),
    (POINTERS, 16, 16, 512, 5, 4),
]
ON_CORES = [  # for float32 in IEEE arithmetic, which descriptors never made faster
    (POINTERS, 64, 64, 128, 3, 4), (POINTERS, 128, 64, 128, 3, 4), (POINTERS, 128, 128, 128, 3, 8),
    (POINTERS, 64, 128, 64, 3, 4), (POINTERS, 128, 128, 64, 4, 4),
]
FEW_ON_CORES = [
    *ON_CORES, (POINTERS, 32, 32, 256, 4, 4), (POINTERS, 32, 64, 128, 4, 4),
    (POINTERS, 16, 32, 256, 4, 4), (POINTERS, 16, 16, 256, 4, 4), (POINTERS, 64, 32, 128, 4, 4),
]
FEW = 1 << 21  # results; products of fewer take smaller tiles
GROUP = 8
TRIAL = 256  # rows, columns and depth of the product on which a kernel is tried


@triton.jit
def _place(instance, rows, columns, GROUP: tl.constexpr):
    band = GROUP * columns
    first = instance // band * GROUP
    high = min(rows - first, GROUP)
    return first + instance % band % high, instance % band // high


@triton.jit
def by_pointers(a, b, c, M, N, K, am, ak, bk, bn, TM: tl.constexpr, TN: tl.constexpr,
                TK: tl.constexpr, GROUP: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr,
                IMPRECISE: tl.constexpr):
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
        total = tl.dot(x, y, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE,
                       out_dtype=ACC)
        pa += TK * ak
        pb += TK * bk
    m = row * TM + tl.arange(0, TM)
    n = column * TN + tl.arange(0, TN)
    tl.store(c + m[:, None] * N + n[None, :], total.to(c.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def by_descriptors(a, b, c, M, N, K, A_TURNED: tl.constexpr, B_TURNED: tl.constexpr,
                   TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, GROUP: tl.constexpr,
                   ACC: tl.constexpr, PRECISION: tl.constexpr, IMPRECISE: tl.constexpr,
                   BLOCKS: tl.constexpr):
    rows, columns = tl.cdiv(M, TM), tl.cdiv(N, TN)
    for instance in tl.range(tl.program_id(0), rows * columns, BLOCKS, flatten=True):
        row, column = _place(instance, rows, columns, GROUP)
        total = tl.zeros((TM, TN), ACC)
        for k in range(0, tl.cdiv(K, TK)):
            x = a.load([k * TK, row * TM]).T if A_TURNED else a.load([row * TM, k * TK])
            y = b.load([column * TN, k * TK]).T if B_TURNED else b.load([k * TK, column * TN])
            total = tl.dot(x, y, total, input_precision=PRECISION,
                           max_num_imprecise_acc=IMPRECISE, out_dtype=ACC)
        c.store([row * TM, column * TN], total.to(c.dtype))


class Key(NamedTuple):
    """A kernel: for a product's types and layout, and whether rows are multiples of 16 bytes."""

    configuration: tuple[str, int, int, int, int, int]
    operand: torch.dtype
    result: torch.dtype
    layout: str
    precision: str  # of float32
    imprecise: int | None  # of 8-bit floats: how many products tensor cores may add up
    aligned: bool

    @property
    def name(self) -> str:
        kind, tm, tn, deep, stages, warps = self.configuration
        return f"{kind} {tm}x{tn}x{deep // self.operand.itemsize}, {stages} stages, {warps} warps"


def keys(operand: torch.dtype, result: torch.dtype, layout: str, m: int, n: int, k: int,
         fast: bool) -> list[Key]:
    """The kernels to choose from.  `fast`: sums of 8-bit floats stay in the tensor cores."""
    precision = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
    if operand == torch.float32 and precision == "ieee":
        table = FEW_ON_CORES if m * n < FEW else ON_CORES
    else:
        table = SMALL if m * n < FEW else LARGE
    imprecise = 128 if operand == torch.float8_e4m3fn and not fast else None
    aligned = all(x * operand.itemsize % 16 == 0 and x % 16 == 0 for x in (m, n, k))
    return [Key(row, operand, result, layout, precision, imprecise, aligned) for row in table
            if (aligned or row[0] == POINTERS) and row[2] <= max(n, 32)]


def launch(key: Key, left: torch.Tensor, right: torch.Tensor, c: torch.Tensor
           ) -> Callable[[], None]:
    """A launch of a kernel.  `left` and `right` as stored; the layout says which transposed."""
    kind, tm, tn, deep, stages, warps = key.configuration
    turned = key.layout[0] == "t", key.layout[1] == "t"
    (m, n), k = c.shape, left.shape[0] if turned[0] else left.shape[1]
    tk = deep // key.operand.itemsize
    tiles = triton.cdiv(m, tm) * triton.cdiv(n, tn)
    common = {"TM": tm, "TN": tn, "TK": tk, "GROUP": GROUP, "PRECISION": key.precision,
              "ACC": tl.int32 if key.operand == torch.int8 else tl.float32,
              "IMPRECISE": key.imprecise, "num_stages": stages, "num_warps": warps}
    if kind == POINTERS:
        strides = ((1, m) if turned[0] else (k, 1)) + ((1, k) if turned[1] else (n, 1))
        return lambda: by_pointers[(tiles,)](left, right, c, m, n, k, *strides, **common)
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    a = TensorDescriptor.from_tensor(left, [tk, tm] if turned[0] else [tm, tk])
    b = TensorDescriptor.from_tensor(right, [tn, tk] if turned[1] else [tk, tn])
    d = TensorDescriptor.from_tensor(c, [tm, tn])
    return lambda: by_descriptors[(min(tiles, blocks),)](
        a, b, d, m, n, k, *turned, BLOCKS=blocks, **common)


def trial(key: Key) -> None:
    """Compile a kernel, and run it on a small product, which must be right."""
    size = TRIAL if key.aligned else TRIAL - 3
    a, b = (torch.randint(-2, 3, (size, size), device="cuda").float().to(key.operand)
            for _ in range(2))
    c = torch.empty((size, size), device="cuda", dtype=key.result)
    launch(key, a, b, c)()
    left, right = (x.float().t() if t == "t" else x.float()
                   for x, t in zip((a, b), key.layout, strict=True))
    if not torch.equal(c, (left.double() @ right.double()).to(key.result)):
        raise ValueError("wrong result")


def choose(found: list[Key], left: torch.Tensor, right: torch.Tensor, c: torch.Tensor
           ) -> tuple[str, Callable[[], None]] | None:
    """The fastest of these kernels that work: its name, and a launch; None if none does."""
    runs = {key.name: launch(key, left, right, c) for key in working("triton_matmul", found)}
    if not runs:
        return None
    name = fastest(runs)
    return name, runs[name]
