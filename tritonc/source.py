"""Where text came from, and how a problem with it is shown to a person.

A `Span` is a range of characters of one `SourceFile`.  Everything that the compiler reads keeps
one: tokens, syntax-tree nodes, IR operations.  A `Diagnostic` is a message about a span;
`Diagnostics` collects them, and `CompileError` is the one exception that a user's mistake can
raise.

Columns count Unicode code points from 1; a tab is one column, and is shown as the text has it."""

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field

from tritonc.records import NamedTuple, cached_property, dataclass

LAST_LINE = 2147483647  # the greatest number that #line takes


class LineMark(NamedTuple):
    """From line `line` of a file on, `#line` wants its lines counted from `presumed` in `name`."""

    line: int
    presumed: int
    name: str


@dataclass(eq=False)
class SourceFile:
    """One file's name, as the user spelt it, and its text.

    `included_at` is the span of the `#include` that brought it in; None for the main file.
    `system`: it was found in a directory of -isystem; nobody wants to be warned of it."""

    name: str
    text: str = field(repr=False)
    included_at: "Span | None" = None
    system: bool = False
    line_marks: list[LineMark] = field(default_factory=list, repr=False)  # in the order of lines

    def presumed(self, line: int) -> tuple[str, int]:
        """The file and the line that `#line` directives want told for line `line`.

        >>> SourceFile("gen.tc", "", line_marks=[LineMark(3, 70, "a.y")]).presumed(4)
        ('a.y', 71)
        """
        index = bisect_right(self.line_marks, line, key=lambda mark: mark.line)
        if not index:
            return self.name, line
        mark = self.line_marks[index - 1]
        return mark.name, min(mark.presumed + line - mark.line, LAST_LINE)

    @cached_property
    def line_starts(self) -> list[int]:
        starts = [0]
        find, at = self.text.find, 0
        while (at := find("\n", at) + 1) > 0:
            starts.append(at)
        return starts

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of a character offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of line `line` (from 1) without its end."""
        start = self.line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


class Expansion(NamedTuple):
    """A token came out of macro `macro`, whose body spells it at `spelling` (None for a `-D` and
    for predefined macros)."""

    macro: str
    spelling: "Span | None"
    predefined: bool = False

    def __str__(self) -> str:
        return f"in expansion of macro '{self.macro}'"


class Span(NamedTuple):
    """Characters [start, end) of `file`.

    A token that a macro produced has the span of the macro's use, as the reader sees it, and an
    `expansion` that tells where the body spells the token.  A macro argument keeps its own span.
    `fallback`: of an operation in the version that runs where facts tested at run time do not hold.
    """

    file: SourceFile
    start: int
    end: int
    expansion: Expansion | None = None
    fallback: bool = False

    @property
    def line(self) -> int:
        return self.file.line_column(self.start)[0]

    @property
    def presumed(self) -> tuple[str, int]:
        """The file and the line to tell a reader; see `SourceFile.presumed`."""
        return self.file.presumed(self.line)

    @property
    def column(self) -> int:
        return self.file.line_column(self.start)[1]

    def to(self, other: "Span") -> "Span":
        """The span from here to the end of `other`; this span alone if they are in two files."""
        if other.file is not self.file or other.end <= self.start:
            return self
        same = self.expansion if self.expansion == other.expansion else None
        return Span(self.file, self.start, other.end, same)

    def expansions(self) -> Iterator[Expansion]:
        """The macros of the program that the text came through, the innermost last."""
        found = self.expansion
        while found is not None and not found.predefined:
            yield found
            found = found.spelling.expansion if found.spelling else None

    def __str__(self) -> str:
        line, column = self.file.line_column(self.start)
        name, line = self.file.presumed(line)
        return f"{name}:{line}:{column}"


class Note(NamedTuple):
    """A remark that belongs to a diagnostic: where something was declared, what would help."""

    message: str
    span: Span | None = None


class Diagnostic(NamedTuple):
    """One message about the input.  `name` is its row in `tritonc.diagnostics`."""

    name: str
    severity: str  # "error", "warning" or "remark"
    message: str
    span: Span | None = None
    notes: tuple[Note, ...] = ()
    suggestion: str | None = None  # text that could stand at the span instead

    def all_notes(self) -> list[Note]:
        """The notes, and on the macros that the text came through."""
        macros = self.span.expansions() if self.span else ()
        return [*self.notes, *(Note(str(e), e.spelling) for e in macros)]


class CompileError(Exception):
    """The input is wrong.  Carries every diagnostic known when it was raised, errors included."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(f"{d.span}: {d.message}" for d in self.diagnostics))


class TooManyErrors(CompileError):
    """The limit of `-ferror-limit` was reached."""


@dataclass
class Diagnostics:
    """Collects the diagnostics of one run, applies the warning flags, stops at the error limit."""

    limit: int = 20  # errors after which the run stops; 0 means no limit
    disabled: frozenset[str] = frozenset()  # warnings turned off by name; "all" turns off all
    as_errors: frozenset[str] = frozenset()  # warnings made errors by name; "all" makes all
    items: list[Diagnostic] = field(default_factory=list)
    errors: int = 0  # of the items
    _seen: set[tuple[str, Span | None, str]] = field(default_factory=set)

    def error(self, name: str, span: Span | None, message: str, *notes: Note,
              suggestion: str | None = None) -> None:
        """Record an error; raises TooManyErrors at the limit."""
        self._add(Diagnostic(name, "error", message, span, notes, suggestion))

    def warning(self, name: str, span: Span | None, message: str, *notes: Note,
                suggestion: str | None = None) -> None:
        """Record a warning, unless its name or its file is silent; an error if -Werror says so."""
        if name in self.disabled or "all" in self.disabled or (span and span.file.system):
            return
        strict = name in self.as_errors or "all" in self.as_errors
        severity = "error" if strict else "warning"
        self._add(Diagnostic(name, severity, message, span, notes, suggestion))

    def _add(self, item: Diagnostic) -> None:
        key = (item.name, item.span, item.message)
        if key in self._seen:
            return
        self._seen.add(key)
        self.items.append(item)
        if item.severity == "error":
            self.errors += 1
            if 0 < self.limit <= self.errors:
                raise TooManyErrors(self.items)

    def report(self, error: CompileError) -> None:
        """Record what an exception carries."""
        for item in error.diagnostics:
            self._add(item)

    def raise_if_errors(self) -> None:
        """Raise CompileError if an error was recorded."""
        if self.errors:
            raise CompileError(self.items)


def fail(name: str, span: Span | None, message: str, *notes: Note,
         suggestion: str | None = None) -> CompileError:
    """A CompileError with one error, for `raise fail(...)`."""
    return CompileError([Diagnostic(name, "error", message, span, notes, suggestion)])


@contextmanager
def deep_recursion(calls: int) -> Iterator[None]:
    """Room for so many calls inside each other: of deep trees and of long chains of values."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, calls))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
