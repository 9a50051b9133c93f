"""Sizes, instance and element that refute: small sizes run in the interpreter.

Accesses are watched one by one: one that leaves its buffer is noted, with the first element that
does, and goes on without those elements; so one run finds all accesses that are wrong at its sizes.
A second run of sizes at which nothing is wrong looks for instances that touch one byte."""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from tritonc.interp.frame import Frame, Handler, Launch
from tritonc.interp.interpreter import InterpreterError
from tritonc.interp.memory import Memory
from tritonc.interp.memory_steps import atomic, load, store
from tritonc.ir.core import Kernel, Module, Op
from tritonc.ir.numeric.formats import memory_dtype, register_dtype
from tritonc.ir.ops import OPS
from tritonc.ir.types import Scalar, element
from tritonc.launch.data import Data, prepare, size_values
from tritonc.launch.interpreter import Running, launch
from tritonc.problem.lines import Problem
from tritonc.prove.accesses import ACCESSES
from tritonc.records import dataclass
from tritonc.source import CompileError

SECONDS = 10.0  # that a search may take
_RUNS = 80
_STEPS = 100_000  # operations of an instance
_ELEMENTS = 1 << 20  # of all arguments together
_FIRST = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)


@dataclass
class Witnesses:
    """What was found: by access, and by the buffer that instances share."""

    outside: dict[Op, str] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    runs: int = 0


def search(problem: Problem, module: Module, kernel: Kernel, wanted: set[Op], buffers: set[str],
           seconds: float = SECONDS) -> Witnesses:
    """Run the kernel at small sizes until `wanted` and `buffers` are refuted, or the time is up."""
    found, end = Witnesses(), time.monotonic() + seconds
    for sizes in candidates(problem, kernel):
        if found.runs >= _RUNS or time.monotonic() > end:
            break
        if wanted <= set(found.outside) and buffers <= set(found.shared):
            break
        try:
            data = prepare(problem, module, kernel, sizes)
        except CompileError:
            continue  # not of this problem
        if sum(np.size(value.held) for value in data.arguments) > _ELEMENTS:
            continue
        found.runs += 1
        before = len(found.outside)
        _run(module, data, found, end)
        if len(found.outside) == before and not buffers <= set(found.shared):
            _run_together(module, data, found)
    return found


def candidates(problem: Problem, kernel: Kernel) -> Iterator[dict[str, int]]:
    """Sizes to try: around nothing, around a tile, and the problem's own."""
    own = size_values(problem, {})
    names = [size.name for size in problem.sizes]
    extents = {n for n in (*kernel.tile.values(), *kernel.tunables.values()) if 1 < n <= 512}
    values = sorted({*_FIRST, *(n + d for n in extents for d in (-1, 0, 1)), *extents})
    factors = [int(n) for line in problem.wheres for n in re.findall(r"%\s*(\d+)", line.text)]
    values += [n * v for n in dict.fromkeys(factors) for v in (1, 2, 3)]
    yield own
    for value in values:
        yield dict.fromkeys(names, value)
        for name in names:
            yield {**own, name: value}
    for value in values:
        for name in names:
            yield {**dict.fromkeys(names, 1), name: value}


def _run(module: Module, data: Data, found: Witnesses, end: float) -> None:
    watch = _Watch(data, found, end)
    handlers: Mapping[str, Handler] = dict.fromkeys(ACCESSES, watch)
    try:
        launch(module, data, OPS, handlers, Running(max_steps=_STEPS, races=False))
    except (CompileError, _OutOfTime):
        return  # what else is wrong with these sizes, `tritonc run` tells


def _run_together(module: Module, data: Data, found: Witnesses) -> None:
    try:
        launch(module, data, OPS, None, Running(max_steps=_STEPS, races=True))
    except InterpreterError as error:
        first = error.diagnostics[0]
        if first.name == "run-race":
            buffer = next((v.name for v in data.arguments
                           if re.search(rf" {re.escape(v.name)} \+ \d", first.message)), "")
            inside = first.notes[-1].message.removeprefix("in ").split(" of kernel")[0]
            text = first.message.removeprefix("a race: ").replace("this", "one", 1)
            found.shared.setdefault(buffer, f"{_sizes(data)}: {inside} {text}")
    except CompileError:
        return


class _OutOfTime(Exception):
    pass


class _Watch:
    """A handler of accesses that notes those outside of all buffers and leaves them out."""

    def __init__(self, data: Data, found: Witnesses, end: float) -> None:
        self.data = data
        self.found = found
        self.end = end
        self.steps: dict[Op, Any] = {}
        self.launch: Launch | None = None

    def __call__(self, frame: Frame, op: Op) -> None:
        if time.monotonic() > self.end:
            raise _OutOfTime
        active = frame.guard(op)
        frame.require(op, op.operands[0], active, "the address of this access")
        addresses = frame.values[op.operands[0]]
        scalar = element(op.result.type if op.results else op.operands[1].type)
        assert isinstance(scalar, Scalar)
        width = memory_dtype(scalar).itemsize
        outside = ~_inside(frame.memory, np.atleast_1d(addresses), width, op.name == "load")
        if active is not None:
            outside &= np.atleast_1d(active)
        if outside.any():
            self._note(frame, op, addresses, outside)
            if op.results:
                zero = np.zeros(np.shape(addresses), register_dtype(scalar))
                frame.define(op.results[0], zero if zero.shape else zero[()])
            return
        if self.launch is not frame.launch:
            self.launch, self.steps = frame.launch, {}
        step = self.steps.get(op)
        if step is None:
            make = {"load": load, "store": store}.get(op.name, atomic)
            step = self.steps[op] = make(frame.launch, op)
        step(frame)

    def _note(self, frame: Frame, op: Op, addresses: Any, outside: Any) -> None:
        if op in self.found.outside:
            return
        first = np.unravel_index(int(np.argmax(outside)), outside.shape)
        at = f", element [{', '.join(map(str, first))}]" if np.ndim(addresses) else ""
        place = frame.memory.place(int(np.atleast_1d(addresses)[first]), True)
        index = ", ".join(map(str, frame.instance.index))
        self.found.outside[op] = f"{_sizes(self.data)}: instance ({index}){at} reaches {place}"


def _inside(memory: Memory, addresses: Any, width: int, reads: bool) -> Any:
    inside = np.zeros(addresses.shape, np.bool_)
    for buffer in memory.buffers:
        pad = buffer.pad if reads else 0
        inside |= (addresses >= buffer.base - pad) & (
            addresses <= buffer.base + buffer.size + pad - width)
    return inside


def _sizes(data: Data) -> str:
    return ", ".join(f"{name} = {value}" for name, value in data.sizes.items()) or "any sizes"
