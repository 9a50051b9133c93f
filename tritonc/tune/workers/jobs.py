"""What the tuner's processes do for it, and what they tell each other.

A `Spec` says which program; from it a compiling process makes a `Compiler`, and a measuring process
a device.  Jobs are functions of those states, and everything here can be pickled: processes of
this machine and workers of a cluster run the same."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from tritonc import driver, ptxas, stages
from tritonc.launch.run_problems import read_problems, with_defines
from tritonc.meta_parameters import BY_NAME
from tritonc.options import Options
from tritonc.problem.lines import Problem
from tritonc.records import NamedTuple, dataclass
from tritonc.source import CompileError, Diagnostics, SourceFile

if TYPE_CHECKING:
    from tritonc.tune.search.variants import Variant

Binding = Mapping[str, int]  # of tunables and meta-parameters


@dataclass(frozen=True)
class Spec:
    """A problem of a source: its number among the source's, and the kernel's name."""

    name: str
    text: str
    options: Options
    problem: int
    kernel: str

    def read(self) -> tuple[SourceFile, Problem, Options]:
        """The source, the problem, and the options with its macros."""
        source = SourceFile(self.name, self.text)
        problem = read_problems(source, self.options, "tc", Diagnostics())[self.problem]
        return source, problem, with_defines(problem, self.options)


class Code(NamedTuple):
    """A compiled candidate.  `image` is machine code, or PTX where there is no assembler."""

    binding: Binding
    digest: str  # equal for candidates that differ in what changes nothing
    image: bytes
    threads: int
    dynamic_shared: int
    tile: tuple[int, ...]
    cluster: int = 1
    seconds: float = 0.0  # that compiling took


class Illegal(NamedTuple):
    """A candidate that cannot be compiled, and the compiler's reason."""

    reason: str


class Compiler:
    """The state of a compiling process: `classify` says which candidates to compile."""

    def __init__(self, spec: Spec) -> None:
        # Here, not at the top, and not during the first candidate: it takes half a second.
        from tritonc.backend import llvm  # noqa: F401
        from tritonc.tune.search import variants  # noqa: F401

        self.source, _, self.options = spec.read()
        self.kernel = spec.kernel

    def classify(self, candidates: Sequence[Binding]) -> "list[Variant]":
        """The kernels that the passes make of candidates of equal tunables.

        Members are indices into `candidates`."""
        from tritonc import passes
        from tritonc.tune.search.variants import Variant, variants

        options = replace(self.options, tune={**self.options.tune, **candidates[0]}, tuning=None)
        try:
            lowered = driver.compile(self.source, replace(options, stop_after=driver.LOWER),
                                     ("tir",)).module
        except CompileError as error:
            return [Variant(tuple(range(len(candidates))), "", error.diagnostics[0].message)]
        assert lowered is not None
        kernel = next(k for k in lowered.kernels if k.name == self.kernel)
        stated = kernel.attributes.get("meta", {})
        choices = [stated | {
            name: value for name, value in {**self.options.tune, **candidate}.items()
            if name in BY_NAME and name not in kernel.tunables} for candidate in candidates]
        return variants(kernel, stages.context_of(options), choices,
                        [*passes.OPT, *passes.BACKEND], options.opt_level)

    def compile(self, binding: Binding) -> Code | Illegal:
        """One candidate, with `binding` in place of what the options leave open."""
        options = replace(self.options, tune={**self.options.tune, **binding}, tuning=None)
        started = time.monotonic()
        try:
            result = driver.compile(self.source, options, ("ptx",))
            assert result.manifest is not None
            entry = next(k for k in result.manifest["kernels"] if k["name"] == self.kernel)
            ptx = result.outputs["ptx"].split("\n", 1)[1]  # the manifest names the tunables
            return Code(binding, sha256(repr((ptx, entry["tile"])).encode()).hexdigest()[:16],
                        _assemble(ptx, options.arch), entry["threads"],
                        entry["dynamic_shared_bytes"], tuple(entry["tile"]),
                        entry.get("cluster", 1), time.monotonic() - started)
        except CompileError as error:
            return Illegal(error.diagnostics[0].message)


def _assemble(ptx: str, target: str) -> bytes:
    try:
        return ptxas.assemble(ptx, target)
    except CompileError as error:
        if error.diagnostics[0].name != "no-ptxas":
            raise
        return ptx.encode()  # the driver assembles it


class Job(NamedTuple):
    """Measure some candidates beside each other, in `rounds`.

    The last of `codes` is the one in question: it is checked first if `check` is set, and given up
    after one sample if that took longer than `cutoff` milliseconds.  The first code of a job with
    an `anchor` time is a well-known one: if it runs slower than that, the GPU does."""

    codes: Sequence[Code]
    size: Mapping[str, int]
    rounds: int
    check: bool = True
    cutoff: float = float("inf")
    anchor: float | None = None


class Measured(NamedTuple):
    """Milliseconds of each launch: the samples of each code of a job, or one sample of the last
    code, if it was given up.

    `slowed`: the GPU ran slower than before (it was too hot, or used by others), by that factor."""

    samples: tuple[tuple[float, ...], ...]
    slowed: float = 1.0


class Wrong(NamedTuple):
    """A candidate whose result is not what the problem expects."""

    reason: str
