"""`tritonc bench --against`: an expression of torch, measured in turn with a kernel.

In the expression the problem's arguments are tensors with the data of the problem (numbers, where
they are scalars), and `torch` is torch."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from tritonc.launch.data import Data
from tritonc.manifest import DTYPES
from tritonc.source import fail
from tritonc.tune.timing.cuda_device import CudaDevice
from tritonc.tune.workers.jobs import Code

PEER = Code({}, "the peer", b"", 0, 0, ())  # stands for the expression in a measurement


class BesideTorch:
    """A `measure.Device` that can run PEER too."""

    def __init__(self, device: CudaDevice, index: int, expression: str) -> None:
        """Raises CompileError if torch is missing or the text is no expression."""
        self.device, self.index, self.expression = device, index, expression
        try:
            self.torch: Any = import_module("torch")  # optional: for who has it
        except ImportError:
            raise fail("no-torch", None, "--against needs the package torch") from None
        if not self.torch.cuda.is_available():
            raise fail("no-torch", None, "--against: torch sees no GPU")
        try:
            self.compiled = compile(expression, "--against", "eval")
        except (SyntaxError, ValueError) as error:
            raise fail("wrong-peer", None, f"--against: {error}") from None
        self.graphs: dict[int, Any] = {}
        self.names: dict[str, Any] = {}

    def check(self, code: Code, size: Mapping[str, int]) -> tuple[list[str], float]:
        """The kernel, and whether the expression computes what is expected of it."""
        wrong, milliseconds = self.device.check(code, size)
        return wrong or self._peer_differs(self.device.data(code, size)), milliseconds

    def milliseconds(self, code: Code, size: Mapping[str, int], launches: int) -> float:
        if code is not PEER:
            return self.device.milliseconds(code, size, launches)
        torch = self.torch
        if launches not in self.graphs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(launches):
                    self._evaluate()
            graph.replay()
            self.graphs[launches] = graph
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.graphs[launches].replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / launches

    def rest(self, seconds: float) -> None:
        self.device.rest(seconds)

    def _evaluate(self) -> Any:
        try:
            return eval(self.compiled, {"torch": self.torch}, self.names)
        except Exception as error:  # whatever the expression does
            raise fail("wrong-peer", None, f"--against '{self.expression}': "
                       f"{type(error).__name__}: {error}") from None

    def _peer_differs(self, data: Data) -> list[str]:
        """Give the expression its data, run it, and compare the result with the expected one."""
        torch = self.torch
        torch.cuda.set_device(self.index)
        self.graphs.clear()
        self.names = {}
        for value in data.arguments:
            if value.pointer:
                held = torch.from_numpy(np.array(value.view()))
                self.names[value.name] = held.cuda().to(getattr(torch, DTYPES[value.element.name]))
            else:
                self.names[value.name] = value.view()
        for _ in range(3):  # before anything is recorded, as torch asks
            found = self._evaluate()
        torch.cuda.synchronize()
        expected = data.expected()
        if len(expected) != 1 or not isinstance(found, torch.Tensor):
            return []  # of several results it is not known which
        ((name, (want, _)),) = expected.items()
        got = found.double().cpu().numpy()
        value = next(v for v in data.arguments if v.name == name)
        try:
            far = np.linalg.norm((got - want).ravel()) > data.tolerance(value) * np.linalg.norm(
                np.asarray(want, np.float64).ravel())
        except ValueError as error:
            return [f"--against: the result does not have the shape of '{name}': {error}"]
        return [f"--against: the result is not what is expected of '{name}'"] if far else []
