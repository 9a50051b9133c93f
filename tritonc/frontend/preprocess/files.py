"""The files that are being read: a stack of tokens, and what directives take from it."""

import os
import re
from dataclasses import field

from tritonc.frontend import lexer
from tritonc.frontend.lexer import Lexed, Token, tokenize
from tritonc.frontend.preprocess.options import PreprocessOptions, load_source
from tritonc.frontend.preprocess.output import Preprocessed
from tritonc.records import dataclass
from tritonc.source import Diagnostics, SourceFile, Span

INCLUDE_DEPTH_LIMIT = 200
INCLUDE_COUNT_LIMIT = 10_000

# The first control character of a line that changes the direction of text (Unicode, UAX #9).
_BIDIRECTIONAL = "(?m)^.*?([\u202a-\u202e\u2066-\u2069])"


@dataclass(slots=True)
class Conditional:
    """An open `#if`: `taken` once one of its branches was, `otherwise` is where its `#else` is."""

    directive: Token
    taken: bool
    otherwise: Span | None = None


@dataclass(slots=True)
class Frame:
    """A file being read: the next token is `tokens[at]`."""

    file: SourceFile
    tokens: list[Token]
    cut_short: bool  # a comment takes the rest of the file, with any #endif
    at: int = 0
    conditionals: list[Conditional] = field(default_factory=list)


class Files:
    """The stack of files of one run, the main one first; `result` learns what was included."""

    def __init__(self, options: PreprocessOptions, diagnostics: Diagnostics,
                 result: Preprocessed) -> None:
        self.options = options
        self.diagnostics = diagnostics
        self.result = result
        self.frames: list[Frame] = []
        self.once: set[str] = set()  # real paths of files that said `#pragma once`
        self.seen: set[str] = set()  # paths in result.included
        self.opened = 0

    def unread(self) -> None:
        """Step back before the token that `next_token` gave last."""
        self.frames[-1].at -= 1

    def _rest_of_line(self) -> list[Token]:
        """Take the tokens up to the end of the line."""
        frame = self.frames[-1]
        tokens, first = frame.tokens, frame.at
        at = first
        while not tokens[at].line_start:
            at += 1
        frame.at = at
        return tokens[first:at]

    def _sound(self, line: list[Token]) -> list[Token]:
        """`line` without characters that can stand nowhere, which are reported.

        A stray character that is printable stays: `#` may make a string of it."""
        sound = [t for t in line if t.kind != "stray" or lexer.stands_in_macros(t.text)]
        for token in line if len(sound) < len(line) else []:
            if token.kind == "stray" and not lexer.stands_in_macros(token.text):
                self.diagnostics.error(*lexer.stray_message(token.text, token.span))
        return sound

    def _end_of_directive(self, directive: Token, line: list[Token]) -> None:
        if line:
            self.diagnostics.warning("extra-tokens", line[0].span.to(line[-1].span),
                                     f"extra text after #{directive.text}")

    # Files

    def _push(self, file: SourceFile) -> Lexed:
        file.line_marks.clear()  # of an earlier run over the same text
        lexed = tokenize(file)
        for name, span, message in lexed.errors:
            self.diagnostics.error(name, span, message)
        for match in () if file.text.isascii() else re.finditer(_BIDIRECTIONAL, file.text):
            character = file.text[match.start(1)]
            self.diagnostics.warning(
                "bidirectional-text", Span(file, match.start(1), match.end(1)),
                f"U+{ord(character):04X} changes the order in which an editor shows this line: it "
                "may not read as the compiler reads it")
        cut_short = any(name == "unterminated-comment" for name, _, _ in lexed.errors)
        self.frames.append(Frame(file, lexed.tokens, cut_short))
        return lexed

    def _pop(self) -> bool:
        """Leave a file at its end; False if it is the main file, which stays."""
        frame = self.frames[-1]
        for conditional in [] if frame.cut_short else reversed(frame.conditionals):
            directive = conditional.directive
            self.diagnostics.error("unbalanced-conditional", directive.span,
                                   f"#{directive.text} has no #endif")
        frame.conditionals.clear()
        if len(self.frames) == 1:
            return False
        self.frames.pop()
        return True

    def _open(self, path: str, at: Span | None, system: bool = False) -> bool:
        """Begin to read the file at `path`; False if there is none.  Reports other troubles."""
        try:
            if os.path.realpath(path) in self.once:
                return True
            file = load_source(path, self.diagnostics, at, self.options.read_file)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return False
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            self.diagnostics.error("unreadable-file", at, f"cannot read '{path}': {reason}")
            return True
        if path not in self.seen:
            self.seen.add(path)
            self.result.included.append(path)
            if system:
                self.result.system.add(path)
        if file is not None:
            file.system = system
            self._push(file)
        return True
