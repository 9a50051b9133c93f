"""From productions of grammar.lark to syntax-tree nodes: a method for a rule or an alias.

A method gets what lark keeps of the production's symbols: nodes, tokens, and small objects that
hold what belongs to a node which is not complete yet.  From the numbers of the production's tokens
come exact spans, parentheses included: `(a + b) * c` starts at the parenthesis although its left
operand's own node does not.

A production without a method is the node of its name: `masked_deref` makes a `syntax.MaskedDeref`
of its span and its parts.  Types and declarations are in frontend/parser_declarations.py."""

from collections.abc import Callable
from typing import Any, TypeVar

from tritonc.frontend import syntax
from tritonc.frontend.lexer import Token, character_value, literal_bytes
from tritonc.frontend.literals import number
from tritonc.frontend.parser_declarations import DeclarationActions
from tritonc.frontend.parser_types import Typed
from tritonc.source import Span

T = TypeVar("T")
# To the right of an unparenthesised range these look as if they belonged to its end.
_MISLEADING_AFTER_RANGE = frozenset(["+", "-", "<<", ">>"])


class Actions(DeclarationActions):
    """The methods that tritonc/lalr.py calls, by the names that grammar.lark gives."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        kind = getattr(syntax, name.title().replace("_", ""))
        return lambda *parts: kind(self.span(), *[
            self._plain_type(part) if isinstance(part, Typed) else part for part in parts])

    def listed(self, *parts: Any) -> tuple[Any, ...]:
        return parts

    def nothing(self, *_: Any) -> None:
        return None

    def program(self, *items: Any) -> syntax.Program:
        flat = [part for item in items for part in (item if isinstance(item, tuple) else (item,))]
        return syntax.Program(self.span(), tuple(flat), tuple(self.structs.values()))

    # --- statements ---

    def unrolled(self, count: syntax.Expression, statement: syntax.Statement) -> syntax.Statement:
        if isinstance(statement, syntax.For | syntax.While | syntax.DoWhile):
            statement.unroll = count
        else:
            self.diagnostics.warning("misplaced-pragma", count.span, "'#pragma unroll' must "
                                     "come right before a loop; it is ignored here")
        return statement

    def for_statement(self, *parts: Any) -> syntax.For:
        static, init, condition, step, body = parts if len(parts) > 1 else (None,) * 4 + parts
        return syntax.For(self.span(), init, condition, step, body, static is not None)

    def block(self, *statements: syntax.Statement) -> syntax.Block:
        return syntax.Block(self.span(), statements)

    # --- expressions ---

    def binary(self, left: syntax.Expression, operator: Token,
               right: syntax.Expression) -> syntax.Expression:
        span = self.span()
        if operator.text == "...":
            self.ranges[self.parse.last] = span
            return syntax.Range(span, left, right)
        before = self.ranges.get(self.parse.places[1] - 1)
        if before is not None:
            self._check_after_range(operator, before)
        kind = syntax.Logical if operator.text in ("&&", "||") else syntax.Binary
        return kind(span, operator.text, left, right, operator.span)

    def error_chained(self, left: syntax.Expression, operator: Token,
                      right: syntax.Expression) -> syntax.Expression:
        self.diagnostics.error("syntax-error", operator.span,
                               "a range has two ends; '...' cannot be chained")
        return self.binary(left, operator, right)

    def _check_after_range(self, operator: Token, span: Span) -> None:
        if operator.text in _MISLEADING_AFTER_RANGE:
            text = span.file.text[span.start : span.end]
            plain = span.expansion is None and "\n" not in text
            self.diagnostics.warning(
                "range-precedence", span,
                f"'...' binds tighter than '{operator.text}', which applies to the whole range; "
                "parentheses make this explicit",
                suggestion=f"({text})" if plain else None)

    def assign(self, target: syntax.Expression, operator: Token,
               value: syntax.Expression) -> syntax.Assign:
        return syntax.Assign(self.span(), operator.text[:-1] or None, target, value, operator.span)

    def unary(self, operator: Token, operand: syntax.Expression) -> syntax.Unary | syntax.AddressOf:
        if operator.text == "&":
            if isinstance(operand, syntax.Subscript) and len(operand.entries) == 1:
                (entry,) = operand.entries
                if isinstance(entry, syntax.Index):
                    return syntax.AddressOf(self.span(), operand.base, entry)
            self.unsupported(operator.span, "the address of a variable cannot be taken; only "
                             "memory has addresses, as in &p[i] of a pointer p")
        return syntax.Unary(self.span(), operator.text, operand)

    def prefix_step(self, operator: Token, target: syntax.Expression) -> syntax.IncDec:
        return syntax.IncDec(self.span(), operator.text[0], True, target)

    def postfix_step(self, target: syntax.Expression, operator: Token) -> syntax.IncDec:
        return syntax.IncDec(self.span(), operator.text[0], False, target)

    def literal(self, type: Typed, listed: syntax.StructValue) -> syntax.StructValue:
        return syntax.StructValue(self.span(), self._plain_type(type), listed.values)

    def member(self, base: syntax.Expression, name: Token) -> syntax.Member:
        return syntax.Member(self.span(), base, name.text, name.span)

    def name(self, token: Token) -> syntax.Name:
        return syntax.Name(token.span, token.text)

    def number(self, token: Token) -> syntax.Expression:
        wrong: syntax.Expression = syntax.IntLiteral(token.span, 0)
        return self._read(lambda text: number(text, token.span), token, wrong)

    def character(self, token: Token) -> syntax.CharLiteral:
        return syntax.CharLiteral(token.span, self._read(character_value, token, 0))

    def strings(self, *tokens: Token) -> str:
        """What adjacent string tokens spell together; bytes outside UTF-8 become surrogates."""
        parts = [self._read(literal_bytes, token, b"") for token in tokens]
        return b"".join(parts).decode("utf-8", "surrogateescape")

    def _read(self, reader: Callable[[str], T], token: Token, otherwise: T) -> T:
        """The value of a literal; `otherwise`, after a message, of a wrong one."""
        try:
            return reader(token.text)
        except ValueError as error:
            self.diagnostics.error("invalid-literal", token.span, str(error))
            return otherwise

    def call(self, callee: Token, arguments: tuple[syntax.Expression, ...],
             template: tuple[syntax.Expression | syntax.TypeSpec, ...] | None = None
             ) -> syntax.Call:
        return syntax.Call(self.span(), callee.text, callee.span, template, arguments)

    def call_template(self, callee: Token, template: tuple[Any, ...],
                      arguments: tuple[syntax.Expression, ...]) -> syntax.Call:
        return self.call(callee, arguments, (self._plain_type(template[0]), *template[1:]))

    def call_subscripted(self, callee: Token, entries: tuple[syntax.SubscriptEntry, ...],
                         arguments: tuple[syntax.Expression, ...]) -> syntax.Call:
        for entry in entries:
            if not isinstance(entry, syntax.Index):
                self.diagnostics.error("syntax-error", entry.span,
                                       f"the brackets after '{callee.text}' hold extents")
        return self.call(callee, arguments, tuple(
            [entry.index for entry in entries if isinstance(entry, syntax.Index)]))

    # --- subscripts ---

    def slice(self, low: syntax.Expression | None,
              high: syntax.Expression | None) -> syntax.SubscriptEntry:
        span = self.span()
        return syntax.Slice(span, low, high) if low or high else syntax.Keep(span)

    def reduce(self, operator: Token) -> syntax.Reduce:
        return syntax.Reduce(operator.span, operator.text)

    def entry(self, value: syntax.Expression) -> syntax.SubscriptEntry:
        if isinstance(value, syntax.Name):
            if value.name == "newaxis":
                return syntax.NewAxis(value.span)
            if value.name in ("max", "min"):
                return syntax.Reduce(value.span, value.name)
        elif (isinstance(value, syntax.Unary) and value.operator == "^"
              and isinstance(value.operand, syntax.IntLiteral)):
            return syntax.Rotate(value.span, value.operand.value)
        return syntax.Index(self.span(), value)
