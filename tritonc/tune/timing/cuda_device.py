"""A GPU as the tuner's device: data stay on it, results are checked there and then timed.

The reference of a large problem takes seconds to compute and to compare with.  So what was found
right is kept on the GPU and compared there: most candidates add in the same order and give the
same bits."""

import ast
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tritonc import driver
from tritonc.ir.core import Module
from tritonc.launch.compare import differences
from tritonc.launch.cuda import Buffer, Device, arguments
from tritonc.launch.data import Data, grid_of, prepare
from tritonc.launch.packing import FORMATS, POINTER, packed
from tritonc.launch.run_problems import kernel_of
from tritonc.options import Options
from tritonc.problem.lines import Problem
from tritonc.records import dataclass
from tritonc.source import SourceFile
from tritonc.tune.search.journal import Name, name_of
from tritonc.tune.workers.jobs import Code, Spec

_LOADED = 16  # modules kept on the GPU
_COMPARED = 1 << 32  # bytes, in one launch
_RIGHT_SHARE = 0.25  # of the free memory, for results of all sizes that were found right


@dataclass
class _Session:
    """The data of one size on the GPU.  `changed`: the arguments that a launch writes, each with
    a copy of what it holds before."""

    data: Data
    buffers: dict[str, Buffer]
    changed: dict[str, int]
    stack: ExitStack
    room: int  # bytes for `right`
    right: list[dict[str, int]] = field(default_factory=list)  # copies, the one used last first


@dataclass
class _Loaded:
    module: Any
    entry: Any
    graphs: dict[tuple[int, int], Any] = field(default_factory=dict)


class CudaDevice:
    """A `measure.Device`."""

    def __init__(self, spec: Spec, index: int, sizes: Sequence[Mapping[str, int]], seed: int = 0
                 ) -> None:
        """Open GPU `index` and put the data of `sizes` there.  Raises CompileError."""
        self.source, self.problem, self.options = spec.read()
        self.seed = seed
        self.share = _RIGHT_SHARE / max(len(sizes), 1)
        self.gpu = Device(index).__enter__()
        self.driver = self.gpu.driver
        self.stream = self._call("make a stream", self.driver.cuStreamCreate(0))
        self.events = [self._call("make an event", self.driver.cuEventCreate(0)) for _ in range(2)]
        self.loaded: dict[str, _Loaded] = {}
        self.sessions: dict[tuple[Name, Name], _Session] = {}
        self._load_compare()
        self.mentioned = _mentioned(self.problem)
        tunables = {name for kernel in self.module({}).kernels for name in kernel.tunables}
        if not self.mentioned & tunables:
            for size in sizes:
                self._session({}, size).data.expected()

    def data(self, code: Code, size: Mapping[str, int]) -> Data:
        """What a candidate works on."""
        return self._session(code.binding, size).data

    def check(self, code: Code, size: Mapping[str, int]) -> tuple[list[str], float]:
        session = self._session(code.binding, size)
        for name, copy in session.changed.items():
            buffer = session.buffers[name]
            self._call("restore data", self.driver.cuMemcpyDtoDAsync(
                buffer.address, copy, buffer.size, self.stream))
        milliseconds = self.milliseconds(code, size, 1)
        return self._differences(session), milliseconds

    def _differences(self, session: _Session) -> list[str]:
        """What is wrong after a launch."""
        for place, right in enumerate(session.right):
            if self._same(session, right):
                session.right.insert(0, session.right.pop(place))
                return []
        values = {v.name: v for v in session.data.arguments if v.pointer}
        after = {name: self.gpu.read(v, session.buffers[name]) for name, v in values.items()}
        wrong = differences(session.data, after)
        if wrong:
            self._close(session)  # it may have written elsewhere, too
        else:
            self._keep(session)
        return wrong

    def _same(self, session: _Session, right: Mapping[str, int]) -> bool:
        """Whether all that a launch may change, with its guards, is as it was once found right."""
        self._call("compare", self.driver.cuMemsetD32Async(self.count, 0, 1, self.stream))
        for name, copy in right.items():
            start, length = _whole(session.buffers[name])
            for at in range(0, length, _COMPARED):
                words = min(length - at, _COMPARED) // 4
                block = packed([POINTER, POINTER, POINTER, FORMATS["i32"]],
                               [start + at, copy + at, self.count, words])
                self.gpu.start(self.compare, (-(-words // self.compared),), block,
                               self.compare_threads, 0, self.stream)
        self._call("compare", self.driver.cuMemcpyDtoHAsync(
            self.found.ctypes.data, self.count, 4, self.stream))
        self._call("compare", self.driver.cuStreamSynchronize(self.stream))
        return not self.found[0]

    def _keep(self, session: _Session) -> None:
        """Keep the result, which is right, if there is room."""
        kept = {}
        for name in session.changed:
            start, length = _whole(session.buffers[name])
            if session.room < length:
                return
            session.room -= length
            kept[name] = int(self._call("allocate memory", self.driver.cuMemAlloc(length)))
            session.stack.callback(self.driver.cuMemFree, kept[name])
            self._call("copy data", self.driver.cuMemcpyDtoD(kept[name], start, length))
        session.right.insert(0, kept)

    def milliseconds(self, code: Code, size: Mapping[str, int], launches: int) -> float:
        loaded = self._load(code, self._session(code.binding, size))
        start, end = self.events
        graph = self._graph(code, size, loaded, launches) if launches > 1 else None
        self._call("record", self.driver.cuEventRecord(start, self.stream))
        if graph is None:
            self._start(code, size)
        else:
            self._call("launch the kernel", self.driver.cuGraphLaunch(graph, self.stream))
        self._call("record", self.driver.cuEventRecord(end, self.stream))
        self._call("run the kernel", self.driver.cuEventSynchronize(end))
        elapsed = self._call("take the time", self.driver.cuEventElapsedTime(start, end))
        return float(elapsed) / launches

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def _load_compare(self) -> None:
        text = (Path(__file__).parent / "compare.tc").read_text(encoding="utf-8")
        source = SourceFile("compare.tc", text)
        result = driver.compile(source, Options(arch=self.gpu.target), ("ptx",))
        assert result.manifest is not None
        (entry,) = result.manifest["kernels"]
        self.compare_threads, (self.compared,) = entry["threads"], entry["tile"]
        _, self.compare = self.gpu.load(result.outputs["ptx"].encode(), "compare", 0)
        self.count = int(self._call("allocate memory", self.driver.cuMemAlloc(4)))
        self.found = np.zeros(1, np.int32)

    def _call(self, what: str, result: tuple[Any, ...]) -> Any:
        return self.gpu.call(what, result)

    def _start(self, code: Code, size: Mapping[str, int]) -> None:
        session = self._session(code.binding, size)
        loaded = self._load(code, session)
        grid = grid_of(self.problem, session.data.kernel.name, dict(enumerate(code.tile)),
                       session.data.names)
        self.gpu.start(loaded.entry, grid, arguments(session.data, session.buffers), code.threads,
                       code.dynamic_shared, self.stream, code.cluster)

    def _load(self, code: Code, session: _Session) -> _Loaded:
        """The candidate on the GPU; the one used longest ago makes room."""
        loaded = self.loaded.pop(code.digest, None)
        if loaded is None:
            loaded = _Loaded(*self.gpu.load(code.image, session.data.kernel.name,
                                            code.dynamic_shared))
            if session.data.tables:
                self.gpu.fill_tables(loaded.module, self.module(code.binding), session.data)
            while len(self.loaded) >= _LOADED:
                oldest = self.loaded.pop(next(iter(self.loaded)))
                for graph in oldest.graphs.values():
                    self.driver.cuGraphExecDestroy(graph)
                self.driver.cuModuleUnload(oldest.module)
        self.loaded[code.digest] = loaded
        return loaded

    def _graph(self, code: Code, size: Mapping[str, int], loaded: _Loaded, launches: int) -> Any:
        """Several launches as one, so that what the host needs for each is not measured."""
        key = id(self._session(code.binding, size)), launches
        if key not in loaded.graphs:
            mode = self.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            self._call("record", self.driver.cuStreamBeginCapture(self.stream, mode))
            for _ in range(launches):
                self._start(code, size)
            graph = self._call("record", self.driver.cuStreamEndCapture(self.stream))
            loaded.graphs[key] = self._call("record", self.driver.cuGraphInstantiate(graph, 0))
            self.driver.cuGraphDestroy(graph)
            self._call("launch the kernel",
                       self.driver.cuGraphLaunch(loaded.graphs[key], self.stream))
        return loaded.graphs[key]

    def module(self, binding: Mapping[str, int]) -> Module:
        """The program with its tunables bound, as far as data need it."""
        result = driver.compile(self.source, self._with(binding), ("tir",))
        assert result.module is not None
        return result.module

    def _with(self, binding: Mapping[str, int]) -> Options:
        return replace(self.options, tune={**self.options.tune, **binding}, tuning=None,
                       stop_after=driver.LOWER)

    def _session(self, binding: Mapping[str, int], size: Mapping[str, int]) -> _Session:
        """The data of a size, of which there may be several where tunables shape them."""
        own = {name: value for name, value in binding.items() if name in self.mentioned}
        key = name_of(size), name_of(own)
        if key not in self.sessions:
            for other in [s for k, s in self.sessions.items() if k[0] == key[0]]:
                self._close(other)
            self.sessions[key] = self._open(binding, size)
        return self.sessions[key]

    def _open(self, binding: Mapping[str, int], size: Mapping[str, int]) -> _Session:
        module = self.module(binding)
        data = prepare(self.problem, module, kernel_of(self.problem, module), size, self.seed)
        stack = ExitStack()
        buffers = stack.enter_context(self.gpu.buffers(data))
        names = {e.name for e in self.problem.expects} | {n for n, _ in self.problem.clobbers}
        changed = {}
        for name in sorted(names & set(buffers)):
            address, count, _ = buffers[name]
            copy = int(self._call("allocate memory", self.driver.cuMemAlloc(max(count, 1))))
            stack.callback(self.driver.cuMemFree, copy)
            self._call("copy data", self.driver.cuMemcpyDtoD(copy, address, count))
            changed[name] = copy
        free, _ = self._call("ask the GPU", self.driver.cuMemGetInfo())
        return _Session(data, buffers, changed, stack, int(free * self.share))

    def _close(self, session: _Session) -> None:
        for loaded in self.loaded.values():  # graphs hold addresses
            for graph in loaded.graphs.values():
                self.driver.cuGraphExecDestroy(graph)
            loaded.graphs.clear()
        self.sessions = {k: s for k, s in self.sessions.items() if s is not session}
        session.stack.close()


def _whole(buffer: Buffer) -> tuple[int, int]:
    """Address and bytes of a buffer with its guards, of which up to three bytes at the end go."""
    return buffer.address - buffer.guard, (buffer.size + 2 * buffer.guard) // 4 * 4


def _mentioned(problem: Problem) -> frozenset[str]:
    """Every name in the problem's expressions."""
    expressions = [*problem.range, *(n.expression for group in (
        problem.sizes, problem.arguments, problem.lets, problem.expects, problem.symbols,
        problem.pads) for n in group)]
    return frozenset(node.id for e in expressions for node in ast.walk(e.node)
                     if isinstance(node, ast.Name))
