"""Text to tokens: C11's translation phases 1 to 3, with exact positions.

A backslash at the end of a line joins it to the next, also inside a token; a comment is a space;
everything else is a token of one compiled regular expression, longest match first.  Nothing is
skipped silently: a character that begins no token becomes a token of kind "stray", which whoever
reads it reports, unless it stands in a branch that `#if` skips.

Differences from C11: `0...16` is a number, an ellipsis and a number, not one bad number; trigraphs,
digraphs and names with characters outside ASCII do not exist."""

import re
from bisect import bisect_right
from dataclasses import field

from tritonc.records import dataclass
from tritonc.source import SourceFile, Span

NOTHING_HIDDEN: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class Token:
    """One preprocessing token.

    `kind` is "identifier", "number", "character", "string" or "punctuator", and "end" for the last
    token of a list.  Before preprocessing there is also "stray" (see `stray_message`).

    `text` is the spelling, with joined lines removed.  A number is a pp-number of C11, checked by
    whoever needs its value; the predefined macros make four numbers that a source cannot spell:
    `inf` and `nan`, floating literals with no suffix, and `true` and `false`, the two bools.

    `space_before`: white space or a comment stands before it.  `line_start`: it is the first of its
    line.  `hide`: macros that are not to be expanded here, as they led to this token.

    `type`: the terminal of grammar.lark that the parser took it for last."""

    kind: str
    text: str
    span: Span
    space_before: bool
    line_start: bool
    hide: frozenset[str] = NOTHING_HIDDEN
    type: str = ""


@dataclass(slots=True)
class Lexed:
    """The tokens of one file, "end" included, and what was found beside them.

    `problem_lines`: the text after `//!` of each such comment that begins its line, without blanks
    around it, and the span of the text.
    `errors`: (diagnostic name, span, message) of what is wrong even in a skipped branch."""

    tokens: list[Token]
    problem_lines: list[tuple[str, Span]] = field(default_factory=list)
    errors: list[tuple[str, Span, str]] = field(default_factory=list)


# White space is matched together with the token after it: half as many matches as tokens and
# spaces have.  `stray` comes last and takes any character, so that matches are contiguous.
_TOKEN = re.compile(
    r"""[ \t\v\f\r]*(?:
      (?P<string>(?:u8|[uUL])?"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")
    | (?P<character>[uUL]?'(?!')[^'\\\n]*+(?:\\.[^'\\\n]*+)*+')
    | (?P<identifier>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<newline>\n[ \t\v\f\r\n]*)
    | (?P<comment>//[^\n]*|/\*[^*]*+\*++(?:[^/*][^*]*+\*++)*+/)
    | (?P<open_comment>/\*)
    | (?P<number>\.?[0-9](?:[eEpP][+-]|[0-9A-Za-z_]|\.(?!\.\.))*)
    | (?P<punctuator>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|&&|\|\||\#\#
        |[-<>=!*/%+&^|]=|[][(){}.&*+~!/%<>^|?:;=,\#@-])
    | (?P<stray>[^\t-\r\ -~]+|''|["'][^\n]*|[^ \t\v\f\r])
    )""",
    re.VERBOSE)
_SPLICE = re.compile(r"\\\r?\n")
_LONE_RETURN = re.compile(r"\r(?!\n)")
_PASTABLE = frozenset({"identifier", "number", "character", "string", "punctuator"})


def tokenize(file: SourceFile) -> Lexed:
    """Cut `file` into tokens.  Raises nothing: see `Lexed.errors` and tokens of kind "stray"."""
    text = file.text
    cuts: list[int] = []
    shifts: list[int] = []
    if "\\" in text and _SPLICE.search(text):
        text, cuts, shifts = _join_lines(text)
    tokens: list[Token] = []
    lexed = Lexed(tokens)
    if "\r" in text and (lone := _LONE_RETURN.search(text)):
        at = _original(lone.start(), cuts, shifts)
        lexed.errors.append(("stray-character", Span(file, at, at + 1),
                             "carriage return without a line feed; lines end with LF or CR LF"))
    space = line_start = True
    for match in _TOKEN.finditer(text, 1 if text.startswith("\ufeff") else 0):
        kind = match.lastgroup or "stray"
        if kind == "newline":
            space = line_start = True
            continue
        start, end = match.span(kind)
        if cuts:
            start, end = _original(start, cuts, shifts), _original(end - 1, cuts, shifts) + 1
        span = Span(file, start, end)
        if kind == "comment":
            if line_start and match[kind].startswith("//!"):
                lexed.problem_lines.append(_problem_line(match, span, cuts, shifts))
            space = True
            continue
        if kind == "open_comment":
            lexed.errors.append(("unterminated-comment", span, "comment has no closing '*/'"))
            break
        before = space or match.start() != match.start(kind)
        tokens.append(Token(kind, match[kind], span, before, line_start))
        space = line_start = False
    size = len(file.text)
    tokens.append(Token("end", "", Span(file, size, size), True, True))
    return lexed


def _problem_line(match: re.Match[str], comment: Span, cuts: list[int], shifts: list[int]
                  ) -> tuple[str, Span]:
    """The text of a `//!` comment and its span; the whole comment's if there is no text."""
    text = match["comment"][3:]
    stripped = text.strip()
    if not stripped:
        return "", comment
    start = match.start("comment") + 3 + len(text) - len(text.lstrip())
    end = _original(start + len(stripped) - 1, cuts, shifts) + 1
    return stripped, Span(comment.file, _original(start, cuts, shifts), end)


def kind_of(text: str) -> str | None:
    """The kind of the one token that `text` spells; None if it is not exactly one."""
    match = _TOKEN.fullmatch(text)
    return match.lastgroup if match and match.lastgroup in _PASTABLE else None


def join_lines(text: str) -> str:
    """`text` with each backslash at the end of a line removed, and the end of that line."""
    return _SPLICE.sub("", text)


def rest_of_line(span: Span) -> str:
    """The joined text from the beginning of `span` to the end of its line, comments included."""
    text, start = span.file.text, span.start
    end = text.find("\n", start)
    while end >= 0 and text.endswith(("\\", "\\\r"), start, end):
        end = text.find("\n", end + 1)
    return join_lines(text[start : end if end >= 0 else len(text)]).rstrip()


def _join_lines(text: str) -> tuple[str, list[int], list[int]]:
    """The joined text, the offsets in it where something was cut, and the sizes cut until then."""
    parts: list[str] = []
    cuts: list[int] = []
    shifts: list[int] = []
    at = kept = 0
    for match in _SPLICE.finditer(text):
        parts.append(text[at : match.start()])
        kept += match.start() - at
        at = match.end()
        cuts.append(kept)
        shifts.append(at - kept)
    parts.append(text[at:])
    return "".join(parts), cuts, shifts


def _original(offset: int, cuts: list[int], shifts: list[int]) -> int:
    """The offset in the file of the character at `offset` of the joined text."""
    index = bisect_right(cuts, offset)
    return offset + shifts[index - 1] if index else offset


def stands_in_macros(text: str) -> bool:
    """Whether a token of kind "stray" may be a macro's argument (C11 6.4p3): `\\` or `$`."""
    return len(text) == 1 and text.isascii() and text.isprintable() and text not in "\"'"


def stray_message(text: str, span: Span) -> tuple[str, Span, str]:
    """What `Diagnostics.error` takes about a token of kind "stray"."""
    first, name = text[0], "unterminated-literal"
    if text == "''":
        return name, span, "a character constant holds a character"
    if first == '"':
        return name, span, "string has no closing '\"' on its line"
    if first == "'":
        return name, span, 'character constant has no closing "\'" on its line'
    name = "stray-character"
    if text == "\\":
        return name, span, "stray '\\'; it joins two lines only as the last character of its line"
    point = f"U+{ord(first):04X}"
    if first.isprintable():
        point = f"'{first}'" if first.isascii() else f"'{first}' ({point})"
    more = f" and {len(text) - 1} more" if len(text) > 1 else ""
    return name, span, f"stray character {point}{more}"


_ESCAPE = r"""(?xs)\\(?:
        (?P<simple>[abefnrtv\\'"?]) | (?P<octal>[0-7]{1,3}) | x(?P<hex>[0-9a-fA-F]+)
        | u(?P<short>[0-9a-fA-F]{4}) | U(?P<long>[0-9a-fA-F]{8}) ) | (?P<plain>[^\\])"""
_SIMPLE = dict(zip("abefnrtv\\'\"?", "\a\b\x1b\f\n\r\t\v\\'\"?"))


def literal_bytes(text: str) -> bytes:
    """The bytes that a string or character token without prefix stands for, in UTF-8.

    >>> literal_bytes(r'"a\\n\\x41\\101"')
    b'a\\nAA'

    Raises ValueError, with a message for the user, for a bad escape or a prefix.
    """
    if text[0] not in "\"'":
        raise ValueError(f"the prefix of {text[: text.index(text[-1])]}{text[-1]}...{text[-1]} "
                         "has no meaning here; only plain characters exist")
    body, at, out, escape = text[1:-1], 0, bytearray(), re.compile(_ESCAPE)
    while at < len(body):
        match = escape.match(body, at)
        if match is None:
            raise ValueError(f"unknown escape sequence '{body[at : at + 2]}'")
        at = match.end()
        group, digits = match.lastgroup, match[match.lastgroup or 0]
        if group == "plain":
            out += digits.encode("utf-8", "replace")
        elif group == "simple":
            out += _SIMPLE[digits].encode()
        elif group in ("short", "long"):
            point = int(digits, 16)
            if point > 0x10FFFF or 0xD800 <= point < 0xE000:
                raise ValueError(f"'{match[0]}' is not a character")
            out += chr(point).encode()
        else:
            value = int(digits, 8 if group == "octal" else 16) if len(digits) < 9 else 256
            if value > 255:
                raise ValueError(f"escape sequence '{match[0]}' does not fit in a byte")
            out.append(value)
    return bytes(out)


def character_value(text: str) -> int:
    """The value, an int, of a character token: a char is signed, several bytes count as in GCC.

    >>> character_value("'A'"), character_value(r"'\\xff'"), character_value("'ab'")
    (65, -1, 24930)

    Raises ValueError, with a message for the user.
    """
    data = literal_bytes(text)
    if len(data) > 4:
        raise ValueError(f"character constant {text} does not fit in an int")
    if len(data) == 1:
        return int.from_bytes(data, "big", signed=True)
    value = int.from_bytes(data, "big")
    return value - (1 << 32) if value >= 1 << 31 else value
