"""`tritonc bench`: how fast a source's kernels run at the sizes that they state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median, quantiles
from typing import NamedTuple

from tritonc import driver
from tritonc.launch.cuda import Device as Gpu
from tritonc.launch.data import bench_sizes, size_values
from tritonc.launch.run_problems import kernel_of, of_kernel, read_problems, with_defines
from tritonc.options import NATIVE, Options
from tritonc.problem import Problem
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune.cuda_device import CudaDevice
from tritonc.tune.jobs import Compiler, Illegal, Job, Measured, Spec
from tritonc.tune.measure import Device, measure
from tritonc.tune.progress import text
from tritonc.tune.rates import rates
from tritonc.tune.sites import Open

ROUNDS = 11


class Line(NamedTuple):
    """What is said of one problem at one size."""

    text: str
    ok: bool


def bench(source: SourceFile, options: Options, sizes: Sequence[Mapping[str, int]],
          kernel: str | None, seed: int, index: int, diagnostics: Diagnostics,
          open_device: Open = CudaDevice) -> Iterator[Line]:
    """Measure each problem of a source (of `kernel`) at each of `sizes`, or of its bench: lines.

    Raises CompileError where the source is wrong or there is no GPU.
    """
    if options.arch == NATIVE:
        options = replace(options, arch=Gpu(index).target)
    problems = read_problems(source, options, "tc", diagnostics)
    for problem in of_kernel(problems, kernel):
        own = [size_values(problem, size) for size in sizes] or bench_sizes(problem)
        device: Device | None = None
        for size in own:
            result = driver.compile(source, replace(with_defines(problem, options), sizes=size),
                                    ("manifest",), diagnostics=diagnostics)
            assert result.module is not None
            name = kernel_of(problem, result.module).name
            spec = Spec(source.name, source.text, options, problems.index(problem), name)
            device = device or open_device(spec, index, [], seed)
            code = Compiler(spec).compile({**result.tunables, **result.meta})
            if isinstance(code, Illegal):
                yield Line(f"{name} {text(size)}: {code.reason}", False)
            else:
                yield _line(problem, name, size, measure(device, Job((code,), size, ROUNDS)),
                            text(code.binding))


def _line(problem: Problem, name: str, size: Mapping[str, int], found: object, choice: str) -> Line:
    head = f"{name} {text(size)}" if size else name
    if not isinstance(found, Measured):
        return Line(f"{head}: {getattr(found, 'reason', found)}", False)
    (samples,) = found.samples
    low, middle, high = quantiles(samples, n=4) if len(samples) > 1 else samples * 3
    speed = "".join(f", {rate}" for rate in rates(problem, size, median(samples)))
    return Line(f"{head}: {middle:.4g} ms (spread {(high - low) / 2 / middle:.1%}){speed} "
                f"({choice})", True)


