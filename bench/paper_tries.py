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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from suite_support import Workload

MULTIPROCESSORS = 132
WAVES = 6  # of blocks of one program each to a multiprocessor: more need no split-K
STEPS = 4  # of the loop, at least, for each block of a cluster
REUSE = 16  # multiply-adds for each element that a step of the loop loads, at least, in full grids
_ON_CORES = {"cluster_k": (2, 3, 4, 8), "slices": (2, 4, 8), "num_warps": (1, 2, 4, 8),
             "min_blocks": (2, 3, 4), "group": (1, 4, 16)}
_ON_TENSOR = {"cluster_k": (2, 3, 4, 8), "num_stages": (2, 3, 4, 5, 6, 8), "group": (1, 4, 16),
              "tma_load": (0,), "tma_store": (0, 1, 2), "producer": (0,), "slices": (2, 4),
              "persistent": (0, 1), "num_warps": (4, 8)}
_TUNABLE = re.compile(r"const tunable int (\w+) = \{([\d, ]+)\}")


def of_workload(workload: Workload) -> list[dict[str, int]]:
    """What to try for a kernel of bench/paper."""
    known = {**workload.macros, **workload.sizes}
    space = space_of(workload)
    if "TM" not in space:
        return []
    if workload.stem.startswith("product"):
        shape = known["M"], known["N"], known["K"]
    elif workload.stem.startswith("conv"):
        shape = (known["P"] * known["Q"] * known["B"], known["F"],
                 known["C"] * known["R"] * known["S"])
    else:
        shape = known["H"] * known["W"] * known["B"], known["F"], known["C"]
    if workload.stem == "shift_f32":  # whose product is tuned at the same sizes
        space = {**space, "TK": tuple(k for k in space["TK"] if k >= 16)}
    return list(tries(*shape, space, tensor="half" in workload.stem,
                      brief=workload.stem in ("product_half", "shift_f32")))


def space_of(workload: Workload) -> dict[str, tuple[int, ...]]:
    """The tunables of a kernel with the values of their lists."""
    return {name: tuple(map(int, values.split(",")))
            for name, values in _TUNABLE.findall(workload.path.read_text())}


def near(bases: Iterable[Mapping[str, int]], space: Mapping[str, Sequence[int]],
         tensor: bool = False) -> list[dict[str, int]]:
    """What differs from one of `bases` in one value, and those themselves; a choice of a pass that
    stands nowhere is its own.

    >>> near([{"TM": 32, "slices": 2}], {"TM": (16, 32)})[:3]
    [{'TM': 32, 'slices': 2}, {'TM': 16, 'slices': 2}, {'TM': 32, 'slices': 2, 'cluster_k': 2}]
    """
    found: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
    for base in bases:
        rivals = [dict(base)]
        for name, values in {**space, **(_ON_TENSOR if tensor else _ON_CORES)}.items():
            others = values if name in space else (None, *values)
            rivals += [{k: v for k, v in {**base, name: value}.items() if v is not None}
                       for value in others if value != base.get(name)]
        for rival in filter(_sensible, rivals):
            found.setdefault(tuple(sorted(rival.items())), rival)
    return list(found.values())


def _sensible(values: Mapping[str, int]) -> bool:
    """Whether a thread need not hold more results than registers, as far as the values say."""
    results = values.get("TM", 1) * values.get("TN", 1) * values.get("slices", 1)
    threads = 32 * values.get("num_warps", 8)
    blocks = values.get("min_blocks", 1)
    return results <= 128 * threads and (blocks < 3 or results <= 8192)


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
        for blocks in (2, 3, 4, 8):
            if few and programs * blocks <= WAVES * MULTIPROCESSORS and (
                    depth >= STEPS * k * blocks):
                yield {**tile, "cluster_k": blocks}
        if tensor:
            if not brief:
                yield from ({**tile, "num_stages": stages} for stages in (3, 6))
            continue
        if few:
            yield from ({**tile, "slices": slices} for slices in (2, 4))
        if brief:
            continue
        yield from ({**tile, "num_warps": warps}
                    for warps in ((4, 8) if m * n >= 4096 else (1, 2, 4)))
        if m * n >= 4096:
            yield from ({**tile, "min_blocks": blocks} for blocks in (2, 3))
