"""Diagnostics as people and as editors read them.

`render` writes GCC's form: `file:line:column: error: text [name]`, the line of source, a caret with
the extent underlined, a replacement if one is known, then notes, the macros that the text came
through, and before it all the chain of `#include`s.  `render_json` writes GCC's JSON form.

Columns in the heading count Unicode code points from 1.  In the picture a tab stays a tab on both
lines, so that the caret stands right for every tab width, and a wide character takes two places."""

from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from tritonc.diagnostics import DIAGNOSTICS
from tritonc.source import CompileError, Diagnostic, SourceFile, Span

LINE_LIMIT = 120  # characters of a source line that are shown; a longer one is cut on both sides
_COLOURS = {"error": "1;31", "warning": "1;35", "remark": "1;34", "note": "1;36",
            "where": "1", "caret": "1;32", "fix": "32"}  # fmt: skip


def use_color(when: str, stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether to colour, for `-fdiagnostics-color=when`: "always", "never", or "auto", which
    follows CLICOLOR_FORCE, then NO_COLOR, then whether `stream` is a capable terminal."""
    if when != "auto":
        return when == "always"
    if environment.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return stream.isatty()


def render(diagnostics: Iterable[Diagnostic], color: bool = False) -> str:
    """All diagnostics as text, each line ended."""
    out: list[str] = []
    last_file: SourceFile | None = None
    for item in diagnostics:
        if item.span and item.span.file is not last_file:
            last_file = item.span.file
            out += _include_stack(last_file)
        out += _message(item.severity, f"{item.message} [{_label(item)}]", item.span,
                        item.suggestion, color)
        for expansion in item.span.expansions() if item.span else ():
            by_option = "" if expansion.spelling else ", which -D defines"
            out += _message("note", f"{expansion}{by_option}", expansion.spelling, None, color)
        for note in item.notes:
            out += _message("note", note.message, note.span or item.span, None, color,
                            picture=note.span is not None)
    return "".join(line + "\n" for line in out)


def rendered(error: CompileError) -> CompileError:
    """The error, whose text is now what the command line shows: for whoever sees it raised.

    >>> from tritonc.source import fail
    >>> str(rendered(fail("no-device", None, "there is no GPU")))
    '\\ntritonc: error: there is no GPU [no-device]'
    """
    error.args = (f"\n{render(error.diagnostics).rstrip()}",)
    return error


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """`2 errors and 1 warning`; empty where there is neither."""
    parts = []
    counts = [d.severity for d in diagnostics]
    for severity in ("error", "warning"):
        if count := counts.count(severity):
            parts.append(f"{count} {severity}{'s' if count > 1 else ''}")
    return " and ".join(parts)


def _label(item: Diagnostic) -> str:
    """What stands in brackets: the name for an error, the flag that governs it for a warning."""
    if item.severity == "warning":
        return f"-W{item.name}"
    row = DIAGNOSTICS.get(item.name)
    promoted = item.severity == "error" and row is not None and row.severity == "warning"
    return f"-Werror={item.name}" if promoted else item.name


def _include_stack(file: SourceFile) -> list[str]:
    lines: list[str] = []
    at = file.included_at
    while at is not None:
        lead = "In file included from" if not lines else "                 from"
        name, line = at.presumed
        lines.append(f"{lead} {name}:{line}")
        at = at.file.included_at
    return [line + ("," if line is not lines[-1] else ":") for line in lines]


def _message(severity: str, text: str, span: Span | None, suggestion: str | None,
             color: bool, picture: bool = True) -> list[str]:
    """The heading and, where there is a place to show, the picture of it."""
    where = str(span) if span else "tritonc"
    head = f"{_paint(where + ':', 'where', color)} {_paint(severity + ':', severity, color)} {text}"
    shown = _picture(span, suggestion, severity, color) if span and picture else []
    return [head, *shown]


def _paint(text: str, role: str, color: bool) -> str:
    return f"\x1b[{_COLOURS[role]}m{text}\x1b[0m" if color else text


def _picture(span: Span, suggestion: str | None, severity: str, color: bool) -> list[str]:
    """The source line, the underline, and the suggested text under the place it would take."""
    line, column = span.file.line_column(span.start)
    text = span.file.line_text(line)
    start = min(column - 1, len(text))
    length = max(min(span.end - span.start, len(text) - start), 1)
    cut_left = cut_right = ""
    if len(text) > LINE_LIMIT:
        first = max(min(start - LINE_LIMIT // 3, len(text) - LINE_LIMIT), 0)
        last = min(first + LINE_LIMIT, len(text))
        cut_left, cut_right = "..." if first else "", "..." if last < len(text) else ""
        text = text[first:last]
        start -= first
        length = max(min(length, len(text) - start), 1)
    text = "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    blank = " " * len(cut_left) + _marks(text[:start], " ")
    under = "^" + _marks(text[start : start + length], "~")[1:] if start < len(text) else "^"
    lines = [f"{line:5} | {cut_left}{text}{cut_right}",
             f"      | {blank}{_paint(under, severity, color)}"]
    if suggestion and "\n" not in suggestion:
        lines.append(f"      | {blank}{_paint(suggestion, 'fix', color)}")
    return lines


def _marks(text: str, mark: str) -> str:
    """`mark` for each place that `text` takes in a terminal; tabs stay."""
    if text.isascii():
        return "".join("\t" if c == "\t" else mark for c in text)
    from unicodedata import combining, east_asian_width  # only for lines that are not ASCII

    return "".join(
        "\t" if c == "\t"
        else "" if combining(c)
        else mark * 2 if east_asian_width(c) in "WF"
        else mark
        for c in text)


def render_json(diagnostics: Iterable[Diagnostic]) -> str:
    """One line: a JSON array with an object for each diagnostic, its fields named as GCC's."""
    import json  # not needed by a successful run

    return json.dumps([_as_json(item) for item in diagnostics], ensure_ascii=False) + "\n"


def _as_json(item: Diagnostic) -> dict[str, Any]:
    result: dict[str, Any] = {
        "kind": item.severity, "message": item.message, "option": _label(item),
        "name": item.name, "column-origin": 1, "locations": _locations(item.span),
        "children": [{"kind": "note", "message": n.message, "column-origin": 1,
                      "locations": _locations(n.span), "children": []}
                     for n in item.all_notes()]}
    if item.suggestion is not None and item.span:
        result["fixits"] = [{"start": _point(item.span.file, item.span.start),
                             "next": _point(item.span.file, item.span.end),
                             "string": item.suggestion}]
    return result


def _locations(span: Span | None) -> list[dict[str, Any]]:
    if span is None:
        return []
    finish = max(span.end - 1, span.start)
    return [{"caret": _point(span.file, span.start), "finish": _point(span.file, finish)}]


def _point(file: SourceFile, offset: int) -> dict[str, Any]:
    line, column = file.line_column(offset)
    before = file.line_text(line)[: column - 1]
    name, shown = file.presumed(line)
    return {"file": name, "line": shown, "column": column,
            "display-column": len(_marks(before, " ")) + 1,
            "byte-column": len(before.encode("utf-8", "replace")) + 1}
