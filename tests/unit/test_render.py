"""The text and JSON forms of diagnostics."""

from __future__ import annotations

import io
import json

from tritonc.render import LINE_LIMIT, render, render_json, summary, use_color
from tritonc.source import Diagnostic, Expansion, Note, SourceFile, Span


def at(text: str, found: str, name: str = "a.tc", included_at: Span | None = None) -> Span:
    start = text.index(found)
    return Span(SourceFile(name, text, included_at), start, start + len(found))


def test_heading_line_and_underline() -> None:
    span = at("int a;\nfloat b = cde;\n", "cde")
    note = Note("declared here", Span(span.file, 4, 5))
    text = render([Diagnostic("undeclared", "error", "no 'cde'", span, (note,), "abc")])
    assert text == (
        "a.tc:2:11: error: no 'cde' [undeclared]\n"
        "    2 | float b = cde;\n"
        "      |           ^~~\n"
        "      |           abc\n"
        "a.tc:1:5: note: declared here\n"
        "    1 | int a;\n"
        "      |     ^\n"
    )


def test_a_note_without_a_place_stands_at_its_message() -> None:
    text = render([Diagnostic("x", "error", "m", at("b", "b"), (Note("why"),))])
    assert text.endswith("      | ^\na.tc:1:1: note: why\n")


def test_without_a_place() -> None:
    assert render([Diagnostic("x", "error", "m")]) == "tritonc: error: m [x]\n"


def test_tabs_and_wide_characters_keep_the_caret_in_place() -> None:
    span = at("\tx\t= \N{CJK UNIFIED IDEOGRAPH-4E00}y z;", "y")
    lines = render([Diagnostic("x", "warning", "m", span)]).splitlines()
    assert lines[0].startswith("a.tc:1:7: warning: m [-Wx]")
    assert lines[2] == "      | \t \t    ^"


def test_control_characters_do_not_reach_the_terminal() -> None:
    span = at("a \x1b[31m b", "b")
    assert "\x1b" not in render([Diagnostic("x", "error", "m", span)])


def test_long_line_is_cut_around_the_caret() -> None:
    text = "a" * 500 + " here " + "b" * 500
    lines = render([Diagnostic("x", "error", "m", at(text, "here"))]).splitlines()
    assert len(lines[1]) <= LINE_LIMIT + 20
    assert lines[1][8:11] == "..." == lines[1][-3:]
    caret = lines[2].index("^")
    assert lines[1][caret : caret + 4] == "here" and lines[2][caret:] == "^~~~"


def test_end_of_line_and_of_file() -> None:
    file = SourceFile("a.tc", "abc\n")
    for offset, place in ((3, "1:4"), (4, "2:1")):
        text = render([Diagnostic("x", "error", "m", Span(file, offset, offset + 1))])
        assert text.startswith(f"a.tc:{place}:") and text.endswith("^\n")


def test_includes_and_macros() -> None:
    main = SourceFile("main.tc", '\n#include "one.tc"\n')
    one = SourceFile("one.tc", '#include "two.tc"\n', Span(main, 1, 9))
    two = SourceFile("two.tc", "#define F yy\nF;\n", Span(one, 0, 8))
    expansion = Expansion("F", Span(two, 10, 12))
    text = render([Diagnostic("x", "error", "m", Span(two, 13, 14, expansion))])
    assert text.splitlines()[:3] == [
        "In file included from one.tc:1,",
        "                 from main.tc:2:",
        "two.tc:2:1: error: m [x]",
    ]
    assert "two.tc:1:11: note: in expansion of macro 'F'\n    1 | #define F yy\n" in text
    by_option = Span(main, 1, 2, Expansion("G", None))
    assert "macro 'G', which -D defines" in render([Diagnostic("x", "error", "m", by_option)])


def test_json_has_gcc_fields() -> None:
    span = at("b = cde;", "cde")
    (item,) = json.loads(render_json([Diagnostic("n", "error", "m", span, (Note("why"),), "abc")]))
    assert item["kind"] == "error" and item["message"] == "m" and item["name"] == "n"
    assert item["locations"][0]["caret"]["column"] == 5
    assert item["locations"][0]["finish"]["column"] == 7
    assert item["children"][0]["message"] == "why"
    assert item["fixits"][0]["next"]["column"] == 8 and item["fixits"][0]["string"] == "abc"


def test_color() -> None:
    item = Diagnostic("x", "error", "m")
    assert "\x1b[1;31merror:" in render([item], color=True)
    quiet = io.StringIO()
    assert use_color("always", quiet, {}) and not use_color("never", quiet, {})
    assert not use_color("auto", quiet, {})
    assert use_color("auto", quiet, {"CLICOLOR_FORCE": "1"})
    quiet.isatty = lambda: True  # type: ignore[method-assign]
    assert use_color("auto", quiet, {}) and not use_color("auto", quiet, {"NO_COLOR": "1"})


def test_summary() -> None:
    items = [Diagnostic("x", s, "m") for s in ("error", "error", "warning")]
    assert summary(items) == "2 errors and 1 warning" and summary([]) == ""
