"""Kernels for tests of the backend, built by calls, and running them before and after passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from simulator import machine as simulate

from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.backend.target.target import find
from tritonc.interp.interpreter import Frame, Handler, Memory, run
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Module, Op, ParameterInfo, Value
from tritonc.ir.numeric.formats import memory_dtype, register_dtype, to_memory
from tritonc.ir.syntax.parse import parse_module
from tritonc.ir.syntax.text import print_kernel
from tritonc.ir.types import I32, Element, Pointer, Scalar, Type, element, is_pointer, make, shape
from tritonc.ir.verify import verify
from tritonc.source import Diagnostics, SourceFile


class Sketch:
    """A kernel in the making: `k.add(x, y)` is an operation, `k.pointer("x", F32, a)` a buffer."""

    def __init__(self, name: str = "k", warps: int | None = None) -> None:
        self.kernel = Kernel(name, [], [])
        if warps is not None:
            self.kernel.attributes["num_warps"] = warps
        self.arguments: list[Any] = []
        self.grid: tuple[int, ...] = (1,)
        self.build = Builder(self.block("entry"))
        self.counts: dict[str, int] = {}

    def block(self, name: str) -> Block:
        found = Block(f"{name}{len(self.kernel.blocks)}" if self.kernel.blocks else name)
        self.kernel.blocks.append(found)
        return found

    # parameters

    def pointer(self, name: str, e: Scalar, array: Any, **info: Any) -> Value:
        """A buffer that holds `array` (held form) at the start."""
        return self._parameter(name, Pointer(e), np.asarray(array, register_dtype(e)), info)

    def integer(self, name: str, number: int, **info: Any) -> Value:
        return self._parameter(name, I32, number, info)

    def _parameter(self, name: str, t: Type, argument: Any, info: dict[str, Any]) -> Value:
        value = Value(t, name)
        self.kernel.parameters.append(value)
        self.kernel.info.append(ParameterInfo(**info))
        self.arguments.append(argument)
        return value

    # operations

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name not in ALL_OPS:
            raise AttributeError(name)
        return lambda *operands, **given: self.build.value(name, *operands, **given)

    def emit(self, name: str, *operands: Value, **given: Any) -> Op:
        return self.build.emit(name, *operands, **given)

    def number(self, value: float, t: Type = I32) -> Value:
        return self.build.constant(value, t)

    def full(self, value: float, e: Element, *extents: int) -> Value:
        return self.build.constant(value, make(e, extents))

    def arange(self, n: int, start: int = 0) -> Value:
        return self.build.value("range", start=start, stop=start + n)

    def indices(self, axis: int, n: int) -> Value:
        """This instance's slice of the global range."""
        self.kernel.tile[axis] = n
        return self.build.value("get_global_range", axis=axis, extent=n)

    def spread(self, value: Value, extents: Sequence[int], axis: int = -1) -> Value:
        """A scalar, or a tile of one axis lying along `axis`, in every element of a tile."""
        t = make(element(value.type), tuple(extents))
        if not shape(value.type):
            return self.build.value("splat", value, type=t) if extents else value
        if shape(value.type) == tuple(extents):
            return value
        if len(shape(value.type)) == 1:
            flat = [1] * len(extents)
            flat[axis] = shape(value.type)[0]
            value = self.build.value("reshape", value, type=make(element(t), tuple(flat)))
        return self.build.value("broadcast", value, type=t)

    def at(self, base: Value, index: Value) -> Value:
        """The pointers base + index."""
        return self.build.value("addptr", self.spread(base, shape(index.type)), index)

    def matrix(self, base: Any, rows: Any, columns: Any, extents: tuple[int, int], turned: bool,
               stride: Any) -> Any:
        """Pointers to a tile of a matrix, which is stored transposed if `turned`."""
        slow, fast = (columns, rows) if turned else (rows, columns)
        step = self.mul(slow, self.spread(stride, [slow.type.shape[0]]))
        axis = 1 if turned else 0
        return self.at(base, self.add(self.spread(step, extents, axis),
                                      self.spread(fast, extents, 1 - axis)))

    def rows(self, base: Value, rows: Value, stride: Value | int, columns: Value) -> Value:
        """base + rows[:, newaxis] * stride + columns."""
        extents = (*shape(rows.type), *shape(columns.type))
        if isinstance(stride, int):
            stride = self.number(stride)
        step = self.build.value("mul", rows, self.spread(stride, shape(rows.type)))
        both = self.build.value("add", self.spread(step, extents, 0), self.spread(columns, extents))
        return self.at(base, both)

    def less(self, index: Value, bound: Value, extents: Sequence[int] = (),
             axis: int = -1) -> Value:
        found = self.build.value("icmp", index, self.spread(bound, shape(index.type)),
                                 predicate="slt")
        return self.spread(found, extents or shape(index.type), axis)

    def load(self, p: Value, guard: Value | None = None, **attributes: Any) -> Value:
        return self.build.value("load", p, guard=guard, **attributes)

    def load_or_zero(self, p: Value, condition: Value) -> Value:
        """`condition ? *p : 0`, as the source's form lowers."""
        yes, no = self.build.emit("cmpp", condition).results
        found = self.build.value("load", p, guard=yes)
        zero = self.build.constant(0, found.type)
        return self.build.value("psi", yes, found, no, zero)

    def store(self, p: Value, value: Value, guard: Value | None = None) -> None:
        self.build.emit("store", p, value, guard=guard)

    @contextmanager
    def loop(self, count: Value, *carried: Value) -> Iterator[Loop]:
        """`for (i = 0; i < count; ++i)`; the body sets `loop.next`; then `loop.values` hold."""
        before = self.build.block
        start = self.number(0)
        header, body = self.block("header"), self.block("body")
        self.build.emit("br", blocks=[header])
        phis = [Op("phi", [v], {}, (v.type,), blocks=[before]) for v in (start, *carried)]
        header.ops += phis
        self.build.block = header
        test = self.build.value("icmp", phis[0].result, count, predicate="slt")
        branch = self.build.emit("cond_br", test, blocks=[body, body])
        self.build.block = body
        loop = Loop(phis[0].result, [p.result for p in phis[1:]], [p.result for p in phis[1:]])
        yield loop
        step = self.build.value("add", loop.index, self.number(1))
        self.build.emit("br", blocks=[header])
        for phi, value in zip(phis, (step, *loop.next), strict=True):
            phi.operands.append(value)
            phi.blocks.append(self.build.block)
        branch.blocks[1] = self.build.block = self.block("exit")

    @contextmanager
    def branch(self, condition: Value, *values: Value) -> Iterator[Loop]:
        """`if (condition) values = next`; the body sets `next`; then `values` hold what is."""
        before, then = self.build.block, self.block("then")
        test = self.build.emit("cond_br", condition, blocks=[then, then])
        self.build.block = then
        branch = Loop(condition, list(values), list(values))
        yield branch
        last, after = self.build.block, self.block("after")
        self.build.emit("br", blocks=[after])
        test.blocks[1] = after
        phis = [Op("phi", [old, new], {}, (old.type,), blocks=[before, last])
                for old, new in zip(values, branch.next, strict=True)]
        after.ops += phis
        branch.values = [phi.result for phi in phis]
        self.build.block = after

    def done(self) -> Program:
        """The kernel, through its text and back."""
        self.build.emit("ret")
        return Program(print_kernel(self.kernel), self.arguments, self.grid)


@dataclass
class Loop:
    """The values that a loop or a branch changes: as they are, and as they will be."""

    index: Value
    values: list[Value]
    next: list[Value]


@dataclass
class Program:
    """A module of one kernel, or its text, which is parsed if anything asks for the module, and the
    arguments of a launch: arrays in held form, numbers."""

    given: Module | str
    arguments: list[Any]
    grid: tuple[int, ...]
    expected: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def module(self) -> Module:
        return parse(self.given) if isinstance(self.given, str) else self.given

    @property
    def kernel(self) -> Kernel:
        return self.module.kernels[0]

    def run(self, check: bool = True, watched: dict[Op, None] | None = None,
            names: Sequence[str] = ()) -> dict[str, Any]:
        """What each buffer holds afterwards, in memory form.

        Operations of `names` that were executed are added to `watched`.
        """
        handlers = simulate.handlers(check)
        for name in names:
            assert watched is not None
            handlers[name] = _watch(handlers[name], watched)
        memory = Memory()
        numbers = []
        for parameter, argument in zip(self.kernel.parameters, self.arguments, strict=True):
            if is_pointer(parameter.type):
                pointed = parameter.type
                assert isinstance(pointed, Pointer)
                held = np.asarray(argument, register_dtype(pointed.element))
                raw = np.ascontiguousarray(to_memory(pointed.element, held))
                argument = memory.allocate(raw.view(memory_dtype(pointed.element)), parameter.name)
            numbers.append(argument)
        run(self.module, self.kernel.name, numbers, memory, self.grid, table=ALL_OPS,
            handlers=handlers)
        return {b.name: b.array for b in memory.buffers}

    def text(self) -> str:
        if isinstance(self.given, str) and "module" not in vars(self):
            return self.given
        return print_kernel(self.kernel)

    def copy(self) -> Program:
        return Program(self.text(), self.arguments, self.grid)


def _watch(handler: Handler, watched: dict[Op, None]) -> Handler:
    def handle(frame: Frame, op: Op) -> Any:
        watched[op] = None
        return handler(frame, op)

    return handle


def parse(text: str) -> Module:
    """The module of a `.tir` text, verified."""
    diagnostics = Diagnostics()
    module = parse_module(SourceFile("test.tir", text), diagnostics, ALL_OPS)
    verify(module, "parsing", ALL_OPS)
    return module


def context(target: str = "sm_80", **meta: int) -> Context:
    return Context(target=find(target), meta=meta)


def same(a: dict[str, Any], b: dict[str, Any], tolerance: float = 0.0) -> None:
    """Assert that two launches left the same memory."""
    assert a.keys() == b.keys()
    for name, array in a.items():
        if tolerance and array.dtype.kind == "f":
            np.testing.assert_allclose(b[name], array, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(b[name], array)

