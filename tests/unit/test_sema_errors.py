"""What semantic analysis reports: each mistake once, at its place, in words that help."""

from __future__ import annotations

import pytest
from sema_programs import diagnose, lower

from tritonc import driver
from tritonc.diagnostics import DIAGNOSTICS
from tritonc.options import Options
from tritonc.sema import tables
from tritonc.source import CompileError, Diagnostics, SourceFile

HEAD = """tunable int TM = {64};
tunable int TN = {32};
kernel void k(float* p, int* q, const float* c, int n, float f) {
  int rm[TM] = 0 ... TM; int rn[TN] = 0 ... TN; float x[TM, TN] = 0; bool m[TM] = rm < n;
"""

# Bodies of a kernel; ~ marks where the message stands, and is not part of the source.
BODIES = [
    ("~nn = 1;", "undeclared-name", "there is nothing named 'nn'; did you mean 'n'?"),
    ("char a = ~300;", "constant-conversion", "'a' is char, which does not hold 300"),
    ("*q = ~5000000000;", "constant-conversion", "is int, which does not hold 5000000000"),
    ("if (~n = 3) f = 1;", "assigned-condition", "'==' compares"),
    ("while (~n = f > 1) f = 1;", "assigned-condition", "'==' compares"),
    ("if (m)~; x = 1;", "empty-body", "this semicolon is the whole"),
    ("@m~; x = 1;", "empty-body", "'{}' says so on purpose"),
    ("if (~0 < n <= 5) f = 1;", "chained-comparison", "as in 'a < x && x < b'"),
    ("~retrun;", "undeclared-name", "did you mean 'return'?"),
    ("x = x *~*2;", "not-a-pointer", "found int"),
    ("q = q + ~unknown_thing;", "undeclared-name", "there is nothing named 'unknown_thing'"),
    ("x = ~expp(x);", "undeclared-name", "no function 'expp'; did you mean 'exp'?"),
    ("x = ~exp + 1;", "undeclared-name", "'exp' is a builtin function; it can only be called"),
    ("int a; float ~a;", "redefinition", "'a' is declared twice in one block"),
    ("x = x ~+ rm;", "shape-mismatch", "float[64, 32] and int[64] do not match"),
    ("rm = rm ~* rn;", "shape-mismatch", "int[64] and int[32] do not match"),
    ("rm = ~rn;", "shape-mismatch", "'rm' is int[64], but the value is int[32]"),
    ("n = ~rm;", "tile-to-scalar", "'n' is the scalar int, but the value is the tile int[64]"),
    ("int s = ~x[:, +];", "tile-to-scalar", "the value is the tile float[64]"),
    ("x = ~(float[7, 5])x;", "shape-mismatch", "float[64, 32] cannot become float[7, 5]"),
    ("x = f ~% 2;", "type-mismatch", "'%' takes integers, found float and int"),
    ("x = f ~<< 2;", "type-mismatch", "'<<' takes integers, found float and int"),
    ("x = x ~& 1;", "type-mismatch", "'&' takes integers, found float[64, 32] and int"),
    ("p = p ~* 2;", "type-mismatch", "'*' does not take float* and int"),
    ("p = p ~+ f;", "type-mismatch", "'+' does not take float* and float"),
    ("n = p ~- q;", "type-mismatch", "pointers of different types: float* and int*"),
    ("bool b = p ~< q;", "type-mismatch", "pointers of different types: float* and int*"),
    ("p = ~q;", "type-mismatch", "'p' is float*, but the value is int*; a cast (float*)"),
    ("p = ~n;", "type-mismatch", "a number converts to a pointer only by a cast"),
    ("n = ~p;", "type-mismatch", "a pointer converts to a number only by a cast"),
    ("n = *~n;", "not-a-pointer", "'*' needs a pointer or a tile of pointers, found int"),
    ("*~x = 1;", "not-a-pointer", "found float[64, 32]"),
    ("if (~f) n = 1;", "condition-type", "must be bool or an integer, found float"),
    ("if (~p) n = 1;", "condition-type", "found float*; compare the pointer"),
    ("n = n && ~f;", "condition-type", "an operand of '&&' must be bool"),
    ("@(~x) *p = 1;", "condition-type", "a predicate must be bool or an integer"),
    ("*?(~f) p = 1;", "condition-type", "a mask must be bool or an integer"),
    ("while (~m) n++;", "tile-condition", "must be a scalar, found bool[64]; any(...) or all(...)"),
    ("for (; ~rm < n;) n++;", "tile-condition", "found bool[64]"),
    ("do n++; while (~m);", "tile-condition", "found bool[64]"),
    ("n = 1; if (m) ~n = 2;", "predicated-scalar", "'n' is a scalar"),
    ("@m ~n += 2;", "predicated-scalar", "under a tile predicate"),
    ("@m { ~n++; }", "predicated-scalar", "under a tile predicate"),
    ("if (m) ~x = 1;", "shape-mismatch", "under a predicate of shape [64], which does not"),
    ("@m ~*(p + rn) = 1;", "shape-mismatch", "shape [32] is under a predicate of shape [64]"),
    ("if (m) ~return;", "predicated-jump", "'return' under a tile predicate"),
    ("while (n) { @m ~break; }", "predicated-jump", "'break' under a tile predicate"),
    ("while (n) if (m) { if (n) ~continue; }", "predicated-jump", "'continue'"),
    ("~break;", "misplaced-jump", "'break' is not inside a loop"),
    ("if (n) { ~continue; }", "misplaced-jump", "'continue' is not inside a loop"),
    ("~return 1;", "return-type", "'k' is void and cannot return a value"),
    ("*~c = 1;", "const-store", "const float* points to const"),
    ("*(~c + rm) = 1;", "const-store", "const float*[64] points to const"),
    ("const int z = 1; ~z = 2;", "const-assignment", "'z' is const"),
    ("const int ~z;", "const-assignment", "'z' is const and needs a value"),
    ("~TM = 4;", "not-assignable", "'TM' is a tunable"),
    ("(~n + 1) = 4;", "not-assignable", "only a variable and what a pointer points to"),
    ("~x[0, :] = 4;", "subscript-index", "a part of the tile float[64, 32] cannot be assigned"),
    ("~p[n, n] = 4;", "subscript-index", "memory has one axis"),
    ("f = p[~n, n];", "subscript-index", "memory has one axis"),
    ("f = x[~0, 0];", "subscript-index", "an element of the tile float[64, 32] cannot be taken"),
    ("x = x[~1:3, :];", "subscript-index", "a part of the tile float[64, 32]"),
    ("x = ~x[:];", "subscript", "float[64, 32] has 2 axes, but the subscript names 1"),
    ("x = ~rm[:, newaxis, :];", "subscript", "int[64] has 1 axis, but the subscript names 2"),
    ("x = ~n[:];", "subscript", "int has no axes"),
    ("x = x[^0, ~:];", "subscript", "every entry must be a '^k'"),
    ("x = ~x[^0, ^0];", "subscript", "(0, 0) is not a permutation of the axes of float[64, 32]"),
    ("f = sum(x, ~2);", "reduction", "float[64, 32] has axes 0 and 1, found 2"),
    ("f = sum(~f);", "reduction", "'sum' takes a tile, found the scalar float"),
    ("f = ~x[&, &];", "reduction", "'and' combines integers, found float[64, 32]"),
    ("x = ~x @ x;", "dot-operands", "needs [M, K] and [K, N], found float[64, 32] and"),
    ("x = ~dot(rm, rm);", "dot-operands", "two axes or more, found int[64] and int[64]"),
    ("x = ~dot(x, (half)trans(x));", "dot-operands", "one element type"),
    ("int a[~n] = 0;", "not-a-constant", "the extent of a tile must be a constant expression: 'n'"),
    ("int a[~TM * 0] = 0;", "tile-extent", "must be positive, found 0"),
    ("int a[~2.5] = 0;", "not-a-constant", "must be a constant integer, found double"),
    ("int a[~2048, 1024] = 0;", "tile-too-large", "has 2097152 elements; the limit is 1048576"),
    ("rm = 0 ... ~n;", "not-a-constant", "the end of a range must be a constant"),
    ("rm = ~5 ... 5;", "range-bounds", "the range 5 ... 5 is empty"),
    ("x = select(~x, 1, 2);", "condition-type", "the condition of select"),
    ("x = ~clamp(x, 1);", "call-arguments", "'clamp' takes 3 arguments, found 2"),
    ("x = ~exp();", "call-arguments", "'exp' takes 1 argument, found 0"),
    ("x = ~min();", "call-arguments", "'min' takes at least 1 argument"),
    ("x = ~exp[4](x);", "call-arguments", "takes one list of arguments"),
    ("f = ~max(f);", "call-arguments", "two arguments or more, or one tile"),
    ("x = ~exp(p);", "type-mismatch", "'exp' takes numbers, found float*"),
    ("int r[4] = get_global_range(~3);", "launch-axis", "a launch has axes 0 to 2, found 3"),
    ("int r[4] = get_global_range(~n);", "not-a-constant", "the axis of get_global_range"),
    ("rm = ~get_global_range(0);", "global-range", "must be the whole initialiser of a 1-D tile"),
    ("int r[4, 1] = ~get_global_range(0);", "global-range", "but 'r' is int[4, 1]"),
    ("int r[4] = get_global_range(0); rm = ~get_global_range[64](0);", "global-range",
     "in tiles of 64 here, but of 4 elsewhere"),
    ("int u; n = ~u;", "uninitialized", "'u' is read before it gets a value"),
    ("int u; while (n) n += ~u;", "uninitialized", "'u' is read before it gets a value"),
    ("float u[TM]; @m u = ~u + 1;", "uninitialized", "'u' is read before it gets a value"),
    ("for (int i = 0; i < n; i++) { int u; n = ~u; u = i; }", "uninitialized", "'u' is read"),
    ("int u = ~u;", "uninitialized", "'u' is read before it gets a value"),
    ("~g(1);", "undeclared-name", "there is no function 'g'"),
    ("int sum = 1; n = ~sum(x);", "not-a-function", "'sum' is a variable, which hides the builtin"),
    ("~k(p, q, c, n, f);", "kernel-call", "'k' is a kernel"),
    ("f = ~__debug_barrier();", "void-value", "a value is expected here"),
    ("f = abs(~\"text\");", "string-literal",
     "a string can only be an argument"),
    ("n = ~n ? p : 1;", "type-mismatch", "float* and int have no type in common"),
    ("atomic_add(~n, 1);", "not-a-pointer", "found int"),
    ("atomic_add(~(short*)p, 1);", "atomic-type",
     "no atomic add on short"),
    ("atomic_and(~p, 1);", "atomic-type", "no atomic and on float"),
    ("atomic_add(~c, 1);", "const-store", "points to const"),
    ("~printf(\"%d\");", "printf-format", "1 directives, found 0 values"),
    ("printf(\"%d\", ~f);", "printf-format", "'%d' does not print float; '%f' does"),
    ("printf(\"%d\", ~p);", "printf-format", "'%d' does not print float*; '%p' does"),
    ("printf(\"%f\", ~(long)n);", "printf-format", "'%f' does not print long; '%ld' does"),
    ("printf(\"%s\", ~n);", "printf-format", "'%s' is not a directive that can be printed"),
    ("printf(~n);", "string-literal", "the first argument of printf must be a string"),
    ("static_assert(~TM == 8, \"sixty-four\");", "static-assertion", "failed: sixty-four"),
    ("static_assert(~n);", "not-a-constant", "'n' is a parameter"),
    ("n = ~bitcast<double>(f);", "type-mismatch", "float has 32 and double has 64"),
    ("n = ~sizeof(int[4]);", "tile-sizeof", "sizeof takes a scalar type"),
    ("n = ~9223372036854775808;", "literal-range", "fits no signed type"),
    ("~void* v;", "void-type", "pointer to void"),
    ("int a __multipleof(~0) = 4;", "call-arguments", "must be positive"),
    ("x = trans(x, 0, ~n);", "not-a-constant", "an axis must be a constant"),
    ("x = ~reshape(x, 3, 3);", "shape-mismatch", "has 2048 elements, [3, 3] has 9"),
    ("x = ~broadcast(x, 64);", "shape-mismatch", "does not broadcast to [64]"),
    ("x = scan(x, 0, ~n);", "reduction", "one of sum, prod, max, min, any, all"),
    ("x = ~m ? x : 0;", "shape-mismatch", "bool[64] and float[64, 32]"),
    # warnings
    ("n = ~f;", "float-to-int", "'n' is int: the float is cut off"),
    ("*q = ~1.5;", "float-to-int", "the element behind 'int*' is int: the double is cut off"),
    ("float* w = ~c;", "discarded-const", "drops the 'const' of const float*"),
    ("n = n ~>> 32;", "shift-count", "the shift count 32 is not between 0 and 31"),
    ("n = n ~/ 0;", "division-by-zero", "'/' by zero"),
    ("n = n & 1 ~== 0;", "bitwise-precedence", "'==' binds tighter than '&'"),
]


def place_of(marked: str) -> tuple[str, int, int]:
    """The source without its mark, and the mark's line and column."""
    at = marked.index("~")
    before = marked[:at]
    return before + marked[at + 1:], before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


@pytest.mark.parametrize(("text", "name", "message"), BODIES,
                         ids=lambda value: None if not isinstance(value, str) else value[:30])
def test_a_mistake_gives_one_message_at_its_place(text: str, name: str, message: str) -> None:
    source, line, column = place_of(HEAD + text + "\n}")
    found = diagnose(source)
    assert [d.name for d in found] == [name], [d.message for d in found]
    item = found[0]
    assert message in item.message
    assert item.span is not None
    assert (item.span.line, item.span.column) == (line, column), item.message
    assert item.severity == DIAGNOSTICS[name].severity


@pytest.mark.parametrize("text", [
    "int n2; int n3; { float n2; }",
    "f = ~(int)f;",
    "n = -(long)p;",
    "@m { int i; i = 1; i++; }",
    "@m { while (n) { break; } }",
    "n = 2.0; n = (int)f;",
    "int u; if (n) u = 1; n = u;",
    "int u; for (int i = 0; i < n; i++) { if (i) n += u; u = i; }",
    "float u[TM]; @m u = 1;",
    "p = 0; bool b = p; b = p == 0;",
    "const float* w = p; w = c;",
    "n = n >> 31;",
    "n = (n & 1) == 0; n = n & (f < 1); n = n >> (31 - n) << 2;",
    "int i[TM] = 0 ... TM; bool b[TM] = i < 3 & i > n; b = b & i == 0;",
    "{ int sum = 1; n = sum; } f = sum(x);",
    "while (x[+, +] > 0 && any(m)) x -= 1;",
    "(void)n; ;",
])
def test_what_is_no_mistake(text: str) -> None:
    assert diagnose(HEAD + text + "\n}") == []


FILES = [
    ("int f() { return 1; } int ~f() { return 2; } kernel void k() {}", "redefinition",
     "is defined twice"),
    ("int f(float a); int ~f(int a) { return a; } kernel void k(int* p) { *p = f(1); }",
     "redefinition", "'f' is declared with other types elsewhere"),
    ("int f(int a) { return a; } int ~f(int a, int b); kernel void k(int* p) { *p = f(1); }",
     "redefinition", "'f' is declared with other types elsewhere"),
    ("int f(int a) { return ~f(a); } kernel void k(int* p) { *p = 1; }", "recursion",
     "'f' calls itself"),
    ("int f(int a) { return g(a); } int g(int a) { return ~f(a); }"
     "kernel void k(int* p) { *p = f(1); }", "recursion", "'f' calls itself"),
    ("int f(int a) { if (a) return 1; ~} kernel void k(int* p) { *p = f(1); }", "missing-return",
     "'f' must return a value of type int on every path"),
    ("int f() { ~return; } kernel void k(int* p) { *p = f(); }", "return-type",
     "'f' must return a value of type int"),
    ("int f(int a) { return a; } kernel void k(int* p) { *p = ~f(); }", "call-arguments",
     "'f' takes 1 argument, found 0"),
    ("int f(int a, int b) { return a; } kernel void k(int* p) { *p = ~f(1); }", "call-arguments",
     "'f' takes 2 arguments, found 1"),
    ("int f(int a[4]) { return a[+]; } kernel void k(int* p) { *p = f(~0 ... 3); }",
     "shape-mismatch", "parameter 'a' of 'f' is int[4], but the value is int[3]"),
    ("int f(int* a) { return *a; } kernel void k(float* p) { *p = f(~p); }", "type-mismatch",
     "parameter 'a' of 'f' is int*, but the value is float*"),
    ("int f(int a); kernel void k(int* p) { *p = ~f(1); }", "undeclared-name", "has no body"),
    ("void unused(int* p) { *p = ~nothing_such; } kernel void k(int* p) { *p = 1; }",
     "undeclared-name", "'nothing_such'"),
    ("~kernel int k(int* p) { return 1; }", "kernel-signature", "kernel 'k' must be void"),
    ("kernel void k(int ~p[4]) { }", "kernel-signature",
     "is a tile of int; a launch passes only scalars and pointers, as in 'int* p'"),
    ("kernel void k(int n, float ~p[n]) { }", "kernel-signature", "is a tile of float"),
    ("~int f() { return 1; }", "no-kernel", "there is no kernel here"),
    ("tunable int ~TM; kernel void k(int* p) { *p = TM; }", "unbound-tunable", "--tune TM="),
    ("~tunable float TM = {1}; kernel void k(int* p) { *p = 1; }", "tunable-type", "is float"),
    ("tunable int A = {1}; tunable int B = {~A}; kernel void k(int* p) { *p = B; }",
     "not-a-constant", "the values of a tunable cannot depend on another"),
    ("const int A = ~B; const int B = A; kernel void k(int* p) { *p = A; }", "not-a-constant", ""),
    ("tunable int A = {1}; const int ~A = 2; kernel void k(int* p) { *p = 1; }", "redefinition",
     "'A' is declared twice"),
    ("const int A = ~1.5; kernel void k(int* p) { *p = A; }", "float-to-int",
     "constant 'A' is int"),
    ("__constant__ int* t = alloc_const int[4]; for (int i = 0; i < 5; i++) ~t[i] = i;"
     "kernel void k(int* p) { *p = t[0]; }", "constant-table", "index 4 is outside of table 't'"),
    ("__constant__ int* t = alloc_const int[4]; kernel void k() { ~t[0] = 1; }",
     "constant-memory", "'t' is in constant memory"),
    ("__constant__ int* t = alloc_const int[4]; kernel void k() { *~t = 1; }",
     "constant-memory", "points to constant memory"),
    ("__constant__ int* t = alloc_const ~float[4]; kernel void k(int* p) { *p = t[0]; }",
     "constant-table", "its elements are float"),
    ("__constant__ int* t = alloc_const int[~0]; kernel void k(int* p) { *p = t[0]; }",
     "constant-table", "must be positive, found 0"),
    ("__constant__ int* ~t = alloc_const int[20000]; kernel void k(int* p) { *p = t[0]; }",
     "constant-table", "80000 bytes; constant memory has 65536"),
    ("__constant__ char* s = alloc_const char[33001]; __constant__ half* ~t = "
     "alloc_const half[20000]; kernel void k(int* p) { *p = s[0]; }",
     "constant-table", "those before it 33008; constant"),
    ("__constant__ char* ~t = alloc_const char[0x7fffffff]; t[2] = 7;"
     "kernel void k(int* p) { *p = t[0]; }", "constant-table", "2147483647 bytes"),
    ("__constant__ int* t = alloc_const int[4]; t[0] = ~t[1]; kernel void k(int* p) { *p = 1; }",
     "not-a-constant", "is not known yet"),
    ("__constant__ int* t = alloc_const int[4]; while (~true) t[0] = 1;"
     "kernel void k(int* p) { *p = 1; }", "constant-table", "a loop that does not end?"),
    ("~missing; kernel void k(int* p) { *p = 1; }", "undeclared-name", "nothing named 'missing'"),
    ("{ int r[4] = ~missing; @(r < 2) r = 1; } kernel void k(int* p) { *p = 1; }",
     "undeclared-name", "nothing named 'missing'"),
    ("~return; kernel void k(int* p) { *p = 1; }", "file-statement", "fill constant tables"),
    ("static_assert(~1 > 2, \"no\"); kernel void k(int* p) { *p = 1; }", "static-assertion", "no"),
    ("kernel void k(read_only int* p) { ~*p = 1; }", "read-only",
     "'p' is declared read_only, but this is a store through it"),
    ("kernel void k(write_only int* p, int* q) { *q = ~*p; }", "write-only", "a load through it"),
    ("kernel void k(int* p, int ~p) { *p = 1; }", "redefinition", "'p' is declared twice"),
    ("kernel void k(float f ~__multipleof(4)) { }", "type-mismatch",
     "only integers and pointers are multiples"),
]


@pytest.mark.parametrize(("text", "name", "message"), FILES,
                         ids=lambda value: None if not isinstance(value, str) else value[:30])
def test_a_mistake_in_a_file(text: str, name: str, message: str) -> None:
    source, line, column = place_of(text)
    found = diagnose(source)
    if "const int A = B" in source:
        assert {d.name for d in found} == {name}
        return
    assert [d.name for d in found] == [name], [d.message for d in found]
    item = found[0]
    assert message in item.message
    assert item.span is not None and (item.span.line, item.span.column) == (line, column)


def test_long_expressions_count_among_the_steps_of_filling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_STEPS", 1000)
    text = ("__constant__ int* t = alloc_const int[20]; for (int i = 0; i < 20; i++) t[i] = {};"
            "kernel void k(int* p) {{ *p = t[1]; }}")
    assert diagnose(text.format("i + 1")) == []
    (found,) = diagnose(text.format("i" + " + i" * 60))
    assert found.name == "constant-table"


def test_tunables_from_outside() -> None:
    source = "tunable int TM = {16, 32}; kernel void k(int* p) { *p = TM; }"
    options = Options(tune={"TM": 48})
    (warning,) = driver.compile(SourceFile("k.tc", source), options, ("tir",)).diagnostics
    assert (warning.name, warning.severity) == ("tunable-value", "warning")
    assert "TM = 48 is not among its values 16, 32" in warning.message
    found = diagnose(source, TN=48)
    assert [d.name for d in found] == ["unknown-tunable"] and "has: TM" in found[0].message


def test_several_mistakes_in_one_run() -> None:
    source = HEAD + """
      n = unknown + 1;
      x = x + rm;
      float y[TM] = undefined_too;
      y = y * y + y;
      n = unknown;
      q = p;
    }"""
    found = [(d.name, d.span.line if d.span else 0) for d in diagnose(source)]
    assert found == [("undeclared-name", 6), ("shape-mismatch", 7), ("undeclared-name", 8),
                     ("type-mismatch", 11)]


@pytest.mark.parametrize("text, note", [
    ("x = x ** 2;", "there is no operator for powers; write x * x"),
    ("x = x ^ 2;", "it is the exclusive or; a power is a product, as in x * x"),
    ("bool b = rm < n;", "or declare a tile, as in b[64]"),
    ("float v[n];", "'n' is declared here"),
    ("n = n if f > 0 else 0;", "a choice is written 'condition ? a : b'"),
    ("int t[3] = 0 .. 3;", "a range is written 'a ... b'"),
    ("assert(n && \"text\");", "the text of assert is its second argument"),
    ("@(x > 0) { @(rm > 1) x = 1; }", "it is under this predicate, bool[64, 32]"),
    ("float a[4][16]; a[0] = 0; a[1] = 0; a[2] = 0; a[3] = 0; float v[4, 16] = a + 1;",
     "a tile of 2 axes is float[4, 16]"),
])
def test_notes_tell_what_is_meant(text: str, note: str) -> None:
    (found,) = diagnose(HEAD + text + " }")
    assert any(note in n.message for n in found.notes), found


@pytest.mark.parametrize("text", [
    "unsigned char a = 255; char b = 255; unsigned c = -1; char d = (char)300; n = a + b + c + d;",
    "if ((n = 3)) f = 1;", "for (n = 1; n == 1; n = 0);", "bool b = 2; n = b;",
    "bool b = f; n = b; b = 0.5;",
])
def test_what_c_lets_pass(text: str) -> None:
    assert diagnose(HEAD + text + " }") == []


def test_notes_tell_where_things_were_declared() -> None:
    found = diagnose(HEAD + "rm = rn; }")[0]
    assert found.notes[0].message == "'rm' is declared here"
    assert found.notes[0].span is not None and found.notes[0].span.line == 4
    found = diagnose(HEAD + "x = x + rm; }")[0]
    assert "x[:, newaxis] aligns the [64] with axis 0 of the [64, 32]" in found.notes[0].message
    assert found.notes[1].message.startswith("x[:, max] is the greatest along axis 1")
    found = diagnose(HEAD + "@m n = 1; }")[0]
    assert any("any(...)" in n.message and n.span is not None for n in found.notes)
    assert diagnose(HEAD + "nn = 1; }")[0].suggestion == "n"
    for mistake in ("x = x * rm", "x *= rm", "x = max(x, rm)", "x = dot(x, rm)", "x = x @ rm",
                    "x = n ? x : rm"):
        found = diagnose(HEAD + mistake + "; }")[0]
        assert [n.message for n in found.notes][-2:] == ["'x' is declared here",
                                                         "'rm' is declared here"]
    found = diagnose(HEAD + "{ int inner = 1; }\n n = inner; }")[0]
    assert found.notes[0].message == "the block that declares this 'inner' has ended"
    assert found.notes[0].span is not None and found.suggestion is None


@pytest.mark.parametrize("header, note", [
    ("float g(float a)", "declare the parameter 'auto', of any shape"),
    ("float g(auto a)", "declare the result 'auto', of any shape"),
])
def test_a_function_of_scalars_that_gets_a_tile(header: str, note: str) -> None:
    (found,) = diagnose(f"{header} {{ return a + 1; }}\n{HEAD} x = g(x); }}")
    assert found.name == "tile-to-scalar" and any(note in n.message for n in found.notes)


@pytest.mark.parametrize("text", ["float v[TM] = *(p + rm)\n *(p + rm) = v; }",
                                  "float v[TM] = *(p + rm)\n @m *(p + rm) = v; }",
                                  "x = x + 1\n @m *(p + rm) = 1; }"])
def test_a_semicolon_that_is_missing_before_a_store(text: str) -> None:
    (found,) = diagnose(HEAD + text)
    (note,) = found.notes
    assert "';'" in note.message


def test_errors_of_inlined_functions_come_once() -> None:
    source = """int f(int a) { return a + missing; }
      kernel void k(int* p) { *p = f(1) + f(2); }
      kernel void l(int* p) { *p = f(3); }"""
    assert [d.name for d in diagnose(source)] == ["undeclared-name"]


def test_inlining_is_bounded() -> None:
    functions = "int f0(int a) { return a * a + a; }\n" + "".join(
        f"int f{i}(int a) {{ return f{i - 1}(a) + f{i - 1}(a + 1); }}\n" for i in range(1, 30))
    with pytest.raises(CompileError) as caught:
        lower(functions + "kernel void k(int* p) { *p = f29(1); }")
    assert caught.value.diagnostics[-1].name == "inline-limit"
    chain = "int f0(int a) { return a; }\n" + "".join(
        f"int f{i}(int a) {{ return f{i - 1}(a); }}\n" for i in range(1, 200))
    with pytest.raises(CompileError) as caught:
        lower(chain + "kernel void k(int* p) { *p = f199(1); }")
    assert caught.value.diagnostics[-1].name == "inline-limit"


def test_the_error_limit_stops() -> None:
    body = "".join(f"a{i} = 1;" for i in range(50))
    with pytest.raises(CompileError) as caught:
        lower(f"kernel void k() {{ {body} }}", Diagnostics(limit=5))
    assert len(caught.value.diagnostics) == 5
