"""The parser: every construct, precedence, spans, contextual words, and deeply nested input.

What syntax errors say is tested in test_parser_errors.py.
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from lark import Lark
from lark.exceptions import GrammarError
from parser_listings import CONVOLUTION, LATER, MATMUL

from tritonc import parser, parser_grammar, parser_table, syntax
from tritonc.parser_actions import PRECEDENCE, Actions
from tritonc.preprocess import PreprocessOptions, preprocess
from tritonc.source import CompileError, Diagnostics, SourceFile, Span


def parse(text: str, diagnostics: Diagnostics | None = None) -> syntax.Program:
    diagnostics = diagnostics or Diagnostics()
    done = preprocess(SourceFile("t.tc", text), PreprocessOptions(), diagnostics)
    return parser.parse(done.tokens, diagnostics)


def items(text: str) -> tuple[syntax.Item, ...]:
    return parse(text).items


def statements(body: str) -> tuple[syntax.Statement, ...]:
    (function,) = items(f"void f() {{ {body} }}")
    assert isinstance(function, syntax.Function)
    assert function.body is not None
    return function.body.statements


def statement(body: str) -> syntax.Statement:
    (result,) = statements(body)
    return result


def expression(text: str) -> syntax.Expression:
    result = statement(text + ";")
    assert isinstance(result, syntax.ExpressionStatement)
    return result.expression


def text_of(span: Span) -> str:
    return span.file.text[span.start : span.end]


def type_text(spec: syntax.TypeSpec) -> str:
    parts = ["const"] * spec.const + ["__constant__"] * (spec.space == "constant") + [spec.scalar]
    text = " ".join(parts) + "*" * spec.pointer + " const" * spec.const_pointer
    if spec.extents is not None:
        text += "[" + ", ".join(show(extent) for extent in spec.extents) + "]"
    return text


def show(node: syntax.Node | None) -> str:
    """An expression with all its parentheses, so that a test can compare one line."""
    match node:
        case None:
            return "-"
        case syntax.Name():
            return node.name
        case syntax.IntLiteral():
            return f"{node.value}{node.suffix}"
        case syntax.FloatLiteral():
            return node.text + node.suffix
        case syntax.BoolLiteral():
            return str(node.value).lower()
        case syntax.CharLiteral():
            return f"'{node.value}'"
        case syntax.StringLiteral():
            return repr(node.value)
        case syntax.Unary():
            return f"({node.operator}{show(node.operand)})"
        case syntax.Binary() | syntax.Logical():
            return f"({show(node.left)} {node.operator} {show(node.right)})"
        case syntax.Range():
            return f"({show(node.low)} ... {show(node.high)})"
        case syntax.Assign():
            return f"({show(node.target)} {node.operator or ''}= {show(node.value)})"
        case syntax.IncDec():
            step = node.operator * 2
            inner = show(node.target)
            return f"({step}{inner})" if node.prefix else f"({inner}{step})"
        case syntax.Conditional():
            return f"({show(node.condition)} ? {show(node.then)} : {show(node.orelse)})"
        case syntax.Cast():
            return f"({{{type_text(node.type)}}}{show(node.operand)})"
        case syntax.Bitcast():
            return f"bitcast<{type_text(node.type)}>({show(node.operand)})"
        case syntax.SizeOf():
            return f"sizeof({type_text(node.type)})"
        case syntax.Call():
            template = "" if node.template is None else "<" + ", ".join(
                type_text(part) if isinstance(part, syntax.TypeSpec) else show(part)
                for part in node.template) + ">"
            return f"{node.callee}{template}({', '.join(map(show, node.arguments))})"
        case syntax.Deref():
            return f"(*{show(node.pointer)})"
        case syntax.MaskedDeref():
            return f"(*?({show(node.mask)}){show(node.pointer)})"
        case syntax.Subscript():
            return f"{show(node.base)}[{', '.join(map(show, node.entries))}]"
        case syntax.Keep():
            return ":"
        case syntax.NewAxis():
            return "newaxis"
        case syntax.Reduce():
            return f"reduce {node.operator}"
        case syntax.Rotate():
            return f"rotate {node.axis}"
        case syntax.Index():
            return f"index {show(node.index)}"
        case syntax.Slice():
            return f"{show(node.low)}:{show(node.high)}"
    raise AssertionError(type(node))


# --- the grammar ---


def test_lark_refuses_a_conflict() -> None:
    """strict=True, on which the grammar's claim rests, works without lark's lexer."""
    dangling = 'program: "if" program | "if" program "else" program | "x"'
    Lark(dangling, parser="lalr", lexer=parser_grammar.NoLexer, start="program")
    with pytest.raises(GrammarError, match="Shift/Reduce"):
        Lark(dangling, parser="lalr", lexer=parser_grammar.NoLexer, start="program", strict=True)


def test_every_alias_has_its_method_and_every_method_its_alias() -> None:
    used = {entry.action for row in parser_table.table().rows for entry in row.values()
            if isinstance(entry, parser_table.Reduction) and entry.action is not None}
    methods = {name for name in dir(Actions) if not name.startswith("_")}
    assert used == methods - {"span", "error", "unsupported"}


def test_no_terminal_is_named_as_a_nonterminal() -> None:
    table = parser_table.table()
    origins = {entry.origin for row in table.rows for entry in row.values()
               if isinstance(entry, parser_table.Reduction)}
    assert not origins & table.terminals


# --- expressions ---


@pytest.mark.parametrize("source, expected", [
    ("a + b * c - d", "((a + (b * c)) - d)"),
    ("a = b += c", "(a = (b += c))"),
    ("a <<= b", "(a <<= b)"),
    ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
    ("a ? b = c : d", "(a ? (b = c) : d)"),
    ("a || b && c | d ^ e & f == g < h << i + j * k @ l",
     "(a || (b && (c | (d ^ (e & (f == (g < (h << (i + (j * (k @ l)))))))))))"),
    ("a @ b @ c", "((a @ b) @ c)"),
    ("a - b - c", "((a - b) - c)"),
    ("a / b % c", "((a / b) % c)"),
    ("(a + b) * c", "((a + b) * c)"),
    ("0 ... 16", "(0 ... 16)"),
    ("0...16", "(0 ... 16)"),
    ("0 ...16", "(0 ... 16)"),
    ("pid * TM + 0 ... TM", "((pid * TM) + (0 ... TM))"),
    ("-1 ... n", "((-1) ... n)"),
    ("0 ... TM < n", "((0 ... TM) < n)"),
    ("a @ 0 ... 4", "(a @ (0 ... 4))"),
    ("-a * +b", "((-a) * (+b))"),
    ("!~a", "(!(~a))"),
    ("a ^ b", "(a ^ b)"),
    ("a @ ^b", "(a @ (^b))"),
    ("^a ^ ^b", "((^a) ^ (^b))"),
    ("*p + 1", "((*p) + 1)"),
    ("*(p + off)", "(*(p + off))"),
    ("a * *p", "(a * (*p))"),
    ("*?(m) p + 1", "((*?(m)p) + 1)"),
    ("* ? (m && k) (p + i)", "(*?((m && k))(p + i))"),
    ("*?(m) p += v", "((*?(m)p) += v)"),
    ("m ? *p : 0", "(m ? (*p) : 0)"),
    ("m ?*p:0", "(m ? (*p) : 0)"),
    ("++x - --y", "((++x) - (--y))"),
    ("x++ - y--", "((x++) - (y--))"),
    ("-x++", "(-(x++))"),
    ("(float)x", "({float32}x)"),
    ("(float[8, 4])x", "({float32[8, 4]}x)"),
    ("(const float*)p", "({const float32*}p)"),
    ("-(float[T])*p", "(-({float32[T]}(*p)))"),
    ("(float)(int)-x", "({float32}({int32}(-x)))"),
    ("(float)x * y", "(({float32}x) * y)"),
    ("((float[TM * TN])c)[+]", "({float32[(TM * TN)]}c)[reduce +]"),
    ("bitcast<int>(x)", "bitcast<int32>(x)"),
    ("bitcast<unsigned int>(x)[:, newaxis]", "bitcast<uint32>(x)[:, newaxis]"),
    ("bitcast < x", "(bitcast < x)"),
    ("sizeof(half)", "sizeof(float16)"),
    ("f()", "f()"),
    ("f(a, b = c, d ? e : g)", "f(a, (b = c), (d ? e : g))"),
    ("get_global_range[TM](0)", "get_global_range<TM>(0)"),
    ("get_global_range[TM * 2](0) + 1", "(get_global_range<(TM * 2)>(0) + 1)"),
    ("atomic_add(float, TM, TN)(p, v, m)", "atomic_add<float32, TM, TN>(p, v, m)"),
    ('printf("a\\n" "b", x)', "printf('a\\nb', x)"),
    ("x[:, newaxis]", "x[:, newaxis]"),
    ("(rm < M)[:, newaxis] && k", "((rm < M)[:, newaxis] && k)"),
    ("x[+]", "x[reduce +]"),
    ("x[:, +]", "x[:, reduce +]"),
    ("x[:, max]", "x[:, reduce max]"),
    ("x[min, :]", "x[reduce min, :]"),
    ("x[*, &, |, ^]", "x[reduce *, reduce &, reduce |, reduce ^]"),
    ("x[^1, ^0]", "x[rotate 1, rotate 0]"),
    ("x[:, newaxis][+, :]", "x[:, newaxis][reduce +, :]"),
    ("x[i]", "x[index i]"),
    ("x[+i, -1]", "x[index (+i), index (-1)]"),
    ("x[0:4, :n, n:]", "x[0:4, -:n, n:-]"),
    ("x[a ? b : c]", "x[index (a ? b : c)]"),
    ("'a' + '\\n'", "('97' + '10')"),
    ("true || false", "(true || false)"),
    ("-INFINITY", "(-inf)"),
    ("NAN", "nan"),
    ("kernel + tunable * align - multiple_of(x, 8)",
     "((kernel + (tunable * align)) - multiple_of(x, 8))"),
    ("read_only = write_only", "(read_only = write_only)"),
    ("alloc_const + 1", "(alloc_const + 1)"),
    ("sum = max(a, b)", "(sum = max(a, b))"),
])  # fmt: skip
def test_expression(source: str, expected: str) -> None:
    assert show(expression(source)) == expected


@pytest.mark.parametrize("tight, loose", [
    (tight, loose) for tight in PRECEDENCE for loose in PRECEDENCE
    if PRECEDENCE[tight] > PRECEDENCE[loose] and tight != "..."
])
def test_every_pair_of_operators(tight: str, loose: str) -> None:
    assert show(expression(f"a {tight} b {loose} c")) == f"((a {tight} b) {loose} c)"
    assert show(expression(f"a {loose} b {tight} c")) == f"(a {loose} (b {tight} c))"


@pytest.mark.parametrize("operator", [operator for operator in PRECEDENCE if operator != "..."])
def test_operators_of_one_level_associate_to_the_left(operator: str) -> None:
    for other, level in PRECEDENCE.items():
        if level == PRECEDENCE[operator]:
            assert show(expression(f"a {operator} b {other} c")) == (
                f"((a {operator} b) {other} c)")


@pytest.mark.parametrize("source, value, suffix, decimal", [
    ("0", 0, "", True), ("42", 42, "", True), ("0x1F", 31, "", False), ("017", 15, "", False),
    ("0b101", 5, "", False), ("7u", 7, "u", True), ("7UL", 7, "ul", True), ("7ll", 7, "l", True),
    ("7LLU", 7, "ul", True), ("18446744073709551615", (1 << 64) - 1, "", True),
])  # fmt: skip
def test_integer(source: str, value: int, suffix: str, decimal: bool) -> None:
    literal = expression(source)
    assert isinstance(literal, syntax.IntLiteral)
    assert (literal.value, literal.suffix, literal.decimal) == (value, suffix, decimal)


@pytest.mark.parametrize("source, text, suffix", [
    ("1.5", "1.5", ""), ("1.5f", "1.5", "f"), (".5F", ".5", "f"), ("1.", "1.", ""),
    ("1e-3f", "1e-3", "f"), ("2.5E+10", "2.5E+10", ""), ("0x1.8p3", "0x1.8p3", ""),
    ("1.0L", "1.0", "l"),
])  # fmt: skip
def test_float(source: str, text: str, suffix: str) -> None:
    literal = expression(source)
    assert isinstance(literal, syntax.FloatLiteral)
    assert (literal.text, literal.suffix) == (text, suffix)


@pytest.mark.parametrize("source, where", [
    ("0 ... T * 8", "0 ... T"), ("a + 0 ... T - 1", "0 ... T"), ("0 ... T << 2", "0 ... T"),
])
def test_range_that_looks_longer_warns(source: str, where: str) -> None:
    diagnostics = Diagnostics()
    parse(f"void f() {{ x = {source}; }}", diagnostics)
    (warning,) = diagnostics.items
    assert (warning.name, warning.severity) == ("range-precedence", "warning")
    assert warning.span is not None
    assert text_of(warning.span) == where
    assert warning.suggestion == f"({where})"


@pytest.mark.parametrize("source", [
    "(0 ... T) * 8", "0 ... (T * 8)", "pid * T + 0 ... T", "0 ... T < n", "0 ... T == 3",
    "a ? 0 ... T : b",
])
def test_clear_range_does_not_warn(source: str) -> None:
    diagnostics = Diagnostics()
    parse(f"void f() {{ x = {source}; }}", diagnostics)
    assert diagnostics.items == []


# --- types and declarations ---


@pytest.mark.parametrize("spelling, scalar", [
    ("bool", "bool"), ("int1", "bool"), ("_Bool", "bool"),
    ("char", "int8"), ("signed char", "int8"), ("int8", "int8"), ("int8_t", "int8"),
    ("short", "int16"), ("short int", "int16"), ("int16", "int16"), ("int16_t", "int16"),
    ("int", "int32"), ("signed", "int32"), ("signed int", "int32"), ("int32_t", "int32"),
    ("long", "int64"), ("long long", "int64"), ("long long int", "int64"), ("int64", "int64"),
    ("unsigned char", "uint8"), ("char unsigned", "uint8"), ("uint8", "uint8"),
    ("unsigned short", "uint16"), ("uint16_t", "uint16"),
    ("unsigned", "uint32"), ("unsigned int", "uint32"), ("uint32", "uint32"),
    ("unsigned long", "uint64"), ("unsigned long long", "uint64"), ("uint64_t", "uint64"),
    ("half", "float16"), ("fp16", "float16"), ("float16", "float16"),
    ("bfloat16", "bfloat16"), ("bf16", "bfloat16"),
    ("float", "float32"), ("fp32", "float32"), ("float32", "float32"),
    ("double", "float64"), ("fp64", "float64"), ("float64", "float64"),
    ("tf32", "tf32"), ("float8_e4m3", "float8_e4m3"), ("float8_e5m2", "float8_e5m2"),
])  # fmt: skip
def test_scalar_type(spelling: str, scalar: str) -> None:
    assert scalar in syntax.SCALAR_TYPES
    declaration = statement(f"{spelling} x;")
    assert isinstance(declaration, syntax.Declaration)
    assert declaration.variables[0].type.scalar == scalar


def variables(body: str) -> list[str]:
    """Each variable as `type name {qualifiers} = value`."""
    declaration = statement(body)
    assert isinstance(declaration, syntax.Declaration)
    result = []
    for variable in declaration.variables:
        text = f"{type_text(variable.type)} {variable.name}"
        for qualifier in variable.qualifiers:
            argument = "" if qualifier.argument is None else f"({show(qualifier.argument)})"
            text += f" {qualifier.name}{argument}"
        result.append(text + (f" = {show(variable.initializer)}" if variable.initializer else ""))
    return result


@pytest.mark.parametrize("source, expected", [
    ("int x;", ["int32 x"]),
    ("int x = 3, y;", ["int32 x = 3", "int32 y"]),
    ("float C[TM, TN] = 0;", ["float32[TM, TN] C = 0"]),
    ("float[TM] x, y;", ["float32[TM] x", "float32[TM] y"]),
    ("float* pa[TM] = a, b, *c;", ["float32*[TM] pa = a", "float32 b", "float32* c"]),
    ("const float* p;", ["const float32* p"]),
    ("float const* p;", ["const float32* p"]),
    ("float* const p = q;", ["float32* const p = q"]),
    ("const int x = 3;", ["const int32 x = 3"]),
    ("__constant__ int* pd[TK] = d + k;", ["__constant__ int32*[TK] pd = (d + k)"]),
    ("char __constant__* d;", ["__constant__ int8* d"]),
    ("int d __multipleof(8) [4] = 1;", ["int32[4] d multiple_of(8) = 1"]),
    ("int d [4] __multipleof(8) = 1;", ["int32[4] d multiple_of(8) = 1"]),
    ("multiple_of(8) int d;", ["int32 d multiple_of(8)"]),
    ("align(16) read_only float* p;", ["float32* p align(16) read_only"]),
    ("float* restrict p;", ["float32* p restrict"]),
    ("float* read_only p;", ["float32* p read_only"]),
    ("float* p __noalias __readonly __writeonly __aligned(2 * 8) __retune;",
     ["float32* p restrict read_only write_only align((2 * 8)) retune"]),
    ("int n const;", ["const int32 n"]),
    ("static volatile int n;", ["int32 n static volatile"]),
    ("int align = 3;", ["int32 align = 3"]),
    ("int kernel = 1, multiple_of = 2;", ["int32 kernel = 1", "int32 multiple_of = 2"]),
])  # fmt: skip
def test_declaration(source: str, expected: list[str]) -> None:
    assert variables(source) == expected


def test_contextual_words_at_the_start_of_a_statement() -> None:
    kinds = [type(s).__name__ for s in statements(
        "multiple_of(x, 8); multiple_of(8) int y; align(8) = 3; align(8) const int z = 1; "
        "kernel = 2; @align x = 1;")]
    assert kinds == ["ExpressionStatement", "Declaration", "ExpressionStatement", "Declaration",
                     "ExpressionStatement", "Predicated"]


def test_typedef_and_what_hides_it() -> None:
    first, function = items("""
        typedef float real; typedef unsigned int uint, word;
        void f(word n) {
            real x = (real)1;
            uint *y;
            { int real = 3; real * x; typedef half real2; real2 z; }
            real w;
            int half = 2;
            half * w;
        }
    """)[0], items("typedef float real; real g(real x) { return x; }")[1]
    assert isinstance(first, syntax.Typedef)
    assert (first.name, type_text(first.type)) == ("real", "float32")
    assert isinstance(function, syntax.Function)
    assert type_text(function.returns) == "float32"
    assert type_text(function.parameters[0].type) == "float32"


def test_scopes_of_types() -> None:
    program = parse("""
        typedef float real;
        void f(int real) { real * real; }
        void g(int real);
        void h() { { int real; real * 2; } real x; { real y; } for (real z = 0; ; ) ; }
        real k(real x) { return x; }
    """)
    kinds = [type(node).__name__ for node in syntax.walk(program)
             if isinstance(node, syntax.Declaration | syntax.ExpressionStatement)]
    assert kinds == ["ExpressionStatement", "Declaration", "ExpressionStatement", "Declaration",
                     "Declaration", "Declaration"]


def test_a_local_typedef_ends_with_its_block() -> None:
    local, product = statements("{ typedef int T; T x; } T * x;")
    assert isinstance(local, syntax.Block)
    assert isinstance(local.statements[0], syntax.LocalTypedef)
    assert isinstance(local.statements[1], syntax.Declaration)
    assert isinstance(product, syntax.ExpressionStatement)


def test_tunables_and_constants() -> None:
    shown = []
    for item in items("""
        const tunable int TM = {16, 32, 2 * 32,};
        tunable int TN;
        int tunable const TK = 8, TL = {1, 2};
        const int X = TM * 2, Y = -1;
        const float EPS = 1e-5f;
        static const int Z = 4;
        static_assert(X > 3, "X is" " small");
        static_assert(Y);
        typedef short s;
    """):
        if isinstance(item, syntax.Tunable):
            values = None if item.values is None else [show(v) for v in item.values]
            shown.append(f"tunable {type_text(item.type)} {item.name} {values}")
        elif isinstance(item, syntax.Constant):
            shown.append(f"{type_text(item.type)} {item.name} = {show(item.value)}")
        elif isinstance(item, syntax.StaticAssert):
            shown.append(f"assert {show(item.condition)} {item.message}")
        else:
            shown.append(type(item).__name__)
    assert shown == [
        "tunable const int32 TM ['16', '32', '(2 * 32)']",
        "tunable int32 TN None",
        "tunable const int32 TK ['8']",
        "tunable const int32 TL ['1', '2']",
        "const int32 X = (TM * 2)",
        "const int32 Y = (-1)",
        "const float32 EPS = 1e-5f",
        "const int32 Z = 4",
        "assert (X > 3) X is small",
        "assert Y None",
        "Typedef",
    ]


@pytest.mark.parametrize("source, element, extents", [
    ("__constant__ int* d = alloc_const int[512];", "int32[512]", ["512"]),
    ("int __constant__* d = alloc_const int[8, N];", "int32[8, N]", ["8", "N"]),
    ("int* d __constant__ = alloc_const int[512];", "int32[512]", ["512"]),
    ("__constant__ int* d = calloc(4 * 512);", None, ["(4 * 512)"]),
    ("const int __constant__* d = calloc(2048);", None, ["2048"]),
])
def test_constant_table(source: str, element: str | None, extents: list[str]) -> None:
    (table,) = items(source)
    assert isinstance(table, syntax.ConstantTable)
    assert (table.name, table.type.scalar, table.type.space) == ("d", "int32", "constant")
    assert table.type.pointer
    assert (table.element and type_text(table.element)) == element
    assert [show(extent) for extent in table.extents] == extents


def head(text: str) -> str:
    (function,) = items(text)
    assert isinstance(function, syntax.Function)
    result = "kernel " * function.kernel
    result += "".join(f"{q.name} " for q in function.qualifiers)
    parameters = [" ".join([type_text(p.type), p.name, *(q.name for q in p.qualifiers)]).strip()
                  for p in function.parameters]
    return (f"{result}{type_text(function.returns)} {function.name}({', '.join(parameters)})"
            + (";" if function.body is None else ""))


@pytest.mark.parametrize("source, expected", [
    ("kernel void f(float* a, int n) {}", "kernel void f(float32* a, int32 n)"),
    ("__global__ void f(float* A __noalias __readonly __aligned(16), int n __retune) {}",
     "kernel void f(float32* A restrict read_only align, int32 n retune)"),
    ("void f(restrict read_only align(16) float *a, multiple_of(4) int lda) {}",
     "void f(float32* a restrict read_only align, int32 lda multiple_of)"),
    ("void f() {}", "void f()"),
    ("void f(void) {}", "void f()"),
    ("float[TM, TN] f(float x[TM, TN]) { return x; }",
     "float32[TM, TN] f(float32[TM, TN] x)"),
    ("const float*[T] f(float[T] x) { return x; }", "const float32*[T] f(float32[T] x)"),
    ("static inline int g(int, float* p);", "static inline int32 g(int32, float32* p);"),
    ("__device__ int g(int align) { return align; }", "device int32 g(int32 align)"),
    ("kernel void kernel() {}", "kernel void kernel()"),
    ("static __global__ void f();", "kernel static void f();"),
])  # fmt: skip
def test_function_head(source: str, expected: str) -> None:
    assert head(source) == expected


# --- statements ---


def outline(node: syntax.Statement | None) -> str:
    match node:
        case None:
            return "-"
        case syntax.Block():
            return "{" + " ".join(outline(s) for s in node.statements) + "}"
        case syntax.ExpressionStatement():
            return show(node.expression) + ";"
        case syntax.Declaration():
            return "decl;"
        case syntax.If():
            orelse = "" if node.orelse is None else " else " + outline(node.orelse)
            return f"if {show(node.condition)} {outline(node.then)}{orelse}"
        case syntax.For():
            return (f"for {outline(node.init)} {show(node.condition)} {show(node.step)} "
                    f"{outline(node.body)}")
        case syntax.While():
            return f"while {show(node.condition)} {outline(node.body)}"
        case syntax.DoWhile():
            return f"do {outline(node.body)} while {show(node.condition)}"
        case syntax.Return():
            return f"return {show(node.value)};"
        case syntax.Predicated():
            return f"@{show(node.mask)} {outline(node.body)}"
        case syntax.StaticAssert():
            return f"static_assert {show(node.condition)} {node.message};"
    return type(node).__name__ + ";"


@pytest.mark.parametrize("source, expected", [
    (";", "Empty;"),
    ("{ x; { } }", "{x; {}}"),
    ("if (a) x;", "if a x;"),
    ("if (a) x; else y;", "if a x; else y;"),
    ("if (a) if (b) x; else y;", "if a if b x; else y;"),
    ("if (a) { if (b) x; } else y;", "if a {if b x;} else y;"),
    ("if (a) x; else if (b) y; else z;", "if a x; else if b y; else z;"),
    ("if (a) while (b) if (c) x; else y;", "if a while b if c x; else y;"),
    ("if (a) for (;;) if (c) x; else y; else z;", "if a for - - - if c x; else y; else z;"),
    ("for (int i = 0; i < n; i++) x;", "for decl; (i < n) (i++) x;"),
    ("for (i = 0; ; ) x;", "for (i = 0); - - x;"),
    ("for (;;) ;", "for - - - Empty;"),
    ("for (;; i += 2) { break; continue; }", "for - - (i += 2) {Break; Continue;}"),
    ("while (a) x;", "while a x;"),
    ("do x; while (a);", "do x; while a"),
    ("do { x; } while (a && b);", "do {x;} while (a && b)"),
    ("do while (a) x; while (b);", "do while a x; while b"),
    ("return;", "return -;"),
    ("return a + b;", "return (a + b);"),
    ('static_assert(TM > 4, "small");', "static_assert (TM > 4) small;"),
    ("@p x = 1;", "@p (x = 1);"),
    ("@check_c *pc = C;", "@check_c ((*pc) = C);"),
    ("@checkc * pc = C;", "@checkc ((*pc) = C);"),
    ("@(a && b) *pc = C;", "@(a && b) ((*pc) = C);"),
    ("@(a) (*pc) = C;", "@a ((*pc) = C);"),
    ("@check (*pc) = C;", "@check ((*pc) = C);"),
    ("@check (*pc) += C;", "@check ((*pc) += C);"),
    ("@check[:, newaxis] (*pc) = C;", "@check[:, newaxis] ((*pc) = C);"),
    ("@check(i) (*pc) = C;", "@check(i) ((*pc) = C);"),
    ("@check(i) *pc = C;", "@check(i) ((*pc) = C);"),
    ("@m f(x);", "@m f(x);"),
    ("@m (f(x));", "@m(f(x)) Empty;"),
    ("@m[:, newaxis] *p = v;", "@m[:, newaxis] ((*p) = v);"),
    ("@m ++x;", "@m (++x);"),
    ("@m x++;", "@m (x++);"),
    ("@m *?(k) p = v;", "@m ((*?(k)p) = v);"),
    ("@m { x; y; }", "@m {x; y;}"),
    ("@m if (a) x; else y;", "@m if a x; else y;"),
    ("if (a) @m x; else y;", "if a @m x; else y;"),
    ("if (a) @m if (b) x; else y;", "if a @m if b x; else y;"),
    ("@m for (;;) x;", "@m for - - - x;"),
    ("@m @k x = y @ z;", "@m @k (x = (y @ z));"),
    ("@true x = 1;", "@true (x = 1);"),
])  # fmt: skip
def test_statement(source: str, expected: str) -> None:
    assert outline(statement(source)) == expected


def test_a_call_after_the_matrix_product_is_no_mask() -> None:
    assert show(expression("c = a @ trans(b)")) == "(c = (a @ trans(b)))"


def test_macros_of_subscripts_and_arguments() -> None:
    program = parse("""
        #define ROWS :, newaxis
        #define SHAPE TM, TK
        #define T ^a
        #define NAME matmul
        kernel void NAME(float* a) { float x[SHAPE] = y[ROWS] @ T; }
    """)
    (variable,) = (n for n in syntax.walk(program) if isinstance(n, syntax.Variable))
    assert type_text(variable.type) == "float32[TM, TK]"
    assert show(variable.initializer) == "(y[:, newaxis] @ (^a))"


# --- whole programs in both dialects ---


@pytest.mark.parametrize("text", [MATMUL, CONVOLUTION, LATER])
def test_listing_parses_without_a_word(text: str) -> None:
    diagnostics = Diagnostics()
    parse(text, diagnostics)
    assert diagnostics.items == []


def test_the_matrix_product_of_the_paper() -> None:
    program = parse(MATMUL)
    kernel = program.items[-1]
    assert isinstance(kernel, syntax.Function)
    assert kernel.kernel and kernel.body is not None
    loop = kernel.body.statements[6]
    assert isinstance(loop, syntax.For)
    assert show(loop.condition) == "(k >= 0)"
    assert isinstance(loop.body, syntax.Block)
    assert [outline(s) for s in loop.body.statements[5:]] == [
        "(C += dot(A, trans(B)));", "(pa = (pa + (TK * M)));", "(pb = (pb + (TK * N)));"]
    assert outline(kernel.body.statements[-1]) == "@check_c ((*pc) = C);"


def test_statements_that_fill_a_constant_table() -> None:
    program = parse(CONVOLUTION)
    kinds = [type(item).__name__ for item in program.items]
    assert kinds == ["Tunable", "Tunable", "Tunable", "Constant", "Constant", "Constant",
                     "ConstantTable", "For", "Block", "ExpressionStatement", "Function"]
    loop = program.items[7]
    assert isinstance(loop, syntax.For)
    assert outline(loop.body) == "(delta[index c] = (((c * 28) * 28) + ((c % 3) * 28)));"


# --- spans ---


def test_spans_are_exact() -> None:
    source = "void f(int n) { x = (a + b) * c[:, 1]; if (x) { y = -f(z, (w)); } else @m *p = 1; }"
    expected = [
        (syntax.Function, source),
        (syntax.TypeSpec, "void"),
        (syntax.Parameter, "int n"),
        (syntax.TypeSpec, "int"),
        (syntax.Block, source[source.index("{") :]),
        (syntax.ExpressionStatement, "x = (a + b) * c[:, 1];"),
        (syntax.Assign, "x = (a + b) * c[:, 1]"),
        (syntax.Name, "x"),
        (syntax.Binary, "(a + b) * c[:, 1]"),
        (syntax.Binary, "a + b"),
        (syntax.Name, "a"),
        (syntax.Name, "b"),
        (syntax.Subscript, "c[:, 1]"),
        (syntax.Name, "c"),
        (syntax.Keep, ":"),
        (syntax.Index, "1"),
        (syntax.IntLiteral, "1"),
        (syntax.If, source[source.index("if") : -2]),
        (syntax.Name, "x"),
        (syntax.Block, "{ y = -f(z, (w)); }"),
        (syntax.ExpressionStatement, "y = -f(z, (w));"),
        (syntax.Assign, "y = -f(z, (w))"),
        (syntax.Name, "y"),
        (syntax.Unary, "-f(z, (w))"),
        (syntax.Call, "f(z, (w))"),
        (syntax.Name, "z"),
        (syntax.Name, "w"),
        (syntax.Predicated, "@m *p = 1;"),
        (syntax.Name, "m"),
        (syntax.ExpressionStatement, "*p = 1;"),
        (syntax.Assign, "*p = 1"),
        (syntax.Deref, "*p"),
        (syntax.Name, "p"),
        (syntax.IntLiteral, "1"),
    ]
    (function,) = items(source)
    assert [(type(node), text_of(node.span)) for node in syntax.walk(function)] == expected


@pytest.mark.parametrize("kind, text", [
    (syntax.Tunable, "const tunable int T = {1, 2};"),
    (syntax.Constant, "const int X = 4 + 1;"),
    (syntax.ConstantTable, "__constant__ int* d = alloc_const int[4];"),
    (syntax.Typedef, "typedef unsigned int uint"),
    (syntax.Qualifier, "__multipleof(4 + 4)"),
    (syntax.StaticAssert, 'static_assert(X, "no");'),
    (syntax.For, "for (;;) { break; }"),
    (syntax.Break, "break;"),
    (syntax.While, "while (a) continue;"),
    (syntax.Continue, "continue;"),
    (syntax.DoWhile, "do ; while (a);"),
    (syntax.Empty, ";"),
    (syntax.Return, "return a ? b : c;"),
    (syntax.Conditional, "a ? b : c"),
    (syntax.Variable, "pa[TM, TK] = a + 0 ... TM"),
    (syntax.Declaration, "float* pa[TM, TK] = a + 0 ... TM;"),
    (syntax.Range, "0 ... TM"),
    (syntax.Cast, "(float[TM])(x)"),
    (syntax.Bitcast, "bitcast<int>(y + 1)"),
    (syntax.SizeOf, "sizeof(half)"),
    (syntax.MaskedDeref, "*?(m) (p)"),
    (syntax.IncDec, "k++"),
    (syntax.Logical, "(u) && (v)"),
    (syntax.Reduce, "max"),
    (syntax.Rotate, "^3"),
    (syntax.NewAxis, "newaxis"),
    (syntax.Slice, "1:2"),
    (syntax.StringLiteral, '"s" "t"'),
    (syntax.FloatLiteral, "1.5f"),
    (syntax.CharLiteral, "'c'"),
    (syntax.BoolLiteral, "true"),
])  # fmt: skip
def test_span_of(kind: type[syntax.Node], text: str) -> None:
    program = parse("""
        const tunable int T = {1, 2};
        const int X = 4 + 1;
        __constant__ int* d = alloc_const int[4];
        typedef unsigned int uint;
        static_assert(X, "no");
        void f(int n __multipleof(4 + 4)) {
            for (;;) { break; }
            while (a) continue;
            do ; while (a);
            float* pa[TM, TK] = a + 0 ... TM;
            x = (float[TM])(x); y = bitcast<int>(y + 1) + sizeof(half); *?(m) (p) = k++;
            z = (u) && (v); z = w[max, ^3, newaxis, 1:2]; printf("s" "t", 1.5f, 'c', true);
            return a ? b : c;
        }
    """)
    found = [text_of(node.span) for node in syntax.walk(program) if type(node) is kind]
    assert text in found


def test_name_spans() -> None:
    program = parse("tunable int T; const int X = 1; void f(int n) { int *q = p; g(q); }")
    names = [(text_of(node.name_span), node.name) for node in syntax.walk(program)
             if isinstance(node, syntax.Tunable | syntax.Constant | syntax.Function
                           | syntax.Parameter | syntax.Variable)]
    assert names == [(n, n) for n in ("T", "X", "f", "n", "q")]
    (call,) = (node for node in syntax.walk(program) if isinstance(node, syntax.Call))
    assert text_of(call.callee_span) == "g"
    (plus,) = (node for node in syntax.walk(parse("void f() { x = a  + b; }"))
               if isinstance(node, syntax.Binary))
    assert text_of(plus.operator_span) == "+"


def test_children_lie_inside_their_parents_and_in_order() -> None:
    for text in (MATMUL, CONVOLUTION):
        for node in syntax.walk(parse(text)):
            below = [child for child in syntax.children(node)
                     if not (isinstance(node, syntax.Variable | syntax.Qualifier)
                             and isinstance(child, syntax.TypeSpec))]
            for child in below:
                if not isinstance(node, syntax.TypeSpec):
                    assert node.span.start <= child.span.start <= child.span.end <= node.span.end
            if not isinstance(node, syntax.ConstantTable):
                assert all(a.span.start <= b.span.start for a, b in pairwise(below))


# --- printing ---


def test_dump() -> None:
    program = parse("kernel void f(const float* p) {\n  @m[:, +] *p = a ? 1.5f : -n;\n}\n")
    assert syntax.dump(program) == """\
Program <1:1>
  items: Function name='f' kernel=True <1:1>
    returns: TypeSpec scalar='void' <1:1>
    parameters: Parameter name='p' <1:15>
      type: TypeSpec scalar='float32' const=True pointer=True <1:15>
    body: Block <1:31>
      statements: Predicated <2:3>
        mask: Subscript <2:4>
          base: Name name='m' <2:4>
          entries: Keep <2:6>
          entries: Reduce operator='+' <2:9>
        body: ExpressionStatement <2:12>
          expression: Assign <2:12>
            target: Deref <2:12>
              pointer: Name name='p' <2:13>
            value: Conditional <2:17>
              condition: Name name='a' <2:17>
              then: FloatLiteral text='1.5' suffix='f' <2:21>
              orelse: Unary operator='-' <2:28>
                operand: Name name='n' <2:29>
"""


def test_dump_names_every_class() -> None:
    classes = set(re.findall(r"^class (\w+)\((?:Node|Expression|Statement)\)",
                                           _source(), re.M)) - {"Expression", "Statement"}
    text = syntax.dump(parse("""
        const tunable int T = {1}; const int X = 1; __constant__ int* d = calloc(8);
        typedef int t; static_assert(true);
        void f(int n __retune) {
            typedef int u; int v; ; { } if (a) b; for (;;) break; while (a) continue;
            do x++; while (a);
            @m *?(k) p = *q + bitcast<int>((int)1) + 1.0 + 'c' + sizeof(int);
            c = a && b ? x[:, newaxis, +, ^1, i, 1:] : 0 ... -4; g("s"); return;
        }
    """))
    assert classes <= set(re.findall(r"(?:^|: )([A-Z]\w+)", text))


def _source() -> str:
    with open(syntax.__file__, encoding="utf-8") as file:
        return file.read()


# --- deep and long input ---


@pytest.mark.parametrize("opening, inner, closing", [
    ("(", "1", ")"), ("- ", "1", ""), ("!", "1", ""), ("*", "p", ""), ("(int)", "1", ""),
    ("f(", "1", ")"), ("x[", "1", "]"), ("a ? b : ", "c", ""), ("a = ", "b", ""),
    ("a + (", "b", ")"), ("", "x", "[:]"), ("", "x", "++"), ("", "1", " + 1"),
    ("*?(m) ", "p", ""), ("bitcast<int>(", "1", ")"),
])
@pytest.mark.parametrize("count", [6_000, 1200])
def test_deep_expression_is_one_error(opening: str, inner: str, closing: str, count: int) -> None:
    with pytest.raises(CompileError) as error:
        parse("void f() { x = " + opening * count + inner + closing * count + "; }")
    assert [item.name for item in error.value.diagnostics] == ["nested-too-deeply"]
    assert error.value.diagnostics[0].span is not None


@pytest.mark.parametrize("opening, closing", [
    ("{", "}"), ("if (a) ", ""), ("if (a) ; else ", ""), ("while (a) ", ""), ("@p ", ""),
    ("for (;;) ", ""), ("do ", " while (a);"), ("if (a) {", "}"),
])
def test_deep_statement_is_one_error(opening: str, closing: str) -> None:
    with pytest.raises(CompileError) as error:
        parse("void f() { " + opening * 6_000 + "x;" + closing * 6_000 + " }")
    assert [item.name for item in error.value.diagnostics] == ["nested-too-deeply"]


@pytest.mark.parametrize("text", [
    "void f() { x = " + "(" * 200 + "1" + ")" * 200 + "; }",
    "void f() { x = " + "- " * 200 + "1; }",
    "void f() { x = " + " + ".join(["a"] * 900) + "; }",
    "void f() { " + "{" * 200 + "}" * 200 + " }",
    "void f() { " + "if (a) { b; } else " * 200 + "c; }",
    "void f() { " + "x = 1; " * 5000 + "}",
    "const tunable int T = {" + ", ".join(["1"] * 5000) + "};",
    "void f(" + ", ".join(f"int a{i}" for i in range(1000)) + ") {}",
])
def test_reasonable_sizes_parse(text: str) -> None:
    def depth(node: syntax.Node) -> int:
        level, count = [node], 0
        while level:
            level = [child for parent in level for child in syntax.children(parent)]
            count += 1
        return count

    assert depth(parse(text)) <= parser.MAX_DEPTH + 1
