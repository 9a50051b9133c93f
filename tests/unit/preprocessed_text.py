"""The preprocessor on texts in memory, and its result as words."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from tritonc.frontend.lexer import Token
from tritonc.frontend.preprocess import Preprocessed, PreprocessOptions, preprocess
from tritonc.source import CompileError, Diagnostics, SourceFile, Span

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
