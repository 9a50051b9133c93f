"""Where a search runs: on this machine, or on a cluster (`cluster.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

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


class Site(Protocol):
    """GPUs of one kind, and processors.  `device` is their name, `target` what to compile for,
    `jobs` compilations and `measurers` measurements go on at a time."""

    @property
    def device(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def peaks(self) -> Peaks | None: ...
    @property
    def jobs(self) -> int: ...
    @property
    def measurers(self) -> int: ...

    def executors(self, spec: Spec, sizes: Sequence[Size], seed: int) -> Any:
        """A context in which there are Executors."""
        ...


@dataclass(frozen=True)
class Local:
    """This machine: `jobs` processes that compile, and one that measures for each GPU."""

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
        with (Workers(measuring_setups(self.open_device, self.indices, spec, sizes, seed),
                      self.timeout, eager=True) as measuring,
              Workers([SetUp(Compiler, (spec,))] * self.jobs, COMPILE_SECONDS, eager=True
                      ) as compiling):
            yield Executors(compiling, measuring)


def measuring_setups(open_device: Open, indices: Sequence[int], spec: Spec, sizes: Sequence[Size],
                     seed: int) -> list[SetUp]:
    """How the measuring processes of one machine start."""
    return [SetUp(open_device, (spec, index, list(sizes), seed)) for index in indices]


def local_gpus(wanted: Sequence[int] | None, jobs: int, timeout: float) -> Local | None:
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
    return Local(first.name, first.target, alike, jobs, timeout, CudaDevice, first.peaks())
