"""The `//!` lines of a source: what its kernels compute, on which data, to which tolerance.

`parse` reads the lines that the preprocessor collected into `Problem`s; it evaluates nothing, so it
needs no kernel.  docs/problems.md describes the lines; in short:

    //! kernel: NAME                 begins a problem; may be missing when there is one
    //! size: N = 1000, M = 2        define: MACRO = VALUE      bench: N = 4096, M = 4096
    //! where: 1 <= N <= 4096, M % 2 == 0
    //! range: M, N                  pad: ARGUMENT = BYTES      clobber: ARGUMENT, ARGUMENT
    //! arg: x = randn(N) : half     let: NAME = EXPRESSION     symbol: TABLE = EXPRESSION
    //! expect: y = EXPRESSION       tolerance: 1e-6            flops: EXPRESSION
    //! python: FILE.py                                         bytes: EXPRESSION
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

from tritonc.problem.evaluate import Expression, parse_arguments, parse_expression
from tritonc.records import dataclass
from tritonc.source import CompileError, Diagnostics, Note, Span, fail
from tritonc.spelling import closest, hint

_LINE = re.compile(r"([A-Za-z_]\w*)\s*:\s*(.*)", re.DOTALL)
_SPLICE = re.compile(r"\\\r?\n[ \t]*(//!)?")
_STRING = re.compile(r"'[^']*'|\"[^\"]*\"")
_FILE = re.compile(r"[\w-]+\.py\Z")
_NAME = re.compile(r"[A-Za-z]\w*\Z")
# A type after an argument's expression: the last `:` outside brackets begins it.
_TYPE = re.compile(r"\s*((?:unsigned\s+)?[A-Za-z]\w*)\s*\Z")


@dataclass(frozen=True)
class Named:
    """`name = expression`; `line` numbers the problem's lines and seeds their random numbers."""

    name: str
    expression: Expression
    span: Span
    line: int


@dataclass(frozen=True)
class Argument(Named):
    """A parameter's value; `type` is what stood after it, as spelt, or None."""

    type: str | None = None


@dataclass
class Problem:
    """One problem, unevaluated.  `kernel` is None where the lines name none."""

    kernel: str | None
    span: Span
    sizes: list[Named] = field(default_factory=list)
    wheres: list[Expression] = field(default_factory=list)  # comparisons that hold of the sizes
    range: list[Expression] = field(default_factory=list)
    arguments: list[Argument] = field(default_factory=list)
    lets: list[Named] = field(default_factory=list)
    expects: list[Named] = field(default_factory=list)
    tolerance: Expression | None = None
    defines: list[tuple[str, str, Span]] = field(default_factory=list)  # macro, its text
    symbols: list[Named] = field(default_factory=list)
    pads: list[Named] = field(default_factory=list)
    clobbers: list[tuple[str, Span]] = field(default_factory=list)
    bench: list[list[Named]] = field(default_factory=list)
    flops: Expression | None = None
    bytes: Expression | None = None
    python: tuple[str, Span] | None = None  # a file beside the source
    functions: dict[str, Any] = field(default_factory=dict)  # of that file, once it is read
    common: list[Named] = field(default_factory=list)  # sizes before the first `kernel:`


def parse(lines: Iterable[tuple[str, Span]], diagnostics: Diagnostics) -> list[Problem]:
    """The problems that `lines` (text after `//!`, and its span) state; [] if there are none.

    Mistakes are recorded in `diagnostics`, one for a line."""
    problems: list[Problem] = []
    complete = True  # what the lines say together is looked at once each can be read
    for number, (text, span) in enumerate(_joined(lines)):
        if not text:
            continue
        try:
            _read_line(text, span, number, problems)
        except CompileError as error:
            complete = False
            for d in error.diagnostics:
                diagnostics.error(d.name, d.span, d.message, *d.notes, suggestion=d.suggestion)
    for problem in problems[1:]:
        own = {size.name for size in problem.sizes}
        problem.sizes[:0] = [size for size in problems[0].common if size.name not in own]
    for problem in problems if complete else ():
        _check(problem, diagnostics)
    return problems


def _joined(lines: Iterable[tuple[str, Span]]) -> Iterator[tuple[str, Span]]:
    """The lines, those that go on with the next one joined to it: where a bracket is open, and
    behind a backslash.  What stands between two of them in the file becomes blanks."""
    before: tuple[str, Span] | None = None
    for text, span in lines:
        raw = span.file.text[span.start : span.end]
        if "\n" in raw:  # C joins the line behind a backslash; it may begin as this one did
            text = _SPLICE.sub(lambda m: " " * len(m[0]), raw)
        if before is not None:
            if not text:
                continue
            if _begins(text):  # the bracket is a mistake
                yield before
            else:
                gap = span.start - before[1].start - len(before[0])
                text = before[0] + " " * gap + text
                span = Span(span.file, before[1].start, span.end)
        more = text.endswith("\\")  # in .tir, which nobody splices
        text = text[:-1] + " " if more else text
        before = (text, span) if more or _open(text) > 0 else None
        if before is None:
            yield text, span
    if before is not None:
        yield before


def _begins(text: str) -> bool:
    match = _LINE.match(text)
    return match is not None and (match[1] in _READERS or match[1] == "kernel")


def _open(text: str) -> int:
    """How many brackets are open at the end."""
    plain = _STRING.sub("", text)
    return sum(plain.count(c) for c in "([{") - sum(plain.count(c) for c in ")]}")


def _read_line(text: str, span: Span, number: int, problems: list[Problem]) -> None:
    match = _LINE.match(text)
    if match is None:
        data = f", such as `arg: {text}`" if re.match(r"\w+\s*=", text) else ""
        raise fail("problem-syntax", span, f"a line of a problem is `key: value`{data}")
    key, value = match.group(1), match.group(2).rstrip()
    key_span = Span(span.file, span.start, span.start + len(key))
    at = Span(span.file, span.start + match.start(2), span.start + match.start(2) + len(value))
    if key not in _READERS and key != "kernel":
        near = closest(key, [*_READERS, "kernel"])
        known = "known are kernel, " + ", ".join(_READERS)
        raise fail("problem-syntax", key_span, f"a problem has no line '{key}'; "
                   f"{hint(key, [*_READERS, 'kernel'], known)}", suggestion=near)
    if not value:
        raise fail("problem-syntax", key_span, f"'{key}:' has no value")
    if key == "kernel":
        if not _NAME.match(value):
            raise fail("problem-syntax", at, "the name of one kernel is expected here")
        first = problems[0] if len(problems) == 1 else None
        if first and first.kernel is None and not first.arguments and not first.range:
            first.kernel, first.span = value, at  # sizes or macros stood before the name
            first.common = list(first.sizes)
        else:
            problems.append(Problem(value, at))
        return
    if not problems:
        problems.append(Problem(None, span))
    _READERS[key](problems[-1], value, at, number)


def _assignments(value: str, at: Span, number: int) -> list[Named]:
    """`N = 1000, M = 2`."""
    plain, named = parse_arguments(value, at)
    if plain or not named:
        raise fail("problem-syntax", at, "`NAME = EXPRESSION` is expected here")
    return [Named(name, e, at, number) for name, e in named]


def _one(value: str, at: Span, number: int) -> Named:
    """`name = expression`, where the expression may hold commas: it reaches to the end."""
    name, equals, text = value.partition("=")
    if not equals or not _NAME.match(name.strip()) or text.startswith("="):
        raise fail("problem-syntax", at, "`NAME = EXPRESSION` is expected here")
    start = at.start + len(name) + 1 + len(text) - len(text.lstrip())
    text = text.strip()
    span = Span(at.file, start, start + len(text))
    if not text:
        raise fail("problem-syntax", at, f"'{name.strip()}' is given no value")
    plain, named = parse_arguments(text, span)
    if named or not plain:
        raise fail("problem-syntax", span, "an expression is expected here")
    if len(plain) > 1:
        raise fail("problem-syntax", span, "one expression is expected here, not several")
    return Named(name.strip(), plain[0], at, number)


_Reader = Callable[[Problem, str, Span, int], None]


def _more(field: str, read: Callable[[str, Span, int], list[Any]]) -> _Reader:
    """Adds what `read` makes of a line to a list of the problem."""
    def reader(problem: Problem, value: str, at: Span, number: int) -> None:
        getattr(problem, field).extend(read(value, at, number))

    return reader


def _set(problem: Problem, field: str, value: Any, at: Span, what: str) -> None:
    """What a problem states once."""
    if getattr(problem, field):
        raise fail("problem-syntax", at, f"{what} is stated twice")
    setattr(problem, field, value)


def _where(problem: Problem, value: str, at: Span, number: int) -> None:
    plain, named = parse_arguments(value, at)
    if named or not all(isinstance(e.node, ast.Compare) for e in plain):
        raise fail("problem-syntax", at, "comparisons of sizes are expected here, such as "
                   "`1 <= N <= 4096, N % 8 == 0`")
    problem.wheres += plain


def _range(problem: Problem, value: str, at: Span, number: int) -> None:
    plain, named = parse_arguments(value, at)
    if named:
        raise fail("problem-syntax", at, "one expression for each axis is expected here")
    if len(plain) > 3:
        raise fail("problem-syntax", at, "a launch has at most three axes")
    _set(problem, "range", plain, at, "the range")


def _argument(problem: Problem, value: str, at: Span, number: int) -> None:
    depth, colon = 0, -1
    for index, character in enumerate(value):
        depth += (character in "([{") - (character in ")]}")
        if character == ":" and depth == 0:
            colon = index
    kind = None
    if colon >= 0:
        match = _TYPE.match(value, colon + 1)
        if match is None:
            raise fail("problem-syntax", at, "after `:`, an element type such as half is expected")
        kind = " ".join(match.group(1).split())
        value = value[:colon].rstrip()
    one = _one(value, Span(at.file, at.start, at.start + len(value)), number)
    problem.arguments.append(Argument(one.name, one.expression, one.span, number, kind))


def _define(problem: Problem, value: str, at: Span, number: int) -> None:
    name, equals, text = value.partition("=")
    if not _NAME.match(name.strip()):
        raise fail("problem-syntax", at, "`MACRO = VALUE` is expected here")
    problem.defines.append((name.strip(), text.strip() if equals else "1", at))


def _expression(field: str) -> _Reader:
    def reader(problem: Problem, value: str, at: Span, number: int) -> None:
        _set(problem, field, parse_expression(value, at), at, f"the {field}")

    return reader


def _python(problem: Problem, value: str, at: Span, number: int) -> None:
    if not _FILE.match(value):
        raise fail("problem-syntax", at, "the name of a .py file beside the source is "
                   "expected here")
    _set(problem, "python", (value, at), at, "the file")


def _clobber(problem: Problem, value: str, at: Span, number: int) -> None:
    for name in value.split(","):
        if not _NAME.match(name.strip()):
            raise fail("problem-syntax", at, "names of arguments are expected here")
        problem.clobbers.append((name.strip(), at))


_READERS: dict[str, _Reader] = {
    "size": _more("sizes", _assignments), "where": _where, "range": _range, "arg": _argument,
    "let": _more("lets", lambda *line: [_one(*line)]),
    "expect": _more("expects", lambda *line: [_one(*line)]),
    "tolerance": _expression("tolerance"), "define": _define,
    "symbol": _more("symbols", lambda *line: [_one(*line)]), "pad": _more("pads", _assignments),
    "clobber": _clobber, "bench": _more("bench", lambda *line: [_assignments(*line)]),
    "flops": _expression("flops"), "bytes": _expression("bytes"), "python": _python}


def _check(problem: Problem, diagnostics: Diagnostics) -> None:
    """What can be said of a problem before its kernel is known."""
    _check_unique(problem.sizes, diagnostics)
    # `arg: N = N` passes a size under its own name; otherwise a name has one meaning.
    passed = {a.name for a in problem.arguments if isinstance(a.expression.node, ast.Name)
              and a.expression.node.id == a.name}
    sizes = [size for size in problem.sizes if size.name not in passed]
    _check_unique([*sizes, *problem.arguments, *problem.lets], diagnostics)
    _check_unique(problem.expects, diagnostics)
    arguments = [a.name for a in problem.arguments]
    for named in (*problem.expects, *problem.pads):
        _check_known(named.name, named.span, arguments, "argument", diagnostics)
    for name, at in problem.clobbers:
        _check_known(name, at, arguments, "argument", diagnostics)
    for size in (size for line in problem.bench for size in line):
        known = [s.name for s in problem.sizes]
        _check_known(size.name, size.span, known, "size", diagnostics)
    if not problem.range:
        diagnostics.error("problem-syntax", problem.span,
                          "the problem states no range: `//! range: N` gives the global range of "
                          "the launch")
    if not problem.expects:
        diagnostics.error("problem-syntax", problem.span,
                          "the problem expects nothing: `//! expect: y = ...` states the result")


def _check_unique(named: Sequence[Named], diagnostics: Diagnostics) -> None:
    first: dict[str, Named] = {}
    for one in named:
        before = first.setdefault(one.name, one)
        if before is not one:
            diagnostics.error("problem-name", one.span, f"'{one.name}' has two values",
                              Note("the first is here", before.span))


def _check_known(name: str, at: Span, known: list[str], what: str,
                 diagnostics: Diagnostics) -> None:
    if name not in known:
        meant = hint(name, known, f"known: {', '.join(known) or 'none'}")
        diagnostics.error("problem-name", at, f"the problem has no {what} '{name}'; {meant}")
