"""Reading the `//!` lines."""

from __future__ import annotations

import pytest

from tritonc.problem.lines import Problem, parse
from tritonc.source import Diagnostics, SourceFile, Span


def read(text: str) -> tuple[list[Problem], list[str]]:
    """The problems of the text's `//!` lines, and the messages."""
    file = SourceFile("p.tc", text)
    lines, at = [], 0
    for line in text.splitlines(keepends=True):
        if line.startswith("//!"):
            body = line[3:].strip()
            start = at + line.index(body, 3) if body else at + 3
            lines.append((body, Span(file, start, start + len(body))))
        at += len(line)
    diagnostics = Diagnostics()
    problems = parse(lines, diagnostics)
    return problems, [f"{d.span}: {d.message}" for d in diagnostics.items]


GOOD = """\
//! kernel: f
//! size: M = 3, N = min(4, 5)
//! range: M, N // 2
//! arg: x = randn(M, N)[:, 1:3] : half
//! arg: y = zeros((M, N)) : unsigned   int
//! arg: N = N
//! let: s = x + 1
//! expect: y = np.where(s > 0, s, 0)
//! tolerance: 1e-3
//! define: T = 32
//! define: FAST
//! define: EMPTY =
//! pad: x = 16
//! clobber: x
//! bench: M = 1, N = 2
//! bench: M = 4
//! flops: 2 * M
"""


def test_every_line() -> None:
    (problem,), messages = read(GOOD)
    assert messages == []
    assert problem.kernel == "f" and [s.name for s in problem.sizes] == ["M", "N"]
    assert len(problem.range) == 2
    assert [(a.name, a.type) for a in problem.arguments] == [
        ("x", "half"), ("y", "unsigned int"), ("N", None)]  # fmt: skip
    assert problem.lets[0].expression.text == "x + 1"
    assert [d[:2] for d in problem.defines] == [("T", "32"), ("FAST", "1"), ("EMPTY", "")]
    assert problem.pads[0].name == "x" and problem.clobbers[0][0] == "x"
    assert [[s.name for s in line] for line in problem.bench] == [["M", "N"], ["M"]]
    assert problem.tolerance is not None and problem.flops is not None and problem.bytes is None


def test_a_second_kernel_line_begins_a_second_problem() -> None:
    text = "//! kernel: {}\n//! range: 1\n//! arg: y = zeros(1)\n//! expect: y = 1\n"
    problems, messages = read(text.format("f") + text.format("g"))
    assert [p.kernel for p in problems] == ["f", "g"] and messages == []
    late, messages = read("//! size: N = 1\n" + text.format("f"))
    assert [p.kernel for p in late] == ["f"] and len(late[0].sizes) == 1 and messages == []
    assert read("int x;\n") == ([], [])


def test_sizes_before_the_first_kernel_are_every_problems() -> None:
    text = ("//! kernel: {}\n//! size: {} = 2\n//! range: N\n//! arg: y = zeros(N)\n"
            "//! expect: y = 1\n")
    problems, messages = read("//! size: N = 1\n" + text.format("f", "M") + text.format("g", "N")
                              + text.format("h", "K"))
    assert messages == []
    assert [[s.expression.text for s in p.sizes] for p in problems] == [
        ["N = 1", "M = 2"], ["N = 2"], ["N = 1", "K = 2"]]  # fmt: skip


BASE = "//! range: 1\n//! arg: y = zeros(1)\n//! expect: y = 1\n"


@pytest.mark.parametrize("line, place, text", [
    ("hello", "4:5", "`key: value`"),
    ("x = rand(4)", "4:5", "such as `arg: x = rand(4)`"),
    ("sise: N = 1", "4:5", "did you mean 'size'"),
    ("size:", "4:5", "has no value"),
    ("size: N", "4:11", "`NAME = EXPRESSION`"),
    ("size: N = 1, 2", "4:", "positional"),
    ("size: N = (1", "4:", "not an expression"),
    ("let: s", "4:10", "`NAME = EXPRESSION`"),
    ("let: s = 1, 2", "4:14", "one expression"),
    ("let: s =", "4:10", "no value"),
    ("let: y = 1", "4:10", "two values"),
    ("expect: y = 2", "4:13", "two values"),
    ("expect: z = 2", "4:13", "no argument 'z'"),
    ("arg: x = 1 : 7", "4:10", "element type"),
    ("pad: z = 1", "4:10", "no argument 'z'"),
    ("clobber: z", "4:14", "no argument 'z'"),
    ("clobber: 1", "4:14", "names of arguments"),
    ("bench: N = 1", "4:12", "no size 'N'"),
    ("range: 2", "4:12", "stated twice"),
    ("tolerance: 1, 2", "4:16", "one expression"),
    ("define: 7 = 1", "4:13", "`MACRO = VALUE`"),
    ("kernel: a b", "4:13", "name of one kernel"),
])  # fmt: skip
def test_mistakes_are_located(line: str, place: str, text: str) -> None:
    _, messages = read(BASE + "//! " + line + "\n")
    assert len(messages) == 1, messages
    assert messages[0].startswith(f"p.tc:{place}") and text in messages[0]


def test_what_is_missing() -> None:
    _, messages = read("//! arg: y = 1\n")
    assert len(messages) == 2 and "no range" in messages[0] and "expects nothing" in messages[1]


def test_a_line_that_cannot_be_read_gives_one_message() -> None:
    _, messages = read("//! range: 1\n//! arg: y = zeros(4)[in x]\n//! expect: y = zeros(4)\n")
    assert messages == ["p.tc:2:23: not an expression: invalid syntax"]


LONG = """//! range: 1
//! arg: y = np.full((
//!     4,), 7,
//!
//!     ) : int
//! expect: y = where(y > 0, "(", \\
//!     {}2)
"""


def test_lines_go_on_where_a_bracket_is_open() -> None:
    (problem,), messages = read(LONG.format(""))
    assert messages == [] and problem.arguments[0].type == "int"
    assert problem.expects[0].expression.text.split() == 'where(y > 0, "(", 2)'.split()
    _, messages = read(LONG.format("1 +* "))
    assert messages == ["p.tc:7:12: not an expression: invalid syntax"]


def test_a_bracket_that_stays_open_swallows_no_line() -> None:
    _, messages = read("//! range: 1\n//! arg: y = zeros((4)\n//! expect: y = zeros(4)\n"
                       "//! arg: z = (\n")
    assert [m.partition(": ")[0] for m in messages] == ["p.tc:2:14", "p.tc:4:14"]
