"""Edits of any text: lines, what stands between brackets, tokens, numbers, comments."""

import re
from collections.abc import Iterator, Sequence

from tritonc.reduce.edits import Edit, Kind, Replacement, deletion, over

_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\w+(?:\.\w+)*|\S')
_COMMENT = re.compile(r'//(?!!)[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.#^%@])\d+(?![\w.]|\s*\.\.\.)")
_OPEN, _CLOSE = "([{", ")]}"
_BLANK = tuple((re.compile(pattern, re.MULTILINE), new) for pattern, new in (
    (r"^[ \t]*\n|[ \t]+(?=\n)|(?<=[(\[]) +| +(?=[)\];,])", ""),
    (r"(?<=[^\s;:{}])\n[ \t]+(?!//!)", " "), (r"(?<=\S)[ \t]{2,}(?=\S)", " "),
    (r"^ +(?=kernel\b|\w+ \w+\()", "")))


def last_first(pattern: str | re.Pattern[str]) -> Kind:
    """What a pattern matches goes, the last first: what it uses goes later."""
    return lambda text: [(over(m),) for m in re.finditer(pattern, text)][::-1]


lines = last_first(r"[^\n]*\n|[^\n]+$")
problem_lines = last_first(r"(?m)^[ \t]*//!.*\n?")


def stated(text: str) -> Sequence[Edit]:
    """Entries of `//!` lines go; the value of a macro or a size stands where its name is used."""
    found: list[Edit] = []
    for m in re.finditer(r"^//! *(\w+): *(.*)\n", text, re.MULTILINE):
        entries = [*re.finditer(r"(?:[^,()\[\]]|\([^()]*\)|\[[^\]]*\])+,?", m[2])]
        for entry in entries:
            start, end = m.start(2) + entry.start(), m.start(2) + entry.end()
            gone = (start, end) if len(entries) > 1 else (m.start(), m.end())
            found.append(deletion(*gone))
            name, _, value = entry[0].rstrip(",").partition("=")
            if m[1] not in ("define", "size") or not value:
                continue
            uses = re.finditer(rf"(?<![\w.]){re.escape(name.strip())}(?![\w.])(?!\s*=[^=])", text)
            said = f"({value.strip()})" if not value.strip().isalnum() else value.strip()
            found.append((*deletion(*gone), *(over(use, said) for use in uses
                                              if m[1] == "define" or is_stated(text, use))))
    return found


def is_stated(text: str, match: re.Match[str]) -> bool:
    """Whether a place is in a `//!` line."""
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    return line.lstrip().startswith("//!")


def tokens(text: str) -> Sequence[Edit]:
    """Each token goes."""
    return [(over(m),) for m in _TOKEN.finditer(text)]


def brackets(text: str) -> Sequence[Edit]:
    """What stands between brackets goes, with them and without; and so do they alone."""
    found: list[Edit] = []
    for start, end in sorted(_pairs(text)):
        found += [deletion(start, end), deletion(start + 1, end - 1),
                  (Replacement(start, start + 1), Replacement(end - 1, end))]
    return found


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    opened: list[tuple[str, int]] = []
    for m in _TOKEN.finditer(text):
        if m[0] in _OPEN:
            opened.append((m[0], m.start()))
        elif m[0] in _CLOSE and opened and _OPEN.index(opened[-1][0]) == _CLOSE.index(m[0]):
            yield opened.pop()[1], m.end()


def comments(text: str) -> Sequence[Edit]:
    """Comments and blank lines go."""
    found = [(over(m),) for m in _COMMENT.finditer(text) if not m[1]]
    return found + [(over(m, new),) for pattern, new in _BLANK for m in pattern.finditer(text)
                    if m[0]]


def smaller(value: int) -> list[int]:
    """Numbers that may stand for a greater one, the most welcome first."""
    wanted = (0, 1, 2, 4, 8, 16, 32, 64, 128, value // 2, value - 1)
    return sorted({n for n in wanted if 0 <= n < value})


def numbers(everywhere: bool = False, lines: str = "") -> Kind:
    """Each number becomes smaller; `everywhere`: wherever the same number stands; `lines`: only
    in lines that begin so."""
    def kind(text: str) -> Sequence[Edit]:
        places: dict[int, list[re.Match[str]]] = {}
        for m in _NUMBER.finditer(text):
            line = text[text.rfind("\n", 0, m.start()) + 1 : m.start()]
            if not line.startswith(lines):
                continue
            if len(m[0]) < 19 and (m[0] == "0" or m[0][0] != "0"):
                places.setdefault(int(m[0]), []).append(m)
        found: list[Edit] = []
        for value in sorted(places, reverse=True):
            groups = [places[value]] if everywhere else [[m] for m in places[value]]
            for group in groups:
                found += [tuple(over(m, str(n)) for m in group) for n in smaller(value)]
        return found
    return kind


sizes = numbers(True, "//!")  # first, since a smaller problem makes every try faster
ANY: tuple[Kind, ...] = (lines, brackets, comments, tokens, stated, problem_lines)
