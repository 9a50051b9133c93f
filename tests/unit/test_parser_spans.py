"""The parser: spans, the printed tree, deeply nested input."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from parser_listings import CONVOLUTION, MATMUL
from parser_trees import items, parse, text_of

from tritonc.frontend import parser, syntax
from tritonc.frontend.tree import children, dump, walk
from tritonc.source import CompileError

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
    assert [(type(node), text_of(node.span)) for node in walk(function)] == expected


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
    found = [text_of(node.span) for node in walk(program) if type(node) is kind]
    assert text in found


def test_name_spans() -> None:
    program = parse("tunable int T; const int X = 1; void f(int n) { int *q = p; g(q); }")
    names = [(text_of(node.name_span), node.name) for node in walk(program)
             if isinstance(node, syntax.Tunable | syntax.Constant | syntax.Function
                           | syntax.Parameter | syntax.Variable)]
    assert names == [(n, n) for n in ("T", "X", "f", "n", "q")]
    (call,) = (node for node in walk(program) if isinstance(node, syntax.Call))
    assert text_of(call.callee_span) == "g"
    (plus,) = (node for node in walk(parse("void f() { x = a  + b; }"))
               if isinstance(node, syntax.Binary))
    assert text_of(plus.operator_span) == "+"


def test_children_lie_inside_their_parents_and_in_order() -> None:
    for text in (MATMUL, CONVOLUTION):
        for node in walk(parse(text)):
            below = [child for child in children(node)
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
    assert dump(program) == """\
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
    bases = {"Node", "Named", "TypedName", "Expression", "Statement"}
    classes = set(re.findall(rf"^class (\w+)\((?:{'|'.join(bases)})\)", _source(), re.M)) - bases
    text = dump(parse("""
        struct s { int a; }; s h(s x) { x.a = 1; return {x.a}; }
        const tunable (TA, TB) = {(1, 2)}; const tunable int T = {1};
        const int X = 1; __constant__ int* d = calloc(8);
        typedef int t; static_assert(true);
        void f(int n __retune) {
            typedef int u; int v; ; { } if (a) b; for (;;) break; while (a) continue;
            do x++; while (a);
            @m *?(k) p = *&q[1] + bitcast<int>((int)1) + 1.0 + 'c' + sizeof(int);
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
            level = [child for parent in level for child in children(parent)]
            count += 1
        return count

    assert depth(parse(text)) <= parser.MAX_DEPTH + 1
