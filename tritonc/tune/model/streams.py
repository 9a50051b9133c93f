"""Tiles of kernels without products for a launch whose sizes are known, by the time that it takes
(`stream_time`).  Where they are not known, `rows` says how far tiles are from those that stream
well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from tritonc.analysis.work.work import work_of
from tritonc.backend.launch.choose_warps import streaming_threads
from tritonc.backend.target.target import Target
from tritonc.ir.core import Kernel
from tritonc.records import NamedTuple
from tritonc.tune.model.stream_time import StreamLaunch

Binding = dict[str, int]
# Of the elements that the launch moves with other values of a tunable: with fewer, rows are longer
# than the tile that was to hold them.
_WHOLE = 0.75
_ROUNDS = 4
# Of less the model is not sure.  Of 199 launches it changes 35; of 29 of these, timed on an H200,
# four are slower (0.71 to 0.95), all together 1.20 times as fast.
_GAIN = 1.15


class Known(NamedTuple):
    """A launch: scalar arguments by name, the extents of its range, and the warps of a block, if
    somebody chose them."""

    arguments: Mapping[str, int]
    extents: tuple[int, ...]
    warps: int | None = None


class Found(NamedTuple):
    """What a combination takes: microseconds, and the elements that it moves."""

    time: float
    moved: float


def best_at(space: Mapping[str, Sequence[int]], lower: Callable[[Binding], Kernel | None],
            known: Known, start: Binding, target: Target) -> Binding:
    """The combination of `space` that takes least, the best of one tunable after the other, until
    none is better; or `start`, which is legal, unless that takes clearly longer.  `lower` makes a
    kernel of one, or None if it is not legal.  The first in the order of the lists wins a tie."""
    seen: dict[tuple[int, ...], Found] = {}

    def of(binding: Binding) -> Found:
        key = (*binding.values(),)
        if key not in seen:
            kernel = lower(binding)
            seen[key] = Found(inf, 0.0) if kernel is None else time_of(kernel, known, target)
        return seen[key]

    now = start
    for _ in range(_ROUNDS):
        before = now
        for name, values in space.items():
            ways = [{**now, name: value} for value in values]
            least = _WHOLE * max((of(way).moved for way in ways), default=0.0)
            whole = [way for way in ways if of(way).moved >= least]
            now = min(whole, key=lambda way: of(way).time, default=now)
        if now == before:
            break
    return now if of(now).time * _GAIN < of(start).time or (
        of(start).moved < _WHOLE * of(now).moved) else start


def time_of(kernel: Kernel, known: Known, target: Target) -> Found:
    """Of a launch of a kernel, by the threads that it gets."""
    stated = kernel.attributes.get("meta", {}).get("num_warps")
    programs = [max(1, -(-extent // kernel.tile.get(axis, 1)))
                for axis, extent in enumerate(known.extents)]
    launch = StreamLaunch(work_of(kernel, known.arguments, programs))
    return Found(launch.microseconds(
        known.warps or stated or streaming_threads(kernel) // 32, target), launch.traffic.moved)
