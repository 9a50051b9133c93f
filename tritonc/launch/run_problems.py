"""`tritonc run`: each problem of a source compiled, run and compared with its reference."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tritonc import driver, stages
from tritonc.ir.core import Block, Kernel, Module, Op
from tritonc.launch.compare import Array, differences
from tritonc.launch.data import Data, prepare, size_values
from tritonc.options import NATIVE, Options
from tritonc.problem import python_reference
from tritonc.problem.lines import Problem, parse
from tritonc.problem.stated import stated_lines
from tritonc.records import dataclass
from tritonc.result import Result
from tritonc.source import Diagnostic, Diagnostics, SourceFile, Span, fail

if TYPE_CHECKING:
    from tritonc.interp.frame import Step
    from tritonc.launch.cuda import Device


Debugging = Callable[[Kernel], Mapping[Block | Op, Sequence["Step"]]]


@dataclass
class Outcome:
    """How one problem went.  `differences` says what was not as expected."""

    name: str
    device: str
    sizes: Mapping[str, int]
    tunables: Mapping[str, int]
    differences: list[str]
    after: dict[str, Array]  # what each pointer argument held afterwards
    diagnostics: tuple[Diagnostic, ...] = ()  # warnings, shown before the line

    @property
    def ok(self) -> bool:
        return not self.differences

    def line(self) -> str:
        """`matmul M=100 N=150: ok (interpreter; TM=64)`, or FAILED and the differences."""
        sizes = "".join(f" {name}={value}" for name, value in self.sizes.items())
        tunables = ", ".join(f"{name}={value}" for name, value in self.tunables.items())
        verdict = "ok" if self.ok else "FAILED"
        details = f"{self.device}; {tunables}" if tunables else self.device
        return "\n  ".join([f"{self.name}{sizes}: {verdict} ({details})", *self.differences])


def read_problems(source: SourceFile, options: Options, language: str, diagnostics: Diagnostics
                  ) -> list[Problem]:
    """The problems of a source, with the options' macros.

    Raises CompileError if they are wrong, or if there are none."""
    if language == "tir":
        lines = stated_lines(source)
    else:
        # Macros that the problems define come later; what is amiss for want of them now is no
        # error yet.
        scratch = Diagnostics(limit=0)
        lines = stages.preprocess(source, options, scratch).problem_lines
    problems = stated(lines, options, diagnostics)
    if not problems:
        raise fail("no-problem", None, f"'{source.name}' states no problem to run: add lines such "
                   "as `//! range: N` and `//! expect: y = 2 * x`")
    return problems


def stated(lines: Iterable[tuple[str, Span]], options: Options, diagnostics: Diagnostics
           ) -> list[Problem]:
    """The problems of a source's lines, with the options' macros.  Raises CompileError."""
    problems = parse(lines, diagnostics)
    diagnostics.raise_if_errors()
    for problem in problems:
        _replace_defines(problem, options)
    return problems


def run_problems(source: SourceFile, options: Options, language: str, diagnostics: Diagnostics, *,
                 device: str = "interpreter", sizes: Mapping[str, int] | None = None,
                 kernel: str | None = None, seed: int = 0, order: str = "forward",
                 max_steps: int | None = None, after: Debugging | None = None,
                 allow_python: bool = False
                 ) -> Iterator[Outcome]:
    """Run the problems of a source in their order; one Outcome each.

    `allow_python`: whether a file of Python may run that a problem names.
    `order` and `max_steps` are the interpreter's (see `launch.interpreter.Running`); `after` gives
    the steps that a debugger puts between a kernel's operations.
    Raises CompileError for a source or a problem that is wrong, and for a program that does what
    it must not while it runs."""
    problems = of_kernel(read_problems(source, options, language, diagnostics), kernel)
    python_reference.load(problems, allow_python)
    if device == "interpreter":
        results: dict[tuple[str, ...], Result] = {}  # of several kernels, one
        for problem in problems:
            own = with_defines(problem, options)
            if own.defines not in results:
                results[own.defines] = driver.compile(source, own, ("tir",), language=language)
            yield _interpret(problem, results[own.defines], options, sizes or {}, seed, kernel,
                             order, max_steps, after)
        return
    from tritonc.launch.cuda import Device

    with Device() as gpu:
        if options.arch == NATIVE:
            options = replace(options, arch=gpu.target)
        for problem in problems:
            yield _run_on_gpu(problem, source, options, language, sizes or {}, seed, kernel, gpu)


def of_kernel(problems: list[Problem], kernel: str | None) -> list[Problem]:
    """The problems of `kernel`, or all if it is None.  Raises CompileError if there are none."""
    chosen = [p for p in problems if kernel is None or p.kernel in (kernel, None)]
    if not chosen:
        known = dict.fromkeys(p.kernel for p in problems if p.kernel is not None)
        raise fail("problem-name", None, f"no problem is about kernel '{kernel}'; there are "
                   f"problems of {', '.join(known)}")
    return chosen


def _replace_defines(problem: Problem, options: Options) -> None:
    """Give the problem's macros the values that the command line gives them, if any."""
    given = {}
    for word in options.defines:
        name, equals, text = word.partition("=")
        given[name] = text if equals else "1"
    problem.defines = [(name, given.get(name, text), at) for name, text, at in problem.defines]


def with_defines(problem: Problem, options: Options) -> Options:
    """The options with the macros of one of `read_problems`."""
    defines = tuple(f"{name}={text}" for name, text, _ in problem.defines)
    own = {name for name, _, _ in problem.defines}
    rest = tuple(word for word in options.defines if word.partition("=")[0] not in own)
    return replace(options, defines=defines + rest)


def kernel_of(problem: Problem, module: Module, wanted: str | None = None) -> Kernel:
    """The kernel that a problem is about, which is `wanted` unless that is None.

    Raises CompileError."""
    names = [kernel.name for kernel in module.kernels]
    if problem.kernel is None and len(names) == 1:
        if wanted not in (None, names[0]):
            raise fail("problem-name", problem.span, f"no problem is about kernel '{wanted}'; "
                       f"there are problems of {names[0]}")
        return module.kernels[0]
    if problem.kernel is None:
        raise fail("problem-name", problem.span, "the source has several kernels, "
                   f"{', '.join(names)}: `//! kernel: NAME` says whose problem this is"
                   if names else "the source has no kernel")
    if problem.kernel not in names:
        raise fail("problem-name", problem.span, f"the source has no kernel '{problem.kernel}'; "
                   f"it has {', '.join(names) or 'none'}")
    return module.kernels[names.index(problem.kernel)]


def _interpret(problem: Problem, result: Result, options: Options,
               sizes: Mapping[str, int], seed: int, wanted: str | None, order: str,
               max_steps: int | None, after: Debugging | None) -> Outcome:
    from tritonc.interp.interpreter import STEP_LIMIT, InterpreterError
    from tritonc.launch.interpreter import Running, launch

    assert result.module is not None
    data = prepare(problem, result.module, kernel_of(problem, result.module, wanted), sizes, seed)
    found = stages.new_diagnostics(options)
    running = Running(order, max_steps or STEP_LIMIT,
                      after=after(data.kernel) if after is not None else {}, warn=found.warning)
    try:
        held = launch(result.module, data, running=running)
    except InterpreterError as error:
        raise InterpreterError([*error.diagnostics, *found.items]) from None
    found.raise_if_errors()
    outcome = _outcome("interpreter", data, held, result)
    return replace(outcome, diagnostics=(*outcome.diagnostics, *found.items))


def _run_on_gpu(problem: Problem, source: SourceFile, options: Options, language: str,
                sizes: Mapping[str, int], seed: int, wanted: str | None, gpu: "Device") -> Outcome:
    options = replace(with_defines(problem, options), sizes=size_values(problem, sizes))
    result = driver.compile(source, options, ("ptx",), language=language)
    return launch_compiled(problem, result, sizes, seed, gpu, wanted)


def launch_compiled(problem: Problem, result: Result, sizes: Mapping[str, int], seed: int,
                    gpu: "Device", wanted: str | None = None) -> Outcome:
    """Run one of `read_problems` as it was compiled to PTX, with its macros; of kernel `wanted`.

    Raises CompileError if the driver or the kernel fails."""
    assert result.module is not None and result.manifest is not None
    data = prepare(problem, result.module, kernel_of(problem, result.module, wanted), sizes, seed)
    entry = next(k for k in result.manifest["kernels"] if k["name"] == data.kernel.name)
    after = gpu.launch(result.outputs["ptx"], result.module, data, entry["threads"],
                       entry["dynamic_shared_bytes"], entry.get("cluster", 1))
    return _outcome("cuda", data, after, result)


def _outcome(device: str, data: Data, after: dict[str, Array], result: Result) -> Outcome:
    return Outcome(data.kernel.name, device, data.sizes, data.kernel.tunables,
                   differences(data, after), after, result.diagnostics)

