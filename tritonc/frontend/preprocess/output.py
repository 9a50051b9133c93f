"""What preprocessing yields, and how `-E` writes it down."""

from dataclasses import field

from tritonc.frontend.lexer import Token
from tritonc.frontend.preprocess.macros import Macro
from tritonc.records import dataclass
from tritonc.source import SourceFile, Span


@dataclass
class Preprocessed:
    """`tokens` end with one of kind "end".  `included`: the paths read besides the main file, once
    each, in order of first reading; `system`: those of them that -isystem found.  `macros`: the
    table as the end of the file leaves it.  `pragmas`: (text, span) of every one.
    `problem_lines`: (text, span) of the main file's lines `//! text` outside skipped branches."""

    tokens: list[Token]
    included: list[str] = field(default_factory=list)
    system: set[str] = field(default_factory=set)
    macros: dict[str, Macro] = field(default_factory=dict)
    pragmas: list[tuple[str, Span]] = field(default_factory=list)
    problem_lines: list[tuple[str, Span]] = field(default_factory=list)


def quoted(text: str) -> str:
    """`text` as a string literal; '?' stands for bytes of a file's name that are not UTF-8."""
    text = text.encode("utf-8", "replace").decode()
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


# Tokens that never join with a neighbour.
_ALONE = frozenset("()[]{},;?:~@")
_SPELLINGS = {"inf": "INFINITY", "nan": "NAN"}  # the predefined macros that make these numbers
_GAP = 8  # so many empty lines are written out; more become a line marker
_INDENT = 200  # blanks written at most before the first token of a line


def render(preprocessed: Preprocessed) -> str:
    """The text that `-E` prints: it gives the same tokens again.

    Tokens keep their lines and the first of a line its column.  A `# line "file"` marker stands
    where the file changes or lines are left out.  No two tokens stand so close that they join."""
    parts: list[str] = []
    file: SourceFile | None = None
    previous: Token | None = None
    line, shown = 0, ("", 0)
    for token in preprocessed.tokens[:-1]:
        span = token.span
        at, column = span.file.line_column(span.start)
        if previous is None or span.file is not file or at > line:
            place = span.presumed
            jump = place[1] - shown[1]
            if span.file is file and place[0] == shown[0] and 0 < jump <= _GAP:
                parts.append("\n" * jump)
            else:
                parts.append(f"{chr(10) if parts else ''}# {place[1]} {quoted(place[0])}\n")
            file, line, shown = span.file, at, place
            parts.append(" " * min(column - 1, _INDENT))
        elif token.space_before or not _may_touch(previous, token):
            parts.append(" ")
        parts.append(_SPELLINGS.get(token.text, token.text) if token.kind == "number"
                     else token.text)
        previous = token
    parts.append("\n")
    return "".join(parts)


def _may_touch(left: Token, right: Token) -> bool:
    """Whether the two tokens stay two with nothing between them."""
    if left.text in _ALONE or right.text in _ALONE:
        return True
    a, b = left.span, right.span
    return a.expansion is None and b.expansion is None and a.file is b.file and a.end == b.start
