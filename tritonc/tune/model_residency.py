"""How many warpgroups of products that follow from each other a multiprocessor holds."""

from __future__ import annotations

from collections.abc import Sequence

from tritonc.backend.target.target import Target

ROWS = 64  # of a warpgroup, whose threads are
THREADS = 128
OTHERS = 40  # registers for addresses, counters and rows
# Registers by `live`, which do not all live at once: the gradients of attention spill kilobytes
# with 312 and 392, and nothing with 296; beside a producer warp 856 bytes with
# 296, and 100 with 216.
MOST_LIVE, MOST_LIVE_BESIDE = 300, 280
ENOUGH = 3  # warpgroups: what one computes between products takes twice as long as its products


def live(products: Sequence[tuple[int, int, int]], size: int) -> float:
    """Registers of a thread that hold all results, and the left operands of all but the first."""
    return OTHERS + sum(n / 2 for _, n, _ in products) + sum(
        k * size / 8 for _, _, k in products[1:])


def crowded(products: Sequence[tuple[int, int, int]], size: int) -> bool:
    """Whether results and operands of one loop do not fit into the registers of a thread.

    The four products of attention's dK and dV, of rows x columns x 128:

    >>> [crowded([(n, m, 128), (n, 128, m), (n, m, 128), (n, 128, m)], 2)
    ...  for n, m in ((128, 128), (128, 64), (64, 64))]
    [True, True, False]
    """
    rows = min(m for m, _, _ in products)
    return live(products, size) > (MOST_LIVE_BESIDE if rows > ROWS else MOST_LIVE)


def busy(products: Sequence[tuple[int, int, int]], size: int, target: Target) -> float:
    """The share of time, at most 1, in which tensor cores may have work, of products M, N, K of one
    loop, with operands of `size` bytes: what is computed between them is computed beside those of
    other warpgroups.

    All of a loop may be in flight at once, with the left operand of the later ones in registers
    (`advance_dots`).  Shared memory holds that of the first, and two stages of the right ones.

    >>> from tritonc.backend.target.target import TARGETS
    >>> [round(busy([(rows, 128, d), (rows, d, 128)], 2, TARGETS["sm_90a"]), 2)
    ...  for d in (64, 128) for rows in (64, 128)]
    [1.0, 0.67, 0.33, 0.67]
    >>> round(busy([(128, 64, 64), (128, 64, 64)], 2, TARGETS["sm_90a"]), 2)
    0.67
    """
    rows = min(m for m, _, _ in products)
    groups = max(1, rows // ROWS)
    held = live(products, size)
    shared = target.shared_reserved + rows * products[0][2] * size + sum(
        2 * n * k * size for _, n, k in products)
    blocks = min(target.registers_per_multiprocessor // (THREADS * groups * round(held)),
                 target.shared_per_multiprocessor // shared)
    if groups > 1:  # a producer warp makes the copies, and the block takes all registers
        blocks = 1
    return min(1.0, max(1, blocks) * groups / ENOUGH)
