"""The parser: the grammar, expressions, precedence, types, declarations, contextual words.

What syntax errors say is tested in test_parser_errors.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lark import Lark
from lark.exceptions import GrammarError
from parser_trees import expression, items, parse, show, statement, statements, text_of, type_text

from tritonc import lalr
from tritonc.frontend import grammar, syntax
from tritonc.frontend.parser_actions import Actions
from tritonc.frontend.tree import walk
from tritonc.source import Diagnostics

# Binary operators, the higher the tighter.  All associate to the left, `...` not at all.
PRECEDENCE = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6,
    "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8, "+": 9, "-": 9,
    "*": 10, "/": 10, "%": 10, "@": 11, "...": 12,
}  # fmt: skip

# --- the grammar ---


def test_lark_refuses_a_conflict() -> None:
    """strict=True, on which the grammar's claim rests, works without lark's lexer."""
    dangling = 'program: "if" program | "if" program "else" program | "x"'
    Lark(dangling, parser="lalr", lexer=lalr.OurLexer, start="program")
    with pytest.raises(GrammarError, match="Shift/Reduce"):
        Lark(dangling, parser="lalr", lexer=lalr.OurLexer, start="program", strict=True)


def test_every_rule_has_its_method_or_node_and_every_method_its_rule() -> None:
    used = {str(rule.alias or rule.origin.name) for rule in grammar.grammar().builds
            if rule.alias or not rule.options.expand1}
    used = {name for name in used if not name.startswith("_")}
    methods = {name for name in dir(Actions) if not name.startswith("_")}
    nodes = {name for name in used - methods if hasattr(syntax, name.title().replace("_", ""))}
    assert "masked_deref" in nodes
    assert used - nodes == methods - {"span", "error", "unsupported"}


@pytest.mark.parametrize("name", ["grammar.lark", "ir/syntax/ir.lark"])
def test_the_tables_are_kept_and_a_damaged_file_is_written_anew(
        name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path))
    made: list[str] = []
    read = lalr.read
    monkeypatch.setattr(lalr, "read", lambda text: made.append(text) or read(text))
    lalr.load(name)
    (kept,) = (tmp_path / "tritonc").iterdir()
    assert lalr.load(name).names == read(made[0]).names and len(made) == 1
    content = kept.read_bytes()
    for damaged in (content[:100], bytes(len(content)), content[:-1] + b"x", b""):
        made.clear()
        kept.write_bytes(damaged)
        assert lalr.load(name).names == lalr.load(name).names and len(made) == 1
    monkeypatch.setattr(lalr, "__version__", "another")
    lalr.load(name)
    assert len(made) == 2 and len([*(tmp_path / "tritonc").iterdir()]) == 2


def test_without_a_place_for_the_tables_they_are_made_anew(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("no directory")
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(file))
    grammar.grammar.cache_clear()
    try:
        assert "while" in grammar.grammar().names
    finally:
        grammar.grammar.cache_clear()


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
    ("0 ... T * 8 - 1", "0 ... T * 8"), ("a + 0 ... T - 1", "0 ... T"),
    ("0 ... T << 2", "0 ... T"),
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
    "a ? 0 ... T : b", "0 ... D / 2", "a * 0 ... T * 8 % 3",
])
def test_clear_range_does_not_warn(source: str) -> None:
    diagnostics = Diagnostics()
    parse(f"void f() {{ x = {source}; }}", diagnostics)
    assert diagnostics.items == []


@pytest.mark.parametrize("short, long", [
    ("0 ... D / 2", "0 ... (D / 2)"), ("0 ... T * 8 / 2", "0 ... ((T * 8) / 2)"),
    ("a * 0 ... T * 8", "a * (0 ... (T * 8))"), ("a / b * 0 ... T", "(a / b) * (0 ... T)"),
    ("0 ... a @ b * 2", "0 ... ((a @ b) * 2)"), ("a + 0 ... T", "a + (0 ... T)"),
    ("a * T + 0 ... T", "(a * T) + (0 ... T)"), ("-1 ... T % 3 + b", "((-1) ... (T % 3)) + b"),
])
def test_factors_behind_a_range_are_its_end(short: str, long: str) -> None:
    assert show(expression(short)) == show(expression(long))


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
    kinds = [type(node).__name__ for node in walk(program)
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
