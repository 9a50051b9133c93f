"""Measuring candidates on a device: right first, then fast.

A GPU that works hard slows down, and what else runs on it disturbs.  So candidates that are
compared are measured in turn, several launches at once, with rests; the median counts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import ceil
from statistics import median
from typing import Protocol

from tritonc.tune.jobs import Code, Job, Measured, Wrong

SAMPLE_MILLISECONDS = 2.0  # of work in one sample, at least
MOST_LAUNCHES = 200  # in one sample
SLOWED = 1.05  # the anchor takes so much longer than before: the GPU is slowed
_TRIES = 3  # of a measurement, while the GPU is slowed
_REST_SECONDS = 0.3  # between those


class Device(Protocol):
    """What runs kernels.  Methods may raise anything, hang, or end the process."""

    def differences(self, code: Code, size: Mapping[str, int]) -> list[str]:
        """Run the problem; what is not as it expects, [] if all is."""
        ...

    def milliseconds(self, code: Code, size: Mapping[str, int], launches: int) -> float:
        """The time of one of so many launches in a row."""
        ...

    def rest(self, seconds: float) -> None:
        """Let the device cool."""
        ...


def measure(device: Device, job: Job) -> Measured | Wrong:
    """Do a job."""
    if job.check:
        wrong = device.differences(job.codes[-1], job.size)
        if wrong:
            return Wrong(wrong[0])
    launches = []
    for code in job.codes:
        once = device.milliseconds(code, job.size, 1)  # which warms up, too
        if once > job.cutoff and code is job.codes[-1]:
            return Measured(tuple((once,) for _ in job.codes))
        once = device.milliseconds(code, job.size, 1)
        launches.append(max(1, min(MOST_LAUNCHES, ceil(SAMPLE_MILLISECONDS / max(once, 1e-4)))))
    for attempt in range(_TRIES):
        samples = _rounds(device, job, launches)
        slowed = median(samples[0]) / job.anchor if job.anchor is not None else 1.0
        if slowed < SLOWED:
            return Measured(samples)
        if attempt < _TRIES - 1:
            device.rest(_REST_SECONDS)
    return Measured(samples, slowed)


def _rounds(device: Device, job: Job, launches: list[int]) -> tuple[tuple[float, ...], ...]:
    samples: list[list[float]] = [[] for _ in job.codes]
    for _ in range(job.rounds):
        for found, code, count in zip(samples, job.codes, launches, strict=True):
            found.append(device.milliseconds(code, job.size, count))
    return tuple(map(tuple, samples))


def pause(seconds: float) -> None:
    """The `rest` of a device that has a clock."""
    time.sleep(seconds)
