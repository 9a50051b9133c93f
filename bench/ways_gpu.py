"""The part of ways.py that needs a GPU: a process that checks and measures kernels in turn.

A problem's `//!` lines are evaluated by torch, on the GPU and in float64, so that 4096 x 4096 takes
milliseconds.  What they may use of NumPy is the table `NP` below.
"""

from __future__ import annotations

import ast
import copy
import math
import os
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import torch
from compiling import Problem, problem_of, size_values
from harness import Kernel, interleaved, load, median, relative_error, spread

TYPES = {"bfloat16": torch.bfloat16, "half": torch.float16, "float16": torch.float16,
         "float": torch.float32, "float8_e4m3": torch.float8_e4m3fn, "signed char": torch.int8,
         "char": torch.int8, "int8": torch.int8, "int": torch.int32, "long": torch.int64,
         "unsigned char": torch.uint8, "unsigned int": torch.uint32, "bool": torch.bool}


def functions(device: str) -> dict[str, Any]:
    """The names that a problem's expressions have: random numbers, and `np` by torch."""

    def maximum(a: Any, b: Any) -> Any:
        return torch.maximum(a, torch.as_tensor(b, dtype=a.dtype, device=a.device))

    np = types.SimpleNamespace(
        inf=math.inf, exp=torch.exp, log=torch.log, sqrt=torch.sqrt, tanh=torch.tanh,
        maximum=maximum, where=torch.where, swapaxes=torch.swapaxes, argsort=torch.argsort,
        transpose=lambda x, *axes: torch.permute(x, axes),
        max=lambda x, axis, keepdims=False: torch.amax(x, axis, keepdim=keepdims),
        sum=lambda x, axis, keepdims=False: torch.sum(x, axis, keepdim=keepdims),
        concatenate=lambda parts, axis: torch.cat(parts, axis),
        repeat=lambda x, count, axis: torch.repeat_interleave(x, count, dim=axis),
        nonzero=lambda x: torch.nonzero(x, as_tuple=True),
        arange=lambda *bounds: torch.arange(*bounds, device=device),
        zeros=lambda extents: torch.zeros(extents, device=device, dtype=torch.float64),
        array=lambda values: torch.tensor(values, device=device))
    return {
        "np": np, "arange": np.arange,
        "randn": lambda *shape: torch.randn(shape, device=device, dtype=torch.float32),
        "rand": lambda *shape: torch.rand(shape, device=device, dtype=torch.float32),
        "randint": lambda low, high, *shape: torch.randint(low, high, shape, device=device),
        "zeros": lambda *shape: torch.zeros(shape, device=device, dtype=torch.float32),
        "empty": lambda *shape: torch.full(shape, float("nan"), device=device)}


class _Functions(ast.NodeTransformer):
    """x.max(2) becomes np.max(x, 2): methods of arrays that torch's tensors have otherwise."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        method = node.func
        if (isinstance(method, ast.Attribute) and method.attr in ("max", "sum", "transpose")
                and not (isinstance(method.value, ast.Name) and method.value.id == "np")):
            np = ast.Name("np", ast.Load())
            return ast.Call(ast.Attribute(np, method.attr, ast.Load()),
                            [method.value, *node.args], node.keywords)
        return node


def evaluate(node: ast.expr, names: dict[str, Any]) -> Any:
    """The value of one of this repository's own expressions."""
    tree = ast.fix_missing_locations(ast.Expression(_Functions().visit(copy.deepcopy(node))))
    return eval(compile(tree, "//!", "eval"), {}, names)


def seen(value: Any) -> Any:
    """A buffer as expressions see it: float64 or int64."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.double() if value.dtype.is_floating_point else value.long()


@dataclass
class Data:
    """The buffers and scalars of a problem, and what its expressions may name."""

    problem: Problem
    arguments: dict[str, Any]
    extents: tuple[int, ...]
    work: float  # floating-point operations, or bytes
    names: dict[str, Any] = field(repr=False)

    def expected(self) -> dict[str, torch.Tensor]:
        """What each changed buffer holds after one launch on the data as they are now."""
        names = {**self.names, **{n: seen(v) for n, v in self.arguments.items()}}
        for let in self.problem.lets:
            names[let.name] = evaluate(let.expression.node, names)
        return {e.name: evaluate(e.expression.node, names) for e in self.problem.expects}

    @property
    def tolerance(self) -> float:
        assert self.problem.tolerance is not None
        return float(evaluate(self.problem.tolerance.node, self.names))


def prepare(problem: Problem, kernel: dict[str, Any], sizes: dict[str, int],
            device: str = "cuda") -> Data:
    """Evaluate a problem at these sizes for a kernel, which is its entry of the manifest."""
    names: dict[str, Any] = {**functions(device), **kernel["tunables"]}
    for name, text, _ in problem.defines:
        names[name] = int(text)
    names |= size_values(problem, sizes)
    arguments: dict[str, Any] = {}
    for argument, parameter in zip(problem.arguments, kernel["parameters"], strict=True):
        value = evaluate(argument.expression.node, {**names, **arguments})
        kind = parameter["type"].replace("const", "").strip()
        if kind.endswith("*"):
            value = value.to(TYPES[kind[:-1].strip()]).contiguous()
        arguments[argument.name] = value
    extents = tuple(int(evaluate(e.node, names)) for e in problem.range)
    work = problem.flops or problem.bytes
    assert work is not None
    return Data(problem, arguments, extents, float(evaluate(work.node, names)), names)


@dataclass
class Launch:
    """A kernel with its data."""

    kernel: Kernel
    data: Data

    def __call__(self) -> None:
        self.kernel(self.data.extents, *self.data.arguments.values())

    def error(self) -> float:
        """Of one launch, beside float64: the greatest over the buffers that it changes."""
        want = self.data.expected()
        self()
        torch.cuda.synchronize()
        return max(relative_error(self.data.arguments[name], value)
                   for name, value in want.items())


def cublas(data: Data) -> Callable[[], Any]:
    """torch's product of the operands of the plain sample."""
    a, b = data.arguments["a"], data.arguments["b"]
    return lambda: torch.matmul(a, b)


def cudnn(data: Data) -> Callable[[], Any]:
    """Attention forward of cuDNN on the data of the plain sample."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = (data.arguments[name][None] for name in "qkv")
    scale = data.arguments["scale"]

    def run() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q, k, v, scale=scale)

    return run


def blockwise(data: Data) -> Callable[[], Any]:
    """cuBLAS's product of float8 with a factor for 1 x 128 of x and for 128 x 128 of w."""
    x, w, sx, sw = (data.arguments[name] for name in ("x", "w", "sx", "sw"))
    columns = sx.t().contiguous().t()
    return lambda: torch._scaled_mm(x, w.t(), scale_a=columns, scale_b=sw.t(),
                                    out_dtype=torch.bfloat16)


PEERS = {"cublas": cublas, "cudnn": cudnn, "blockwise": blockwise}


class Bench:
    """Measures ways beside the plain kernel of their group, which it keeps."""

    def __init__(self) -> None:
        self.plain: dict[str, Launch] = {}

    def launch(self, task: dict[str, Any]) -> Launch:
        problem = problem_of(task["text"], tuple(task["defines"]))
        return Launch(load(task["ptx"], task["kernel"]),
                      prepare(problem, task["kernel"], task["sizes"]))

    def measure(self, task: dict[str, Any]) -> dict[str, Any]:
        """Check and time one kernel beside the plain one, `task["plain"]`."""
        key = task["plain"]["key"]
        if key not in self.plain:
            self.plain.clear()
            self.plain[key] = self.launch(task["plain"])
        plain = self.plain[key]
        own = self.launch(task)
        error = own.error()
        registers, local = own.kernel.resources()
        found: dict[str, Any] = {
            "error": error, "wrong": not error <= own.data.tolerance,
            "driver_registers": registers, "driver_local_bytes": local}
        runs: dict[str, Callable[[], Any]] = {"own": own, "plain": plain}
        if task["peer"]:
            try:
                peer = PEERS[task["peer"]](own.data)
                peer()
                torch.cuda.synchronize()
                runs["peer"] = peer
            except Exception as problem:  # this torch, or this GPU, has none
                found["no_peer"] = f"{type(problem).__name__}: {problem}"[:300]
        times = interleaved(runs, task["rounds"])
        middle = {name: median(values) for name, values in times.items()}
        found |= {"ms": middle["own"], "plain_ms": middle["plain"],
                  "tflops": 1e-9 * own.data.work / middle["own"],
                  "ratio": own.data.work / middle["own"] * middle["plain"] / plain.data.work,
                  "spread": max(spread(times["own"]), spread(times["plain"]))}
        if "peer" in middle:
            found |= {"peer_ms": middle["peer"], "of_peer": middle["peer"] / middle["own"]}
        return found


def serve(connection: Connection) -> None:
    """Measure what comes through the connection; end at None, or once the GPU's context is lost."""
    torch.set_default_dtype(torch.float64)  # as NumPy has it: an integer times 1.0
    torch.backends.cuda.matmul.allow_tf32 = False
    bench = Bench()
    while (task := connection.recv()) is not None:
        torch.manual_seed(0)
        lost = False
        try:
            answer = bench.measure(task)
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"[:1000]}
            try:
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
            except Exception:
                lost = True
        connection.send({**answer, "lost": lost})
        if lost:
            os._exit(1)  # an ordinary exit may wait for the GPU
