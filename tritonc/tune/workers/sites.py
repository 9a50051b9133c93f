"""Where a search runs: on this machine, or on a cluster (`cluster.py`)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from tritonc.launch.cuda import Peaks
from tritonc.records import NamedTuple, dataclass
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
    """GPUs of one kind, and processors.  `device` is their name, `target` what to compile for;
    so many measurements and compilations go on at a time."""

    device: str
    target: str
    measurers: int
    jobs: int
    peaks: Peaks | None

    def executors(self, spec: Spec, sizes: Sequence[Size], seed: int
                  ) -> AbstractContextManager[Executors]:
        """A context in which there are Executors."""
        raise NotImplementedError


@dataclass(frozen=True)
class Local(Site):
    """This machine: `jobs` processes that compile, and one that measures for each GPU."""

    indices: Sequence[int]
    timeout: float  # seconds that a candidate may take
    open_device: Open

    @contextmanager
    def executors(self, spec: Spec, sizes: Sequence[Size], seed: int) -> Iterator[Executors]:
        setups = [SetUp(self.open_device, (spec, index, list(sizes), seed))
                  for index in self.indices]
        with (Workers(setups, self.timeout, eager=True) as measuring,
              Workers([SetUp(Compiler, (spec,))] * self.jobs, COMPILE_SECONDS, eager=True
                      ) as compiling):
            yield Executors(compiling, measuring)


def local_gpus(wanted: Sequence[int] | None, jobs: int, timeout: float) -> Local | None:
    """This machine with its GPUs, or those of `wanted`; None if there are none.

    Where they differ, those that are like the first.  Raises CompileError if one of `wanted` is
    missing."""
    from tritonc.launch.cuda import Device as Gpu
    from tritonc.launch.cuda import device_count
    from tritonc.tune.timing.cuda_device import CudaDevice

    indices = list(range(device_count())) if wanted is None else list(wanted)
    if not indices:
        return None
    gpus = {index: Gpu(index) for index in indices}
    first = gpus[indices[0]]
    alike = [index for index, gpu in gpus.items() if gpu.name == first.name]
    return Local(first.name, first.target, len(alike), jobs, first.peaks(), alike, timeout,
                 CudaDevice)
