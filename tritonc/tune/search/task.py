"""What one run of the tuner is asked for, and the problem, sizes and candidates that this means."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tritonc import driver, stages
from tritonc.launch.data import bench_sizes, size_values
from tritonc.launch.run_problems import kernel_of, of_kernel, read_problems, with_defines
from tritonc.options import Options
from tritonc.problem.known import known_of
from tritonc.problem.lines import Problem
from tritonc.records import dataclass
from tritonc.source import Diagnostics, SourceFile, fail
from tritonc.tune import tuning_file
from tritonc.tune.search.space import Space, search_space
from tritonc.tune.workers.jobs import Spec


@dataclass(frozen=True)
class Request:
    """What is asked for.  `tuning` is the file to write, `sizes` the sizes to tune for, none of
    them for those of the problem's `bench:` lines; `fresh` forgets earlier measurements; `within`
    says how much slower than the best a size may be for the sake of fewer variants."""

    source: SourceFile
    options: Options
    tuning: str
    kernel: str | None = None
    sizes: Sequence[Mapping[str, int]] = ()
    seed: int = 0
    budget: float = float("inf")
    fresh: bool = False
    report: str | None = None
    within: float = 0.02  # of the best, for a portfolio of several sizes
    nesting: bool = False  # search the space of the paper
    where: str | None = None  # an expression that candidates satisfy


@dataclass(frozen=True)
class Task:
    """A request made ready: the problem, the program, its sizes and candidates."""

    spec: Spec
    problem: Problem
    options: Options  # with the problem's macros
    sizes: list[dict[str, int]]
    space: Space
    hash: str


def prepare(request: Request, target: str, diagnostics: Diagnostics) -> Task:
    """Find the problem and its candidates.  Raises CompileError."""
    options = replace(request.options, arch=target, tuning=None)
    problems = read_problems(request.source, options, "tc", diagnostics)
    chosen = of_kernel(problems, request.kernel)
    kernels = dict.fromkeys(p.kernel for p in chosen if p.kernel is not None)
    if len(kernels) > 1:
        raise fail("problem-name", None, "the source states problems of several kernels: --kernel "
                   f"chooses one of {', '.join(kernels)}")
    problem = chosen[0]
    with_macros = with_defines(problem, options)
    lowered = driver.compile(request.source, replace(with_macros, stop_after=driver.LOWER),
                             ("tir",), diagnostics=diagnostics)
    assert lowered.module is not None
    kernel = kernel_of(problem, lowered.module, request.kernel)
    spec = Spec(request.source.name, request.source.text, options, problems.index(problem),
                kernel.name)
    sizes = [size_values(problem, size) for size in request.sizes] or bench_sizes(problem)
    tokens = stages.preprocess(request.source, with_macros, Diagnostics()).tokens
    return Task(spec, problem, with_macros, sizes,
                search_space(request.source, with_macros, kernel.name, request.nesting,
                             [known_of(problem, size, options.defines) for size in sizes],
                             request.where),
                tuning_file.source_hash(tokens))
