"""Syntax trees of short texts, and trees as words."""

from __future__ import annotations

from tritonc.frontend import parser, syntax
from tritonc.frontend.preprocess import PreprocessOptions, preprocess
from tritonc.source import Diagnostics, SourceFile, Span


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
        case syntax.AddressOf():
            return f"(&{show(node.base)}[{show(node.index)}])"
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
