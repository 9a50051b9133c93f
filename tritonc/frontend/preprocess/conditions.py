"""The expressions of `#if` (C11 6.10.1): integers of 64 bits, signed or unsigned.

Arithmetic wraps.  A part that `&&`, `||` or `?:` does not choose may divide by zero.
"""

from __future__ import annotations

from collections.abc import Container

from tritonc.frontend.lexer import Token, character_value
from tritonc.frontend.literals import number
from tritonc.frontend.syntax import FloatLiteral, IntLiteral
from tritonc.source import CompileError, Diagnostics, Span, fail

NESTING_LIMIT = 200  # operands in operands, each one or two frames of Python's stack; ( takes two

_PRECEDENCE = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}

Value = tuple[int, bool]  # the number, and whether its type is unsigned


def _wrong(span: Span, message: str) -> CompileError:
    """The expression is malformed, or has no value, at `span`."""
    return fail("invalid-condition", span, message)


def evaluate(tokens: list[Token], directive: Span, macros: Container[str],
             diagnostics: Diagnostics) -> bool:
    """Whether the expanded `tokens` after `#if` are true; False after reporting an error.

    The operands of `defined` must have been kept from expansion.
    """
    try:
        return _Evaluator(tokens, directive, macros).value()[0] != 0
    except CompileError as error:
        diagnostics.report(error)
        return False


class _Evaluator:
    """A recursive-descent evaluator.  `live` is False in a part that is parsed but not chosen."""

    def __init__(self, tokens: list[Token], directive: Span, macros: Container[str]) -> None:
        end = tokens[-1].span if tokens else directive
        self.tokens = [*tokens, Token("end", "", end, True, True)]
        self.at = 0
        self.depth = 0
        self.macros = macros

    def value(self) -> Value:
        if len(self.tokens) == 1:
            raise _wrong(self.tokens[0].span, "an integer expression is missing")
        value = self._ternary(True)
        rest = self._next()
        if rest.kind != "end":
            raise _wrong(rest.span, f"expected an operator, found '{rest.text}'")
        return value

    def _next(self) -> Token:
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def _take(self, text: str) -> bool:
        if self.tokens[self.at].text != text:
            return False
        self.at += 1
        return True

    def _want(self, text: str, opening: Token) -> None:
        if not self._take(text):
            raise _wrong(opening.span, f"'{opening.text}' has no matching '{text}'")

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > NESTING_LIMIT:
            raise _wrong(self.tokens[self.at].span, "expression nested too deeply")

    def _ternary(self, live: bool) -> Value:
        self._enter()
        condition = self._binary(1, live)
        question = self.tokens[self.at]
        if not self._take("?"):
            self.depth -= 1
            return condition
        chosen = condition[0] != 0
        yes = self._ternary(live and chosen)
        self._want(":", question)
        no = self._ternary(live and not chosen)
        self.depth -= 1
        return _fit(yes[0] if chosen else no[0], yes[1] or no[1])

    def _binary(self, least: int, live: bool) -> Value:
        """An expression of operators that bind at least as tightly as `least`."""
        self._enter()
        left = self._unary(live)
        while True:
            operator = self.tokens[self.at]
            precedence = _PRECEDENCE.get(operator.text, 0)
            if precedence < least:
                self.depth -= 1
                return left
            self.at += 1
            if operator.text in ("&&", "||"):
                decided = (left[0] != 0) == (operator.text == "||")
                right = self._binary(precedence + 1, live and not decided)
                left = int((left if decided else right)[0] != 0), False
            else:
                left = _apply(operator, left, self._binary(precedence + 1, live), live)

    def _unary(self, live: bool) -> Value:
        first = self.at
        while self.tokens[self.at].text in ("+", "-", "~", "!"):
            self.at += 1
        signs = self.tokens[first : self.at]
        number, unsigned = self._primary(live)
        for sign in reversed(signs):
            if sign.text == "!":
                number, unsigned = int(number == 0), False
            elif sign.text != "+":
                number, unsigned = _fit(-number if sign.text == "-" else ~number, unsigned)
        return number, unsigned

    def _primary(self, live: bool) -> Value:
        token = self._next()
        if token.text == "(":
            value = self._ternary(live)
            self._want(")", token)
            return value
        if token.kind == "identifier":
            return (self._defined(token) if token.text == "defined" else 0), False
        if token.kind == "number":
            return _integer(token)
        if token.kind == "character":
            try:
                return character_value(token.text), False
            except ValueError as error:
                raise _wrong(token.span, str(error)) from None
        found = "the end of the line" if token.kind == "end" else f"'{token.text}'"
        raise _wrong(token.span, f"expected an integer, found {found}")

    def _defined(self, operator: Token) -> int:
        bracket = self.tokens[self.at]
        parenthesis = self._take("(")
        name = self._next()
        if name.kind != "identifier":
            raise _wrong(operator.span, "'defined' needs the name of a macro")
        if parenthesis:
            self._want(")", bracket)
        return int(name.text in self.macros)


def _integer(token: Token) -> Value:
    try:
        found = number(token.text, token.span)
    except ValueError as error:
        raise _wrong(token.span, str(error)) from None
    if isinstance(found, FloatLiteral):
        raise _wrong(token.span, f"'{token.text}' is not an integer")
    unsigned = isinstance(found, IntLiteral) and "u" in found.suffix
    return int(found.value), unsigned or found.value >= 1 << 63


def _fit(number: int, unsigned: bool) -> Value:
    """`number` wrapped into 64 bits."""
    number &= (1 << 64) - 1
    return (number if unsigned or number < 1 << 63 else number - (1 << 64)), unsigned


def _apply(operator: Token, left: Value, right: Value, live: bool) -> Value:
    """`left operator right`, after C's usual conversions."""
    text = operator.text
    if text in ("<<", ">>"):
        count = right[0]
        if not 0 <= count < 64:
            if live:
                raise _wrong(operator.span, f"shift by {count}; the count must be from 0 to 63")
            return left
        return _fit(left[0] << count if text == "<<" else left[0] >> count, left[1])
    unsigned = left[1] or right[1]
    a, b = _fit(left[0], unsigned)[0], _fit(right[0], unsigned)[0]
    if text in ("/", "%"):
        if b == 0:
            if live:
                raise _wrong(operator.span, "division by zero")
            return 0, unsigned
        quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
        return _fit(quotient if text == "/" else a - quotient * b, unsigned)
    if text in ("==", "!=", "<", ">", "<=", ">="):
        holds = {"==": a == b, "!=": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}
        return int(holds[text]), False
    result = {"+": a + b, "-": a - b, "*": a * b, "|": a | b, "^": a ^ b, "&": a & b}
    return _fit(result[text], unsigned)
