"""From productions of grammar.lark to syntax-tree nodes: one method for each alias.

A method gets the values of the production's symbols, the index of the first token of each, and the
index of the production's last token.  From the indices come exact spans, parentheses included:
`(a + b) * c` starts at the parenthesis although its left operand's own node does not.

Besides nodes and tokens, a value may be a list, or a small object that holds what belongs to a node
which is not complete yet.  Types and declarations are in frontend/parser_declarations.py.
"""

from __future__ import annotations

from typing import Any

from tritonc.frontend import syntax
from tritonc.frontend.lexer import Token, character_value, literal_bytes
from tritonc.frontend.literals import number
from tritonc.frontend.parser_declarations import DeclarationActions
from tritonc.source import Span

# To the right of an unparenthesised range these look as if they belonged to its end.
_MISLEADING_AFTER_RANGE = frozenset(["+", "-", "<<", ">>"])


class Actions(DeclarationActions):
    """The methods that frontend/parser.py calls, by the names that grammar.lark gives."""

    # --- lists and parts ---

    def empty(self, values: list[Any], firsts: list[int], last: int) -> list[Any]:
        return []

    def nothing(self, values: list[Any], firsts: list[int], last: int) -> None:
        return None

    def single(self, values: list[Any], firsts: list[int], last: int) -> list[Any]:
        return [values[0]]

    def append(self, values: list[Any], firsts: list[int], last: int) -> list[Any]:
        result: list[Any] = values[0]
        result.append(values[1])
        return result

    def append_after_comma(self, values: list[Any], firsts: list[int], last: int) -> list[Any]:
        result: list[Any] = values[0]
        result.append(values[2])
        return result

    def first(self, values: list[Any], firsts: list[int], last: int) -> Any:
        return values[0]

    def second(self, values: list[Any], firsts: list[int], last: int) -> Any:
        return values[1]

    def third(self, values: list[Any], firsts: list[int], last: int) -> Any:
        return values[2]

    # --- the file ---

    def program(self, values: list[Any], firsts: list[int], last: int) -> syntax.Program:
        return syntax.Program(self.span(0, max(last, 0)), tuple(values[0]), tuple(self.structs))

    def append_item(self, values: list[Any], firsts: list[int], last: int) -> list[Any]:
        items, item = values
        if isinstance(item, list):
            items.extend(item)
        else:
            items.append(item)
        return items  # type: ignore[no-any-return]

    # --- statements ---

    def error_statement(self, values: list[Any], firsts: list[int], last: int) -> syntax.Empty:
        return syntax.Empty(self.span(firsts[0], last))

    def error_condition(self, values: list[Any], firsts: list[int],
                        last: int) -> syntax.Expression:
        return syntax.BoolLiteral(self.span(firsts[0], last), True)

    def error_for_head(self, values: list[Any], firsts: list[int], last: int) -> Any:
        return None, None, None

    def empty_statement(self, values: list[Any], firsts: list[int], last: int) -> syntax.Empty:
        return syntax.Empty(self.span(firsts[0], last))

    def expression_statement(self, values: list[Any], firsts: list[int],
                             last: int) -> syntax.ExpressionStatement:
        return syntax.ExpressionStatement(self.span(firsts[0], last), values[0])

    def break_statement(self, values: list[Any], firsts: list[int], last: int) -> syntax.Break:
        return syntax.Break(self.span(firsts[0], last))

    def continue_statement(self, values: list[Any], firsts: list[int],
                           last: int) -> syntax.Continue:
        return syntax.Continue(self.span(firsts[0], last))

    def return_statement(self, values: list[Any], firsts: list[int], last: int) -> syntax.Return:
        return syntax.Return(self.span(firsts[0], last), None)

    def return_value(self, values: list[Any], firsts: list[int], last: int) -> syntax.Return:
        return syntax.Return(self.span(firsts[0], last), self._value(values[1]))

    def do_statement(self, values: list[Any], firsts: list[int], last: int) -> syntax.DoWhile:
        return syntax.DoWhile(self.span(firsts[0], last), values[1], values[4])

    def static_assert(self, values: list[Any], firsts: list[int],
                      last: int) -> syntax.StaticAssert:
        message = self._text(values[4]) if len(values) == 7 else None
        return syntax.StaticAssert(self.span(firsts[0], last), values[2], message)

    def if_statement(self, values: list[Any], firsts: list[int], last: int) -> syntax.If:
        return syntax.If(self.span(firsts[0], last), values[0], values[1], None)

    def if_else(self, values: list[Any], firsts: list[int], last: int) -> syntax.If:
        return syntax.If(self.span(firsts[0], last), values[0], values[1], values[3])

    def while_statement(self, values: list[Any], firsts: list[int], last: int) -> syntax.While:
        return syntax.While(self.span(firsts[0], last), values[0], values[1])

    def for_head(self, values: list[Any], firsts: list[int], last: int) -> Any:
        return values[2], values[3], values[5]

    def static_for_head(self, values: list[Any], firsts: list[int], last: int) -> Any:
        return values[3], values[4], values[6], True

    def unrolled(self, values: list[Any], firsts: list[int], last: int) -> syntax.Statement:
        statement: syntax.Statement = values[1]
        if isinstance(statement, syntax.For | syntax.While | syntax.DoWhile):
            statement.unroll = values[0]
        else:
            self.diagnostics.warning("misplaced-pragma", values[0].span, "'#pragma unroll' stands "
                                     "before a loop; it is ignored here")
        return statement

    def for_statement(self, values: list[Any], firsts: list[int], last: int) -> syntax.For:
        init, condition, step, *static = values[0]
        return syntax.For(self.span(firsts[0], last), init, condition, step, values[1],
                          bool(static))

    def predicated(self, values: list[Any], firsts: list[int], last: int) -> syntax.Predicated:
        return syntax.Predicated(self.span(firsts[0], last), values[0], values[1])

    def block(self, values: list[Any], firsts: list[int], last: int) -> syntax.Block:
        return syntax.Block(self.span(firsts[0], last), tuple(values[1]))

    # --- expressions ---

    def binary(self, values: list[Any], firsts: list[int], last: int) -> syntax.Expression:
        left, operator, right = values
        span = self.span(firsts[0], last)
        before = self.ranges.get(firsts[1] - 1)
        if operator.text == "...":
            self.ranges[last] = span
            return syntax.Range(span, left, right)
        if before is not None:
            self._check_after_range(operator, before)
        kind = syntax.Logical if operator.text in ("&&", "||") else syntax.Binary
        return kind(span, operator.text, left, right, operator.span)

    def error_chained(self, values: list[Any], firsts: list[int], last: int) -> syntax.Expression:
        self.diagnostics.error("syntax-error", values[1].span,
                               "a range has two ends; '...' cannot be chained")
        return self.binary(values, firsts, last)

    def _check_after_range(self, operator: Token, span: Span) -> None:
        if operator.text in _MISLEADING_AFTER_RANGE:
            text = span.file.text[span.start : span.end]
            plain = span.expansion is None and "\n" not in text
            self.diagnostics.warning(
                "range-precedence", span,
                f"'...' binds tighter than '{operator.text}', which applies to the whole range; "
                "parentheses make this explicit",
                suggestion=f"({text})" if plain else None,
            )

    def assign(self, values: list[Any], firsts: list[int], last: int) -> syntax.Assign:
        operator: Token = values[1]
        return syntax.Assign(self.span(firsts[0], last), operator.text[:-1] or None,
                             values[0], self._value(values[2]), operator.span)

    def conditional(self, values: list[Any], firsts: list[int], last: int) -> syntax.Conditional:
        return syntax.Conditional(self.span(firsts[0], last), values[0], values[2],
                                  values[4])

    def unary(self, values: list[Any], firsts: list[int], last: int) -> syntax.Expression:
        operator: Token = values[0]
        if operator.text == "&":
            self.unsupported(operator.span, "the address of a variable cannot be taken; only "
                             "memory that a pointer parameter names has addresses")
        return syntax.Unary(self.span(firsts[0], last), operator.text, values[1])

    def prefix_step(self, values: list[Any], firsts: list[int], last: int) -> syntax.IncDec:
        return syntax.IncDec(self.span(firsts[0], last), values[0].text[0], True, values[1])

    def postfix_step(self, values: list[Any], firsts: list[int], last: int) -> syntax.IncDec:
        return syntax.IncDec(self.span(firsts[0], last), values[1].text[0], False, values[0])

    def dereference(self, values: list[Any], firsts: list[int], last: int) -> syntax.Deref:
        return syntax.Deref(self.span(firsts[0], last), values[1])

    def masked_dereference(self, values: list[Any], firsts: list[int],
                           last: int) -> syntax.MaskedDeref:
        return syntax.MaskedDeref(self.span(firsts[0], last), values[3], values[5])

    def cast(self, values: list[Any], firsts: list[int], last: int) -> syntax.Cast:
        return syntax.Cast(self.span(firsts[0], last), self._plain_type(values[1]), values[3])

    def literal(self, values: list[Any], firsts: list[int], last: int) -> syntax.Expression:
        value = self._value(values[3])
        return syntax.StructValue(self.span(firsts[0], last), self._plain_type(values[1]),
                                  value.values if isinstance(value, syntax.StructValue) else ())

    def list_argument(self, values: list[Any], firsts: list[int], last: int) -> syntax.Expression:
        return self._value(values[0])

    def member(self, values: list[Any], firsts: list[int], last: int) -> syntax.Member:
        name: Token = values[2]
        return syntax.Member(self.span(firsts[0], last), values[0], name.text, name.span)

    def name(self, values: list[Any], firsts: list[int], last: int) -> syntax.Name:
        return syntax.Name(values[0].span, values[0].text)

    def number(self, values: list[Any], firsts: list[int], last: int) -> syntax.Expression:
        token: Token = values[0]
        try:
            return number(token.text, token.span)
        except ValueError as error:
            self.diagnostics.error("invalid-literal", token.span, str(error))
            return syntax.IntLiteral(token.span, 0)

    def character(self, values: list[Any], firsts: list[int], last: int) -> syntax.CharLiteral:
        token: Token = values[0]
        try:
            return syntax.CharLiteral(token.span, character_value(token.text))
        except ValueError as error:
            self.diagnostics.error("invalid-literal", token.span, str(error))
            return syntax.CharLiteral(token.span, 0)

    def string(self, values: list[Any], firsts: list[int], last: int) -> syntax.StringLiteral:
        return syntax.StringLiteral(self.span(firsts[0], last), self._text(values[0]))

    def _text(self, strings: list[Token]) -> str:
        """What adjacent string tokens spell together; bytes outside UTF-8 become surrogates."""
        parts: list[bytes] = []
        for token in strings:
            try:
                parts.append(literal_bytes(token.text))
            except ValueError as error:
                self.diagnostics.error("invalid-literal", token.span, str(error))
        return b"".join(parts).decode("utf-8", "surrogateescape")

    def sizeof(self, values: list[Any], firsts: list[int], last: int) -> syntax.SizeOf:
        return syntax.SizeOf(self.span(firsts[0], last), self._plain_type(values[2]))

    def bitcast(self, values: list[Any], firsts: list[int], last: int) -> syntax.Bitcast:
        return syntax.Bitcast(self.span(firsts[0], last), self._plain_type(values[2]), values[5])

    def call(self, values: list[Any], firsts: list[int], last: int) -> syntax.Call:
        callee: Token = values[0]
        return syntax.Call(self.span(firsts[0], last), callee.text, callee.span, None,
                           tuple(values[2]))

    def call_subscripted(self, values: list[Any], firsts: list[int], last: int) -> syntax.Call:
        callee: Token = values[0]
        extents: list[syntax.Expression] = []
        for entry in values[1]:
            if isinstance(entry, syntax.Index):
                extents.append(entry.index)
            else:
                self.diagnostics.error("syntax-error", entry.span,
                                       f"the brackets after '{callee.text}' hold extents")
        return syntax.Call(self.span(firsts[0], last), callee.text, callee.span, tuple(extents),
                           tuple(values[3]))

    def call_template(self, values: list[Any], firsts: list[int], last: int) -> syntax.Call:
        callee: Token = values[0]
        template = (self._plain_type(values[2][0]), *values[2][1:])
        return syntax.Call(self.span(firsts[0], last), callee.text, callee.span, template,
                           tuple(values[5]))

    # --- subscripts ---

    def subscripted(self, values: list[Any], firsts: list[int], last: int) -> syntax.Subscript:
        return syntax.Subscript(self.span(firsts[0], last), values[0], tuple(values[1]))

    def keep(self, values: list[Any], firsts: list[int], last: int) -> syntax.Keep:
        return syntax.Keep(values[0].span)

    def reduce(self, values: list[Any], firsts: list[int], last: int) -> syntax.Reduce:
        return syntax.Reduce(values[0].span, values[0].text)

    def entry(self, values: list[Any], firsts: list[int], last: int) -> syntax.SubscriptEntry:
        value = values[0]
        if isinstance(value, syntax.Name):
            if value.name == "newaxis":
                return syntax.NewAxis(value.span)
            if value.name in ("max", "min"):
                return syntax.Reduce(value.span, value.name)
        elif (isinstance(value, syntax.Unary) and value.operator == "^"
              and isinstance(value.operand, syntax.IntLiteral)):
            return syntax.Rotate(value.span, value.operand.value)
        return syntax.Index(self.span(firsts[0], last), value)

    def slice_from(self, values: list[Any], firsts: list[int], last: int) -> syntax.Slice:
        return syntax.Slice(self.span(firsts[0], last), values[0], None)

    def slice_to(self, values: list[Any], firsts: list[int], last: int) -> syntax.Slice:
        return syntax.Slice(self.span(firsts[0], last), None, values[1])

    def slice_between(self, values: list[Any], firsts: list[int], last: int) -> syntax.Slice:
        return syntax.Slice(self.span(firsts[0], last), values[0], values[2])
