"""A search on the workers of a dask.distributed scheduler (package distributed).

The scheduler hands out the same jobs that run locally.  On each of its workers the jobs go to
processes of their own, as on one machine (`sites.Local`), so that a candidate that faults or hangs
costs no worker.  One worker on each machine should see its GPUs: two that share one would measure
at the same time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from importlib import import_module
from pickle import dumps
from typing import Any

from tritonc.records import NamedTuple, dataclass
from tritonc.source import fail
from tritonc.tune.workers.jobs import Spec
from tritonc.tune.workers.sites import Executors, Local, Site, Size, local_gpus

Find = Callable[[Sequence[int] | None, int, float], Local | None]


@dataclass(frozen=True)
class Cluster(Site):
    """The workers of a scheduler; those at `addresses` have GPUs like the first that has any."""

    client: Any
    find: Find
    timeout: float
    addresses: Sequence[str]

    @staticmethod
    def connect(address: str, timeout: float, find: Find = local_gpus) -> "Cluster":
        """The cluster of a scheduler.  `find` says what a worker's machine has.

        Raises CompileError if the package is missing, nobody answers, or no worker has a GPU."""
        try:
            distributed: Any = import_module("distributed")  # optional: for who has a cluster
        except ImportError:
            raise fail("no-cluster", None, "--cluster needs the package distributed: "
                       "pip install distributed") from None
        try:
            client = distributed.Client(address, timeout=10)
            found: dict[str, Site] = dict(sorted(client.run(_describe, find, timeout).items()))
        except (OSError, ValueError) as error:
            raise fail("no-cluster", None, f"no scheduler answers at {address}: {error}") from None
        first = next((site for site in found.values() if site.measurers), None)
        if first is None:
            raise fail("no-device", None, f"no worker of {address} has a GPU")
        alike = {name: site for name, site in found.items() if site.device == first.device}
        return Cluster(first.device, first.target, sum(s.measurers for s in alike.values()),
                       sum(s.jobs for s in found.values()), first.peaks, client, find, timeout,
                       [*alike])

    @contextmanager
    def executors(self, spec: Spec, sizes: Sequence[Size], seed: int) -> Iterator[Executors]:
        where = _Where(self.find, self.timeout, spec, list(sizes), seed)
        try:
            yield Executors(
                _Remote(self.client.get_executor(pure=False), where, 0),
                _Remote(self.client.get_executor(pure=False, workers=self.addresses), where, 1))
        finally:
            self.client.run(_close)
            self.client.close()


class _Where(NamedTuple):
    """What a worker needs to start its processes."""

    find: Find
    timeout: float
    spec: Spec
    sizes: Sequence[Size]
    seed: int


class _Remote(NamedTuple):
    """An executor: number `kind` of the `Executors` of some worker."""

    executor: Any
    where: _Where
    kind: int

    def submit(self, function: Callable[[Any, Any], Any], argument: Any) -> Future[Any]:
        found: Future[Any] = self.executor.submit(_run, self.where, self.kind, function, argument)
        return found


# --- on a worker ----------------------------------------------------------------------------------

_started: dict[str, tuple[ExitStack, Executors]] = {}


def _describe(find: Find, timeout: float, dask_worker: Any = None) -> Site:
    """What a worker has, which dask hands over."""
    threads = int(dask_worker.state.nthreads)
    local = find(None, threads, timeout)
    return Site("", "", 0, threads, None) if local is None else Site(
        local.device, local.target, local.measurers, threads, local.peaks)


def _threads() -> int:
    distributed: Any = import_module("distributed")
    return int(distributed.get_worker().state.nthreads)


def _run(where: _Where, kind: int, function: Callable[[Any, Any], Any], argument: Any) -> Any:
    """Do a job in a process of this worker's.  What it raises is returned, and fills no log."""
    key = sha256(dumps(where)).hexdigest()
    if key not in _started:
        local = where.find(None, _threads(), where.timeout)
        if local is None:
            local = Local("", "", 0, _threads(), None, [], where.timeout, _no_device)
        stack = ExitStack()
        executors = stack.enter_context(local.executors(where.spec, where.sizes, where.seed))
        if _started.setdefault(key, (stack, executors))[0] is not stack:
            stack.close()  # another thread was faster
    future = _started[key][1][kind].submit(function, argument)
    error = future.exception()
    return future.result() if error is None else error


def _no_device(spec: Spec, index: int, sizes: Sequence[Mapping[str, int]], seed: int) -> Any:
    raise AssertionError("a worker without GPUs was asked to measure")


def _close() -> None:
    """End this worker's processes."""
    while _started:
        _, (stack, _) = _started.popitem()
        stack.close()
