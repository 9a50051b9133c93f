"""How many warpgroups of products that follow from each other a multiprocessor holds."""

from collections.abc import Sequence

from tritonc.backend.launch.product_threads import warpgroups
from tritonc.backend.target.register_limits import BESIDE_CHAIN, MOST_CHAINED, MOST_REGISTERS
from tritonc.backend.target.target import Target
from tritonc.records import NamedTuple

SPILLS = 1e6  # the least cost of what spills, or does not run: any other candidate is better
ROWS = 64  # of a warpgroup, whose threads are
THREADS = 128
_FEWEST = 16  # rows of mma.sync
# How much longer it takes where nothing is copied ahead.  Attention, 64 x 2100, an H200: heads of
# 192 by 128 x 128 770 us, by 128 x 32, which fits, 492; of 160 649, 483.
_ALONE = 2.5
# The same where two products do not run beside each other, for want of registers (`rotate_dots`).
# Gradients of queries, us: heads of 80, 32 x 3333, a window of 1024, by 128 x 128 217, by 128 x 64
# 122, by 64 x 64 131; heads of 128, 64 x 4096, causal, 792, 603, 705.  Times more than 1.4 would
# change tiles of longer chains, which were not measured.
_APART = 1.38
ENOUGH = 3  # warpgroups: what one computes between products takes twice as long as its products


class Chained(NamedTuple):
    """A product M, N, K of a loop.  `left`: "fixed" in shared memory, "brought" there in each
    iteration, or computed "registers"; `again`: the right operand is brought for another product
    before it, too; `added`: bytes of an element of what is brought to be added to the result;
    `short`: the loop has few iterations; `raw`: bytes of an element of a right operand that is
    converted in registers, as memory has it; `fresh`: it is no part of a sum of the loop."""

    m: int
    n: int
    k: int
    left: str = "fixed"
    again: bool = False
    added: int = 0
    short: bool = False
    raw: float = 0
    fresh: bool = False


def held(products: Sequence[Chained], size: int, groups: int = 1) -> float:
    """Registers of a thread that hold all results, and left operands that are computed, where so
    many warpgroups share 64 rows.

    >>> latent = [Chained(64, 64, 576), Chained(64, 512, 64, "registers")]
    >>> held(latent, 2), held(latent, 2, sharing(latent))
    (304.0, 160.0)
    """
    return sum(p.n / 2 / groups + (p.k * size / 8 if p.left == "registers" else 0)
               for p in products)


def sharing(products: Sequence[Chained]) -> int:
    """How many warpgroups share 64 rows, if there are so many: the widest result has them so."""
    return max(warpgroups(ROWS, p.n, 0) for p in products) if products[0].m >= ROWS else 1


def brought(products: Sequence[Chained], size: int) -> int:
    """Bytes of shared memory: left operands that stay, and two stages of what is brought."""
    return sum({"fixed": 1, "brought": 2, "registers": 0}[p.left] * p.m * p.k * size
               + (0 if p.again else round(2 * p.n * p.k * (p.raw or size)))
               + 2 * p.m * p.n * p.added
               for p in products)


def in_order(products: Sequence[Chained], size: int) -> float:
    """The registers of a thread where products wait for each other: of results that are no sums two
    are there at once, as scores and their gradients are.  A thread has a share of the most rows.

    The five products of attention's gradients, of 64 queries and 128 keys, where keys are rows:

    >>> p, q = Chained(64, 128, 128, fresh=True), Chained(128, 128, 64, "registers")
    >>> in_order([p, q, p, q, Chained(64, 128, 128, "registers", fresh=True)], 2)
    224.0
    """
    rows, groups = max(p.m for p in products), sharing(products)
    if min(p.m for p in products) < ROWS:  # of mma.sync, which has more pieces of operands
        return held(products, size, groups)
    most = sorted((p for p in products if p.fresh), key=lambda p: -p.m * p.n)[:2]
    there = [*most, *(p for p in products if not p.fresh)]
    return sum(held([p], size, groups) * p.m / rows for p in there)


def exceeds_registers(products: Sequence[Chained], size: int) -> bool:
    """Whether results and operands of one loop do not fit into the registers of a thread.

    The four products of attention's dK and dV, of rows x columns x 128:

    >>> [exceeds_registers([Chained(n, m, 128), Chained(n, 128, m, "registers")] * 2, 2)
    ...  for n, m in ((128, 128), (128, 64), (64, 64))]
    [True, False, False]
    """
    return in_order(products, size) > MOST_CHAINED


def busy(products: Sequence[Chained], size: int, target: Target) -> float:
    """The share of time, at most 1, in which tensor cores may have work, of products of one loop,
    with operands of `size` bytes: what is computed between them is computed beside those of
    other warpgroups.

    All of a loop may be in flight at once, if there are registers for it (`rotate_dots`).

    >>> from tritonc.backend.target.target import TARGETS
    >>> [round(busy([Chained(rows, 128, d), Chained(rows, d, 128, "registers")], 2,
    ...             TARGETS["sm_90a"]), 2) for d in (64, 128) for rows in (64, 128)]
    [1.0, 0.67, 0.33, 0.67]
    >>> round(busy([Chained(64, 128, 64, added=2), Chained(64, 64, 128, "registers")], 2,
    ...            TARGETS["sm_90a"]), 2)  # with a bias
    0.67
    >>> [busy([Chained(8, 128, 128, raw=raw), Chained(8, 128, 128, "registers", raw=raw)], 2,
    ...       TARGETS["sm_90a"]) for raw in (0, 1)]  # few rows by 128 halves, or bytes
    [0.3333333333333333, 1.0]
    >>> gradients = [Chained(64, 64, 128), Chained(64, 128, 64, "registers"),
    ...              Chained(64, 64, 128, again=True), Chained(64, 128, 64, "registers", True)]
    >>> round(busy(gradients, 2, TARGETS["sm_90a"]), 2)
    0.67
    >>> [round(busy([Chained(128, n, 128)] * 2 + [Chained(128, 128, n, "registers", True)], 2,
    ...             TARGETS["sm_90a"]), 2) for n in (64, 128)]  # of queries
    [0.67, 0.48]
    """
    rows, shared_by = min(p.m for p in products), sharing(products)
    groups = max(1, rows // ROWS) * shared_by
    shared = target.shared_reserved + brought(products, size)
    if groups > 1:  # a producer warp makes the copies, and the block takes all registers
        alone = _ALONE if shared > target.shared_per_block else 1
        alone *= _APART if held(products, size, shared_by) > MOST_REGISTERS else 1
        # Where programs are short, the next one's operands are there when it begins.
        return (1.0 if any(p.short for p in products) else min(1.0, groups / ENOUGH)) / alone
    share = min(1.0, max(rows, _FEWEST) / ROWS)  # of those registers; few rows are of mma.sync
    results = sum(p.n / 2 for p in products) * share
    whole = held(products, size) * share
    registers = (whole if whole <= MOST_REGISTERS else results) + BESIDE_CHAIN
    registers += sum(p.n * p.added / 8 for p in products)
    blocks = min(target.registers_per_multiprocessor // (THREADS * groups * round(registers)),
                 target.shared_per_multiprocessor // shared)
    return min(1.0, max(1, blocks) * groups / ENOUGH)
