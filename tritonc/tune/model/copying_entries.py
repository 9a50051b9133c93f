"""Entries whose loops from row to row copy ahead (`backend/pipeline/copy_ahead`), for launches of
few programs.

Loads that such a loop makes ahead cost a latency of memory in each iteration, copies cost
instructions.  So copies are worth it while the blocks of a multiprocessor issue fewer instructions
in an iteration than that takes."""

from collections.abc import Callable, Mapping, Sequence
from math import prod

from tritonc.analysis.column_loops import sums_columns, walks_rows
from tritonc.analysis.row_loops import only_adds, waits_for_itself
from tritonc.backend.launch.choose_warps import streaming_threads, weight
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Op
from tritonc.ir.types import Tile, shape
from tritonc.variants.variant import Binding, Variant

STAGES = 4  # at least, see `copy_ahead`
# Instructions of a multiprocessor that hide the latency, as counted here, and what a warp issues in
# an iteration beside those of its elements.  H200, us, loads and copies: running sums down columns
# by 32 x 32, 1024 x 8448 and 12672 25.2, 20.9 and 31.9, 29.4, in odd rows 26.7, 25.5 and 34.3,
# 38.8, 25344 57.5, 59.3; least prices so far by 16 x 32, 16384 and 32768 columns 48.5, 40.8 and
# 74.5, 78.0; selective scans by 8, 8 x 2048 and 9 x 2185 252, 204 and 252, 294, by 32, 8 x 4096
# and 16 x 4096 270, 257 and 424, 422.
HIDDEN, BESIDE, FUNCTION = 2900, 120, 8
_MOVES = frozenset("splat broadcast reshape trans select psi phi constant".split())


def with_copies(entries: Sequence[Variant], kernel: Kernel,
                lower: Callable[[Mapping[str, int]], Kernel], chosen: Binding, target: Target
                ) -> list[Variant]:
    """The entries, with those that copy ahead; `kernel` is that of the `chosen` values."""
    own = _issued(kernel, chosen)
    if not 0 < own <= HIDDEN or "async_copy" not in target.features:
        return [*entries]
    found = list[Variant]()
    for one in entries:
        copying = one._replace(binding={**one.binding, "num_stages": STAGES})
        if one.few:
            other = lower({k: n for k, n in one.binding.items() if k in chosen}) if chosen else (
                kernel)
            share = prod(kernel.tile[axis] / other.tile[axis] for axis in kernel.tile)
            issued = share * _issued(other, one.binding)
            few = int(target.multiprocessors * HIDDEN / issued) if issued else 0
            if few:
                found.append(copying._replace(few=min(few, one.few)))
            if few >= one.few:
                continue
        found.append(one)
    few = int(target.multiprocessors * HIDDEN / own)
    if few > max((one.few for one in entries), default=0) and not any(
            "cluster_k" in one.binding for one in entries):
        found.append(Variant({**chosen, "num_stages": STAGES}, few=few))
    return found


def _issued(kernel: Kernel, binding: Binding) -> float:
    """The instructions of a block's warps in an iteration of the loop from row to row that has the
    fewest; 0 if there is no such loop."""
    cfg = Cfg(kernel)
    waiting = sums_columns(kernel, cfg) or waits_for_itself(kernel, cfg)
    warps = binding.get("num_warps") or streaming_threads(kernel) // 32
    loops = [loop for loop in cfg.loops if loop.body is not None and any(
        op.name == "load" and isinstance(op.result.type, Tile) for op in loop.ops())]
    return min((BESIDE * warps + sum(map(_weight, loop.ops())) / 32 for loop in loops
                if waiting or (walks_rows(loop) and not only_adds(loop))), default=0)


def _weight(op: Op) -> int:
    """The instructions that an operation takes for all of its elements."""
    if op.name in _MOVES or not op.results:
        return 0
    each = FUNCTION if op.name == "fdiv" else min(FUNCTION, weight(op))
    return each * max(prod(shape(v.type)) for v in (*op.operands[:1], *op.results)
                      ) if isinstance(op.results[0].type, Tile) else 0
