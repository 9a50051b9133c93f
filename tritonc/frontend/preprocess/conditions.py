"""The expressions of `#if` (C11 6.10.1): integers of 64 bits, signed or unsigned.

grammar.lark reads them, as the parentheses of a statement; what it has beside C's operators on
integers is refused.  Arithmetic wraps.  A part that `&&`, `||` or `?:` does not choose may divide
by zero."""

from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any

from lark.exceptions import UnexpectedToken

from tritonc.frontend import syntax
from tritonc.frontend.grammar import KINDS, fixed_terminals, grammar
from tritonc.frontend.lexer import Token
from tritonc.frontend.parser_actions import Actions
from tritonc.frontend.parser_brackets import match_brackets
from tritonc.frontend.parser_types import TypeNames
from tritonc.lalr import Parse
from tritonc.source import CompileError, Diagnostics, Span, fail

NESTING_LIMIT = 200  # operands in operands, each a frame of Python's stack
_PUNCTUATION = frozenset("|| && | ^ & == != < > <= >= << >> + - * / % ~ ! ? : ( )".split())

Value = tuple[int, bool]  # the number, and whether its type is unsigned


def _wrong(span: Span, message: str) -> CompileError:
    """The expression is malformed, or has no value, at `span`."""
    return fail("invalid-condition", span, message)


def evaluate(tokens: list[Token], directive: Span, macros: Container[str],
             diagnostics: Diagnostics) -> bool:
    """Whether the expanded `tokens` after `#if` are true; False after reporting an error.

    The operands of `defined` must have been kept from expansion."""
    try:
        if not tokens:
            raise _wrong(directive, "an integer expression is missing")
        return _value(_parsed(_without_defined(tokens, macros), diagnostics), True)[0] != 0
    except CompileError as error:
        diagnostics.report(error)
        return False


def _without_defined(tokens: list[Token], macros: Container[str]) -> list[Token]:
    """The tokens with a number for each `defined NAME`, and an end."""
    end = Token("end", "", tokens[-1].span, True, True)
    given, found = iter([*tokens, end, end]), list[Token]()
    for token in given:
        if token.text == "defined":
            name = bracket = next(given)
            if bracket.text == "(":
                name = next(given)
            if name.kind != "identifier":
                raise _wrong(token.span, "'defined' needs the name of a macro")
            if bracket is not name and next(given).text != ")":
                raise _wrong(bracket.span, "'(' has no matching ')'")
            token = replace(token, kind="number", text=str(int(name.text in macros)))
        found.append(token)
    return found[:-1]


class _Actions(Actions):
    def _read(self, reader: Callable[[str], Any], token: Token, otherwise: Any) -> Any:
        try:
            return reader(token.text)
        except ValueError as error:
            raise _wrong(token.span, str(error)) from None


def _parsed(tokens: list[Token], diagnostics: Diagnostics) -> syntax.Expression:
    brackets, fixed = match_brackets(tokens), fixed_terminals()
    if brackets.too_deep is not None:
        raise _wrong(tokens[brackets.too_deep].span, "expression nested too deeply")
    actions = _Actions(tokens, diagnostics, TypeNames())
    parse = actions.parse = Parse(grammar(), actions)
    kinds = KINDS | {"identifier": "NAME", "end": fixed[")"]}
    for text in ("__unroll__", "("):
        parse.feed(replace(tokens[0], type=fixed[text]), 0)
    for number, token in enumerate(tokens):
        if token.text == "(" and number not in brackets.partner:
            raise _wrong(token.span, "'(' has no matching ')'")
        token.type = kinds.get(token.kind, "UNSUPPORTED")
        if token.text in _PUNCTUATION and number not in brackets.strays:
            token.type = fixed[token.text]
        try:
            parse.feed(token, number)
        except UnexpectedToken:
            accepted = parse.accepts()
            if fixed[":"] in accepted:
                question = next(v for v in reversed(parse.values) if getattr(v, "text", "") == "?")
                raise _wrong(question.span, "'?' has no matching ':'") from None
            wanted = "an integer" if "NUMBER" in accepted else "an operator"
            found = "the end of the line" if token.kind == "end" else f"'{token.text}'"
            raise _wrong(token.span, f"expected {wanted}, found {found}") from None
    condition: syntax.Expression = parse.values[-2]  # before the parenthesis
    return condition


def _value(node: syntax.Expression, live: bool, depth: int = 0) -> Value:
    """`live` is False in a part that is not chosen."""
    if depth > NESTING_LIMIT:
        raise _wrong(node.span, "expression nested too deeply")
    behind: list[syntax.Binary | syntax.Logical] = []
    while isinstance(node, syntax.Binary | syntax.Logical):
        behind.append(node)
        node = node.left
    value = _operand(node, live, depth + 1)
    for node in reversed(behind):
        if isinstance(node, syntax.Logical):
            decided = (value[0] != 0) == (node.operator == "||")
            right = _value(node.right, live and not decided, depth + 1)
            value = int((value if decided else right)[0] != 0), False
        else:
            value = _apply(node, value, _value(node.right, live, depth + 1), live)
    return value


def _operand(node: syntax.Expression, live: bool, depth: int) -> Value:
    match node:
        case syntax.Name():
            return 0, False
        case syntax.CharLiteral() | syntax.BoolLiteral():
            return int(node.value), False
        case syntax.IntLiteral():
            return node.value, "u" in node.suffix or node.value >= 1 << 63
        case syntax.Unary(operator="!"):
            return int(_value(node.operand, live, depth)[0] == 0), False
        case syntax.Unary(operator="+" | "-" | "~" as operator):
            number, unsigned = _value(node.operand, live, depth)
            return _fit({"+": number, "-": -number, "~": ~number}[operator], unsigned)
        case syntax.Conditional():
            chosen = _value(node.condition, live, depth)[0] != 0
            yes = _value(node.then, live and chosen, depth)
            no = _value(node.orelse, live and not chosen, depth)
            return _fit(yes[0] if chosen else no[0], yes[1] or no[1])
    raise _wrong(node.span, "this is not an integer")


def _fit(number: int, unsigned: bool) -> Value:
    """`number` wrapped into 64 bits."""
    number &= (1 << 64) - 1
    return (number if unsigned or number < 1 << 63 else number - (1 << 64)), unsigned


def _apply(node: syntax.Binary, left: Value, right: Value, live: bool) -> Value:
    """`left operator right`, after C's usual conversions."""
    text, (a, _), (b, _) = node.operator, left, right
    if text in ("<<", ">>"):
        if live and not 0 <= b < 64:
            raise _wrong(node.operator_span, f"shift by {b}; the count must be from 0 to 63")
        return _fit(a << b if text == "<<" else a >> b, left[1]) if 0 <= b < 64 else left
    unsigned = left[1] or right[1]
    a, b = _fit(a, unsigned)[0], _fit(b, unsigned)[0]
    if text in ("/", "%"):
        if live and b == 0:
            raise _wrong(node.operator_span, "division by zero")
        quotient = abs(a) // abs(b or 1) * (-1 if (a < 0) != (b < 0) else 1)
        return _fit(quotient if text == "/" else a - quotient * b, unsigned)
    if text in ("==", "!=", "<", ">", "<=", ">="):
        holds = {"==": a == b, "!=": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}
        return int(holds[text]), False
    result = {"+": a + b, "-": a - b, "*": a * b, "|": a | b, "^": a ^ b, "&": a & b}
    return _fit(result[text], unsigned)
