"""What is known of a launch before it is made: its range and its scalar arguments, for the sizes
that a user gives.

Nothing is evaluated that makes an array, and what cannot be evaluated is not known: a compilation
that is told sizes only chooses better by them."""

import ast
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field

from tritonc.problem.evaluate import Expression, integer
from tritonc.problem.lines import Problem, parse
from tritonc.records import dataclass
from tritonc.source import CompileError, Diagnostics, Span


@dataclass(frozen=True)
class KnownLaunch:
    """`extents`: of the global range, () if it is not known; `arguments`: scalars by name;
    `kernel`: which one, if the problem says."""

    extents: tuple[int, ...] = ()
    arguments: Mapping[str, int] = field(default_factory=dict)
    kernel: str | None = None


def known_launch(lines: Sequence[tuple[str, Span]], sizes: Mapping[str, int],
                 defines: Iterable[str]) -> KnownLaunch | None:
    """The same of lines that state one problem; None if they state others."""
    problems = parse(lines, Diagnostics())
    with suppress(CompileError):
        if len(problems) == 1:
            return known_of(problems[0], sizes, defines)
    return None


def known_of(problem: Problem, sizes: Mapping[str, int], defines: Iterable[str] = ()
             ) -> KnownLaunch:
    """What the problem's lines say of a launch at `sizes`; a size that is not given is its own.

    `defines` are macros as the command line gives them; those that are numbers count."""
    names: dict[str, int] = {}
    for name, _, value in (text.partition("=") for text in defines):
        with suppress(ValueError):
            names[name] = int(value or "1", 0)
    for size in problem.sizes:
        names[size.name] = sizes[size.name] if size.name in sizes else integer(
            size.expression, names, f"size '{size.name}'")
    extents: tuple[int, ...] = ()
    with suppress(CompileError):  # it may have a tunable, or a macro of the source
        extents = tuple(integer(one, names, "an extent") for one in problem.range)
    arguments = {}
    for argument in problem.arguments:
        if _plain(argument.expression):
            with suppress(CompileError):
                arguments[argument.name] = integer(argument.expression, names, argument.name)
    return KnownLaunch(extents if all(map(_fits, extents)) else (), {
        name: number for name, number in arguments.items() if _fits(number)}, problem.kernel)


def _fits(number: int) -> bool:
    """Whether a launch can have it."""
    return -(1 << 63) <= number < 1 << 64


def _plain(expression: Expression) -> bool:
    """Whether it is made of numbers and names alone."""
    return not any(isinstance(node, ast.Call | ast.Subscript | ast.Attribute | ast.List | ast.Tuple)
                   for node in ast.walk(expression.node))
