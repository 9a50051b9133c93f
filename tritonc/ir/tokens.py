"""The tokens of Triton-IR's text form, and a cursor that reports what it does not find."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn

from tritonc.source import Diagnostics, Note, SourceFile, Span


class Token(NamedTuple):
    kind: str  # "value", "word", "number", "string", "alias", "symbol", "end" or the mark itself
    text: str
    start: int
    first: bool  # on its line


_TOKEN = re.compile(r"""
      (?P<space>[ \t\r\f]+|//[^\n]*)
    | (?P<newline>\n)
    | (?P<value>%[\w.$]+)
    | (?P<symbol>@[A-Za-z_][\w.$]*)
    | (?P<alias>\#\w+)
    | (?P<number>-?(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+)(?![\w.])|-inf\b)
    | (?P<word>[A-Za-z_][\w.$]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<mark>[{}()\[\]<>,:;=*@])
    | (?P<bad>.)
""", re.VERBOSE | re.ASCII)


class SyntaxFailure(Exception):
    """Recorded already; the parser goes on at the next line that can begin something."""


class Cursor:
    """The next token of a file, and what one does with it."""

    def __init__(self, source: SourceFile, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.at = 0
        self.tokens = list(self.tokenize())

    def tokenize(self) -> Iterator[Token]:
        first = True
        for match in _TOKEN.finditer(self.source.text):
            kind, text = match.lastgroup or "bad", match.group()
            if kind == "newline":
                first = True
            elif kind == "bad":
                self.report(Token(kind, text, match.start(), first),
                            f"{text!r} begins nothing that Triton-IR knows")
            elif kind != "space":
                kind = text if kind == "mark" else kind
                yield Token(kind, text, match.start(), first)
                first = False
        yield Token("end", "the end of the file", len(self.source.text), True)

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, kind: str) -> Token | None:
        return self.take() if self.next.kind == kind else None

    def expect(self, kind: str, wanted: str = "") -> Token:
        if self.next.kind != kind:
            self.fail(self.next, f"{wanted or repr(kind)} wanted, found {self.next.text!r}")
        return self.take()

    def span(self, token: Token) -> Span:
        end = token.start if token.kind == "end" else token.start + len(token.text)
        return Span(self.source, token.start, end)

    def since(self, token: Token) -> Span:
        """From `token` to the last one taken."""
        last = self.tokens[self.at - 1]
        return Span(self.source, token.start, max(last.start + len(last.text), token.start))

    def report(self, token: Token, message: str, *notes: Note, name: str = "ir-syntax") -> None:
        self.diagnostics.error(name, self.span(token), message, *notes)

    def fail(self, token: Token, message: str, *notes: Note, name: str = "ir-syntax") -> NoReturn:
        self.report(token, message, *notes, name=name)
        raise SyntaxFailure

    def skip_to(self, starts: Callable[[Token], bool]) -> None:
        """To the next line whose first token `starts` something; the current token is left."""
        self.take()
        while self.next.kind != "end" and not (self.next.first and starts(self.next)):
            self.take()
