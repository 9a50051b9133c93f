"""What `tritonc prove` finds of a file, problem by problem, and how it is said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tritonc import driver
from tritonc.launch.run_problems import kernel_of, of_kernel, read_problems, with_defines
from tritonc.options import Options
from tritonc.prove.accesses import PROVED, REFUTED, UNKNOWN, Access, Verdict, prove_accesses
from tritonc.prove.model import build
from tritonc.prove.sharing import Sharing, prove_apart
from tritonc.prove.terms import Terms
from tritonc.prove.witness import SECONDS, search
from tritonc.source import Diagnostics, SourceFile


@dataclass
class Proof:
    """Of one problem."""

    kernel: str
    sizes: list[str]
    tunables: dict[str, int]
    accesses: list[Access]
    sharings: list[Sharing]
    runs: int = 0
    errors: list[str] = field(default_factory=list)

    def verdicts(self) -> list[str]:
        return [v.verdict for v in (*(a.verdict for a in self.accesses),
                                    *(s.verdict for s in self.sharings))]

    def lines(self) -> Iterator[str]:
        """A line for each question."""
        tunables = ", ".join(f"{name}={value}" for name, value in self.tunables.items())
        sizes = f" for all {', '.join(self.sizes)}" if self.sizes else ""
        yield f"{self.kernel}{sizes}{f' ({tunables})' if tunables else ''}:"
        for access in self.accesses:
            yield _line(f"{_place(access)}{access.kind} {access.buffer}", access.verdict.verdict,
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


def _place(access: Access) -> str:
    span = access.op.span
    return f"{span}: " if span is not None else ""


def prove(source: SourceFile, options: Options, language: str, diagnostics: Diagnostics,
          kernel: str | None = None, seconds: float = SECONDS, doubt: bool = False
          ) -> Iterator[Proof]:
    """A proof for each problem of a source.

    `doubt`: look for what refutes proofs too, for tests.
    Raises CompileError for a source or a problem that is wrong, AssertionError where the
    interpreter refutes what is proved.
    """
    options = replace(options, opt_level=0)  # the program as it is written
    for problem in of_kernel(read_problems(source, options, language, diagnostics), kernel):
        result = driver.compile(source, with_defines(problem, options), ("tir",),
                                language=language)
        assert result.module is not None
        chosen = kernel_of(problem, result.module, kernel)
        terms = Terms(chosen, build(problem, chosen))
        accesses = prove_accesses(terms, result.module.constants)
        proof = Proof(chosen.name, [size.name for size in problem.sizes], chosen.tunables,
                      accesses, prove_apart(terms, accesses))
        wanted = {a.op: a for a in accesses}
        open_ = {a.op for a in accesses if doubt or a.verdict.verdict != PROVED}
        buffers = {s.buffer for s in proof.sharings if doubt or s.verdict.verdict == UNKNOWN}
        if open_ or buffers:
            found = search(problem, result.module, chosen, open_, buffers, seconds)
            proof.runs = found.runs
            for op, text in found.outside.items():
                _refute(wanted[op].verdict, text, op.name)
            for sharing in proof.sharings:
                if sharing.buffer in found.shared:
                    _refute(sharing.verdict, found.shared[sharing.buffer], sharing.buffer)
        yield proof


def _refute(verdict: Verdict, text: str, what: str) -> None:
    assert verdict.verdict != PROVED, f"what is proved of {what} does not hold: {text}"
    verdict.verdict, verdict.fact = REFUTED, text
