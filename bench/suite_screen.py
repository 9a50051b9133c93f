"""A first glance at many candidates, before a few of them are checked and measured with care."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

PIECES = 8  # copies of the data, which take turns
BEYOND_L2 = 96 << 20  # bytes of them together
FAR, HOST = 1.5, 3e-3  # who takes longer than so many times the best, and milliseconds, is left out
FIRST_MS, SECOND_MS = 0.1, 0.6  # of work in each glance
MOST = 100  # launches of one


def screened(kernels: Mapping[str, Any], launcher: Callable[[Any, Any], Callable[[], Any]],
             case: Any, say: Callable[[str], None], wrong: dict[str, str]) -> dict[str, float]:
    """Milliseconds of each candidate; what fails goes to `wrong`.

    All are launched from the host first, which cannot tell apart what is faster than it; those not
    far from the best then by graphs.
    """
    copies = max(2, min(PIECES, -(-BEYOND_L2 // max(1, case.bytes))))
    cases = [case.clone() for _ in range(copies)]  # what a kernel adds to is the reference's, too
    times: dict[str, float] = {}
    best = math.inf
    for name, found in kernels.items():
        say(name)
        try:
            runs = [launcher(found, c) for c in cases]
            runs[0]()
            once = _milliseconds(runs, 1)
            if once > 4 * best + 4 * HOST:
                times[name] = once
                continue
            times[name] = _milliseconds(runs, _count(FIRST_MS, once))
            best = min(best, times[name])
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {error}".split("\n")[0][:160]
            torch.cuda.synchronize()  # raises where the context is lost
    for name in [n for n, ms in times.items() if ms <= FAR * best + HOST]:
        say(name)
        runs = [launcher(kernels[name], c) for c in cases]
        times[name] = _by_graph(runs, max(copies, _count(SECOND_MS, times[name])))
    return times


def fastest(times: Mapping[str, float], count: int) -> set[str]:
    """So many of those whose names begin with the same word.

    >>> sorted(fastest({"a 1": 3.0, "a 2": 1.0, "b 1": 9.0, "a 3": 2.0}, 2))
    ['a 2', 'a 3', 'b 1']
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(times, key=lambda name: times[name]):
        groups.setdefault(name.split()[0], []).append(name)
    return {name for names in groups.values() for name in names[:count]}


def _count(milliseconds: float, once: float) -> int:
    return max(2, min(MOST, math.ceil(milliseconds / max(once, 1e-3))))


def _milliseconds(runs: list[Callable[[], Any]], count: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for index in range(count):
        runs[index % len(runs)]()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / count


def _by_graph(runs: list[Callable[[], Any]], count: int) -> float:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index in range(count):
            runs[index % len(runs)]()
    graph.replay()
    found = []
    for _ in range(2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        found.append(float(start.elapsed_time(end)) / count)
    return min(found)
