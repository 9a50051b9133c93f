"""What a combination of tunables costs whose kernels have no product: how far its tiles are from
those that stream well."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2, prod

from tritonc.backend.target.target import Target
from tritonc.tune.model.features import Profile

_STREAM_ELEMENTS = 1024  # per instance of a kernel without dots: 128 threads, 8 elements each
_STREAM_EACH, _STREAM_MOST = 8, 8192  # elements of a thread, of an instance of few rows
_PASSES = 2048  # of several passes over rows, and of sums over columns: 256 threads
_WAITING = 128  # of a loop that all elements of a tile end: one warp
_RECURRENCE = 512  # of one whose iterations wait for each other: one warp, too
_COLUMNS = 128  # of columns alone: one warp
_ADDING = 4096  # of atomics on few addresses, which take turns
_WANTED = {"several_passes": _PASSES, "reducing_passes": _PASSES, "sums_columns": _PASSES,
           "ends_by_tile": _WAITING, "recurrence": _RECURRENCE, "adds_to_few": _ADDING,
           "columns_alone": _COLUMNS}
_FLAT_BYTES, _FLAT_ASPECT = 4096, 8  # of a tile of two axes, both contiguous along the last
_COMPUTED = 4  # bytes of an element of a window of pixels, whatever it has in memory
_ADDED_BYTES = 1024  # of one that a loop adds others to: what lies beyond an edge costs as much
_SQUARE_BYTES = 16 * 1024  # of a tile of two axes that is only moved: long pieces of rows both ways


def stream_cost(profile: Profile, target: Target, range_: Sequence[int]) -> float:
    """The sum over kernels of `_row_cost`."""
    starts = [i for i, feature in enumerate(profile) if feature.kind == "kernel"]
    parts = [profile[i:j] for i, j in zip(starts, [*starts[1:], len(profile)], strict=True)]
    return sum(_row_cost(part[1:], part[0].form, target, range_) for part in parts)


def _row_cost(profile: Profile, form: str, target: Target, range_: Sequence[int]) -> float:
    """How far an instance's tiles are from what one block of threads streams well.

    A range that is known says how many instances there are: few large ones leave multiprocessors
    without work.  Rows of which there are few want many threads each, and so do rows of which a
    program makes several passes, so that few of them are in the caches.

    Elements reduced along an axis are better in that axis: fewer partial results.  Tiles of two
    axes are better square where either side is the contiguous one in memory.
    """
    largest = max((prod(f.extents) for f in profile), default=1)
    reductions = [f for f in profile if f.kind == "reduce"]
    flat = [f for f in profile if prod(f.extents) == largest and len(f.extents) > 1]
    if flat and (not reductions or form == "ends_by_tile"):
        height, width = flat[0].extents[-2:]
        if form == "turned":
            size, aspect = _SQUARE_BYTES / flat[0].bytes, 1
        elif form == "ends_by_tile":
            size, aspect = _WAITING, _FLAT_ASPECT
        else:
            computed = _COMPUTED if form == "windows_of_bytes" else flat[0].bytes
            size = (_ADDED_BYTES if form == "adds_tiles" else _FLAT_BYTES) / computed
            aspect = _FLAT_ASPECT
        return abs(log2(max(largest, 1) / size)) + 0.1 * abs(log2(width / height / aspect))
    rows = [prod(e for axis, e in enumerate(feature.extents) if axis not in feature.axes)
            for feature in reductions]
    wanted = float(_WANTED.get(form, _STREAM_ELEMENTS))
    if range_ and reductions:
        each = target.multiprocessors * target.threads_per_multiprocessor * _STREAM_EACH
        wanted = min(max(each / (prod(range_) / max(rows)), wanted), _STREAM_MOST)
    cost = abs(log2(max(largest, 1) / wanted))
    for kept in rows:
        cost += 0.3 * log2(kept) / len(reductions)
    return cost
