"""The preprocessor: the C standard's examples, every directive."""

from __future__ import annotations

import pytest
from preprocessed_text import STANDARD, pairs, reports, run, shown, spelled

from tritonc.frontend.lexer import tokenize
from tritonc.frontend.preprocess import PreprocessOptions, load_source, preprocess
from tritonc.source import CompileError, Diagnostics, SourceFile

# Macros


@pytest.mark.parametrize(("text", "result"), STANDARD)
def test_examples_of_the_standard(text: str, result: str) -> None:
    tokens = run(text).tokens
    assert pairs(tokens) == pairs(tokenize(SourceFile("t", result)).tokens)


@pytest.mark.parametrize(("text", "result"), [
    ("#define A :, newaxis\nx[A]", "x [ : , newaxis ]"),
    ("#define S TM, TK\nfloat a[S]", "float a [ TM , TK ]"),
    ("#define T ^a\nT @ b", "^ a @ b"),
    ("#define NAME(t) matmul_ ## t\nkernel void NAME(nt)()", "kernel void matmul_nt ( )"),
    ("#define f(a) a*g\n#define g(a) f(a)\nf(2)(9)", "2 * 9 * g"),  # unspecified; as GCC
    ("#define foo foo a bar\n#define bar foo b\nbar", "foo a bar b"),
    ("#define f(x) x\nf\n(\n1\n)\nf", "1 f"),
    ("#define f (1)\nf", "( 1 )"),
    ("#define f() 1\nf() f( ) f", "1 1 f"),
    ("#define f(x, y) y x\nf((a, b), c)", "c ( a , b )"),
    ("#define f(x, ...) x(__VA_ARGS__)\nf(a) f(a,) f(a, b, c)", "a ( ) a ( ) a ( b , c )"),
    ("#define e(f, ...) p(f, ## __VA_ARGS__)\ne(1) e(1,) e(1, 2, 3)",
     "p ( 1 ) p ( 1 , ) p ( 1 , 2 , 3 )"),
    ("#define e(...) p(0, ## __VA_ARGS__)\ne()", "p ( 0 )"),
    ("#define e(rest...) p(rest)\ne(1, 2)", "p ( 1 , 2 )"),
    ("#define s(x) #x\ns( a  +\n b ) s() s(\"\\n\" '\"')", r'"a + b" "" "\"\\n\" ' r"""'\"'" """
     .strip()),
    ("#define c(x, y) x ## y\n#define ab 7\nc(a, b) c(, b) c(+, =) c(1, .5)", "7 b += 1.5"),
    ("#define o a ## b\n#define ab 7\no", "7"),
    ("#define f(x) #x x ## 1 x\n#define y z\nf(y)", '"y" y1 z'),
    ("#define E\n#define s_(x) #x\n#define s(x) s_(x)\ns(a E+b) s(a E b) s(E)",
     '"a +b" "a b" ""'),
    ("#define f(x) [x\n#define g f(1\ng)", "[ 1"),
    ("#define a b\n#define b a\na b", "a b"),
    ("#define c(x, y) x ## y\n#define AB c(A, B)\nAB", "AB"),
    ("#define f(x) x\nf g f\n#define h 1\ng f", "f g f g f"),
    ("#define f(x) x + 1\nf(f(f(2)))", "2 + 1 + 1 + 1"),
    ("#define f(x) 1\nf(\n#if 1\na\n#else\n(\n#endif\n)", "1"),
    ("#define f(x) x\nf\n#define y 2\n(y)", "2"),
    ("#define x y\n#undef x\nx", "x"),
    ("#define\\\n f(x)\\\n x \\\n1\nf(2)", "2 1"),
    ("__COUNTER__ __COUNTER__", "0 1"),
    ("#define L __LINE__\n\nL __LINE__ __FILE__", '3 3 "main.tc"'),
    ('#line 70 "a\\\\b.c"\n__LINE__ __FILE__\n#line 5\n__LINE__\n# 9 "c" 1\n__LINE__ __FILE__',
     '70 "a\\\\b.c" 5 9 "c"'),
    ("#define N 7\n#line N\n__LINE__", "7"),
    ("__DATE__", '"??? ?? ????"'),
    ('_Pragma("once") a', "a"),
    ("a\n#\n # /* nothing */\nb", "a b"),
])
def test_expansion(text: str, result: str) -> None:
    assert spelled(text) == result


def test_predefined_literals_are_numbers() -> None:
    tokens = run("INFINITY NAN true false F32_INFINITY F16_INFINITY").tokens[:-1]
    assert " ".join(t.text for t in tokens) == (
        "inf nan true false ( ( float ) inf ) ( ( half ) inf )")
    assert {t.kind for t in tokens if t.text in ("inf", "nan", "true", "false")} == {"number"}


@pytest.mark.parametrize(("defines", "result"), [
    (("TM=32",), "32"), (("TM",), "1"), (("TM=",), ""), (("TM=:, x",), ": , x"),
    (("TM=1", "-UTM"), "TM"), (("-UTM", "TM=1"), "1"), (("TM=1", "-DTM=2"), "2"),
    (("f(x)=x+1", "TM=f(2)"), "2 + 1"), (("-Utrue",), "TM"),
])
def test_command_line_defines(defines: tuple[str, ...], result: str) -> None:
    assert spelled("TM", *defines) == result


def test_a_define_replaces_a_predefined_macro_silently() -> None:
    diagnostics = Diagnostics()
    done = run("INFINITY", diagnostics, defines=("INFINITY=9",))
    assert done.tokens[0].text == "9" and not diagnostics.items


@pytest.mark.parametrize("text", ["1x", "=3", "a b=1", "x+=1", "x=1\n2", "x='", "x=/*", "f(x=1",
                                  "x=\0", "defined", "f(x,x)=1", ""])
def test_bad_command_line_defines(text: str) -> None:
    with pytest.raises(CompileError, match="<command line>:1:"):
        spelled("", text)


# Conditions


@pytest.mark.parametrize("condition", [
    "1", "2 - 1", "!0", "-1 < 0", "-1 > 0u", "0x10 == 16 && 010 == 8 && 0b11 == 3", "1 ? 2 : 0",
    "0 ? 0 : 1 ? 1 : 0", "(1 || 1/0) && !(0 && 1 % 0)", "1 ? 1 : 1/0", "'a' == 97",
    "7 / -2 == -3 && 7 % -2 == 1 && -7 / 2 == -3 && -7 % 2 == -1", "-1 >> 1 == -1",
    "0xffffffffffffffff == -1", "9223372036854775807 + 1 < 0", "~0u == 18446744073709551615u",
    "18446744073709551615u + 1 == 0", "(1 ? -1 : 0u) > 0", "-1u >> 63 == 1", "1 << 63 < 0",
    "-9223372036854775807 - 1 == (-9223372036854775807 - 1) / -1", "3 ^ 1 & 3 | 4 == 4",
    "1 + 2 * 3 == 7", "10 - 2 - 3 == 5", "2 << 1 + 1 == 8", "unknown == 0", "true && !false",
    "defined X && defined(X) && !defined Y", "X == 5", "defined __LINE__ && __LINE__ == 4", "D",
    "f(2) == 3", "10ull == 10LLU", "- - - 1 == -1", "!!!0", "1 == 1 != 0", "0 == 1 < 2 == 0",
    "(" * 90 + "1" + ")" * 90,
])
def test_true_conditions(condition: str) -> None:
    text = f"#define X 5\n#define D defined X\n#define f(x) x + 1\n#if {condition}\nyes\n#endif"
    assert spelled(text) == "yes"


@pytest.mark.parametrize(("condition", "where"), [
    ("", "if"), ("1 +", "+"), ("(1", "("), ("1)", ")"), ("1 2", "2"), ("1.5", "1.5"), ("1/0", "/"),
    ("1 % 0", "%"), ('"a"', '"a"'), ("1 ? 2", "?"), ("defined", "defined"),
    ("defined(X", "("), ("defined 1", "defined"), ("1 = 1", "="), ("1, 2", ","), ("08", "08"),
    ("1 << 64", "<<"), ("1 >> -1", ">>"), ("18446744073709551616", "18446744073709551616"),
    ("1ulu", "1ulu"), ("''", "''"), (r"'\q'", r"'\q'"), ("$", "$"), ("INFINITY", "INFINITY"),
    ("9" * 5000, "9" * 5000), ("f(1)", "("), ("++1", "++"),
])
def test_bad_conditions(condition: str, where: str) -> None:
    (report,) = reports(f"#if {condition}\n#endif")
    name, _, text = report.split(" ", 2)
    assert name in ("invalid-condition", "unterminated-literal") and text == where


@pytest.mark.parametrize("text", ["#if " + "(" * 20_000, "#if " + "1?1:" * 20_000 + "1",
                                  "#if " + "- " * 20_000 + "1", "#if " + "!(" * 20_000,
                                  "#if " + "1||1&&1|1^1&1==1<1<<1+1*(" * 2000])
def test_deep_conditions(text: str) -> None:
    assert all(r.split()[0] in ("invalid-condition", "unbalanced-conditional")
               for r in reports(text))


@pytest.mark.parametrize(("text", "result"), [
    ("#if 0\na\n#elif 1\nb\n#elif 1\nc\n#else\nd\n#endif\ne", "b e"),
    ("#if 0\na\n#else\nb\n#endif", "b"),
    ("#ifdef X\na\n#endif\n#ifndef X\nb\n#endif", "b"),
    ("#if 0\n#if 1\na\n#else\nb\n#endif\n#elif 1\nc\n#endif", "c"),
    ("#if 1\n#if 0\n#else\na\n#endif\n#else\nb\n#endif", "a"),
    ("#if 0\n\x00 don't #error x \xff\n#bogus\n#define\n#include\n#if (\n#endif\n#endif\na", "a"),
    ("#if 1\na\n#elif (((\n#endif", "a"),  # a branch after the one taken is not evaluated
    ("  #  if 1 // c\na\n\t#\tendif /* d */", "a"),
    ("#if 0\n/*\n#endif\n*/\na\n#endif\nb", "b"),
    ("#if 0\n\"/*\"\n#endif\nb", "b"),
])
def test_conditionals(text: str, result: str) -> None:
    assert spelled(text) == result


# Included files


def test_includes_in_order_of_search() -> None:
    files = {"a.h": "here", "inc/a.h": "there", "inc/b.h": '#include "sub/c.h"\n',
             "inc/sub/c.h": '#include "d.h"', "inc/sub/d.h": "d __FILE__"}
    done = run('#include "a.h"\n#include <a.h>\n#include "b.h"', files=files, include_dirs=("inc",))
    assert [t.text for t in done.tokens[:-1]] == ["here", "there", "d", '"inc/sub/d.h"']
    assert done.included == ["a.h", "inc/a.h", "inc/b.h", "inc/sub/c.h", "inc/sub/d.h"]


def test_include_of_a_macro_and_of_odd_names() -> None:
    files = {"a.h": "1", "x//y'.h": "2", "a+b.h": "3"}
    text = ('#define Q "a.h"\n#define S(x) <x.h>\n#include Q\n#include S(a)\n#include <x//y\'.h>\n'
            '#include \\\n "a+b.h" // c\n')
    done = run(text, files=files, include_dirs=("",))
    assert [t.text for t in done.tokens[:-1]] == ["1", "1", "2", "3"]
    assert done.included == ["a.h", "x//y'.h", "a+b.h"]


def test_pragma_once_and_guards() -> None:
    files = {"once.h": "#pragma once\na", "guard.h": "#ifndef G\n#define G\nb\n#endif\n"}
    done = run('#include "once.h"\n#include "guard.h"\n' * 3, files=files)
    assert [t.text for t in done.tokens[:-1]] == ["a", "b"]


def test_a_macro_use_may_span_files() -> None:
    done = run('#define f(x) [x]\n#include "a.h"\n(1)', files={"a.h": "f"})
    assert [t.text for t in done.tokens[:-1]] == ["[", "1", "]"]


def test_forced_includes_come_first_in_their_order() -> None:
    done = run("c", files={"a": "a", "b": "b"}, forced_includes=("a", "b"))
    assert [t.text for t in done.tokens[:-1]] == ["a", "b", "c"]
    with pytest.raises(CompileError, match="'no', to be included first"):
        run("", forced_includes=("no",))


def test_where_an_included_file_was_included() -> None:
    done = run('\n#include "a.h"', files={"a.h": "\n x"})
    span = done.tokens[0].span
    assert str(span) == "a.h:2:2" and str(span.file.included_at) == "main.tc:2:10"


@pytest.mark.parametrize("files", [
    {"a.h": '#include "a.h"'},
    {"a.h": '#include "b.h"', "b.h": '#include "a.h"'},
    {"a.h": "".join(f'#include "{n}.h"\n' * 40 for n in "b"), "b.h": '#include "c.h"\n' * 40,
     "c.h": '#include "d.h"\n' * 40, "d.h": ""},
])
def test_runaway_includes(files: dict[str, str]) -> None:
    assert [r.split()[0] for r in reports('#include "a.h"', files)] == ["include-limit"]


def test_unreadable_files(tmp_path: object) -> None:
    def read(path: str) -> bytes:
        if path == "denied.h":
            raise PermissionError(13, "Permission denied")
        return b"ok\n caf\xe9 x"

    diagnostics = Diagnostics()
    text = '#include "denied.h"\n#include "latin.h"\nrest'
    done = preprocess(SourceFile("main.tc", text), PreprocessOptions(read_file=read), diagnostics)
    assert [f"{d.span}: {d.message}" for d in diagnostics.items] == [
        "main.tc:1:10: cannot read 'denied.h': Permission denied",
        "latin.h:2:5: byte 0xe9 is not UTF-8"]
    assert done.tokens[0].text == "rest"


def test_files_on_disk(tmp_path: object) -> None:
    path = f"{tmp_path}/a.tc"
    with open(path, "wb") as file:
        file.write("\ufeffint é\r\n".encode())
    source = load_source(path, Diagnostics())
    assert source is not None and source.text == "\ufeffint é\r\n"
    with pytest.raises(CompileError, match=r"'b\\0.h'|embedded null"):
        run_from_disk('#include "b\0.h"')
    with pytest.raises(CompileError, match="was not found"):
        run_from_disk(f'#include "{tmp_path}"')


def run_from_disk(text: str) -> None:
    diagnostics = Diagnostics()
    preprocess(SourceFile("main.tc", text), PreprocessOptions(), diagnostics)
    diagnostics.raise_if_errors()


# Spans


def test_spans_of_a_macro() -> None:
    text = "#define B b + 1\n#define A(x) x * B\n  A(yy)\n"
    tokens = run(text).tokens[:-1]
    assert [t.text for t in tokens] == ["yy", "*", "b", "+", "1"]
    assert shown(tokens[0].span) == "3:5 yy" and tokens[0].span.expansion is None
    for token, macro, spelling in [(tokens[1], "A", "2:16 *"), (tokens[2], "B", "1:11 b")]:
        assert shown(token.span) == "3:3 A"
        assert token.span.expansion is not None
        assert token.span.expansion.macro == macro
        assert shown(token.span.expansion.spelling) == spelling


def test_spans_of_joined_tokens_and_of_the_command_line() -> None:
    joined, made, line = run("#define J(x) x ## y\nJ(a) M __LINE__", defines=("M=1",)).tokens[:-1]
    assert shown(joined.span) == "2:1 J"
    assert shown(made.span) == "2:6 M" and made.span.expansion is not None
    assert made.span.expansion.macro == "M" and made.span.expansion.spelling is None
    assert shown(line.span) == "2:8 __LINE__"


def test_presumed_places() -> None:
    done = run('a\n#line 100 "gen.y"\nb\n\nc')
    assert [t.span.presumed for t in done.tokens[:-1]] == [
        ("main.tc", 1), ("gen.y", 100), ("gen.y", 102)]


# Problem lines and pragmas


def test_problem_lines() -> None:
    text = ("//! size: N = 1, \\\n  M = 2\r\n  //!range: N\nint x; //! not this\n/*\n//! nor this\n"
            "*/\n#if 0\n//! skipped\n#if 1\n//! too\n#endif\n#endif\n//! arg: x\n#if 1\n"
            '//! let: y\n#endif\n"//! no"\n#include "a.h"\n//!\n#if 0\n//! open\n')
    diagnostics = Diagnostics()
    done = run(text, diagnostics, files={"a.h": "//! other file\n#if 0\n#endif\n"})
    assert [d.name for d in diagnostics.items] == ["unbalanced-conditional"]
    assert [line for line, _ in done.problem_lines] == [
        "size: N = 1,   M = 2", "range: N", "arg: x", "let: y", ""]
    assert [shown(span) for _, span in done.problem_lines[1:]] == [
        "3:6 range: N", "14:5 arg: x", "16:5 let: y", "20:1 //!"]


def test_pragmas() -> None:
    diagnostics = Diagnostics()
    done = run('#pragma weak  4 // c\n#define P(x) _Pragma(#x)\nP(a "b")\n#pragma\n', diagnostics)
    assert [text for text, _ in done.pragmas] == ["weak  4", 'a "b"', ""]
    assert [d.name for d in diagnostics.items] == ["unknown-pragma"] * 2


def test_messages_follow_line_directives() -> None:
    """As gcc and clang do: what generated the source is what its author looks at."""
    from tritonc import driver
    from tritonc.options import Options
    from tritonc.render import render, render_json
    from tritonc.source import CompileError, SourceFile

    text = 'kernel void f(float* x) {\n#line 70 "gen.y"\n  *x = foo;\n}\n'
    for _ in range(2):  # marks of an earlier run over the same file do not stay
        file = SourceFile("out.tc", text)
        with pytest.raises(CompileError) as caught:
            driver.compile(file, Options(), ("tir",))
        assert render(caught.value.diagnostics).startswith("gen.y:70:8: error: there is nothing")
        assert '"file": "gen.y", "line": 70' in render_json(caught.value.diagnostics)
    done = driver.compile(SourceFile("out.tc", text.replace("foo", "1")),
                          Options(line_info=True), ("ptx",))
    ptx = done.outputs["ptx"]
    assert '.file\t1 "out.tc"' in ptx and '.file\t2 "gen.y"' in ptx and ".loc\t2 70" in ptx
