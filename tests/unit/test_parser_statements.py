"""The parser: statements, and whole programs in both dialects."""

from __future__ import annotations

import pytest
from parser_listings import CONVOLUTION, LATER, MATMUL
from parser_trees import expression, parse, show, statement, type_text

from tritonc.frontend import syntax
from tritonc.frontend.tree import walk
from tritonc.source import Diagnostics

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
    (variable,) = (n for n in walk(program) if isinstance(n, syntax.Variable))
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
