"""Small kernels for tests of passes: built by a few calls, run before and after, shown as terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tritonc.interp.interpreter import InterpreterError, Memory, run
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Module, ParameterInfo, Value
from tritonc.ir.numeric.formats import memory_dtype
from tritonc.ir.syntax.parse import parse_module
from tritonc.ir.syntax.text import print_kernel
from tritonc.ir.types import (
    F32,
    I1,
    I32,
    I64,
    Pointer,
    Scalar,
    Tile,
    Type,
    element,
    is_pointer,
    make,
    shape,
    with_element,
)
from tritonc.ir.verify import verify
from tritonc.source import Diagnostics, SourceFile

CONTEXT = Context()
N = 8  # elements of each input tile
ITILE, FTILE, CTILE, LTILE = (Tile(e, (N,)) for e in (I32, F32, I1, I64))

_INTS = [0, 1, -1, 2, 3, 5, 7, 8, 31, 32, -8, 100, -100, 65536, 1 << 30, -(1 << 31), (1 << 31) - 1]
_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.25, -7.75, 1e-40, 1e-45, 3e38, -3e38, np.inf, -np.inf,
           np.nan, 123.456, 1 / 3]


class Kernels:
    """A kernel in the making, of one block: `e.a`, `e.f` are inputs, `e.add(x, y)` an operation.

    a, b: i32<8>; f, g, h: f32<8>; c, d: i1<8>; x, y, nat: i32, nat >= 0; s, t: f32; u: i1; w: i64;
    p: f32*<8>, q: f32*
    """

    def __init__(self) -> None:
        self.parameters: dict[str, Value] = {}
        self.block = Block("entry")
        self.build = Builder(self.block)
        self.inputs: dict[str, Value] = {}
        self.blocks = [self.block]
        for name, e in (("pa", I32), ("pb", I32), ("pf", F32), ("pg", F32), ("ph", F32),
                        ("pc", I1), ("pd", I1)):
            base = self.parameter(name, Pointer(e))
            self.inputs[name[1]] = self.build.value("load", self.elements(base, e))
        for name, t in (("x", I32), ("y", I32), ("s", F32), ("t", F32), ("u", I1), ("w", I64),
                        ("n", I32)):
            self.inputs[name] = self.parameter(name, t)
        self.inputs["nat"] = self.op("and", self.inputs["n"], self.const((1 << 31) - 1, I32))
        self.inputs["q"] = self.parameter("q", Pointer(F32))
        self.inputs["p"] = self.elements(self.inputs["q"], F32)
        for name, value in self.inputs.items():
            value.name = name

    def parameter(self, name: str, t: Type) -> Value:
        self.parameters[name] = Value(t, name)
        return self.parameters[name]

    def elements(self, base: Value, e: Scalar, count: int = N) -> Value:
        t = Tile(Pointer(e), (count,))
        indices = self.build.value("range", start=0, stop=count)
        return self.build.value("addptr", self.build.value("splat", base, type=t), indices)

    def op(self, op_name: str, *operands: Value, type: Type | None = None, **more: Any) -> Value:
        return self.build.value(op_name, *operands, type=type, **more)

    def const(self, number: float, t: Type = ITILE) -> Value:
        return self.build.constant(number, t)

    def splat(self, scalar: Value, *extents: int) -> Value:
        return self.op("splat", scalar, type=make(element(scalar.type), extents or (N,)))

    def inverse(self, c: Value) -> Value:
        return self.op("xor", c, self.const(True, c.type))

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("inputs", {}):
            return self.inputs[name]
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *operands, **more: self.op(name.rstrip("_"), *operands, **more)

    def finish(self, *results: Value) -> Kernel:
        """Store the results, in the current block, and end the kernel."""
        for i, result in enumerate(results):
            e = element(result.type)
            if is_pointer(result.type):
                result = self.op("ptrtoint", result, type=with_element(result.type, I64))
                e = I64
            out = self.parameter(f"out{i}", Pointer(e))
            extents = shape(result.type)
            if extents:
                count = int(np.prod(extents))
                where = self.elements(out, e, count)
                if len(extents) > 1:
                    where = self.op("reshape", where, type=make(Pointer(e), extents))
            else:
                where = out
            self.build.emit("store", where, result)
        self.build.emit("ret")
        parameters = list(self.parameters.values())
        return Kernel("k", parameters, [ParameterInfo() for _ in parameters], self.blocks)


def make_kernel(body: Callable[[Kernels], Any]) -> Kernel:
    """The kernel that stores what `body` returns: a value, or several."""
    e = Kernels()
    results = body(e)
    return e.finish(*(results if isinstance(results, tuple | list) else (results,)))


def stored(kernel: Kernel) -> list[Value]:
    """What the kernel stores, in order; the pointer, where its address is stored."""
    values = [op.operands[1] for op in kernel.ops() if op.name == "store"]
    return [v.op.operands[0] if v.op is not None and v.op.name == "ptrtoint" else v
            for v in values]


def term(value: Value, depth: int = 12) -> str:
    """A value as a term over inputs: `add(a, 3)`."""
    op = value.op
    inputs = ("a", "b", "f", "g", "h", "c", "d", "p", "nat")
    if op is None or (value.name in inputs and op.name in ("load", "addptr", "and")) or not depth:
        return value.name
    if op.name == "constant":
        number = op.attributes["value"]
        return str(number)
    parts = [term(v, depth - 1) for v in op.operands]
    for name, attribute in op.attributes.items():
        parts.append(attribute if name == "predicate" else f"{name}={attribute}")
    if op.guard is not None:
        parts.append("@" + term(op.guard, depth - 1))
    which = f".{op.results.index(value)}" if len(op.results) > 1 else ""
    return f"{op.name}{which}({', '.join(parts)})"


def terms(kernel: Kernel) -> str:
    return "; ".join(map(term, stored(kernel)))


def parse(text: str) -> Kernel:
    """The first kernel of a text of Triton-IR."""
    return parse_module(SourceFile("test.tir", text), Diagnostics()).kernels[0]


def body_text(kernel: Kernel) -> str:
    """The text of a kernel without its head line and the closing brace."""
    return "\n".join(print_kernel(kernel).splitlines()[1:-1])


def arguments_for(kernel: Kernel, seed: int) -> tuple[Memory, list[Any]]:
    """Memory and arguments: numbers that are on edges, or small."""
    rng = np.random.default_rng(seed)
    memory, arguments = Memory(), []
    for v in kernel.parameters:
        e = element(v.type)
        if isinstance(e, Pointer):
            size = 4096
            if v.name.startswith("out"):
                array = np.zeros(size, memory_dtype(e.element))
            elif e.element.is_float:
                array = rng.choice(np.array(_FLOATS), size).astype(memory_dtype(e.element))
            elif e.element.bits == 1:
                array = rng.integers(0, 2, size).astype(np.uint8)
            else:
                array = rng.choice(np.array(_INTS), size).astype(memory_dtype(e.element))
            arguments.append(memory.allocate(array, v.name))
        elif e.is_float:
            arguments.append(float(rng.choice(np.array(_FLOATS))))
        elif e.bits == 1:
            arguments.append(bool(rng.integers(0, 2)))
        else:
            arguments.append(int(rng.choice(np.array(_INTS))))
    return memory, arguments


def outcome(kernel: Kernel, seed: int, grid: tuple[int, ...] = (1,)) -> list[Any] | None:
    """What memory holds after the kernel ran on inputs of that seed; None if it may not run."""
    memory, arguments = arguments_for(kernel, seed)
    try:
        run(Module([kernel]), kernel.name, arguments, memory, grid)
    except InterpreterError:
        return None
    return [buffer.array for buffer in memory.buffers]


def same(before: list[Any], after: list[Any], tolerance: float = 0.0) -> bool:
    """Equal bit for bit, but for the bits of NaNs; or within a relative tolerance."""
    for a, b in zip(before, after, strict=True):
        if a.dtype.kind == "f" and tolerance:
            with np.errstate(all="ignore"):
                if not np.allclose(a, b, tolerance, tolerance, equal_nan=True):
                    return False
        elif a.dtype.kind == "f":
            nan = np.isnan(a)
            if not np.array_equal(nan, np.isnan(b)):
                return False
            if a[~nan].tobytes() != b[~nan].tobytes():
                return False
        elif not np.array_equal(a, b):
            return False
    return True


def check_same_meaning(kernel: Kernel, change: Callable[[Kernel], Any], *,
                       seeds: int = 12, tolerance: float = 0.0,
                       grid: tuple[int, ...] = (1,)) -> None:
    """Run the kernel, change it, verify it and run it again, on several inputs."""
    verify(kernel)
    before = [outcome(kernel, seed, grid) for seed in range(seeds)]
    assert any(arrays is not None for arrays in before), "the test kernel never runs"
    text = print_kernel(kernel)
    change(kernel)
    verify(kernel)
    for seed, wanted in enumerate(before):
        if wanted is not None:
            found = outcome(kernel, seed, grid)
            assert found is not None, f"traps now (seed {seed})\n{text}\n{print_kernel(kernel)}"
            assert same(wanted, found, tolerance), \
                f"differs (seed {seed})\n{text}\n{print_kernel(kernel)}"


