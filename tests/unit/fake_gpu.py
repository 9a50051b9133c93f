"""A device for tests of the tuner: times follow from the candidate, and faults too."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from math import log2

from tritonc.launch.cuda import Peaks
from tritonc.tune.workers.jobs import Code, Spec
from tritonc.tune.workers.sites import Local


class FakeGpu:
    """Fastest at T = 128, and below N = 64 at 256; larger sizes take longer.  With T = 64 it
    computes something else; of the candidates with `num_warps`, those of 8 hang, those of 4 end
    the process or fail."""

    def __init__(self, spec: Spec, index: int, sizes: Sequence[Mapping[str, int]], seed: int
                 ) -> None:
        self.started = os.getpid()

    def check(self, code: Code, size: Mapping[str, int]) -> tuple[list[str], float]:
        match code.tile[0], code.binding.get("num_warps"):
            case _, 8:
                time.sleep(1000)
            case 256, 4:
                os.abort()
            case 128, 4:
                raise RuntimeError("an illegal memory access was encountered")
            case 64, _:
                return ["'y' is wrong"], 0.0
        return [], self.milliseconds(code, size, 1)

    def milliseconds(self, code: Code, size: Mapping[str, int], launches: int) -> float:
        number = size.get("N", 1)
        small = 0.97 if number < 64 and code.tile[0] == 256 else 0.0
        return (small or 1 + abs(log2(code.tile[0] / 128))) * number * 1e-3

    def rest(self, seconds: float) -> None:
        return


class BrokenGpu(FakeGpu):
    """One that cannot be opened."""

    def __init__(self, spec: Spec, index: int, sizes: Sequence[Mapping[str, int]], seed: int
                 ) -> None:
        raise RuntimeError("no memory is left")


def find_fake_gpus(wanted: Sequence[int] | None, jobs: int, timeout: float) -> Local:
    """A machine with one."""
    return Local("Fake GPU", "sm_80", 1, jobs, Peaks(4e12, 6e13, 9e14, 2e11), [0], timeout, FakeGpu)
