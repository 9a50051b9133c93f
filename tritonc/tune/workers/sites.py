"""Where a search runs: this machine and its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from tritonc.launch.cuda import Peaks
from tritonc.tune.search.schedule import Executor
from tritonc.tune.timing.measure import Device
from tritonc.tune.workers.jobs import Compiler, Spec
from tritonc.tune.workers.workers import SetUp, Workers

COMPILE_SECONDS = 120.0  # that compiling a candidate may take
Size = Mapping[str, int]
# Makes the device of a measuring process: GPU `index`, with the data of some sizes, by a seed.
Open = Callable[[Spec, int, Sequence[Size], int], Device]


class Executors(NamedTuple):
    """Who compiles and who measures."""

    compiling: Executor
    measuring: Executor


@dataclass(frozen=True)
class Site:
    """GPUs of one kind: `device` is their name, `target` what to compile for.  `jobs` processes
    compile, and one measures for each GPU."""

    device: str
    target: str
    indices: Sequence[int]
    jobs: int
    timeout: float  # seconds that a candidate may take
    open_device: Open
    peaks: Peaks | None = None

    @property
    def measurers(self) -> int:
        return len(self.indices)

    @contextmanager
    def executors(self, spec: Spec, sizes: Sequence[Size], seed: int) -> Iterator[Executors]:
        setups = [SetUp(self.open_device, (spec, index, list(sizes), seed))
                  for index in self.indices]
        with (Workers(setups, self.timeout, eager=True) as measuring,
              Workers([SetUp(Compiler, (spec,))] * self.jobs, COMPILE_SECONDS, eager=True
                      ) as compiling):
            yield Executors(compiling, measuring)


def local_gpus(wanted: Sequence[int] | None, jobs: int, timeout: float) -> Site | None:
    """This machine with its GPUs, or those of `wanted`; None if there are none.

    Where they differ, those that are like the first.  Raises CompileError if one of `wanted` is
    missing.
    """
    from tritonc.launch.cuda import Device as Gpu
    from tritonc.launch.cuda import device_count
    from tritonc.tune.timing.cuda_device import CudaDevice

    indices = list(range(device_count())) if wanted is None else list(wanted)
    if not indices:
        return None
    gpus = {index: Gpu(index) for index in indices}
    first = gpus[indices[0]]
    alike = [index for index, gpu in gpus.items() if gpu.name == first.name]
    return Site(first.name, first.target, alike, jobs, timeout, CudaDevice, first.peaks())
