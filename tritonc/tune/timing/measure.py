"""Measuring candidates on a device: right first, then fast.

A GPU that works hard slows down, and what else runs on it disturbs.  So candidates that are
compared are measured in turn, several launches at once, with rests; the median counts."""

from collections.abc import Mapping
from math import ceil, inf
from statistics import median
from typing import Protocol

from tritonc.tune.workers.jobs import Code, Job, Measured, Wrong

SAMPLE_MILLISECONDS = 2.0  # of work in one sample, at least
BRIEF_MILLISECONDS = 0.5  # of work in the sample that decides whether there are more
_COLD = 2.0  # the first launch of a kernel may take so many times as long, and this besides:
_START_MILLISECONDS = 0.05
MOST_LAUNCHES = 200  # in one sample
SLOWED = 1.05  # the anchor takes so much longer than before: the GPU is slowed
DISTURBED = 1.15  # by more than its own heat: it is worth waiting
_TRIES = 3  # of a measurement, while the GPU is disturbed
_REST_SECONDS = 0.3  # between those


class Device(Protocol):
    """What runs kernels.  Methods may raise anything, hang, or end the process."""

    def check(self, code: Code, size: Mapping[str, int]) -> tuple[list[str], float]:
        """Run the problem: what is not as it expects, [] if all is, and the milliseconds of the
        launch."""
        ...

    def milliseconds(self, code: Code, size: Mapping[str, int], launches: int) -> float:
        """The time of one of so many launches in a row."""
        ...

    def rest(self, seconds: float) -> None:
        """Let the device cool."""
        ...


def measure(device: Device, job: Job) -> Measured | Wrong:
    """Do a job."""
    asked = job.codes[-1]
    if job.check:
        wrong, cold = device.check(asked, job.size)
        if wrong:
            return Wrong(wrong[0])
        if job.cutoff < inf and (slow := _too_slow(device, job, cold)) is not None:
            return Measured(((slow,),))
    launches = []
    for code in job.codes:
        device.milliseconds(code, job.size, 1)  # which warms up
        once = device.milliseconds(code, job.size, 1)
        launches.append(_launches(SAMPLE_MILLISECONDS, once))
    for attempt in range(_TRIES):
        samples = _rounds(device, job, launches)
        slowed = median(samples[0]) / job.anchor if job.anchor is not None else 1.0
        if slowed < DISTURBED:
            return Measured(samples, slowed if slowed >= SLOWED else 1.0)
        if attempt < _TRIES - 1:
            device.rest(_REST_SECONDS)
    return Measured(samples, slowed)


def _too_slow(device: Device, job: Job, cold: float) -> float | None:
    """The time of a candidate that took longer than the cutoff while nothing else held the GPU;
    `cold` is that of its first launch."""
    asked, taken = job.codes[-1], cold
    for attempt in range(_TRIES):
        if attempt or cold <= _COLD * job.cutoff + _START_MILLISECONDS:
            taken = device.milliseconds(asked, job.size, _launches(BRIEF_MILLISECONDS, cold))
            if taken <= job.cutoff:
                return None
        if not _is_disturbed(device, job):
            break
        device.rest(_REST_SECONDS)
    return taken


def _is_disturbed(device: Device, job: Job) -> bool:
    """Whether the anchor takes longer than it did."""
    if job.anchor is None:
        return False
    launches = _launches(SAMPLE_MILLISECONDS, job.anchor)
    return device.milliseconds(job.codes[0], job.size, launches) > DISTURBED * job.anchor


def _launches(milliseconds: float, once: float) -> int:
    return max(1, min(MOST_LAUNCHES, ceil(milliseconds / max(once, 1e-4))))


def _rounds(device: Device, job: Job, launches: list[int]) -> tuple[tuple[float, ...], ...]:
    samples: list[list[float]] = [[] for _ in job.codes]
    for _ in range(job.rounds):
        for found, code, count in zip(samples, job.codes, launches, strict=True):
            found.append(device.milliseconds(code, job.size, count))
    return tuple(map(tuple, samples))
