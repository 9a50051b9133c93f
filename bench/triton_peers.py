"""What the peers in Triton share: which of their kernels work, and which is the fastest.

A kernel takes seconds to compile, and one that a compiler got wrong may not end.  So each is tried
on a small problem by one of several other processes, before anything is measured; what they
compiled comes from Triton's cache on disk.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.pool import Pool
from typing import Any

import torch
from harness import interleaved

PATIENCE = 20  # seconds without any news
PROCESSES = 12


@functools.cache
def _pool() -> Pool:
    """Processes that stay until this one ends, or until one of them hangs."""
    way = "spawn" if torch.cuda.is_initialized() else "fork"  # which need not import torch again
    return multiprocessing.get_context(way).Pool(min(PROCESSES, os.cpu_count() or 1))


def _try(module: str, key: Any) -> str:
    """Why `module.trial(key)` does not work; "" if it does."""
    try:
        importlib.import_module(module).trial(key)
    except Exception as error:  # too large, or nothing that this Triton can do
        return f"{type(error).__name__}: {error}".split("\n")[0][:120]
    return ""


@functools.cache
def _why_not(module: str, key: Any) -> list[str]:
    """A place for what `_try` says, once it is known."""
    return []


def working(module: str, keys: Sequence[Any]) -> list[Any]:
    """The kernels, named by hashable keys, for which `module.trial(key)` ends without an error."""
    keys = list(dict.fromkeys(keys))
    asked = {key: _pool().apply_async(_try, (module, key)) for key in keys
             if not _why_not(module, key)}
    news = time.monotonic()
    while asked and time.monotonic() - news < PATIENCE:
        for key in [key for key, result in asked.items() if result.ready()]:
            _why_not(module, key).append(asked.pop(key).get())
            news = time.monotonic()
        time.sleep(0.02)
    for key in asked:
        _why_not(module, key).append("it does not end")
    if asked:
        _pool().terminate()
        _pool.cache_clear()
    return [key for key in keys if _why_not(module, key) == [""]]


def failures(module: str, keys: Sequence[Any]) -> dict[str, str]:
    """Why the others do not work."""
    return {key.name: _why_not(module, key)[0] for key in dict.fromkeys(keys)
            if _why_not(module, key)[0]}


def fastest(runs: dict[str, Callable[[], Any]]) -> str:
    """The name of the fastest launch."""
    times = interleaved(runs, rounds=3, least_ms=1.0, gap=0.0)
    return min(times, key=lambda name: min(times[name]))
