"""The lexer and the preprocessor: the C standard's examples, every directive, every diagnostic."""

from __future__ import annotations

import contextlib
import doctest
import time
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tritonc.lexer
import tritonc.preprocess.expand
from tritonc.diagnostics import DIAGNOSTICS, PREPROCESSOR
from tritonc.lexer import Token, character_value, literal_bytes, tokenize
from tritonc.preprocess import (
    Preprocessed,
    PreprocessOptions,
    load_source,
    preprocess,
    render,
)
from tritonc.source import CompileError, Diagnostics, SourceFile, Span


def run(text: str, diagnostics: Diagnostics | None = None, files: Mapping[str, str] | None = None,
        include_dirs: tuple[str, ...] = (), defines: tuple[str, ...] = (),
        forced_includes: tuple[str, ...] = ()) -> Preprocessed:
    """Preprocess `text` as "main.tc" with `files` as the only others; errors raise."""
    found = diagnostics or Diagnostics(limit=0)

    def read(path: str) -> bytes:
        if files is None or path not in files:
            raise FileNotFoundError(path)
        return files[path].encode()

    options = PreprocessOptions(include_dirs, defines, forced_includes, read)
    done = preprocess(SourceFile("main.tc", text), options, found)
    if diagnostics is None:
        found.raise_if_errors()
    return done


def spelled(text: str, *defines: str) -> str:
    return " ".join(token.text for token in run(text, defines=defines).tokens[:-1])


def reports(text: str, files: Mapping[str, str] | None = None, limit: int = 0) -> list[str]:
    """What is diagnosed, as "name line:column text-of-the-span"."""
    diagnostics = Diagnostics(limit=limit)
    with contextlib.suppress(CompileError):
        run(text, diagnostics, files)
    return [f"{item.name} {shown(item.span)}" for item in diagnostics.items]


def shown(span: Span | None) -> str:
    assert span is not None
    file = "" if span.file.name == "main.tc" else span.file.name + ":"
    return f"{file}{span.line}:{span.column} {span.file.text[span.start : span.end]}".strip()


def pairs(tokens: list[Token]) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokens]


# The lexer


@pytest.mark.parametrize(("text", "tokens"), [
    ("0...16", "number 0, punctuator ..., number 16"),
    ("0 ... 16", "number 0, punctuator ..., number 16"),
    ("TK...TM", "identifier TK, punctuator ..., identifier TM"),
    ("1.5e+3f-.5", "number 1.5e+3f, punctuator -, number .5"),
    ("1. 1.e5 0x1p-3", "number 1., number 1.e5, number 0x1p-3"),
    ("a<<=b>>c->d", "identifier a, punctuator <<=, identifier b, punctuator >>, identifier c, "
                    "punctuator ->, identifier d"),
    ("x[:, +]", "identifier x, punctuator [, punctuator :, punctuator ,, punctuator +, "
                "punctuator ]"),
    ("@c*pc=^a@b", "punctuator @, identifier c, punctuator *, identifier pc, punctuator =, "
                   "punctuator ^, identifier a, punctuator @, identifier b"),
    ("a+++b", "identifier a, punctuator ++, punctuator +, identifier b"),
    (r'"a\"b" "" ' r"'\'' L'x'", r'string "a\"b", string "", ' r"character '\'', character L'x'"),
    ("a/**/b/* * / */c//d", "identifier a, identifier b, identifier c"),
    ("a\\\nb 1\\\r\n2", "identifier ab, number 12"),
    ("\ufeffx", "identifier x"),
    ("x", "identifier x"),
    ("", ""),
])
def test_tokens(text: str, tokens: str) -> None:
    lexed = tokenize(SourceFile("t", text))
    assert not lexed.errors
    assert ", ".join(f"{t.kind} {t.text}" for t in lexed.tokens[:-1]) == tokens
    assert lexed.tokens[-1].kind == "end"


def test_every_c_punctuator_is_one_token() -> None:
    every = ("[ ] ( ) { } . -> ++ -- & * + - ~ ! / % << >> < > <= >= == != ^ | && || ? : ; ... = "
             "*= /= %= += -= <<= >>= &= ^= |= , # ## @")
    tokens = tokenize(SourceFile("t", every)).tokens[:-1]
    assert [t.text for t in tokens] == every.split()
    assert {t.kind for t in tokens} == {"punctuator"}


def test_offsets_survive_joined_lines() -> None:
    text = "a\\\n\\\nb + \\\r\nc /* \\\n */ d\n"
    tokens = tokenize(SourceFile("t", text)).tokens[:-1]
    assert [text[t.span.start : t.span.end] for t in tokens] == ["a\\\n\\\nb", "+", "c", "d"]
    assert [t.span.line for t in tokens] == [1, 3, 4, 5]


def test_space_and_line_start() -> None:
    tokens = tokenize(SourceFile("t", "a(b) /**/c\n/* \n */ d +\te\r\nf")).tokens[:-1]
    assert "".join(t.text for t in tokens if t.space_before) == "acd+ef"
    assert "".join(t.text for t in tokens if t.line_start) == "adf"


@pytest.mark.parametrize(("text", "value"), [
    ("'a'", 97), (r"'\n'", 10), (r"'\0'", 0), (r"'\x7f'", 127), (r"'\377'", -1), ("'ab'", 24930),
    (r"'\''", 39), (r"'\\'", 92), (r"'\u00e9'", 0xC3A9), (r"'\xff\xff\xff\xff'", -1),
])
def test_character_values(text: str, value: int) -> None:
    assert character_value(text) == value


@pytest.mark.parametrize("text", [r"'\q'", "'abcde'", r"'\x100'", "L'a'", r"'\ud800'", r"'\400'",
                                  r"'\x" + "f" * 9999 + "'"])
def test_character_values_that_do_not_exist(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        character_value(text)


def test_string_bytes() -> None:
    assert literal_bytes(r'"a\t\"é\101"') == 'a\t"éA'.encode()


# Macros


STANDARD = [
    # C11 6.10.3.3, 6.10.3.5 examples 3, 4, 5, 7; 6.10.3.4 has the recursive one.
    ("""#define hash_hash # ## #
#define mkstr(a) # a
#define in_between(a) mkstr(a)
#define join(c, d) in_between(c hash_hash d)
char p[] = join(x, y);
""", 'char p [ ] = "x ## y" ;'),
    ("""#define x 3
#define f(a) f(x * (a))
#undef x
#define x 2
#define g f
#define z z[0]
#define h g(~
#define m(a) a(w)
#define w 0,1
#define t(a) a
#define p() int
#define q(x) x
#define r(x,y) x ## y
#define str(x) # x
f(y+1) + f(f(z)) % t(t(g)(0) + t)(1);
g(x+(3,4)-w) | h 5) & m
(f)^m(m);
p() i[q()] = { q(1), r(2,3), r(4,), r(,5), r(,) };
char c[2][6] = { str(hello), str() };
""", """f(2 * (y+1)) + f(2 * (f(2 * (z[0])))) % f(2 * (0)) + t(1);
f(2 * (2+(3,4)-0,1)) | f(2 * (~ 5)) & f(2 * (0,1))^m(0,1);
int i[] = { 1, 23, 4, 5, };
char c[2][6] = { "hello", "" };"""),
    (r"""#define str(s) # s
#define xstr(s) str(s)
#define debug(s, t) printf("x" # s "= %d, x" # t "= %s", \
 x ## s, x ## t)
#define INCFILE(n) vers ## n
#define glue(a, b) a ## b
#define xglue(a, b) glue(a, b)
#define HIGHLOW "hello"
#define LOW LOW ", world"
debug(1, 2);
fputs(str(strncmp("abc\0d", "abc", '\4') // this goes away
 == 0) str(: @\n), s);
xstr(INCFILE(2).h)
glue(HIGH, LOW);
xglue(HIGH, LOW)
""", r"""printf("x" "1" "= %d, x" "2" "= %s", x1, x2);
fputs("strncmp(\"abc\\0d\", \"abc\", '\\4') == 0" ": @\n", s);
"vers2.h" "hello"; "hello" ", world" """),
    ("""#define t(x,y,z) x ## y ## z
int j[] = { t(1,2,3), t(,4,5), t(6,,7), t(8,9,),
 t(10,,), t(,11,), t(,,12), t(,,) };
""", "int j[] = { 123, 45, 67, 89, 10, 11, 12, };"),
    ("""#define debug(...) fprintf(stderr, __VA_ARGS__)
#define showlist(...) puts(#__VA_ARGS__)
#define report(test, ...) ((test)?puts(#test):\\
 printf(__VA_ARGS__))
debug("Flag");
debug("X = %d", x);
showlist(The first, second, and third items.);
report(x>y, "x is %d but y is %d", x, y);
""", """fprintf(stderr, "Flag");
fprintf(stderr, "X = %d", x);
puts("The first, second, and third items.");
((x>y)?puts("x>y"):
 printf("x is %d but y is %d", x, y));"""),
]


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
    assert [done.presumed(t.span) for t in done.tokens[:-1]] == [
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
    done = run('#pragma unroll  4 // c\n#define P(x) _Pragma(#x)\nP(a "b")\n#pragma\n', diagnostics)
    assert [text for text, _ in done.pragmas] == ["unroll  4", 'a "b"', ""]
    assert [d.name for d in diagnostics.items] == ["unknown-pragma"] * 2


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
    assert tested | elsewhere == set(PREPROCESSOR)
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
def test_runaway_macros(text: str) -> None:
    start = time.process_time()
    assert [r.split()[0] for r in reports(text)] == ["expansion-limit"]
    assert time.process_time() - start < 10


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


# The output of -E


def again(done: Preprocessed) -> Preprocessed:
    return run(render(done))


@pytest.mark.parametrize("text", [
    *(text for text, _ in STANDARD),
    "F32_INFINITY NAN true",
    "#define E\n#define P +\n+E+ -P+ PP+P P= 1 E.5 x E(y) a E b . E. E.",
    "#define c(x, y) y x\nc(+,+) c(.,.) c(a,b) c(1,a) c(>,=)",
    "- __LINE__.5 __LINE__ 7",
    '#line 7 "q\\"\\\\"\na\n\n\n#line 2147483647\nb\nc',
    "a\n\n\n\n\n\n\n\n\n\n\n\n\n\nb\n\nc",
    "#define f(x, y) y x\nf(\na,\n\nb\n)",
])
def test_output_gives_the_same_tokens(text: str) -> None:
    done = run(text)
    assert pairs(again(done).tokens) == pairs(done.tokens)


def test_output_keeps_what_line_directives_said() -> None:
    done = run('a\n#line 5 "x"\nb\n#line 7 "y"\nc\n#line 8\nd\ne')
    second = again(done)
    assert [second.presumed(t.span) for t in second.tokens[:-1]] == [
        ("main.tc", 1), ("x", 5), ("y", 7), ("y", 8), ("y", 9)]


def test_output_keeps_lines_columns_and_files() -> None:
    files = {"a.h": "x\n"}
    text = '#define N 3\nint a = N;\n\n  b(c) ;\n#include "a.h"\nd'
    done = run(text, files=files)
    assert render(done) == (
        '# 2 "main.tc"\nint a = 3;\n\n  b(c) ;\n# 1 "a.h"\nx\n# 6 "main.tc"\nd\n')
    second = again(done)
    assert [second.presumed(t.span) for t in second.tokens[:-1]] == [
        done.presumed(t.span) for t in done.tokens[:-1]]


PIECES = st.sampled_from([
    "#define f(x) ", "#define g(x, ...) ", "#define A ", "#define B ", "#undef A", "x", "x ## x",
    "#x", "__VA_ARGS__", ", ## __VA_ARGS__", "f(", ")", ",", "f", "g(", "A", "B", "\n", "\n", " ",
    "#if ", "#elif ", "#else", "#endif", "#ifdef A", "1", "0", "0...16", "+", "-", "&&", "?", ":",
    "defined", "(", "...", ".", "e", "1e", '"s"', "'c'", '"', "'", "\\\n", "\\", "/*", "*/", "//",
    "#include ", "<a.h>", '"a.h"', "#line 5", "#error e", "#pragma once", "__LINE__", "INFINITY",
    "\x00", "é", "\r\n", "\r", "#", "##", "@", "^", "=", "<", "true", "_Pragma(", "__COUNTER__",
])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=60))
def test_any_text_is_preprocessed_or_diagnosed(text: str) -> None:
    """No exception but CompileError; what has no error prints, and reads back, as the same."""
    diagnostics = Diagnostics(limit=0)
    try:
        done = run(text, diagnostics, files={"a.h": "#define f(x) A x\nA\n"}, include_dirs=("",))
    except CompileError:
        assert diagnostics.errors
        return
    for item in diagnostics.items:
        assert item.name in PREPROCESSOR and item.span is not None
        assert 0 <= item.span.start <= item.span.end <= len(item.span.file.text)
    assert done.tokens[-1].kind == "end"
    if not diagnostics.errors:
        assert pairs(again(done).tokens) == pairs(done.tokens)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_diagnosed(data: bytes) -> None:
    diagnostics = Diagnostics(limit=0)
    source = load_source("x.tc", diagnostics, read_file=lambda path: data)
    if source is None:
        (item,) = diagnostics.items
        assert item.name == "invalid-encoding" and str(item.span).startswith("x.tc:")
    else:
        preprocess(source, PreprocessOptions(), diagnostics)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_spans_spell_their_tokens(text: str) -> None:
    for token in tokenize(SourceFile("t", text)).tokens:
        source = text[token.span.start : token.span.end]
        assert source.replace("\\\r\n", "").replace("\\\n", "") == token.text


def test_examples_in_the_essays() -> None:
    for module in (tritonc.lexer, tritonc.preprocess.expand):
        result = doctest.testmod(module)
        assert result.attempted and not result.failed
