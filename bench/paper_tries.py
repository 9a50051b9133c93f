"""Tunables to try for a product at one size, `paper.py --try`: tiles of the source's lists, and
other choices than those of the passes, by arithmetic alone, which takes no time.

    >>> space = {"TM": (16, 128), "TN": (32,), "TK": (16,)}
    >>> found = list(tries(rows=512, columns=32, depth=2048, space=space))
    >>> [c for c in found if c.get("cluster_k", 1) == 4 and c["TM"] == 16]
    [{'TM': 16, 'TN': 32, 'TK': 16, 'cluster_k': 4}]
    >>> {"TM": 16, "TN": 32, "TK": 16, "slices": 2} in found
    True
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from suite_support import Workload

MULTIPROCESSORS = 132
WAVES = 6  # of blocks of one program each to a multiprocessor: more need no split-K
STEPS = 4  # of the loop, at least, for each block of a cluster
REUSE = 16  # multiply-adds for each element that a step of the loop loads, at least, in full grids
_TUNABLE = re.compile(r"const tunable int (\w+) = \{([\d, ]+)\}")


def of_workload(workload: Workload) -> list[dict[str, int]]:
    """What to try for a kernel of bench/paper."""
    known = {**workload.macros, **workload.sizes}
    space = {name: tuple(map(int, values.split(",")))
             for name, values in _TUNABLE.findall(workload.path.read_text())}
    if "TM" not in space:
        return []
    if workload.stem.startswith("product"):
        shape = known["M"], known["N"], known["K"]
    elif workload.stem.startswith("conv"):
        shape = (known["P"] * known["Q"] * known["B"], known["F"],
                 known["C"] * known["R"] * known["S"])
    else:
        shape = known["H"] * known["W"] * known["B"], known["F"], known["C"]
    return list(tries(*shape, space, tensor="half" in workload.stem,
                      brief=workload.stem in ("product_half", "shift_f32")))


def tries(rows: int, columns: int, depth: int, space: Mapping[str, Sequence[int]],
          tensor: bool = False, brief: bool = False) -> Iterator[dict[str, int]]:
    """Candidates, tile by tile; those of equal tiles differ in one choice of a pass, which
    `brief` leaves out but for split-K."""
    for m, n, k in product(*(space[name] for name in ("TM", "TN", "TK"))):
        tile = {"TM": m, "TN": n, "TK": k}
        programs = -(-rows // m) * -(-columns // n)
        padded = programs * m * n / (rows * columns)
        if (padded > 2 and n > min(space["TN"])) or (
                programs > 8 * MULTIPROCESSORS and 2 * m * n / (m + n) < 2 * REUSE):
            continue
        yield tile
        few = programs <= 2 * MULTIPROCESSORS
        for blocks in (2, 4, 8):
            if few and programs * blocks <= WAVES * MULTIPROCESSORS and (
                    depth >= STEPS * k * blocks):
                yield {**tile, "cluster_k": blocks}
        if tensor:
            if not brief:
                yield from ({**tile, "num_stages": stages} for stages in (3, 6))
                yield from ({**tile, name: 0} for name in ("tensor_copy", "copier"))
            continue
        if few:
            yield from ({**tile, "slices": slices} for slices in (2, 4))
        if brief:
            continue
        yield from ({**tile, "num_warps": warps}
                    for warps in ((4, 8) if m * n >= 4096 else (1, 2, 4)))
        if m * n >= 4096:
            yield from ({**tile, "min_blocks": blocks} for blocks in (2, 3))
