"""What syntax errors say, and where: one message for one mistake, and parsing goes on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_listings import CONVOLUTION, LATER, MATMUL

from tritonc.diagnostics import DIAGNOSTICS
from tritonc.frontend import parser
from tritonc.frontend.foreign import UNSUPPORTED_WORDS
from tritonc.frontend.lexer import Token, tokenize
from tritonc.frontend.preprocess import PreprocessOptions, preprocess
from tritonc.source import CompileError, Diagnostic, Diagnostics, SourceFile


def errors(text: str) -> list[Diagnostic]:
    """The errors of parsing `text`; each must have a place and an explained name."""
    diagnostics = Diagnostics(limit=0)
    done = preprocess(SourceFile("t.tc", text), PreprocessOptions(), diagnostics)
    with pytest.raises(CompileError):
        parser.parse(done.tokens, diagnostics)
    found = [item for item in diagnostics.items if item.severity == "error"]
    assert all(item.span is not None and DIAGNOSTICS[item.name].section == "parser"
               for item in found)
    return found


def briefly(text: str) -> list[str]:
    return [f"{item.span.line}:{item.span.column} {item.message}" for item in errors(text)
            if item.span is not None]


def in_body(body: str) -> list[str]:
    return briefly("kernel void f(float* p, int n) {\n" + body + "\n}\n")


@pytest.mark.parametrize("body, expected", [
    # something is missing: the caret is just after the token before
    ("int x = 3\nfloat y = 4;", ["2:10 expected ';' after expression, found type 'float'"]),
    ("x = (a)\ny = 4;", ["2:8 expected ';' after expression, found 'y'"]),
    ("f(x)\ny = 4;", ["2:5 expected ';' after expression, found 'y'"]),
    ("int x\ny = 4;", ["2:6 expected ';' after 'x', found 'y'"]),
    ("x = 3", ["2:6 expected ';' after expression, found '}'"]),
    ("return\n", ["2:7 expected ';' after 'return', found '}'"]),
    ("return x y;", ["2:9 expected ';' after expression, found 'y'"]),
    ("break\nx = 1;", ["2:6 expected ';' after 'break', found 'x'"]),
    ("do { x = 1; } while (x)\ny = 3;", ["2:24 expected ';' after ')', found 'y'"]),
    ("if (a) x = 1 else y = 2;", ["2:13 expected ';' after expression, found 'else'"]),
    ("for (int i = 0 i < n; i++) x;", ["2:15 expected ';' after expression, found 'i'"]),
    ("x = foo(a;\ny = 3;", ["2:10 expected ')' after expression, found ';'"]),
    ("if (x > 3 { y = 1; }", ["2:10 expected ')' after expression, found '{'"]),
    ("while (x { y = 1; }", ["2:9 expected ')' after expression, found '{'"]),
    ("for (int i = 0; i < n; i++ { x = 1; }",
     ["2:27 expected ')' after expression, found '{'"]),
    ("x = (((1 + a;", ["2:13 expected ')' after expression, found ';'"]),
    ("x[1 = 3;", ["2:8 expected ']' after expression, found ';'"]),
    ("int x[4 = 3;", ["2:12 expected ']' after expression, found ';'"]),
    ("if x > 3 { y = 1; } else { y = 2; }", ["2:3 expected '(' after 'if', found 'x'"]),
    ("for int i = 0; i < n; i++ { x = 1; }", ["2:4 expected '(' after 'for', found type 'int'"]),
    ("do { x = 1; } while x;", ["2:20 expected '(' after 'while', found 'x'"]),
    ("x = a ? b;", ["2:10 expected ':' after expression, found ';'"]),
    ("x = foo(a b);", ["2:10 expected ')' or ',' after expression, found 'b'"]),
    ("x = sizeof y;", ["2:11 expected '(' after 'sizeof', found 'y'"]),
    ("x = bitcast<float> y;", ["2:19 expected '(' after '>', found 'y'"]),
    # something else is wrong: the caret is on it
    ("x = ;", ["2:5 expected an expression after '=', found ';'"]),
    ("x = 3 +;", ["2:8 expected an expression after '+', found ';'"]),
    ("x = a ? b : ;", ["2:13 expected an expression after ':', found ';'"]),
    ("x = a ? : b;", ["2:9 expected an expression after '?', found ':'"]),
    ("x = f(, a);", ["2:7 expected an expression after '(', found ','"]),
    ("x = f(a, );", ["2:10 expected an expression after ',', found ')'"]),
    ("x @ = 3;", ["2:5 expected an expression after '@', found '='"]),
    ("x = int;", ["2:5 expected an expression after '=', found type 'int'"]),
    ("x = [3];", ["2:5 expected an expression after '=', found '['"]),
    ("if () x = 1;", ["2:5 expected an expression after '(', found ')'"]),
    ("int if = 3;", ["2:5 expected a name after 'int', found 'if'"]),
    ("int 3x = 4;", ["2:5 expected a name after 'int', found '3x'"]),
    ("int x, ;", ["2:8 expected a name after ',', found ';'"]),
    ("int;", ["2:1 this declares nothing: a name is missing after the type"]),
    ("if (a)", ["3:1 expected a statement, found '}'"]),
    ("int x 3;", ["2:6 expected ';' after 'x', found '3'"]),
    ("int x y z;", ["2:6 expected ';' after 'x', found 'y'"]),
    ("x = a b c;", ["2:6 expected ';' after expression, found 'b'"]),
    ("x = f(a];", ["2:8 ']' has no '[' before it"]),
    ("x = (a + b)) * c;", ["2:12 ')' has no '(' before it"]),
    ("for (;;;) { }", ["2:8 expected an expression after ';', found ';'"]),
    ("(a > 0) x = 1; else x = 2;", ["2:8 expected ';' after expression, found 'x'"]),
    ("if (a) x = y z; else w;", ["2:13 expected ';' after expression, found 'z'"]),
    ("do { x = 1; }", ["3:1 expected 'while' after '}', found '}'"]),
    ("if (a) x = y z; else w;\nelse z;", ["2:13 expected ';' after expression, found 'z'",
                                        "3:1 'else' has no 'if' before it"]),
    ("if (a { x = 2); }\nz = ;", ["2:6 expected ')' after expression, found '{'",
                                 "2:14 ')' has no '(' before it",
                                 "3:5 expected an expression after '=', found ';'"]),
    ("{ x = (1; } y = 2); z = ;", ["2:9 expected ')' after expression, found ';'",
                                   "2:18 ')' has no '(' before it",
                                   "2:25 expected an expression after '=', found ';'"]),
    ("a = b\n  * ;", ["3:5 expected an expression after '*', found ';'"]),
    ("x = 3);", ["2:6 ')' has no '(' before it"]),
    ("x = y];", ["2:6 ']' has no '[' before it"]),
    ("else x = 3;", ["2:1 'else' has no 'if' before it"]),
    ("if (a) x; else y; else z;", ["2:19 'else' has no 'if' before it"]),
    # types
    ("flaot x = 3;", ["2:1 unknown type name 'flaot'; did you mean 'float'?"]),
    ("foo y;", ["2:1 unknown type name 'foo'"]),
    ("const x = 3;", ["2:7 unknown type name 'x'"]),
    ("x = sizeof(flot);", ["2:12 unknown type name 'flot'; did you mean 'float'?"]),
    ("long double d;", ["2:1 'long double' is not a type of Triton-C"]),
    ("unsigned float d;", ["2:1 'unsigned float' is not a type of Triton-C"]),
    ("x = float(3);", ["2:5 a conversion to 'float' is written '(float)x'"]),
    # declarations
    ("int x[] = 3;", ["2:6 the extents of a tile must be given, as in '[16]'"]),
    ("if (a) int x = 3;", ["2:8 a declaration cannot be the whole body of a statement; put it "
                           "into braces, '{ ... }'"]),
    ("tunable int T = 3;", ["2:1 a tunable is declared outside a function, as in "
                            "'const tunable int TM = {16, 32};'"]),
    ("kernel int x;", ["2:1 'kernel' does not apply to 'x'"]),
    ("__constant__ int x = 3;", ["2:18 'x' is '__constant__' but not a pointer; only a pointer can "
                                 "point to constant memory"]),
    ("float[4] x[4];", ["2:10 'x' has extents both on its type and after its name"]),
    ("int* d = alloc_const int[4];", ["2:10 a constant table is declared outside a function, as "
                                      "in '__constant__ int* table = alloc_const int[512];'"]),
    ("void g(int x);", ["2:6 function 'g' is declared inside another function; move the "
                        "declaration outside"]),
    ("int x(3);", ["2:5 a variable is initialised with '=', as in 'x = x'"]),
    ("x = (align(4) int)y;", ["2:6 'align' does not apply to a type without a name"]),
    # literals
    ("x = 0x;", ["2:5 invalid suffix 'x' on integer constant"]),
    ("x = 08;", ["2:5 invalid digit in octal constant '08'"]),
    ("x = 1.5q;", ["2:5 invalid suffix 'q' on floating constant"]),
    ("x = 1f;", ["2:5 invalid suffix 'f' on integer constant"]),
    ("x = 1.2.3;", ["2:5 invalid number '1.2.3'"]),
    ("x = 18446744073709551616;", ["2:5 integer constant does not fit in 64 bits"]),
    ("x = " + "9" * 6000 + ";", ["2:5 integer constant does not fit in 64 bits"]),
    (r"x = '\q';", ["2:5 unknown escape sequence '\\q'"]),
    # the rest
    ("x = 1 ... 2 ... 3;", ["2:13 a range has two ends; '...' cannot be chained"]),
    ("x = f[:](0);", ["2:7 the brackets after 'f' hold extents"]),
    ("(f)(x);", ["2:4 only a function's name can be called, or the operator of an expression is "
                 "missing here"]),
])  # fmt: skip
def test_message(body: str, expected: list[str]) -> None:
    assert in_body(body) == expected


@pytest.mark.parametrize("body, place, words", [
    ("union U { int a; float b; };", "2:1", "unions are not supported; 'bitcast"),
    ("enum { A, B };", "2:1", "enumerations are not supported; declare each as 'const int"),
    ("switch (x) { case 1: y = 2; break; default: y = 3; }", "2:1",
     "'switch' is not supported; write a chain of 'if'"),
    ("goto out;", "2:1", "'goto' is not supported; use loops"),
    ("out: x = 3;", "2:4", "labels are not supported"),
    ("x = 1, y = 2;", "2:6", "the comma operator is not supported; write a statement for each"),
    ("for (i = 0, j = 0; i < n; i++) x;", "2:11", "the comma operator is not supported"),
    ("for (i = 0; i < n; i++, j++) x;", "2:23", "the comma operator is not supported"),
    ("int x = {1, 2};", "2:9", "initialiser lists are only for structs and tunables; assign"),
    ("int x = {0};", "2:9", "write the value without braces; it fills the tile"),
    ("int x[4][4][4];", "2:12", "an array holds tiles and has one count, as in"),
    ("float** q = p;", "2:7", "a pointer to a pointer is not supported; pass each pointer"),
    ("int* const * q;", "2:12", "a pointer to a pointer is not supported"),
    ('char* s = "abc";', "2:11", "a string can only be an argument of printf"),
    ('x = "abc";', "2:5", "a string can only be an argument of printf"),
    ('"abc";', "2:1", "a string can only be an argument of printf"),
    ("p->y = 3;", "2:2", "there are no pointers to structs, so '->'"),
    ("x = tl.load(p);", "2:7", "there are no methods and no modules"),
    ("x = &y;", "2:5", "the address of a variable cannot be taken"),
    ("typedef float* fp;", "2:1", "a typedef can only name a scalar type"),
    ("typedef float real[4];", "2:1", "a typedef can only name a scalar type"),
    ("__shared__ float x[4];", "2:1", "'__shared__' is not supported"),
])  # fmt: skip
def test_what_triton_c_does_not_have(body: str, place: str, words: str) -> None:
    """One message, which says what to do; and the next statement's mistake is found, too."""
    first, second = errors("kernel void f(float* p, int n) {\n" + body + "\ny = ;\n}\n")
    assert first.name == "unsupported-construct"
    assert first.span is not None and f"{first.span.line}:{first.span.column}" == place
    assert words in first.message
    assert second.span is not None
    assert (second.span.line, second.message) == (
        3, "expected an expression after '=', found ';'")


@pytest.mark.parametrize("word", sorted(UNSUPPORTED_WORDS))
def test_unsupported_word(word: str) -> None:
    (error,) = errors(f"void f() {{\n{word} x;\n}}")
    assert error.message == UNSUPPORTED_WORDS[word]
    assert error.message.count(word) or word in ("union", "enum", "asm", "__asm__",
                                                 "_Complex")


@pytest.mark.parametrize("text, expected", [
    ("int x = 3;", ["1:5 'x' is a variable outside a function, which is not supported; make it a "
                    "parameter of the kernel, a 'const' scalar or a '__constant__' table"]),
    ("const int x;", ["1:11 constant 'x' needs a value, as in 'const int x = 4;'"]),
    ("const int x[4] = 3;", ["1:11 constant 'x' is a tile, which is not supported outside a "
                             "function; declare it in the function that uses it"]),
    ("const int X = {3};", ["1:15 initialiser lists are only for structs and tunables; write "
                            "the value without braces; it fills the tile"]),
    ("tunable int T = {};", ["1:17 tunable 'T' needs at least one value; without a list, its "
                             "value comes from outside"]),
    ("tunable int T = {{1}};", ["1:18 a value of a tunable must be a constant expression"]),
    ("tunable float* p = {1};", ["1:16 tunable 'p' must be a scalar"]),
    ("restrict tunable int T;", ["1:1 'restrict' does not apply to 'T', which is outside a "
                                 "function"]),
    ("__constant__ int* d;", ["1:19 constant table 'd' needs a size: "
                              "'__constant__ int* d = alloc_const int[512];'"]),
    ("__constant__ int d[512];", ["1:18 constant table 'd' must be declared as a pointer: "
                                  "'__constant__ int* d = alloc_const int[512];'"]),
    ("__constant__ int* d = alloc_const int;",
     ["1:23 'alloc_const' needs a count of elements, as in 'alloc_const int[512]'"]),
    ("__constant__ int* d = calloc(1, 2);", ["1:23 'calloc' takes one argument, a count of bytes"]),
    ("kernel void f(int x y) { x = 1; }",
     ["1:20 expected ')' or ',' after 'x', found 'y'"]),
    ("kernel void f(int x { x = 1; }", ["1:20 expected ')' after 'x', found '{'"]),
    ("kernel void f(int x) x = 1; }\nint y;", [
        "1:21 expected '{' after ')', found 'x'",
        "2:5 'y' is a variable outside a function, which is not supported; make it a parameter of "
        "the kernel, a 'const' scalar or a '__constant__' table"]),
    ("kernel void f(flaot* x, int y) { }",
     ["1:15 unknown type name 'flaot'; did you mean 'float'?"]),
    ("kernel viod f() { }", ["1:8 unknown type name 'viod'; did you mean 'void'?"]),
    ("void f(int x,) {}", ["1:14 expected a type after ',', found ')'"]),
    ("void f(...) {}", ["1:8 expected a type after '(', found '...'"]),
    ("void f(int, int) {}", ["1:8 a parameter of a function with a body needs a name",
                             "1:13 a parameter of a function with a body needs a name"]),
    ("int f(int x = 3) {}", ["1:12 expected ')' or ',' after 'x', found '='"]),
    ("f(int x) { return; }", ["1:1 the type of function 'f' is missing; write 'void f(...)' if "
                              "it returns nothing"]),
    ("void f float x,\n int y) {\n z = ; }", ["1:7 expected ';' after 'f', found type 'float'",
                                             "3:6 expected an expression after '=', found ';'"]),
    ("typedef float real;\ntunable int T = {1 2};\nvoid f(int real) {}\nreal g(real x) {}",
     ["2:19 expected ',' or '}' after expression, found '2'"]),
    ("float f[TM](int x) {}", ["1:8 extents of a result follow its type, as in "
                               "'float[TM] f(...)'"]),
    ("void f(int x) = 3;", ["1:14 expected '{' or ';' after ')', found '='"]),
    ("restrict void f() {}", ["1:1 'restrict' does not apply to a function"]),
    ("}\nvoid f() {}", ["1:1 '}' has no '{' before it"]),
    ("void f() { return; } }\nvoid g() {}", ["1:22 '}' has no '{' before it"]),
    ("void f() {", ["1:11 expected '}' at the end of the file"]),
    ("void f() { if (a) {\n x;\n }\n", ["3:3 expected '}' at the end of the file"]),
    ("void f() { if (x) {\n void g() { }\n void h() {}\n",
     ["2:7 function 'g' begins inside another function; is a '}' missing before it?"]),
    ("void f() {\n void g() { } }\n x = ;",
     ["2:7 function 'g' begins inside another function; is a '}' missing before it?",
      "3:6 expected an expression after '=', found ';'"]),
    ("union U { int a; } f(int x) { y = 1; }\nvoid g() { z = ; }",
     ["1:1 unions are not supported; 'bitcast<T>(x)' reads the bits of x as another type",
      "2:16 expected an expression after '=', found ';'"]),
    ("tunable int T", ["1:14 expected ';' after 'T', found end of file"]),
    ("tunable int T = {1, 2", ["1:22 expected ',' or '}' after expression, found end of file"]),
    ("kernel void f", ["1:14 expected ';' after 'f', found end of file"]),
    ("kernel void f(", ["1:15 expected a type after '(', found end of file"]),
    ("kernel void f()", ["1:16 expected '{' or ';' after ')', found end of file"]),
    ("@", ["1:2 expected an expression after '@', found end of file"]),
])  # fmt: skip
def test_outside_functions(text: str, expected: list[str]) -> None:
    assert briefly(text) == expected


def test_every_unsupported_thing_of_a_real_file_gets_one_message() -> None:
    assert briefly("""\
struct Point { float x; float y; };
int counter;
const int N = 4
kernel void f(float* p, int n) {
  float t[N] = {0};
  for (int i = 0; i < n; i++ {
    switch (i) { case 0: break; }
    flaot z = *p;
  }
  if (n > 3 {
    p.x = 1;
  } else goto end;
  x = (1 + 2;
  int y = ;
}
kernel void g(float **q) {
  return
}
""") == [
        "2:5 'counter' is a variable outside a function, which is not supported; make it a "
        "parameter of the kernel, a 'const' scalar or a '__constant__' table",
        "3:16 expected ';' after expression, found 'kernel'",
        "5:16 initialiser lists are only for structs and tunables; write the value without braces; "
        "it fills the tile",
        "6:29 expected ')' after expression, found '{'",
        "7:5 'switch' is not supported; write a chain of 'if' and 'else if'",
        "8:5 unknown type name 'flaot'; did you mean 'float'?",
        "10:12 expected ')' after expression, found '{'",
        "12:10 'goto' is not supported; use loops, 'break' and 'continue'",
        "13:13 expected ')' after expression, found ';'",
        "14:11 expected an expression after '=', found ';'",
        "16:22 a pointer to a pointer is not supported; pass each pointer as a parameter",
        "17:9 expected ';' after 'return', found '}'",
    ]


def test_notes_show_the_bracket_on_another_line() -> None:
    (error,) = errors("void f() {\n x = g(a,\n b + 1;\n}")
    assert [(note.message, note.span and note.span.line) for note in error.notes] == [
        ("to match this '('", 2)]
    (error,) = errors("void f() {\n while (a) {\n x;\n}\n")
    assert [(note.message, note.span and note.span.line) for note in error.notes] == [
        ("to match this '{'", 1)]
    (error,) = errors("void f() { x = g(a; }")
    assert error.notes == ()


def test_loops_of_other_languages() -> None:
    for head in ("int k in range(4)", "auto k : x"):
        (error,) = errors(f"void f() {{ for ({head}) {{ }} }}")
        assert [note.message for note in error.notes] == [
            "a loop counts, as in 'for (int i = 0; i < n; i++)'"]
    (error,) = errors("void f() { x = a ? b; }")
    assert error.notes == ()


def test_suggestion_of_a_type() -> None:
    for name, meant in (("dobule", "double"), ("uint", "unsigned int"), ("uchar", "unsigned char")):
        (error,) = errors(f"void f() {{ {name} x; }}")
        assert (error.name, error.suggestion) == ("unknown-type", meant)


def test_a_mistake_in_a_macro_is_shown_at_its_use() -> None:
    (error,) = errors("#define BAD 1 +\nvoid f() {\n  x = BAD;\n}")
    assert error.span is not None
    assert (error.span.line, error.span.column) == (3, 10)
    (error,) = errors("#define LONG (a b)\nvoid f() {\n  x = LONG;\n}")
    assert error.span is not None and error.span.line == 3


def test_the_error_limit_stops_the_parse() -> None:
    diagnostics = Diagnostics(limit=3)
    tokens = tokenize(SourceFile("t.tc", "void f() {" + "x = ;\n" * 10 + "}")).tokens
    with pytest.raises(CompileError):
        parser.parse(tokens, diagnostics)
    assert diagnostics.errors == 3


def test_many_errors_take_linear_time() -> None:
    assert len(errors("void f() {" + "x = ;\n y = a b;\n" * 1000 + "}")) == 2000


def test_nearly_every_single_mistake_gets_a_single_message() -> None:
    """Each token of a listing deleted, and doubled: what is still right may be silent, but only
    damaged braces give several messages."""
    tokens = tokenize(SourceFile("t.tc", MATMUL)).tokens
    for index, token in enumerate(tokens[:-1]):
        for damaged in ([*tokens[:index], *tokens[index + 1 :]],
                        [*tokens[:index], token, *tokens[index:]]):
            diagnostics = Diagnostics(limit=0)
            try:
                parser.parse(damaged, diagnostics)
            except CompileError:
                assert diagnostics.errors == 1 or token.text in "{}", (token, diagnostics.items)


# --- nothing but diagnostics, whatever the input ---

_LISTINGS = [tokenize(SourceFile("t.tc", text)).tokens for text in (MATMUL, CONVOLUTION, LATER)]
_ODD = [Token(kind, text, _LISTINGS[0][0].span, True, False) for kind, text in [
    ("identifier", word) for word in (
        "struct switch case goto else if for while do int float kernel const typedef tunable "
        "align multiple_of newaxis alloc_const bitcast half x static_assert sizeof return "
        "__constant__ void").split()
] + [("punctuator", text) for text in
     "( ) [ ] { } ; , : ? @ = += * & ^ . -> ... ++ < > # !".split()]
    + [("string", '"s"'), ("number", "1"), ("number", "0x"), ("character", "'c'")]]


@settings(max_examples=300, deadline=None, database=None)
@given(st.data())
def test_damaged_programs_give_diagnostics(data: st.DataObject) -> None:
    tokens = list(data.draw(st.sampled_from(_LISTINGS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(tokens) - 2))
        match data.draw(st.sampled_from(["delete", "double", "swap", "insert", "cut"])):
            case "delete":
                del tokens[at]
            case "double":
                tokens.insert(at, tokens[at])
            case "swap":
                tokens[at : at + 2] = reversed(tokens[at : at + 2])
                if tokens[-1].kind != "end":
                    tokens[-2:] = reversed(tokens[-2:])
            case "insert":
                tokens.insert(at, data.draw(st.sampled_from(_ODD)))
            case "cut":
                tokens = tokens[: at + 1] + tokens[-1:]
        if len(tokens) < 3:
            break
    check(tokens)


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(st.sampled_from(_ODD), max_size=40))
def test_soups_of_tokens_give_diagnostics(soup: list[Token]) -> None:
    check([*soup, _LISTINGS[0][-1]])


def check(tokens: list[Token]) -> None:
    diagnostics = Diagnostics(limit=0)
    try:
        parser.parse(tokens, diagnostics)
    except CompileError:
        assert diagnostics.errors
    else:
        assert not diagnostics.errors
