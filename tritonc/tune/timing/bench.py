"""`tritonc bench`: how fast a source's kernels run at the sizes that they state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median, quantiles

from tritonc import driver
from tritonc.backend.target.target import Target, find
from tritonc.ir.core import Module
from tritonc.launch.cuda import Device as Gpu
from tritonc.launch.data import bench_sizes, size_values
from tritonc.launch.run_problems import kernel_of, of_kernel, read_problems, with_defines
from tritonc.options import NATIVE, Options
from tritonc.problem.lines import Problem
from tritonc.records import NamedTuple
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune.model.features import features
from tritonc.tune.search.progress import text
from tritonc.tune.search.space import facts
from tritonc.tune.timing.cuda_device import CudaDevice
from tritonc.tune.timing.measure import Device, measure
from tritonc.tune.timing.rates import rates
from tritonc.tune.timing.torch_peer import PEER, BesideTorch
from tritonc.tune.workers.jobs import Compiler, Illegal, Job, Measured, Spec
from tritonc.tune.workers.sites import Open

ROUNDS = 11


class Line(NamedTuple):
    """What is said of one problem at one size."""

    text: str
    ok: bool


def bench(source: SourceFile, options: Options, sizes: Sequence[Mapping[str, int]],
          kernel: str | None, seed: int, index: int, diagnostics: Diagnostics,
          against: str | None = None, open_device: Open = CudaDevice) -> Iterator[Line]:
    """Measure each problem of a source (of `kernel`) at each of `sizes`, or of its bench: lines,
    in turn with the expression `against` of torch, if there is one.

    Raises CompileError where the source is wrong or there is no GPU."""
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
            name = kernel_of(problem, result.module, kernel).name
            spec = Spec(source.name, source.text, options, problems.index(problem), name)
            if device is None:
                device = open_device(spec, index, [], seed)
                peaks = (_peaks(device, name, find(options.arch, options.ptx))
                         if isinstance(device, CudaDevice) else (0.0, 0.0))
                if against is not None and isinstance(device, CudaDevice):
                    device = BesideTorch(device, index, against)
            code = Compiler(spec).compile({**result.tunables, **result.bindings.meta})
            if isinstance(code, Illegal):
                yield Line(f"{name} {text(size)}: {code.reason}", False)
            else:
                codes = (PEER, code) if isinstance(device, BesideTorch) else (code,)
                yield _line(problem, name, size, measure(device, Job(codes, size, ROUNDS)),
                            text(code.binding), peaks, against)


def _peaks(device: CudaDevice, name: str, target: Target) -> tuple[float, float]:
    """FLOP/s and bytes/s of the GPU with what a kernel computes with, at the clocks that its driver
    states; 0: unknown."""
    found = device.gpu.peaks()
    lowered = device.module({})
    module = Module([k for k in lowered.kernels if k.name == name], lowered.constants)
    dots = [f for kernel in module.kernels for f in features(kernel) if f.kind == "dot"]
    if "dot on tensor cores" in facts(module, target):
        return found.tensor * 2 / max(dot.bytes for dot in dots), found.memory
    return 0.0 if any(dot.bytes > 4 for dot in dots) else found.f32, found.memory


def _line(problem: Problem, name: str, size: Mapping[str, int], found: object, choice: str,
          peaks: tuple[float, float], against: str | None) -> Line:
    head = f"{name} {text(size)}" if size else name
    if not isinstance(found, Measured):
        return Line(f"{head}: {getattr(found, 'reason', found)}", False)
    *others, samples = found.samples
    low, middle, high = quantiles(samples, n=4) if len(samples) > 1 else samples * 3
    speed = rates(problem, size, median(samples), peaks)
    beside = "".join(f"; {median(other) / middle:.3f} times as fast as {against}, "
                     f"{median(other):.4g} ms" for other in others)
    return Line(f"{head}: {middle:.4g} ms (spread {(high - low) / 2 / middle:.1%}){speed} "
                f"({choice}){beside}", True)


