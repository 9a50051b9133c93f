"""References and peers of the suite beside the interpreter, at the small sizes: needs no GPU.

    TRITON_INTERPRET=1 python bench/suite_check.py [--filter REGEX]

Each kernel runs in tritonc's interpreter on tensors of torch on the CPU; its results are compared
with the reference that suite.py compares with on a GPU, and so are those of the peers that run on
a CPU: torch's own, and Triton's in its interpreter.  What no CPU runs is listed.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from typing import Any

os.environ.setdefault("TRITON_INTERPRET", "1")

import numpy as np
import suite_measure
import suite_support
import torch
from suite_measure import case_of, error_of, fresh, launcher, types_of

from tritonc import driver
from tritonc.interp.interpreter import run
from tritonc.interp.memory import Memory
from tritonc.launch.python.parameters import Parameter
from tritonc.options import Options
from tritonc.source import SourceFile

RAW = {torch.bfloat16: (torch.int16, np.uint16), torch.uint8: (torch.int8, np.int8),
       torch.float8_e4m3fn: (torch.uint8, np.uint8), torch.float8_e5m2: (torch.uint8, np.uint8)}


# Triton's interpreter multiplies the bits of bfloat16 as integers.
NO_BFLOAT = ("attention_heads", "attention_window", "paged_decode", "paged_decode_split")


class Interpreted:
    """A kernel that "launches" in the interpreter, on tensors of the CPU."""

    def __init__(self, module: Any, row: dict[str, Any]) -> None:
        self.module, self.name, self.tile = module, row["name"], row["tile"]
        self.parameters = [Parameter.read(p) for p in row["parameters"]]

    def launch(self, stream: Any, extents: tuple[int, ...], *arguments: Any) -> None:
        memory, values, back = Memory(), [], []
        for value, parameter in zip(arguments, self.parameters, strict=True):
            if parameter.pointer:
                kind, raw = RAW.get(value.dtype, (value.dtype, None))
                array = value.view(kind).numpy()
                array = array.view(raw) if raw is not None else array
                values.append(memory.allocate(array.copy(), parameter.name, 0))
                back.append((array, values[-1]))
            else:
                values.append(value)
        tile = [*self.tile, 1, 1, 1]
        grid = tuple(-(-extent // t) for extent, t in zip(extents, tile))
        run(self.module, self.name, values, memory, grid)
        for array, address in back:
            array[...] = memory.read(int(address)).view(array.dtype).reshape(array.shape)


def small(workload: suite_support.Workload) -> suite_support.Workload:
    """The workload at the sizes and with the macros of its problem."""
    problem = workload.problem
    sizes = {name: eval(text, {"__builtins__": {}}) for name, text in problem.sizes.items()}
    macros = {name: int(text) for name, text in problem.defines.items()}
    return replace(workload, sizes=sizes, macros=macros, own={})


def check(workload: suite_support.Workload) -> list[str]:
    """What is wrong, a line each; lines that begin with "(" only say what was not run."""
    path = workload.path
    result = driver.compile(SourceFile(path.name, path.read_text()),
                            Options(defines=workload.defines), ("tir", "manifest"))
    plain = driver.compile(SourceFile(path.name, path.read_text()),
                           Options(defines=workload.defines), ("tir",))
    assert result.manifest is not None
    kernels = {row["name"]: Interpreted(plain.module, row) for row in result.manifest["kernels"]}
    torch.manual_seed(0)
    case = case_of(workload, types_of(result.manifest), "cpu")
    want = dict(workload.kind.want(case))
    said = []
    trial = fresh(workload, case)
    launcher(workload, kernels, trial)()
    complaint = error_of(workload, trial, None, want)[1]
    if complaint:
        said.append(f"ours: {complaint}")
    for name in workload.kind.peers(case):
        trial = fresh(workload, case)
        try:
            found = workload.kind.peers(trial)[name]()
        except Exception as error:
            said.append(f"({name}: {type(error).__name__}: {str(error).splitlines()[0][:100]})")
            continue
        complaint = error_of(workload, trial, found, want, suite_measure.PEER_SLACK)[1]
        if complaint and name.startswith("triton") and workload.stem in NO_BFLOAT:
            said.append(f"({name}: {complaint})")
        elif complaint:
            said.append(f"{name}: {complaint}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--filter", default="")
    options = parser.parse_args()
    torch.cuda.current_stream = lambda: argparse.Namespace(cuda_stream=0)  # type: ignore
    done = set()
    for workload in suite_support.workloads(options.filter):
        if workload.stem not in done:
            done.add(workload.stem)
            started = time.perf_counter()
            try:
                said = check(small(workload))
            except Exception as error:
                said = [f"{type(error).__name__}: {error}"]
            wrong = [line for line in said if not line.startswith("(")]
            print(f"{workload.stem}: {'WRONG' if wrong else 'ok'} "
                  f"({time.perf_counter() - started:.1f} s)", *said, sep="\n    ", flush=True)


if __name__ == "__main__":
    main()
