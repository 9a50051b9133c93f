"""What the preprocessor diagnoses, and input that no preprocessor should be slow on."""

from __future__ import annotations

import contextlib
import gc
import time

import pytest
from preprocessed_text import reports, run

from tritonc.diagnostics import DIAGNOSTICS
from tritonc.frontend.preprocess import expand
from tritonc.source import CompileError, Diagnostics

# Mistakes


MISTAKES = [
    ("\n a \x00 b", "stray-character 2:4 \x00"),
    ("x\xa0y", "stray-character 1:2 \xa0"),
    ("é", "stray-character 1:1 é"),
    ("a \\ b", "stray-character 1:3 \\"),
    ("a $ b", "stray-character 1:3 $"),
    ("#define D $\nD", "stray-character 2:1 D"),
    ("#define D \x01", "stray-character 1:11 \x01"),
    ("a # b", "stray-character 1:3 #"),
    ("#define H #\nH", "stray-character 2:1 H"),
    ("a\rb", "stray-character 1:2"),
    ("a\n/* b\n c", "unterminated-comment 2:1 /*"),
    ("#if 0\n/* b\n#endif", "unterminated-comment 2:1 /*"),
    ('a "b\nc', 'unterminated-literal 1:3 "b'),
    ("a 'b\nc", "unterminated-literal 1:3 'b"),
    ("''", "unterminated-literal 1:1 ''"),
    ('"a\\"', 'unterminated-literal 1:1 "a\\"'),
    ("#define D don't", "unterminated-literal 1:14 't"),
    ("#bogus x", "invalid-directive 1:1 #bogus"),
    ("#define", "invalid-macro 1:2 define"),
    ("#define 3", "invalid-macro 1:9 3"),
    ("#define defined", "invalid-macro 1:9 defined"),
    ("#define f(", "invalid-macro 1:10 ("),
    ("#define f(x", "invalid-macro 1:11 x"),
    ("#define f(x,", "invalid-macro 1:12 ,"),
    ("#define f(x,)", "invalid-macro 1:13 )"),
    ("#define f(x y)", "invalid-macro 1:13 y"),
    ("#define f(x, x)", "invalid-macro 1:14 x"),
    ("#define f(..., x)", "invalid-macro 1:14 ,"),
    ("#define f(1)", "invalid-macro 1:11 1"),
    ("#define f(x) #y", "invalid-macro 1:14 #"),
    ("#define f(x) #", "invalid-macro 1:14 #"),
    ("#define x ## a", "invalid-macro 1:11 ##"),
    ("#define x a ##", "invalid-macro 1:13 ##"),
    ("#define x a ## ## b", "invalid-macro 1:16 ##"),
    ("#define x __VA_ARGS__", "invalid-macro 1:11 __VA_ARGS__"),
    ("#define x+y", "macro-space 1:10 +"),
    ("#define x 1\n#define x 2", "macro-redefined 2:9 x"),
    ("#define f(x) x\n#define f(y) y", "macro-redefined 2:9 f"),
    ("#define f (x)\n#define f(x)", "macro-redefined 2:9 f"),
    ("#define x 1+2\n#define x 1 + 2", "macro-redefined 2:9 x"),
    ("#define NAN 1", "macro-redefined 1:9 NAN"),
    ("#define f(x) x\nf(1, 2)", "macro-arguments 2:1 f"),
    ("#define f() x\nf(1)", "macro-arguments 2:1 f"),
    ("#define f(x, y) x\nf()", "macro-arguments 2:1 f"),
    ("#define f(x, y, ...) x\nf(1)", "macro-arguments 2:1 f"),
    ("#define f(x) x\na f(1\nb", "unterminated-macro-use 2:3 f"),
    ("#define f(x) x\n#define g f(\n#if g\n#endif", "unterminated-macro-use 3:5 g"),
    ("#define c(x, y) x ## y\nc(+, 1)", "invalid-join 2:1 c"),
    ("#define c(x, y) x ## y\nc(/, /)", "invalid-join 2:1 c"),
    ("#define s(x) #x\ns(\\)", "invalid-join 2:1 s"),
    ("#if 1\na", "unbalanced-conditional 1:2 if"),
    ("#ifdef a\na", "unbalanced-conditional 1:2 ifdef"),
    ("#endif", "unbalanced-conditional 1:2 endif"),
    ("#else", "unbalanced-conditional 1:2 else"),
    ("#elif 1", "unbalanced-conditional 1:2 elif"),
    ("#if 1\n#else\n#else\n#endif", "unbalanced-conditional 3:2 else"),
    ("#if 0\n#else\n#elif 1\n#endif", "unbalanced-conditional 3:2 elif"),
    ("#ifdef\n#endif", "invalid-directive 1:2 ifdef"),
    ("#ifndef 3\n#endif", "invalid-directive 1:9 3"),
    ("#undef", "invalid-directive 1:2 undef"),
    ("#ifdef a b c\n#endif", "extra-tokens 1:10 b c"),
    ("#undef a b", "extra-tokens 1:10 b"),
    ("#if 1\n#else a\n#endif", "extra-tokens 2:7 a"),
    ("#if 0\n#endif a", "extra-tokens 2:8 a"),
    ('#include "a.h" b', 'extra-tokens 1:10 "a.h" b'),
    ("#error don't  do\\\n this", "error-directive 1:8 don't  do\\\n this"),
    ("#error do  it // c", "error-directive 1:8 do  it"),
    ("#error", "error-directive 1:2 error"),
    ("#warning w", "warning-directive 1:10 w"),
    ("#pragma w", "unknown-pragma 1:9 w"),
    ("x // \u202e and \u2066", "bidirectional-text 1:6 \u202e"),
    ("_Pragma(x)", "invalid-directive 1:1 _Pragma"),
    ("#include", "invalid-directive 1:2 include"),
    ("#include x", "invalid-directive 1:10 x"),
    ("#include <x", "invalid-directive 1:10 <x"),
    ('#include "x', 'invalid-directive 1:10 "x'),
    ("#include <>", "invalid-directive 1:10 <>"),
    ("#define E\n#include E", "invalid-directive 2:2 include"),
    ('#include "none.h"', 'include-not-found 1:10 "none.h"'),
    ("#include <a.h>", "include-not-found 1:10 <a.h>"),
    ("#line x", "invalid-directive 1:7 x"),
    ("#line", "invalid-directive 1:2 line"),
    ("#line 0", "invalid-directive 1:7 0"),
    ("#line 2147483648", "invalid-directive 1:7 2147483648"),
    ("#line 5 x", "invalid-directive 1:9 x"),
    ('#line 5 "\\q"', 'invalid-directive 1:9 "\\q"'),
    ("#line " + "9" * 5000, "invalid-directive 1:7 " + "9" * 5000),
]


@pytest.mark.parametrize(("text", "report"), MISTAKES)
def test_one_mistake_gives_one_report(text: str, report: str) -> None:
    assert reports(text, {"a.h": ""}) == [report.strip()]


def test_every_diagnostic_of_the_preprocessor_is_tested_here() -> None:
    elsewhere = {"expansion-limit", "include-limit", "unreadable-file", "invalid-encoding",
                 "invalid-condition"}
    tested = {report.split()[0] for _, report in MISTAKES}
    assert tested | elsewhere == {
        name for name, row in DIAGNOSTICS.items() if row.section == "preprocessor"}
    diagnostics = Diagnostics(limit=0)
    for text, _ in MISTAKES:
        run(text, diagnostics)
    assert all(DIAGNOSTICS[d.name].severity == d.severity for d in diagnostics.items)


def test_reading_goes_on_after_a_mistake() -> None:
    text = '#bogus\n\x01 a\n#if (\n#endif\n#include "no"\n"b\nc #\n/*'
    assert [r.split()[0] for r in reports(text)] == [
        "unterminated-comment", "invalid-directive", "stray-character", "invalid-condition",
        "include-not-found", "unterminated-literal", "stray-character"]


def test_the_error_limit_stops() -> None:
    assert len(reports("#bogus\n" * 50, limit=3)) == 3


@pytest.mark.parametrize("text", [
    "".join(f"#define A{n} A{n + 1} A{n + 1}\n" for n in range(60)) + "A0",
    "".join(f"#define A{n} A{n + 1}\n" for n in range(5000)) + "A0",
    "#define f(x) x x\n" + "f(" * 40 + "a" + ")" * 40,
    "#define f(x) x\n" + "f(" * 5000 + "a" + ")" * 5000,
    "#define d(x) x ## x\n#define c(x) d(x)\n" + "c(" * 60 + "a" + ")" * 60,
    "#define d(x) #x\n#define c(x) d(x)\n" + "c(" * 60 + '"' + '"' + ")" * 60,
    "".join(f"#define A{n} A{n + 1}\n" for n in range(900)) + "#define A900 " + "A0 " * 9
    + "\n#define D(x) x x\n" + "D(" * 30 + "A0" + ")" * 30,
])
def test_runaway_macros(text: str, thorough: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --thorough, with a tenth of the limit, which is to take a tenth of the time."""
    share = 1 if thorough else 0.1
    monkeypatch.setattr(expand, "EXPANSION_LIMIT", round(share * expand.EXPANSION_LIMIT))
    gc.disable()  # what other tests have left would count here
    try:
        start = time.process_time()
        assert [r.split()[0] for r in reports(text)] == ["expansion-limit"]
        assert time.process_time() - start < 10 * share
    finally:
        gc.enable()


@pytest.mark.parametrize("text", [
    "#define f(x) x\n" + "f(" * 50_000, "#define f(x) x\n" + "f " * 50_000, "#" * 50_000,
    '"' * 50_001, "/*" + "*" * 200_000, "\x00" * 100_000, "#if 0\n" * 20_000, '"\\' * 50_000,
    "\\\n" * 50_000, "#else\n" * 20_000, "#if " + "\x00 a " * 20_000, "a\x00" * 50_000,
])
def test_long_bad_input_takes_linear_time(text: str) -> None:
    start = time.process_time()
    diagnostics = Diagnostics()
    with contextlib.suppress(CompileError):
        run(text, diagnostics)
    assert time.process_time() - start < 5


def test_a_hundred_lines_take_milliseconds() -> None:
    line = "  float A{0}[TM, TK] = check_a ? *(pa + {0}) : 0; // load\n"
    text = "#define TM 32\n" + "".join(line.format(n) for n in range(100))
    best = 1.0
    for _ in range(5):
        start = time.process_time()
        run(text)
        best = min(best, time.process_time() - start)
    assert best < 0.05  # 3 ms on an idle machine
