"""What `tritonc prove` finds of a file, problem by problem, and how it is said."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

from tritonc import driver
from tritonc.ir.core import Kernel, Module
from tritonc.launch.run_problems import kernel_of, of_kernel, read_problems, with_defines
from tritonc.options import Options
from tritonc.problem.lines import Problem
from tritonc.prove.accesses import PROVED, REFUTED, UNKNOWN, Access, Verdict, prove_accesses
from tritonc.prove.build import build
from tritonc.prove.sharing import Sharing, prove_apart
from tritonc.prove.terms import Terms
from tritonc.prove.witness import SECONDS, search
from tritonc.records import dataclass
from tritonc.source import CompileError, Diagnostics, SourceFile, fail

MOST = 1000  # combinations of tunables


@dataclass
class Proof:
    """Of one problem with one choice of its tunables, of which there are `choices`; `first`: that
    of a compilation."""

    kernel: str
    sizes: list[str]
    tunables: dict[str, int]
    accesses: list[Access]
    sharings: list[Sharing]
    runs: int = 0
    choices: int = 1
    first: bool = True

    def verdicts(self) -> list[str]:
        return [v.verdict for v in (*(a.verdict for a in self.accesses),
                                    *(s.verdict for s in self.sharings))]

    def lines(self) -> Iterator[str]:
        """A line for each question."""
        tunables = ", ".join(f"{name}={value}" for name, value in self.tunables.items())
        sizes = f" for all {', '.join(self.sizes)}" if self.sizes else ""
        yield f"{self.kernel}{sizes}{f' ({tunables})' if tunables else ''}:"
        for access in self.accesses:
            place = f"{access.op.span}: " if access.op.span is not None else ""
            yield _line(f"{place}{access.kind} {access.buffer}", access.verdict.verdict,
                        access.verdict.fact, "in bounds")
        for sharing in self.sharings:
            yield _line(f"instances that touch one byte of {sharing.buffer}",
                        sharing.verdict.verdict, sharing.verdict.fact, "none")


def _line(what: str, verdict: str, fact: str, good: str) -> str:
    if verdict == PROVED:
        return f"  {what}: {good} (proved{' ' if fact else ''}{fact})"
    if verdict == REFUTED:
        return f"  {what}: REFUTED\n    {fact}"
    return f"  {what}: unknown\n    missing: {fact}"


def prove(source: SourceFile, options: Options, language: str, diagnostics: Diagnostics,
          kernel: str | None = None, seconds: float = SECONDS, doubt: bool = False,
          every: bool = False) -> Iterator[Proof]:
    """A proof for each problem of a source; with `every`, for each choice of its tunables, but
    those for which the source does not compile.

    `doubt`: look for what refutes proofs too, for tests.
    Raises CompileError for a source or a problem that is wrong, AssertionError where the
    interpreter refutes what is proved."""
    options = replace(options, opt_level=0)  # the program as it is written
    for problem in of_kernel(read_problems(source, options, language, diagnostics), kernel):
        own = with_defines(problem, options)
        result = driver.compile(source, own, ("tir",), language=language)
        assert result.module is not None
        chosen = kernel_of(problem, result.module, kernel)
        lists = {name: values for name, values in result.bindings.lists.items()
                 if name in chosen.tunables and name not in options.tune}
        choices = prod(map(len, lists.values()))
        yield replace(_prove(problem, result.module, chosen, seconds, doubt), choices=choices)
        if every and choices > MOST:
            raise fail("many-tunables", None, f"the tunables have {choices} combinations, more "
                       f"than {MOST}: --tune NAME=VALUE binds one")
        for values in product(*lists.values()) if every else ():
            tune = {**own.tune, **dict(zip(lists, values, strict=True))}
            if all(chosen.tunables[name] == tune[name] for name in lists):
                continue
            try:
                module = driver.compile(source, replace(own, tune=tune), ("tir",),
                                        language=language).module
            except CompileError:
                continue
            assert module is not None
            yield replace(_prove(problem, module, kernel_of(problem, module, kernel), seconds,
                                 doubt), choices=choices, first=False)


def _prove(problem: Problem, module: Module, kernel: Kernel, seconds: float, doubt: bool) -> Proof:
    terms = Terms(kernel, build(problem, kernel))
    accesses = prove_accesses(terms, module.constants)
    proof = Proof(kernel.name, [size.name for size in problem.sizes], kernel.tunables,
                  accesses, prove_apart(terms, accesses))
    wanted = {a.op: a for a in accesses}
    open_ = {a.op for a in accesses if doubt or a.verdict.verdict != PROVED}
    buffers = {s.buffer for s in proof.sharings if doubt or s.verdict.verdict == UNKNOWN}
    if open_ or buffers:
        found = search(problem, module, kernel, open_, buffers, seconds)
        proof.runs = found.runs
        for op, text in found.outside.items():
            _refute(wanted[op].verdict, text, op.name)
        for sharing in proof.sharings:
            if sharing.buffer in found.shared:
                _refute(sharing.verdict, found.shared[sharing.buffer], sharing.buffer)
    return proof


def _refute(verdict: Verdict, text: str, what: str) -> None:
    assert verdict.verdict != PROVED, f"what is proved of {what} does not hold: {text}"
    verdict.verdict, verdict.fact = REFUTED, text
